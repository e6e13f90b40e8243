//! Splits the words of the command into a question and sources.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use wirelane::{Error, Result};

use super::ready::ReadyQuery;

/// The question of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueryRequest<'a> {
    Sql(&'a str),
    Ready(ReadyQuery),
    /// The question is typed in the shell, or read from standard input.
    Elsewhere,
}

/// The question, and the sources. An existing path is always a source.
pub(crate) fn split(words: &[OsString]) -> (QueryRequest<'_>, &[OsString]) {
    let Some((first, rest)) = words.split_first() else { return (QueryRequest::Elsewhere, words) };
    match first.to_str().filter(|_| !exists(first)) {
        Some(text) if is_sql(text) => (QueryRequest::Sql(text), rest),
        Some(text) => match ReadyQuery::find(text) {
            Some(ready) => (QueryRequest::Ready(ready), rest),
            None => (QueryRequest::Elsewhere, words),
        },
        None => (QueryRequest::Elsewhere, words),
    }
}

/// All SQL contains one of these characters.
fn is_sql(text: &str) -> bool {
    text.trim().contains([' ', '\n', '\t', '(', '*', ';'])
}

fn exists(word: &OsStr) -> bool {
    Path::new(word).exists()
}

/// Most bytes of SQL: a device or a pipe may never end.
const LONGEST_SQL: u64 = 4 << 20;

/// Reads SQL from standard input.
///
/// # Errors
/// It cannot be read, is longer than [`LONGEST_SQL`], or is empty.
pub(crate) fn sql_of_input(input: impl Read) -> Result<String> {
    let mut text = String::new();
    let length = input.take(LONGEST_SQL + 1).read_to_string(&mut text);
    let length = length.map_err(|error| Error::io("standard input", "read", error))?;
    if length as u64 > LONGEST_SQL {
        let cause = format!("longer than {} MiB: no SQL", LONGEST_SQL >> 20);
        return Err(Error::failed("standard input", cause).help("write the question there"));
    }
    if text.trim().is_empty() {
        return Err(Error::usage(
            "SQL",
            "there is none, neither as an argument nor on standard input",
        )
        .help("write wirelane query \"SELECT …\" DIR, or see --list"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_never_ends_is_no_sql() {
        let error = sql_of_input(std::io::repeat(b' ')).unwrap_err().to_string();
        assert!(error.starts_with("standard input: longer than 4 MiB"), "{error}");
        assert_eq!(sql_of_input(&b"SELECT 1"[..]).unwrap(), "SELECT 1");
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn kind(words: &[OsString]) -> (&'static str, usize) {
        let (question, sources) = split(words);
        let kind = match question {
            QueryRequest::Sql(_) => "sql",
            QueryRequest::Ready(_) => "ready",
            QueryRequest::Elsewhere => "elsewhere",
        };
        (kind, sources.len())
    }

    #[test]
    fn the_question_comes_first_or_not_at_all() {
        assert_eq!(kind(&words(&["SELECT 1", "flows/", "s3://a/b"])), ("sql", 2));
        assert_eq!(kind(&words(&["top-talkers", "flows/"])), ("ready", 1));
        assert_eq!(kind(&words(&["flows/", "trace.pcap"])), ("elsewhere", 2));
        assert_eq!(kind(&[]), ("elsewhere", 0));
    }

    #[test]
    fn a_path_with_spaces_is_a_source() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("my flows");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(kind(&[path.into_os_string()]), ("elsewhere", 1));
    }
}
