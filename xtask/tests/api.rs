//! Checks the snapshots of the public API, `crates/*/api.txt`, which the step `api` writes: every
//! library to be published has one, and they name no type of a crate that has none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crate docs of a published crate without a snapshot contain these words.
const UNSTABLE: &str = "implementation detail of Wirelane";

#[test]
fn every_published_library_has_a_snapshot() {
    let mut libraries = 0;
    for name in names() {
        let Ok(source) = fs::read_to_string(directory(&name).join("src/lib.rs")) else { continue };
        let manifest = fs::read_to_string(directory(&name).join("Cargo.toml")).unwrap();
        if manifest.lines().any(|line| line == "publish = false") {
            continue;
        }
        libraries += 1;
        let (stable, has) = (!crate_docs(&source).contains(UNSTABLE), has_snapshot(&name));
        assert_eq!(stable, has, "{name}: an api.txt, or \"{UNSTABLE}\" in its crate docs");
    }
    assert!(libraries > 10, "only {libraries} libraries were found");
}

#[test]
fn snapshots_name_no_type_of_a_crate_without_one() {
    let known = snapshots();
    let mut found = Vec::new();
    for name in &known {
        let text = fs::read_to_string(directory(name).join("api.txt")).unwrap();
        found.extend(foreign(&text, &known).map(|line| format!("{name}: {line}")));
    }
    assert!(found.is_empty(), "{} items:\n{}", found.len(), found.join("\n"));
}

/// A snapshot shows a re-export of another crate without the name of that crate.
#[test]
fn libraries_re_export_no_crate_without_a_snapshot() {
    let known = snapshots();
    let mut found = Vec::new();
    for name in &known {
        let source = fs::read_to_string(directory(name).join("src/lib.rs")).unwrap();
        let shown = re_exports(&source).filter(|line| foreign(line, &known).next().is_some());
        found.extend(shown.map(|line| format!("{name}: {line}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_type_of_another_crate_is_found() {
    let known = ["wirelane".to_owned(), "wirelane-wire".to_owned()].into();
    let text = "pub fn wirelane::Halt::ask(&self) -> wirelane_os::Result<()>\n\
        pub fn wirelane::Frame::layers(&self) -> wirelane_wire::Layers\n\
        pub struct wirelane::Offload(wirelane_lab::Offloads)\n";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(foreign(text, &known).collect::<Vec<_>>(), [lines[0], lines[2]]);
    let source = "pub use wirelane_os::clock;\n#[doc(hidden)]\npub use wirelane_os::error;\n\
        pub use wirelane_wire as wire;\n";
    let shown: Vec<_> = re_exports(source).collect();
    assert_eq!(shown, ["pub use wirelane_os::clock;", "pub use wirelane_wire as wire;"]);
    assert_eq!(foreign(shown[0], &known).count(), 1);
    assert_eq!(foreign(shown[1], &known).count(), 0);
    assert!(crate_docs("//! An implementation\n//! detail of Wirelane.\n").contains(UNSTABLE));
}

/// The lines that name a crate of this workspace other than the known ones.
fn foreign<'a>(text: &'a str, known: &BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    text.lines().filter(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let crates = words.filter(|word| *word == "wirelane" || word.starts_with("wirelane_"));
        let mut names = crates.map(|word| word.replace('_', "-"));
        names.any(|name| directory(&name).exists() && !known.contains(&name))
    })
}

/// The re-exports of other crates that the documentation shows.
fn re_exports(source: &str) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(source.lines());
    source.lines().zip(before).filter_map(|(line, before)| {
        let is_shown = line.starts_with("pub use wirelane") && before != "#[doc(hidden)]";
        is_shown.then_some(line)
    })
}

/// The documentation of a crate as one line.
fn crate_docs(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn snapshots() -> BTreeSet<String> {
    names().into_iter().filter(|name| has_snapshot(name)).collect()
}

fn has_snapshot(name: &str) -> bool {
    directory(name).join("api.txt").exists()
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(directory("")).expect("the directory of the crates");
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name)
}
