//! How often the files of ten thousand flows and of a million flows are read. Each time, every flow
//! of the million has one more packet.

/// With this number, the begin of a million flows is a small part of the cost.
pub(crate) const ENOUGH: u64 = 100;
/// For the suite alone.
pub(super) const ALONE: [u64; 2] = [ENOUGH; 2];
/// In a report. The begin of ten thousand flows is always negligible.
pub(super) const IN_REPORT: [u64; 2] = [20, ENOUGH];
/// With `--quick`.
pub(super) const QUICK: [u64; 2] = [20; 2];
