//! Prose is as wide as CONTRIBUTING.md says: in documents, and in comments of sources. Tables,
//! drawings, links, commands and code may be wider.

use std::fs;
use std::path::Path;

use super::document::documents;

const COLUMNS: usize = 100;

#[test]
fn prose_has_100_columns() {
    let (root, mut paths) = documents();
    paths
        .extend(["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut wide = Vec::new();
    for path in paths {
        collect(&path, in_document, &mut wide);
    }
    for folder in ["crates", "fuzz", "xtask"] {
        look_through(&root.join(folder), &mut wide);
    }
    assert!(wide.is_empty(), "wider than {COLUMNS} columns:\n{}", wide.join("\n"));
}

/// Collects from the sources below `folder`.
fn look_through(folder: &Path, wide: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                look_through(&path, wide);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            collect(&path, in_source, wide);
        }
    }
}

/// Collects the wide lines of the file at `path` that `prose` finds.
fn collect(path: &Path, prose: fn(&str) -> Vec<(usize, &str)>, wide: &mut Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let found = prose(&text).into_iter().filter(|(_, line)| line.chars().count() > COLUMNS);
    wide.extend(found.map(|(number, line)| format!("{}:{number}: {line}", path.display())));
}

/// The lines of prose of a document, with their numbers.
fn in_document(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let is_prose = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code && !line.starts_with(['|', '[', '<']) && !line.starts_with("    ")
    };
    numbered(text, is_prose)
}

/// The lines of comments of a source, likewise.
fn in_source(text: &str) -> Vec<(usize, &str)> {
    numbered(text, |line| {
        let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
        let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment);
        !comment.strip_prefix(' ').unwrap_or(comment).starts_with(['|', '#', '`', ' '])
    })
}

fn numbered(text: &str, mut is_prose: impl FnMut(&str) -> bool) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| is_prose(line)).collect()
}

#[test]
fn prose_is_told_from_the_rest() {
    let of = |found: Vec<(usize, &str)>| found.into_iter().map(|it| it.0).collect::<Vec<_>>();
    let document = "# Title\nprose\n```sh\nls\n```\n| a | b |\n    code\n[a]: b\n* item\n  more\n";
    assert_eq!(of(in_document(document)), [1, 2, 9, 10]);
    let source = "//! Prose.\n//!   a ─▶ b\nlet a = 1; // beside\n    /// | a |\n    // More.\n";
    assert_eq!(of(in_source(source)), [1, 5]);
}
