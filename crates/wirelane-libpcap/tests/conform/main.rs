//! The conformance suite: small programs in C (`suite/`), each run over the system's libpcap and
//! over the drop-in. Both must follow libpcap's documentation. Their answers differ only where
//! `differences.rs` lists it.
//!
//! The suite also runs over the drop-in under valgrind, which must find no leak and no invalid
//! access. `cargo xtask test tsan` runs the thread tests under ThreadSanitizer.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bench;
mod differences;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::process::Command;

use wirelane_testkit::libpcap::{Library, stock};
use wirelane_testkit::process::run;
use wirelane_testkit::{privileged, tools};

use crate::bench::{Bench, Sanitized, Suite, Test};
use crate::differences::DIFFERENCES;

/// A test for each group.
macro_rules! groups {
    (answers: $($compared:ident)* ; valgrind: $($examined:ident)*) => {
        const GROUPS: &[&str] = &[$(stringify!($compared)),*];

        mod answers {
            $(mod $compared {
                #[test]
                fn privileged_are_those_of_the_systems_library() {
                    crate::compare(stringify!($compared));
                }
            })*
        }

        mod valgrind {
            $(mod $examined {
                #[test]
                fn privileged_finds_nothing() {
                    crate::examine(stringify!($examined));
                }
            })*
        }
    };
}

groups! {
    answers: bad breaks dead devices filter info interfaces names options read rights savefile send threads;
    // Without the bad calls, each of which runs in a child process that may die.
    valgrind: breaks dead devices filter info interfaces names options read rights savefile send threads
}

#[test]
fn every_exported_function_is_tested() {
    if !can_compile() || !tools::require("nm") {
        return;
    }
    let tests = Suite::compile().tests();
    let tested: BTreeSet<&str> =
        tests.iter().flat_map(|test| test.functions.iter().map(String::as_str)).collect();
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(stock()));
    // Address, type, name.
    let exported = symbols.lines().filter_map(|line| line.split_once(" T ")).map(|(_, name)| name);
    let missing: Vec<&str> = exported.filter(|name| !tested.contains(name)).collect();
    assert!(missing.is_empty(), "no test of the suite is about {missing:?}");
}

#[test]
fn every_group_and_every_difference_belongs_to_a_test() {
    if !can_compile() {
        return;
    }
    let tests = Suite::compile().tests();
    let groups: BTreeSet<&str> = tests.iter().map(|test| test.group.as_str()).collect();
    assert_eq!(groups, GROUPS.iter().copied().collect());
    for difference in DIFFERENCES {
        assert!(tests.iter().any(|test| test.name == difference.test), "{difference:?}");
        assert!(!difference.why.is_empty(), "{difference:?}");
    }
}

/// Programs that are linked with jemalloc or tcmalloc. Each allocator frees its own memory, also
/// for the system's library behind the drop-in.
#[test]
fn privileged_programs_may_have_an_allocator_of_their_own() {
    let Some(bench) = bench() else { return };
    for group in ["names", "savefile", "options", "filter", "devices", "threads"] {
        let report = bench.run_with_allocator(group);
        assert!(report.status.success(), "{group}: {}\n{}", report.status, report.stderr);
    }
}

/// `cargo xtask test tsan` builds the drop-in and sets its path. It may run beside other tests:
/// rules about time may then be broken, and this test ignores them.
#[test]
#[ignore = "needs the drop-in as `cargo xtask test tsan` builds it"]
fn privileged_thread_sanitizer_finds_no_race() {
    if !privileged::require() || !can_compile() {
        return;
    }
    let path =
        |name| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")));
    let sanitized = Sanitized {
        library: path("WIRELANE_TSAN_LIBRARY"),
        runtime: path("WIRELANE_TSAN_RUNTIME"),
    };
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::new(Suite::compile_sanitized(&sanitized.runtime, directory.path()));
    for group in ["threads", "breaks", "read"] {
        let report = bench.sanitize(&sanitized, group);
        // Exit status 1: a broken rule.
        assert!(matches!(report.status.code(), Some(0 | 1)), "{group}: {}", report.stderr);
        assert!(!report.stderr.contains("ThreadSanitizer"), "{group}: {}", report.stderr);
    }
}

/// A compiler, and the headers of libpcap.
fn can_compile() -> bool {
    tools::require("gcc") && tools::require("pcap-config")
}

fn bench() -> Option<Bench> {
    (privileged::require() && can_compile()).then(|| Bench::new(Suite::compile()))
}

fn compare(group: &str) {
    let Some(bench) = bench() else { return };
    let tests = bench.suite.tests().into_iter().filter(|test| test.group == group);
    let wrong: Vec<String> = tests.flat_map(|test| compare_one(&bench, &test)).collect();
    assert!(wrong.is_empty(), "{} in {group}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The differences between both runs of a test.
fn compare_one(bench: &Bench, test: &Test) -> Vec<String> {
    let [stock, ours] = Library::BOTH.map(|library| bench.run(library, test));
    let name = &test.name;
    let mut wrong = Vec::new();
    for (library, run) in [("stock", &stock), ("ours", &ours)] {
        if !run.kept_the_rules {
            wrong.push(format!("{name}, {library}: {}\n{}", run.status, run.stderr));
        }
    }
    let mut unseen: Vec<_> = DIFFERENCES.iter().filter(|it| it.test == name).collect();
    let additional = |answer: &&String| {
        DIFFERENCES.iter().any(|it| it.test == name && it.stock.is_empty() && it.allows("", answer))
    };
    let (added, ours): (Vec<_>, Vec<_>) = ours.answers.iter().partition(additional);
    unseen.retain(|it| !added.iter().any(|answer| it.allows("", answer)));
    for (stock, ours) in stock.answers.iter().zip(&ours) {
        // A call that kills the program over the system's library may or may not kill it over the
        // drop-in.
        if stock == *ours || stock.ends_with(": dies") {
            continue;
        }
        let listed = DIFFERENCES.iter().any(|it| it.test == name && it.allows(stock, ours));
        if !listed {
            wrong.push(format!("{name}\n  stock: {stock}\n  drop-in: {ours}"));
        }
        unseen.retain(|it| !it.allows(stock, ours));
    }
    let counts = [stock.answers.len(), ours.len()];
    if counts[0] != counts[1] {
        wrong.push(format!("{name}: {} answers of stock, {} of the drop-in", counts[0], counts[1]));
    }
    wrong.extend(unseen.iter().map(|it| format!("{name}: this difference is gone: {it:?}")));
    wrong
}

fn examine(group: &str) {
    if !tools::require("valgrind") {
        return;
    }
    let Some(bench) = bench() else { return };
    let report = bench.examine(group);
    assert!(report.status.success(), "{}\n{}{}", report.status, report.stderr, report.stdout);
}
