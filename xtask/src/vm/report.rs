//! What the guest says, counted.

use std::collections::VecDeque;

use serde_json::Value;

use super::plan::Program;
use crate::libtest;
use crate::step::Outcome;

/// Reads the lines of the guest's second serial port; `guest-init` describes them.
#[derive(Default)]
pub(crate) struct Report {
    running: Option<Said>,
    ended: Vec<(Said, String)>,
    notes: Vec<String>,
    /// What is wrong apart from the programs.
    failures: Vec<String>,
    /// Whether the guest came to the end of its plan.
    done: bool,
}

/// What a program said.
#[derive(Default)]
struct Said {
    name: String,
    lines: VecDeque<String>,
    tests: libtest::Report,
    rates: Vec<Rate>,
}

/// A rate that a measuring program reported.
struct Rate {
    mode: String,
    packets_per_s: f64,
}

impl Report {
    /// Takes one line in.
    pub(crate) fn line(&mut self, line: &str) {
        let Some(marker) = line.strip_prefix("@@ ") else {
            if let Some(running) = &mut self.running {
                running.tests.line(line);
                running.rates.extend(rates(line));
                running.keep(line);
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

    /// The end of what the programs of these names said.
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

/// So many lines of a program are kept.
const KEPT: usize = 200;

impl Said {
    fn keep(&mut self, line: &str) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    /// The counts of one program, which ended as `end` says: `SECONDS REASON`. One without test
    /// results and rates counts as one check.
    fn outcome(&self, program: &Program, end: &str) -> Outcome {
        let (seconds, reason) = end.split_once(' ').unwrap_or((end, ""));
        let succeeded = reason == "exit 0";
        let mut counts = if !self.tests.is_empty() {
            Outcome { notes: Vec::new(), ..self.tests.outcome(succeeded) }
        } else if program.rates > 0 {
            let passed = self.rates.iter().filter(|rate| rate.is_right()).count();
            let failed = self.rates.len().max(program.rates) - passed;
            Outcome { passed, failed, ..Outcome::default() }
        } else {
            Outcome::single(succeeded)
        };
        if !succeeded && counts.failed == 0 {
            counts.failed = 1;
        }
        let mut line = format!(
            "{}: {} passed, {} failed, {} skipped in {seconds} s",
            program.name, counts.passed, counts.failed, counts.skipped,
        );
        if !succeeded {
            line += &format!(", {reason}");
        }
        for rate in self.rates.iter().filter(|rate| !rate.is_right()) {
            line += &format!(", {} packets per second in mode {}", rate.packets_per_s, rate.mode);
        }
        counts.notes.push(line);
        counts
    }
}

impl Rate {
    /// Something moved, without copying. How much means nothing on an emulated machine.
    fn is_right(&self) -> bool {
        self.packets_per_s > 0.0 && self.mode.contains("zerocopy")
    }
}

/// The rates in a line of the form `wirelane.bench/1`.
fn rates(line: &str) -> Vec<Rate> {
    let Some(report) = line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok())
    else {
        return Vec::new();
    };
    let rows = report.as_ref().and_then(|report| report.get("rows")?.as_array());
    let rate = |row: &Value| {
        (row.get("metric")? == "packets_per_s").then_some(())?;
        Some(Rate {
            mode: row.get("params")?.get("mode")?.as_str()?.to_owned(),
            packets_per_s: row.get("median")?.as_f64()?,
        })
    };
    rows.into_iter().flatten().filter_map(rate).collect()
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
            rates: *rates,
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
            (right.replace("packets_per_s", "ns_per_packet"), 0, 2),
        ] {
            let output = format!("@@ run a\n{{\"rows\":[{rows}]}}\n@@ end 1.0 exit 0\n@@ done\n");
            let outcome = outcome(&output, &[("a", 2)]);
            assert_eq!((outcome.passed, outcome.failed), (passed, failed), "{rows}");
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
