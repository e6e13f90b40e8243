//! Constants that the rows and the targets of the suite share.

/// Shares of the highest rate at which the rate error is measured, in percent.
pub(crate) const PERCENTS: [u64; 4] = [1, 10, 50, 80];
/// The larger number of flows.
pub(crate) const FLOWS: u32 = 100_000;
