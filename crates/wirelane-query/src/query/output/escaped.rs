//! Text for a terminal: its width, and the escaping of hostile characters.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;
use wirelane_wire::text::{escaped, is_hostile, printable_json};

use super::format::AnswerFormat;

/// Columns of the terminal on standard output, or 80 if they are unknown.
pub(crate) fn columns() -> usize {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// Escapes hostile characters, except line feeds and tabs.
pub(crate) struct Escaped<W> {
    to: W,
    /// Escapes as in JSON, so that the document's values stay the same.
    is_json: bool,
    /// The first bytes of an incomplete character.
    rest: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    pub(crate) fn new(to: W, format: AnswerFormat) -> Self {
        Self { to, is_json: format == AnswerFormat::Json, rest: Vec::new() }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        let plain = |c: char| matches!(c, '\n' | '\t');
        if self.is_json || !text.contains(|c| is_hostile(c) && !plain(c)) {
            let text = if self.is_json { printable_json(text.to_owned()) } else { text.to_owned() };
            return self.to.write_all(text.as_bytes());
        }
        let mut line = String::with_capacity(text.len());
        for c in text.chars() {
            if plain(c) { line.push(c) } else { line.extend(escaped(c)) }
        }
        self.to.write_all(line.as_bytes())
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut left = &all[..];
        while !left.is_empty() {
            match std::str::from_utf8(left) {
                Ok(text) => {
                    self.put(text)?;
                    left = &[];
                }
                Err(error) => {
                    let (text, rest) = left.split_at(error.valid_up_to());
                    self.put(&String::from_utf8_lossy(text))?;
                    let Some(wrong) = error.error_len() else {
                        self.rest = rest.to_vec();
                        break;
                    };
                    self.put("\u{fffd}")?;
                    left = rest.get(wrong..).unwrap_or_default();
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_in_any_pieces() {
        let text = "a,\u{1b}[2J,ä漢😀\n\u{9b}1m\u{202e}\u{200b}\t\r\n";
        let expected = "a,\\u{1b}[2J,ä漢😀\n\\u{9b}1m\\u{202e}\\u{200b}\t\\r\n";
        for size in 1..text.len() {
            let mut to = Escaped::new(Vec::new(), AnswerFormat::Csv);
            text.as_bytes().chunks(size).for_each(|part| to.write_all(part).unwrap());
            assert_eq!(String::from_utf8(to.to).unwrap(), expected, "{size}");
        }
        let mut to = Escaped::new(Vec::new(), AnswerFormat::Json);
        to.write_all("{\"a\":\"ä\u{9b}\"}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(to.to).unwrap(), "{\"a\":\"ä\\u009b\"}\n");
    }
}
