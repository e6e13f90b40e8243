//! How thoroughly the user wants a suite to measure.

use clap::Args;

/// Options of every suite: how thoroughly to measure, and how to print.
#[derive(Args, Clone, Debug, Default)]
pub struct Effort {
    /// Finish within a minute; the figures vary more
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object (schema wirelane.bench/1) instead of tables
    #[arg(long)]
    pub json: bool,
    /// Take N samples of every figure [default: 5 or 7; with --quick 3 or 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub samples: Option<u32>,
    /// One of many suites of a full report: samples are shorter, so that there is time for enough
    /// of them.
    #[arg(skip)]
    pub brief: bool,
}

impl Effort {
    /// Samples of a figure, in full and with `--quick`, unless the suite chooses another number.
    pub const ROUNDS: [usize; 2] = [5, 3];

    /// The number of samples asked for, or else the usual one.
    pub(crate) fn rounds(&self) -> usize {
        self.samples(Self::ROUNDS[usize::from(self.quick)])
    }

    /// The number of samples asked for, or else the suite's own.
    pub(crate) fn samples(&self, usual: usize) -> usize {
        self.samples.map_or(usual, |samples| samples as usize)
    }

    /// The one of three values that belongs to a full run, to a full report, and to `--quick`.
    pub(crate) fn choose<T>(&self, [full, brief, quick]: [T; 3]) -> T {
        match (self.quick, self.brief) {
            (true, _) => quick,
            (false, true) => brief,
            (false, false) => full,
        }
    }

    /// Whether there is little time.
    pub(crate) fn is_short(&self) -> bool {
        self.quick || self.brief
    }
}
