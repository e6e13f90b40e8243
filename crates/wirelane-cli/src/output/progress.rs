//! Live progress on a terminal: totals, the output file, and the busiest queues.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;
use wirelane::session::monitor::Reading;
use wirelane::stats::QueueStats;

use super::{counter, grouped, printable, scaled, screen, sized};

/// How often the lines change.
const EVERY: Duration = Duration::from_millis(500);
/// Most queues that have a line.
const QUEUES: usize = 16;

/// The lines of a command that receives.
pub(crate) struct ReceiveProgress {
    started: Instant,
    before: Reading,
    since: Instant,
    /// The names of the ports, if there are several.
    ports: Vec<String>,
    /// The file that is written, if any.
    file: Option<PathBuf>,
    /// ^Z was typed.
    stop: Arc<AtomicBool>,
}

/// Counters behind a line: packets and bytes since the last update, and all drops.
#[derive(Clone, Copy, Default)]
struct LineCounters {
    packets: u64,
    bytes: u64,
    dropped: Option<u64>,
}

impl ReceiveProgress {
    /// Lines for a command that began at `started`; `None` without a terminal.
    pub(crate) fn new(started: Instant, ports: Vec<String>, now: Reading) -> Option<Self> {
        if !screen::is_able() {
            return None;
        }
        let stop = Arc::default();
        // Without this handler, ^Z would leave the lines on the screen.
        let _ = signal_hook::flag::register(SIGTSTP, Arc::clone(&stop));
        let ports = if ports.len() > 1 { ports } else { Vec::new() };
        Some(Self { started, before: now, since: Instant::now(), ports, file: None, stop })
    }

    /// Adds the name of the output file.
    #[must_use]
    pub(crate) fn into_file(self, path: Option<&Path>) -> Self {
        Self { file: path.map(Path::to_owned), ..self }
    }

    /// Whether the lines are due for an update. Also handles ^Z and a resized terminal.
    pub(crate) fn is_due(&self) -> bool {
        if self.stop.swap(false, Ordering::Relaxed) {
            screen::clear();
            let _ = emulate_default_handler(SIGTSTP);
        }
        screen::adapt();
        self.since.elapsed() >= EVERY && screen::is_there()
    }

    /// Updates the lines if they are due; `more` are lines of the caller.
    pub(crate) fn update(&mut self, now: Reading, more: impl IntoIterator<Item = String>) {
        if self.is_due() {
            let seconds = self.since.elapsed().as_secs_f64().max(1e-3);
            let mut lines = self.lines(&now, seconds);
            let queues = lines.split_off(2);
            lines.extend(more);
            let room = screen::size().1.saturating_sub(lines.len() + 2).min(QUEUES);
            let flows = self.flows(&now);
            let seen = |(flow, queue): (&LineCounters, &QueueStats)| (*flow, queue.packets > 0);
            let flows: Vec<_> = flows.iter().zip(&now.queues).map(seen).collect();
            lines.extend(busiest(queues, &flows, room));
            screen::show(lines);
            self.before = now;
            self.since = Instant::now();
        }
    }

    /// As [`ReceiveProgress::update`], but with the caller's lines in place of the queues. `more`
    /// gets the number of lines that fit.
    pub(crate) fn update_with(&mut self, now: Reading, more: impl FnOnce(usize) -> Vec<String>) {
        if self.is_due() {
            let seconds = self.since.elapsed().as_secs_f64().max(1e-3);
            let mut lines = self.lines(&now, seconds);
            lines.truncate(2);
            lines.extend(more(screen::size().1.saturating_sub(lines.len() + 2)));
            screen::show(lines);
            self.before = now;
            self.since = Instant::now();
        }
    }

    /// The head, the total, and a line for each queue.
    fn lines(&self, now: &Reading, seconds: f64) -> Vec<String> {
        let flows = self.flows(now);
        let total = flows.iter().fold(
            LineCounters { dropped: Some(0), ..LineCounters::default() },
            |sum, flow| LineCounters {
                packets: sum.packets + flow.packets,
                bytes: sum.bytes + flow.bytes,
                dropped: sum.dropped.zip(flow.dropped).map(|(a, b)| a + b),
            },
        );
        let names = now.queues.iter().map(|queue| self.name(queue)).collect::<Vec<_>>();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let line = |name: &str, flow: &LineCounters| {
            format!(
                "{name:<width$}  {:>7}packet/s  {:>7}bit/s  {:>10} dropped",
                scaled(flow.packets as f64 / seconds),
                scaled(flow.bytes as f64 * 8.0 / seconds),
                counter(flow.dropped)
            )
        };
        let mut lines = vec![self.head(now, seconds), line("total", &total)];
        lines.extend(names.iter().zip(&flows).map(|(name, flow)| line(name, flow)));
        lines
    }

    /// The elapsed time, the packets so far, and the output.
    fn head(&self, now: &Reading, seconds: f64) -> String {
        let elapsed = self.started.elapsed().as_secs();
        let (hours, minutes) = (elapsed / 3600, elapsed / 60 % 60);
        let packets: u64 = now.queues.iter().map(|queue| queue.packets).sum();
        let what = if now.tx.is_empty() { "captured" } else { "received" };
        let mut head =
            format!("{hours:02}:{minutes:02}:{:02}  {} {what}", elapsed % 60, grouped(packets));
        if !now.tx.is_empty() {
            let sent: u64 = now.tx.iter().map(|tx| tx.packets).sum();
            head += &format!(", {} sent", grouped(sent));
        }
        if let (Some(file), Some(written)) = (&self.file, now.written) {
            let before = self.before.written.map_or(0, |before| before.bytes);
            let rate = written.bytes.saturating_sub(before) as f64 / seconds;
            head += &format!(", {} at {}/s", sized(written.bytes), sized(rate as u64));
            head += &match free(file) {
                Some(bytes) => format!(", {} free", sized(bytes)),
                None => String::new(),
            };
            if written.files > 1 {
                head += &format!(", {} files", grouped(written.files));
            }
            let name = match file.as_os_str() {
                name if name == "-" => "standard output".to_owned(),
                _ => printable(&file.display().to_string()),
            };
            head += " → ";
            // One column stays free.
            let room = screen::size().0.saturating_sub(1 + head.chars().count());
            head += &shortened(&name, room);
        }
        head
    }

    /// The traffic of each queue since the last update. Queues may have been added.
    fn flows(&self, now: &Reading) -> Vec<LineCounters> {
        let flow = |(position, now): (usize, &QueueStats)| {
            let before = self.before.queues.get(position);
            let packets = before.map_or(0, |before| before.packets);
            let bytes = before.and_then(|before| before.bytes).unwrap_or(0);
            LineCounters {
                packets: now.packets.saturating_sub(packets),
                bytes: now.bytes.unwrap_or(0).saturating_sub(bytes),
                dropped: now.dropped.total(),
            }
        };
        now.queues.iter().enumerate().map(flow).collect()
    }

    fn name(&self, queue: &QueueStats) -> String {
        let interface = queue.interface.as_deref();
        let port = interface.or(self.ports.get(queue.port).map(String::as_str));
        let port = port.map(|port| format!("{port} ")).unwrap_or_default();
        let number = queue.queue.map(|number| format!(" {number}")).unwrap_or_default();
        format!("{port}{}{number}", queue.class)
    }
}

/// At most `room` lines: the busiest queues with any traffic, in their order. The last line names
/// how many are left out.
fn busiest(lines: Vec<String>, flows: &[(LineCounters, bool)], room: usize) -> Vec<String> {
    if lines.len() <= room {
        return lines;
    }
    let all = lines.len();
    let mut lines: Vec<_> = lines.into_iter().zip(flows).enumerate().collect();
    lines.retain(|(_, (_, (flow, seen)))| *seen || flow.dropped.is_some_and(|dropped| dropped > 0));
    lines.sort_by_key(|(_, (_, (flow, _)))| Reverse((flow.packets, flow.dropped)));
    lines.truncate(room.saturating_sub(1));
    lines.sort_by_key(|(position, _)| *position);
    let rest = all - lines.len();
    let mut lines: Vec<_> = lines.into_iter().map(|(_, (line, _))| line).collect();
    if room > 0 {
        lines.push(format!("and {rest} quieter queues"));
    }
    lines
}

/// The end of a name, shortened to `columns`.
fn shortened(name: &str, columns: usize) -> String {
    let length = name.chars().count();
    match columns.checked_sub(1) {
        _ if length <= columns => name.to_owned(),
        Some(rest) => format!("…{}", name.chars().skip(length - rest).collect::<String>()),
        None => String::new(),
    }
}

/// Free bytes in the file system of the file.
fn free(file: &Path) -> Option<u64> {
    if file.as_os_str() == "-" {
        return None;
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let room = rustix::fs::statvfs(directory.unwrap_or(Path::new("."))).ok()?;
    room.f_bavail.checked_mul(room.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_shown() {
        let lines = || (0..6).map(|queue| format!("rx {queue}")).collect::<Vec<_>>();
        let flow = |packets| (LineCounters { packets, ..LineCounters::default() }, packets > 0);
        let flows: Vec<_> = [3, 9, 1, 7, 0, 2].map(flow).to_vec();
        assert_eq!(busiest(lines(), &flows, 6), lines());
        assert_eq!(busiest(lines(), &flows, 3), ["rx 1", "rx 3", "and 4 quieter queues"]);
        let quiet: Vec<_> = [0, 0, 1, 0, 0, 0].map(flow).to_vec();
        assert_eq!(busiest(lines(), &quiet, 5), ["rx 2", "and 5 quieter queues"]);
        assert_eq!(busiest(lines(), &flows, 1), ["and 6 quieter queues"]);
        assert!(busiest(lines(), &flows, 0).is_empty());
    }

    #[test]
    fn of_a_long_path_the_name_is_shown() {
        assert_eq!(shortened("/tmp/x.pcapng", 13), "/tmp/x.pcapng");
        assert_eq!(shortened("/tmp/x.pcapng", 9), "…x.pcapng");
        assert_eq!(shortened("x", 0), "");
    }
}
