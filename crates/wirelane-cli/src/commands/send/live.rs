//! How far it is, on a line of a terminal.

use std::time::{Duration, Instant};

use wirelane::stats::TxStats;
use wirelane_send::Progress;

use crate::output::{grouped, scaled, screen};

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(500);

/// The line.
pub(super) struct Live {
    expected: Option<u64>,
    duration: Option<Duration>,
    /// When the line was written last, and packets and bits then.
    before: (Instant, u64, u64),
}

impl Live {
    /// A line for so many packets, or so much time; `None` if standard error is no terminal.
    pub(super) fn new(expected: Option<u64>, duration: Option<Duration>) -> Option<Self> {
        let before = (Instant::now(), 0, 0);
        screen::is_able().then_some(Self { expected, duration, before })
    }

    /// Shows what has changed, if it is time to.
    pub(super) fn update(&mut self, tx: &[TxStats], progress: Progress) {
        let (since, packets_before, bits_before) = self.before;
        let seconds = since.elapsed().as_secs_f64();
        screen::adapt();
        if since.elapsed() < EVERY {
            return;
        }
        let packets: u64 = tx.iter().map(|tx| tx.packets).sum();
        let bits = tx.iter().map(|tx| tx.bytes).sum::<u64>() * 8;
        let mut text = format!(
            "{} sent  {:>9}packet/s {:>9}bit/s",
            grouped(packets),
            scaled(packets.saturating_sub(packets_before) as f64 / seconds),
            scaled(bits.saturating_sub(bits_before) as f64 / seconds),
        );
        if let Some(share) = self.share(progress) {
            text += &format!("  {:.0} %", share.min(1.0) * 100.0);
        }
        screen::show(vec![text]);
        self.before = (Instant::now(), packets, bits);
    }

    /// Which part is done, if there is an end.
    fn share(&self, progress: Progress) -> Option<f64> {
        let of_packets = self.expected.map(|all| progress.packets as f64 / all.max(1) as f64);
        let of_time = self.duration.map(|all| progress.at.as_secs_f64() / all.as_secs_f64());
        [of_packets, of_time].into_iter().flatten().reduce(f64::max)
    }

    /// Takes the line off the screen.
    pub(super) fn finish(self) {
        screen::clear();
    }
}
