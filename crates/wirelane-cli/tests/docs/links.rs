//! Links lead to files and headings that exist, and the book has every page.

use std::collections::BTreeSet;
use std::fs;

use wirelane_testkit::links::{beside, links};

use super::document::documents;

#[test]
fn links_lead_to_files_and_headings() {
    let (root, mut paths) = documents();
    paths.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut problems = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).unwrap();
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { beside(path, file) };
            let leads = target.exists()
                && (heading.is_empty()
                    || slugs(&fs::read_to_string(&target).unwrap()).contains(heading));
            if !leads {
                problems.push(format!("{}: {link} leads nowhere", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let (root, paths) = documents();
    let summary = root.join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let listed: Vec<_> = links(&text).map(|link| beside(&summary, link)).collect();
    let missing: Vec<_> =
        paths.iter().filter(|path| **path != summary && !listed.contains(path)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
    assert_eq!(
        listed.len(),
        listed.iter().collect::<BTreeSet<_>>().len(),
        "a page is listed twice"
    );
}

/// The names of headings in links, as GitHub and mdBook make them.
fn slugs(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && line.starts_with('#')
    });
    let slug = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(slug).collect()
}

#[test]
fn headings_have_names() {
    let text = "# One, two\n```sh\n# three\n```\n## The table `flows`\n";
    assert_eq!(slugs(text), ["one-two", "the-table-flows"].map(str::to_owned).into());
    assert_eq!(links("[a](b.md#c) [d](https://e) [f](#g)").collect::<Vec<_>>(), ["b.md#c", "#g"]);
}
