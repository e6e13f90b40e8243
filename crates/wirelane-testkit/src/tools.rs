//! The gate of tests that need another program, such as `tshark`.
//!
//! `WIRELANE_REQUIRE_TOOLS=1` turns a skip into a failure.

use std::env;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use crate::gate;

/// Whether the calling test may go on: true when `tool` is on the `PATH`.
///
/// Without it the test is reported as skipped and should return.
///
/// # Panics
/// When the tool is missing and `WIRELANE_REQUIRE_TOOLS=1`.
#[track_caller]
pub fn require(tool: &str) -> bool {
    if find(tool).is_some() {
        return true;
    }
    let test = gate::test_name(Location::caller());
    assert!(
        !gate::demanded("WIRELANE_REQUIRE_TOOLS"),
        "{test}: needs {tool}, which is not on the PATH, and WIRELANE_REQUIRE_TOOLS=1"
    );
    gate::skip(&test, &format!("needs {tool}, which is not on the PATH"));
    false
}

/// The captures of tcpdump's own tests: real protocols, and some damaged on purpose.
///
/// # Panics
/// When `cargo xtask test setup` has not unpacked them.
#[track_caller]
pub fn tcpdump_captures() -> Vec<PathBuf> {
    // The programs of the tests are in `target/debug/deps` or one like it.
    let program = env::current_exe().unwrap_or_default();
    let mut places = program.ancestors().map(|path| path.join("unpacked/tcpdump/tests"));
    let directory = places
        .find(|path| path.is_dir())
        .expect("the captures of tcpdump's source package: `cargo xtask test setup` unpacks them");
    let entries = std::fs::read_dir(directory).expect("a directory that is there");
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "pcap" || it == "pcapng"));
    paths.sort();
    paths
}

/// A Python that has snappi, the client of the Open Traffic Generator; without one the test is
/// reported as skipped and should return.
///
/// `WIRELANE_SNAPPI_PYTHON` names it; otherwise it is `python3`, or the one that `cargo xtask test
/// setup` installs in the target directory.
#[track_caller]
pub fn snappi() -> Option<PathBuf> {
    let test = gate::test_name(Location::caller());
    let named = env::var_os("WIRELANE_SNAPPI_PYTHON").map(PathBuf::from);
    // The programs of the tests are in `target/debug/deps` or one like it.
    let program = env::current_exe().unwrap_or_default();
    let installed = program.ancestors().skip(1).map(|path| path.join("snappi/bin/python3"));
    let has = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", "import snappi"]).output();
        import.is_ok_and(|import| import.status.success())
    };
    let installed = installed.filter(|python| python.is_file());
    let found = named.into_iter().chain(installed).chain(find("python3")).find(has);
    if found.is_none() {
        gate::skip(
            &test,
            "needs snappi: python3 -m venv target/snappi && target/snappi/bin/pip install snappi",
        );
    }
    found
}

/// A Python of `cargo xtask test setup` that has `modules`: the environment `name` in the target
/// directory, or the `python3` on the `PATH`; without one the test is reported as skipped and
/// should return.
///
/// # Panics
/// When there is none and `WIRELANE_REQUIRE_TOOLS=1`.
#[track_caller]
pub fn python(name: &str, modules: &str) -> Option<PathBuf> {
    // The programs of the tests are in `target/debug/deps` or one like it.
    let program = env::current_exe().unwrap_or_default();
    let installed = program.ancestors().skip(1).map(|path| path.join(name).join("bin/python3"));
    let has = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", &format!("import {modules}")]).output();
        import.is_ok_and(|import| import.status.success())
    };
    let installed = installed.filter(|python| python.is_file());
    let found = installed.chain(find("python3")).find(has);
    if found.is_none() {
        let test = gate::test_name(Location::caller());
        let reason = format!("needs a Python with {modules}: cargo xtask test setup");
        assert!(
            !gate::demanded("WIRELANE_REQUIRE_TOOLS"),
            "{test}: {reason}, and WIRELANE_REQUIRE_TOOLS=1"
        );
        gate::skip(&test, &reason);
    }
    found
}

/// The path of the program `tool`.
///
/// Looks in the `sbin` directories too: `ip` and `ethtool` live there, and an ordinary user's
/// `PATH` may lack them.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(tool))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{find, require};

    #[test]
    fn tools_are_found_on_the_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
        assert!(require("sh"));
    }
}
