//! The summary of a command: schema `wirelane.summary/1`, and a table for people.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use wirelane::clock::CpuTime;
use wirelane::port::{Backend, FrameCounts, PortInfo};
use wirelane::qdisc::QdiscStats;
use wirelane::segment::{CoalesceStats, SegmentStats};
use wirelane::session::capture::CaptureOutcome;
use wirelane::session::forward::ForwardOutcome;
use wirelane::session::monitor::Reading;
use wirelane::stats::{Dropped, QueueStats, TxStats};
use wirelane::{Error, ErrorKind};
use wirelane_record::RecordOutcome;
use wirelane_send::SendOutcome;

use super::sent::Sent;
use super::store::Store;
use super::{counter, grouped, line, printable, scaled};

/// The JSON document.
#[derive(Serialize)]
pub(crate) struct Summary {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    elapsed_s: f64,
    ports: Vec<PortInfo>,
    #[serde(flatten)]
    counts: Counts,
    frames: Frames,
    order: Option<Order>,
    /// Of a command that makes packets.
    #[serde(flatten)]
    sent: Option<Sent>,
    /// Of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Store>,
    cpu: Cpu,
    errors: Vec<String>,
    /// Where packets were written.
    #[serde(skip)]
    path: Option<PathBuf>,
}

/// What was counted: in a summary at the end, and in the statistics of a running command.
#[derive(Serialize)]
pub(crate) struct Counts {
    queues: Vec<QueueStats>,
    /// Of a command that sends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tx: Vec<TxStats>,
    /// Of a command that sends through disciplines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    qdiscs: Vec<Discipline>,
    /// Of a command that cuts long frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gso: Vec<Segmented>,
    /// Of a command that merges packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gro: Vec<Coalesced>,
    totals: Totals,
}

#[derive(Serialize)]
struct Discipline {
    port: usize,
    queue: u16,
    #[serde(flatten)]
    stats: QdiscStats,
}

#[derive(Serialize)]
struct Segmented {
    port: usize,
    queue: u16,
    #[serde(flatten)]
    stats: SegmentStats,
}

#[derive(Serialize)]
struct Coalesced {
    port: usize,
    /// `None` for packets that are tied to no queue.
    queue: Option<u16>,
    #[serde(flatten)]
    stats: CoalesceStats,
}

#[derive(Serialize)]
struct Totals {
    received: Option<u64>,
    /// Of those received, packets that were merged into the frames of others.
    merged: u64,
    filtered: Option<u64>,
    delivered: u64,
    /// `None` if nothing was to be written.
    written: Option<u64>,
    written_bytes: Option<u64>,
    files: Option<u64>,
    /// Of packets that were to be printed: those that were, and those for which there was no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    printed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_printed: Option<u64>,
    sent: u64,
    dropped: Option<u64>,
}

#[derive(Serialize)]
struct Frames {
    pool: u64,
    free: u64,
    leaked: u64,
}

#[derive(Serialize)]
struct Order {
    violations: u64,
    lateness_ms: u64,
}

/// CPU time of the process.
#[derive(Serialize)]
pub(crate) struct Cpu {
    user_s: f64,
    system_s: f64,
}

impl From<CpuTime> for Cpu {
    fn from(cpu: CpuTime) -> Self {
        Self { user_s: cpu.user.as_secs_f64(), system_s: cpu.system.as_secs_f64() }
    }
}

/// What went wrong, in words. A reader that went away is a clean end.
fn failures(errors: &[Error]) -> Vec<String> {
    let failed = errors.iter().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    failed.map(ToString::to_string).collect()
}

impl Counts {
    /// Rows and totals of a reading.
    pub(crate) fn of(reading: Reading) -> Self {
        let Reading { queues, tx, qdiscs, gso, gro, written, viewed } = reading;
        let sum = |of: fn(&QueueStats) -> Option<u64>| queues.iter().map(of).sum::<Option<u64>>();
        let totals = Totals {
            received: sum(|queue| queue.received),
            merged: queues.iter().map(|queue| queue.merged).sum(),
            filtered: sum(|queue| queue.filtered),
            delivered: queues.iter().map(|queue| queue.packets).sum(),
            written,
            written_bytes: None,
            files: None,
            printed: viewed.map(|viewed| viewed.shown),
            not_printed: viewed.map(|viewed| viewed.missed),
            sent: tx.iter().map(|tx| tx.packets).sum(),
            dropped: sum(|queue| queue.dropped.total()),
        };
        let discipline = |(port, queue, stats)| Discipline { port, queue, stats };
        let segmented = |(port, queue, stats)| Segmented { port, queue, stats };
        let coalesced = |(port, queue, stats)| Coalesced { port, queue, stats };
        Self {
            queues,
            tx,
            qdiscs: qdiscs.into_iter().map(discipline).collect(),
            gso: gso.into_iter().map(segmented).collect(),
            gro: gro.into_iter().map(coalesced).collect(),
            totals,
        }
    }

    /// What came, what was sent, and what was lost, in words.
    fn headline(&self, elapsed_s: f64) -> String {
        let Totals { received, merged, filtered, delivered, sent, dropped, .. } = &self.totals;
        let is_sending = !self.tx.is_empty();
        let mut text = match is_sending {
            true => {
                let received = received.unwrap_or(*delivered);
                format!("{} received, {} sent", grouped(received), grouped(*sent))
            }
            false => format!("{} captured", grouped(*delivered)),
        };
        let errors: u64 = self.tx.iter().map(|tx| tx.errors).sum();
        for (count, what) in [
            (filtered.unwrap_or(0), "filtered out"),
            (*merged, "merged into others"),
            (errors, "not sent"),
            (self.totals.not_printed.unwrap_or(0), "not printed"),
        ] {
            if count > 0 {
                text += &format!(", {} {what}", grouped(count));
            }
        }
        text += &match dropped {
            Some(0) if errors == 0 => ", nothing lost".to_owned(),
            Some(0) => String::new(),
            Some(dropped) => format!(", {} dropped ({})", grouped(*dropped), self.reasons()),
            None => format!(
                ", drops unknown{}",
                match self.reasons() {
                    reasons if reasons.is_empty() => reasons,
                    reasons => format!(" ({reasons} at least)"),
                }
            ),
        };
        let rate = *delivered as f64 / elapsed_s.max(1e-9);
        text + &format!(" in {elapsed_s:.3} s ({}packet/s)", scaled(rate))
    }

    /// The same of a command that makes packets.
    fn sent_headline(&self, sent: &Sent, elapsed_s: f64) -> String {
        let sum = |of: fn(&TxStats) -> u64| self.tx.iter().map(of).sum::<u64>();
        let lost = sum(|tx| tx.errors) + sent.skipped();
        sent.headline(self.totals.sent, sum(|tx| tx.bytes), lost, elapsed_s)
    }

    /// The reasons for which packets were dropped, with the number of each if there are several.
    fn reasons(&self) -> String {
        type Count = fn(&Dropped) -> Option<u64>;
        let known: [(&str, Count); 5] = [
            ("kernel", |dropped| dropped.kernel),
            ("ring_full", |dropped| dropped.ring_full),
            ("writer", |dropped| dropped.writer),
            ("tx_full", |dropped| dropped.tx_full),
            ("fault", |dropped| dropped.fault),
        ];
        let sum =
            |of: Count| -> u64 { self.queues.iter().filter_map(|queue| of(&queue.dropped)).sum() };
        let counts = known.map(|(reason, of)| (reason, sum(of)));
        let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        match counts.as_slice() {
            [(reason, _)] => (*reason).to_owned(),
            counts => {
                let parts =
                    counts.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count)));
                parts.collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn dropped_by_writer(&self) -> u64 {
        self.queues.iter().filter_map(|queue| queue.dropped.writer).sum()
    }
}

/// What was dropped so far, by reason, on a line.
pub(crate) fn drops(queues: &[QueueStats]) -> String {
    let sum = |of: fn(&Dropped) -> Option<u64>| {
        counter(queues.iter().map(|queue| of(&queue.dropped)).sum::<Option<u64>>())
    };
    let (kernel, ring_full, writer) =
        (sum(|it| it.kernel), sum(|it| it.ring_full), sum(|it| it.writer));
    format!("dropped    kernel {kernel}, ring_full {ring_full}, writer {writer}")
}

/// What was counted so far, on a line of standard error.
pub(crate) fn print_so_far(reading: Reading, elapsed: Duration) {
    let counts = Counts::of(reading);
    let written = counts.totals.written.map(|packets| format!("; {} written", grouped(packets)));
    let headline = counts.headline(elapsed.as_secs_f64());
    line(format_args!("so far: {headline}{}", written.unwrap_or_default()));
}

impl Summary {
    /// What a capture came to.
    pub(crate) fn of_capture(
        outcome: &CaptureOutcome,
        path: Option<&Path>,
        elapsed: Duration,
        cpu: CpuTime,
    ) -> Self {
        let reading = Reading {
            queues: outcome.queues.clone(),
            viewed: outcome.viewed,
            ..Reading::default()
        };
        let mut summary = Self::new("capture", elapsed, cpu, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        summary.path = path.map(Path::to_owned);
        summary.errors = failures(&outcome.errors);
        if let Some(written) = outcome.written {
            let totals = &mut summary.counts.totals;
            totals.written = Some(written.packets);
            totals.written_bytes = Some(written.bytes);
            totals.files = Some(written.files);
            let lateness_ms = outcome.lateness / 1_000_000;
            summary.order = Some(Order { violations: outcome.violations, lateness_ms });
        }
        summary
    }

    /// What a recording into `directory` came to.
    pub(crate) fn of_record(
        outcome: &RecordOutcome,
        directory: &Path,
        elapsed: Duration,
        cpu: CpuTime,
    ) -> Self {
        let reading = Reading { queues: outcome.queues.clone(), ..Reading::default() };
        let mut summary = Self::new("record", elapsed, cpu, reading, outcome.frames);
        let store = Store::of(outcome, directory);
        summary.ports.push(outcome.port.clone());
        summary.errors = failures(&outcome.errors);
        let totals = &mut summary.counts.totals;
        totals.written = Some(store.packets);
        totals.written_bytes = Some(store.bytes);
        totals.files = Some(store.segments.into());
        summary.store = Some(store);
        summary
    }

    /// What forwarding came to.
    pub(crate) fn of_forward(outcome: &ForwardOutcome, elapsed: Duration, cpu: CpuTime) -> Self {
        let reading = Reading {
            queues: outcome.queues.clone(),
            tx: outcome.tx.clone(),
            qdiscs: outcome.qdiscs.clone(),
            gso: outcome.gso.clone(),
            gro: outcome.gro.clone(),
            ..Reading::default()
        };
        let mut summary = Self::new("forward", elapsed, cpu, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        summary.errors = failures(&outcome.errors);
        summary
    }

    /// What sending came to.
    pub(crate) fn of_send(
        outcome: &SendOutcome,
        refusal: Option<&str>,
        elapsed: Duration,
        cpu: CpuTime,
    ) -> Self {
        let gso = outcome.gso.iter().map(|(queue, stats)| (0, *queue, stats.clone()));
        let reading = Reading { tx: outcome.tx.clone(), gso: gso.collect(), ..Reading::default() };
        let mut summary = Self::new("send", elapsed, cpu, reading, outcome.frames);
        summary.ports.push(outcome.port.clone());
        summary.sent = Some(Sent::new(outcome, refusal));
        summary.errors = failures(&outcome.errors);
        summary
    }

    /// What is common to all.
    fn new(
        command: &'static str,
        elapsed: Duration,
        cpu: CpuTime,
        reading: Reading,
        frames: FrameCounts,
    ) -> Self {
        Self {
            schema: "wirelane.summary/1",
            command,
            version: env!("CARGO_PKG_VERSION"),
            elapsed_s: elapsed.as_secs_f64(),
            ports: Vec::new(),
            counts: Counts::of(reading),
            frames: Frames {
                pool: frames.pool,
                free: frames.free + frames.fill,
                leaked: frames.held(),
            },
            order: None,
            sent: None,
            store: None,
            cpu: cpu.into(),
            errors: Vec::new(),
            path: None,
        }
    }

    /// The same for people, on standard error: what happened on the first line, then the details.
    pub(crate) fn print(&self) {
        let headline = match &self.sent {
            Some(sent) => self.counts.sent_headline(sent, self.elapsed_s),
            None => self.counts.headline(self.elapsed_s),
        };
        line(format_args!("{headline}{}", self.written()));
        self.sent.iter().for_each(Sent::print);
        for port in &self.ports {
            port.notes.iter().for_each(|note| line(format_args!("note: {}: {note}", port.spec)));
        }
        if let Some(store) = &self.store {
            store.notes().iter().for_each(|note| line(format_args!("note: {note}")));
        }
        if self.counts.dropped_by_writer() > 0 && self.errors.is_empty() {
            let compress = if self.store.is_some() { "--compress lz4" } else { ".zst" };
            line(format_args!(
                "note: the writer dropped packets because the output was slower than they came; \
                 use a faster disk, keep less of each packet (-s 96) or compress ({compress})"
            ));
        }
        if let Some(order) = self.order.as_ref().filter(|order| order.violations > 0) {
            line(format_args!(
                "note: {} packets arrived more than {} ms late and are out of order in the file; \
                 `wirelane merge` sorts them",
                grouped(order.violations),
                order.lateness_ms
            ));
        }
        self.print_queues();
        self.print_tx();
        self.print_qdiscs();
        self.print_gso();
        self.print_gro();
        let Cpu { user_s, system_s } = self.cpu;
        let Totals { delivered, sent, .. } = self.counts.totals;
        let handled = if self.sent.is_some() { sent } else { delivered };
        if handled > 0 {
            let ns = (user_s + system_s) * 1e9 / handled as f64;
            line(format_args!(
                "CPU {user_s:.2} s user, {system_s:.2} s system: {ns:.0} ns per packet"
            ));
        }
        if self.is_demonstration()
            && let Some(path) = &self.path
        {
            let file = printable(&path.display().to_string());
            line(format_args!(
                "next: open {file} in Wireshark; `wirelane verify {file}` checks every packet"
            ));
        }
        let Frames { pool, leaked, .. } = self.frames;
        if leaked > 0 {
            line(format_args!("{leaked} of {pool} frames leaked: a defect of Wirelane"));
        }
    }

    /// Whether a newcomer may be trying the command: a whole capture of a simulated interface to a file.
    fn is_demonstration(&self) -> bool {
        self.ports.iter().all(|port| port.backend == Backend::Sim)
            && self.path.as_ref().is_some_and(|path| path.as_os_str() != "-")
            && self.counts.totals.files == Some(1)
            && self.errors.is_empty()
    }

    /// Where packets were written, with the size and, if the writer was too slow, the speed.
    fn written(&self) -> String {
        if let Some(store) = &self.store {
            return store.destination();
        }
        let Totals { written_bytes, files, .. } = &self.counts.totals;
        let (Some(bytes), Some(files)) = (*written_bytes, *files) else { return String::new() };
        let name = match &self.path {
            Some(path) if path.as_os_str() == "-" => "standard output".into(),
            Some(path) => printable(&path.display().to_string()),
            None => String::new(),
        };
        let files = if files == 1 { String::new() } else { format!(", {files} files") };
        let speed = match self.counts.dropped_by_writer() {
            0 => String::new(),
            _ => format!(" at {}B/s", scaled(bytes as f64 / self.elapsed_s.max(1e-9))),
        };
        format!(" → {name}{files}, {}B{speed}", scaled(bytes as f64))
    }

    fn print_queues(&self) {
        // The last way to lose a packet is that of the command.
        let (last, lost): (_, fn(&QueueStats) -> Option<u64>) = match self.command {
            "forward" => ("tx_full", |queue| queue.dropped.tx_full),
            _ => ("writer", |queue| queue.dropped.writer),
        };
        let header = ["queue", "received", "delivered", "bytes", "kernel", "ring_full", last];
        let rows =
            self.counts.queues.iter().filter(|queue| queue.received != Some(0)).map(|queue| {
                [
                    self.name(queue.port, queue.class, queue.queue),
                    counter(queue.received),
                    grouped(queue.packets),
                    counter(queue.bytes),
                    counter(queue.dropped.kernel),
                    counter(queue.dropped.ring_full),
                    counter(lost(queue)),
                ]
            });
        table(header, rows.collect());
    }

    fn print_tx(&self) {
        let header = ["queue", "sent", "bytes", "errors"];
        let used = self.counts.tx.iter().filter(|tx| tx.packets + tx.errors > 0);
        let rows = used.map(|tx| {
            let name = self.name(tx.port, "tx", Some(tx.queue));
            [name, grouped(tx.packets), grouped(tx.bytes), grouped(tx.errors)]
        });
        table(header, rows.collect());
    }

    fn print_gso(&self) {
        for Segmented { port, queue, stats } in &self.counts.gso {
            for class in &stats.classes {
                line(format_args!(
                    "port {port} queue {queue}: {} of {} cut into {} {} of {} to {} bytes, {}B",
                    class.super_frames,
                    class.class,
                    class.segments,
                    if class.class.starts_with("frag") { "fragments" } else { "segments" },
                    class.smallest_frame,
                    class.largest_frame,
                    scaled(class.bytes as f64),
                ));
            }
            for refused in &stats.refused {
                let (frames, reason) = (refused.frames, refused.reason.replace('_', " "));
                line(format_args!("port {port} queue {queue}: {frames} refused: {reason}"));
            }
            if stats.trailers > 0 {
                let frames = stats.trailers;
                line(format_args!(
                    "port {port} queue {queue}: {frames} sent without the trailer behind the packet"
                ));
            }
        }
    }

    fn print_gro(&self) {
        for Coalesced { port, queue, stats } in &self.counts.gro {
            let queue = self.name(*port, if queue.is_some() { "rx" } else { "other" }, *queue);
            for class in &stats.classes {
                line(format_args!(
                    "{queue}: {} packets of {} merged into {} frames of {} to {} bytes, {}B",
                    class.segments,
                    class.class,
                    class.super_frames,
                    class.smallest_frame,
                    class.largest_frame,
                    scaled(class.bytes as f64),
                ));
            }
        }
    }

    fn print_qdiscs(&self) {
        let Some(first) = self.counts.qdiscs.first() else { return };
        let header = [
            first.stats.discipline.as_str(),
            "queued",
            "bypassed",
            "over_packets",
            "over_bytes",
            "purged",
            "requeued",
        ];
        let rows = self.counts.qdiscs.iter().map(|row| {
            let QdiscStats { enqueued, bypassed, dropped, requeued, .. } = &row.stats;
            let name = self.name(row.port, "tx", Some(row.queue));
            let (packets, bytes) = (dropped.limit_packets, dropped.limit_bytes);
            let counts = [*enqueued, *bypassed, packets, bytes, dropped.purged, *requeued];
            let [a, b, c, d, e, f] = counts.map(grouped);
            [name, a, b, c, d, e, f]
        });
        table(header, rows.collect());
    }

    /// `rx 3`, after the name of its port if there are several.
    fn name(&self, port: usize, class: &str, queue: Option<u16>) -> String {
        let mut name = match self.ports.get(port).filter(|_| self.ports.len() > 1) {
            Some(info) => format!("{} ", info.interface.as_deref().unwrap_or(&info.spec)),
            None => String::new(),
        };
        name.push_str(class);
        queue.map_or(name.clone(), |number| format!("{name} {number}"))
    }
}

/// Prints rows under a header, in columns; nothing without rows.
fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) {
    if rows.is_empty() {
        return;
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.max().unwrap_or(0).max(header[column].len())
    };
    let widths: Vec<_> = (0..N).map(width).collect();
    let print = |cells: &[String; N]| {
        let cells = cells.iter().zip(&widths).enumerate();
        let text: Vec<_> = cells
            .map(
                |(i, (cell, width))| {
                    if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        line(format_args!("{}", text.join("  ")));
    };
    print(&header.map(String::from));
    rows.iter().for_each(print);
}
