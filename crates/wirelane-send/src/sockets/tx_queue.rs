//! The place that packets are written to: ring slots, or frames for the port.

use std::cell::Cell;
use std::time::Duration;

use wirelane::internal::port::XpsBinding;
use wirelane::port::{Backend, PortInfo, Tx};
use wirelane::stats::TxStats;
use wirelane::{Batch, Error, Pool, PoolConfig, Result};
use wirelane_os::{clock, iface};

use crate::session::{SendConfig, has_no_link, is_down, on_interface};

/// A transmit queue, and memory for its packets.
pub(super) struct TxQueue {
    tx: Tx,
    /// The port has slots that packets are written to without a frame.
    has_slots: bool,
    /// Frames for packets that the port segments.
    long: Option<Pool>,
    /// Frames to write into.
    empty: Batch,
    /// Frames to send.
    ready: Batch,
    /// The offset from the monotonic clock to the wall clock, if frames need timestamps: for a
    /// file, or a device that launches packets at their time.
    wall: Option<u64>,
    lead: u64,
    object: String,
    watch: ProgressWatch,
    /// The interface, if packets need its link.
    link: Option<String>,
    /// The time of the last link check, 0 before the first.
    looked: u64,
}

/// The time of the last progress, and the refusals after it.
#[derive(Default)]
struct ProgressWatch {
    sent: u64,
    refused: u64,
    since: u64,
    /// The time of the first refusal after that progress.
    refusing: Option<u64>,
    /// The time between the first and the last of these refusals.
    refused_for: u64,
}

impl ProgressWatch {
    /// Notes the packets `sent` and `refused` by `now`. Returns the time without a sent packet.
    #[inline]
    fn note(&mut self, sent: u64, refused: u64, now: u64) -> u64 {
        if sent != self.sent || self.since == 0 {
            *self = Self { sent, refused, since: now, ..Self::default() };
        } else if refused != self.refused {
            self.refused = refused;
            self.refused_for = now.saturating_sub(*self.refusing.get_or_insert(now));
        }
        now.saturating_sub(self.since)
    }
}

/// Frames that hold the longest packet. The port segments one while the sender writes others.
const LONG: PoolConfig =
    PoolConfig { chunks: 128, chunk_size: 1 << 16, headroom: 0, numa_node: None };
/// How early packets go to a device that launches them at their time, in nanoseconds. Usual delays
/// of the sending thread are shorter.
const LEAD: u64 = 1_000_000;
/// How long an interface may be down, or refuse every packet, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// Interval between two readings of the link, in nanoseconds.
const LOOK: u64 = 20_000_000;

impl TxQueue {
    /// # Errors
    /// The memory for packets to segment cannot be allocated.
    pub(super) fn new(mut tx: Tx, info: &PortInfo, config: &SendConfig) -> Result<Self> {
        let is_file = info.backend == Backend::File;
        let long = config.cut.then(|| Pool::new(LONG)).transpose()?;
        let ahead = || clock::realtime_ns().saturating_sub(clock::monotonic_ns());
        Ok(Self {
            has_slots: long.is_none() && tx.place(&mut |_| None).is_some(),
            long,
            empty: Batch::default(),
            ready: Batch::default(),
            wall: (is_file || info.launches).then(ahead),
            lead: if info.launches { LEAD } else { 0 },
            object: info.interface.clone().unwrap_or_else(|| info.spec.clone()),
            watch: ProgressWatch::default(),
            link: on_interface(info).map(str::to_owned),
            looked: 0,
            tx,
        })
    }

    /// The index of the TX queue.
    pub(super) fn queue(&self) -> u16 {
        self.tx.queue()
    }

    /// Sends from the place of the calling thread.
    pub(super) fn bind(&mut self, place: XpsBinding) {
        self.tx.bind(place);
    }

    /// How early packets are written before they are due, in nanoseconds.
    #[inline]
    pub(super) fn lead(&self) -> u64 {
        self.lead
    }

    /// Calls `write` for one packet after another, until it returns `None` or no room is left.
    /// `write` returns the length of the packet, and sets `at` to its time on the monotonic clock.
    pub(super) fn fill(
        &mut self,
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
        at: &Cell<u64>,
    ) {
        if self.has_slots {
            self.tx.place(write);
            return;
        }
        while self.ready.room() > 0 {
            if self.empty.is_empty() {
                let wanted = self.empty.room();
                match &mut self.long {
                    Some(pool) => pool.take(&mut self.empty, wanted),
                    None => self.tx.allocate(&mut self.empty, wanted),
                };
            }
            let Some(mut frame) = self.empty.pop() else { return };
            let room = frame.capacity();
            let written = if frame.set_len(room) { write(frame.data_mut()) } else { None };
            if !written.is_some_and(|len| frame.set_len(len)) {
                // The frame was popped from this batch, so there is room.
                let _ = self.empty.push(frame);
                return;
            }
            if let Some(ahead) = self.wall {
                frame.set_timestamp(at.get().saturating_add(ahead));
            }
            // The loop condition guarantees room.
            let _ = self.ready.push(frame);
        }
    }

    /// Passes the written packets to the port. Returns whether all were accepted.
    ///
    /// # Errors
    /// The interface was removed, or the kernel returns another error.
    #[inline]
    pub(super) fn push(&mut self) -> Result<bool> {
        while !self.ready.is_empty() && self.tx.transmit(&mut self.ready) > 0 {}
        self.tx.flush()?;
        Ok(self.ready.is_empty())
    }

    /// Waits for room, at most `timeout`.
    ///
    /// # Errors
    /// The same as for [`TxQueue::push`].
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.tx.wait(timeout)
    }

    /// Packets that were written and have not left.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.tx.pending() + self.ready.len()
    }

    /// Packets that have left.
    pub(super) fn sent(&self) -> u64 {
        self.tx.counters().packets.value()
    }

    /// Discards written packets that the port did not accept. Returns their number.
    pub(super) fn abandon(&mut self) -> u64 {
        let left = self.ready.len() as u64;
        self.ready.clear();
        self.empty.clear();
        left
    }

    /// Checks at `now` whether packets leave.
    ///
    /// # Errors
    /// The interface was down, or the kernel refused every packet, for a second; or the interface
    /// has no link.
    #[inline]
    pub(super) fn watch(&mut self, now: u64) -> Result<()> {
        if now.saturating_sub(self.looked) > LOOK {
            self.look(now)?;
        }
        let (sent, refused) = (self.sent(), self.tx.counters().refused.value());
        if self.watch.note(sent, refused, now) > PATIENCE {
            return self.explain();
        }
        Ok(())
    }

    /// Checks the link a last time, after all packets have left. Skips the check if the last one is
    /// recent: the receiver may take its end down right after the last packet.
    ///
    /// # Errors
    /// There is no link.
    pub(super) fn look_back(&mut self, now: u64) -> Result<()> {
        // Without an earlier check, either no packet was sent, or all in one burst.
        let is_unused = self.looked == 0 && self.sent() == 0;
        if is_unused || now.saturating_sub(self.looked) <= LOOK {
            return Ok(());
        }
        self.look(now)
    }

    /// Checks that there is a link. The flags are read without the lock of all interfaces
    /// (`rtnl_lock`), for which many threads would wait.
    ///
    /// # Errors
    /// There is no link.
    #[cold]
    fn look(&mut self, now: u64) -> Result<()> {
        self.looked = now;
        // If the interface cannot be asked, the port reports the cause.
        match self.link.as_ref().and_then(|link| iface::flags(link).ok()) {
            Some(flags) if flags.is_up() && !flags.is_running() => Err(has_no_link(&self.object)),
            _ => Ok(()),
        }
    }

    /// Returns the error if packets have stopped leaving because of the interface or the kernel.
    #[cold]
    fn explain(&self) -> Result<()> {
        let TxStats { refused_errno, held_errno, .. } = self.tx.counters().snapshot(0);
        if held_errno == Some("ENETDOWN") && self.pending() > 0 {
            return Err(is_down(&self.object));
        }
        if self.watch.refused_for > PATIENCE {
            let errno = refused_errno.map(|errno| format!(" ({errno})")).unwrap_or_default();
            let cause = format!("the kernel refuses every packet{errno}");
            return Err(Error::failed(self.object.as_str(), cause).help(
                "it may be down, or a rule drops them: look at `ip link` and `nft list ruleset`",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use wirelane::halt::Halt;
    use wirelane::port::{OpenOptions, open};
    use wirelane_testkit::netns::Namespace;
    use wirelane_testkit::privileged;
    use wirelane_testkit::veth::VethPair;

    use crate::session::wait_for_link;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn only_refusals_that_go_on_are_an_error() {
        let mut watch = ProgressWatch::default();
        watch.note(1, 0, SECOND);
        // Long after the last sent packet, a single packet is refused.
        watch.note(1, 1, 3 * SECOND);
        assert_eq!(watch.note(1, 1, 5 * SECOND), 4 * SECOND);
        assert_eq!(watch.refused_for, 0);
        // One packet is sent, and another one is refused.
        assert_eq!(watch.note(2, 1, 6 * SECOND), 0);
        watch.note(2, 2, 8 * SECOND);
        assert_eq!(watch.refused_for, 0);
        // The kernel refuses all later packets.
        watch.note(2, 3, 8 * SECOND + SECOND / 2);
        assert_eq!(watch.refused_for, SECOND / 2);
        watch.note(2, 4, 10 * SECOND);
        assert_eq!(watch.refused_for, 2 * SECOND);
        watch.note(3, 5, 11 * SECOND);
        assert_eq!(watch.refused_for, 0);
    }

    #[test]
    fn privileged_a_link_that_is_lost_is_noticed_but_not_right_after_the_last_look() {
        if !privileged::require() {
            return;
        }
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, 1, 1500);
        let name = pair.a.interface.as_str();
        let _inside = left.enter();
        let spec = format!("packet:{name}").parse().unwrap();
        let mut port = open(&spec, &OpenOptions::default().receive(false).transmit(true)).unwrap();
        let tx = port.tx().unwrap().pop().unwrap();
        let mut tx_queue = TxQueue::new(tx, port.info(), &SendConfig::default()).unwrap();
        let start = clock::monotonic_ns();
        tx_queue.watch(start).unwrap();
        right.run("ip", ["link", "set", &pair.b.interface, "down"]);
        let deadline = Instant::now() + Duration::from_secs(10);
        while iface::flags(name).unwrap().is_running() {
            assert!(Instant::now() < deadline, "the link is not seen as lost");
        }
        tx_queue.look_back(start + LOOK).unwrap();
        let told = tx_queue.look_back(start + LOOK + 1).unwrap_err().to_string();
        assert!(told.contains("no link"), "{told}");
        // Nor does the start wait for a link when it is interrupted.
        let halt = Halt::default();
        halt.ask();
        let before = Instant::now();
        wait_for_link(name, &halt);
        assert!(before.elapsed() < Duration::from_secs(1));
    }
}
