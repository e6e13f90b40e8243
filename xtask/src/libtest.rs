//! What the test harness prints, counted.

use std::collections::HashMap;

use crate::step::Outcome;

/// What the output of any number of test binaries says.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// The tests that passed and need privileges, by name, with how many there are of that name.
    privileged: HashMap<String, usize>,
}

impl Report {
    /// Takes one line of output in.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            for part in result.split([';', '.']) {
                let mut words = part.split_whitespace();
                let count = words.next().and_then(|word| word.parse::<usize>().ok());
                match (count, words.next()) {
                    (Some(count), Some("passed")) => self.passed += count,
                    (Some(count), Some("failed")) => self.failed += count,
                    (Some(count), Some("ignored")) => self.ignored += count,
                    _ => {}
                }
            }
        } else if let Some(name) = passed_test(line)
            && name.rsplit("::").next().is_some_and(|last| last.starts_with("privileged_"))
        {
            *self.privileged.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Whether no test has been counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.ignored == 0
    }

    /// How many tests that need privileges passed.
    pub(crate) fn privileged(&self) -> usize {
        self.privileged.values().sum()
    }

    /// The privileged tests that passed but are not in `log`, one name per line, as having run.
    pub(crate) fn missing_from(&self, log: &str) -> Vec<String> {
        let mut ran: HashMap<&str, usize> = HashMap::new();
        for name in log.lines() {
            *ran.entry(name).or_default() += 1;
        }
        let mut missing: Vec<String> = self
            .privileged
            .iter()
            .filter(|(name, count)| ran.get(name.as_str()).unwrap_or(&0) < count)
            .map(|(name, _)| name.clone())
            .collect();
        missing.sort();
        missing
    }

    /// The counts. `succeeded` is what the exit status said, `skipped` how many of those that the
    /// harness takes for passed said that they were skipped.
    pub(crate) fn outcome(&self, succeeded: bool, skipped: usize) -> Outcome {
        let mut outcome = Outcome {
            passed: self.passed.saturating_sub(skipped),
            failed: self.failed,
            skipped: self.ignored + skipped,
            ..Outcome::default()
        };
        if !succeeded && self.failed == 0 {
            outcome += Outcome::failure("a test binary did not build or did not end properly");
        }
        if succeeded && self.passed == 0 {
            outcome += Outcome::failure("no test ran");
        }
        outcome
    }
}

/// The name in a line such as `test module::name - should panic ... ok`.
fn passed_test(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(output: &str) -> Report {
        let mut report = Report::default();
        output.lines().for_each(|line| report.line(line));
        report
    }

    const OUTPUT: &str = "\
running 3 tests
test one ... ok
test tap::privileged_two ... ok
test privileged_three - should panic ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.16s

test privileged_three ... ok
test privileged_four ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s
";

    #[test]
    fn results_are_summed() {
        let outcome = report(OUTPUT).outcome(false, 1);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (3, 1, 2));
    }

    #[test]
    fn the_log_must_hold_privileged_tests() {
        let report = report(OUTPUT);
        assert_eq!(report.privileged(), 3);
        assert_eq!(report.missing_from(""), ["privileged_three", "tap::privileged_two"]);
        assert_eq!(
            report.missing_from("tap::privileged_two\nprivileged_three\n"),
            ["privileged_three"]
        );
        let log = "privileged_three\ntap::privileged_two\nprivileged_three\nprivileged_four\n";
        assert!(report.missing_from(log).is_empty());
    }

    #[test]
    fn run_without_results_is_a_failure() {
        assert_eq!(report("").outcome(false, 0).failed, 1);
        assert_eq!(report("").outcome(true, 0).failed, 1);
        assert_eq!(report(OUTPUT).outcome(false, 0).failed, 1);
    }
}
