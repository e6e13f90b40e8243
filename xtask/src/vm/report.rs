//! What the guest says, counted.

use crate::libtest;
use crate::step::Outcome;

/// Reads the lines of the guest's second serial port; `guest-init` describes them.
#[derive(Default)]
pub(crate) struct Report {
    /// The name of the running program, and what the test harness in it says.
    running: Option<(String, libtest::Report)>,
    ended: Vec<String>,
    outcome: Outcome,
    /// Whether the guest came to the end of its plan.
    done: bool,
}

impl Report {
    /// Takes one line in.
    pub(crate) fn line(&mut self, line: &str) {
        let Some(marker) = line.strip_prefix("@@ ") else {
            if let Some((_, report)) = &mut self.running {
                report.line(line);
            }
            return;
        };
        let (word, rest) = marker.split_once(' ').unwrap_or((marker, ""));
        match word {
            "note" => self.outcome.notes.push(format!("Linux {rest}")),
            "run" => self.running = Some((rest.to_owned(), libtest::Report::default())),
            "end" => self.end(rest),
            "done" => self.done = true,
            _ => self.fail(rest.to_owned()),
        }
    }

    /// The counts of all programs; `expected` are the names of those that had to run.
    pub(crate) fn outcome<'a>(mut self, expected: impl Iterator<Item = &'a str>) -> Outcome {
        for name in expected {
            if !self.ended.iter().any(|ended| ended == name) {
                self.fail(format!("{name}: did not come to its end"));
            }
        }
        if !self.done {
            self.fail("the guest did not come to its end".to_owned());
        }
        self.outcome
    }

    /// A program ended: `SECONDS NAME REASON`. One without test results counts as one check.
    fn end(&mut self, marker: &str) {
        let mut words = marker.splitn(3, ' ');
        let (Some(seconds), Some(name), Some(reason)) = (words.next(), words.next(), words.next())
        else {
            return self.fail(format!("the guest said: {marker}"));
        };
        let succeeded = reason == "exit 0";
        let report = match self.running.take() {
            Some((running, report)) if running == name => report,
            _ => return self.fail(format!("{name}: ended without having begun")),
        };
        let counts = if report.is_empty() {
            Outcome::single(succeeded)
        } else {
            Outcome { notes: Vec::new(), ..report.outcome(succeeded, 0) }
        };
        self.outcome.notes.push(format!(
            "{name}: {} passed, {} failed, {} skipped in {seconds} s{}",
            counts.passed,
            counts.failed,
            counts.skipped,
            if succeeded { String::new() } else { format!(", {reason}") }
        ));
        self.outcome += counts;
        self.ended.push(name.to_owned());
    }

    fn fail(&mut self, note: String) {
        self.outcome += Outcome::failure(note);
    }
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

    fn outcome(output: &str, expected: &[&str]) -> Outcome {
        let mut report = Report::default();
        output.lines().for_each(|line| report.line(line));
        report.outcome(expected.iter().copied())
    }

    #[test]
    fn programs_are_summed() {
        let output = "\
@@ note 6.14, igb0 with 2 queues

@@ run list
anything
@@ end 0.1 list exit 0

@@ run contract
test one ... ok
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

@@ end 2.0 contract exit 101

@@ done
";
        let outcome = outcome(output, &["list", "contract"]);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (4, 1, 0));
        assert_eq!(outcome.notes[0], "Linux 6.14, igb0 with 2 queues");
        assert_eq!(outcome.notes[2], "contract: 3 passed, 1 failed, 0 skipped in 2.0 s, exit 101");
    }

    #[test]
    fn killed_program_is_a_failure() {
        let output = "@@ run a\ntest result: ok. 3 passed; 0 failed\n\
                      @@ end 9.0 a killed after 9 s\n@@ done\n";
        let outcome = outcome(output, &["a"]);
        assert_eq!((outcome.passed, outcome.failed), (3, 1));
        assert!(outcome.notes[0].ends_with("killed after 9 s"));
    }

    #[test]
    fn missing_end_is_a_failure() {
        assert_eq!(outcome("@@ run a\n@@ end 1.0 a exit 0\n", &["a"]).failed, 1);
        assert_eq!(outcome("@@ run a\n", &["a", "b"]).failed, 3);
        assert_eq!(outcome("@@ failed no igb\n", &[]).failed, 2);
        assert_eq!(outcome("@@ end 1.0 a exit 0\n@@ done\n", &[]).failed, 1);
    }

    #[test]
    fn complaints_of_the_kernel_are_found() {
        let console = "[ 1.0] igb: ready\n[ 2.0] WARNING: CPU: 0 PID: 1 at x.c:1\n";
        assert_eq!(complaints(console).len(), 1);
        assert!(complaints("[ 1.0] igb: ready\n").is_empty());
    }
}
