//! Sequence numbers of one direction in one table. The join uses them to restore the order over
//! several tables.
//!
//! A table reports runs. Each segment of a run follows the segment before. Most parts are one run.
//!
//! Only a jump of sequence numbers, which is rare, begins a run. If several tables have packets of
//! one direction, the runs of all tables in order of time show retransmissions and late segments.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::holes::SequenceHoles;

/// The most runs of a direction in one table.
const EACH: usize = 1024;
/// The remaining number of runs for all directions, not counting the last run of each.
static LEFT: AtomicUsize = AtomicUsize::new(1 << 18);

/// Retransmitted and late segments of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateSegments {
    pub(crate) retransmissions: u32,
    pub(crate) out_of_order: u32,
}

impl LateSegments {
    fn add(&mut self, other: Self) {
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
    }

    fn minus(self, other: Self) -> Self {
        Self {
            retransmissions: self.retransmissions.saturating_sub(other.retransmissions),
            out_of_order: self.out_of_order.saturating_sub(other.out_of_order),
        }
    }
}

/// Consecutive segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRun {
    /// The time of the first segment.
    pub(crate) time: u64,
    /// The time of the last segment, within 64 ns.
    pub(crate) last: u64,
    pub(crate) begin: u32,
    pub(crate) end: u32,
    pub(crate) segments: u32,
    /// The index among the runs of its direction.
    pub(crate) place: u16,
    /// The first segment may be a keep-alive.
    pub(crate) is_probe: bool,
}

impl SegmentRun {
    /// Splits the run into all segments but the last, and the last segment.
    fn parts(&self) -> impl Iterator<Item = Self> {
        let Self { time, last, begin, end, segments, .. } = *self;
        let is_whole = segments < 2 || last == time;
        // Assumes that all segments have the same length.
        let each = end.wrapping_sub(begin).checked_div(segments).unwrap_or(0);
        let cut = end.wrapping_sub(each);
        let first = Self { end: cut, segments: segments.saturating_sub(1), ..*self };
        let rest = Self { time: last, begin: cut, segments: 1, is_probe: false, ..*self };
        [Some(if is_whole { *self } else { first }), (!is_whole).then_some(rest)]
            .into_iter()
            .flatten()
    }
}

/// The completed runs of a direction.
#[derive(Debug, Default)]
pub(crate) struct RunLog {
    runs: Vec<SegmentRun>,
    /// The number of runs reserved from `LEFT`.
    taken: usize,
    places: u16,
    /// The counts of the table when there was no more room for runs.
    cut: Option<LateSegments>,
}

impl RunLog {
    /// The index of a new run; the first run has 0.
    pub(crate) fn next_place(&mut self) -> u16 {
        self.places = self.places.saturating_add(1);
        self.places
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Reserves room for `runs` more runs; false if a limit is reached.
    pub(crate) fn reserve(&mut self, runs: usize) -> bool {
        if self.runs.len() + runs <= self.taken {
            return true;
        }
        let more = self.taken.max(4);
        let take = |left: usize| left.checked_sub(more);
        if self.taken + more > EACH
            || LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err()
        {
            return false;
        }
        self.taken += more;
        self.runs.reserve_exact(self.taken - self.runs.len());
        true
    }

    pub(crate) fn push(&mut self, run: SegmentRun) {
        self.runs.push(run);
    }

    /// Ends the log with this run.
    pub(crate) fn cut(&mut self, last: SegmentRun, counted: LateSegments) {
        self.runs.push(last);
        self.cut = Some(counted);
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        LEFT.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// The runs of a direction in one table.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Whether the direction is from the second end of the key to the first.
    pub(crate) is_reversed: bool,
    log: RunLog,
    /// Counts of the table after the end of the log.
    rest: LateSegments,
}

impl Trace {
    /// `last` is the run that has not ended, `counted` the counts of the table.
    pub(crate) fn new(
        is_reversed: bool,
        mut log: RunLog,
        last: SegmentRun,
        counted: LateSegments,
    ) -> Self {
        let rest = match log.cut {
            Some(before) => counted.minus(before),
            None => {
                log.runs.reserve_exact(1);
                log.runs.push(last);
                LateSegments::default()
            }
        };
        log.runs.sort_unstable_by_key(|run| run.place);
        // Packets of one queue are in order of arrival.
        let mut time = 0;
        for run in &mut log.runs {
            time = run.time.max(time);
            (run.time, run.last) = (time, run.last.max(time));
        }
        Self { is_reversed, log, rest }
    }
}

/// The state of a direction after its last segment.
#[derive(Clone, Debug)]
pub(crate) struct DirectionState {
    next: u32,
    holes: SequenceHoles,
    /// Whether several tables received its segments.
    pub(crate) is_split: bool,
}

/// Replays the runs of a direction in order of time, after the runs of an earlier record. Each
/// trace has the number of its table. Only the first and the last segment of a run have known
/// times. The others are assumed to have the time of the first.
pub(crate) fn replay<'a>(
    traces: impl Iterator<Item = &'a (usize, Trace)> + Clone,
    before: Option<DirectionState>,
) -> (LateSegments, Option<DirectionState>) {
    let mut counts = LateSegments::default();
    let mut runs: Vec<_> = traces
        .clone()
        .enumerate()
        .flat_map(|(part, (table, trace))| {
            let runs = trace.log.runs.iter().flat_map(SegmentRun::parts);
            runs.map(move |run| ((run.time, *table, part, run.place), run))
        })
        .collect();
    runs.sort_by_key(|(order, _)| *order);
    let is_split = traces.clone().count() > 1;
    let mut lane =
        before.map(|lane| DirectionState { is_split: lane.is_split || is_split, ..lane });
    for (_, run) in runs {
        match &mut lane {
            Some(lane) => lane.add(&run, &mut counts),
            None => {
                lane = Some(DirectionState {
                    next: run.end,
                    holes: SequenceHoles::default(),
                    is_split,
                })
            }
        }
    }
    for (_, trace) in traces {
        counts.add(trace.rest);
        // The table did not record the later segments.
        if trace.log.is_cut() {
            lane = None;
        }
    }
    (counts, lane)
}

impl DirectionState {
    /// Counts as [`FlowEntry`](crate::table::FlowEntry) does for each segment.
    fn add(&mut self, run: &SegmentRun, counts: &mut LateSegments) {
        let SegmentRun { mut begin, end, mut segments, is_probe, .. } = *run;
        if is_probe && begin.wrapping_add(1) == self.next && segments > 0 {
            (begin, segments) = (self.next, segments - 1);
        }
        if segments == 0 {
            return;
        }
        let ahead = begin.wrapping_sub(self.next) as i32;
        if ahead >= 0 {
            if ahead > 0 {
                self.holes.add(self.next, begin);
            }
            self.next = end;
            return;
        }
        let is_longer = end.wrapping_sub(self.next) as i32 > 0;
        let known = if is_longer { self.next } else { end };
        let share = |segments: u32, part: u32, whole: u32| {
            let share = u64::from(segments) * u64::from(part);
            share.div_ceil(u64::from(whole).max(1)) as u32
        };
        let behind = known.wrapping_sub(begin);
        // Assumes that all segments of the run have the same length.
        let old = share(segments, behind, end.wrapping_sub(begin));
        let late = share(old, self.holes.fill(begin, known), behind);
        counts.add(LateSegments {
            retransmissions: old - late.min(old),
            out_of_order: late.min(old),
        });
        if is_longer {
            self.next = end;
        }
    }
}
