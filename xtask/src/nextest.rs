//! Runs unit and integration tests, each in a separate process, by `cargo nextest` with
//! `.config/nextest.toml`.
//!
//! A failed test is repeated alone, twice at most. If it then passes, it is flaky: it counts as
//! passed, and is listed at the end of the run with the output of its failure.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;

use roxmltree::{Document, Node};

use crate::cargo;
use crate::context::Context;
use crate::step::{Flaky, Outcome};

/// The version to build if none is installed; `.config/nextest.toml` has the oldest accepted
/// version.
const VERSION: &str = "0.9.151";

/// How often a failed test is repeated.
pub(crate) const AGAIN: usize = 2;

/// With more failures than this, the run has failed, and tests are not repeated.
const MOST_RERUN: usize = 20;

/// Exit statuses of nextest (`NextestExitCode`).
const PASSED: i32 = 0;
const SOME_FAILED: i32 = 100;

/// Whether `cargo nextest` is installed, and new enough.
pub(crate) fn is_there() -> bool {
    cargo::output(&mut cargo::stable(&["nextest", "show-config", "version"])).is_some()
}

/// Builds and installs it without optimisation. It mostly waits, and the build takes a third of the
/// time.
pub(crate) fn install() {
    let arguments = ["install", "cargo-nextest", "--version", VERSION, "--locked", "--debug"];
    let features = ["--no-default-features", "--features", "default-no-update"];
    cargo::succeeds(cargo::stable(&arguments).args(features).env("CARGO_PROFILE_DEV_DEBUG", "0"));
}

/// The results of the tests of a run.
#[derive(Default)]
pub(crate) struct Report {
    cases: Vec<Case>,
    flaky: Vec<Flaky>,
    /// Problems other than failed tests.
    broken: Option<String>,
}

/// A test that ran.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    /// The id of its binary, as in `wirelane::contract`.
    binary: String,
    name: String,
    seconds: f64,
    /// Its output, if it failed.
    failure: Option<String>,
}

/// Runs all tests of the workspace. `environment` sets the environment of each command.
pub(crate) fn run(context: &Context, environment: impl Fn(&mut Command)) -> Report {
    let junit = context.target("nextest").join("default").join("junit.xml");
    let round = |threads: &str, arguments: &[String]| {
        let mut command = cargo::stable(&["nextest", "run", "--workspace", "--no-fail-fast"]);
        command.args(["--show-progress", "none", "--test-threads", threads]).args(arguments);
        environment(&mut command);
        round(&mut command, &junit)
    };
    let mut report = match round(&at_once().to_string(), &[]) {
        Ok(cases) => Report { cases, ..Report::default() },
        Err(reason) => return Report { broken: Some(reason), ..Report::default() },
    };
    for _ in 0..AGAIN {
        let failed: Vec<&Case> = report.failed().collect();
        if failed.is_empty() || failed.len() > MOST_RERUN {
            break;
        }
        println!("\nAgain, alone: {} that failed", failed.len());
        match round("1", &["-E".into(), filter(&failed)]) {
            Ok(cases) => report.take_again(&cases),
            Err(reason) => report.broken = Some(reason),
        }
    }
    report
}

/// How many tests run at once. A test waits for half of its time, mostly for packets and programs.
/// On 2 processors, all tests took 1,322 s with two at once and 1,137 s with three, on a busier
/// machine.
fn at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors + processors / 2
}

/// How many tests are ignored by default.
pub(crate) fn ignored() -> usize {
    let list = ["nextest", "list", "--workspace", "--run-ignored", "only"];
    let lines = cargo::output(cargo::stable(&list).args(["--message-format", "oneline"]));
    lines.map_or(0, |lines| lines.lines().count())
}

/// Runs `command`, which writes `junit`.
fn round(command: &mut Command, junit: &PathBuf) -> Result<Vec<Case>, String> {
    // Removes the results of an earlier run.
    if let Err(error) = fs::remove_file(junit)
        && junit.exists()
    {
        return Err(format!("cannot remove {}: {error}", junit.display()));
    }
    cargo::show(command);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !matches!(status.code(), Some(PASSED | SOME_FAILED)) {
        return Err(format!("the tests did not build, or their runner failed: {status}"));
    }
    let cases = read(junit)?;
    if status.success() != cases.iter().all(|case| case.failure.is_none()) {
        return Err(format!("{status}, but {} says otherwise", junit.display()));
    }
    Ok(cases)
}

fn read(junit: &Path) -> Result<Vec<Case>, String> {
    let error = |error: &dyn std::fmt::Display| format!("{}: {error}", junit.display());
    let text = fs::read_to_string(junit).map_err(|cause| error(&cause))?;
    parse(&text).map_err(|cause| error(&cause))
}

/// The cases of a JUnit file.
fn parse(text: &str) -> Result<Vec<Case>, roxmltree::Error> {
    let document = Document::parse(text)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    Ok(cases.map(case).collect())
}

fn case(node: Node<'_, '_>) -> Case {
    let attribute = |name| node.attribute(name).unwrap_or_default().to_owned();
    let of = |tags: &[&str]| {
        let children = node.children().filter(|child| tags.contains(&child.tag_name().name()));
        children.filter_map(|child| child.text()).collect::<Vec<_>>().join("\n")
    };
    let failed =
        node.children().any(|child| child.has_tag_name("failure") || child.has_tag_name("error"));
    Case {
        binary: attribute("classname"),
        name: attribute("name"),
        seconds: attribute("time").parse().unwrap_or_default(),
        failure: failed.then(|| match of(&["system-out", "system-err"]) {
            nothing if nothing.is_empty() => of(&["failure", "error"]),
            written => written,
        }),
    }
}

/// The filterset that selects exactly these tests.
fn filter(cases: &[&Case]) -> String {
    let each =
        cases.iter().map(|case| format!("(binary_id(={}) & test(={}))", case.binary, case.name));
    each.collect::<Vec<_>>().join(" | ")
}

impl Report {
    /// The counts of the step. `skipped` of the tests reported that they were skipped.
    pub(crate) fn outcome(self, skipped: usize) -> Outcome {
        let failed = self.failed().count();
        let mut outcome = Outcome {
            passed: (self.cases.len() - failed).saturating_sub(skipped),
            failed,
            skipped,
            ..Outcome::default()
        };
        outcome.notes.extend(self.failed().map(|case| format!("failed: {}", case.title())));
        outcome.notes.extend(self.slowest());
        if let Some(reason) = self.broken {
            outcome += Outcome::failure(reason);
        } else if self.cases.is_empty() {
            outcome += Outcome::failure("no test ran");
        }
        outcome.flaky = self.flaky;
        outcome
    }

    /// The names of the tests that need privileges and passed.
    pub(crate) fn privileged(&self) -> impl Iterator<Item = &str> {
        let passed = self.cases.iter().filter(|case| case.failure.is_none());
        passed.map(|case| case.name.as_str()).filter(|name| {
            name.rsplit("::").next().is_some_and(|last| last.starts_with("privileged_"))
        })
    }

    fn failed(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.failure.is_some())
    }

    /// Applies the results of repeated tests.
    fn take_again(&mut self, again: &[Case]) {
        for case in &mut self.cases {
            let passes = again.iter().any(|other| {
                (&other.binary, &other.name) == (&case.binary, &case.name)
                    && other.failure.is_none()
            });
            if passes && let Some(output) = case.failure.take() {
                self.flaky.push(Flaky { name: case.title(), output });
            }
        }
    }

    /// A note on the slowest tests.
    fn slowest(&self) -> Option<String> {
        let mut cases: Vec<&Case> = self.cases.iter().collect();
        cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let sum: f64 = cases.iter().map(|case| case.seconds).sum();
        let line = |case: &&Case| format!("{} {:.1} s", case.title(), case.seconds);
        let slowest: Vec<String> = cases.iter().take(5).map(line).collect();
        (!slowest.is_empty())
            .then(|| format!("{sum:.0} s of tests; the slowest: {}", slowest.join(", ")))
    }
}

impl Case {
    fn title(&self) -> String {
        format!("{} {}", self.binary, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" time="1.5">
    <testsuite name="wirelane::contract" tests="2" disabled="0" errors="0" failures="1">
        <testcase name="sim::holds" classname="wirelane::contract" time="0.5"></testcase>
        <testcase name="veth::privileged_holds" classname="wirelane::contract" time="1.0">
            <failure message="thread panicked" type="test failure">left: 1&#10;right: 2</failure>
            <system-out>running 1 test</system-out>
            <system-err>what it &lt;wrote&gt;</system-err>
        </testcase>
    </testsuite>
    <testsuite name="wirelane" tests="1" disabled="0" errors="0" failures="0">
        <testcase name="a::privileged_passes" classname="wirelane" time="0.1"></testcase>
    </testsuite>
</testsuites>"#;

    fn report() -> Report {
        Report { cases: parse(FILE).unwrap(), ..Report::default() }
    }

    #[test]
    fn failures_come_with_what_they_wrote() {
        let report = report();
        let failed: Vec<_> = report.failed().collect();
        assert_eq!(
            filter(&failed),
            "(binary_id(=wirelane::contract) & test(=veth::privileged_holds))"
        );
        let output = failed[0].failure.as_deref().unwrap();
        assert_eq!(output, "running 1 test\nwhat it <wrote>");
        assert_eq!(report.privileged().collect::<Vec<_>>(), ["a::privileged_passes"]);
        let outcome = report.outcome(1);
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped), (1, 1, 1));
        assert_eq!(outcome.notes[0], "failed: wirelane::contract veth::privileged_holds");
    }

    #[test]
    fn a_test_that_passes_alone_is_flaky_and_one_that_does_not_has_failed() {
        let (mut report, again) = (report(), report().cases);
        report.take_again(&again);
        assert_eq!((report.failed().count(), report.flaky.len()), (1, 0));
        let passes = Case { failure: None, ..again[1].clone() };
        report.take_again(&[passes]);
        assert_eq!(report.failed().count(), 0);
        let outcome = report.outcome(0);
        assert_eq!((outcome.passed, outcome.failed), (3, 0));
        assert_eq!(outcome.flaky[0].name, "wirelane::contract veth::privileged_holds");
        assert!(outcome.flaky[0].output.contains("what it <wrote>"));
    }

    #[test]
    fn no_case_is_a_failure() {
        assert_eq!(Report::default().outcome(0).failed, 1);
        assert!(parse("not XML").is_err());
    }
}
