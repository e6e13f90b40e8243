//! The programs and packages that tests need in addition to the pinned Rust toolchain. Finds them,
//! installs them, or names them.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo;
use crate::context::Context;
use crate::nextest;
use crate::step::Outcome;
use crate::unpacked;

/// Programs that tests run, and the Debian packages of each.
const PROGRAMS: &[(&str, &str)] = &[
    ("chrt", "util-linux"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("nft", "nftables"),
    ("tshark", "tshark"),
    ("capinfos", "wireshark-common"),
    ("tcpdump", "tcpdump"),
    ("dumpcap", "wireshark-common"),
    ("editcap", "wireshark-common"),
    ("mergecap", "wireshark-common"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("netsniff-ng", "netsniff-ng"),
    ("trafgen", "netsniff-ng"),
    ("xdp-trafficgen", "xdp-tools"),
    ("iperf3", "iperf3"),
    ("ping", "iputils-ping"),
    ("tcpreplay", "tcpreplay"),
    ("dpdk-testpmd", "dpdk-dev"),
    ("zstd", "zstd"),
    ("lz4", "lz4"),
    ("pzstd", "zstd"),
    ("chromium", "chromium"),
    ("jq", "jq"),
    ("nmap", "nmap"),
    ("ngrep", "ngrep"),
    ("p0f", "p0f"),
    ("tcpflow", "tcpflow"),
    ("scapy3", "python3-scapy"),
    ("nm", "binutils"),
    ("python3", "python3"),
    ("setcap", "libcap2-bin"),
    // The fuzzing runtime is C++. Only tests need it.
    ("c++", "g++"),
    // Tests in C are compiled by both, with sanitizers.
    ("gcc", "gcc"),
    ("clang", "clang libclang-rt-dev"),
    // Programs in C over libpcap.
    ("pcap-config", "libpcap-dev"),
    ("valgrind", "valgrind"),
];

/// Checks what is installed, and installs the rest where possible.
pub(crate) fn run(context: &Context) -> Outcome {
    let mut outcome = programs(context);
    outcome += unpacked::run_setup(context, |program| find(program).is_some());
    outcome += test_runner(context);
    outcome += snappi(context);
    outcome += readers(context);
    outcome += nightly(context);
    outcome
}

/// Whether the nightly toolchain has a component.
fn has_nightly(component: &str) -> bool {
    cargo::output(Command::new("rustup").args([
        "component",
        "list",
        "--toolchain",
        "nightly",
        "--installed",
    ]))
    .is_some_and(|list| list.lines().any(|line| line.starts_with(component)))
}

/// The outcome of a step that needs a missing component of the nightly toolchain.
pub(crate) fn without_nightly(context: &Context, component: &str) -> Option<Outcome> {
    let note = || format!("needs a nightly toolchain with {component}; see setup");
    (!has_nightly(component)).then(|| context.unavailable(1, note()))
}

/// The path of `program`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Installs Debian packages where possible; the caller checks the result.
fn install(context: &Context, packages: &[&str]) {
    if context.root && find("apt-get").is_some() {
        let apt = || {
            let mut command = Command::new("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive");
            command
        };
        cargo::succeeds(apt().args(["update", "-qq"]));
        cargo::succeeds(
            apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages),
        );
    }
}

/// Programs that are missing and cannot be installed.
pub(crate) struct Missing {
    pub(crate) count: usize,
    /// Names them, and how to install them.
    pub(crate) note: String,
}

/// Installs missing ones of these programs where possible. Each comes with its Debian packages.
pub(crate) fn missing(context: &Context, programs: &[(&str, &str)]) -> Option<Missing> {
    let is_absent = |(program, _): &(&str, &str)| find(program).is_none();
    let mut absent: Vec<_> = programs.to_vec();
    absent.retain(is_absent);
    let packages = |absent: &[(&str, &str)]| {
        absent.iter().map(|(_, packages)| *packages).collect::<Vec<_>>().join(" ")
    };
    if !absent.is_empty() {
        install(context, &packages(&absent).split(' ').collect::<Vec<_>>());
        absent.retain(is_absent);
    }
    let names: Vec<&str> = absent.iter().map(|(program, _)| *program).collect();
    (!absent.is_empty()).then(|| Missing {
        count: absent.len(),
        note: format!(
            "missing: {}; on Debian or Ubuntu: sudo apt-get install {}",
            names.join(" "),
            packages(&absent)
        ),
    })
}

fn programs(context: &Context) -> Outcome {
    let missing = missing(context, PROGRAMS);
    let absent = missing.as_ref().map_or(0, |missing| missing.count);
    let mut outcome = Outcome { passed: PROGRAMS.len() - absent, ..Outcome::default() };
    if let Some(Missing { count, note }) = missing {
        outcome += context.unavailable(count, note);
    }
    outcome
}

/// The Python client of the Open Traffic Generator. One test uses it to regenerate flow files.
/// Without it, the test uses the files of the repository.
fn snappi(context: &Context) -> Outcome {
    python(context, "snappi", &["snappi"]).map_or_else(Outcome::skip, |()| Outcome::single(true))
}

/// Other engines that read Wirelane's flow files.
fn readers(context: &Context) -> Outcome {
    match python(context, "readers", &["pyarrow", "duckdb"]) {
        Ok(()) => Outcome::single(true),
        Err(note) => context.unavailable(1, note),
    }
}

/// Makes sure that there is a Python with these packages, in a separate, permanent environment. The
/// error tells the user how to make it.
fn python(context: &Context, name: &str, packages: &[&str]) -> Result<(), String> {
    let directory = context.target(name);
    let python = directory.join("bin/python3");
    let import = format!("import {}", packages.join(", "));
    let is_there = || cargo::output(Command::new(&python).args(["-c", &import])).is_some();
    if !is_there() && find("python3").is_some() {
        let made = cargo::succeeds(Command::new("python3").args(["-m", "venv"]).arg(&directory));
        let install = ["-m", "pip", "install", "--quiet"];
        let _ = made && cargo::succeeds(Command::new(&python).args(install).args(packages));
    }
    if is_there() {
        return Ok(());
    }
    let (directory, packages) = (directory.display(), packages.join(" "));
    Err(format!(
        "missing: {packages}; python3 -m venv {directory} && {directory}/bin/pip install {packages}"
    ))
}

fn test_runner(context: &Context) -> Outcome {
    if !nextest::is_there() {
        nextest::install();
    }
    if nextest::is_there() {
        return Outcome::single(true);
    }
    let note = "missing: cargo-nextest; install it with: cargo install --locked cargo-nextest";
    context.unavailable(1, note.to_owned())
}

fn nightly(context: &Context) -> Outcome {
    const COMPONENTS: [&str; 2] = ["miri", "rust-src"];
    let complete = || COMPONENTS.into_iter().all(has_nightly);
    if !complete() && find("rustup").is_some() {
        cargo::succeeds(
            Command::new("rustup")
                .args(["toolchain", "install", "nightly", "--profile", "minimal"])
                .args(["--component", "miri", "--component", "rust-src"]),
        );
    }
    if complete() {
        return Outcome::single(true);
    }
    let note = "missing: a nightly toolchain with miri and rust-src; \
                install rustup (https://rustup.rs), then: \
                rustup toolchain install nightly --component miri --component rust-src";
    context.unavailable(1, note.to_owned())
}
