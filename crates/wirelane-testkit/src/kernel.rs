//! The gate of tests of features that older kernels lack; `docs/kernels.md` lists the features.

use std::panic::Location;

use wirelane_os::machine;

use crate::gate;

/// Whether the calling test may go on: true on Linux `major`.`minor`, which introduced `what`, and
/// newer.
///
/// On an older kernel the test is reported as skipped and should return.
#[track_caller]
pub fn require(major: u32, minor: u32, what: &str) -> bool {
    if is_at_least(major, minor) {
        return true;
    }
    let test = gate::test_name(Location::caller());
    gate::skip(&test, &format!("needs Linux {major}.{minor}: {what}"));
    false
}

/// Whether drivers report the VLAN tags that they remove to XDP programs. On kernels without this,
/// `forward` refuses an `xdp:` port on a veth pair.
#[track_caller]
pub fn require_tags() -> bool {
    require(6, 8, "drivers tell XDP programs of the VLAN tags that they remove")
}

/// Whether this is Linux `major`.`minor` or newer.
#[must_use]
pub fn is_at_least(major: u32, minor: u32) -> bool {
    machine::kernel() >= [major, minor]
}
