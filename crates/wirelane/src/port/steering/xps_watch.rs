//! Notices changes in the steering of TX queues while threads send, and tells them their new CPUs.
//!
//! The kernel does not announce writes to `xps_cpus`. So the thread that waits for the end of the
//! session reads the files once per [`PERIOD`]. Reading takes the kernel's `rtnl` lock, for which
//! sending threads should not wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wirelane_os::clock;

use crate::inspect::{Steering, TxBinding};
use crate::mask::QueueSet;
use crate::port::info::PortInfo;
use crate::port::steering::xps_binding::XpsBinding;

/// Time between two readings of the steering, in nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// Notices changes in the steering of TX queues while threads send.
#[derive(Default)]
pub struct XpsWatch {
    state: Mutex<WatchedBindings>,
}

#[derive(Default)]
struct WatchedBindings {
    /// Time of the last reading, on the monotonic clock.
    last: u64,
    ends: Vec<WatchedBinding>,
}

/// One end, or one of several threads that send through it.
pub(super) struct WatchedBinding {
    pub(super) steering: Arc<Steering>,
    /// The result of the last reading.
    pub(super) binding: TxBinding,
    /// The CPU of the thread, if the end has a single thread.
    pub(super) own: Option<u32>,
    /// The thread may move to a CPU of the queue.
    pub(super) moves: bool,
    pub(super) place: XpsBinding,
    pub(super) changes: u32,
}

impl XpsWatch {
    pub(super) fn new(ends: Vec<WatchedBinding>) -> Self {
        Self { state: Mutex::new(WatchedBindings { last: 0, ends }) }
    }

    /// Reads the steering if it is due: `now` is monotonic, in nanoseconds. Does not wait for
    /// another thread that is reading.
    pub fn look(&self, now: u64) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if now.saturating_sub(state.last) < PERIOD {
            return;
        }
        state.last = now;
        state.ends.iter().for_each(|end| end.place.begin_reading());
        // One port after the other.
        for of_port in state.ends.chunk_by_mut(|a, b| Arc::ptr_eq(&a.steering, &b.steering)) {
            // The steering of an interface that was removed or renamed cannot be read.
            let read = of_port.first().and_then(|end| end.steering.read());
            for end in of_port {
                let mut found = read.iter().flatten();
                if let Some(found) = found.find(|found| found.queue == end.binding.queue) {
                    end.compare(found);
                }
            }
        }
    }

    /// Waits for the end of a session with `is_over`, and reads the steering periodically. True if
    /// the session ended within `timeout`.
    pub fn while_waiting(&self, timeout: Duration, is_over: impl Fn(Duration) -> bool) -> bool {
        let begin = Instant::now();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            if is_over(left.min(Duration::from_nanos(PERIOD))) {
                return true;
            }
            self.look(clock::monotonic_ns());
            if begin.elapsed() >= timeout {
                return false;
            }
        }
    }

    /// Notes for the user about steering changes at the port that `info` describes.
    pub fn notes(&self, info: &PortInfo) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = info.interface.as_deref().unwrap_or(&info.spec);
        let is_changed =
            |end: &&WatchedBinding| end.changes > 0 && end.steering.interface() == name;
        let mut outcomes = BTreeMap::<_, Vec<usize>>::new();
        for end in state.ends.iter().filter(is_changed) {
            outcomes.entry(end.outcome()).or_default().push(usize::from(end.binding.queue));
        }
        let note = |(outcome, queues): (&str, Vec<usize>)| {
            let queues: QueueSet = queues.into_iter().collect();
            let changed = "somebody changed meanwhile which CPUs send by TX queue";
            format!("{changed} {queues} of {name}: {outcome}")
        };
        outcomes.into_iter().map(note).collect()
    }
}

impl WatchedBinding {
    /// Tells the sending threads if the steering of the queue has changed.
    fn compare(&mut self, found: &TxBinding) {
        if (found.way, &found.cpus) == (self.binding.way, &self.binding.cpus) {
            return;
        }
        let stays = |cpu: &u32| found.cpus.contains(*cpu);
        let other = || found.cpus.iter().next().filter(|_| self.moves);
        let own = self.own.filter(stays).or_else(other);
        self.own = own.or(self.own);
        self.place.change(found.cpus.clone(), own);
        self.changes += 1;
        self.binding = found.clone();
    }

    /// The effect on its frames, for the note.
    fn outcome(&self) -> &'static str {
        let cpus = &self.binding.cpus;
        if self.own.is_some_and(|cpu| cpus.contains(cpu)) {
            "its thread sends from one of them again"
        } else if cpus.is_empty() {
            "none sends by it alone now, so its frames leave by other queues, too"
        } else {
            "the threads stay where they are, and what they send from other CPUs leaves by other \
             queues"
        }
    }
}
