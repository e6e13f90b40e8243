//! `cargo xtask package --check`: lintian finds no error in the packages, and they can be installed
//! in clean systems, used, and removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::build::Package;
use crate::cargo;
use crate::files;
use crate::setup;
use crate::step::Outcome;

/// The releases of Debian.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// Debian packages with the programs of the checks.
const PROGRAMS: [(&str, &str); 2] = [("lintian", "lintian"), ("mmdebstrap", "mmdebstrap")];

pub(super) fn run(package: &Package) -> Outcome {
    if let Some(missing) = setup::missing(&package.context, &PROGRAMS) {
        return package.context.unavailable(1, missing.note);
    }
    let packages = package.results(".deb");
    if packages.is_empty() {
        return Outcome::failure("there is no package: cargo xtask package");
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error"]).args(&packages);
    let mut outcome = Outcome::single(cargo::succeeds(&mut lintian));
    if !package.context.root {
        let note = "the static program and clean systems need root".into();
        outcome += package.context.unavailable(1 + SUITES.len(), note);
        return outcome;
    }
    outcome += static_programs(package);
    for suite in SUITES {
        outcome += install(package, suite, &packages)
            .unwrap_or_else(|error| Outcome::failure(format!("{suite}: {error}")));
    }
    outcome
}

/// The static program of this machine runs in a root directory without any other file.
fn static_programs(package: &Package) -> Outcome {
    let archives =
        package.results(&format!("{}-unknown-linux-musl.tar.zst", std::env::consts::ARCH));
    let Some(archive) = archives.first() else {
        return Outcome::skip("no static program");
    };
    let empty = package.stage.with_file_name("empty");
    // Left by an earlier run.
    let _ = fs::remove_dir_all(&empty);
    let unpacked = fs::create_dir_all(&empty).is_ok()
        && cargo::succeeds(
            Command::new("tar")
                .args(["--strip-components=1", "--wildcards", "--no-anchored", "-C"])
                .arg(&empty)
                .arg("-xf")
                .arg(archive)
                .arg("*/wirelane"),
        );
    let mut version = Command::new("chroot");
    version.arg(&empty).args(["/wirelane", "--version"]);
    let mut count = Command::new("chroot");
    count.arg(&empty).args(["/wirelane", "count", "-q", "sim:2?count=1000"]);
    Outcome::single(unpacked && cargo::succeeds(&mut version) && cargo::succeeds(&mut count))
}

/// Makes a new system, checks the packages in it, and removes it.
fn install(package: &Package, suite: &str, packages: &[PathBuf]) -> Result<Outcome, String> {
    let root = package.stage.with_file_name(format!("root-{suite}"));
    let remove = || files::remove(&root).map_err(|error| format!("{}: {error}", root.display()));
    // Left by a killed run.
    remove()?;
    let result = install_in(&root, package, suite, packages);
    let removed = remove();
    let outcome = result?;
    removed.map(|()| outcome)
}

/// Installs all packages in a new system at `root`, and runs `packaging/check.sh` in it, which
/// removes them.
fn install_in(
    root: &Path,
    package: &Package,
    suite: &str,
    packages: &[PathBuf],
) -> Result<Outcome, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    cargo::run(
        // Its mounts end with it.
        Command::new("unshare")
            .args(["--mount", "--mount-proc", "--pid", "--fork", "--kill-child", "mmdebstrap"])
            .args(["--quiet", "--variant=minbase", "--include=man-db,bash-completion,iproute2"])
            .arg(suite)
            .arg(root),
    )?;
    let place = root.join("packages");
    fs::create_dir(&place).map_err(failed)?;
    for path in packages {
        fs::copy(path, place.join(path.file_name().unwrap_or_default())).map_err(failed)?;
    }
    let script = crate::context::root().join("packaging/check.sh");
    fs::copy(script, root.join("check.sh")).map_err(failed)?;
    if !cargo::succeeds(&mut inside(root, "sh /check.sh")) {
        return Err("packaging/check.sh failed".into());
    }
    let mut outcome = Outcome::single(true);
    if suite == BOOTED {
        outcome += services(root, package)?;
    }
    Ok(outcome)
}

/// The release whose services are run: its systemd also works beside cgroups of version 1.
const BOOTED: &str = "bookworm";

/// Boots the system in a container, where `packaging/check-services.sh` runs as a service.
fn services(root: &Path, package: &Package) -> Result<Outcome, String> {
    const INSTALL: &str = "apt-get install -y -qq --no-install-recommends \
                           systemd-sysv dbus /packages/wirelane_*.deb";
    const UNIT: &str = "[Service]\nType=oneshot\nExecStart=sh /check-services.sh\n\
                        StandardOutput=append:/result\nExecStopPost=systemctl poweroff\n\
                        [Install]\nWantedBy=multi-user.target\n";
    if setup::find("systemd-nspawn").is_none() {
        let note = "services are not run: needs systemd-nspawn (package systemd-container)";
        return Ok(package.context.unavailable(1, note.into()));
    }
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    if !cargo::succeeds(&mut inside(root, INSTALL)) {
        return Err("systemd cannot be installed".into());
    }
    let script = crate::context::root().join("packaging/check-services.sh");
    fs::copy(script, root.join("check-services.sh")).map_err(failed)?;
    fs::write(root.join("etc/systemd/system/check.service"), UNIT).map_err(failed)?;
    let mut enable = Command::new("chroot");
    enable.arg(root).args(["systemctl", "enable", "check.service"]);
    let mut boot = Command::new("timeout");
    boot.args(["300", "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit"])
        .args(["--private-network", "--console=pipe", "-D"])
        .arg(root)
        .stdin(Stdio::null());
    // The result is in the file, however the container ends. The end of the system appends to it.
    let _ = cargo::succeeds(&mut enable) && cargo::succeeds(&mut boot);
    let result = fs::read_to_string(root.join("result")).unwrap_or_default();
    println!("{result}");
    let passed = result.contains("check: services: ");
    if passed {
        Ok(Outcome::single(true))
    } else {
        Err("packaging/check-services.sh failed".into())
    }
}

/// A command of the shell in the new system, with separate mounts and processes.
fn inside(root: &Path, command: &str) -> Command {
    const ENTER: &str = "mount -t proc proc \"$1/proc\" && mount -t tmpfs tmp \"$1/run\" && \
                         mount --bind /dev \"$1/dev\" && exec chroot \"$1\" sh -c \"$2\"";
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--pid", "--fork", "--kill-child"])
        .args(["sh", "-c", ENTER, "sh"])
        .arg(root);
    unshare.arg(command).env("DEBIAN_FRONTEND", "noninteractive");
    unshare
}
