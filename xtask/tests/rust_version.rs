//! Published crates build with the Rust version that they name (`rust-version`). Clippy's lint
//! `incompatible_msrv` finds newer items of the standard library; these tests find the rest.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use wirelane_testkit::files;

/// The first version with `if let` guards, 1.95, is newer than the named one.
#[test]
fn no_arm_has_an_if_let_guard() {
    let crates = root().join("crates");
    let is_source = |path: &Path| path.components().any(|part| part.as_os_str() == "src");
    let mut found = Vec::new();
    for path in files::sources_below(&crates) {
        if is_source(&path) {
            let text = fs::read_to_string(&path).expect("a source is text");
            let tokens = text.parse().expect("a source has tokens");
            found.extend(guards(tokens).map(|guard| format!("{}: {guard}", path.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_guard_is_told_from_an_expression() {
    let of = |text: &str| guards(text.parse().expect("tokens")).count();
    assert_eq!(of("match a { Some(b) if let Some(c) = f(b) => {} _ => {} }"), 1);
    assert_eq!(of("match a { Some(b) if b == c => if let Some(d) = b { f() }, _ => {} }"), 0);
    assert_eq!(of("match if let Some(b) = a { b } else { c } { 1 => {} _ => {} }"), 0);
}

/// The pattern of each `if let` that is followed by `=>` instead of a block.
fn guards(tokens: TokenStream) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_block = |tree: &TokenTree| matches!(tree, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
    let is = |tree: &TokenTree, word: &str| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Punct(punct) => word.starts_with(punct.as_char()),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    };
    for (at, tree) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            found.extend(guards(group.stream()));
        }
        let [first, second, rest @ ..] = &tokens[at..] else { continue };
        if is(first, "if") && is(second, "let") {
            let head: Vec<_> = rest.iter().take_while(|tree| !is_block(tree)).collect();
            if head.windows(2).any(|pair| is(pair[0], "=") && is(pair[1], ">")) {
                found.push(head.iter().map(|tree| tree.to_string()).collect::<Vec<_>>().join(" "));
            }
        }
    }
    found.into_iter()
}

/// Programs and libraries need no dependency that requires a newer version than they name.
#[test]
fn no_dependency_needs_a_newer_version() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    let output = command.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: HashMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|it| (it["id"].to_string(), it)).collect();
    let nodes: HashMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (node["id"].to_string(), node))
        .collect();
    let mut problems = Vec::new();
    for own in packages.values().filter(|package| package["source"].is_null()) {
        let mut seen = vec![own["id"].to_string()];
        let mut next = 0;
        while let Some(node) = seen.get(next).and_then(|id| nodes.get(id)) {
            next += 1;
            for dependency in list(&node["deps"]) {
                let is_used = list(&dependency["dep_kinds"]).iter().any(|it| it["kind"] != "dev");
                let id = dependency["pkg"].to_string();
                if is_used && !seen.contains(&id) {
                    seen.push(id);
                }
            }
        }
        let newer = seen.iter().filter_map(|id| packages.get(id));
        let newer = newer.filter(|it| version(&it["rust_version"]) > version(&own["rust_version"]));
        problems.extend(newer.map(|it| format!("{} needs {}", own["name"], it["name"])));
    }
    assert!(problems.is_empty(), "for a newer Rust:\n{}", problems.join("\n"));
}

/// `"1.91"` as numbers; nothing for a package without a version.
fn version(text: &Value) -> Vec<u32> {
    let text = text.as_str().unwrap_or_default();
    text.split('.').filter_map(|part| part.parse().ok()).take(2).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
