//! The modules of a crate: for each file its definitions, its imports and the paths in its code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, UseTree, Visibility};

use super::Uses;

/// Segments of a path, such as `["crate", "port", "Rx"]`.
type Names = Vec<String>;

/// A crate: modules by path.
#[derive(Default)]
pub(super) struct Crate(BTreeMap<Names, Module>);

#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Name → the path that it is an alias of.
    imports: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// Paths in the code, without imports.
    paths: BTreeSet<Names>,
    /// Paths of re-exports; a glob is the path of its module.
    handed_on: BTreeSet<Names>,
}

/// The file and name of an item.
type Place = (PathBuf, String);

impl Crate {
    /// Reads the crate with the root file `entry`, without its test code.
    pub(super) fn read(entry: &Path) -> Self {
        let mut all = Self::default();
        let directory = entry.parent().expect("a file in a directory").to_owned();
        all.add_file(Vec::new(), entry, &directory);
        all
    }

    /// For each file, the items that it uses, by the file that has them.
    pub(super) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (name, module) in &self.0 {
            let from = uses.entry(module.file.clone()).or_default();
            for path in module.paths.union(&module.handed_on) {
                let mut used = Vec::new();
                let is_item = self.resolve(name, path, &mut used, 0);
                if !is_item && module.handed_on.contains(path) {
                    used.extend(self.module(name, path));
                }
                for (file, item) in used.into_iter().filter(|(file, _)| *file != module.file) {
                    from.entry(file).or_default().insert(item);
                }
            }
        }
        uses
    }

    /// `directory` has the files of child modules.
    fn add_file(&mut self, name: Names, file: &Path, directory: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        self.add(name, file, directory, parsed.items);
    }

    fn add(&mut self, name: Names, file: &Path, directory: &Path, items: Vec<Item>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            match item {
                Item::Use(item) if !is_test(&item.attrs) => {
                    let is_handed_on = !matches!(item.vis, Visibility::Inherited);
                    module.import(Vec::new(), &item.tree, is_handed_on);
                }
                Item::Mod(item) if !is_test(&item.attrs) => {
                    let child = item.ident.to_string();
                    let inner = [&name[..], std::slice::from_ref(&child)].concat();
                    let below = directory.join(&child);
                    match item.content {
                        Some((_, items)) => self.add(inner, file, &below, items),
                        None => {
                            let flat = directory.join(format!("{child}.rs"));
                            let found = if flat.is_file() { flat } else { below.join("mod.rs") };
                            self.add_file(inner, &found, &below);
                        }
                    }
                    module.children.insert(child);
                }
                item => module.define(item),
            }
        }
        self.0.insert(name, module);
    }

    /// The place of the module `path`, seen from the module `at`.
    fn module(&self, at: &[String], path: &[String]) -> Option<Place> {
        let Some((first, rest)) = path.split_first() else {
            return Some((self.0.get(at)?.file.clone(), "the module".to_owned()));
        };
        match first.as_str() {
            "crate" => self.module(&[], rest),
            "self" => self.module(at, rest),
            "super" => self.module(at.split_last()?.1, rest),
            _ => self.module(&[at, std::slice::from_ref(first)].concat(), rest),
        }
    }

    /// Resolves `path` in the module `at`. Adds the place of its definition to `used`, and each
    /// place that re-exports it. Returns whether it is an item of this crate.
    fn resolve(&self, at: &[String], path: &[String], used: &mut Vec<Place>, depth: usize) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Some(module) = self.0.get(at).filter(|_| depth < 20) else {
            return false; // or imports that stand for each other
        };
        let place = (module.file.clone(), first.clone());
        match first.as_str() {
            "crate" => self.resolve(&[], rest, used, depth),
            "self" => self.resolve(at, rest, used, depth),
            "super" => match at.split_last() {
                Some((_, parent)) => self.resolve(parent, rest, used, depth),
                None => false,
            },
            child if module.children.contains(child) => {
                self.resolve(&[at, std::slice::from_ref(first)].concat(), rest, used, depth)
            }
            item if module.items.contains(item) => {
                used.push(place);
                true
            }
            name => {
                let imported = |stands_for: &Names, rest: &[String], used: &mut Vec<Place>| {
                    self.resolve(at, &[&stands_for[..], rest].concat(), used, depth + 1)
                };
                let found = match module.imports.get(name) {
                    Some(stands_for) => imported(stands_for, rest, used),
                    None => module.globs.iter().any(|glob| imported(glob, path, used)),
                };
                if found {
                    used.push(place);
                }
                found
            }
        }
    }
}

impl Module {
    /// Adds the imports of `tree` below `path`, which may be a re-export.
    fn import(&mut self, mut path: Names, tree: &UseTree, is_handed_on: bool) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(path, &tree.tree, is_handed_on);
            }
            UseTree::Name(tree) if tree.ident == "self" => {
                self.imports.extend(path.last().cloned().map(|name| (name, path)));
            }
            UseTree::Name(tree) => {
                path.push(tree.ident.to_string());
                self.add_import(tree.ident.to_string(), path, is_handed_on);
            }
            UseTree::Rename(tree) => {
                if tree.ident != "self" {
                    path.push(tree.ident.to_string());
                }
                self.add_import(tree.rename.to_string(), path, is_handed_on);
            }
            UseTree::Glob(_) => {
                if is_handed_on {
                    self.handed_on.insert(path.clone());
                }
                self.globs.push(path);
            }
            UseTree::Group(tree) => {
                tree.items.iter().for_each(|tree| self.import(path.clone(), tree, is_handed_on));
            }
        }
    }

    /// Ignores `use x;`, which imports a crate.
    fn add_import(&mut self, name: String, path: Names, is_handed_on: bool) {
        if path.len() > 1 {
            if is_handed_on {
                self.handed_on.insert(path.clone());
            }
            self.imports.insert(name, path);
        }
    }

    fn define(&mut self, item: Item) {
        let (attributes, name) = match &item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            _ => return,
        };
        if is_test(attributes) {
            return;
        }
        self.items.extend(name.map(ToString::to_string));
        let item = match item {
            Item::Impl(mut item) => {
                item.items.retain(
                    |item| !matches!(item, ImplItem::Fn(function) if is_test(&function.attrs)),
                );
                Item::Impl(item)
            }
            item => item,
        };
        paths(item.into_token_stream(), &Vec::new(), &mut self.paths);
    }
}

/// Adds the paths in `tokens` to `found`, each below `prefix`: also in macro calls and in imports
/// within functions.
fn paths(tokens: TokenStream, prefix: &Names, found: &mut BTreeSet<Names>) {
    let mut tokens = tokens.into_iter().peekable();
    // A field or a method follows a dot, and a lifetime a quote.
    let mut follows = ' ';
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => paths(group.stream(), &Vec::new(), found),
            TokenTree::Ident(name) if !matches!(follows, '.' | '\'') => {
                let mut path = prefix.clone();
                path.push(name.to_string());
                let mut colons = 0;
                loop {
                    match tokens.peek() {
                        Some(TokenTree::Punct(mark)) if mark.as_char() == ':' => colons += 1,
                        Some(TokenTree::Ident(name)) if colons == 2 => {
                            path.push(name.to_string());
                            colons = 0;
                        }
                        Some(TokenTree::Group(group))
                            if colons == 2 && group.delimiter() == Delimiter::Brace =>
                        {
                            paths(group.stream(), &path, found);
                        }
                        _ => break,
                    }
                    tokens.next();
                }
                found.insert(path);
            }
            TokenTree::Punct(mark) => {
                follows = mark.as_char();
                continue;
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
        follows = ' ';
    }
}

/// Whether it is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.to_token_stream().to_string();
        condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
            && !condition.contains("not (test)")
            && !condition.contains("not(test)")
    })
}
