//! Progress of the trials.

use std::time::Instant;

use wirelane::halt::Halt;
use wirelane_send::ndr::CampaignStep;

use crate::background::has_come;
use crate::output::{grouped, line, scaled, screen};

/// Prints the running trial: on a terminal continuously, elsewhere when SIGUSR1 asks.
pub(super) struct TrialDisplay {
    shows: bool,
    /// How often SIGUSR1 had asked.
    reports: u32,
    since: Instant,
    trials: u32,
}

impl TrialDisplay {
    pub(super) fn new(quiet: bool) -> Self {
        Self { shows: !quiet && screen::is_able(), reports: 0, since: Instant::now(), trials: 0 }
    }

    pub(super) fn show(&mut self, step: &CampaignStep<'_>) {
        self.trials += u32::from(step.result.is_some());
        let is_asked = has_come(&mut self.reports, Halt::reports());
        if !self.shows && !is_asked {
            return;
        }
        let size = step.frame.map(|frame| format!("{frame} B, ")).unwrap_or_default();
        let rate = match step.load.rate {
            rate if rate.is_finite() => format!("{}pps", scaled(rate)),
            _ => "as fast as possible".to_owned(),
        };
        let far = step.moments.iter().map(|moment| {
            format!("{} sent, {} received", grouped(moment.sent), grouped(moment.received))
        });
        let results = step.result.unwrap_or_default().iter().map(|passage| {
            format!("{} lost of {}", grouped(passage.lost()), grouped(passage.sent))
        });
        let state: Vec<_> = far.chain(results).collect();
        let seconds = self.since.elapsed().as_secs();
        let (doing, trial, state) = (step.doing, self.trials + 1, state.join("; "));
        let trial = format!("{size}{doing}, trial {trial} at {rate}: {state}");
        if is_asked {
            line(format_args!("so far: {seconds} s, {trial}"));
        }
        if self.shows {
            screen::show(vec![format!("{seconds:>4} s  {trial}")]);
        }
    }

    pub(super) fn finish(self) {
        screen::clear();
    }
}
