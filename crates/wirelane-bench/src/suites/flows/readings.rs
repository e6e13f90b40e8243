//! How often the files of ten thousand flows and of a million are read: each time every flow of a
//! million has one packet more.

/// So often that what the begin of a million flows costs is a small part.
pub(crate) const ENOUGH: u64 = 100;
/// By the suite alone.
pub(super) const ALONE: [u64; 2] = [ENOUGH; 2];
/// In a report. Of ten thousand flows the begin is nothing in any case.
pub(super) const IN_REPORT: [u64; 2] = [20, ENOUGH];
/// With `--quick`.
pub(super) const QUICK: [u64; 2] = [20; 2];
