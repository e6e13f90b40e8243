//! The summary of a command for people, on standard error: what happened on the first line, then
//! the details.

use std::path::{Path, PathBuf};

use wirelane::internal::qdisc::BandStats;
use wirelane::port::{Backend, PortInfo};
use wirelane::qdisc::QdiscStats;
use wirelane::stats::QueueStats;

use super::flows::{FlowSummary, PacketSummary};
use super::headline::{Loss, Remedies};
use super::notes::{self, SummaryNote};
use super::sent::SendSummary;
use super::store::StoreSummary;
use super::summary::{
    Coalesced, Cpu, FrameSummary, OutputDescription, Segmented, Summary, SummaryTotals,
};
use super::table::TextTable;
use super::{counter, grouped, line, note, plural, printable, scaled, sized};

/// Most queues in the table without -v.
const QUEUES: usize = 16;

/// A summary, and whether to print all of it.
pub(crate) struct SummaryReport<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) verbose: bool,
}

/// A column of the table of queues.
struct QueueColumn {
    title: &'static str,
    of: fn(&QueueStats) -> Option<u64>,
    /// Shown even if it is 0 in every row.
    always: bool,
}

impl SummaryReport<'_> {
    /// Writes it.
    pub(crate) fn print(&self) {
        let Summary { counts, sent, flows, packets, elapsed_s, reader_left, .. } = self.summary;
        let headline = match (sent, self.is_capture()) {
            (Some(sent), _) => {
                let (packets, bytes) = counts.sent();
                let errors: u64 = counts.tx.iter().map(|tx| tx.errors).sum();
                sent.headline(packets, bytes, errors + sent.skipped(), *elapsed_s)
            }
            (None, true) if self.summary.tables.is_some() => counts.counted(),
            (None, true) => match flows {
                // A reader that ends early, such as head, misses nothing.
                None if *reader_left => counts.captured() + &self.destination(),
                None => counts.captured() + &counts.not_printed() + &self.destination(),
                Some(flows) => format!("{}; {}", flows.headline(), counts.captured()),
            },
            (None, false) => counts.forwarded() + &counts.pace(*elapsed_s),
        };
        line(format_args!("{headline}"));
        sent.iter().for_each(SendSummary::print);
        flows.iter().for_each(FlowSummary::print);
        packets.iter().for_each(PacketSummary::print);
        self.print_losses();
        self.print_notes();
        // For counts, flows and rows of packets, the result is in another place.
        let is_elsewhere = self.summary.tables.is_some() || flows.is_some() || packets.is_some();
        if !is_elsewhere || self.verbose {
            self.print_queues();
        }
        self.print_tx();
        self.print_qdiscs();
        self.print_gso();
        self.print_gro();
        if self.verbose {
            self.print_cost();
        }
        if let Some(OutputDescription { path, .. }) = &self.summary.output
            && self.is_demonstration(path)
        {
            let file = printable(&path.display().to_string());
            line(format_args!(
                "next: open {file} in Wireshark; `wirelane verify {file}` checks every packet"
            ));
        }
        let FrameSummary { pool, leaked, .. } = self.summary.frames;
        if leaked > 0 {
            line(format_args!("{leaked} of {pool} frames leaked: a defect of Wirelane"));
        }
    }

    /// Whether the command only received packets, without sending or forwarding.
    fn is_capture(&self) -> bool {
        self.summary.sent.is_none() && self.summary.command != "forward"
    }

    /// Where packets were written, with the number of files and their size.
    fn destination(&self) -> String {
        let Summary { store, output, counts, .. } = self.summary;
        if let Some(store) = store {
            return store.destination();
        }
        let SummaryTotals { written_bytes: Some(bytes), files: Some(files), .. } = counts.totals
        else {
            return String::new();
        };
        let Some(output) = output else { return String::new() };
        let size = sized(bytes);
        if output.path.as_os_str() == "-" {
            return format!(" → standard output ({size})");
        }
        let name = printable(&names(output).display().to_string());
        let kept = match output.kept {
            Some(kept) if files > u64::from(kept) => format!(", the newest {kept} are left"),
            _ => String::new(),
        };
        format!(" → {name} ({}, {size}{kept})", plural(files, "file"))
    }

    /// Prints why packets were lost, and the remedy.
    fn print_losses(&self) {
        let Summary { counts, output, store, elapsed_s, errors, command, .. } = self.summary;
        let bytes = store.as_ref().map(|store| store.bytes).or(counts.totals.written_bytes);
        let remedies = Remedies {
            command,
            path: output.as_ref().and_then(|output| output.path.to_str()),
            bytes_per_s: bytes.unwrap_or(0) as f64 / elapsed_s.max(1e-9),
        };
        for loss in Loss::ALL.into_iter().filter(|loss| loss.count(counts) > 0) {
            // An error explains its losses. A reader that has ended needs no advice.
            if loss.name != "writer" || errors.is_empty() && !self.summary.reader_left {
                line(format_args!("dropped ({}): {}", loss.name, remedies.text(loss)));
            }
        }
    }

    /// Prints further notes, each one once; without -v, those of the run and a few others.
    fn print_notes(&self) {
        let Summary { ports, notes_at_opening, sent, store, order, .. } = self.summary;
        let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
        for port in ports {
            for note in &port.notes {
                match notes.iter_mut().find(|(text, _)| text == note) {
                    Some((_, of)) if of.contains(&port.spec.as_str()) => {}
                    Some((_, of)) => of.push(&port.spec),
                    None => notes.push((note, vec![&port.spec])),
                }
            }
        }
        let of_port = |(text, of): (&str, Vec<&str>)| {
            let of = match of.as_slice() {
                [first, .., last] if of.len() > 3 && !self.verbose => {
                    format!("{first} … {last} ({} ports)", of.len())
                }
                of => of.join(", "),
            };
            let of_run = !notes_at_opening.iter().any(|note| note == text);
            SummaryNote { text: format!("{of}: {text}"), of_run }
        };
        let mut notes: Vec<_> = notes.into_iter().map(of_port).collect();
        notes.extend(sent.iter().filter_map(SendSummary::note).map(SummaryNote::of_run));
        notes.extend(store.iter().flat_map(StoreSummary::detours).map(SummaryNote::of_opening));
        notes.extend(store.iter().flat_map(StoreSummary::notes).map(SummaryNote::of_run));
        if let Some(order) = order.as_ref().filter(|order| order.violations > 0) {
            notes.push(SummaryNote::of_run(format!(
                "{} packets arrived more than {} ms late and are out of order in the file; \
                 `wirelane merge` sorts them",
                grouped(order.violations),
                order.lateness_ms
            )));
        }
        notes::shown(notes, self.verbose).iter().for_each(note);
    }

    /// Prints the queues with traffic. With many queues, prints only the lossy and the busiest
    /// ones.
    fn print_queues(&self) {
        let queues = &self.summary.counts.queues;
        let lost = |queue: &QueueStats| {
            Loss::ALL.iter().filter_map(|loss| (loss.of)(&queue.dropped)).sum::<u64>()
        };
        let is_used = |queue: &&QueueStats| {
            self.verbose || queue.packets + queue.filtered.unwrap_or(0) + lost(queue) > 0
        };
        let mut shown: Vec<_> = queues.iter().filter(is_used).enumerate().collect();
        let all = shown.len();
        if !self.verbose && all > QUEUES {
            shown.sort_by_key(|(_, queue)| std::cmp::Reverse((lost(queue), queue.packets)));
            shown.truncate(QUEUES);
            shown.sort_by_key(|(position, _)| *position);
        }
        let columns = self.columns(&shown);
        let titles = columns.iter().map(|column| column.title);
        let mut table =
            TextTable::figures(&["queue"].into_iter().chain(titles).collect::<Vec<_>>());
        for (_, queue) in &shown {
            let name = self.name(queue.port, queue.class, queue.queue);
            let name = match &queue.interface {
                Some(interface) => format!("{interface} {}", name_of(queue.class, queue.queue)),
                None => name,
            };
            let cells = columns.iter().map(|column| match (column.of)(queue) {
                // A ring that several interfaces share lost or rejected the packet: another row has
                // the number.
                None if queue.interface.is_some() && queue.received.is_some() => "-".to_owned(),
                count => counter(count),
            });
            table.row([name].into_iter().chain(cells));
        }
        print(&table);
        if all > shown.len() {
            let rest = plural((all - shown.len()) as u64, "quieter queue");
            line(format_args!("and {rest} (-v shows all)"));
        }
    }

    /// The columns with a nonzero figure, and the permanent columns.
    fn columns(&self, queues: &[(usize, &QueueStats)]) -> Vec<QueueColumn> {
        let is_capture = self.is_capture();
        let delivered = if is_capture { "captured" } else { "delivered" };
        let columns = [
            ("received", (|queue| queue.received) as fn(&QueueStats) -> Option<u64>, !is_capture),
            (delivered, |queue| Some(queue.packets), true),
            ("bytes", |queue| queue.bytes, true),
            ("filtered", |queue| queue.filtered, false),
            ("kernel", |queue| queue.dropped.kernel, false),
            ("ring_full", |queue| queue.dropped.ring_full, false),
            ("writer", |queue| queue.dropped.writer, false),
            ("tx_full", |queue| queue.dropped.tx_full, false),
            ("bad_header", |queue| queue.dropped.bad_header, false),
        ];
        let last = if self.summary.command == "forward" { "tx_full" } else { "writer" };
        let is_known = |of: fn(&QueueStats) -> Option<u64>| {
            queues.iter().any(|(_, queue)| of(queue).is_some_and(|count| count > 0))
        };
        let differs =
            || queues.iter().any(|(_, queue)| queue.received.is_some_and(|n| n != queue.packets));
        let is_shown = |column: &QueueColumn| match column.title {
            _ if column.always => true,
            "received" => self.verbose || differs(),
            title => {
                is_known(column.of)
                    || self.verbose
                        && (title == last || {
                            !["writer", "tx_full", "bad_header"].contains(&title)
                        })
            }
        };
        let column = |(title, of, always)| QueueColumn { title, of, always };
        columns.into_iter().map(column).filter(is_shown).collect()
    }

    fn print_tx(&self) {
        let mut table = TextTable::figures(&["queue", "sent", "bytes", "errors"]);
        for tx in &self.summary.counts.tx {
            if self.verbose || tx.packets + tx.errors > 0 {
                let name = self.name(tx.port, "tx", Some(tx.queue));
                table.row([name, grouped(tx.packets), grouped(tx.bytes), grouped(tx.errors)]);
            }
        }
        print(&table);
    }

    fn print_gso(&self) {
        for Segmented { port, queue, stats } in &self.summary.counts.gso {
            for class in &stats.classes {
                line(format_args!(
                    "port {port} queue {queue}: {} of {} cut into {} {} of {} to {} bytes, {}",
                    class.super_frames,
                    class.class,
                    class.segments,
                    if class.class.starts_with("frag") { "fragments" } else { "segments" },
                    class.smallest_frame,
                    class.largest_frame,
                    sized(class.bytes),
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
        for Coalesced { port, queue, stats } in &self.summary.counts.gro {
            let queue = self.name(*port, if queue.is_some() { "rx" } else { "other" }, *queue);
            for class in &stats.classes {
                line(format_args!(
                    "{queue}: {} packets of {} merged into {} frames of {} to {} bytes, {}",
                    class.segments,
                    class.class,
                    class.super_frames,
                    class.smallest_frame,
                    class.largest_frame,
                    sized(class.bytes),
                ));
            }
        }
    }

    fn print_qdiscs(&self) {
        let qdiscs = &self.summary.counts.qdiscs;
        let Some(first) = qdiscs.first() else { return };
        let counts = ["queued", "bypassed", "over_packets", "over_bytes", "purged", "requeued"];
        let head = [first.stats.discipline.as_str()].into_iter().chain(counts);
        let mut table = TextTable::figures(&head.collect::<Vec<_>>());
        for row in qdiscs {
            let QdiscStats { enqueued, bypassed, dropped, requeued, .. } = &row.stats;
            let (packets, bytes) = (dropped.limit_packets, dropped.limit_bytes);
            let counts = [*enqueued, *bypassed, packets, bytes, dropped.purged, *requeued];
            let name = self.name(row.port, "tx", Some(row.queue));
            table.row([name].into_iter().chain(counts.map(grouped)));
        }
        print(&table);
        for row in qdiscs.iter().filter(|row| !row.stats.bands.is_empty()) {
            let band = |band: &BandStats| match band.dropped {
                0 => grouped(band.enqueued),
                dropped => format!("{} ({} dropped)", grouped(band.enqueued), grouped(dropped)),
            };
            let bands: Vec<_> = row.stats.bands.iter().map(band).collect();
            let name = self.name(row.port, "tx", Some(row.queue));
            line(format_args!("{name}: control, ordinary, bulk queued: {}", bands.join(", ")));
        }
    }

    /// Time, rates and CPU time.
    fn print_cost(&self) {
        let Summary { counts, elapsed_s, cpu: Cpu { user_s, system_s }, .. } = self.summary;
        let SummaryTotals { delivered, sent, .. } = counts.totals;
        if self.is_capture() {
            let bytes = counts.queues.iter().map(|queue| queue.bytes).sum::<Option<u64>>();
            let bits = bytes.map(|bytes| scaled(bytes as f64 * 8.0 / elapsed_s.max(1e-9)));
            let bits = bits.map(|bits| format!(", {bits}bit/s")).unwrap_or_default();
            let rate = scaled(delivered as f64 / elapsed_s.max(1e-9));
            line(format_args!("{elapsed_s:.3} s, {rate}packet/s{bits}"));
        }
        let handled = if self.summary.sent.is_some() { sent } else { delivered };
        let each = match handled {
            0 => String::new(),
            _ => format!(": {:.0} ns per packet", (user_s + system_s) * 1e9 / handled as f64),
        };
        line(format_args!("CPU {user_s:.2} s user, {system_s:.2} s system{each}"));
    }

    /// Whether a newcomer may be trying the command: a complete capture of a simulated interface to
    /// a file.
    fn is_demonstration(&self, path: &Path) -> bool {
        self.summary.ports.iter().all(|port| port.backend == Backend::Sim)
            && path.as_os_str() != "-"
            && self.summary.counts.totals.files == Some(1)
            && self.summary.errors.is_empty()
    }

    /// `rx 3`, after the name of its port if there are several.
    fn name(&self, port: usize, class: &str, queue: Option<u16>) -> String {
        let ports = &self.summary.ports;
        let mut name = match PortInfo::names(ports).get(port).filter(|_| ports.len() > 1) {
            Some(name) => format!("{name} "),
            None => String::new(),
        };
        name.push_str(&name_of(class, queue));
        name
    }
}

fn name_of(class: &str, queue: Option<u16>) -> String {
    queue.map_or_else(|| class.to_owned(), |number| format!("{class} {number}"))
}

/// Writes a table; nothing without rows.
fn print(table: &TextTable) {
    if !table.is_empty() {
        line(format_args!("{}", table.to_string().trim_end()));
    }
}

/// The name of the file, or a pattern for the names of all files.
fn names(output: &OutputDescription) -> PathBuf {
    let mark = match (output.split, output.rotates) {
        (true, _) => ".*",
        (false, true) => "_*",
        (false, false) => return output.path.clone(),
    };
    let suffixes = [".gz", ".lz4", ".zst"];
    let name = output.path.file_name().unwrap_or_default().to_string_lossy();
    let outer = suffixes.into_iter().find(|suffix| name.ends_with(suffix)).unwrap_or_default();
    let base = Path::new(name.strip_suffix(outer).unwrap_or(&name));
    let stem = base.file_stem().unwrap_or_default().to_string_lossy();
    let inner = base.extension().map(|it| format!(".{}", it.to_string_lossy()));
    output.path.with_file_name(format!("{stem}{mark}{}{outer}", inner.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_a_pattern() {
        let name = |path: &str, split, rotates| {
            let output = OutputDescription { path: path.into(), split, rotates, kept: None };
            names(&output).display().to_string()
        };
        assert_eq!(name("d/t.pcapng", false, false), "d/t.pcapng");
        assert_eq!(name("d/t.pcapng", true, false), "d/t.*.pcapng");
        assert_eq!(name("d/t.pcapng", true, true), "d/t.*.pcapng");
        assert_eq!(name("a.b.pcap.zst", false, true), "a.b_*.pcap.zst");
        assert_eq!(name("trace", false, true), "trace_*");
    }
}
