//! The results in words.

use wirelane_send::ndr::{
    DirectionReport, LatencySummary, NdrReport, SizeReport, Throughput, TrialSummary,
};

use crate::output::table::TextTable;
use crate::output::{grouped, plural, scaled};

/// Streams that are listed one by one without anything having happened to them.
const FEW: usize = 20;

/// The lines of the summary.
pub(super) fn lines(report: &NdrReport) -> impl Iterator<Item = String> {
    let mut lines = Vec::new();
    for size in &report.sizes {
        lines.extend(of_size(size, &report.directions));
    }
    if report.interrupted {
        lines.push("ended early: this is what was found until then".to_owned());
    }
    lines.push(format!("{}, one after the other", plural(report.trials, "trial")));
    lines.into_iter()
}

fn of_size(size: &SizeReport, directions: &[String]) -> Vec<String> {
    let frame = size.frame.map(|frame| format!(" ({frame} B)")).unwrap_or_default();
    let between = between(directions);
    let mut lines = Vec::new();
    for (position, found) in size.throughput.iter().enumerate() {
        let delay = size.loads.first().filter(|_| position == 0).map(latency).unwrap_or_default();
        lines.push(format!("{between}: {}{frame}{delay}", throughput(found, directions.len())));
    }
    for load in &size.loads {
        match load.percent {
            // Already printed above.
            Some(percent) if percent >= 100.0 => {}
            Some(percent) => {
                lines.push(format!("  at {percent:.0} % of it{}", latency(load)));
            }
            None => lines.extend(load.directions.iter().flat_map(|way| in_full(way, &frame))),
        }
    }
    if !size.loss_curve.is_empty() {
        let points = size
            .loss_curve
            .iter()
            .map(|point| format!("{} at {}pps", percent(point.loss_ratio), scaled(point.pps)));
        lines.push(format!("{between}: lost{frame} {}", points.collect::<Vec<_>>().join(", ")));
    }
    if let Some(burst) = size.back_to_back {
        let least = if burst.unlimited { "at least " } else { "" };
        let packets = grouped(burst.packets);
        let rate = burst.pps.map(|pps| format!(" at {}pps", scaled(pps))).unwrap_or_default();
        lines.push(format!(
            "{between}: a burst of {least}{packets} packets{rate} without loss{frame}"
        ));
    }
    lines
}

/// `eth0 ⇄ eth1` where both ways are measured at once.
fn between(directions: &[String]) -> String {
    match directions {
        [there, _] => there.replace(" → ", " ⇄ "),
        _ => directions.join(", "),
    }
}

fn throughput(found: &Throughput, directions: usize) -> String {
    let each = if directions > 1 { " each way" } else { "" };
    let without = match found.loss_ratio {
        0.0 => "without loss".to_owned(),
        ratio => format!("with at most {} lost", percent(ratio)),
    };
    if found.pps == 0.0 {
        return format!("no rate passes{each} {without}{}", held_up(found));
    }
    let bits = found.bps.map(|bps| format!(", {}bit/s", scaled(bps))).unwrap_or_default();
    let bound = match found {
        Throughput { at_max_rate: true, .. } => ", the highest rate requested",
        Throughput { sender_bound: true, .. } => ", as fast as this port sends",
        Throughput { complete: false, .. } => ", and perhaps more",
        _ => "",
    };
    format!("{}pps{each} {without}{bits}{bound}{}", scaled(found.pps), held_up(found))
}

/// A note on trials in which the sender missed the rate.
fn held_up(found: &Throughput) -> String {
    if found.void_trials == 0 {
        return String::new();
    }
    let void = format!("; the sender missed the rate in {}", plural(found.void_trials, "trial"));
    match found.failed_pps.filter(|_| found.sender_late) {
        Some(rate) => format!(
            "{void} and never held {}pps, which failed: the limit may be this machine's",
            scaled(rate)
        ),
        None => void,
    }
}

/// The latency of the worst direction.
fn latency(load: &TrialSummary) -> String {
    let delays = load.directions.iter().filter_map(|way| way.latency);
    let Some(delay) = delays.max_by_key(|delay| delay.p99_ns) else { return String::new() };
    let lost: u64 = load.directions.iter().map(|way| way.lost).sum();
    let lost = if lost > 0 { format!(" ({} lost)", grouped(lost)) } else { String::new() };
    format!(", latency {}{lost}", times(&delay))
}

fn times(delay: &LatencySummary) -> String {
    let [p50, p99, max] = [delay.p50_ns, delay.p99_ns, delay.max_ns].map(time);
    format!("p50 {p50} p99 {p99} max {max}")
}

/// One trial with all its figures.
fn in_full(way: &DirectionReport, frame: &str) -> Vec<String> {
    let mut line = format!(
        "{}: {} sent at {}pps{frame}, {} received, {} lost ({})",
        way.name,
        grouped(way.sent),
        scaled(way.sent_pps),
        grouped(way.received),
        grouped(way.lost),
        percent(way.loss_ratio),
    );
    for (count, what) in [(way.duplicated, "duplicated"), (way.reordered, "reordered")] {
        line.push_str(&format!(", {} {what}", grouped(count)));
    }
    if way.reordered > 0 {
        line.push_str(&format!(" (by up to {})", plural(way.reordering_extent, "packet")));
    }
    let aside = [
        (way.unsent, "could not be sent"),
        (way.beyond_window, "may be copies"),
        (way.stale, "of an earlier trial"),
        (way.receiver_dropped.unwrap_or(0), "lost by this program, which was too slow"),
        (way.other, "without a signature"),
    ];
    for (count, what) in aside.into_iter().filter(|(count, _)| *count > 0) {
        line.push_str(&format!(", {} {what}", grouped(count)));
    }
    if let Some(delay) = &way.latency {
        line.push_str(&format!(", latency {}, variation {}", times(delay), time(delay.pdv_p99_ns)));
    }
    let mut lines = vec![line];
    if way.flows.len() > 1 {
        lines.extend(flows(way));
    }
    lines
}

fn flows(way: &DirectionReport) -> Vec<String> {
    let head = ["flow", "sent", "lost", "duplicated", "reordered", "p50", "p99", "max"];
    let mut table = TextTable::figures(&head);
    let is_odd = |counts: [u64; 3]| counts.iter().any(|count| *count > 0);
    let mut left_out = 0;
    for (position, flow) in way.flows.iter().enumerate() {
        if position >= FEW && !is_odd([flow.lost, flow.duplicated, flow.reordered]) {
            left_out += 1;
            continue;
        }
        let counts = [flow.sent, flow.lost, flow.duplicated, flow.reordered].map(grouped);
        let times = flow.latency.map(|delay| [delay.p50_ns, delay.p99_ns, delay.max_ns].map(time));
        let times = times.unwrap_or_default();
        table.row([flow.name.clone()].into_iter().chain(counts).chain(times));
    }
    let mut lines: Vec<_> = table.to_string().lines().map(|line| format!("  {line}")).collect();
    if left_out > 0 {
        let flows = plural(left_out, "more flow");
        lines.push(format!("  {flows} without loss, duplicates or reordering"));
    }
    lines
}

/// Three digits of a time.
pub(super) fn time(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    let (value, unit) = match nanoseconds {
        0..1_000 => (value, "ns"),
        1_000..1_000_000 => (value / 1e3, "µs"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let digits = if value < 10.0 && unit != "ns" { 1 } else { 0 };
    format!("{value:.digits$} {unit}")
}

/// A share, with as many digits as needed.
pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        0.01.. => format!("{percent:.2} %"),
        _ => format!("{percent:.6} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_short() {
        for (value, text) in
            [(999, "999 ns"), (1_234, "1.2 µs"), (12_345, "12 µs"), (80_500_000, "80 ms")]
        {
            assert_eq!(time(value), text);
        }
        assert_eq!(time(2_000_000_000), "2.0 s");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.1234), "12.34 %");
        assert_eq!(percent(0.000_001), "0.000100 %");
    }
}
