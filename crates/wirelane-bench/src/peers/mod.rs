//! The other programs: where they are, their versions, and their packages.

pub mod capture;
pub(crate) mod process;
pub mod recorders;
pub mod senders;
pub mod testpmd;

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use serde::Serialize;

use self::process::answer;

/// A program to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name on the command line.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// The option that prints its version; without one, the version of its package is used.
    version: Option<&'static str>,
}

/// All of them.
pub const PEERS: [Peer; 17] = [
    Peer { name: "dpdk-testpmd", package: "dpdk-dev", version: None },
    Peer { name: "dpdk-test", package: "dpdk-dev", version: None },
    Peer { name: "netsniff-ng", package: "netsniff-ng", version: Some("--version") },
    Peer { name: "trafgen", package: "netsniff-ng", version: Some("--version") },
    Peer { name: "tcpdump", package: "tcpdump", version: Some("--version") },
    Peer { name: "dumpcap", package: "wireshark-common", version: Some("--version") },
    Peer { name: "tcpreplay", package: "tcpreplay", version: Some("--version") },
    Peer { name: "xdp-trafficgen", package: "xdp-tools", version: None },
    Peer { name: "iperf3", package: "iperf3", version: Some("--version") },
    Peer { name: "stenotype", package: "stenographer", version: None },
    Peer { name: "stenographer", package: "stenographer", version: None },
    Peer { name: "curl", package: "curl", version: Some("--version") },
    Peer { name: "lz4", package: "lz4", version: Some("--version") },
    Peer { name: "nfpcapd", package: "nfdump", version: Some("-V") },
    Peer { name: "softflowd", package: "softflowd", version: None },
    Peer { name: "argus", package: "argus-server", version: None },
    Peer { name: "dd", package: "coreutils", version: Some("--version") },
];

/// Whether a [`Peer`] is installed, and its version.
#[derive(Clone, Debug, Serialize)]
pub struct Installed {
    /// Its name.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Whether it is installed.
    pub installed: bool,
    /// Its version, in its own words; `None` if it is missing or prints none.
    pub version: Option<String>,
}

/// Why there is no figure of a program that is not installed.
pub(crate) fn missing(program: &str) -> String {
    match PEERS.iter().find(|peer| peer.name == program) {
        Some(Peer { package, .. }) => {
            format!("{program} is not installed (Debian package {package})")
        }
        // A Rust program without a Debian package.
        None => format!("{program} is not installed (cargo install {program})"),
    }
}

/// All peers, as this machine has them.
pub fn installed() -> Vec<Installed> {
    let look = |peer: &Peer| {
        let path = find(peer.name);
        let installed = path.is_some();
        let version = path.and_then(|path| match peer.version {
            Some(option) => first_line(Command::new(path).arg(option)),
            None => first_line(Command::new("dpkg-query").args([
                "--show",
                "--showformat=${Version}",
                peer.package,
            ])),
        });
        Installed { name: peer.name, package: peer.package, installed, version }
    };
    // All at the same time: a program that hangs delays no other.
    thread::scope(|scope| {
        let looks = PEERS.each_ref().map(|peer| scope.spawn(move || look(peer)));
        looks.into_iter().filter_map(|look| look.join().ok()).collect()
    })
}

/// The path of `program`, also where only root looks for programs.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// The first line of its standard output, or else of its standard error. `None` also if it hangs.
fn first_line(command: &mut Command) -> Option<String> {
    let output = answer(command)?;
    let line = |text: &str| {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.to_owned())
    };
    line(&output.stdout).or_else(|| line(&output.stderr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_first_lines() {
        let mut shell = Command::new("sh");
        assert_eq!(
            first_line(shell.args(["-c", "echo; echo ' one '; echo two"])),
            Some("one".into())
        );
        let mut shell = Command::new("sh");
        assert_eq!(first_line(shell.args(["-c", "echo three >&2"])), Some("three".into()));
        assert_eq!(first_line(&mut Command::new("/no/such/program")), None);
    }

    #[test]
    fn every_machine_has_dd_and_tells_what_it_lacks() {
        let installed = installed();
        assert_eq!(installed.len(), PEERS.len());
        let dd = installed.iter().find(|program| program.name == "dd").unwrap();
        assert!(dd.installed && dd.version.is_some(), "{dd:?}");
        assert!(find("no-such-program").is_none());
    }
}
