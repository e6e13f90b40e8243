//! `cargo xtask book`: the documentation as a book with a search, by mdBook.
//!
//! The pages of docs/SUMMARY.md are copied into a directory with the structure of the repository,
//! so that their links lead to the same places as in the repository. Programs that they link to
//! become pages; other files are copied unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use wirelane_testkit::links::{beside, links, places};

use crate::cargo;
use crate::context;
use crate::files;
use crate::setup;

const SUMMARY: &str = "docs/SUMMARY.md";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Open the book in a browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let Some(program) = setup::find("mdbook") else {
        println!("there is no mdbook; install it with: cargo install --locked mdbook");
        return ExitCode::FAILURE;
    };
    let target = context::target_directory();
    let (source, book) = (target.join("book-source"), target.join("book"));
    if let Err(error) = Copy::new(context::root(), &source.join("src")).all() {
        println!("cannot write {}: {error}", source.display());
        return ExitCode::FAILURE;
    }
    let mut command = Command::new(program);
    command.args(["build", "--dest-dir"]).arg(&book).arg(&source);
    command.args(arguments.open.then_some("--open"));
    if !cargo::succeeds(&mut command) {
        return ExitCode::FAILURE;
    }
    println!("{}", book.join("index.html").display());
    ExitCode::SUCCESS
}

/// Copies pages, and remembers the programs that they link to. Paths are relative to `root`.
struct Copy<'a> {
    root: &'a Path,
    to: &'a Path,
    programs: BTreeSet<PathBuf>,
}

impl<'a> Copy<'a> {
    fn new(root: &'a Path, to: &'a Path) -> Self {
        Self { root, to, programs: BTreeSet::new() }
    }

    /// Copies the configuration, every page, and the files that pages link to.
    fn all(&mut self) -> io::Result<()> {
        files::remove(self.to)?;
        let summary = fs::read_to_string(self.root.join(SUMMARY))?;
        for page in links(&summary) {
            self.page(&beside(Path::new(SUMMARY), page))?;
        }
        let mut contents = relink(&summary, |link| {
            Some(beside(Path::new(SUMMARY), link).to_string_lossy().into_owned())
        });
        contents += "\n# Programs\n\n";
        for program in std::mem::take(&mut self.programs) {
            let (name, page) = (name(&program), page_of(&program));
            contents += &format!("- [{name}]({})\n", page.display());
            let text = fs::read_to_string(self.root.join(&program))?;
            let text =
                format!("# {name}\n\n`{}`\n\n{}", program.display(), fenced(&program, &text));
            self.write(&page, &text)?;
        }
        self.write(Path::new("SUMMARY.md"), &contents)?;
        fs::copy(self.root.join("book.toml"), self.to.with_file_name("book.toml"))?;
        Ok(())
    }

    fn page(&mut self, page: &Path) -> io::Result<()> {
        let text = fs::read_to_string(self.root.join(page))?;
        let images = text.split(" src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for file in links(&text).chain(images) {
            let file = file.split('#').next().unwrap_or(file);
            // Nothing is left of a link to a heading of the same page.
            if !file.is_empty() {
                self.linked(&beside(page, file))?;
            }
        }
        let text = relink(&text, |link| {
            let is_program = self.programs.contains(&beside(page, link));
            is_program.then(|| page_of(Path::new(link)).to_string_lossy().into_owned())
        });
        self.write(page, &text)
    }

    /// A file or directory that a page links to.
    fn linked(&mut self, path: &Path) -> io::Result<()> {
        let from = self.root.join(path);
        if from.is_dir() {
            for entry in fs::read_dir(&from)? {
                self.linked(&path.join(entry?.file_name()))?;
            }
        } else if is_program(path) {
            self.programs.insert(path.to_owned());
        } else if path.extension().is_none_or(|extension| extension != "md") && from.is_file() {
            let to = self.to.join(path);
            fs::create_dir_all(to.parent().unwrap_or(self.to))?;
            fs::copy(from, to)?;
        }
        Ok(())
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let to = self.to.join(path);
        fs::create_dir_all(to.parent().unwrap_or(self.to))?;
        fs::write(to, text)
    }
}

/// Examples, whose text is worth a page.
fn is_program(path: &Path) -> bool {
    let is_example = path.components().any(|part| part.as_os_str() == "examples");
    is_example && language(path).is_some()
}

fn language(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "rs" => Some("rust"),
        "c" => Some("c"),
        "cpp" => Some("cpp"),
        "py" => Some("python"),
        _ => None,
    }
}

fn fenced(program: &Path, text: &str) -> String {
    format!("`````{}\n{text}`````\n", language(program).unwrap_or("text"))
}

fn name(program: &Path) -> String {
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The page of a program: `count.rs` is in `count.rs.md`.
fn page_of(program: &Path) -> PathBuf {
    program.with_added_extension("md")
}

/// `text` with other links where `new` gives one.
fn relink(text: &str, new: impl Fn(&str) -> Option<String>) -> String {
    let (mut result, mut end) = (String::new(), 0);
    for (from, to) in places(text) {
        if let Some(link) = new(&text[from..to]) {
            result += &text[end..from];
            result += &link;
            end = to;
        }
    }
    result + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_replaced() {
        let text = "See [a](x/a.rs), [b](#b), [c](https://c) and [d].\n[d]: ../d.rs\n";
        let text = relink(text, |link| link.starts_with('x').then(|| format!("{link}.md")));
        assert_eq!(text, "See [a](x/a.rs.md), [b](#b), [c](https://c) and [d].\n[d]: ../d.rs\n");
    }

    #[test]
    fn examples_are_programs() {
        assert!(is_program(Path::new("crates/x/examples/a.c")));
        assert!(!is_program(Path::new("crates/x/src/a.rs")));
    }
}
