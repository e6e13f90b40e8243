//! Steps: run one after the other, timed, and summed up in one line each.

use std::ops::AddAssign;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use wirelane_os::clock;

/// One step of a run.
pub(crate) struct Step<C> {
    /// The word that selects it on the command line.
    pub(crate) name: &'static str,
    /// A short description.
    pub(crate) about: &'static str,
    /// The function of the step.
    pub(crate) run: fn(&C) -> Outcome,
}

/// The result of a step: the counts of its checks, and notes for the summary.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) notes: Vec<String>,
    /// Flaky checks; they also count as passed.
    pub(crate) flaky: Vec<Flaky>,
}

/// A check that failed, and passed when it was repeated.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flaky {
    pub(crate) name: String,
    /// The output of its failure.
    pub(crate) output: String,
}

/// A step that has run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    name: String,
    outcome: Outcome,
    /// The elapsed time.
    seconds: f64,
    /// CPU time of its commands; `None` if the step did not run.
    cpu_seconds: Option<f64>,
}

/// A run with more flaky checks fails.
const MOST_FLAKY: usize = 3;

impl Outcome {
    /// One check, passed or failed.
    pub(crate) fn single(passed: bool) -> Self {
        Self { passed: passed.into(), failed: (!passed).into(), ..Self::default() }
    }

    /// One failed check, with the reason.
    pub(crate) fn failure(note: impl Into<String>) -> Self {
        Self { failed: 1, notes: vec![note.into()], ..Self::default() }
    }

    /// One skipped check, with the reason.
    pub(crate) fn skip(note: impl Into<String>) -> Self {
        Self { skipped: 1, notes: vec![note.into()], ..Self::default() }
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.notes.extend(other.notes);
        self.flaky.extend(other.flaky);
    }
}

impl Done {
    /// A result without a duration.
    pub(crate) fn new(name: &str, outcome: Outcome) -> Self {
        Self { name: name.to_owned(), outcome, seconds: 0.0, cpu_seconds: None }
    }
}

impl<C> Step<C> {
    /// Runs it under a heading.
    pub(crate) fn execute(&self, context: &C) -> Done {
        println!("\n=== {}: {}", self.name, self.about);
        let (start, before) = (Instant::now(), clock::children_cpu());
        let outcome = (self.run)(context);
        let cpu_seconds = Some(clock::children_cpu().since(before).total().as_secs_f64());
        let seconds = start.elapsed().as_secs_f64();
        Done { name: self.name.to_owned(), outcome, seconds, cpu_seconds }
    }
}

/// Prints the summary, and returns whether no step failed.
pub(crate) fn summarize(steps: Vec<Done>) -> bool {
    println!("\n=== summary");
    let mut total = Outcome::default();
    for done in steps {
        println!("{}", summary_line(&done));
        for note in &done.outcome.notes {
            println!("             {note}");
        }
        total += done.outcome;
    }
    let passes = judge_flaky(&mut total);
    println!("{}", counts(&total));
    passes
}

/// Lists flaky checks; too many of them are a failure. Returns whether the run passes.
fn judge_flaky(total: &mut Outcome) -> bool {
    for flaky in &total.flaky {
        println!("\n=== flaky: {} failed, then passed alone. It had written:", flaky.name);
        println!("{}", flaky.output.trim_end());
    }
    let count = total.flaky.len();
    if count > 0 {
        println!("\n{count} flaky, {MOST_FLAKY} at most pass");
    }
    if count > MOST_FLAKY {
        total.failed += 1;
    }
    total.failed == 0
}

fn summary_line(Done { name, outcome, seconds, cpu_seconds }: &Done) -> String {
    let verdict = match outcome {
        Outcome { failed: 1.., .. } => "FAILED",
        Outcome { passed: 0, skipped: 1.., .. } => "skipped",
        _ => "ok",
    };
    let cpu = cpu_seconds.map_or("?".to_owned(), |cpu| format!("{cpu:.1}"));
    format!("{name:<7} {verdict:<8} {seconds:6.1} s {cpu:>7} CPU s  {}", counts(outcome))
}

/// The last line of a run has exactly this form.
fn counts(outcome: &Outcome) -> String {
    format!("{} passed, {} failed, {} skipped", outcome.passed, outcome.failed, outcome.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_add_up() {
        let mut total = Outcome::single(true);
        total += Outcome::single(false);
        total += Outcome::skip("no root");
        assert_eq!(counts(&total), "1 passed, 1 failed, 1 skipped");
        assert_eq!(total.notes, ["no root"]);
    }

    #[test]
    fn three_flaky_checks_pass_and_four_do_not() {
        let flaky = |n| {
            let one = |i| Flaky { name: format!("test {i}"), output: "left: 1\n".into() };
            Outcome { passed: n, flaky: (0..n).map(one).collect(), ..Outcome::default() }
        };
        let mut total = flaky(2);
        total += flaky(1);
        assert!(judge_flaky(&mut total));
        total += flaky(1);
        assert!(!judge_flaky(&mut total));
        assert_eq!(counts(&total), "4 passed, 1 failed, 0 skipped");
    }

    fn done(outcome: Outcome) -> Done {
        Done { name: "miri".into(), outcome, seconds: 1.5, cpu_seconds: Some(2.25) }
    }

    #[test]
    fn summary_line_names_the_verdict() {
        let line = |outcome| summary_line(&done(outcome));
        let passed = line(Outcome::single(true));
        assert!(
            passed.starts_with("miri    ok          1.5 s     2.2 CPU s  1 passed"),
            "{passed}"
        );
        assert!(line(Outcome::failure("")).contains("FAILED"));
        assert!(line(Outcome::skip("")).contains("skipped "));
        let mut mixed = Outcome::single(true);
        mixed += Outcome::skip("");
        assert!(line(mixed).contains(" ok "));
    }

    #[test]
    fn one_failure_fails_the_run() {
        let failed = Step { name: "first", about: "", run: |_: &()| Outcome::failure("broken") };
        let passed = Step { name: "second", about: "", run: |_: &()| Outcome::single(true) };
        assert!(!summarize(vec![failed.execute(&()), passed.execute(&())]));
        assert!(summarize(vec![passed.execute(&())]));
    }

    #[test]
    fn the_time_of_commands_is_counted() {
        let spend = |(): &()| {
            let ended = std::process::Command::new("sh")
                .args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
                .status();
            Outcome::single(ended.is_ok_and(|status| status.success()))
        };
        let done = Step { name: "loop", about: "", run: spend }.execute(&());
        assert!(done.cpu_seconds.is_some_and(|cpu| cpu > 0.0), "{done:?}");
    }
}
