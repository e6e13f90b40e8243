//! The gate of tests that need privileges.
//!
//! ```no_run
//! # use wirelane_testkit::privileged;
//! fn privileged_captures_on_every_queue() {
//!     if !privileged::require() {
//!         return;
//!     }
//!     // …
//! }
//! ```
//!
//! `WIRELANE_REQUIRE_PRIVILEGED=1` turns a skip into a failure. With
//! `WIRELANE_PRIVILEGED_LOG=FILE`, tests append their names to the file when they run, so that the
//! caller can check whether a test was left out. With `WIRELANE_SKIP_LOG=FILE`, skipped tests
//! append their names.

use std::fs;
use std::panic::Location;

use crate::gate;

/// Whether the calling test may go on: true with `CAP_NET_ADMIN`, `CAP_NET_RAW` and
/// `CAP_SYS_ADMIN`.
///
/// Without them the test is reported as skipped and should return. By convention its name starts
/// with `privileged_`.
///
/// # Panics
/// When the capabilities are missing and `WIRELANE_REQUIRE_PRIVILEGED=1`.
#[track_caller]
pub fn require() -> bool {
    let test = gate::test_name(Location::caller());
    if available() {
        gate::log("WIRELANE_PRIVILEGED_LOG", &test);
        return true;
    }
    let reason = "needs root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN)";
    assert!(
        !gate::demanded("WIRELANE_REQUIRE_PRIVILEGED"),
        "{test}: {reason}, and WIRELANE_REQUIRE_PRIVILEGED=1"
    );
    gate::skip(&test, reason);
    false
}

/// Whether this thread has `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_SYS_ADMIN` in its effective set.
pub fn available() -> bool {
    // Bit numbers: include/uapi/linux/capability.h.
    const NEEDED: u64 = (1 << 12) | (1 << 13) | (1 << 21);
    fs::read_to_string("/proc/thread-self/status")
        .ok()
        .and_then(|status| effective_capabilities(&status))
        .is_some_and(|effective| effective & NEEDED == NEEDED)
}

/// The `CapEff` line of a `/proc/<pid>/status` file.
fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::effective_capabilities;

    #[test]
    fn effective_capabilities_are_parsed() {
        let status = "Name:\tcat\nCapPrm:\t0\nCapEff:\t0000000000201000\nCapBnd:\t1\n";
        assert_eq!(effective_capabilities(status), Some((1 << 12) | (1 << 21)));
        assert_eq!(effective_capabilities("Name:\tcat\n"), None);
        assert_eq!(effective_capabilities("CapEff:\tnonsense\n"), None);
    }
}
