//! The counters on one line, and the remedy for each kind of loss.

use std::cmp::Reverse;

use wirelane::session::monitor::Reading;
use wirelane::stats::{Dropped, QueueStats, TxStats};

use super::summary::{SummaryCounters, SummaryTotals};
use super::{counter, grouped, line, scaled, sized};

/// A way in which packets are lost.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    /// As in JSON.
    pub(super) name: &'static str,
    pub(super) of: fn(&Dropped) -> Option<u64>,
}

impl Loss {
    pub(super) const KERNEL: Self = Self { name: "kernel", of: |dropped| dropped.kernel };
    pub(super) const RING_FULL: Self = Self { name: "ring_full", of: |dropped| dropped.ring_full };
    pub(super) const WRITER: Self = Self { name: "writer", of: |dropped| dropped.writer };
    pub(super) const TX_FULL: Self = Self { name: "tx_full", of: |dropped| dropped.tx_full };
    pub(super) const BAD_HEADER: Self =
        Self { name: "bad_header", of: |dropped| dropped.bad_header };

    /// In the order in which a packet passes them.
    pub(super) const ALL: [Self; 5] =
        [Self::BAD_HEADER, Self::KERNEL, Self::RING_FULL, Self::WRITER, Self::TX_FULL];

    /// The number of packets that were lost this way, as far as known.
    pub(super) fn count(self, counts: &SummaryCounters) -> u64 {
        counts.queues.iter().filter_map(|queue| (self.of)(&queue.dropped)).sum()
    }
}

impl SummaryCounters {
    /// Packets captured, rejected and lost.
    pub(super) fn captured(&self) -> String {
        self.taken("captured")
    }

    /// Packets counted, rejected and lost.
    pub(super) fn counted(&self) -> String {
        self.taken("counted")
    }

    fn taken(&self, verb: &str) -> String {
        format!("{} {verb}, {}", grouped(self.totals.delivered), self.rest())
    }

    /// The packets that a thread had no time to print, if there are any: `, 17 not printed`.
    pub(super) fn not_printed(&self) -> String {
        match self.totals.not_printed {
            None | Some(0) => String::new(),
            Some(count) => format!(", {} not printed", grouped(count)),
        }
    }

    /// Packets received and sent, and the losses by kind.
    pub(super) fn forwarded(&self) -> String {
        let SummaryTotals { received, delivered, merged, sent, .. } = &self.totals;
        let received = received.unwrap_or(*delivered);
        let mut text = format!("{} received, {} sent", grouped(received), grouped(*sent));
        let errors: u64 = self.tx.iter().map(|tx| tx.errors).sum();
        for (count, what) in [(*merged, "merged into others"), (errors, "not sent")] {
            if count > 0 {
                text += &format!(", {} {what}", grouped(count));
            }
        }
        text + ", " + &self.rest()
    }

    /// The elapsed time, and packets per second.
    pub(super) fn pace(&self, elapsed_s: f64) -> String {
        let rate = self.totals.delivered as f64 / elapsed_s.max(1e-9);
        format!(" in {elapsed_s:.3} s ({}packet/s)", scaled(rate))
    }

    fn rest(&self) -> String {
        let SummaryTotals { filtered, dropped, .. } = &self.totals;
        let mut text = match filtered {
            Some(filtered) => format!("{} filtered", grouped(*filtered)),
            // The kernel, or a program in it, has rejected them.
            None => "filtered not counted".to_owned(),
        };
        let reasons = self.reasons();
        text += &match dropped {
            Some(0) => ", 0 dropped".to_owned(),
            Some(dropped) => format!(", {} dropped ({reasons})", grouped(*dropped)),
            None if reasons.is_empty() => ", drops unknown".to_owned(),
            None => format!(", drops unknown ({reasons} at least)"),
        };
        text
    }

    /// The reasons for which packets were dropped, with the number of each if there are several.
    fn reasons(&self) -> String {
        let mut counts: Vec<_> =
            Loss::ALL.iter().map(|loss| (loss.name, loss.count(self))).collect();
        counts.retain(|(_, count)| *count > 0);
        counts.sort_by_key(|(_, count)| Reverse(*count));
        match counts.as_slice() {
            [(reason, _)] => (*reason).to_owned(),
            counts => {
                let part = |(reason, count): &(&str, u64)| format!("{reason} {}", grouped(*count));
                counts.iter().map(part).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Packets and bytes that were sent.
    pub(super) fn sent(&self) -> (u64, u64) {
        let sum = |of: fn(&TxStats) -> u64| self.tx.iter().map(of).sum::<u64>();
        (self.totals.sent, sum(|tx| tx.bytes))
    }
}

/// Drops so far, by reason, on one line.
pub(crate) fn drops(queues: &[QueueStats]) -> String {
    let sum = |loss: Loss| {
        counter(queues.iter().map(|queue| (loss.of)(&queue.dropped)).sum::<Option<u64>>())
    };
    let counts = [Loss::KERNEL, Loss::RING_FULL, Loss::WRITER]
        .map(|loss| format!("{} {}", loss.name, sum(loss)));
    format!("dropped    {}", counts.join(", "))
}

/// Prints the counters so far, on a line of standard error.
pub(crate) fn print_so_far(reading: Reading, elapsed_s: f64) {
    line(format_args!("so far: {}", so_far(reading, elapsed_s)));
}

/// The counters so far, on one line.
pub(crate) fn so_far(reading: Reading, elapsed_s: f64) -> String {
    let counts = SummaryCounters::of(reading);
    let written = counts.totals.written.map(|packets| format!("; {} written", grouped(packets)));
    let headline = if counts.tx.is_empty() {
        counts.captured() + &counts.not_printed()
    } else {
        counts.forwarded()
    };
    let pace = counts.pace(elapsed_s);
    headline + &pace + &written.unwrap_or_default()
}

/// Advice against losses.
pub(super) struct Remedies<'a> {
    pub(super) command: &'a str,
    /// The path of the output, if packets are written.
    pub(super) path: Option<&'a str>,
    /// The speed of writing.
    pub(super) bytes_per_s: f64,
}

impl Remedies<'_> {
    /// Why packets were lost, and what to do about it.
    pub(super) fn text(&self, loss: Loss) -> String {
        let speed = sized(self.bytes_per_s as u64);
        match loss.name {
            "kernel" => "the ring of a queue was full; try larger rings (--ring 64M), more queues \
                         (ethtool -L), a CPU for each (--cpus), or a filter"
                .to_owned(),
            "ring_full" => "the port had no free frame; try more of them (PORT?frames=N), more \
                            queues, or a CPU for each (--cpus)"
                .to_owned(),
            "writer" if self.path == Some("-") => format!(
                "the reader of standard output took {speed}/s; try less of each packet (-s 96), a \
                 filter, or a larger --buffer for bursts"
            ),
            "writer" if self.command == "flows" => {
                "wirelane-query took them too slowly; try a filter or more CPUs, or capture to a \
                 file and make rows of that"
                    .to_owned()
            }
            "writer" => format!(
                "the output took {speed}/s; try less of each packet (-s 96), another disk, {}, or \
                 a larger --buffer for bursts",
                self.compression()
            ),
            "tx_full" => "a TX queue was full: more came than its link takes, or it is down; a \
                          discipline (--qdisc fifo) has room for bursts"
                .to_owned(),
            _ => "their sender asked for offloads that make no sense; look at the program at the \
                  other end of the TAP device"
                .to_owned(),
        }
    }

    fn compression(&self) -> &'static str {
        let is_compressed =
            |path: &str| [".gz", ".lz4", ".zst"].iter().any(|it| path.ends_with(it));
        match self.path {
            _ if self.command == "record" => "compression (--compress lz4)",
            Some(path) if is_compressed(path) => {
                "more threads to compress (--compress zstd,threads=4)"
            }
            _ => "compression (.zst)",
        }
    }
}

#[cfg(test)]
mod tests {
    use wirelane::port::{self, OpenOptions};
    use wirelane::session::capture::{Capture, CaptureConfig};

    use super::*;

    /// Counters of a capture of a simulated interface.
    fn counts(spec: &str, filter: Option<&str>) -> SummaryCounters {
        let filter = filter.map(|text| text.parse().unwrap());
        let mut options = OpenOptions::default();
        options.filter = filter;
        let port = port::open(&spec.parse().unwrap(), &options).unwrap();
        let queues = Capture::start(vec![port], &CaptureConfig::default()).unwrap();
        while !queues.wait(std::time::Duration::from_secs(1)) {}
        SummaryCounters::of(Reading { queues: queues.join().queues, ..Reading::default() })
    }

    #[test]
    fn all_three_counts_are_always_there() {
        let mut counts = counts("sim:2?count=1000", None);
        assert_eq!(counts.captured(), "1,000 captured, 0 filtered, 0 dropped");
        counts.totals.filtered = None;
        assert_eq!(counts.captured(), "1,000 captured, filtered not counted, 0 dropped");
        counts.totals.dropped = None;
        assert_eq!(counts.captured(), "1,000 captured, filtered not counted, drops unknown");
    }

    #[test]
    fn drops_have_their_reasons() {
        let mut counts = counts("sim:1?count=10", Some("tcp"));
        assert!(counts.captured().starts_with("0 captured, 10 filtered, "));
        let [queue] = counts.queues.as_mut_slice() else { panic!() };
        queue.dropped.writer = Some(20_000);
        counts.totals.dropped = Some(20_000);
        assert!(counts.captured().ends_with(", 20,000 dropped (writer)"));
        let [queue] = counts.queues.as_mut_slice() else { panic!() };
        queue.dropped.kernel = Some(1);
        counts.totals.dropped = Some(20_001);
        assert!(counts.captured().ends_with(", 20,001 dropped (writer 20,000, kernel 1)"));
        counts.totals.dropped = None;
        assert!(counts.captured().ends_with(", drops unknown (writer 20,000, kernel 1 at least)"));
    }
}
