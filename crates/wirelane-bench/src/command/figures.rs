//! The rows of a benchmark as tables: a line for each case and its conditions, a column for each
//! metric; cases with different first metrics are in different tables.

use std::fmt::{self, Display, Formatter};

use wirelane_cli::output::{plural, scaled, wrap};

use crate::report::BenchReport;
use crate::row::{FigureRow, Param, Params, paper};

/// A report for people.
pub(super) struct ReportTables<'a> {
    pub(super) report: &'a BenchReport,
    /// Columns of the terminal, if it is one.
    pub(super) width: Option<usize>,
}

impl Display for ReportTables<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let machine = &self.report.machine;
        let (cpu, kernel) = (machine.cpu.as_deref(), machine.kernel.as_deref());
        let (cpu, kernel) = (cpu.unwrap_or("unknown CPU"), kernel.unwrap_or("unknown"));
        write!(f, "{cpu}, {} cores, Linux {kernel}", machine.cores)?;
        if let Some(cycles) = machine.cycles_per_ns {
            write!(f, "; 1 ns is {cycles:.3} cycles")?;
        }
        let samples = self.report.rows.iter().map(|row| row.samples.len() as u64);
        match samples.clone().min().zip(samples.max()) {
            None => writeln!(f, "\nNothing was measured.")?,
            Some((least, most)) => {
                let range = if least == most { String::new() } else { format!("{least} to ") };
                let most = plural(most, "sample");
                writeln!(f, "\nMedians of {range}{most} (lowest–highest).")?;
            }
        }
        let sources = self.report.rows.iter().filter_map(|row| row.source);
        if let Some(source) = sources.clone().next() {
            write!(f, "In brackets: figures of \"{}\"", paper(source.document))?;
            let derived = sources.clone().any(|source| source.derived);
            writeln!(f, "{}.", if derived { "; * follows from them" } else { "" })?;
        }
        for (suite, param, word, meaning) in WORDS {
            let is_it = |row: &FigureRow| {
                let has =
                    |(name, value): &(&str, Param)| *name == param && *value == Param::Text(word);
                row.suite == suite && row.params.0.iter().any(has)
            };
            if self.report.rows.iter().any(is_it) {
                writeln!(f, "{param} {word}: {meaning}.")?;
            }
        }
        for table in tables(&self.report.rows) {
            for part in table.parts(self.width) {
                write!(f, "\n{part}")?;
            }
        }
        if !self.report.skipped.is_empty() {
            writeln!(f)?;
        }
        for skipped in &self.report.skipped {
            writeln!(f, "skipped: {}: {}", skipped.case, skipped.reason)?;
        }
        Ok(())
    }
}

/// Explanations of words in tables: suite, parameter, word and meaning.
const WORDS: [(&str, &str, &str, &str); 2] = [
    ("gso", "offload", "none", "the kernel's own software cuts, just before the TAP device"),
    (
        "gso",
        "offload",
        "stack",
        "TCP makes every segment itself: \"none\" of the 2014 FreeBSD GSO paper",
    ),
];

/// Rows of one case under the same conditions.
struct CaseLine<'a> {
    case: &'a str,
    peer: Option<&'a str>,
    params: &'a Params,
    rows: Vec<&'a FigureRow>,
}

impl CaseLine<'_> {
    fn has(&self, row: &FigureRow) -> bool {
        let same = (self.case, self.peer, self.params) == (row.case, row.peer, &row.params);
        same && self.rows.first().is_none_or(|first| is_histogram(first) == is_histogram(row))
    }
}

/// A histogram has a separate table.
fn is_histogram(row: &FigureRow) -> bool {
    row.metric.starts_with("batch_")
}

/// Lines with the same first metric.
#[derive(Default)]
struct MetricTable<'a> {
    lines: Vec<CaseLine<'a>>,
    params: Vec<&'a str>,
    metrics: Vec<&'a str>,
}

fn tables(rows: &[FigureRow]) -> Vec<MetricTable<'_>> {
    let mut lines: Vec<CaseLine<'_>> = Vec::new();
    for row in rows {
        match lines.iter_mut().find(|line| line.has(row)) {
            Some(line) => line.rows.push(row),
            None => lines.push(CaseLine {
                case: row.case,
                peer: row.peer,
                params: &row.params,
                rows: vec![row],
            }),
        }
    }
    let mut tables: Vec<MetricTable<'_>> = Vec::new();
    for line in lines {
        let Some(first) = line.rows.first().map(|row| row.metric) else { continue };
        let known = tables.iter().position(|table| table.metrics.first() == Some(&first));
        let index = known.unwrap_or_else(|| {
            tables.push(MetricTable::default());
            tables.len() - 1
        });
        if let Some(table) = tables.get_mut(index) {
            table.add(line);
        }
    }
    tables
}

impl<'a> MetricTable<'a> {
    fn add(&mut self, line: CaseLine<'a>) {
        for (name, _) in &line.params.0 {
            if !self.params.contains(name) {
                self.params.push(name);
            }
        }
        for row in &line.rows {
            if !self.metrics.contains(&row.metric) {
                self.metrics.push(row.metric);
            }
        }
        self.lines.push(line);
    }

    /// Splits the table to fit the width of a terminal, if there is one.
    fn parts(&self, width: Option<usize>) -> Vec<Cells> {
        let peers = self.lines.iter().any(|line| line.peer.is_some());
        let keys = 1 + usize::from(peers) + self.params.len();
        match width {
            Some(width) => self.cells().split(keys, width),
            None => vec![self.cells()],
        }
    }

    /// Head and body; a column without any cell is left out.
    fn cells(&self) -> Cells {
        let peers = self.lines.iter().any(|line| line.peer.is_some());
        let mut head = vec!["case".to_owned()];
        head.extend(peers.then(|| "program".to_owned()));
        head.extend(self.params.iter().map(|name| (*name).to_owned()));
        head.extend(self.metrics.iter().map(|name| name.replace('_', " ")));
        let mut cells = vec![head];
        for line in &self.lines {
            let mut row = vec![line.case.to_owned()];
            row.extend(peers.then(|| line.peer.unwrap_or("wirelane").to_owned()));
            for name in &self.params {
                let value = line.params.0.iter().find(|(own, _)| own == name);
                row.push(value.map_or(String::new(), |(_, value)| value.to_string()));
            }
            for (column, metric) in self.metrics.iter().enumerate() {
                let figure = line.rows.iter().find(|row| row.metric == *metric);
                row.push(figure.map_or(String::new(), |row| cell(row, column == 0)));
            }
            cells.push(row);
        }
        Cells(cells)
    }
}

/// Head and body of a table, or of a part of it.
struct Cells(Vec<Vec<String>>);

impl Cells {
    /// A column is as wide as its figures or the longest word above them.
    fn widths(&self) -> Vec<usize> {
        let Some((head, body)) = self.0.split_first() else { return Vec::new() };
        let width = |(column, title): (usize, &String)| {
            let cells = body.iter().filter_map(|row| row.get(column)).map(String::as_str);
            cells.chain(title.split(' ')).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        head.iter().enumerate().map(width).collect()
    }

    /// Splits the table into tables that fit `width` columns of a terminal, where one figure per
    /// line fits. Each of them begins with the first `keys` columns, followed by some of the
    /// others.
    fn split(self, keys: usize, width: usize) -> Vec<Self> {
        let widths = self.widths();
        let of_keys = widths.iter().take(keys).map(|width| width + 2).sum::<usize>();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut left = 0;
        for (column, width_of_it) in widths.iter().enumerate().skip(keys) {
            match parts.last_mut() {
                Some(part) if width_of_it + 2 <= left => part.push(column),
                _ => {
                    parts.push((0..keys).chain([column]).collect());
                    left = (width + 2).saturating_sub(of_keys);
                }
            }
            left = left.saturating_sub(width_of_it + 2);
        }
        let part = |columns: Vec<usize>| {
            let pick = |row: &Vec<String>| {
                columns.iter().filter_map(|column| row.get(*column).cloned()).collect()
            };
            // A line without a figure in this part has its figures in another part.
            let says = |row: &Vec<String>| row.iter().skip(keys).any(|cell| !cell.is_empty());
            Self(self.0.iter().map(pick).filter(says).collect())
        };
        parts.into_iter().map(part).collect()
    }
}

impl Display for Cells {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((head, cells)) = self.0.split_first() else { return Ok(()) };
        let widths = self.widths();
        let titles: Vec<_> =
            head.iter().zip(&widths).map(|(title, width)| wrap(title, *width)).collect();
        let height = titles.iter().map(Vec::len).max().unwrap_or(0);
        let above = (0..height).map(|line| {
            let part = |title: &Vec<String>| {
                // Titles are aligned at the bottom, directly above the figures.
                let part =
                    (line + title.len()).checked_sub(height).and_then(|part| title.get(part));
                part.cloned().unwrap_or_default()
            };
            titles.iter().map(part).collect::<Vec<_>>()
        });
        for row in above.chain(cells.iter().cloned()) {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// The median, with the spread on request and the published figure if there is one.
fn cell(row: &FigureRow, spread: bool) -> String {
    let Some([low, median, high]) = row.summary() else { return String::new() };
    let number = |value: f64| match row.unit {
        "1/s" | "bit/s" => scaled(value),
        _ if row.metric.ends_with("_share") => format!("{:.0} %", value * 100.0),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        "1" => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    };
    let mut text = number(median);
    if spread {
        text.push_str(&format!(" ({}–{})", number(low), number(high)));
    }
    if let Some(source) = row.source {
        let mark = if source.derived { "*" } else { "" };
        text.push_str(&format!(" [{}{mark}]", number(source.value)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{PublishedFigure, RowSubject, SkippedCase};

    #[test]
    fn rows_become_lines_and_metrics_columns() {
        let mut report = BenchReport::new("wirelane bench qdisc".into());
        report.machine.cpu = Some("Chip".into());
        report.machine.cores = 2;
        report.machine.kernel = Some("6.18".into());
        report.machine.cycles_per_ns = Some(2.6);
        let row = |case, peer, metric, unit, samples: &[f64], source| FigureRow {
            suite: "qdisc",
            case,
            peer,
            params: Params(vec![("producers", Param::Number(1))]),
            metric,
            unit,
            samples: samples.to_vec(),
            source,
        };
        let source =
            Some(PublishedFigure { document: "004", value: 60.5, unit: "ns", derived: false });
        report.rows = vec![
            row("fifo", None, "ns_per_packet", "ns", &[30.0, 31.0, 29.0], None),
            row("fifo", None, "packets_per_s", "1/s", &[3.3e7, 3.2e7, 3.4e7], None),
            row("fifo", None, "ns_over_noqueue", "ns", &[20.0, 21.0, 19.0], source),
            row("noqueue", None, "ns_per_packet", "ns", &[10.0, 10.0, 10.0], None),
            row("mpmc", None, "cycles_per_element", "cycles", &[9.0, 9.0, 9.0], None),
            row("mpmc", Some("rte_ring"), "cycles_per_element", "cycles", &[9.8, 9.8, 9.8], None),
        ];
        let reason = "none".to_owned();
        report.skipped.push(SkippedCase { suite: "qdisc", case: "spsc", reason });
        let expected = "\
Chip, 2 cores, Linux 6.18; 1 ns is 2.600 cycles
Medians of 3 samples (lowest–highest).
In brackets: figures of \"Qdisc layer: fast enough for 10G wirespeed? (Linux, 2014)\".

                                         packets        ns over
case     producers        ns per packet    per s        noqueue
fifo             1  30.00 (29.00–31.00)   33.0 M  20.00 [60.50]
noqueue          1  10.00 (10.00–10.00)

                                 cycles per
case   program  producers           element
mpmc  wirelane          1  9.00 (9.00–9.00)
mpmc  rte_ring          1  9.80 (9.80–9.80)

skipped: spsc: none
";
        assert_eq!(ReportTables { report: &report, width: None }.to_string(), expected);
        let narrow = ReportTables { report: &report, width: Some(50) }.to_string();
        let tables = narrow.split_once("\n\n").map_or("", |(_, tables)| tables);
        assert!(tables.lines().all(|line| line.chars().count() <= 50), "{narrow}");
        let second = "fifo          1  20.00 [60.50]\n\n";
        assert!(narrow.contains(second), "{narrow}");
    }

    #[test]
    fn the_number_of_samples_is_stated_if_there_are_any() {
        let mut report = BenchReport::new("wirelane bench sockets".into());
        let second = |report: &BenchReport| {
            let text = ReportTables { report, width: None }.to_string();
            text.lines().nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(second(&report), "Nothing was measured.");
        let (peer, params) = (None, Params::default());
        let subject = RowSubject { suite: "sockets", case: "txpush", peer, params };
        report.rows.push(subject.row("packets_per_s", vec![1e6]));
        assert_eq!(second(&report), "Medians of 1 sample (lowest–highest).");
        report.rows.push(subject.row("ns_per_packet", vec![1e3; 3]));
        assert_eq!(second(&report), "Medians of 1 to 3 samples (lowest–highest).");
    }
}
