//! The result of a run of `wirelane bench`: its rows, its ratios and the verdicts on targets.

use serde::Serialize;

use crate::comparison::{self, Ratio};
use crate::environment::Environment;
use crate::machine::Machine;
use crate::row::{FigureRow, SkippedCase};
use crate::statistics::control::ControlReadings;
use crate::targets::{self, FigureTarget};

/// All measurements of a run of `wirelane bench`, and the cases that could not be measured.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// `wirelane.bench/1`
    pub schema: &'static str,
    /// Version of this library.
    pub version: &'static str,
    /// The machine.
    pub machine: Machine,
    /// The circumstances of the run.
    pub environment: Environment,
    /// The command line of the run.
    pub command: String,
    /// The figures.
    pub rows: Vec<FigureRow>,
    /// Ratios of Wirelane's figures to the figures of other programs.
    pub ratios: Vec<Ratio>,
    /// The targets, and whether they are met.
    #[serde(rename = "promises")]
    pub targets: Vec<FigureTarget>,
    /// The speed of the machine during each suite.
    pub control: Vec<ControlReadings>,
    /// Cases that were not measured, with the reason.
    pub skipped: Vec<SkippedCase>,
}

impl BenchReport {
    /// A report of this machine without rows.
    pub fn new(command: String) -> Self {
        Self {
            schema: "wirelane.bench/1",
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::read(),
            environment: Environment::read(),
            command,
            rows: Vec::new(),
            ratios: Vec::new(),
            targets: Vec::new(),
            control: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Notes that `case` was not measured; once, however many figures are affected.
    pub fn skip(&mut self, suite: &'static str, case: &'static str, reason: String) {
        let skipped = SkippedCase { suite, case, reason };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// Ends the run: computes the ratios, judges the targets, and notes the end of the run.
    pub fn finish(&mut self) {
        self.ratios = comparison::ratios(&self.rows);
        self.targets = targets::targets(&self.rows, &self.skipped);
        self.environment.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_name_schema_version_and_machine() {
        let mut report = BenchReport::new("wirelane bench qdisc".into());
        report.skipped.push(SkippedCase { suite: "qdisc", case: "spsc", reason: "none".into() });
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["schema"], "wirelane.bench/1");
        assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
        assert!(value["machine"]["cores"].as_u64().unwrap() >= 1);
        assert!(value["machine"]["kernel"].is_string());
        assert_eq!(value["skipped"][0]["case"], "spsc");
    }
}
