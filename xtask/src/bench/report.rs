//! Measured figures: a table for people, rows of schema `wirelane.bench/1` for programs.

use std::env;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Result;

/// One figure, measured several times.
pub(super) struct Row {
    pub(super) case: &'static str,
    /// The other program that it belongs to; ours when `None`.
    pub(super) peer: Option<String>,
    /// Under which conditions: a JSON object.
    pub(super) params: Value,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    pub(super) samples: Vec<f64>,
    pub(super) target: Option<Target>,
}

/// What a median should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Everything that a run measured, and what it could not.
pub(super) struct Report {
    suite: &'static str,
    rows: Vec<Row>,
    skipped: Vec<(String, String)>,
}

impl Report {
    pub(super) fn new(suite: &'static str) -> Self {
        Self { suite, rows: Vec::new(), skipped: Vec::new() }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// `case` was not measured, and why.
    pub(super) fn skip(&mut self, case: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push((case.into(), reason.into()));
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.skipped.is_empty()
    }

    /// Prints the table.
    pub(super) fn print(&self) {
        let machine = machine();
        let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
        println!("\n=== {}, {} cores, Linux {}", text("cpu"), machine["cores"], text("kernel"));
        let header = ["case", "program", "conditions", "metric", "median", "min", "max", "", ""];
        let mut lines = vec![header.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            lines.iter().filter_map(|line| Some(line.get(column)?.len())).max().unwrap_or(0)
        };
        let widths: [usize; 9] = std::array::from_fn(width);
        for line in &lines {
            let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
                // Figures to the right.
                match column {
                    4..=6 => format!("{cell:>width$}"),
                    _ => format!("{cell:<width$}"),
                }
            });
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        for (case, reason) in &self.skipped {
            println!("skipped: {case}: {reason}");
        }
    }

    /// Writes the rows as JSON.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = format!("{:#}\n", self.json());
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn json(&self) -> Value {
        let skipped = |(case, reason): &(String, String)| json!({ "suite": self.suite, "case": case, "reason": reason });
        let arguments: Vec<_> = env::args().skip(1).collect();
        json!({
            "schema": "wirelane.bench/1",
            "version": env!("CARGO_PKG_VERSION"),
            "machine": machine(),
            "command": format!("cargo xtask {}", arguments.join(" ")),
            "rows": self.rows.iter().map(|row| row.json(self.suite)).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn cells(&self) -> [String; 9] {
        let [low, middle, high] = summary(&self.samples).map(|value| figure(value, self.unit));
        let conditions = self.params.as_object().into_iter().flatten().map(|(name, value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Null => "none".to_owned(),
                other => other.to_string(),
            };
            format!("{name}={value}")
        });
        let verdict = self.target.map(|target| target.verdict(median(&self.samples)));
        [
            self.case.to_owned(),
            self.peer.clone().unwrap_or_else(|| "wirelane".to_owned()),
            conditions.collect::<Vec<_>>().join(" "),
            self.metric.to_owned(),
            middle,
            low,
            high,
            self.unit.to_owned(),
            verdict.unwrap_or_default(),
        ]
    }

    fn json(&self, suite: &str) -> Value {
        let [min, median, max] = summary(&self.samples);
        let mut row = json!({
            "suite": suite, "case": self.case, "peer": self.peer, "params": self.params,
            "metric": self.metric, "unit": self.unit,
            "median": median, "min": min, "max": max, "samples": self.samples.len(),
            "source": null,
        });
        if let Some(target) = self.target {
            let (name, value) = match target {
                Target::AtMost(value) => ("at_most", value),
                Target::AtLeast(value) => ("at_least", value),
            };
            row["target"] = json!({ name: value, "met": target.is_met(median) });
        }
        row
    }
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn verdict(self, value: f64) -> String {
        let (sign, limit) = match self {
            Self::AtMost(limit) => ("<=", limit),
            Self::AtLeast(limit) => (">=", limit),
        };
        let verdict = if self.is_met(value) { "met" } else { "MISSED" };
        format!("{sign} {limit} {verdict}")
    }
}

/// The middle of the samples, or the mean of the two in the middle.
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), middle.checked_sub(1).and_then(|i| sorted.get(i))) {
        (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => (upper + lower) / 2.0,
        (Some(upper), _) => *upper,
        (None, _) => f64::NAN,
    }
}

/// Smallest, median and largest.
fn summary(samples: &[f64]) -> [f64; 3] {
    let low = samples.iter().copied().fold(f64::NAN, f64::min);
    let high = samples.iter().copied().fold(f64::NAN, f64::max);
    [low, median(samples), high]
}

/// A figure with about three digits that matter.
fn figure(value: f64, unit: &str) -> String {
    match (unit, value.abs()) {
        ("1/s", _) => format!("{:.2}M", value / 1e6),
        ("bit/s", _) => format!("{:.2}G", value / 1e9),
        (_, 100.0..) => format!("{value:.0}"),
        (_, 10.0..) => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// What the figures depend on.
fn machine() -> Value {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    json!({
        "cpu": model,
        "cores": wirelane_os::affinity::online_cpus(),
        "kernel": kernel.map(|text| text.trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(summary(&[2.0, 3.0, 1.0]), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn targets_include_their_limit() {
        assert!(Target::AtMost(0.7).is_met(0.7) && !Target::AtMost(0.7).is_met(0.71));
        assert!(Target::AtLeast(1.9).is_met(1.9) && !Target::AtLeast(1.9).is_met(1.89));
        assert_eq!(Target::AtMost(0.7).verdict(0.8), "<= 0.7 MISSED");
        assert!(!Target::AtMost(0.7).is_met(f64::NAN));
    }

    #[test]
    fn rows_follow_the_schema() {
        let mut report = Report::new("capture");
        report.add(Row {
            case: "cpu",
            peer: Some("tcpdump".to_owned()),
            params: json!({ "target": null, "size": 64 }),
            metric: "cpu_ns_per_packet",
            unit: "ns",
            samples: vec![3.0, 1.0, 2.0],
            target: Some(Target::AtMost(0.7)),
        });
        report.skip("cpu", "dumpcap is missing");
        let json = report.json();
        assert_eq!(json["schema"], "wirelane.bench/1");
        let row = &json["rows"][0];
        assert_eq!(
            (&row["median"], &row["min"], &row["max"]),
            (&2.0.into(), &1.0.into(), &3.0.into())
        );
        assert_eq!((&row["samples"], &row["peer"]), (&3.into(), &"tcpdump".into()));
        assert_eq!(row["target"], json!({ "at_most": 0.7, "met": false }));
        assert_eq!(json["skipped"][0]["reason"], "dumpcap is missing");
    }
}
