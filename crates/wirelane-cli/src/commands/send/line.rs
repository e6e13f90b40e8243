//! The progress line on a terminal.

use std::time::{Duration, Instant};

use wirelane::session::monitor::Reading;
use wirelane_send::Sending;

use crate::live::{LiveLines, LiveScreen, SessionArgs};
use crate::output::progress::ReceiveProgress;
use crate::output::{grouped, scaled, screen};

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(500);

/// The line.
pub(super) struct SendLine {
    /// Whether standard error is a terminal that shows the line.
    shows: bool,
    expected: Option<u64>,
    duration: Option<Duration>,
    /// The time of the last update, with the packets and bits sent by that time.
    before: (Instant, u64, u64),
}

impl LiveLines<Sending> for SendLine {
    fn screen(&self) -> LiveScreen<'_> {
        LiveScreen::Own
    }

    fn update(
        &mut self,
        sending: &Sending,
        now: &dyn Fn() -> Reading,
        _: Option<&mut ReceiveProgress>,
    ) {
        if !self.shows {
            return;
        }
        let (since, packets_before, bits_before) = self.before;
        let seconds = since.elapsed().as_secs_f64();
        screen::adapt();
        if since.elapsed() < EVERY {
            return;
        }
        let tx = now().tx;
        let packets: u64 = tx.iter().map(|tx| tx.packets).sum();
        let bits = tx.iter().map(|tx| tx.bytes).sum::<u64>() * 8;
        let mut text = format!(
            "{} sent  {:>9}packet/s {:>9}bit/s",
            grouped(packets),
            scaled(packets.saturating_sub(packets_before) as f64 / seconds),
            scaled(bits.saturating_sub(bits_before) as f64 / seconds),
        );
        if let Some(share) = self.share(sending.progress()) {
            text += &format!("  {:.0} %", share.min(1.0) * 100.0);
        }
        screen::show(vec![text]);
        self.before = (Instant::now(), packets, bits);
    }
}

impl SendLine {
    /// A line for a run of `expected` packets, or of the duration in `args`.
    pub(super) fn new(expected: Option<u64>, args: &SessionArgs) -> Self {
        let shows = !args.quiet && screen::is_able();
        Self { shows, expected, duration: args.duration, before: (Instant::now(), 0, 0) }
    }

    /// The share that is done, if the run has an end.
    fn share(&self, progress: wirelane_send::SendProgress) -> Option<f64> {
        let of_packets = self.expected.map(|all| progress.packets as f64 / all.max(1) as f64);
        let of_time = self.duration.map(|all| progress.at.as_secs_f64() / all.as_secs_f64());
        [of_packets, of_time].into_iter().flatten().reduce(f64::max)
    }
}
