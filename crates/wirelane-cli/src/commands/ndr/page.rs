//! The results as an HTML page.

use maud::{Markup, html};
use wirelane_send::ndr::{DirectionReport, LatencySummary, SizeReport, TrialSummary};

use super::document::Document;
use super::text::{percent, time};
use crate::output::{grouped, scaled};
use crate::page::{self, Axis, Plot, PlotLine};

/// The page.
pub(super) fn render(document: &Document<'_>) -> String {
    let report = document.report;
    let directions = report.directions.join(" and ");
    let body = html! {
        h1 { "Between two ports" }
        dl {
            dt { "measured" } dd { (directions) @if report.directions.len() > 1 { ", at once" } }
            dt { "command" } dd { code { (document.command) } }
            dt { "version" } dd { "wirelane " (document.version) }
            dt { "trials" } dd { (report.trials) @if report.interrupted { ", ended early" } }
            @for port in &document.ports {
                dt { "received by" }
                dd {
                    (port.spec) ", " (port.mode) ", " (port.queues.len()) " queues"
                    @for note in &port.notes { "; " (note) }
                }
            }
        }
        (throughput(&report.sizes))
        (latencies(&report.sizes))
        (loss(&report.sizes))
        (bursts(&report.sizes))
        (flows(&report.sizes))
    };
    page::document("Wirelane: between two ports", &body)
}

fn throughput(sizes: &[SizeReport]) -> Markup {
    let found = |size: &SizeReport| {
        let first = size.throughput.first()?;
        Some((size.frame? as f64, first.pps))
    };
    let points: Vec<_> = sizes.iter().filter_map(found).collect();
    if sizes.iter().all(|size| size.throughput.is_empty()) {
        return html! {};
    }
    let plot = Plot {
        x: Axis { title: "bytes of a frame with its check sequence", logarithmic: false },
        y: Axis { title: "packets per second", logarithmic: false },
        lines: vec![PlotLine { name: "each direction".into(), points }],
    };
    html! {
        h2 id="throughput" { "Throughput" }
        p { "The highest rate in each direction that passed (RFC 2544, section 26.1)." }
        @if sizes.len() > 1 { (plot.markup()) }
        div class="scroll" { table {
            thead { tr {
                th { "frame" } th { "may be lost" } th { "packets per second" } th { "bits per second" }
                th { "fails at" } th { "bounded by" }
            } }
            tbody {
                @for size in sizes { @for found in &size.throughput { tr {
                    td { (frame(size)) }
                    td { (percent(found.loss_ratio)) }
                    td { span class="here" { (scaled(found.pps)) } }
                    td { @if let Some(bps) = found.bps { (scaled(bps)) } }
                    td { @if let Some(failed) = found.failed_pps { (scaled(failed)) } }
                    td { @if found.at_max_rate { "the rate asked for" } @else if found.sender_bound { "the sender" } @else if found.sender_late { "perhaps the sender" } @else if !found.complete { "ended early" } @else { "the path" } }
                } } }
            }
        } }
    }
}

fn latencies(sizes: &[SizeReport]) -> Markup {
    if sizes.iter().all(|size| size.loads.is_empty()) {
        return html! {};
    }
    html! {
        h2 id="latency" { "Latency by load" }
        p { "From the departure to the receiving interface, in the direction with the higher 99 % percentile." }
        @for size in sizes.iter().filter(|size| !size.loads.is_empty()) {
            h3 { (frame(size)) }
            @if size.loads.len() > 1 { (by_load(&size.loads)) }
            div class="scroll" { table {
                thead { tr {
                    th { "load" } th { "packets per second" } th { "lost" } th { "p50" } th { "p90" } th { "p99" } th { "p99.9" }
                    th { "max" } th { "variation" }
                } }
                tbody {
                    @for load in &size.loads { tr {
                        td { @match load.percent { Some(percent) => { (percent) " %" } None => "as asked" } }
                        td { (scaled(load.directions.iter().map(|way| way.sent_pps).fold(0.0, f64::max))) }
                        td { (grouped(load.directions.iter().map(|way| way.lost).sum())) }
                        @if let Some(delay) = slowest(load) {
                            @for value in [delay.p50_ns, delay.p90_ns, delay.p99_ns, delay.p999_ns, delay.max_ns, delay.pdv_p99_ns] {
                                td { (time(value)) }
                            }
                        }
                    } }
                }
            } }
        }
    }
}

fn by_load(loads: &[TrialSummary]) -> Markup {
    let line = |name: &str, of: fn(&LatencySummary) -> u64| {
        let point =
            |load: &TrialSummary| Some((load.percent?, of(&slowest(load)?) as f64 / 1000.0));
        let mut points: Vec<_> = loads.iter().filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        PlotLine { name: name.into(), points }
    };
    Plot {
        x: Axis { title: "load in percent of the throughput", logarithmic: false },
        y: Axis { title: "microseconds", logarithmic: true },
        lines: vec![
            line("p50", |delay| delay.p50_ns),
            line("p90", |delay| delay.p90_ns),
            line("p99", |delay| delay.p99_ns),
            line("p99.9", |delay| delay.p999_ns),
            line("max", |delay| delay.max_ns),
        ],
    }
    .markup()
}

fn slowest(load: &TrialSummary) -> Option<LatencySummary> {
    load.directions.iter().filter_map(|way| way.latency).max_by_key(|delay| delay.p99_ns)
}

fn loss(sizes: &[SizeReport]) -> Markup {
    let line = |size: &SizeReport| {
        let points = size.loss_curve.iter().map(|point| (point.percent, point.loss_ratio * 100.0));
        PlotLine { name: frame(size), points: points.collect() }
    };
    let lines: Vec<_> = sizes.iter().filter(|size| !size.loss_curve.is_empty()).map(line).collect();
    if lines.is_empty() {
        return html! {};
    }
    html! {
        h2 id="loss" { "Frame loss rate" }
        p { "By load: from all that can be sent downwards, until two trials in a row lose nothing (RFC 2544, section 26.3)." }
        (Plot {
            x: Axis { title: "load in percent of what can be sent", logarithmic: false },
            y: Axis { title: "percent lost", logarithmic: false },
            lines,
        }.markup())
    }
}

fn bursts(sizes: &[SizeReport]) -> Markup {
    let found: Vec<_> =
        sizes.iter().filter_map(|size| Some((frame(size), size.back_to_back?))).collect();
    html! {
        @if !found.is_empty() {
            h2 id="bursts" { "Back-to-back frames" }
            p { "The longest burst, as fast as it can be sent, of which nothing was lost (RFC 2544, section 26.4)." }
            ul { @for (frame, burst) in found {
                li { (frame) ": " @if burst.unlimited { "at least " } (grouped(burst.packets)) " packets" @if let Some(pps) = burst.pps { " at " (scaled(pps)) "pps" } }
            } }
        }
    }
}

/// Every stream of the trials at a given rate.
fn flows(sizes: &[SizeReport]) -> Markup {
    /// More would make the page unreadable.
    const MOST: usize = 500;
    let loads =
        || sizes.iter().flat_map(|size| size.loads.iter().filter(|load| load.percent.is_none()));
    let ways: Vec<&DirectionReport> = loads().flat_map(|load| &load.directions).collect();
    html! {
        @if !ways.is_empty() {
            h2 id="flows" { "Flows" }
            @for way in ways {
                h3 { (way.name) }
                div class="scroll" { table {
                    thead { tr {
                        th { "flow" } th { "sent" } th { "lost" } th { "duplicated" } th { "reordered" } th { "p50" } th { "p99" }
                    } }
                    tbody { @for flow in way.flows.iter().take(MOST) { tr {
                        td { (flow.name) }
                        @for count in [flow.sent, flow.lost, flow.duplicated, flow.reordered] { td { (grouped(count)) } }
                        @if let Some(delay) = &flow.latency { td { (time(delay.p50_ns)) } td { (time(delay.p99_ns)) } }
                    } } }
                } }
                @if way.flows.len() > MOST {
                    p class="soft" { "and " (way.flows.len() - MOST) " more, which the JSON has" }
                }
            }
        }
    }
}

fn frame(size: &SizeReport) -> String {
    size.frame.map_or_else(|| "as described".into(), |frame| format!("{frame} B"))
}
