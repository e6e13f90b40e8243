//! Counts the results in the guest's output.

use std::collections::VecDeque;

use serde_json::Value;

use super::plan::{Expected, Program};
use crate::libtest;
use crate::step::Outcome;

/// Reads the lines of the guest's second serial port; `guest-init` describes them.
#[derive(Default)]
pub(crate) struct Report {
    running: Option<Said>,
    ended: Vec<(Said, String)>,
    notes: Vec<String>,
    /// Problems other than failed programs.
    failures: Vec<String>,
    /// Whether the guest finished its plan.
    done: bool,
}

/// The output of a program.
#[derive(Default)]
struct Said {
    name: String,
    lines: VecDeque<String>,
    tests: libtest::Report,
    /// The tests that failed, by name.
    failed: Vec<String>,
    /// Whether the harness is printing the names of failed tests.
    lists_failures: bool,
    /// Why tests were skipped.
    skipped: Vec<String>,
    rates: Vec<Rate>,
    /// Cases that a measuring program left out, with the reasons.
    unmeasured: Vec<String>,
}

/// A figure that a measuring program reported.
struct Rate {
    case: String,
    mode: String,
    value: f64,
}

impl Report {
    /// Reads one line.
    pub(crate) fn line(&mut self, line: &str) {
        let Some(marker) = line.strip_prefix("@@ ") else {
            if let Some(running) = &mut self.running {
                running.take(line);
            }
            return;
        };
        let (word, rest) = marker.split_once(' ').unwrap_or((marker, ""));
        match word {
            "note" => self.notes.push(format!("Linux {rest}")),
            "run" => {
                self.running = Some(Said { name: rest.to_owned(), ..Said::default() });
            }
            "end" => match self.running.take() {
                Some(running) => self.ended.push((running, rest.to_owned())),
                None => self.failures.push(format!("ended without having begun: {rest}")),
            },
            "done" => self.done = true,
            _ => self.failures.push(rest.to_owned()),
        }
    }

    /// The names of those among `programs` that failed.
    pub(crate) fn failed(&self, programs: &[Program]) -> Vec<String> {
        let failed = |program: &&Program| {
            let ended = self.ended.iter().find(|(said, _)| said.name == program.name);
            ended.is_none_or(|(said, end)| said.outcome(program, end).failed > 0)
        };
        programs.iter().filter(failed).map(|program| program.name.clone()).collect()
    }

    /// The tests of the program `name` that failed.
    pub(crate) fn failed_tests(&self, name: &str) -> Vec<String> {
        let ended = self.ended.iter().find(|(said, _)| said.name == name);
        // A killed program has not listed its failed tests.
        ended.map(|(said, _)| said.failed.clone()).unwrap_or_default()
    }

    /// The end of the output of these programs.
    pub(crate) fn said(&self, names: &[String]) -> String {
        let of = |said: &&Said| names.contains(&said.name);
        let all = self.ended.iter().map(|(said, _)| said).chain(&self.running).filter(of);
        all.flat_map(|said| &said.lines).fold(String::new(), |text, line| text + line + "\n")
    }

    /// The counts of all `programs`.
    pub(crate) fn outcome(self, programs: &[Program]) -> Outcome {
        let mut outcome = Outcome { notes: self.notes, ..Outcome::default() };
        for program in programs {
            let ended = self.ended.iter().find(|(said, _)| said.name == program.name);
            outcome += match ended {
                Some((said, end)) => said.outcome(program, end),
                None => Outcome::failure(format!("{}: did not come to its end", program.name)),
            };
        }
        for failure in self.failures {
            outcome += Outcome::failure(failure);
        }
        if !self.done {
            outcome += Outcome::failure("the guest did not come to its end");
        }
        outcome
    }
}

/// How many lines of a program are kept.
const KEPT: usize = 200;

impl Said {
    fn take(&mut self, line: &str) {
        self.tests.line(line);
        match line {
            "failures:" => self.lists_failures = true,
            _ if line.starts_with("test result: ") => self.lists_failures = false,
            _ if self.lists_failures => {
                let name = line.strip_prefix("    ").filter(|name| !name.contains(' '));
                self.failed.extend(name.map(str::to_owned));
            }
            _ => {}
        }
        self.skipped.extend(line.strip_prefix("SKIPPED: ").map(str::to_owned));
        if let Some(report) = measured(line) {
            self.rates.extend(rates(&report));
            self.unmeasured.extend(unmeasured(&report));
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    /// The counts of one program. `end` is `SECONDS REASON`. A program without test results and
    /// rates counts as one check.
    fn outcome(&self, program: &Program, end: &str) -> Outcome {
        let (seconds, reason) = end.split_once(' ').unwrap_or((end, ""));
        let succeeded = reason == "exit 0";
        let is_wrong = |rate: &&Rate| !rate.is_right(program.expected);
        let mut counts = match program.expected {
            _ if !self.tests.is_empty() => self.test_counts(program, succeeded),
            Expected::Rates(least, _) => {
                let failed = self.rates.iter().filter(is_wrong).count();
                let passed = self.rates.len() - failed;
                let failed = failed + least.saturating_sub(self.rates.len());
                Outcome { passed, failed, ..Outcome::default() }
            }
            Expected::Refusal(words) => {
                let is_said = self.lines.iter().any(|line| line.contains(words));
                Outcome::single(!succeeded && reason.starts_with("exit ") && is_said)
            }
            Expected::Nothing => Outcome::single(succeeded),
        };
        let is_refusal = matches!(program.expected, Expected::Refusal(_));
        if !succeeded && !is_refusal && counts.failed == 0 {
            counts.failed = 1;
        }
        let mut line = format!(
            "{}: {} passed, {} failed, {} skipped in {seconds} s",
            program.name, counts.passed, counts.failed, counts.skipped,
        );
        if !succeeded && !is_refusal {
            line += &format!(", {reason}");
        }
        for rate in self.rates.iter().filter(is_wrong) {
            line += &format!(", {} of {} in mode {}", rate.value, rate.case, rate.mode);
        }
        counts.notes.push(line);
        let mut note = |kind: &str, what: &str| counts.notes.push(format!("  {kind}: {what}"));
        self.failed.iter().for_each(|name| note("failed", name));
        self.unmeasured.iter().for_each(|reason| note("not measured", reason));
        counts
    }

    /// The harness counts skipped tests as passed, and does not count tests that are left out.
    fn test_counts(&self, program: &Program, succeeded: bool) -> Outcome {
        let mut counts = self.tests.outcome(succeeded);
        let skipped = self.skipped.len().min(counts.passed);
        counts.passed -= skipped;
        counts.skipped += skipped + program.left_out.len();
        let left_out = program.left_out.iter().map(|(name, why)| format!("{name}: {why}"));
        let reasons = self.skipped.iter().cloned().chain(left_out);
        counts.notes = reasons.map(|reason| format!("  skipped: {reason}")).collect();
        counts
    }
}

impl Rate {
    /// Whether packets moved, in the expected mode. The rate has no meaning on an emulated machine.
    fn is_right(&self, expected: Expected) -> bool {
        let Expected::Rates(_, mode) = expected else { return true };
        self.value > 0.0 && self.mode.contains(mode)
    }
}

/// A report of the form `wirelane.bench/1`.
fn measured(line: &str) -> Option<Value> {
    line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok())?
}

/// Metrics that show that packets moved, best first. Only the first metric found is counted, so
/// that each row counts once.
const MOVED: [&str; 3] = ["packets_per_s", "cpu_ns_per_packet", "ns_per_packet"];

fn rates(report: &Value) -> Vec<Rate> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = |metric: &str| {
        let rate = |row: &Value| {
            (row.get("metric")? == metric).then_some(())?;
            Some(Rate {
                case: text(row.get("case")),
                mode: text(row.get("params").and_then(|params| params.get("mode"))),
                value: row.get("median")?.as_f64()?,
            })
        };
        report["rows"].as_array().into_iter().flatten().filter_map(rate).collect::<Vec<_>>()
    };
    MOVED.into_iter().map(of).find(|rates| !rates.is_empty()).unwrap_or_default()
}

/// The cases that a report lists as not measured.
fn unmeasured(report: &Value) -> Vec<String> {
    let skipped = report["skipped"].as_array().into_iter().flatten();
    skipped.map(|entry| entry.as_str().map_or_else(|| entry.to_string(), str::to_owned)).collect()
}

/// Complaints of the kernel in what it wrote to its console.
pub(crate) fn complaints(console: &str) -> Vec<&str> {
    const SIGNS: [&str; 6] =
        ["WARNING: ", "BUG: ", "Oops: ", "Kernel panic", "Call Trace:", "NETDEV WATCHDOG"];
    console.lines().filter(|line| SIGNS.iter().any(|sign| line.contains(sign))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(output: &str, programs: &[(&str, usize)]) -> Outcome {
        let mut report = Report::default();
        output.lines().for_each(|line| report.line(line));
        let program = |(name, rates): &(&str, usize)| Program {
            name: (*name).to_owned(),
            expected: match rates {
                0 => Expected::Nothing,
                _ => Expected::Rates(*rates, "zerocopy"),
            },
            ..Program::default()
        };
        report.outcome(&programs.iter().map(program).collect::<Vec<_>>())
    }

    #[test]
    fn programs_are_summed() {
        let output = "\
@@ note 6.14, igb0 with 2 queues

@@ run list
anything
@@ end 0.1 exit 0

@@ run contract
test one ... ok
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

@@ end 2.0 exit 101

@@ done
";
        let outcome = outcome(output, &[("list", 0), ("contract", 0)]);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (4, 1, 0));
        assert_eq!(outcome.notes[0], "Linux 6.14, igb0 with 2 queues");
        assert_eq!(outcome.notes[2], "contract: 3 passed, 1 failed, 0 skipped in 2.0 s, exit 101");
    }

    #[test]
    fn programs_that_failed_are_named_with_what_they_said() {
        let mut report = Report::default();
        let output =
            "@@ run a\nfine\n@@ end 1.0 exit 0\n@@ run b\nbroken\n@@ end 1.0 exit 1\n@@ done";
        output.lines().for_each(|line| report.line(line));
        let named = |name: &str| Program { name: name.to_owned(), ..Program::default() };
        assert_eq!(report.failed(&[named("a"), named("b"), named("c")]), ["b", "c"]);
        assert_eq!(report.said(&["b".to_owned(), "c".to_owned()]), "broken\n");
    }

    #[test]
    fn rates_are_of_zero_copy_and_not_zero() {
        let row = |mode: &str, median: &str| {
            format!(
                r#"{{"metric":"packets_per_s","params":{{"mode":"{mode}"}},"median":{median}}}"#
            )
        };
        let right = row("zerocopy", "17.5");
        for (rows, passed, failed) in [
            (format!("{right},{right}"), 2, 0),
            (right.clone(), 1, 1),
            (format!("{right},{}", row("zerocopy", "0.0")), 1, 1),
            (format!("{right},{}", row("native", "17.5")), 1, 1),
            (format!("{right},{}", right.replace("packets_per_s", "ns_per_packet")), 1, 1),
            (right.replace("packets_per_s", "lost_share"), 0, 2),
        ] {
            let output = format!("@@ run a\n{{\"rows\":[{rows}]}}\n@@ end 1.0 exit 0\n@@ done\n");
            let outcome = outcome(&output, &[("a", 2)]);
            assert_eq!((outcome.passed, outcome.failed), (passed, failed), "{rows}");
        }
    }

    #[test]
    fn tests_that_failed_are_named_and_those_skipped_do_not_pass() {
        let output = "\
@@ run a
SKIPPED: one.rs:7: needs tshark, which is not on the PATH
test one ... ok
failures:

---- b::two stdout ----
thread 'b::two' panicked at x.rs:1:2:

failures:
    b::two
    c::three

test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out
@@ end 2.0 exit 101
@@ done
";
        let mut report = Report::default();
        output.lines().for_each(|line| report.line(line));
        assert_eq!(report.failed_tests("a"), ["b::two", "c::three"]);
        assert!(report.failed_tests("z").is_empty());
        let left_out = vec![("d::four", "measures a rate")];
        let program = Program { name: "a".to_owned(), left_out, ..Program::default() };
        let outcome = report.outcome(&[program]);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (2, 2, 3));
        let notes = outcome.notes.join("\n");
        for said in ["failed: c::three", "skipped: one.rs:7: needs tshark", "d::four: measures"] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
    }

    #[test]
    fn refusal_is_a_bad_end_with_words() {
        for (said, end, passed) in [
            ("no zerocopy here", "exit 1", 1),
            ("no zerocopy here", "exit 0", 0),
            ("no zerocopy here", "killed at its time limit", 0),
            ("failed", "exit 1", 0),
        ] {
            let mut report = Report::default();
            let output = format!("@@ run a\n{said}\n@@ end 1.0 {end}\n@@ done");
            output.lines().for_each(|line| report.line(line));
            let expected = Expected::Refusal("zerocopy");
            let program = Program { name: "a".to_owned(), expected, ..Program::default() };
            let outcome = report.outcome(&[program]);
            assert_eq!((outcome.passed, outcome.failed), (passed, 1 - passed), "{said} {end}");
        }
    }

    #[test]
    fn killed_program_is_a_failure() {
        let output = "@@ run a\ntest result: ok. 3 passed; 0 failed\n\
                      @@ end 9.0 killed at its time limit\n@@ done\n";
        let outcome = outcome(output, &[("a", 0)]);
        assert_eq!((outcome.passed, outcome.failed), (3, 1));
        assert!(outcome.notes[0].ends_with("killed at its time limit"));
    }

    #[test]
    fn missing_end_is_a_failure() {
        assert_eq!(outcome("@@ run a\n@@ end 1.0 exit 0\n", &[("a", 0)]).failed, 1);
        assert_eq!(outcome("@@ run a\n", &[("a", 0), ("b", 0)]).failed, 3);
        assert_eq!(outcome("@@ failed no igb\n", &[]).failed, 2);
        assert_eq!(outcome("@@ end 1.0 exit 0\n@@ done\n", &[]).failed, 1);
    }

    #[test]
    fn complaints_of_the_kernel_are_found() {
        let console = "[ 1.0] igb: ready\n[ 2.0] WARNING: CPU: 0 PID: 1 at x.c:1\n";
        assert_eq!(complaints(console).len(), 1);
        assert!(complaints("[ 1.0] igb: ready\n").is_empty());
    }
}
