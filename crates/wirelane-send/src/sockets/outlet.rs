//! Where packets are written: into the slots of a ring, or into frames that are sent.

use std::cell::Cell;
use std::time::Duration;

use wirelane::port::{Backend, PortInfo, Tx, TxPlace};
use wirelane::stats::TxStats;
use wirelane::{Batch, Error, Pool, PoolConfig, Result};
use wirelane_os::clock;
use wirelane_os::netdev::LinkReader;

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
    /// Reads whether there is a link, if packets need one; and the time of the last reading.
    link: Option<LinkReader>,
    looked: u64,
}

/// When something was sent last.
#[derive(Default)]
struct Watch {
    sent: u64,
    refused: u64,
    since: u64,
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
            // If it cannot be opened, the port reports the cause.
            link: on_interface(info).and_then(|name| LinkReader::open(name).ok()),
            looked: 0,
            tx,
        })
    }

    /// The TX queue.
    pub(super) fn queue(&self) -> u16 {
        self.tx.queue()
    }

    /// Sends from the place of the calling thread.
    pub(super) fn bind(&mut self, place: TxPlace) {
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
            self.looked = now;
            self.look()?;
        }
        let sent = self.sent();
        if sent != self.watch.sent || self.watch.since == 0 {
            let refused = self.tx.counters().refused.value();
            self.watch = Watch { sent, refused, since: now };
        } else if now.saturating_sub(self.watch.since) > PATIENCE {
            return self.explain();
        }
        Ok(())
    }

    /// Checks that there is a link.
    ///
    /// # Errors
    /// There is no link.
    #[cold]
    pub(super) fn look(&mut self) -> Result<()> {
        let link = self.link.as_mut().and_then(|link| link.read().ok());
        match link {
            Some(link) if link.is_up() && !link.is_running() => Err(has_no_link(&self.object)),
            _ => Ok(()),
        }
    }

    /// Nothing has left for some time.
    #[cold]
    fn explain(&self) -> Result<()> {
        let TxStats { refused, refused_errno, held_errno, .. } = self.tx.counters().snapshot(0);
        if held_errno == Some("ENETDOWN") && self.pending() > 0 {
            return Err(is_down(&self.object));
        }
        if refused > self.watch.refused {
            let errno = refused_errno.map(|errno| format!(" ({errno})")).unwrap_or_default();
            let cause = format!("the kernel refuses every packet{errno}");
            return Err(Error::failed(self.object.as_str(), cause)
                .help("it may be down: look at `ip link`"));
        }
        Ok(())
    }
}
