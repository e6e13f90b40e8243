//! What to search for, and how thoroughly.

use std::time::Duration;

use crate::suite::Effort;

/// Trials that a rate has to pass.
pub(super) const TRIALS: usize = 3;
/// Flows of the frames that are sent.
pub(super) const FLOWS: u64 = 64;
/// Shares of the rate that was found at which latencies are measured, in percent.
pub(super) const LOADS: [u64; 2] = [100, 50];

/// How long a trial sends in a report.
const BRIEF: Duration = Duration::from_millis(100);
/// Relative precision of a rate in a report.
const BRIEF_RESOLUTION: f64 = 0.05;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct NolossPlan {
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long a trial sends.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// Relative precision of the rate.
    pub resolution: f64,
    /// With so many of the sizes, the first ones, other programs are searched, too. Every step of a
    /// search starts them.
    pub sizes_of_others: usize,
}

impl NolossPlan {
    /// Half an hour where all other programs are installed.
    pub fn full() -> Self {
        Self {
            samples: Effort::ROUNDS[0],
            window: Duration::from_millis(500),
            limit: None,
            sizes: vec![64, 1500],
            resolution: 0.02,
            sizes_of_others: usize::MAX,
        }
    }

    /// Less than a minute.
    pub fn quick() -> Self {
        Self {
            samples: Effort::ROUNDS[1],
            window: Duration::from_millis(30),
            limit: None,
            sizes: vec![64],
            resolution: 0.05,
            sizes_of_others: 0,
        }
    }

    /// As `effort` asks for, within a time.
    pub(crate) fn of(effort: &Effort, limit: Option<Duration>) -> Self {
        let plan = if effort.quick { Self::quick() } else { Self::full() };
        let window = if effort.brief { BRIEF } else { plan.window };
        // Programs that receive packet by packet are slow at any size: in the time of a report one
        // is enough. All rates of it are as coarse, so that ratios are fair.
        let (sizes_of_others, resolution) = match effort.brief {
            true => (plan.sizes_of_others.min(1), BRIEF_RESOLUTION),
            false => (plan.sizes_of_others, plan.resolution),
        };
        let samples = effort.rounds();
        Self { samples, window, limit, sizes_of_others, resolution, ..plan }
    }
}

pub(super) type Nature = (&'static str, String, u64);
