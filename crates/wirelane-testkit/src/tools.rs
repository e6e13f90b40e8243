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

/// The capture files of tcpdump's own tests: real protocols, some of them damaged on purpose.
///
/// # Panics
/// When `cargo xtask test setup` has not unpacked them.
#[track_caller]
pub fn tcpdump_captures() -> Vec<PathBuf> {
    // Test programs are in `target/debug/deps` or a similar directory.
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

/// Finds a Python that has snappi, the client library of the Open Traffic Generator. Without one
/// the test is reported as skipped and should return.
///
/// Tries in this order: the Python that `WIRELANE_SNAPPI_PYTHON` names, `snappi/bin/python3` in the
/// target directory, and `python3` on the `PATH`.
#[track_caller]
pub fn snappi() -> Option<PathBuf> {
    let test = gate::test_name(Location::caller());
    let named = env::var_os("WIRELANE_SNAPPI_PYTHON").map(PathBuf::from);
    // Test programs are in `target/debug/deps` or a similar directory.
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

/// Finds a Python that has `modules`: in the environment `name` that `cargo xtask test setup`
/// creates in the target directory, or `python3` on the `PATH`. Without one the test is reported as
/// skipped and should return.
///
/// # Panics
/// When there is none and `WIRELANE_REQUIRE_TOOLS=1`.
#[track_caller]
pub fn python(name: &str, modules: &str) -> Option<PathBuf> {
    // Test programs are in `target/debug/deps` or a similar directory.
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
/// Also looks in the `sbin` directories: they contain `ip` and `ethtool`, and the `PATH` of an
/// unprivileged user may lack them.
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
