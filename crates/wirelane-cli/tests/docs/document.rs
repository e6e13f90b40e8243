//! The command lines of a document: lines of `sh` blocks, and code spans that begin with
//! `wirelane`.
//!
//! A block may be preceded by `<!-- test: skip: REASON -->`, or by `<!-- test: PID is COMMAND -->`:
//! then the word PID in its lines is the process id of COMMAND, which runs at the same time.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines that share a directory, interfaces and a background process.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) document: String,
    pub(crate) commands: Vec<CommandLine>,
    /// The command that runs in the background.
    pub(crate) process: Option<String>,
    /// Why the block cannot be run.
    pub(crate) skip: Option<String>,
}

#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) number: usize,
    pub(crate) text: String,
}

/// The command that PID in a code span refers to.
const SPANS_ASK: &str = "wirelane forward packet:eth0 --gso=off --gro=off --keep-privileges";

/// How many code spans are a block.
const SPANS_TOGETHER: usize = 4;

/// The READMEs of the project and its crates, and the chapters of `docs/`, all below the first
/// value.
pub(crate) fn documents() -> (PathBuf, Vec<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned();
    let entries =
        |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries("docs").filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.push(root.join("README.md"));
    let of_crates = entries("crates").map(|path| path.join("README.md"));
    paths.extend(of_crates.filter(|path| path.exists()));
    paths.sort();
    (root, paths)
}

/// The blocks of `text`, and the reasons why lines in it cannot be tested.
pub(crate) fn blocks(document: &str, text: &str) -> (Vec<Block>, Vec<String>) {
    let (mut blocks, mut problems, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    let mut problem = |number: usize, what: &str| {
        problems.push(format!("{document}:{number}: {what}"));
    };
    let mut marker: Option<&str> = None;
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        let line_trimmed = line.trim();
        if let Some(comment) = line_trimmed.strip_prefix("<!-- test: ") {
            marker = comment.strip_suffix(" -->");
            if marker.is_none() {
                problem(number, "the marker does not end on its line");
            }
            continue;
        }
        let Some(language) = line_trimmed.strip_prefix("```") else {
            if marker.take().is_some() {
                problem(number, "a marker stands before something other than a block");
            }
            if line.starts_with("    ") && is_command(line_trimmed) {
                problem(number, "a command outside of a ```sh block");
            }
            spans.extend(code_spans(line).map(|text| CommandLine { number, text }));
            continue;
        };
        let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
        let inside: Vec<_> = inside.map(|(number, line)| (number, line.trim())).collect();
        if language != "sh" {
            if language.is_empty() || inside.iter().any(|(_, line)| is_command(line)) {
                problem(number, "a block of commands is marked ```sh, any other by its language");
            }
            continue;
        }
        let (mut process, mut skip) = (None, None);
        match marker.take() {
            None => {}
            Some(marker) => match (marker.strip_prefix("PID is "), marker.strip_prefix("skip: ")) {
                (Some(command), _) => process = Some(command.to_owned()),
                (_, Some(reason)) => skip = Some(reason.to_owned()),
                (None, None) => problem(number, "the marker is neither 'PID is' nor 'skip:'"),
            },
        }
        let commands = commands(&inside);
        if process.is_none() && skip.is_none() && commands.iter().any(CommandLine::has_pid) {
            problem(number, "no marker says which process PID is");
        }
        blocks.push(Block { document: document.to_owned(), commands, process, skip });
    }
    let mut spans = spans.into_iter().peekable();
    while spans.peek().is_some() {
        let commands: Vec<_> = spans.by_ref().take(SPANS_TOGETHER).collect();
        let process = commands.iter().any(CommandLine::has_pid).then(|| SPANS_ASK.to_owned());
        blocks.push(Block { document: document.to_owned(), commands, process, skip: None });
    }
    (blocks, problems)
}

impl CommandLine {
    /// Whether it names a process by the word PID.
    pub(crate) fn has_pid(&self) -> bool {
        self.text.split_whitespace().any(|word| word == "PID")
    }
}

/// Whether `line` looks like something to type.
fn is_command(line: &str) -> bool {
    ["wirelane ", "sudo ", "cargo "].iter().any(|start| line.starts_with(start))
}

/// Lines of a block as commands: continued lines are joined.
fn commands(lines: &[(usize, &str)]) -> Vec<CommandLine> {
    let mut commands: Vec<CommandLine> = Vec::new();
    let mut goes_on = false;
    for (number, line) in lines {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => command.text += &format!("\n{line}"),
            None => commands.push(CommandLine { number: *number, text: (*line).to_owned() }),
        }
        let is_loop = commands.last().is_some_and(|command| command.text.starts_with("for "));
        goes_on = line.ends_with('\\') || is_loop && *line != "done";
    }
    commands
}

/// Commands in code spans. `wirelane capture` and `wirelane bench gso` alone are names, and
/// `wirelane stats FILE` a form.
fn code_spans(line: &str) -> impl Iterator<Item = String> {
    let spans = line.split('`').skip(1).step_by(2);
    let commands = spans.filter(|span| {
        let words: Vec<_> = span.strip_prefix("sudo ").unwrap_or(span).split(' ').collect();
        let is_placeholder = |word: &&str| {
            *word != "PID" && word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())
        };
        let names =
            if words.get(1).is_some_and(|word| ["bench", "lab"].contains(word)) { 3 } else { 2 };
        words[0] == "wirelane"
            && words.len() > names
            && !span.contains('…')
            && !words.iter().any(is_placeholder)
    });
    commands.map(|span| span.replace("\\|", "|"))
}

#[test]
fn lines_spans_and_markers_are_found() {
    let text = "See `wirelane capture`, `wirelane stats PID` or `wirelane ports BACKEND`.\n\
        | `wirelane capture a -w - \\| cat` |\n\
        <!-- test: PID is wirelane capture x -->\n```sh\n# note\nkill PID\nfor i in 1; do\n  a\ndone\nb \\\n  c\n```\n\
        <!-- test: skip: too long -->\n```sh\nd\n```\n";
    let (blocks, problems) = blocks("x.md", text);
    assert_eq!(problems, [""; 0]);
    let lines = |block: &Block| {
        let lines = block.commands.iter().map(|line| (line.number, line.text.clone()));
        lines.collect::<Vec<_>>()
    };
    let [first, second, spans] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!(first.process.as_deref(), Some("wirelane capture x"));
    assert_eq!(
        lines(first),
        [(6, "kill PID".into()), (7, "for i in 1; do\na\ndone".into()), (10, "b \\\nc".into())]
    );
    assert_eq!(second.skip.as_deref(), Some("too long"));
    let found = [(1, "wirelane stats PID".into()), (2, "wirelane capture a -w - | cat".into())];
    assert_eq!(lines(spans), found);
    assert_eq!(spans.process.as_deref(), Some(SPANS_ASK));
}

#[test]
fn lines_that_would_not_be_tested_are_problems() {
    for text in [
        "```\nwirelane queues\n```\n",
        "```text\nsudo wirelane queues\n```\n",
        "    wirelane queues\n",
        "<!-- test: skip: x -->\ntext\n",
        "<!-- test: skip -->\n```sh\na\n```\n",
        "<!-- test: skip: x\n```sh\na\n```\n",
        "```sh\nkill PID\n```\n",
    ] {
        let (_, problems) = blocks("x.md", text);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    }
}
