//! The notes of a summary: the important ones first, and few lines without `-v`.

use super::{fold, plural, screen};

/// Lines of notes without `-v`.
const LINES: usize = 3;

/// Words of notes on lost or changed packets, which are never left out.
const PACKETS: [&str; 20] = [
    "lost",
    "lose",
    "loses",
    "drop",
    "cut",
    "not sent",
    "not in",
    "not kept",
    "out of order",
    "late",
    "refused",
    "missing",
    "remove",
    "deleted",
    "failure",
    "not counted",
    "unknown",
    "no packets",
    "not asked",
    "could not",
];

/// The notes to print. The last one has the number of the others.
pub(super) fn shown(notes: Vec<String>, verbose: bool) -> Vec<String> {
    let width = screen::width_of_errors();
    let lines = |note: &str| match width {
        Some(width) => fold::folded(format!("note: {note}"), width).lines().count(),
        None => 1,
    };
    chosen(notes, verbose, &lines)
}

fn chosen(notes: Vec<String>, verbose: bool, lines: &dyn Fn(&str) -> usize) -> Vec<String> {
    let (mut shown, others): (Vec<_>, Vec<_>) =
        notes.into_iter().partition(|note| is_of_packets(note));
    let all: usize = shown.iter().chain(&others).map(|note| lines(note)).sum();
    if verbose || all <= LINES {
        shown.extend(others);
        return shown;
    }
    let mut used: usize = shown.iter().map(|note| lines(note)).sum();
    let mut left = 0;
    for note in others {
        // The last line has the number of the others.
        if left == 0 && used + lines(&note) < LINES {
            used += lines(&note);
            shown.push(note);
        } else {
            left += 1;
        }
    }
    if left > 0 {
        shown.push(format!("{}: -v", plural(left, "more note")));
    }
    shown
}

/// Whether packets were lost or changed, as far as its words tell.
fn is_of_packets(note: &str) -> bool {
    PACKETS.iter().any(|word| note.contains(word))
}

#[cfg(test)]
mod tests {
    fn chosen(notes: &[&str], verbose: bool) -> Vec<String> {
        let notes = notes.iter().map(|note| (*note).to_owned()).collect();
        super::chosen(notes, verbose, &|note| note.lines().count())
    }

    #[test]
    fn lost_packets_come_first_and_three_lines_are_enough() {
        let many = ["GRO is on", "generic mode", "no hash", "2 packets lost", "no time"];
        assert_eq!(chosen(&many, false), ["2 packets lost", "GRO is on", "3 more notes: -v"]);
        let all = ["2 packets lost", "GRO is on", "generic mode", "no hash", "no time"];
        assert_eq!(chosen(&many, true), all);
        assert_eq!(chosen(&many[..3], false), many[..3]);
        assert_eq!(chosen(&["a", "b\nb", "c\nc"], false), ["a", "2 more notes: -v"]);
    }

    #[test]
    fn no_note_on_lost_packets_is_left_out() {
        let losses = ["1 lost", "2 cut", "3 dropped", "4 not sent", "GRO is on"];
        let expected = ["1 lost", "2 cut", "3 dropped", "4 not sent", "1 more note: -v"];
        assert_eq!(chosen(&losses, false), expected);
    }
}
