//! Measures our command and other programs in turns.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::report::Report;
use crate::statistics::rounds::Rounds;
use wirelane::error::Result;
use wirelane_cli::companion::COMMAND;

/// How thoroughly to measure our command, as a process, beside other programs.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPlan<'a> {
    /// Our own command.
    pub own: &'a Path,
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long a program is under load, about.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// A folder on the disk to write to; without, that is left out.
    pub disk: Option<&'a Path>,
}

/// Our own command.
///
/// # Errors
/// It is neither beside this program nor on the `PATH`.
pub(crate) fn own() -> Result<PathBuf> {
    COMMAND.find()
}

/// Something that is measured once in every round: a program, or several together, under one
/// condition.
pub(crate) trait Turn {
    /// The case that is listed as skipped if it cannot be measured.
    fn case(&self) -> &'static str;

    /// What is measured, in words.
    fn title(&self) -> String;

    /// Measures once and keeps the sample. `stop` may end it early, without a sample.
    fn measure(&mut self, round: u32, stop: &AtomicBool, report: &mut Report) -> Result<()>;
}

/// Failures in a row after which a turn is over: what does not work has had its time.
const MOST_FAILURES: u32 = 2;

/// Measures all of them in rounds. What fails is skipped with its reason, and tried once more in
/// the next round. Each round starts with the next of them, so that none is always first; the first
/// round, perhaps the only one, keeps the order.
pub(crate) fn take<T: Turn>(
    suite: &'static str,
    plan: &ProcessPlan<'_>,
    turns: &mut [T],
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let mut failures = vec![0; turns.len()];
    for round in Rounds::new(plan.samples, plan.limit) {
        let first = (round as usize - 1) % turns.len().max(1);
        let mut all: Vec<_> = turns.iter_mut().zip(&mut failures).collect();
        all.rotate_left(first);
        for (turn, failures) in all {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if *failures == MOST_FAILURES {
                continue;
            }
            progress(round, &turn.title());
            match turn.measure(round, stop, report) {
                Ok(()) => *failures = 0,
                // Who is ended with the run has not failed.
                Err(_) if stop.load(Ordering::Relaxed) => return,
                Err(error) => {
                    *failures += 1;
                    report.skip(suite, turn.case(), error.to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane::Error;

    struct Named(&'static str, Vec<u32>);

    impl Turn for Named {
        fn case(&self) -> &'static str {
            self.0
        }

        fn title(&self) -> String {
            self.0.to_owned()
        }

        fn measure(&mut self, round: u32, _: &AtomicBool, _: &mut Report) -> Result<()> {
            self.1.push(round);
            if self.0 == "b" { Err(Error::failed("b", "cannot")) } else { Ok(()) }
        }
    }

    #[test]
    fn each_round_has_everyone_and_another_one_first() {
        let plan = ProcessPlan {
            own: Path::new("none"),
            samples: 3,
            window: Duration::ZERO,
            limit: None,
            disk: None,
        };
        let mut turns = ["a", "b", "c"].map(|name| Named(name, Vec::new()));
        let (mut report, mut order) = (Report::new("test".into()), String::new());
        let mut run = |stop, turns: &mut [Named]| {
            let stop = AtomicBool::new(stop);
            take("s", &plan, turns, &mut report, &stop, &mut |_, title| order.push_str(title));
        };
        run(false, &mut turns);
        run(true, &mut turns);
        run(false, &mut []);
        // One that fails is tried once more.
        assert_eq!(order, "abcbcaca");
        let rounds: Vec<_> = turns.iter().map(|turn| turn.1.as_slice()).collect();
        assert_eq!(rounds, [&[1, 2, 3][..], &[1, 2], &[1, 2, 3]]);
        // Once, however often it failed.
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.skipped[0].case, "b");
    }
}
