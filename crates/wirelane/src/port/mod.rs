//! Ports: one interface opened through one backend.
//!
//! A [`Port`] is opened from a [`Spec`], hands out one [`Rx`] per queue and class and one [`Tx`]
//! per TX queue, and starts them together, so that no packet is taken before every queue is
//! ready. `Rx` and `Tx` are `Send` and not `Sync`: each belongs to one thread at a time, and
//! sharing one is a compile error instead of a data race. What several threads may use, the
//! queue masks and the order to stop, is the port's [`Control`].
//!
//! ```text
//!   Spec ──open──▶ Port ──rx()──▶ Rx, Rx, …   one per queue and class, each on some thread
//!                    │  ──tx()──▶ Tx, Tx, …   one per TX queue
//!                    └─control()─▶ Control    masks and stop, from any thread
//! ```

mod bundle;
pub(crate) mod drain;
pub mod fault;
pub mod file;
mod filtered;
pub(crate) mod gro;
pub mod gso;
pub(crate) mod lanes;
mod manual;
mod open;
pub mod packet;
pub mod record;
pub mod sim;
pub mod spec;
mod switches;
pub mod tap;
pub mod trace;
pub mod xdp;

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use self::bundle::{Bundle, Strand};
pub use self::lanes::{Lane, lanes};
pub use self::manual::{Manual, SpecOption};
pub use self::open::{Share, open, shared_memory};
pub use self::spec::{Backend, Options, Spec};
pub use self::switches::{Offloads, Switches};
use crate::error::{Error, Result};
use crate::filter::Filter;
pub use crate::frame::Protocols;
use crate::frame::{Batch, Frame, Sink, SinkGso};
use crate::halt::Halt;
use crate::mask::{Class, QueueMask};
use crate::pcap::FileId;
use crate::placement::Placement;
use crate::pool::PoolGauge;
use crate::stats::{RxCounters, TxCounters};

/// What to open of a port, beside what its spec says.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Which packets to select at first; [`Control::set_mask`] changes it later.
    pub mask: QueueMask,
    /// Which of those to receive, at first; all of them when `None`. [`Control::set_filter`] changes it
    /// later. On `xdp:` the others go to the host.
    pub filter: Option<Filter>,
    /// Open for receiving.
    pub receive: bool,
    /// Open for transmitting.
    pub transmit: bool,
    /// What the host itself sends can be selected, now or later: TX queues of the masks. A program that never
    /// does, as a forwarder, spares the kernel a copy of every packet that is sent while it receives.
    pub outgoing: bool,
    /// Longest part of a packet to keep, in bytes.
    pub snaplen: u32,
    /// Ask the interface to take packets that are not addressed to it, while the port is open.
    pub promiscuous: bool,
    /// When the interface is removed, wait until there is one of its name again, and go on; otherwise that is the end, with
    /// an error. Only `packet:` can. The kernel then offers each packet to every queue's ring.
    pub wait: bool,
    /// Bytes of receive memory per queue; the backend's choice when `None`.
    pub ring_bytes: Option<usize>,
    /// How long a received packet may wait until others have come, about; the backend's choice when
    /// `None`. A shorter time costs more wake-ups.
    pub latency: Option<Duration>,
    /// Which CPU serves which queue: its memory is taken from the NUMA node of that CPU.
    pub placement: Placement,
    /// Memory to keep frames in, where the port can choose and there is enough of it: ports of one region
    /// send each other's frames without a copy. See [`shared_memory`].
    pub memory: Option<Share>,
    /// Which packets to take away from the host. Without it a program only looks, and a bare name is `packet:`.
    pub take: Take,
    /// Of those, take also what keeps the host reachable: ARP, neighbour discovery, SSH, DNS and DHCP, which
    /// otherwise stay with it. See [`xdp::management`].
    pub take_management: bool,
    /// Files that are read elsewhere, and must not be written: see [`Port::inputs`].
    pub inputs: Vec<FileId>,
    /// Ends waiting for others, while the port opens and later: for a pipe that is silent, or that nobody reads.
    pub halt: Halt,
    /// Received packets go on elsewhere: a port through which they would come changed, such as without their VLAN tags,
    /// is refused unless its spec says that this is wanted (`tags=off`). Otherwise it opens, with a note. Packets that the kernel
    /// shows as one are marked to be cut ([`Frame::offload`]), if the port can tell.
    pub intact: bool,
    /// Which frames longer than the MTU the program can take, to be cut later ([`crate::segment`]):
    /// a port whose sender can leave that to us (`tap:`) asks it to. With any of them, checksums may be
    /// left to do as well: see [`Frame::offload`](crate::Frame::offload).
    pub offload: SinkGso,
    /// The program cuts what is too long for the port before it transmits it. A port whose device cuts frames itself
    /// then leaves them to it, and its [`Port::sink`] says which.
    pub cuts: bool,
    /// Keep room for such frames even if none can come now: [`Control::set_offload`] may ask for them.
    pub prepare_offload: bool,
    /// The program heeds what the spec says of cutting and merging ([`Spec::offloads`]). A spec that says
    /// something is refused otherwise.
    pub heeds_offloads: bool,
}

/// Which packets a port may take away from the host, of those that the masks select. `xdp:` cannot do otherwise;
/// the other ports give copies, or have no host to take from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// None: the program only looks. A bare name is `packet:`, and `xdp:` refuses to open for receiving, so that
    /// nobody cuts off a host unawares.
    #[default]
    Nothing,
    /// What [`OpenOptions::filter`] accepts, or a later one; the others go to the host. A bare name is `packet:`.
    Matching,
    /// All of them, or what a filter accepts while there is one. A bare name is the best that the interface can have.
    All,
}

impl OpenOptions {
    /// The longest snap length, and the default.
    pub const MAX_SNAPLEN: u32 = 262_144;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            mask: QueueMask::ALL,
            filter: None,
            receive: true,
            transmit: false,
            outgoing: true,
            snaplen: Self::MAX_SNAPLEN,
            promiscuous: false,
            wait: false,
            ring_bytes: None,
            latency: None,
            placement: Placement::default(),
            memory: None,
            take: Take::Nothing,
            take_management: false,
            inputs: Vec::new(),
            halt: Halt::default(),
            intact: false,
            offload: SinkGso::default(),
            cuts: false,
            prepare_offload: false,
            heeds_offloads: false,
        }
    }
}

/// One way to open an interface that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    /// Its name, such as `packet` or `xdp-zerocopy`.
    pub rung: &'static str,
    /// `chosen` or `refused`.
    pub outcome: &'static str,
    /// Symbol of the errno, such as `EOPNOTSUPP`.
    pub errno: Option<String>,
    /// The cause in words.
    pub cause: Option<String>,
    /// What would make it work, if anything.
    pub fix: Option<String>,
}

/// What a port turned out to be.
#[derive(Clone, Debug, Serialize)]
pub struct PortInfo {
    /// The spec, as the user wrote it.
    pub spec: String,
    /// `sim`, `file`, `packet`, `xdp`, `tap`.
    pub backend: &'static str,
    /// How it works underneath, such as `tpacket-v3`.
    pub mode: String,
    /// Name of the network interface.
    pub interface: Option<String>,
    /// The queues that are open.
    pub queues: Vec<u16>,
    /// The ways that were tried, in order.
    pub negotiation: Vec<Rung>,
    /// What a user should know: fallbacks, things the driver hides.
    pub notes: Vec<String>,
    /// Link type in the registry of capture files (1 is Ethernet).
    pub link_type: u16,
    /// Driver or hardware, if known.
    pub hardware: Option<String>,
    /// Link speed in bits per second, if known.
    pub speed: Option<u64>,
    /// Most bytes kept of a packet.
    pub snaplen: u32,
    /// Whether the port waits for its consumer, so that a slow one loses nothing.
    pub lossless: bool,
    /// How many nanoseconds later than its timestamp a packet can be delivered, at most.
    pub lateness: u64,
}

/// Where the frames of a port are. `free + fill + rx + held + tx + completion = pool` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    /// All frames (for a mapped kernel ring: blocks, the unit in which it changes hands).
    pub pool: u64,
    /// In nobody's use.
    pub free: u64,
    /// Waiting for the interface to fill them.
    pub fill: u64,
    /// Filled and not yet received.
    pub rx: u64,
    /// Waiting to be transmitted, or being transmitted.
    pub tx: u64,
    /// Transmitted and not yet reclaimed.
    pub completion: u64,
}

impl FrameCounts {
    /// Frames in the hands of the program. After it has dropped all of its frames, anything left
    /// here has leaked.
    pub fn held(&self) -> u64 {
        let elsewhere = self.free + self.fill + self.rx + self.tx + self.completion;
        self.pool.saturating_sub(elsewhere)
    }
}

impl FrameCounts {
    /// The frames of pools.
    pub(crate) fn of<'a>(gauges: impl IntoIterator<Item = &'a PoolGauge>) -> Self {
        let mut sum = Self::default();
        for gauge in gauges {
            let (pool, free) = (u64::from(gauge.size()), u64::from(gauge.free()));
            sum += Self { pool, free, ..Self::default() };
        }
        sum
    }
}

impl std::ops::AddAssign for FrameCounts {
    fn add_assign(&mut self, other: Self) {
        self.pool += other.pool;
        self.free += other.free;
        self.fill += other.fill;
        self.rx += other.rx;
        self.tx += other.tx;
        self.completion += other.completion;
    }
}

/// Counts the frames of a port, from any thread. It keeps none of them.
#[derive(Clone)]
pub struct Census(Arc<dyn Fn() -> FrameCounts + Send + Sync>);

impl Census {
    /// Counts with this function.
    pub fn new(count: impl Fn() -> FrameCounts + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// Where the frames are now.
    pub fn frames(&self) -> FrameCounts {
        (self.0)()
    }
}

/// One interface opened through one backend.
pub trait Port: Send {
    /// What it turned out to be.
    fn info(&self) -> &PortInfo;

    /// Hands out the receiving ends: one per queue and class. Empty at the second call.
    fn rx(&mut self) -> Vec<Rx>;

    /// Hands out the transmitting ends, one per TX queue. Empty at the second call.
    fn tx(&mut self) -> Vec<Tx>;

    /// Lets packets in: the start barrier. Call it when every thread is ready.
    ///
    /// # Errors
    /// The interface went away or refuses.
    fn start(&mut self) -> Result<()>;

    /// Masks and stop, for any thread.
    fn control(&self) -> Arc<dyn Control>;

    /// Counts its frames, from any thread.
    fn census(&self) -> Census;

    /// Where the frames are now.
    fn frames(&self) -> FrameCounts {
        self.census().frames()
    }

    /// Whether packets may go on coming until it is stopped. A source with a given number of packets
    /// ends by itself.
    fn is_endless(&self) -> bool {
        true
    }

    /// What its transmitting ends can take.
    fn sink(&self) -> Sink;

    /// Whether frames that it receives may be left to be cut ([`Frame::offload`]) though nobody asked for it
    /// ([`OpenOptions::offload`]).
    fn leaves_cutting(&self) -> bool {
        false
    }

    /// What was found out after opening; complete once every receiving end has ended.
    fn late_notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The files that it reads, and that nobody may write meanwhile.
    fn inputs(&self) -> Vec<FileId> {
        Vec::new()
    }
}

/// What may be asked of an open port from any thread.
pub trait Control: Send + Sync {
    /// The masks in force.
    fn mask(&self) -> QueueMask;

    /// Replaces the masks. Each packet meets the old or the new ones; packets of queues that stay
    /// selected are neither lost nor duplicated.
    ///
    /// # Errors
    /// A queue that the port does not have or a class that it cannot see (a usage error, nothing
    /// changed), or the system refuses.
    fn set_mask(&self, mask: QueueMask) -> Result<()>;

    /// Replaces the filter; `None` takes all packets that the masks select. Each packet meets the old
    /// or the new one. Packets received before, and not yet asked for, have met the old one.
    ///
    /// # Errors
    /// The filter means nothing for packets of this link type or is over the limits (nothing changed),
    /// or the system refuses. A port that was not opened by [`open()`] may not be able to filter.
    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let cause = "it was opened by its backend alone, which cannot filter";
        filter.map_or(Ok(()), |_| Err(Error::failed("port", cause).help("open it with port::open")))
    }

    /// Replaces [`OpenOptions::offload`]. Frames that are on their way already come as they are. A port
    /// whose sender leaves nothing to us takes no notice.
    ///
    /// # Errors
    /// It was opened for no frame longer than its MTU, and has no room for any (a usage error, nothing
    /// changed), or the system refuses.
    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        let _ = offload;
        Ok(())
    }

    /// Lets no more packets in. What is in the rings can still be received, then
    /// [`Readiness::End`] follows.
    fn stop(&self);
}

/// When an [`Rx`] is worth asking again.
#[derive(Clone, Copy, Debug)]
pub enum Readiness<'a> {
    /// Now.
    Now,
    /// When this descriptor becomes readable, or after the time, whichever comes first.
    Descriptor(BorrowedFd<'a>, Duration),
    /// After this time.
    After(Duration),
    /// Never: everything has been received.
    End,
}

/// What a backend implements for receiving.
pub trait Receive: Send {
    /// Adds received frames to `batch` while it has room; returns how many. 0 if none is ready.
    fn receive(&mut self, batch: &mut Batch) -> usize;

    /// When to ask again after a call that returned nothing. Also the place for a backend's
    /// housekeeping, such as reading the kernel's counters.
    ///
    /// # Errors
    /// The interface went away or the system refuses; what was received before stays valid. Said
    /// once: the next answer is [`Readiness::End`].
    fn readiness(&mut self) -> Result<Readiness<'_>>;

    /// No frame older than this (nanoseconds since the Unix epoch) will be received any more.
    fn watermark(&self) -> u64;
}

/// What a backend implements for transmitting.
pub trait Transmit: Send {
    /// Takes frames from the front of `batch`; returns how many. What does not fit stays.
    /// Frames of another port's memory are copied.
    fn transmit(&mut self, batch: &mut Batch) -> usize;

    /// Lets `write` put packets straight into memory that is sent from, one per call and behind all that was
    /// taken before, until there is no room or it says `None`; otherwise it says how many bytes they have.
    /// Returns how many there were, `None` if the port has no memory of that kind. Their checksums are complete.
    fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        let _ = write;
        None
    }

    /// Adds up to `n` empty frames of the port's own memory to `batch`, which can be transmitted
    /// without a copy; returns how many.
    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize;

    /// Adds frames that have been transmitted to `batch` while it has room, stamped with the time at which each
    /// left; returns how many. A port that was not told to keep them has none.
    fn sent(&mut self, batch: &mut Batch) -> usize {
        let _ = batch;
        0
    }

    /// Makes sure that what was taken is on its way, and reclaims what has been transmitted.
    ///
    /// # Errors
    /// The interface went away or the system refuses.
    fn flush(&mut self) -> Result<()>;

    /// Frames taken and not yet transmitted. Those that are still there when the [`Tx`] is dropped, after some flushes, it
    /// counts as errors.
    fn pending(&self) -> usize;

    /// Waits until there is room again, at most `timeout`.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    fn wait(&mut self, timeout: Duration) -> Result<()>;
}

/// The receiving end of one queue and class, or of a [`Bundle`] of them.
pub struct Rx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    bundle: Option<Arc<Bundle>>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Rx {
    /// Wraps a backend's receiver.
    pub fn new(inner: impl Receive + 'static, counters: Arc<RxCounters>) -> Self {
        Self { inner: Box::new(inner), counters, bundle: None, not_sync: PhantomData }
    }

    /// Says that its packets are of several queues, each of which is to be counted for itself, too.
    pub(crate) fn with_bundle(mut self, bundle: Option<Arc<Bundle>>) -> Self {
        self.bundle = bundle;
        self
    }

    /// Adds received frames to `batch` while it has room; returns how many. Never blocks.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch) -> usize {
        let n = self.inner.receive(batch);
        if n > 0 {
            let new = &batch[batch.len() - n..];
            let bytes: u64 = new.iter().map(|frame| u64::from(frame.original_len())).sum();
            self.counters.packets.add(n as u64);
            self.counters.bytes.add(bytes);
            if let Some(bundle) = &self.bundle {
                bundle.count(new);
            }
        }
        n
    }

    /// When to ask again after a call that returned nothing.
    ///
    /// # Errors
    /// As [`Receive::readiness`].
    pub fn readiness(&mut self) -> Result<Readiness<'_>> {
        self.inner.readiness()
    }

    /// No frame older than this (nanoseconds since the Unix epoch) will come any more.
    pub fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    /// The queue's number; `None` for packets that are tied to no queue ([`Class::Other`]).
    pub fn queue(&self) -> Option<u16> {
        self.counters.queue()
    }

    /// What its frames have in common.
    pub fn class(&self) -> Class {
        self.counters.class
    }

    /// Its counters, readable from any thread.
    pub fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }

    /// The queues that its packets are of, if those are several in one stream.
    pub fn bundle(&self) -> Option<&Arc<Bundle>> {
        self.bundle.as_ref()
    }

    /// Puts a wrapper around the backend's receiver. What a wrapper drops it counts for the end as a whole, which is
    /// no [`Rx::bundle`] any more.
    pub fn wrap<R: Receive + 'static>(
        self,
        wrapper: impl FnOnce(Box<dyn Receive>, Arc<RxCounters>) -> R,
    ) -> Self {
        let inner = Box::new(wrapper(self.inner, Arc::clone(&self.counters)));
        Self { inner, counters: self.counters, bundle: None, not_sync: PhantomData }
    }
}

/// The transmitting end of one queue.
///
/// Before it passes frames on it completes checksums that are left to do, unless the backend knows what to do
/// with such frames. What it cannot complete is an error, and counted as `unfinished` among them.
///
/// Dropping it sends what it has taken, as far as that takes no longer than [`Tx::drain`] says there, and counts the rest
/// as errors: every frame that was taken is counted as sent or as an error.
pub struct Tx {
    inner: Box<dyn Transmit>,
    counters: Arc<TxCounters>,
    /// Nothing may be left to do to what the backend gets.
    finishes: bool,
    /// Frames taken and not sent that are counted as errors already.
    lost: usize,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Tx {
    /// Wraps a backend's transmitter.
    pub fn new(inner: impl Transmit + 'static, counters: Arc<TxCounters>) -> Self {
        Self { inner: Box::new(inner), counters, finishes: true, lost: 0, not_sync: PhantomData }
    }

    /// Says whether the backend, or the wrapper around it, takes frames to which something is left to do
    /// ([`Frame::offload`](crate::Frame::offload)) and does it.
    #[must_use]
    pub fn takes_offloads(mut self, takes: bool) -> Self {
        self.finishes = !takes;
        self
    }

    /// Takes frames from the front of `batch`; returns how many. What does not fit stays. Never
    /// blocks.
    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch) -> usize {
        let refused = if self.finishes { self.finish(batch) } else { 0 };
        refused + self.inner.transmit(batch)
    }

    /// Completes checksums; takes out what cannot be completed, and returns how many that were.
    #[inline]
    fn finish(&self, batch: &mut Batch) -> usize {
        if !batch.iter().any(Frame::is_unfinished) {
            return 0;
        }
        let before = batch.len();
        batch.retain(|frame| !frame.is_unfinished() || frame.finish());
        let refused = before - batch.len();
        if refused > 0 {
            self.counters.unfinished.add(refused as u64);
            self.counters.errors.add(refused as u64);
        }
        refused
    }

    /// Adds up to `n` empty frames of the port's own memory to `batch`; returns how many.
    #[inline]
    pub fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    /// Adds frames that have been transmitted to `batch` while it has room, each with the time at which it left
    /// as its [`timestamp`](crate::Frame::timestamp); returns how many. Only of ports that were told to keep them,
    /// such as `xdp:eth0?tx_timestamps=on`. Those that nobody takes in time go back to their pools.
    #[inline]
    pub fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    /// Makes sure that what was taken is on its way, and reclaims what has been transmitted.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    /// Frames taken and not yet transmitted.
    #[inline]
    pub fn pending(&self) -> usize {
        self.inner.pending()
    }

    /// Waits until there is room again, at most `timeout`.
    ///
    /// # Errors
    /// As [`Transmit::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.inner.wait(timeout)
    }

    /// The queue's number.
    pub fn queue(&self) -> u16 {
        self.counters.queue
    }

    /// Its counters, readable from any thread.
    pub fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }

    /// Puts a wrapper around the backend's transmitter.
    pub fn wrap<T: Transmit + 'static>(
        mut self,
        wrapper: impl FnOnce(Box<dyn Transmit>, Arc<TxCounters>) -> T,
    ) -> Self {
        self.inner = Box::new(wrapper(self.vacate(), Arc::clone(&self.counters)));
        self
    }
}
