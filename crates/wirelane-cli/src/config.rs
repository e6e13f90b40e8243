//! Options in a file: `--config FILE`.
//!
//! Each line is an option without its dashes: `max-bytes = 10G`, or `wait` for one without a value.
//! A line that begins with `#` is a comment. The options are inserted before the options of the
//! command line, which override them. There is no quoting: a value is the rest of its line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use wirelane::{Error, Result};

use crate::text_file;

/// Longest file of options.
const LONGEST: u64 = 1 << 20;

/// Inserts the options of the file that `--config` names into the words of a command line, after
/// the name of the subcommand. `options` lists the long options of a subcommand. `None` without
/// `--config`.
///
/// # Errors
/// The file cannot be read, or a line is no option of the subcommand.
pub(crate) fn expand(
    words: &[OsString],
    options: impl FnOnce(&OsStr) -> Vec<String>,
) -> Result<Option<Vec<OsString>>> {
    let [program, subcommand, rest @ ..] = words else { return Ok(None) };
    let Some(path) = config_of(rest) else { return Ok(None) };
    let options = options(subcommand);
    let has = |name: &str| options.iter().any(|option| option == name);
    if !has(OPTION) {
        return Ok(None);
    }
    let name = path.to_string_lossy();
    let text = text_file::read(Path::new(&path), LONGEST, "a file of options")?;
    let mut expanded = vec![program.clone(), subcommand.clone()];
    for (number, line) in (1..).zip(text.lines()) {
        let Some((key, value)) = split(line) else { continue };
        if key == OPTION || !has(key) {
            let subcommand = subcommand.display();
            let cause = format!("`wirelane {subcommand}` has no option '{key}' for a file");
            let help = format!(
                "write lines like `quiet` or `snaplen = 96`; `wirelane {subcommand} --help` lists \
                 the options"
            );
            return Err(Error::usage(format!("{name}:{number}"), cause).help(help));
        }
        expanded.push(match value {
            None => format!("--{key}").into(),
            Some(value) => format!("--{key}={value}").into(),
        });
    }
    expanded.extend_from_slice(rest);
    Ok(Some(expanded))
}

/// The name of the option.
const OPTION: &str = "config";

/// The file that `--config FILE` or `--config=FILE` names, before `--`.
fn config_of(words: &[OsString]) -> Option<OsString> {
    let mut options = words.iter().take_while(|word| *word != "--");
    while let Some(word) = options.next() {
        if word == "--config" {
            return options.next().cloned();
        }
        if let Some(path) = word.as_bytes().strip_prefix(b"--config=") {
            return Some(OsString::from_vec(path.to_vec()));
        }
    }
    None
}

/// The option on a line, and its value; `None` for an empty line or a comment.
fn split(line: &str) -> Option<(&str, Option<&str>)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    Some(match line.split_once('=') {
        None => (line, None),
        Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(words: &[&str]) -> Result<Option<Vec<String>>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let options = |subcommand: &OsStr| {
            let options: &[_] = if subcommand == "record" {
                &["config", "max-bytes", "wait", "trigger"]
            } else {
                &[]
            };
            options.iter().map(|&option| option.to_owned()).collect()
        };
        let text = |words: Vec<OsString>| words.iter().map(|w| w.display().to_string()).collect();
        expand(&words, options).map(|words| words.map(text))
    }

    #[test]
    fn lines_become_options_before_those_of_the_command_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let text = "# comment\n\n  max-bytes = 10G\nwait\n#wait\ntrigger=tcp[13] = 2 # flags\n";
        std::fs::write(path, text).unwrap();
        let options = ["--max-bytes=10G", "--wait", "--trigger=tcp[13] = 2 # flags"];
        let both = format!("--config={path}");
        for given in [&["--config", path][..], &[both.as_str()]] {
            let words = [&["wirelane", "record"], given, &["eth0", "d"]].concat();
            let expected = [&["wirelane", "record"][..], &options, given, &["eth0", "d"]].concat();
            assert_eq!(expanded(&words).unwrap().unwrap(), expected);
        }
        for other in [
            &["wirelane", "record", "eth0", "d"][..],
            &["wirelane", "record", "--", "--config", path],
            &["wirelane", "exec", "--config", path],
            &["wirelane", "record", "--config"],
            &["wirelane"],
        ] {
            assert_eq!(expanded(other).unwrap(), None, "{other:?}");
        }
    }

    #[test]
    fn other_lines_are_refused_with_their_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for line in ["config = x", "--wait", "eth0", "= 3", "max bytes = 3", "[Service]"] {
            std::fs::write(path, format!("wait\n{line}\n")).unwrap();
            let error = expanded(&["wirelane", "record", "--config", path]).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(&format!("{path}:2: ")), "{error}");
        }
        let error = expanded(&["wirelane", "record", "--config", "/no/such/file"]);
        assert!(error.is_err());
    }
}
