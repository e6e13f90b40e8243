//! What to search for, and how thoroughly.

use std::time::Duration;

use crate::suite::Effort;

/// Trials that a rate has to pass.
pub(super) const TRIALS: usize = 3;
/// Flows of the frames that are sent.
pub(super) const FLOWS: u64 = 64;
/// Shares of the rate that was found at which latencies are measured, in percent.
pub(super) const LOADS: [u64; 2] = [100, 50];

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
    /// Rounds in which other programs take part: each search takes them half a minute.
    pub others: usize,
}

impl NolossPlan {
    /// A quarter of an hour where all other programs are installed.
    pub fn full() -> Self {
        Self {
            samples: Effort::ROUNDS[0],
            window: Duration::from_millis(500),
            limit: None,
            sizes: vec![64, 1500],
            resolution: 0.02,
            others: 2,
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
            others: 0,
        }
    }

    /// As `effort` asks for, within a time.
    pub(crate) fn of(effort: &Effort, limit: Option<Duration>) -> Self {
        let plan = if effort.quick { Self::quick() } else { Self::full() };
        let window = effort.window(plan.window);
        // A report has the time for one search of every other program.
        let others = if effort.brief { plan.others.min(1) } else { plan.others };
        Self { others, samples: effort.rounds(), window, limit, ..plan }
    }
}

pub(super) type Nature = (&'static str, String, u64);
