//! What happens now, on a terminal; what was found, line by line.

use std::time::Instant;

use wirelane_send::ndr::Step;

use crate::output::{grouped, scaled, screen};

/// A line for the trial that runs; nothing where nobody looks.
pub(super) struct Live {
    shows: bool,
    since: Instant,
    trials: u32,
}

impl Live {
    pub(super) fn new(quiet: bool) -> Self {
        Self { shows: !quiet && screen::is_able(), since: Instant::now(), trials: 0 }
    }

    pub(super) fn show(&mut self, step: &Step<'_>) {
        self.trials += u32::from(step.result.is_some());
        if !self.shows {
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
        screen::show(vec![format!(
            "{seconds:>4} s  {size}{}, trial {} at {rate}: {}",
            step.doing,
            self.trials + 1,
            state.join("; ")
        )]);
    }

    pub(super) fn finish(self) {
        screen::clear();
    }
}
