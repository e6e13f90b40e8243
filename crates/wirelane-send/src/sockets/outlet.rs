//! Where packets are written: into the slots of a ring, or into frames that are sent.

use std::cell::Cell;
use std::time::Duration;

use wirelane::port::{Backend, PortInfo, Tx, XpsBinding};
use wirelane::stats::TxStats;
use wirelane::{Batch, Error, Pool, PoolConfig, Result};
use wirelane_os::{clock, iface};

use crate::session::{SendConfig, has_no_link, is_down, on_interface};

/// A transmitting end, and memory for what it sends.
pub(super) struct Outlet {
    tx: Tx,
    /// It has memory that is written without a frame.
    has_slots: bool,
    /// Frames for packets that the port is to cut.
    long: Option<Pool>,
    /// Frames to write into.
    empty: Batch,
    /// Frames to send.
    ready: Batch,
    /// The port keeps the time of each frame, or its device waits for it: how far the wall clock is
    /// ahead of the monotonic one.
    wall: Option<u64>,
    lead: u64,
    object: String,
    watch: Watch,
    /// The interface, if packets need its link; and the time of the last reading, 0 before it.
    link: Option<String>,
    looked: u64,
}

/// The time of the last progress, and the refusals after it.
#[derive(Default)]
struct Watch {
    sent: u64,
    refused: u64,
    since: u64,
    /// The time of the first refusal after that progress.
    refusing: Option<u64>,
    /// The time between the first and the last of these refusals.
    refused_for: u64,
}

impl Watch {
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

/// Frames that hold the longest packet; one is cut while the others are written.
const LONG: PoolConfig =
    PoolConfig { chunks: 128, chunk_size: 1 << 16, headroom: 0, numa_node: None };
/// How long before they are due packets go to a device that waits, in nanoseconds: longer than the
/// sending thread is ever held up, if not for good.
const LEAD: u64 = 1_000_000;
/// How long an interface may be down, or refuse everything, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// Interval between two readings of the link, in nanoseconds.
const LOOK: u64 = 20_000_000;

impl Outlet {
    /// # Errors
    /// There is no memory for long packets.
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
            watch: Watch::default(),
            link: on_interface(info).map(str::to_owned),
            looked: 0,
            tx,
        })
    }

    /// The TX queue.
    pub(super) fn queue(&self) -> u16 {
        self.tx.queue()
    }

    /// Sends from the place of the calling thread.
    pub(super) fn bind(&mut self, place: XpsBinding) {
        self.tx.bind(place);
    }

    /// How long before they are due packets are written, in nanoseconds.
    #[inline]
    pub(super) fn lead(&self) -> u64 {
        self.lead
    }

    /// Lets `write` write packets, each behind the others, until it returns `None` or there is no
    /// room; otherwise it returns the length. `at` is the time of the newest one on the monotonic
    /// clock.
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
                // There is the room that it came from.
                let _ = self.empty.push(frame);
                return;
            }
            if let Some(ahead) = self.wall {
                frame.set_timestamp(at.get().saturating_add(ahead));
            }
            // There is room: the loop asks.
            let _ = self.ready.push(frame);
        }
    }

    /// Passes on what was written; true if nothing is left here.
    ///
    /// # Errors
    /// The interface went away or the system refuses.
    #[inline]
    pub(super) fn push(&mut self) -> Result<bool> {
        while !self.ready.is_empty() && self.tx.transmit(&mut self.ready) > 0 {}
        self.tx.flush()?;
        Ok(self.ready.is_empty())
    }

    /// Waits for room, at most `timeout`.
    ///
    /// # Errors
    /// As [`Outlet::push`].
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.tx.wait(timeout)
    }

    /// Packets on their way to the kernel.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.tx.pending() + self.ready.len()
    }

    /// Packets that have left.
    pub(super) fn sent(&self) -> u64 {
        self.tx.counters().packets.value()
    }

    /// Gives up what is written and was not taken; returns how much.
    pub(super) fn abandon(&mut self) -> u64 {
        let left = self.ready.len() as u64;
        self.ready.clear();
        self.empty.clear();
        left
    }

    /// Looks whether packets leave, `now`.
    ///
    /// # Errors
    /// For a second the interface was down, or the kernel refused every packet. Or the interface
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

    /// Looks a last time, after everything has left. A link that was there a moment ago was there
    /// for the last packet as well: the receiver may end with it and take its end down.
    ///
    /// # Errors
    /// There is no link.
    pub(super) fn look_back(&mut self, now: u64) -> Result<()> {
        // Without a look, nothing was sent, or all of it in one burst.
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

    /// Nothing has left for some time.
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
        let mut watch = Watch::default();
        watch.note(1, 0, SECOND);
        // Long after the last one, a packet is refused. It stays the only one for some time.
        watch.note(1, 1, 3 * SECOND);
        assert_eq!(watch.note(1, 1, 5 * SECOND), 4 * SECOND);
        assert_eq!(watch.refused_for, 0);
        // One is sent, and another one is refused.
        assert_eq!(watch.note(2, 1, 6 * SECOND), 0);
        watch.note(2, 2, 8 * SECOND);
        assert_eq!(watch.refused_for, 0);
        // All later ones are refused.
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
        let mut outlet = Outlet::new(tx, port.info(), &SendConfig::default()).unwrap();
        let start = clock::monotonic_ns();
        outlet.watch(start).unwrap();
        right.run("ip", ["link", "set", &pair.b.interface, "down"]);
        let deadline = Instant::now() + Duration::from_secs(10);
        while iface::flags(name).unwrap().is_running() {
            assert!(Instant::now() < deadline, "the link is not seen as lost");
        }
        outlet.look_back(start + LOOK).unwrap();
        let told = outlet.look_back(start + LOOK + 1).unwrap_err().to_string();
        assert!(told.contains("no link"), "{told}");
        // Nor does the start wait for a link when it is interrupted.
        let halt = Halt::default();
        halt.ask();
        let before = Instant::now();
        wait_for_link(name, &halt);
        assert!(before.elapsed() < Duration::from_secs(1));
    }
}
