//! Checks the size of the public API, and that the examples use only public items.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use wirelane_testkit::files;

/// The most public types of the library `wirelane`. Each needs a program of users that names it.
const MOST_TYPES: usize = 90;

#[test]
fn the_library_has_few_public_types() {
    let snapshot = root().join("crates/wirelane/api.txt");
    let snapshot = fs::read_to_string(snapshot).expect("the snapshot");
    let types = types(&snapshot);
    let list: Vec<_> = types.iter().copied().collect();
    assert!(
        types.len() <= MOST_TYPES,
        "{} public types instead of {MOST_TYPES}; make some pub(crate), or move what only \
         Wirelane's own programs use to wirelane::internal:\n{}",
        types.len(),
        list.join("\n")
    );
}

#[test]
fn a_type_with_two_paths_counts_once() {
    let snapshot = "pub mod a\n\
        #[non_exhaustive] pub struct a::b::Port\n\
        pub struct a::Port\n\
        pub struct a::Root<T>\n\
        pub struct a::b::Pair<A, B>(_, _)\n\
        pub trait a::b::Control: core::marker::Send\n\
        pub fn a::b::Port::open() -> Self\n\
        pub enum a::c::Port\n";
    let expected = ["a::Root", "a::b::Control", "a::b::Pair", "a::b::Port", "a::c::Port"];
    assert_eq!(types(snapshot), BTreeSet::from(expected));
}

#[test]
fn examples_use_only_the_public_api() {
    let crates = root().join("crates");
    let mut examples = files::sources_below(&crates);
    examples.retain(|path| {
        let in_crate = path.strip_prefix(&crates).expect("below").components().nth(1);
        in_crate.is_some_and(|folder| folder.as_os_str() == "examples")
    });
    assert!(examples.len() > 5, "only {} examples were read", examples.len());
    for path in examples {
        let text = fs::read_to_string(&path).expect("an example");
        let hidden = ["::internal", "internal::", ".internal"];
        let used = hidden.into_iter().find(|path| text.contains(path));
        assert_eq!(used, None, "{} uses what users should not", path.display());
    }
}

/// The paths of the types in a snapshot. A type that the root of its crate re-exports counts once.
fn types(snapshot: &str) -> BTreeSet<&str> {
    let all: BTreeSet<&str> = snapshot.lines().filter_map(path_of_type).collect();
    let name = |path: &'_ str| path.rsplit("::").next().map(str::to_owned);
    let is_in_root = |path: &str| path.matches("::").count() == 1;
    let in_modules: BTreeSet<_> =
        all.iter().filter(|path| !is_in_root(path)).map(|path| name(path)).collect();
    all.into_iter().filter(|path| !is_in_root(path) || !in_modules.contains(&name(path))).collect()
}

/// The path of the type that a line of a snapshot declares.
fn path_of_type(line: &str) -> Option<&str> {
    let item = line.get(line.find("pub ")? + 4..)?;
    let (kind, rest) = item.split_once(' ')?;
    let path = rest.split([' ', '<', '(']).next()?.trim_end_matches(':');
    matches!(kind, "struct" | "enum" | "trait" | "union").then_some(path)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}
