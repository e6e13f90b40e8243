//! The library exports what Debian's libpcap 1.10.3 does: 94 functions and 2 variables,
//! `symbols.txt`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::run;
use wirelane_testkit::tools;

/// The symbol that identifies the drop-in (`wirelane_filter::libpcap::system`).
const OURS_ALONE: &str = "wirelane_libpcap";

fn exported(library: &Path) -> BTreeSet<String> {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let name = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    output.lines().filter_map(name).collect()
}

/// From nm -D --defined-only of Debian's libpcap.so.1.10.3.
fn listed() -> BTreeSet<String> {
    include_str!("symbols.txt").lines().map(str::to_owned).collect()
}

#[test]
fn exported_symbols_are_those_of_libpcap() {
    if !tools::require("nm") {
        return;
    }
    let mut expected = listed();
    assert_eq!(expected.len(), 96);
    assert!(expected.insert(OURS_ALONE.to_owned()));
    let ours = exported(&Library::Ours.file());
    let missing: Vec<_> = expected.difference(&ours).collect();
    let more: Vec<_> = ours.difference(&expected).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing: {missing:?}, too much: {more:?}");
}

/// On a system with a later version, this lists its additional symbols.
#[test]
fn the_list_is_not_behind_the_system() {
    if !tools::require("nm") {
        return;
    }
    let system = exported(&Library::Stock.file());
    let missing: Vec<_> = listed().difference(&system).cloned().collect();
    assert!(missing.is_empty(), "the system's libpcap has no {missing:?}");
}

#[test]
fn the_documents_have_a_row_for_each() {
    let table = include_str!("../../../docs/libpcap.md");
    let missing: Vec<_> =
        listed().into_iter().filter(|it| !table.contains(&format!("`{it}`"))).collect();
    assert!(missing.is_empty(), "docs/libpcap.md has no row for {missing:?}");
}
