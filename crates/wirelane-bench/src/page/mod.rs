//! Renders a benchmark report as one self-contained HTML page, without scripts, fonts or network
//! access.
//!
//! The page begins with the tables of the papers, extended by this machine's figures. Then it shows
//! targets, ratios to other programs, and every figure as bars, by suite and metric. A cell that
//! was not measured shows the reason.

mod comparison;
mod machine;
mod plot;
mod sources;

use crate::published::Published;
use crate::report::BenchReport;
use crate::row::{FigureRow, SkippedCase, paper};
use maud::{Markup, html};
use wirelane_cli::page::{document, number, plain};

use self::plot::range;
use self::sources::{Cell, FigureName, PrintedTable};

/// Renders the page.
pub fn render(report: &BenchReport) -> String {
    let suites = in_order(report.rows.iter().map(|row| row.suite));
    let body = html! {
        h1 { "Wirelane benchmarks" }
        (machine::section(report))
        nav {
            a href="#sources" { "The papers' tables" }
            a href="#targets" { "targets" }
            a href="#beside" { "other programs" }
            @for suite in &suites { a href=(format!("#{suite}")) { (suite) } }
            @if !report.skipped.is_empty() { a href="#skipped" { "not measured" } }
        }
        h2 id="sources" { "The papers' tables and this machine" }
        p {
            "Bold is this machine: the median, and below it the lowest and highest sample. Next to \
             it is what the paper published, on its own hardware. Compare ratios within a table \
             rather than figures across machines."
        }
        @for table in sources::tables() { (source_table(&table, report)) }
        (comparison::targets(report))
        (comparison::section(report))
        @for suite in &suites { (suite_section(suite, report)) }
        (skipped(&report.skipped))
    };
    document("Wirelane benchmarks", &body)
}

fn source_table(table: &PrintedTable, report: &BenchReport) -> Markup {
    html! {
        h3 { (table.title) }
        p class="setting" { (paper(table.document)) ". " (table.setting) }
        div class="scroll" {
            table {
                thead {
                    tr { th { (table.unit) } @for column in table.columns { th { (column) } } }
                }
                tbody {
                    @for line in &table.lines {
                        tr {
                            td { (line.label) }
                            @for cell in &line.cells { td { (source_cell(cell, report)) } }
                        }
                    }
                }
            }
        }
    }
}

fn source_cell(cell: &Cell, report: &BenchReport) -> Markup {
    html! {
        @if let Some(figure) = &cell.ours {
            @match find(figure, report).and_then(|row| Some((row, row.summary()?))) {
                Some((row, summary)) => {
                    @let scaled = |value| value * figure.scale + figure.offset;
                    @let [min, median, max] = summary.map(scaled);
                    span class="here" { (plain(median)) }
                    span class="range" { (range(row.samples.len(), min, max, plain)) }
                    @if let Some(mode) = mode_found(figure, row) {
                        span class="range" { (mode) }
                    }
                }
                None => span class="reason" { (reason(figure, report)) }
            }
        } @else if let Some(reason) = cell.without {
            span class="reason" { "not measured: " (reason) }
        } @else if cell.published.is_none() {
            // Neither here nor there.
            span class="reason" { "–" }
        }
        @if let Some(published) = cell.published {
            span class="source" { "source " (digits(&published)) }
        }
    }
}

/// A figure as the paper prints it. A figure derived from the paper's figures is marked.
fn digits(published: &Published) -> String {
    published.digits().unwrap_or_else(|| format!("{} (derived)", number(published.value())))
}

/// The actual mode, unless the table names the mode.
fn mode_found(figure: &FigureName, row: &FigureRow) -> Option<String> {
    let is_asked_for = figure.params.iter().any(|(name, _)| *name == "mode");
    let found = row.params.0.iter().find(|(name, _)| *name == "mode" && !is_asked_for);
    found.map(|(_, mode)| mode.to_string())
}

/// The row of Wirelane that `figure` names.
fn find<'a>(figure: &FigureName, report: &'a BenchReport) -> Option<&'a FigureRow> {
    // Packets that other hosts send to the user's port have any size: such rows have no `size`.
    let has = |row: &FigureRow, param: (&str, &str)| {
        let says = |name| row.params.0.iter().any(|(own, _)| *own == name);
        row.params.has(param) || param.0 == "size" && !says("size")
    };
    report.rows.iter().find(|row| {
        let same = (row.suite, row.case, row.metric) == (figure.suite, figure.case, figure.metric);
        same && row.peer.is_none() && figure.params.iter().all(|param| has(row, *param))
    })
}

/// Why a figure is missing: the reason recorded for its mode, its case, its target, its port or its
/// whole suite. The reasons of other figures do not apply.
fn reason(figure: &FigureName, report: &BenchReport) -> String {
    let of_suite = || report.skipped.iter().filter(|skipped| skipped.suite == figure.suite);
    let value = |name| figure.params.iter().find(|param| param.0 == name).map(|param| param.1);
    // A figure in mode `copy` has the reason of native mode.
    let mode = value("mode").map(|mode| if mode == "copy" { "native" } else { mode });
    let is_mode = |skipped: &&SkippedCase| {
        mode.is_some_and(|mode| skipped.case.split('-').any(|part| part == mode))
    };
    let names = [Some(figure.case), value("target"), value("port"), Some("all")];
    let of = |name: &str| of_suite().find(|skipped| skipped.case == name);
    let measured = report.rows.iter().any(|row| row.suite == figure.suite);
    match of_suite().find(is_mode).or_else(|| names.into_iter().flatten().find_map(of)) {
        Some(skipped) => format!("not measured: {}", skipped.reason),
        None if measured || of_suite().next().is_some() => {
            let quick = report.command.split(' ').any(|word| word == "--quick");
            let why = if quick { ", which is a quick one" } else { "" };
            format!("not measured in this run{why}")
        }
        None => format!("not measured: the suite {} was not run", figure.suite),
    }
}

fn suite_section(suite: &str, report: &BenchReport) -> Markup {
    let rows: Vec<_> = report.rows.iter().filter(|row| row.suite == suite).collect();
    let metrics = in_order(rows.iter().map(|row| row.metric));
    html! {
        h2 id=(suite) { (suite) }
        p class="soft" {
            span class="key" { "Wirelane" } " " span class="key peer" { "another program" }
            ". Bars are medians, lines the range of all samples."
        }
        @for metric in metrics {
            @let of_metric: Vec<_> = rows.iter().filter(|row| row.metric == metric).collect();
            @let unit = of_metric.first().map_or("", |row| row.unit);
            details open[["ns_per_packet", "packets_per_s", "bits_per_s"].contains(&metric)] {
                summary { (metric.replace('_', " ")) @if unit != "1" { " (" (unit) ")" } }
                (plot::bars(&of_metric.iter().map(|row| (label(row), **row)).collect::<Vec<_>>()))
            }
        }
    }
}

fn label(row: &FigureRow) -> String {
    let mut label = row.case.to_owned();
    if let Some(peer) = row.peer {
        label = format!("{peer}: {label}");
    }
    for (name, value) in &row.params.0 {
        label.push_str(&format!(", {name} {value}"));
    }
    label
}

fn skipped(skipped: &[SkippedCase]) -> Markup {
    html! {
        @if !skipped.is_empty() {
            h2 id="skipped" { "Not measured" }
            ul {
                @for skipped in skipped {
                    li { (skipped.suite) " " (skipped.case) ": " (skipped.reason) }
                }
            }
        }
    }
}

/// Each name once, in order of first appearance.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Param, Params};

    fn report() -> BenchReport {
        let row = |case, params, metric, samples: &[f64]| FigureRow {
            suite: "sockets",
            case,
            peer: None,
            params: Params(params),
            metric,
            unit: "1/s",
            samples: samples.to_vec(),
            source: None,
        };
        let params = |mode| {
            vec![
                ("port", Param::Text("xdp")),
                ("mode", Param::Text(mode)),
                ("size", Param::Number(64)),
                ("queues", Param::Number(1)),
            ]
        };
        let mut report = BenchReport::new("wirelane bench all --report <x>".into());
        report.rows.push(row("rxdrop", params("native"), "packets_per_s", &[1.4e6, 1.5e6, 1.6e6]));
        report.rows.push(row("l2fwd", params("generic"), "packets_per_s", &[]));
        let params = [("port", "xdp"), ("mode", "native"), ("target", "none"), ("size", "1500")];
        let params = Params(params.map(|(name, value)| (name, Param::Text(value))).into());
        let capture = row("multi", Vec::new(), "bits_per_s", &[4e9]);
        report.rows.push(FigureRow { suite: "capture", params, unit: "bit/s", ..capture });
        let reason = "veth has no zero copy & never had".to_owned();
        report.skipped.push(SkippedCase { suite: "sockets", case: "xdp-zerocopy", reason });
        report
    }

    #[test]
    fn figures_stand_beside_the_sources() {
        let page = render(&report());
        assert!(page.contains("<span class=\"here\">1.50</span>"), "{page}");
        assert!(page.contains("source 9.6<") && page.contains("source 5303.09<"), "{page}");
        // A cell called "zero copy" shows the mode that was used.
        let cell = page.split("4: read only, zero copy").nth(1).unwrap();
        let cell = cell.split("</td><td>").nth(1).unwrap();
        assert!(cell.contains("4000<") && cell.contains("<span class=\"range\">native<"), "{cell}");
        // Different figures are printed differently, and derived figures are marked.
        for text in ["1566918<", "1570083<", "1565117<", "638.20<", "637 (derived)", "317.61<"] {
            assert!(page.contains(&format!("source {text}")), "{text}: {page}");
        }
        // Text is escaped.
        assert!(page.contains("--report &lt;x&gt;"), "{page}");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let report = report();
        let cells =
            sources::tables().into_iter().flat_map(|table| table.lines).flat_map(|l| l.cells);
        let (mut found, mut reasons) = (0, Vec::new());
        for figure in cells.filter_map(|cell| cell.ours) {
            match find(&figure, &report).and_then(FigureRow::summary) {
                Some(_) => found += 1,
                None => reasons.push((figure.suite, reason(&figure, &report))),
            }
        }
        assert_eq!(found, 2);
        let zero_copy = "not measured: veth has no zero copy & never had";
        assert!(reasons.contains(&("sockets", zero_copy.into())));
        assert!(reasons.contains(&("gso", "not measured: the suite gso was not run".into())));
        assert!(reasons.iter().all(|(_, reason)| reason.starts_with("not measured")));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render(&report());
        for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_line_of_a_source_has_a_cell_per_column() {
        for table in sources::tables() {
            assert!(!table.lines.is_empty() && !table.setting.contains("  "), "{}", table.title);
            for line in &table.lines {
                assert_eq!(
                    line.cells.len(),
                    table.columns.len(),
                    "{}: {}",
                    table.title,
                    line.label
                );
            }
        }
    }
}
