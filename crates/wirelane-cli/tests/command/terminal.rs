//! Live lines on a terminal: they fit it, follow its size, and leave nothing behind.

use std::fs;

use tempfile::tempdir;
use wirelane_testkit::tools;

use super::*;

/// Clears all from the cursor, which is at the beginning of the lines, to the end of the screen.
const CLEAR: &str = "\r\x1b[J";

/// A terminal on which a script of the shell runs. If standard output were it, too, packets would
/// be printed.
fn terminal(script: &str) -> ChildGuard {
    let mut command = Command::new("script");
    command.args(["-qec", script, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    ChildGuard::spawn(&mut command)
}

/// The terminal adds a carriage return to each line feed.
fn plain(text: &str) -> String {
    text.replace("\r\r\n", "\r\n")
}

/// The pictures: the text that was drawn from the first to the last line, each time.
fn pictures(text: &str) -> Vec<Vec<&str>> {
    let drawn = text.split("\x1b[K\x1b[J").filter_map(|part| {
        let begin = part.rfind("\r\x1b[J").map(|at| at + CLEAR.len());
        let lines: Vec<_> = part[begin.unwrap_or(0)..].split("\x1b[K\r\n").collect();
        (lines.len() > 1).then_some(lines)
    });
    drawn.collect()
}

#[test]
fn lines_follow_the_size_of_the_terminal() {
    if !tools::require("script") {
        return;
    }
    let directory = tempdir().unwrap();
    let flag = |name: &str| directory.path().join(name);
    let when = |name: &str, what: &str| {
        format!("while [ ! -e {} ]; do sleep 0.1; done; {what}; ", flag(name).display())
    };
    let later = when("resize", "stty cols 40 rows 8 </dev/tty") + &when("end", "kill -INT $$");
    let capture = format!("exec {WIRELANE} capture 'sim:24?rate=20kpps' >/dev/null");
    let mut child = terminal(&format!("stty cols 100 rows 20; ({later}) & {capture}"));
    let heights = |child: &ChildGuard| {
        let text = plain(&child.stdout());
        pictures(&text).iter().map(Vec::len).collect::<Vec<_>>()
    };
    child.wait_until(PATIENCE, |child| heights(child).iter().any(|lines| *lines > 8));
    fs::write(flag("resize"), "").unwrap();
    child.wait_until(PATIENCE, |child| heights(child).ends_with(&[6, 6]));
    fs::write(flag("end"), "").unwrap();
    let text = plain(&child.wait(PATIENCE).stdout);
    let pictures = pictures(&text);
    let width = |lines: &Vec<&str>| {
        let visible = |line: &&str| line.rsplit('\r').next().unwrap().chars().count();
        lines.iter().map(visible).max().unwrap()
    };
    let narrow = pictures.iter().position(|lines| lines.len() < 8).unwrap();
    let (wide, narrow) = pictures.split_at(narrow);
    assert!(wide.iter().all(|lines| lines.len() < 20 && width(lines) < 100), "{wide:?}");
    assert!(narrow.iter().all(|lines| lines.len() < 8 && width(lines) < 40), "{narrow:?}");
    for lines in wide.iter().chain(narrow) {
        assert!(lines.iter().any(|line| line.contains("total ")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(" captured")), "{lines:?}");
    }
    // No live line is left before the summary.
    let (_, summary) = text.rsplit_once(CLEAR).unwrap();
    assert!(summary.contains(" captured, 0 filtered, 0 dropped"), "{summary:?}");
    assert!(!summary.contains("packet/s"), "{summary:?}");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_has_no_lines() {
    if !tools::require("script") {
        return;
    }
    let capture =
        format!("TERM=dumb exec {WIRELANE} capture 'sim:2?rate=10kpps' --duration 2s >/dev/null");
    let text = terminal(&capture).wait(PATIENCE).stdout;
    assert!(text.contains(" captured, 0 filtered, 0 dropped"), "{text:?}");
    assert!(!text.contains('\x1b') && !text.contains("packet/s"), "{text:?}");
}

#[test]
fn a_terminal_gets_no_capture_file() {
    if !tools::require("script") {
        return;
    }
    let ended = terminal(&format!("exec {WIRELANE} capture sim:1 -c 1 -w -")).wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let said = "wirelane: standard output: it is a terminal";
    assert!(ended.stdout.contains(said) && !ended.stdout.contains("sim rx"), "{:?}", ended.stdout);
}

/// A sentence breaks between words, and the lines that follow its first are further to the right.
#[test]
fn sentences_fit_the_terminal() {
    if !tools::require("script") {
        return;
    }
    let script = format!("stty cols 40; exec {WIRELANE} capture nosuch0 tcp port 80");
    let said = terminal(&script).wait(PATIENCE).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| line.trim_end().len() <= 40), "{lines:?}");
    assert!(lines[0].starts_with("wirelane: nosuch0: there is "), "{lines:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  ")), "{lines:?}");
}
