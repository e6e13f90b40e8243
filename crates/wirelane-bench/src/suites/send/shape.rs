//! What the rows and the targets of the suite have in common.

/// Shares of the highest rate at which the rate error is measured, in percent.
pub(crate) const PERCENTS: [u64; 4] = [1, 10, 50, 80];
/// Many flows.
pub(crate) const FLOWS: u32 = 100_000;
