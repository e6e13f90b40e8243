//! Counts the results that the test harness prints.

use crate::step::Outcome;

/// The counts of any number of test binaries.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Report {
    /// Reads one line of output.
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
        }
    }

    /// Whether no test has been counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.ignored == 0
    }

    /// The counts. `succeeded` is the exit status.
    pub(crate) fn outcome(&self, succeeded: bool) -> Outcome {
        let mut outcome = Outcome {
            passed: self.passed,
            failed: self.failed,
            skipped: self.ignored,
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
        let outcome = report(OUTPUT).outcome(false);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (4, 1, 1));
    }

    #[test]
    fn run_without_results_is_a_failure() {
        assert_eq!(report("").outcome(false).failed, 1);
        assert_eq!(report("").outcome(true).failed, 1);
        assert_eq!(report(OUTPUT).outcome(false).failed, 1);
    }
}
