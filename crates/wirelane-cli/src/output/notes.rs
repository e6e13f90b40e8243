//! The notes of a summary: the important ones first, and few lines without `-v`. Only notes on how
//! ports were opened may be left out.

use super::{fold, plural, screen};

/// Lines of notes without `-v`.
const LINES: usize = 3;

/// A note of a summary.
pub(super) struct SummaryNote {
    pub(super) text: String,
    /// It tells what happened while the command ran, not how a port or a store was opened.
    pub(super) of_run: bool,
}

impl SummaryNote {
    pub(super) fn of_run(text: String) -> Self {
        Self { text, of_run: true }
    }

    pub(super) fn of_opening(text: String) -> Self {
        Self { text, of_run: false }
    }

    /// Whether it is never left out.
    fn is_important(&self) -> bool {
        self.of_run || PACKETS.iter().any(|word| self.text.contains(word))
    }
}

/// Words of notes on how a port was opened that tell of lost or changed packets.
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
pub(super) fn shown(notes: Vec<SummaryNote>, verbose: bool) -> Vec<String> {
    let width = screen::width_of_errors();
    let lines = |note: &str| match width {
        Some(width) => fold::folded(format!("note: {note}"), width).lines().count(),
        None => 1,
    };
    chosen(notes, verbose, &lines)
}

fn chosen(notes: Vec<SummaryNote>, verbose: bool, lines: &dyn Fn(&str) -> usize) -> Vec<String> {
    let (shown, others): (Vec<_>, Vec<_>) = notes.into_iter().partition(SummaryNote::is_important);
    let texts = |notes: Vec<SummaryNote>| notes.into_iter().map(|note| note.text).collect();
    let (mut shown, others): (Vec<_>, Vec<_>) = (texts(shown), texts(others));
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

#[cfg(test)]
mod tests {
    use super::SummaryNote;

    fn chosen(notes: &[&str], verbose: bool) -> Vec<String> {
        let notes = notes.iter().map(|note| SummaryNote::of_opening((*note).to_owned())).collect();
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

    #[test]
    fn no_note_of_the_run_is_left_out() {
        let of_run = "2 packets waiting for the interface, which is down".to_owned();
        let opening = ["GRO is on", "generic mode", "no hash"].map(str::to_owned);
        let notes = opening.map(SummaryNote::of_opening).into_iter();
        let notes = notes.chain([SummaryNote::of_run(of_run.clone())]).collect();
        let shown = super::chosen(notes, false, &|_| 1);
        assert_eq!(shown, [&of_run, "GRO is on", "2 more notes: -v"]);
    }
}
