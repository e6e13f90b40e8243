//! The step `api`: compares the public items of the library crates with their snapshots, `api.txt`.
//!
//! A change of the public API is a change of that file, which reviewers see.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::context::{self, Context};
use crate::rustdoc;
use crate::step::Outcome;

/// Compares every crate that has a snapshot with it, or rewrites the snapshots. For a new crate,
/// make an empty file and rewrite it. `xtask/tests/api.rs` checks which crates need one.
pub(crate) fn run(context: &Context) -> Outcome {
    let crates = match crates() {
        Ok(crates) => crates,
        Err(error) => return Outcome::failure(format!("cannot read the crates: {error}")),
    };
    if !rustdoc::of(context, &crates) {
        return Outcome::failure("rustdoc failed");
    }
    let mut outcome = Outcome::default();
    for name in &crates {
        outcome += list(context, name)
            .and_then(|items| check(context, name, &items, &snapshot(name)))
            .unwrap_or_else(|error| Outcome::failure(format!("{name}: {error}")));
    }
    outcome
}

/// The crates with a snapshot, in the order of their names.
pub(crate) fn crates() -> io::Result<Vec<String>> {
    let entries = fs::read_dir(context::root().join("crates"))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().display().to_string()));
    let mut names: Vec<String> = names.collect::<Result<_, _>>()?;
    names.retain(|name| snapshot(name).exists());
    names.sort();
    Ok(names)
}

fn snapshot(name: &str) -> PathBuf {
    context::root().join("crates").join(name).join("api.txt")
}

/// The public items of a crate, one a line.
fn list(context: &Context, name: &str) -> Result<String, String> {
    let json = rustdoc::file(context, name);
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    // Most likely the toolchain is newer than the reader of its JSON.
    api.map(|api| api.to_string())
        .map_err(|error| format!("cannot read {}: {error}", json.display()))
}

fn check(context: &Context, name: &str, items: &str, path: &Path) -> Result<Outcome, String> {
    let cannot = |what: &str, error| format!("cannot {what} {}: {error}", path.display());
    if context.bless {
        fs::write(path, items).map_err(|error| cannot("write", error))?;
    }
    let snapshot = fs::read_to_string(path).map_err(|error| cannot("read", error))?;
    let changes = changes(&snapshot, items);
    let mut outcome = Outcome::single(changes.is_empty());
    if !changes.is_empty() {
        println!("{}", changes.join("\n"));
        outcome.notes.push(format!(
            "{name}: {} public items differ from api.txt; if they should: cargo xtask test api \
             --bless",
            changes.len()
        ));
    }
    outcome.notes.push(format!("{name}: {}", count(items)));
    Ok(outcome)
}

/// The difference: lines that only one of the texts has.
fn changes(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = before.difference(&after).map(|line| format!("-{line}"));
    let new = after.difference(&before).map(|line| format!("+{line}"));
    gone.chain(new).collect()
}

/// The number of items of each kind.
fn count(items: &str) -> String {
    let [mut types, mut functions, mut fields] = [0; 3];
    for line in items.lines() {
        let words: Vec<&str> = line.split(' ').skip_while(|word| *word != "pub").take(4).collect();
        if words.iter().any(|word| ["struct", "enum", "trait", "union"].contains(word)) {
            types += 1;
        } else if words.contains(&"fn") {
            functions += 1;
        } else if words.get(1).is_some_and(|path| path.ends_with(':')) {
            fields += 1;
        }
    }
    format!("{types} types, {functions} functions, {fields} public fields")
}

#[cfg(test)]
mod tests {
    use super::{changes, count};

    const ITEMS: &str = "pub mod a\n\
        #[non_exhaustive] pub struct a::Port\n\
        pub a::Port::queues: alloc::vec::Vec<usize>\n\
        impl a::Port\n\
        pub fn a::Port::close(self)\n\
        pub const unsafe fn a::Port::raw(&self) -> i32\n\
        pub enum a::Class\n\
        pub a::Class::Rx\n";

    #[test]
    fn items_are_counted_by_sort() {
        assert_eq!(count(ITEMS), "2 types, 2 functions, 1 public fields");
    }

    #[test]
    fn what_is_gone_and_what_is_new_is_shown() {
        assert!(changes(ITEMS, ITEMS).is_empty());
        let after = ITEMS.replace("a::Class::Rx", "a::Class::Tx");
        assert_eq!(changes(ITEMS, &after), ["-pub a::Class::Rx", "+pub a::Class::Tx"]);
    }
}
