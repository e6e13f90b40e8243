//! The cells of the tables: each is right, or pending, or a failure of the test.

use std::thread;

use crate::answer::Line;
use crate::pending;

/// The outcome of a command, or how it failed.
pub(crate) type Outcome = Result<Vec<Line>, String>;

/// The fields that both paths record, and so can be compared.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) times: bool,
    pub(crate) places: bool,
    pub(crate) order: bool,
}

/// Collects the failures.
#[derive(Default)]
pub(crate) struct Cells {
    cells: usize,
    pending: usize,
    wrong: Vec<String>,
}

impl Cells {
    /// `difference` is `None` where the answer is right.
    pub(crate) fn add(&mut self, [path, traffic, command]: [&str; 3], difference: Option<String>) {
        self.cells += 1;
        let cell = format!("{path} × {traffic} × {command}");
        match (pending::fault(path, traffic, command), difference) {
            (None, None) => {}
            (Some(_), Some(_)) => self.pending += 1,
            (None, Some(difference)) => self.wrong.push(format!("{cell}: {difference}")),
            (Some(fault), None) => self
                .wrong
                .push(format!("row {cell} passes now: remove its pending mark (fault {fault})")),
        }
    }

    /// The cells of all rows, half of them by another thread.
    pub(crate) fn of_rows<R>(
        rows: impl Iterator<Item = R> + Clone + Sync,
        of_row: impl Fn(R) -> Self + Sync,
    ) -> Self {
        let half = |part: usize| {
            let rows = rows.clone().skip(part).step_by(2);
            rows.fold(Self::default(), |cells, row| cells.join(of_row(row)))
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            half(0).join(other.join().unwrap())
        })
    }

    fn join(mut self, other: Self) -> Self {
        self.cells += other.cells;
        self.pending += other.pending;
        self.wrong.extend(other.wrong);
        self
    }

    #[track_caller]
    pub(crate) fn finish(self) {
        let Self { cells, pending, wrong } = self;
        eprintln!("{cells} cells, {pending} of them pending");
        assert!(wrong.is_empty(), "{} of {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Whether a command refused its input; a panic or a signal is no answer.
fn is_refusal(error: &str) -> bool {
    ["exit status: 1:", "exit status: 2:"].iter().any(|status| error.contains(status))
}

/// The difference between two answers.
pub(crate) fn difference(expected: &Outcome, outcome: &Outcome, told: Told) -> Option<String> {
    let (expected, lines) = match (expected, outcome) {
        (Ok(expected), Ok(lines)) => (expected, lines),
        // A refusal is an answer, too; its words name the file.
        (Err(expected), Err(error)) => {
            let is_same = is_refusal(expected) && is_refusal(error);
            return (!is_same).then(|| error.clone());
        }
        (Err(error), Ok(_)) => return Some(format!("is accepted, not: {error}")),
        (_, Err(error)) => return Some(error.clone()),
    };
    let of = |line: &Line| Line {
        text: line.text.clone(),
        place: if told.places { line.place.clone() } else { String::new() },
        time: if told.times { line.time.clone() } else { String::new() },
    };
    let [mut expected, mut lines]: [Vec<Line>; 2] =
        [expected, lines].map(|lines| lines.iter().map(of).collect());
    // The rows were sorted by fields that are not compared, too, so sort them again.
    let is_row = |line: &Line| line.text.starts_with('{');
    if !told.order || expected.iter().chain(&lines).all(is_row) {
        expected.sort();
        lines.sort();
    }
    if expected == lines {
        return None;
    }
    let at = expected.iter().zip(&lines).take_while(|(a, b)| a == b).count();
    let [a, b] = [&expected, &lines].map(|lines| lines.get(at));
    let (count, of) = (lines.len(), expected.len());
    Some(format!("{count} lines for {of}; line {at} is\n  {b:?}, not\n  {a:?}"))
}
