//! Live rates per queue, on a terminal only.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use wirelane::halt::is_in_foreground;
use wirelane::stats::QueueStats;

use super::scaled;

/// How often the lines change.
const EVERY: Duration = Duration::from_millis(500);

/// One line per queue: packets per second, bits per second, drops.
pub(crate) struct Progress {
    lines: Vec<ProgressBar>,
    /// Those of the caller.
    more: Vec<ProgressBar>,
    screen: MultiProgress,
    before: Vec<QueueStats>,
    since: Instant,
    /// How many ports the queues are of.
    ports: usize,
}

impl Progress {
    /// Lines for these queues; `None` if standard error is no terminal.
    pub(crate) fn new(queues: Vec<QueueStats>) -> Option<Self> {
        Self::with_more(queues, 0)
    }

    /// As [`Progress::new`], with so many lines below that the caller fills.
    pub(crate) fn with_more(queues: Vec<QueueStats>, more: usize) -> Option<Self> {
        if !stderr().is_terminal() {
            return None;
        }
        let screen = MultiProgress::new();
        let style = ProgressStyle::with_template("{wide_msg}").ok()?;
        let line = |_| screen.add(ProgressBar::new_spinner().with_style(style.clone()));
        let mut lines: Vec<_> = (0..queues.len() + 1 + more).map(line).collect();
        let more = lines.split_off(queues.len() + 1);
        let ports = queues.iter().map(|queue| queue.port + 1).max().unwrap_or(0);
        Some(Self { lines, more, screen, ports, before: queues, since: Instant::now() })
    }

    /// Whether it is time to show what has changed.
    pub(crate) fn is_due(&self) -> bool {
        // In the background the terminal is somebody else's.
        self.since.elapsed() >= EVERY && is_in_foreground(stderr())
    }

    /// Fills the caller's lines.
    pub(crate) fn say(&self, texts: impl IntoIterator<Item = String>) {
        self.more.iter().zip(texts).for_each(|(line, text)| line.set_message(text));
    }

    /// Writes a line that stays, above the others.
    pub(crate) fn note(&self, write: impl FnOnce()) {
        self.screen.suspend(write);
    }

    /// Shows what has changed, if it is time to.
    pub(crate) fn update(&mut self, now: Vec<QueueStats>) {
        let elapsed = self.since.elapsed();
        if !self.is_due() {
            return;
        }
        let seconds = elapsed.as_secs_f64();
        let (mut packets, mut bits, mut drops) = (0, 0, Some(0));
        for ((line, before), now) in self.lines.iter().zip(&self.before).zip(&now) {
            let new_packets = now.packets.saturating_sub(before.packets);
            let new_bits =
                now.bytes.zip(before.bytes).map_or(0, |(now, before)| now.saturating_sub(before))
                    * 8;
            let dropped = now.dropped.total();
            (packets, bits) = (packets + new_packets, bits + new_bits);
            drops = drops.zip(dropped).map(|(sum, more): (u64, u64)| sum + more);
            let queue = now.queue.map_or(String::new(), |queue| queue.to_string());
            let port = if self.ports > 1 { format!("{} ", now.port) } else { String::new() };
            let name = format!("{port}{:<5} {queue:<4}", now.class);
            line.set_message(text(&name, new_packets, new_bits, dropped, seconds));
        }
        if let Some(line) = self.lines.last() {
            line.set_message(text("total     ", packets, bits, drops, seconds));
        }
        self.before = now;
        self.since = Instant::now();
    }

    /// Takes the lines off the screen.
    pub(crate) fn finish(self) {
        let _ = self.screen.clear();
    }
}

fn text(name: &str, packets: u64, bits: u64, drops: Option<u64>, seconds: f64) -> String {
    format!(
        "{name} {:>9}packet/s {:>9}bit/s  {:>10} dropped",
        scaled(packets as f64 / seconds),
        scaled(bits as f64 / seconds),
        super::counter(drops)
    )
}
