//! Decides between busy-polling an empty RX ring and sleeping until the kernel wakes the thread.
//!
//! Sleeping saves CPU time, but a sleeping thread may wake late: by some hundred microseconds if
//! its CPU is halted, virtual or busy in the kernel, and by several scheduler ticks if other tasks
//! want the CPU. Packets that arrive during this time must fit into the ring. So a thread sleeps
//! only while the ring can hold [`LATENESS`] of packets at the recent rate. After a faster period
//! it busy-polls without packets for as long as that period lasted: a fast sender may pause, too,
//! and while this thread sleeps the scheduler moves other tasks to its CPU, where they remain when
//! packets return. So at most half of the time awake is wasted.
//!
//! A task that shares the CPU of an awake thread can delay it by a scheduler tick of 4 ms. The
//! default ring therefore has a slot for each of its 16384 frames: 4 ms at 3 Mpps, and a third in
//! reserve. With more frames the working set would exceed the caches, and every packet would cost
//! more. Ports with more than 16 queues have fewer frames per queue, at least 4096.

use super::config::AutoSwitch;

/// How late a thread may wake, and the least time to busy-poll after a fast period, in nanoseconds.
const LATENESS: u64 = 10_000_000;
/// The longest time to busy-poll, in nanoseconds: a kernel task on the sender's CPU lowers the rate
/// for 60 ms.
const MAX_SPIN: u64 = 1_000_000_000;
/// The time over which packets are counted, in nanoseconds: several bursts of a timer-driven
/// sender.
const WINDOW: u64 = 4_000_000;
/// How long to busy-poll at the start, in nanoseconds: the rate is not known yet, and other tasks
/// move to other CPUs.
const FIRST_SPIN: u64 = 500_000_000;

/// Decides for one RX ring between busy-polling and sleep.
pub(super) struct IdlePolicy {
    spin: AutoSwitch,
    slots: u64,
    /// When the window began, and its packets so far.
    began: u64,
    packets: u64,
    /// The period in which packets arrived too fast for sleep, including pauses that were
    /// busy-polled.
    busy: Option<BusyTime>,
}

/// From the start of the first window to the end of the last one.
struct BusyTime {
    since: u64,
    last: u64,
}

impl BusyTime {
    /// Whether the thread still busy-polls after this period.
    fn lasts(&self, now: u64) -> bool {
        let length = self.last.wrapping_sub(self.since);
        now.wrapping_sub(self.last) < length.clamp(LATENESS, MAX_SPIN)
    }
}

impl IdlePolicy {
    pub(super) fn new(spin: AutoSwitch, slots: u32) -> Self {
        Self { spin, slots: slots.into(), began: 0, packets: 0, busy: None }
    }

    /// Counts `packets` found in the ring.
    #[inline(always)]
    pub(super) fn found(&mut self, packets: u32) {
        self.packets += u64::from(packets);
    }

    /// Whether to busy-poll the ring, which is empty at the time `now`.
    pub(super) fn busy_polls(&mut self, now: u64) -> bool {
        match self.spin {
            AutoSwitch::On => return true,
            AutoSwitch::Off => return false,
            AutoSwitch::Auto => {}
        }
        if self.began == 0 {
            self.began = now;
            self.busy = Some(BusyTime { since: now.saturating_sub(FIRST_SPIN), last: now });
        }
        // A clock that was set back also ends the window.
        let elapsed = now.wrapping_sub(self.began);
        if elapsed >= WINDOW {
            let late = self.packets.saturating_mul(LATENESS) / elapsed;
            if late > self.slots {
                let busy = self.busy.get_or_insert(BusyTime { since: self.began, last: now });
                busy.last = now;
            }
            (self.began, self.packets) = (now, 0);
        }
        self.busy.take_if(|busy| !busy.lasts(now));
        self.busy.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 8192;
    const START: u64 = 1 << 60;

    /// One that has been awake in vain at the beginning, by [`START`].
    fn settled(spin: AutoSwitch, slots: u32) -> IdlePolicy {
        let mut idle = IdlePolicy::new(spin, slots);
        let began = START - 2 * FIRST_SPIN;
        if spin == AutoSwitch::Auto {
            assert!(idle.busy_polls(began) && idle.busy_polls(began + FIRST_SPIN - 1));
            assert!(!idle.busy_polls(began + FIRST_SPIN) && !idle.busy_polls(START - 1));
        }
        idle
    }

    /// Sends `bursts` bursts, one every `gap` nanoseconds. Returns the number of decisions to
    /// busy-poll.
    fn watch(idle: &mut IdlePolicy, start: u64, bursts: u64, packets: u32, gap: u64) -> u64 {
        let times = (1..=bursts).map(|burst| start + burst * gap);
        times
            .filter(|now| {
                idle.found(packets);
                idle.busy_polls(now + gap / 2)
            })
            .count() as u64
    }

    #[test]
    fn a_rate_that_a_late_thread_would_not_survive_keeps_it_awake() {
        // 1 Mpps in bursts of half a millisecond: 10,000 during the lateness.
        let mut idle = settled(AutoSwitch::Auto, SLOTS);
        let awake = watch(&mut idle, START, 1000, 500, 500_000);
        // The policy must see the first window before it decides.
        assert!((980..1000).contains(&awake), "{awake}");
        // Half as many: they fit.
        let mut idle = settled(AutoSwitch::Auto, SLOTS);
        assert_eq!(watch(&mut idle, START, 1000, 250, 500_000), 0);
        // But not into a small ring.
        let mut idle = settled(AutoSwitch::Auto, SLOTS / 4);
        assert!(watch(&mut idle, START, 1000, 250, 500_000) > 980);
    }

    #[test]
    fn it_sleeps_when_it_was_awake_in_vain_for_as_long() {
        let last = |bursts: u64| START + bursts * 500_000;
        for (bursts, pause) in [(30, LATENESS), (1000, 490_000_000), (10_000, MAX_SPIN)] {
            let mut idle = settled(AutoSwitch::Auto, SLOTS);
            watch(&mut idle, START, bursts, 500, 500_000);
            // A sender that pauses finds it awake.
            assert!(idle.busy_polls(last(bursts) + pause - WINDOW), "{bursts}");
            assert!(!idle.busy_polls(last(bursts) + pause + 3 * WINDOW), "{bursts}");
            assert!(!idle.busy_polls(last(bursts) + 10 * pause), "{bursts}");
            // A single burst after a long silence is no rate.
            idle.found(SLOTS);
            assert!(!idle.busy_polls(last(bursts) + 20 * pause), "{bursts}");
        }
    }

    #[test]
    fn a_sender_that_is_slow_for_a_moment_finds_it_awake() {
        let mut idle = settled(AutoSwitch::Auto, SLOTS);
        watch(&mut idle, START, 1000, 1000, 500_000);
        // 2 Mpps for half a second, half a million for 60 ms, and so on.
        for round in 0..10 {
            let start = START + 500_000_000 + round * 560_000_000;
            assert_eq!(watch(&mut idle, start, 120, 250, 500_000), 120);
            watch(&mut idle, start + 60_000_000, 1000, 1000, 500_000);
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_it_awake() {
        let mut idle = settled(AutoSwitch::Auto, SLOTS);
        watch(&mut idle, START, 1000, 500, 500_000);
        assert!(!idle.busy_polls(START / 2));
        assert!(!idle.busy_polls(START / 2 + WINDOW));
    }

    #[test]
    fn on_and_off_do_not_look_at_the_rate() {
        let mut on = settled(AutoSwitch::On, SLOTS);
        assert!(on.busy_polls(1) && on.busy_polls(START));
        let mut off = settled(AutoSwitch::Off, SLOTS);
        assert_eq!(watch(&mut off, 0, 1000, 5000, 500_000), 0);
    }
}
