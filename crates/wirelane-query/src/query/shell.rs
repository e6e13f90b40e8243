//! A shell on a terminal.

use std::env;
use std::fs;
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use wirelane::{Error, Result};

/// A parsed input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellInput {
    Sql(String),
    Tables,
    Schema(String),
    Queries,
    Help,
    Unknown(String),
}

/// The text of `.help`.
pub(crate) const HELP: &str = "\
SELECT …;    answers when a line ends with ;
NAME;        a ready query
.tables      the tables
.schema T    the columns of a table
.queries     the ready queries
.quit        ends; so does ^D
";

/// Reads input from a terminal and stores its history.
pub(crate) struct Shell {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Shell {
    /// # Errors
    /// The terminal cannot be used.
    pub(crate) fn new() -> Result<Self> {
        let mut editor = DefaultEditor::new().map_err(failed)?;
        let history = history();
        if let Some(path) = &history {
            // The history may be missing or unreadable.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next question; `None` at the end.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn next(&mut self) -> Result<Option<ShellInput>> {
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { "wirelane> " } else { "       …> " };
            match self.editor.readline(prompt) {
                Ok(line) => {
                    text += &line;
                    text.push('\n');
                }
                // Discards the input so far.
                Err(ReadlineError::Interrupted) => text.clear(),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
            if text.trim().is_empty() {
                text.clear();
            } else if is_whole(&text) {
                let words: Vec<_> = text.split_whitespace().collect();
                self.keep(&words.join(" "));
                if [".quit", ".exit"].contains(&text.trim()) {
                    return Ok(None);
                }
                return Ok(Some(parse(&text)));
            }
        }
    }

    fn keep(&mut self, text: &str) {
        // Errors of the history are ignored.
        let _ = self.editor.add_history_entry(text);
        if let Some(path) = &self.history {
            let _ = self.editor.append_history(path);
        }
    }
}

/// Whether the input is complete: a command is one line, SQL ends with a semicolon.
fn is_whole(text: &str) -> bool {
    text.starts_with('.') || text.trim_end().ends_with(';')
}

fn parse(text: &str) -> ShellInput {
    let text = text.trim();
    let Some(command) = text.strip_prefix('.') else {
        return ShellInput::Sql(text.trim_end_matches(';').trim().to_owned());
    };
    let mut words = command.split_whitespace();
    match (words.next(), words.next()) {
        (Some("tables"), None) => ShellInput::Tables,
        (Some("schema"), Some(table)) => ShellInput::Schema(table.trim_end_matches(';').to_owned()),
        (Some("queries"), None) => ShellInput::Queries,
        (Some("help"), None) => ShellInput::Help,
        _ => ShellInput::Unknown(text.to_owned()),
    }
}

/// The history file, in the state directory of the XDG Base Directory Specification.
fn history() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".local/state"));
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    let directory = state.or_else(home)?.join("wirelane");
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("query-history"))
}

fn failed(error: ReadlineError) -> Error {
    match error {
        ReadlineError::Io(error) => Error::io("terminal", "read", error),
        error => Error::failed("terminal", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sql_or_commands() {
        assert!(!is_whole("SELECT 1\n") && is_whole("SELECT 1\n ; \n") && is_whole(".tables\n"));
        assert_eq!(parse("SELECT 1\n ;\n"), ShellInput::Sql("SELECT 1".into()));
        assert_eq!(parse(".schema flows;"), ShellInput::Schema("flows".into()));
        assert_eq!(parse(".tables"), ShellInput::Tables);
        assert_eq!(parse(".schema"), ShellInput::Unknown(".schema".into()));
    }
}
