//! Output of the command: people read standard error, programs read JSON on standard output.

pub(crate) mod counts;
mod flows;
mod fold;
pub(crate) mod headline;
mod notes;
pub(crate) mod progress;
pub(crate) mod report;
pub mod screen;
pub(crate) mod sent;
pub(crate) mod statistics;
pub(crate) mod store;
pub(crate) mod summary;
pub(crate) mod table;

use std::fmt::{Arguments, Display};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use serde::Serialize;
use wirelane::{Error, Result};
use wirelane_wire::text::{printable_json, printable_lines};

pub use fold::wrap;
pub(crate) use wirelane_wire::text::printable;

use crate::remedies;

/// Writes one line for users; several on a narrow terminal. A failure to write it is no error.
pub fn line(text: Arguments<'_>) {
    // Escapes the whole line, because any part may contain foreign text.
    let text = printable_lines(&text.to_string()).into_owned();
    write_above(match screen::width_of_errors() {
        Some(width) => fold::folded(text, width),
        None => text,
    });
}

/// Writes a note for users.
pub(crate) fn note(text: impl Display) {
    line(format_args!("note: {text}"));
}

/// Writes an error for users: the problem, and the next step in options of this command.
pub(crate) fn error(error: &Error) {
    let problem = format!("wirelane: {}", error.problem());
    let width = screen::width_of_errors().unwrap_or(fold::COLUMNS);
    let text = fold::error(&problem, remedies::next_step(error).as_deref(), width);
    write_above(printable_lines(&text).into_owned());
}

/// Writes a line above the changing ones. Standard error has no buffer: each part of the text would
/// be a system call.
fn write_above(text: String) {
    screen::above(|| {
        let _ = io::stderr().lock().write_all((text + "\n").as_bytes());
    });
}

/// Writes all errors but the first, a line each.
///
/// # Errors
/// The first.
pub(crate) fn all_but_first(errors: impl IntoIterator<Item = Error>) -> Result<()> {
    let mut errors = errors.into_iter();
    let first = errors.next();
    errors.for_each(|one| error(&one));
    first.map_or(Ok(()), Err)
}

/// Exactly one JSON object on standard output.
///
/// # Errors
/// It cannot be written.
pub fn json(document: &impl Serialize) -> Result<()> {
    write(&text(document)?)
}

/// Prints the result of a command on standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    write(&printable_lines(text))
}

fn write(text: &str) -> Result<()> {
    let write = || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    screen::above(write).map_err(|error| Error::io("standard output", "write", error))
}

/// Standard output as an unbuffered file.
///
/// # Errors
/// There is no standard output.
pub(crate) fn standard_output() -> Result<File> {
    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    file.map_err(|error| Error::io("standard output", "open", error))
}

/// How many of the first bytes are whole lines, within `limit`.
pub(crate) fn whole_lines(text: &[u8], limit: usize) -> usize {
    match text.get(..limit) {
        None => text.len(),
        Some(text) => text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
    }
}

/// A number of things.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The same with digits in groups: `1,234 packets`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// The name of a file. `dash` replaces `-`: standard input or output.
pub(crate) fn name_of(path: &Path, dash: &str) -> String {
    if path.as_os_str() == "-" { dash.into() } else { path.display().to_string() }
}

/// One JSON object on a line.
///
/// # Errors
/// The document cannot be encoded.
pub fn text(document: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|error| Error::io("summary", "encode", error.into()))?;
    Ok(printable_json(text) + "\n")
}

/// A number people can read, with three digits: `1.23 M`, `12.3 k`, `999`.
pub fn scaled(value: f64) -> String {
    for (scale, unit) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        // A value that rounds to 1000 of a unit is 1 of the next unit.
        if value >= scale * 0.9995 {
            let value = value / scale;
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$} {unit}");
        }
    }
    format!("{value:.0} ")
}

/// Bytes as people write them in options, with three digits: `20.0M`, `1.97G`, `512 bytes`. The
/// units are of 1024, as in `-C` and `--segment`.
pub(crate) fn sized(bytes: u64) -> String {
    let value = bytes as f64;
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "k")] {
        let scale = (1_u64 << shift) as f64;
        // Three digits of 1023.9 would round to 1024.
        if value >= scale * 0.9995 {
            let value = value / scale;
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$}{unit}");
        }
    }
    format!("{bytes} bytes")
}

/// A number with its digits in groups of three: `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A counter, or `unknown`.
pub(crate) fn counter(value: Option<u64>) -> String {
    value.map_or_else(|| "unknown".into(), grouped)
}

#[cfg(test)]
mod tests {
    #[test]
    fn readers_get_whole_lines() {
        let text = b"one\ntwo\nthree\n";
        for (limit, expected) in [(0, 0), (3, 0), (4, 4), (9, 8), (14, 14), (99, 14)] {
            assert_eq!(super::whole_lines(text, limit), expected, "{limit}");
        }
    }

    #[test]
    fn digits_in_groups() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (27_625, "27,625"),
            (1 << 30, "1,073,741,824"),
        ] {
            assert_eq!(super::grouped(value), text);
        }
    }

    #[test]
    fn sizes_are_in_the_units_that_users_type() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (1024, "1.00k"),
            (20 << 20, "20.0M"),
            (256 << 20, "256M"),
            ((1 << 30) - 1, "1.00G"),
            (1_970_000_000, "1.83G"),
            (3 << 40, "3.00T"),
        ] {
            assert_eq!(super::sized(bytes), text);
        }
    }

    #[test]
    fn scaled_numbers() {
        assert_eq!(super::scaled(1_234_000.0), "1.23 M");
        assert_eq!(super::scaled(12_340.0), "12.3 k");
        assert_eq!(super::scaled(7.0), "7 ");
        assert_eq!(super::scaled(128_400.0), "128 k");
        assert_eq!(super::scaled(9_996.0), "10.0 k");
        assert_eq!(super::scaled(99_960.0), "100 k");
        assert_eq!(super::scaled(999_700.0), "1.00 M");
    }
}
