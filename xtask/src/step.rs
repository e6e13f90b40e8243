//! Steps: run one after the other, timed, and summed up in one line each.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// One step of a run.
pub(crate) struct Step<C> {
    /// The word that selects it on the command line.
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) about: &'static str,
    /// Does it.
    pub(crate) run: fn(&C) -> Outcome,
}

/// How a step went: a count of its checks, and what the reader of the summary should know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) notes: Vec<String>,
    /// Among those that passed.
    pub(crate) flaky: Vec<Flaky>,
}

/// A check that failed, and passed when it was made again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaky {
    pub(crate) name: String,
    /// What it wrote when it failed.
    pub(crate) output: String,
}

/// A run with more flaky checks than this has failed.
const MOST_FLAKY: usize = 3;

impl Outcome {
    /// One check, passed or failed.
    pub(crate) fn single(passed: bool) -> Self {
        Self { passed: passed.into(), failed: (!passed).into(), ..Self::default() }
    }

    /// One check that failed, and why.
    pub(crate) fn failure(note: impl Into<String>) -> Self {
        Self { failed: 1, notes: vec![note.into()], ..Self::default() }
    }

    /// One check that was not made, and why.
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

/// Runs `steps`, prints the summary, and returns whether none failed.
///
/// A failed step does not stop the run: one run shows all that is wrong.
pub(crate) fn run_all<C>(steps: &[&Step<C>], context: &C) -> bool {
    let results: Vec<_> = steps
        .iter()
        .map(|step| {
            println!("\n=== {}: {}", step.name, step.about);
            let start = Instant::now();
            let outcome = (step.run)(context);
            (step.name, outcome, start.elapsed())
        })
        .collect();

    println!("\n=== summary");
    let mut total = Outcome::default();
    for (name, outcome, elapsed) in results {
        println!("{}", summary_line(name, &outcome, elapsed));
        for note in &outcome.notes {
            println!("             {note}");
        }
        total += outcome;
    }
    let passes = judge_flaky(&mut total);
    println!("{}", counts(&total));
    passes
}

/// Lists what was flaky; too much of it is a failure. Returns whether the run passes.
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

fn summary_line(name: &str, outcome: &Outcome, elapsed: Duration) -> String {
    let verdict = match outcome {
        Outcome { failed: 1.., .. } => "FAILED",
        Outcome { passed: 0, skipped: 1.., .. } => "skipped",
        _ => "ok",
    };
    format!("{name:<7} {verdict:<8} {:6.1} s  {}", elapsed.as_secs_f64(), counts(outcome))
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

    #[test]
    fn summary_line_names_the_verdict() {
        let line = |outcome| summary_line("miri", &outcome, Duration::from_millis(1500));
        assert!(line(Outcome::single(true)).starts_with("miri    ok          1.5 s  1 passed"));
        assert!(line(Outcome::failure("")).contains("FAILED"));
        assert!(line(Outcome::skip("")).contains("skipped "));
        let mut mixed = Outcome::single(true);
        mixed += Outcome::skip("");
        assert!(line(mixed).contains(" ok "));
    }

    #[test]
    fn run_all_goes_on_after_a_failure() {
        let first = Step { name: "first", about: "", run: |_: &()| Outcome::failure("broken") };
        let second = Step { name: "second", about: "", run: |_: &()| Outcome::single(true) };
        assert!(!run_all(&[&first, &second], &()));
        assert!(run_all(&[&second], &()));
    }
}
