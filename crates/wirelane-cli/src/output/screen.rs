//! The lines at the bottom of a terminal that change while a command runs.
//!
//! The cursor rests at the beginning of the first line. A terminal that becomes narrower may wrap
//! the lines, but the cursor keeps its place in the text: all text below it belongs to this module
//! and is cleared from there. For the same reason the `^C` of the terminal is overwritten.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::termios::tcgetwinsize;
use wirelane::internal::process::is_in_foreground;
use wirelane_wire::text::printable;

/// The current lines, and the columns and rows of the terminal when they were drawn.
static SCREEN: Mutex<Screen> = Mutex::new(Screen { lines: Vec::new(), size: (0, 0) });

struct Screen {
    lines: Vec<String>,
    size: (usize, usize),
}

/// Whether lines can change on standard error: a terminal that can move the cursor, with this
/// process in the foreground.
pub(crate) fn is_there() -> bool {
    is_able() && is_in_foreground(stderr())
}

/// Whether standard error is a terminal whose cursor can be moved.
pub(crate) fn is_able() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stderr().is_terminal() && !is_dumb
}

/// Columns and rows of the terminal, or 80 and 24 if it reports none.
pub(crate) fn size() -> (usize, usize) {
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Columns of the terminal on standard output; `None` if it is not a terminal.
pub fn width_of_output() -> Option<usize> {
    width_of(stdout())
}

/// The same for standard error.
pub(crate) fn width_of_errors() -> Option<usize> {
    width_of(stderr())
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Replaces the lines.
pub fn show(lines: Vec<String>) {
    if is_there() {
        let mut screen = lock();
        screen.lines = lines;
        screen.draw();
    }
}

/// Shows the same lines again if the terminal has another size.
pub(crate) fn adapt() {
    let mut screen = lock();
    if !screen.lines.is_empty() && screen.size != size() && is_there() {
        screen.draw();
    }
}

/// Removes the lines.
pub fn clear() {
    let mut screen = lock();
    if !std::mem::take(&mut screen.lines).is_empty() && is_there() {
        write("\r\x1b[J");
    }
}

/// Prints permanent text above the lines.
pub(crate) fn above<T>(print: impl FnOnce() -> T) -> T {
    let mut screen = lock();
    if screen.lines.is_empty() || !is_there() {
        return print();
    }
    write("\r\x1b[J");
    let printed = print();
    screen.draw();
    printed
}

impl Screen {
    fn draw(&mut self) {
        let size = size();
        let mut text = String::from("\r");
        if self.size != size {
            text.push_str("\x1b[J");
        }
        self.size = size;
        text.push_str(&picture(&self.lines, size));
        write(&text);
    }
}

/// The lines as far as they fit, with the cursor back at the beginning.
fn picture(lines: &[String], (columns, rows): (usize, usize)) -> String {
    let mut text = String::new();
    // Leave the last column free: a cursor behind it may be on either line.
    let (columns, rows) = (columns.saturating_sub(1), rows.saturating_sub(1).max(1));
    for (position, line) in lines.iter().take(rows).enumerate() {
        if position > 0 {
            text.push_str("\r\n");
        }
        text.extend(printable(line).chars().take(columns));
        text.push_str("\x1b[K");
    }
    text.push_str("\x1b[J");
    match lines.len().min(rows) {
        0 | 1 => {}
        count => {
            let _ = write!(text, "\x1b[{}A", count - 1);
        }
    }
    text.push('\r');
    text
}

/// Writes the text in one call, so that no other output interrupts it. The reader may be gone.
fn write(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

fn lock() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_the_cursor_returns() {
        let lines = ["abcdef", "x\x1by", "gone"].map(str::to_owned);
        assert_eq!(picture(&lines, (5, 3)), "abcd\x1b[K\r\nx?y\x1b[K\x1b[J\x1b[1A\r");
        assert_eq!(picture(&lines[..1], (80, 24)), "abcdef\x1b[K\x1b[J\r");
        assert_eq!(picture(&[], (80, 24)), "\x1b[J\r");
        assert_eq!(picture(&lines, (1, 1)), "\x1b[K\x1b[J\r");
    }
}
