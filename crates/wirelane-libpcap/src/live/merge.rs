//! Merges the frames of several receiving ends in order of time.
//!
//! ```text
//!   RX queue 0   3 5 8 ┐
//!   RX queue 1   4     ├─▶ 3 4 5 …    8 waits: queue 1 is empty, and may still bring a 7
//!   TX queue 0   9     ┘
//! ```
//!
//! A frame leaves when no end can bring an older one: each other end has an older frame itself or
//! promises none. An end promises by its watermark and, sooner, by an empty ring: later packets are
//! queued later ([`Rx::empty_at`]).
//!
//! Waiting is limited. When frames that wait fill half of a ring, the oldest ones leave, so that
//! the ring does not overflow. An end that promises nothing for long is not waited for; its next
//! frames leave late. The frames of one end keep their order.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use wirelane::internal::clock;
use wirelane::port::Rx;
use wirelane::{Error, Frame};

use super::input::{RxInput, Wish};

/// Limits on waiting for the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// Bytes of each ring. Half of them may wait for other rings.
    pub(crate) ring: usize,
    /// The longest wait for an end that makes no promise.
    pub(crate) wait: Duration,
    /// The longest sleep while frames wait for others.
    pub(crate) nap: Duration,
    /// How much older than its queueing time a packet may be: a CPU stamps it first, and the kernel
    /// may delay queueing it. With 0, packets leave in the order of queueing, as in libpcap.
    pub(crate) disorder: Duration,
    /// An end that waits for a descriptor does not need to be asked long before it is readable.
    pub(crate) sleeps: bool,
}

impl WaitLimits {
    /// The usual disorder.
    pub(crate) const DISORDER: Duration = Duration::from_millis(1);

    fn disorder_ns(&self) -> u64 {
        u64::try_from(self.disorder.as_nanos()).unwrap_or(u64::MAX)
    }

    fn shortest_nap(&self) -> Duration {
        self.disorder.max(SHORTEST_NAP)
    }
}

/// The shortest sleep while frames wait for others.
const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// Merges receiving ends. See the [module documentation](self).
pub(crate) struct RxMerger {
    inputs: Vec<RxInput>,
    /// A heap of all inputs, smallest key first.
    order: Vec<HeapEntry>,
    bounds: WaitLimits,
    /// [`WaitLimits::disorder`] in nanoseconds.
    disorder: u64,
    /// Counts rounds: within a round, an end without frames is asked once.
    look: u32,
    /// Frames up to this time do not wait.
    floor: u64,
    /// The time of the newest frame that has left.
    #[cfg(test)]
    newest: u64,
    #[cfg(test)]
    late: u64,
    /// How long the next sleep lasts while frames wait. It lets part of a ring fill, because a
    /// wake-up costs more than the packets of a millisecond.
    nap: Duration,
    failure: Option<Error>,
}

/// The result of [`RxMerger::next`].
pub(crate) enum MergeStep<'a> {
    /// Frames of one end, at least one. The first may leave, and later ones up to this time. Then
    /// call [`RxMerger::left`].
    Frames(&'a [Frame], u64),
    /// No frame may leave now.
    Nothing,
    /// All ends have ended.
    End,
    /// An end has failed, and the others have no frames.
    Failed(&'a Error),
}

/// An input in the heap.
#[derive(Clone, Copy, Debug)]
struct HeapEntry {
    /// Twice the time of its first frame, or twice its promise plus one if it has none: a frame
    /// precedes a promise of the same time.
    key: u64,
    input: u32,
    /// The last round in which it had no frames.
    asked: u32,
}

/// The longest sleep. Once an interface is down, only asking shows that it was removed.
const LONGEST: Duration = Duration::from_secs(1);
/// The key of an input that has ended.
const ENDED: u64 = u64::MAX;
/// No round has this number for a long time.
const NEVER: u32 = u32::MAX;
/// The latest time that fits a key.
const LAST: u64 = u64::MAX / 2 - 1;

impl RxMerger {
    pub(crate) fn new(ends: Vec<Rx>, bounds: WaitLimits) -> Self {
        let count = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        Self {
            inputs: ends.into_iter().map(RxInput::new).collect(),
            order: (0..count).map(|input| HeapEntry { key: 1, input, asked: NEVER }).collect(),
            bounds,
            disorder: bounds.disorder_ns(),
            look: 1,
            floor: 0,
            #[cfg(test)]
            newest: 0,
            #[cfg(test)]
            late: 0,
            nap: bounds.shortest_nap(),
            failure: None,
        }
    }

    /// The next frames. Asks each end without frames once before it returns [`MergeStep::Nothing`].
    #[inline]
    pub(crate) fn next(&mut self) -> MergeStep<'_> {
        loop {
            let Some(first) = self.order.first().copied() else { return MergeStep::End };
            if first.key & 1 == 0 {
                let limit = self.limit();
                let until = if limit == ENDED { u64::MAX } else { limit >> 1 };
                return match self.inputs.get(first.input as usize) {
                    Some(input) => MergeStep::Frames(input.frames(), until),
                    None => MergeStep::End,
                };
            }
            if first.key == ENDED || first.asked == self.look {
                return self.nothing(first.key == ENDED);
            }
            self.refill_first();
        }
    }

    /// Releases the first `n` frames of the last [`MergeStep::Frames`].
    #[inline]
    pub(crate) fn left(&mut self, n: usize) {
        let Some(first) = self.order.first().copied() else { return };
        let Some(input) = self.inputs.get_mut(first.input as usize) else { return };
        let n = n.min(input.frames().len());
        #[cfg(test)]
        if let Some(last) = n.checked_sub(1).and_then(|last| input.frames().get(last)) {
            self.late += u64::from(first.key >> 1 < self.newest);
            self.newest = self.newest.max(last.timestamp());
        }
        input.left(n);
        let key = key(input, self.floor, self.disorder);
        self.set_first(HeapEntry { key, ..first });
    }

    /// How often frames left that were older than a frame before them.
    #[cfg(test)]
    fn late(&self) -> u64 {
        self.late
    }

    /// Whether an end has received since the last call of [`RxMerger::each_touched`].
    #[inline]
    pub(crate) fn is_touched(&self) -> bool {
        self.inputs.iter().any(RxInput::is_touched)
    }

    /// Calls `show` with the position of each end that has received since the last call.
    pub(crate) fn each_touched(&mut self, mut show: impl FnMut(usize)) {
        for (position, input) in self.inputs.iter_mut().enumerate() {
            if input.take_touched() {
                show(position);
            }
        }
    }

    /// How long to wait for [`RxMerger::descriptors`] after [`MergeStep::Nothing`]: zero if
    /// frames may leave, `None` without a limit.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        self.ask_all();
        let mut time = match self.inputs.iter().any(|input| input.head().is_some()) {
            true => self.hold(),
            false => Duration::MAX,
        };
        for input in self.inputs.iter().filter(|input| input.head().is_none()) {
            match input.wish() {
                Wish::Now => time = Duration::ZERO,
                Wish::After(after) => time = time.min(after),
                Wish::Readable(..) if self.bounds.sleeps => time = time.min(LONGEST),
                Wish::Readable(_, after) => time = time.min(after),
                Wish::End => {}
            }
        }
        let is_frame = |place: &HeapEntry| place.key & 1 == 0;
        let is_ready = self.order.first().is_none_or(is_frame)
            || self.order.iter().all(|place| place.key == ENDED)
            || self.failure.is_some();
        match is_ready {
            true => Some(Duration::ZERO),
            false => Some(time).filter(|time| *time < Duration::MAX),
        }
    }

    /// The descriptors to wait for, with the positions of their ends.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter_map(|(position, input)| Some((position, input.descriptor()?)))
    }

    /// Whether a frame may leave now.
    pub(crate) fn has_frames(&self) -> bool {
        self.order.first().is_some_and(|first| first.key & 1 == 0)
    }

    /// Takes more frames out of the rings while they wait for other ends. Returns how long to
    /// sleep.
    fn hold(&mut self) -> Duration {
        let mut came = 0;
        for input in self.inputs.iter_mut().filter(|input| input.head().is_some()) {
            came += input.gather();
        }
        let overdue = self.inputs.iter().filter_map(|input| input.overdue(self.bounds.ring)).max();
        let wait = u64::try_from(self.bounds.wait.as_nanos()).unwrap_or(u64::MAX);
        let floor = overdue.unwrap_or(0).max(clock::realtime_ns().saturating_sub(wait));
        if floor > self.floor {
            self.floor = floor;
            self.rekey();
        }
        let ring = self.bounds.ring;
        if came > ring / 4 {
            self.nap /= 2;
        } else if came < ring / 8 {
            self.nap *= 2;
        }
        self.nap = self.nap.min(self.bounds.nap).max(self.bounds.shortest_nap());
        self.nap
    }

    /// The smallest key of the inputs other than the first.
    #[inline]
    fn limit(&self) -> u64 {
        let key = |place: Option<&HeapEntry>| place.map_or(ENDED, |place| place.key);
        key(self.order.get(1)).min(key(self.order.get(2)))
    }

    #[cold]
    fn nothing(&mut self, all_ended: bool) -> MergeStep<'_> {
        self.look = self.look.wrapping_add(1);
        match &self.failure {
            Some(failure) => MergeStep::Failed(failure),
            None if all_ended => MergeStep::End,
            None => MergeStep::Nothing,
        }
    }

    /// Asks the first input, which has no frames.
    #[inline]
    fn refill_first(&mut self) {
        let Some(mut place) = self.order.first().copied() else { return };
        let floor = self.floor;
        self.refill(&mut place, self.look);
        self.set_first(place);
        if self.floor != floor {
            self.rekey();
        }
    }

    #[inline]
    fn refill(&mut self, place: &mut HeapEntry, look: u32) {
        let Some(input) = self.inputs.get_mut(place.input as usize) else { return };
        if let Err(failure) = input.refill() {
            self.failure.get_or_insert(failure);
            // Frames received before the failure leave.
            self.floor = LAST;
        }
        place.key = key(input, self.floor, self.disorder);
        if place.key & 1 == 1 {
            place.asked = look;
        }
    }

    /// Asks all inputs without frames that were not asked in the last round.
    fn ask_all(&mut self) {
        let last = self.look.wrapping_sub(1);
        let mut order = std::mem::take(&mut self.order);
        for place in &mut order {
            if place.key & 1 == 1 && place.key != ENDED && place.asked != last {
                self.refill(place, last);
            }
        }
        self.order = order;
        self.rekey();
    }

    /// Restores the heap after keys changed.
    fn rekey(&mut self) {
        for place in &mut self.order {
            if let Some(input) = self.inputs.get(place.input as usize) {
                place.key = key(input, self.floor, self.disorder);
            }
        }
        // A sorted list is a heap.
        self.order.sort_unstable_by_key(|place| (place.key, place.input));
    }

    /// Sinks `place` from the root to its position in the heap.
    #[inline]
    fn set_first(&mut self, place: HeapEntry) {
        let order = self.order.as_mut_slice();
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let (Some(l), r) = (order.get(left), order.get(right)) else { break };
            let (child, smaller) = match r {
                Some(r) if r.key < l.key => (right, *r),
                _ => (left, *l),
            };
            // On equal keys, the others go first: this input was asked already, or had its turn.
            if place.key < smaller.key {
                break;
            }
            if let Some(here) = order.get_mut(at) {
                *here = smaller;
            }
            at = child;
        }
        if let Some(here) = order.get_mut(at) {
            *here = place;
        }
    }
}

/// The key of an input in the heap.
#[inline]
fn key(input: &RxInput, floor: u64, disorder: u64) -> u64 {
    match input.head() {
        Some(time) => time.min(LAST) << 1,
        None if input.wish() == Wish::End => ENDED,
        None => input.promise(disorder).max(floor).min(LAST) << 1 | 1,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
