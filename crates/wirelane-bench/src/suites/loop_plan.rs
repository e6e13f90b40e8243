//! How thoroughly loops inside this process are measured.

use std::time::Duration;

use crate::suite::Effort;

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopPlan {
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long one sample of a discipline takes, when all producers have a CPU each; twice as
    /// long otherwise.
    pub window: Duration,
    /// Peers are left out of a round but the first, and then rounds, when the run would take longer
    /// than this.
    pub limit: Option<Duration>,
    /// Run other programs as well.
    pub peers: bool,
}

impl LoopPlan {
    /// As `effort` asks for, within a time.
    pub(crate) fn of(effort: &Effort, limit: Option<Duration>) -> Self {
        let (samples, window) = match (effort.quick, effort.brief) {
            (true, _) => (5, 30),
            (false, true) => (5, 200),
            (false, false) => (7, 200),
        };
        let samples = effort.samples(samples);
        let window = effort.window(Duration::from_millis(window));
        Self { samples, window, limit, peers: true }
    }
}
