//! The samples of a case.

use std::time::Duration;

use wirelane::error::Error;

use super::account::Account;
use super::case::GsoCase;

/// The result of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct GsoSample {
    /// Payload received in the measured time, in bytes.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    /// CPU time of the trial; `None` if the kernel does not report it.
    pub(super) account: Option<Account>,
    /// Datagrams lost during the trial.
    pub(super) lost: u64,
}

/// All samples of one case, one per round.
pub(super) struct GsoSeries {
    pub(super) case: GsoCase,
    pub(super) samples: Vec<GsoSample>,
    /// The samples of iperf3.
    pub(super) theirs: Vec<GsoSample>,
    /// The error that ended the measurement of this case.
    pub(super) refused: Option<Error>,
}

impl GsoSeries {
    pub(super) fn new(case: GsoCase) -> Self {
        Self { case, samples: Vec::new(), theirs: Vec::new(), refused: None }
    }
}
