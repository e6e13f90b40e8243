//! The CPUs from which the frames of a TX queue must be sent. See `tx`.

use std::thread::{self, ThreadId};

use wirelane_os::affinity;

use crate::inspect::CpuList;
use crate::port::steering::xps_binding::XpsBinding;

/// The CPUs whose frames leave by the queue.
pub(super) struct Home {
    place: XpsBinding,
    /// The CPUs after the last change noticed.
    cpus: CpuList,
    /// The CPU of the sending thread.
    own: Option<u32>,
    thread: ThreadId,
    /// Readings and changes of the steering noticed so far.
    readings: u32,
    changes: u32,
    /// Frames handed to the kernel from one of the CPUs: now, at the last look, and when the last
    /// two readings were noticed.
    pub(super) handed: u64,
    looked: u64,
    before: [u64; 2],
}

impl Home {
    pub(super) fn new(place: XpsBinding) -> Self {
        let (cpus, own) = (place.cpus.clone(), place.own);
        let (readings, _) = place.counts();
        Self {
            place,
            cpus,
            own,
            thread: thread::current().id(),
            readings,
            // Changes before this thread started count too.
            changes: 0,
            handed: 0,
            looked: 0,
            before: [0; 2],
        }
    }

    /// Follows changes of the binding; returns the number of frames that may have strayed since the
    /// last call.
    #[inline]
    pub(super) fn look(&mut self) -> u64 {
        let (readings, changes) = self.place.counts();
        if readings != self.readings {
            self.readings = readings;
            self.before = [self.before[1], self.looked];
        }
        self.looked = self.handed;
        if changes == self.changes { 0 } else { self.follow(changes) }
    }

    /// At the last reading but one, the steering was still the earlier one. So frames handed over
    /// before it did not stray.
    #[cold]
    fn follow(&mut self, changes: u32) -> u64 {
        let (cpus, own) = self.place.latest();
        let from = |cpu: u32| self.own.is_none_or(|own| own == cpu);
        let is_same = self.cpus.iter().filter(|cpu| from(*cpu)).all(|cpu| cpus.contains(cpu));
        let strayed = if is_same { 0 } else { self.handed - self.before[0] };
        (self.changes, self.cpus, self.own) = (changes, cpus, own);
        self.before = [self.handed; 2];
        strayed
    }

    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.cpus.contains(affinity::current_cpu())
    }

    /// Moves the sending thread back to its CPU; other callers are not moved. A cpuset may forbid
    /// it.
    #[cold]
    pub(super) fn go(&self) {
        if let Some(cpu) = self.own
            && self.thread == thread::current().id()
        {
            let _ = affinity::pin(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_since_the_reading_before_the_last_may_have_strayed() {
        let cpus = |cpus: &[u32]| cpus.iter().copied().collect::<CpuList>();
        let place = XpsBinding::new(cpus(&[4, 6]), Some(4));
        let mut home = Home::new(place.clone());
        let send = |home: &mut Home, frames| {
            let strayed = home.look();
            home.handed += frames;
            strayed
        };
        // Three readings that find nothing new, and packets around each.
        for _ in 0..3 {
            assert_eq!(send(&mut home, 100), 0);
            place.begin_reading();
            assert_eq!(send(&mut home, 10), 0);
        }
        // The fourth finds that CPU 6 has another queue now: the thread is on CPU 4.
        place.begin_reading();
        place.change(cpus(&[4]), Some(4));
        assert_eq!(send(&mut home, 100), 0);
        // The sixth, that CPU 4 has.
        place.begin_reading();
        assert_eq!(send(&mut home, 7), 0);
        place.begin_reading();
        place.change(cpus(&[6]), Some(6));
        // The 7, and the 100 that may have been on their way when the fifth reading began.
        assert_eq!(send(&mut home, 5), 107);
        assert_eq!((home.own, send(&mut home, 5)), (Some(6), 0));
    }
}
