//! The results of several runs: tables for people, and one report of schema `wirelane.bench/1` for
//! programs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::context::{Result, command_line};

/// Reports, put together.
#[derive(Default)]
pub(super) struct Report(Option<Value>);

impl Report {
    /// Adds the report of a run. The first one describes the machine.
    pub(super) fn add(&mut self, mut report: Value) {
        let Some(whole) = &mut self.0 else {
            report["command"] = json!(command_line());
            // A target that this run did not measure may be measured by the next.
            retain_judged(&mut report);
            self.0 = Some(report);
            return;
        };
        retain_judged(&mut report);
        for list in ["rows", "ratios", "promises", "control", "skipped"] {
            let (Some(all), Some(more)) = (whole[list].as_array_mut(), report[list].as_array())
            else {
                continue;
            };
            all.extend(more.iter().cloned());
        }
    }

    /// Prints the figures, and which targets they reach.
    pub(super) fn print(&self) {
        let Some(report) = &self.0 else { return };
        let machine = &report["machine"];
        let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
        println!("\n=== {}, {} cores, Linux {}", text("cpu"), machine["cores"], text("kernel"));
        let header = ["case", "program", "conditions", "metric", "median", "min", "max", ""];
        let rows = list(report, "rows").iter().map(row);
        table([header.map(str::to_owned)].into_iter().chain(rows).collect(), 4..=6);
        println!();
        let header = ["target", "limit", "median", ""];
        let targets = list(report, "promises").iter().map(target);
        table([header.map(str::to_owned)].into_iter().chain(targets).collect(), 1..=2);
        for skipped in list(report, "skipped") {
            println!("skipped: {}: {}", word(&skipped["case"]), word(&skipped["reason"]));
        }
    }

    /// Writes the whole report as JSON.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = format!("{:#}\n", self.0.as_ref().unwrap_or(&Value::Null));
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// Leaves out the targets that have not been measured.
fn retain_judged(report: &mut Value) {
    if let Some(targets) = report["promises"].as_array_mut() {
        targets.retain(|target| !target["median"].is_null());
    }
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

fn row(row: &Value) -> [String; 8] {
    let unit = row["unit"].as_str().unwrap_or_default();
    let conditions = row["params"].as_object().into_iter().flatten();
    let conditions = conditions.map(|(name, value)| format!("{name}={}", word(value)));
    let [median, min, max] = ["median", "min", "max"].map(|of| figure(&row[of], unit));
    [
        word(&row["case"]),
        row["peer"].as_str().unwrap_or("wirelane").to_owned(),
        conditions.collect::<Vec<_>>().join(" "),
        word(&row["metric"]),
        median,
        min,
        max,
        unit.to_owned(),
    ]
}

fn target(target: &Value) -> [String; 4] {
    let unit = target["unit"].as_str().unwrap_or_default();
    let limit = &target["limit"];
    let limit = match limit["at_most"].as_f64() {
        Some(most) => format!("<= {most}"),
        None => format!(">= {}", limit["at_least"]),
    };
    let verdict = match target["met"].as_bool() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "unclear",
    };
    [word(&target["what"]), limit, figure(&target["median"], unit), verdict.to_owned()]
}

/// Prints lines in columns. The columns in `right` have figures, aligned to the right.
fn table<const N: usize>(lines: Vec<[String; N]>, right: std::ops::RangeInclusive<usize>) {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for line in &lines {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if right.contains(&column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A figure with about three significant digits.
fn figure(value: &Value, unit: &str) -> String {
    let Some(value) = value.as_f64() else { return String::new() };
    match (unit, value.abs()) {
        ("1/s", _) => format!("{:.2}M", value / 1e6),
        ("bit/s", _) => format!("{:.2}G", value / 1e9),
        (_, 100.0..) => format!("{value:.0}"),
        (_, 10.0..) => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_put_together() {
        let of = |case: &str, met: Value| {
            json!({
                "schema": "wirelane.bench/1", "command": "wirelane bench", "rows": [{ "case": case }],
                "promises": [
                    { "what": case, "met": met, "median": 1 },
                    { "what": "other", "met": null, "median": null },
                ],
                "skipped": [{ "case": case, "reason": "none" }],
            })
        };
        let mut report = Report::default();
        report.add(of("cpu", true.into()));
        report.add(of("write", false.into()));
        let whole = report.0.unwrap();
        assert_eq!(whole["schema"], "wirelane.bench/1");
        assert_eq!(whole["rows"], json!([{ "case": "cpu" }, { "case": "write" }]));
        assert_eq!(whole["skipped"].as_array().unwrap().len(), 2);
        let targets = whole["promises"].as_array().unwrap().iter();
        assert!(targets.map(|target| &target["what"]).eq(["cpu", "write"]));
    }

    #[test]
    fn targets_say_their_limit_and_verdict() {
        let of = |limit: Value, median: f64, met: Value| {
            target(
                &json!({ "what": "a", "unit": "", "limit": limit, "median": median, "met": met }),
            )
        };
        let cells = of(json!({ "at_most": 0.7 }), 0.75, false.into());
        assert_eq!(cells, ["a", "<= 0.7", "0.750", "MISSED"]);
        let cells = of(json!({ "at_least": 1.9 }), 1.95, true.into());
        assert_eq!(cells, ["a", ">= 1.9", "1.950", "met"]);
        let cells = of(json!({ "at_least": 1.9 }), 1.95, Value::Null);
        assert_eq!(cells[3], "unclear");
    }

    #[test]
    fn rows_have_their_conditions_and_unit() {
        let cells = row(&json!({
            "case": "rxdrop", "peer": null, "params": { "port": "xdp", "size": 64 },
            "metric": "packets_per_s", "unit": "1/s", "median": 2.5e6, "min": 1e6, "max": null,
        }));
        let expected = [
            "rxdrop",
            "wirelane",
            "port=xdp size=64",
            "packets_per_s",
            "2.50M",
            "1.00M",
            "",
            "1/s",
        ];
        assert_eq!(cells, expected);
    }
}
