//! The links of a page in Markdown.

use std::path::{Component, Path, PathBuf};

/// The beginnings and ends of links, without those to other sites.
pub fn places(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let inline = text.match_indices("](").filter_map(|(at, _)| {
        let from = at + 2;
        Some((from, from + text[from..].find(')')?))
    });
    // `[name]: path` at the beginning of a line.
    let references = text.match_indices("]: ").filter_map(|(at, _)| {
        let from = at + 3;
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let to = from + text[from..].find('\n').unwrap_or(text.len() - from);
        text[line..].starts_with('[').then_some((from, to))
    });
    let mut found: Vec<_> = inline.chain(references).collect();
    found.sort_unstable();
    found.retain(|&(from, to)| !text[from..to].contains("://"));
    found.into_iter()
}

/// The targets of links, without those to other sites.
pub fn links(text: &str) -> impl Iterator<Item = &str> {
    places(text).map(|(from, to)| &text[from..to])
}

/// The path that `link` in `page` means, without `..`.
#[must_use]
pub fn beside(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

#[test]
fn links_are_found() {
    let text = "See [a](x/a.rs), [b](#b), [c](https://c) and [d].\n[d]: ../d.rs\n";
    assert_eq!(links(text).collect::<Vec<_>>(), ["x/a.rs", "#b", "../d.rs"]);
}

#[test]
fn links_are_relative_to_their_page() {
    let path = |page: &str, link: &str| beside(Path::new(page), link).display().to_string();
    assert_eq!(path("docs/c.md", "../crates/x/examples/a.c"), "crates/x/examples/a.c");
    assert_eq!(path("README.md", "docs/c.md"), "docs/c.md");
}
