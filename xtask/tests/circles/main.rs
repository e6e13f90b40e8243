//! Checks that the files of a crate have no circular uses: no file uses an item of another file
//! that uses it, directly or through others.
//!
//! A use is a path in the code; an import alone does not count. A re-export is a use, too: the file
//! uses the item that it re-exports. A file that takes the item from there uses this file as well
//! as the file that defines it. So a child of a `mod.rs` that re-exports it must import from its
//! siblings instead of that `mod.rs`. Test code is left out, because tests may use everything.
//! Circles of crates are impossible: cargo rejects them.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use source::Crate;

/// File → the files whose items it uses → which items.
type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

#[test]
fn no_file_uses_itself_through_others() {
    let mut found = Vec::new();
    let mut files = 0;
    for entry in crates(root()) {
        let uses = Crate::read(&entry).uses();
        files += uses.len();
        found.extend(circles(&uses).into_iter().map(|circle| describe(&circle, &uses)));
    }
    assert!(files > 300, "only {files} files were read");
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_circle_is_found_and_named() {
    let entry = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/circles/sample/lib.rs");
    let uses = Crate::read(&entry).uses();
    let circles = circles(&uses);
    let names: Vec<Vec<String>> = circles.iter().map(names).collect();
    // `test.rs` uses `a.rs` in tests only.
    let sample = |name: &str| format!("xtask/tests/circles/sample/{name}");
    // Circles of items, of a re-export and its user, and of a re-exported module.
    let expected =
        [&["a.rs", "b.rs", "c/mod.rs"][..], &["d.rs", "lib.rs"], &["e.rs", "facade/f.rs"]];
    assert_eq!(
        names,
        expected.map(|circle| circle.iter().copied().map(sample).collect::<Vec<_>>())
    );
    let text = describe(&circles[0], &uses);
    for (from, to, item) in [("a", "b", "Beta"), ("b", "c/mod", "gamma"), ("c/mod", "a", "ALPHA")] {
        let line = format!(
            "{} -> {}: {item}\n",
            sample(&format!("{from}.rs")),
            sample(&format!("{to}.rs"))
        );
        assert!(text.contains(&line), "{text}");
    }
}

/// The root files of all crates.
fn crates(root: &Path) -> Vec<PathBuf> {
    let members = std::fs::read_dir(root.join("crates")).expect("the crates");
    let members = members.map(|entry| entry.expect("an entry").path()).chain([root.join("xtask")]);
    let mut entries: Vec<_> = members
        .flat_map(|member| [member.join("src/lib.rs"), member.join("src/main.rs")])
        .filter(|file| file.is_file())
        .collect();
    entries.sort();
    entries
}

/// Groups of files in which each file reaches all others.
fn circles(uses: &Uses) -> Vec<BTreeSet<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        uses.keys().map(|file| (file, reached(file, uses))).collect();
    let mut circles = BTreeSet::new();
    for (file, reached) in &reach {
        if reached.contains(file) {
            let circle = reached.iter().filter(|other| reach[*other].contains(file));
            circles.insert(circle.map(|file| (*file).clone()).collect());
        }
    }
    circles.into_iter().collect()
}

/// The files that `file` uses, directly or through others.
fn reached<'a>(file: &Path, uses: &'a Uses) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&PathBuf> = uses[file].keys().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(uses[next].keys());
        }
    }
    reached
}

fn describe(circle: &BTreeSet<PathBuf>, uses: &Uses) -> String {
    let mut text = format!("circle of {}:\n", names(circle).join(", "));
    for file in circle {
        for (used, items) in uses[file].iter().filter(|(used, _)| circle.contains(*used)) {
            let items: Vec<_> = items.iter().map(String::as_str).collect();
            text += &format!("  {} -> {}: {}\n", short(file), short(used), items.join(", "));
        }
    }
    text
}

fn names(circle: &BTreeSet<PathBuf>) -> Vec<String> {
    circle.iter().map(|file| short(file)).collect()
}

/// The path within the workspace.
fn short(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}
