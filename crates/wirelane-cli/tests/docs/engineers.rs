//! ARCHITECTURE.md and CONTRIBUTING.md name files that exist.

use std::fs;

use super::document::documents;

#[test]
fn paths_for_engineers_exist() {
    let (root, _) = documents();
    let mut problems = Vec::new();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(name)).unwrap();
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let references: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).collect();
        let spans = text.split('`').skip(1).step_by(2);
        let in_source = |span: &&str| {
            ["crates/", "xtask/"].iter().any(|start| span.starts_with(start))
                && !span.contains(['*', '<', ' ', '{'])
        };
        let paths = inline
            .chain(references.iter().map(|(_, path)| *path))
            .chain(spans.filter(in_source))
            .filter(|path| !path.contains("://"));
        let missing = paths.filter(|path| !root.join(path.split('#').next().unwrap()).exists());
        problems.extend(missing.map(|path| format!("{name}: {path} does not exist")));
        for span in text.split("[`").skip(1).filter_map(|rest| rest.split_once("`]")) {
            let is_link = span.1.starts_with(['(', ':']);
            let is_known = references.iter().any(|(label, _)| *label == format!("`{}`", span.0));
            if !is_link && !is_known {
                problems.push(format!("{name}: [`{}`] leads nowhere", span.0));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
