//! Lines are as wide as CONTRIBUTING.md says: all lines of the README; lines of ARCHITECTURE.md and
//! CONTRIBUTING.md except tables and links; prose of other documents, and of comments in sources.
//! There, tables, drawings, links, commands and code may be wider.

use std::fs;
use std::path::Path;

use wirelane_testkit::files;

use super::document::documents;

const COLUMNS: usize = 100;

#[test]
fn lines_have_100_columns() {
    let (root, mut chapters) = documents();
    chapters.retain(|path| *path != root.join("README.md"));
    chapters.push(root.join("CHANGELOG.md"));
    let sources = ["crates", "fuzz/fuzz_targets", "xtask"]
        .iter()
        .flat_map(|it| files::sources_below(&root.join(it)));
    let mut wide = Vec::new();
    collect(&root.join("README.md"), all, &mut wide);
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        collect(&root.join(name), but_tables, &mut wide);
    }
    chapters.iter().for_each(|path| collect(path, in_document, &mut wide));
    sources.for_each(|path| collect(&path, in_source, &mut wide));
    assert!(wide.is_empty(), "wider than {COLUMNS} columns:\n{}", wide.join("\n"));
}

/// Collects the wide lines among the `chosen` lines of the file at `path`.
fn collect(path: &Path, chosen: fn(&str) -> Vec<(usize, &str)>, wide: &mut Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let found = chosen(&text).into_iter().filter(|(_, line)| line.chars().count() > COLUMNS);
    wide.extend(found.map(|(number, line)| format!("{}:{number}: {line}", path.display())));
}

fn all(text: &str) -> Vec<(usize, &str)> {
    numbered(text, |_| true)
}

fn but_tables(text: &str) -> Vec<(usize, &str)> {
    numbered(text, |line| !line.starts_with(['|', '[']))
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

/// The lines for which `is_chosen` holds, with their numbers.
fn numbered(text: &str, mut is_chosen: impl FnMut(&str) -> bool) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| is_chosen(line)).collect()
}

#[test]
fn prose_is_told_from_the_rest() {
    let of = |found: Vec<(usize, &str)>| found.into_iter().map(|it| it.0).collect::<Vec<_>>();
    let document = "# Title\nprose\n```sh\nls\n```\n| a | b |\n    code\n[a]: b\n* item\n  more\n";
    assert_eq!(of(in_document(document)), [1, 2, 9, 10]);
    let source = "//! Prose.\n//!   a ─▶ b\nlet a = 1; // beside\n    /// | a |\n    // More.\n";
    assert_eq!(of(in_source(source)), [1, 5]);
}
