//! The transmitting end of one queue: sends through its ring (`tx_ring`), and long frames past it.
//!
//! Each packet has a `virtio_net_hdr` in front (PACKET_VNET_HDR, since Linux 4.6). With it the
//! kernel does not compare lengths with the MTU (`tpacket_snd`); without it, the kernel allows only
//! one tag. So this end compares lengths itself, with the current MTU, which it reads once per
//! batch.
//!
//! A frame that the device segments (with `vnet=on`, every frame to segment) is passed to the
//! kernel whole, with a separate call and socket, after the frames in the ring. The kernel segments
//! it just before the driver, or the device does. One call for 64 KB costs less than segmenting and
//! sending 44 packets. A partial checksum is completed in the slot.
//!
//! If there are several TX queues, the kernel chooses the TX queue of each packet: by the sending
//! CPU with XPS and with `bypass=on` (`netdev_pick_tx`, `packet_pick_tx_queue`), otherwise by its
//! socket (`assignment`) or, if that is not possible, by its flow. So
//! after the sending thread has moved to another CPU, nothing is sent until all earlier packets
//! have left: it could overtake them. The kernel waits in the same way before it changes the queue
//! of a socket (`ooo_okay`). A call that is interrupted and continues on another CPU can still
//! reorder packets: pin the thread to avoid that.
//!
//! If the sending CPU determines the queue, [`Transmit::bind`] sets the CPUs of the queue. A thread
//! that was moved to another CPU returns before it sends. Frames that it still sends from elsewhere
//! are counted: a cpuset may forbid the return, or a call was interrupted and continued on another
//! CPU. The CPUs may change at run time ([`XpsWatch`](crate::port::XpsWatch)): the thread moves to
//! a new one, and frames sent since the last reading but one are counted.
//!
//! Two reorderings remain possible. An unpinned thread may move to another CPU within a call. And a
//! veth without NAPI, or a loopback, queues packets on the sending CPU and reports them as sent at
//! once ([`veth_xmit`](https://github.com/torvalds/linux/blob/v6.18/drivers/net/veth.c)); two CPUs
//! empty such queues independently, although usually before the call returns.
//!
//! A datagram without a checksum is segmented here, because the kernel segments none. The kernel
//! reliably accepts only 64 datagrams per frame, so longer frames are segmented here, too. A
//! trailer does not count towards the MTU: it stays with a frame that fits with it, and is
//! otherwise removed and counted (`trailers`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::packet::PacketSocket;
use wirelane_os::{affinity, clock};

use super::assignment::Assignment;
use super::gauge::TxGauge;
use super::home::Home;
use super::refused::RefusedFrame;
use super::tx_ring::TxRing;
use super::under_way::{Inquiry, TxSockets, is_refusal};
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Gso, Offload};
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, Region};
use crate::port::device::{Device, removed};
use crate::port::offload::limits::{ETHERNET_HEADER, FrameLimits, VLAN_TAG};
use crate::port::steering::xps_binding::XpsBinding;
use crate::port::tx::Transmit;
use crate::stats::TxCounters;

/// Drivers that copy foreign pages.
const COPYING: [&str; 1] = ["veth"];
/// Frames for programs that create packets, and headroom for headers.
const FRAMES: u32 = 1024;
const HEADROOM: u32 = 128;
/// The minimum, if memory is short.
const LEAST_FRAMES: u32 = 16;
/// The longest frame to segment, after its Ethernet header and tags.
pub(super) const LONGEST: usize = 65_535;
/// Number of frames that can hold such a frame.
const LONG_FRAMES: u32 = 128;
/// Send buffer for them: the bytes that a device has in flight.
const LONG_BUFFER: usize = 4 << 20;
/// Index into `refused`.
const RING: usize = 0;
const PAST: usize = 1;
/// How long to wait for a full device.
const CONGESTED: Duration = Duration::from_micros(200);

/// Sends frames through one socket.
pub(super) struct Transmitter {
    socket: Arc<PacketSocket>,
    /// The socket for frames that the kernel segments.
    handing_on: Option<Arc<PacketSocket>>,
    /// That socket had no room at the last attempt.
    is_congested: bool,
    /// Its error, not yet reported.
    failure: Option<Error>,
    ring: TxRing,
    /// The CPU of the last call that sent slots.
    cpu: u32,
    /// The CPUs from which frames must be sent to leave by the queue.
    home: Option<Home>,
    /// There are several TX queues: packets sent from different CPUs can overtake each other.
    has_lanes: bool,
    limits: FrameLimits,
    pool: Pool,
    counters: Arc<TxCounters>,
    /// Frames that the kernel refuses, in the ring and past it.
    refused: [RefusedFrame; 2],
    /// Address of the last frame that was refused past the ring.
    past: usize,
    /// Queries the port's frames in flight after a refusal.
    inquiry: Inquiry,
    /// The slots in use, for other threads; written once per batch.
    pending: Arc<AtomicU32>,
    interface: Arc<str>,
    /// Assigns the port's TX queues while one of its ends exists.
    pub(super) assignment: Option<Arc<Assignment>>,
}

impl Transmitter {
    /// Sets up a ring on an unbound socket, and binds the socket for transmitting only. Also binds
    /// the second socket, for frames that the kernel segments.
    ///
    /// # Errors
    /// The kernel has no memory, or the interface was removed.
    pub(super) fn new(
        (socket, handing_on): TxSockets,
        inquiry: Inquiry,
        device: &Device,
        counters: Arc<TxCounters>,
    ) -> Result<Self> {
        let (limits, bypass) = (FrameLimits::of(device), inquiry.bypass());
        let os = |error| Error::os(device.name.as_str(), error);
        let is_copying = device.hardware.as_deref().is_some_and(|driver| COPYING.contains(&driver));
        let longest = limits.most + 2 * VLAN_TAG;
        let ring = TxRing::new(&socket, &device.name, longest, is_copying)?;
        if bypass {
            socket.set_qdisc_bypass(true).map_err(os)?;
        }
        socket.bind(device.index, 0).map_err(os)?;
        let (mut frames, mut longest) = (FRAMES, longest);
        if let Some(socket) = &handing_on {
            socket.set_vnet_hdr(true).map_err(os)?;
            if bypass {
                socket.set_qdisc_bypass(true).map_err(os)?;
            }
            // A smaller buffer only causes more waiting.
            let _ = socket.set_send_buffer(LONG_BUFFER);
            socket.bind(device.index, 0).map_err(os)?;
            (frames, longest) = (LONG_FRAMES, LONGEST + ETHERNET_HEADER + 2 * VLAN_TAG);
        }
        // Chunks of a region have at least 2048 bytes, however small the MTU is.
        let chunk_size = (longest as u32 + HEADROOM).next_multiple_of(2048).min(1 << 17);
        let budget = Allotment::of_rest().part(4);
        let frames = budget.fit(frames, LEAST_FRAMES, |n| Region::bytes_for(n, chunk_size));
        let numa_node = device.numa_node();
        let region = Region::new(Region::bytes_for(frames, chunk_size), numa_node)?;
        let config = PoolConfig { chunks: frames, chunk_size, headroom: HEADROOM, numa_node };
        let pool = Pool::in_region(&region, config)?;
        Ok(Self {
            socket,
            handing_on,
            is_congested: false,
            failure: None,
            ring,
            cpu: affinity::current_cpu(),
            home: None,
            has_lanes: device.tx_queues > 1,
            limits,
            pool,
            counters,
            refused: [RefusedFrame::new(), RefusedFrame::new()],
            past: 0,
            inquiry,
            pending: Arc::default(),
            interface: device.name.as_str().into(),
            assignment: None,
        })
    }

    pub(super) fn gauge(&self) -> TxGauge {
        let pending = Arc::clone(&self.pending);
        TxGauge { slots: self.ring.slots(), pending, pool: self.pool.gauge() }
    }

    /// Reads the MTU, unless packets are waiting for the kernel: with the header, the kernel does
    /// not compare lengths.
    #[inline]
    fn follow_mtu(&mut self) {
        if self.ring.has_vnet_header() && !self.ring.is_unsent() {
            self.counters.system_calls.add(1);
            // Sending reports a removed interface.
            if let Ok(mtu) = self.socket.mtu(&self.interface) {
                self.limits.follow(mtu);
            }
        }
    }

    /// Takes back the slots whose packets were sent, and counts them.
    fn reclaim(&mut self) {
        let (packets, bytes) = self.ring.reclaim();
        if packets > 0 {
            self.counters.packets.add(packets);
            self.counters.bytes.add(bytes);
        }
        self.publish();
    }

    /// Publishes the number of slots in use to other threads.
    #[inline(always)]
    fn publish(&self) {
        self.pending.store(self.ring.used(), Ordering::Relaxed);
    }

    fn sockets(&self) -> [Option<&PacketSocket>; 2] {
        [Some(&*self.socket), self.handing_on.as_deref()]
    }

    /// Whether a frame sent now could overtake frames sent from another CPU that have not left yet.
    #[inline]
    fn would_overtake(&mut self) -> bool {
        let cpu = affinity::current_cpu();
        if !self.has_lanes || cpu == self.cpu {
            return false;
        }
        self.counters.system_calls.add(1 + u64::from(self.handing_on.is_some()));
        // Sending reports a removed interface.
        let waits = |socket: &PacketSocket| socket.outstanding().is_ok_and(|bytes| bytes > 0);
        let waits = self.sockets().into_iter().flatten().any(waits);
        if !waits {
            self.cpu = cpu;
        }
        waits
    }

    /// Moves the thread to a CPU from which the queue's frames are sent. Frames sent while it is
    /// elsewhere have strayed: see [`Transmitter::note_strayed`].
    #[inline]
    fn go_home(&mut self) {
        let Some(home) = &mut self.home else { return };
        let strayed = home.look();
        if strayed > 0 {
            self.counters.strayed.add(strayed);
        }
        if !home.is_here() {
            home.go();
        }
    }

    /// Counts frames handed to the kernel since [`Transmitter::go_home`] as strayed, unless the
    /// thread was home before (`was_home`) and after the call.
    #[inline]
    fn note_strayed(&mut self, frames: u64, was_home: bool) {
        let Some(home) = &mut self.home else { return };
        if was_home && home.is_here() {
            home.handed += frames;
        } else {
            self.counters.strayed.add(frames);
        }
    }

    /// Whether the thread is on a CPU from which the queue's frames are sent.
    #[inline]
    fn is_home(&self) -> bool {
        self.home.as_ref().is_none_or(Home::is_here)
    }

    /// Hands all pending slots to the kernel, unless they would overtake earlier packets: then a
    /// later call does.
    fn send(&mut self) -> Result<()> {
        while self.ring.is_unsent() {
            self.go_home();
            if self.would_overtake() {
                break;
            }
            self.counters.system_calls.add(1);
            let (frames, was_home) = (self.ring.unsent(), self.is_home());
            let sent = self.socket.send_pending();
            self.note_strayed(frames.into(), was_home);
            if sent.is_ok() && self.refused[RING].is_open() {
                self.refused[RING].end(clock::monotonic_ns());
            }
            let may_go_later = self.may_go_later(&sent);
            self.ring.look_whether_sent();
            let Err(error) = sent else { break };
            if may_go_later {
                if !self.is_head_refused_for_good(&error) {
                    break;
                }
                self.reclaim();
                self.ring.remove_head();
            } else {
                self.reclaim();
                if !self.ring.remove_wrong() {
                    return Err(failed(&self.interface, "sendto", error));
                }
                self.refused[RING].forget();
            }
            self.counters.refuse(&error);
        }
        Ok(())
    }

    /// Whether the kernel has refused the first frame in the ring long enough to give it up.
    #[cold]
    fn is_head_refused_for_good(&mut self, error: &std::io::Error) -> bool {
        let Some(head) = self.ring.head().filter(|_| is_refusal(error)) else { return false };
        self.is_refused_for_good(RING, head)
    }

    /// The same for a frame past the ring. These frames share one place, so a different address
    /// means a different frame: the caller may have dropped the earlier batch.
    #[cold]
    fn is_past_refused_for_good(&mut self, frame: &Frame, error: &std::io::Error) -> bool {
        if !is_refusal(error) {
            return false;
        }
        let at = frame.data().as_ptr().addr();
        if at != std::mem::replace(&mut self.past, at) {
            self.refused[PAST].forget();
        }
        self.is_refused_for_good(PAST, 0)
    }

    #[cold]
    fn is_refused_for_good(&mut self, way: usize, place: u32) -> bool {
        let Self { socket, handing_on, interface, inquiry, refused, .. } = self;
        let own = [Some(&**socket), handing_on.as_deref()];
        let now = clock::monotonic_ns();
        refused[way].is_for_good(place, now, || inquiry.ask(own, interface))
    }

    /// Whether refused frames stay for a later attempt: the device's queue is full, or the
    /// interface is down and may return.
    fn may_go_later<T>(&self, sent: &std::io::Result<T>) -> bool {
        let Err(error) = sent else {
            self.counters.hold(None);
            return true;
        };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN | Errno::INTR) => true,
            Some(Errno::NETDOWN) => {
                self.counters.hold(Some(error));
                true
            }
            Some(Errno::NXIO) => {
                self.counters.hold(Some(error));
                false
            }
            _ => false,
        }
    }
}

/// The error of a call that failed for the whole ring.
fn failed(interface: &str, call: &'static str, error: std::io::Error) -> Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // packet_notifier() takes the interface from the socket, and tpacket_snd() misses it.
        Some(Errno::NXIO) => removed(interface),
        _ => Error::io(interface, call, error),
    }
}

impl Transmitter {
    /// Hands a frame to the kernel for segmentation, after the frames in the ring. False if there
    /// is no room now.
    fn hand_on(&mut self, frame: &Frame, offload: &Offload) -> bool {
        // The ring reports its own errors.
        if self.send().is_err() || self.ring.is_unsent() {
            return false;
        }
        self.go_home();
        if self.would_overtake() {
            self.is_congested = true;
            return false;
        }
        let longest = LONGEST + ETHERNET_HEADER + 2 * VLAN_TAG;
        let fits = (self.limits.least..=longest).contains(&frame.len());
        let Some(socket) = self.handing_on.as_ref().filter(|_| fits) else {
            self.counters.of_wrong_length(1);
            self.refused[PAST].forget();
            return true;
        };
        self.counters.system_calls.add(1);
        let was_home = self.is_home();
        let sent = socket.send_with_header(&offload.virtio_of(frame.data()), frame.data());
        let may_go_later = self.may_go_later(&sent);
        let Err(error) = sent else {
            self.counters.packets.add(1);
            self.counters.bytes.add(frame.len() as u64);
            self.note_strayed(1, was_home);
            if self.refused[PAST].is_open() {
                self.refused[PAST].end(clock::monotonic_ns());
            }
            return true;
        };
        let is_given_up = self.is_past_refused_for_good(frame, &error);
        if may_go_later && !is_given_up {
            self.is_congested = true;
            return false;
        }
        self.counters.refuse(&error);
        self.refused[PAST].forget();
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // The frame does not match its offload.
            Some(Errno::INVAL | Errno::MSGSIZE) => {}
            _ if is_given_up => {}
            _ => self.failure = Some(failed(&self.interface, "sendmsg", error)),
        }
        true
    }
}

impl Transmit for Transmitter {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if (self.ring.free() as usize) < batch.len() {
            self.reclaim();
        }
        if !batch.is_empty() {
            self.follow_mtu();
        }
        let (mut taken, mut strange) = (0, 0);
        for frame in batch.iter() {
            let offload = frame.offload();
            let place = offload.and_then(|offload| offload.checksum);
            if place.is_some_and(|place| !place.is_inside(frame.len())) {
                self.counters.unfinished.add(1);
                self.counters.errors.add(1);
            } else if let Some(offload) = offload.filter(|offload| offload.gso != Gso::None) {
                if !self.hand_on(frame, &offload) {
                    break;
                }
            } else if !self.limits.allow(frame.data()) {
                strange += 1;
            } else if self.ring.free() > 0 {
                self.ring.put(frame.data(), place);
            } else {
                break;
            }
            taken += 1;
        }
        if strange > 0 {
            self.counters.of_wrong_length(strange);
        }
        batch.release_first(taken);
        self.publish();
        taken
    }

    fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        if self.ring.free() == 0 {
            self.reclaim();
        }
        self.follow_mtu();
        let mut placed = 0;
        while self.ring.free() > 0
            && let Some(length) = write(self.ring.room())
        {
            placed += 1;
            let limits = self.limits;
            if self.ring.room().get(..length).is_some_and(|packet| limits.allow(packet)) {
                self.ring.commit(length);
            } else {
                self.counters.of_wrong_length(1);
            }
        }
        self.publish();
        Some(placed)
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn bind(&mut self, place: XpsBinding) {
        self.home = Some(Home::new(place));
    }

    fn flush(&mut self) -> Result<()> {
        let sent = self.send();
        self.reclaim();
        // Takes no frames; it updates the pool's gauge, as frames may have been returned.
        self.pool.take(&mut Batch::new(0), 0);
        sent?;
        self.failure.take().map_or(Ok(()), Err)
    }

    fn pending(&self) -> usize {
        self.ring.used() as usize
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.flush()?;
        let is_congested = std::mem::take(&mut self.is_congested);
        if self.ring.free() > 0 && !is_congested {
            return Ok(());
        }
        self.counters.system_calls.add(1);
        if self.ring.is_unsent() || is_congested {
            // No event reports that a full device has room again, or that a link is up.
            let is_down = self.counters.held_errno.value() != 0;
            thread::sleep(if is_down { timeout } else { timeout.min(CONGESTED) });
            return self.flush();
        }
        let waited = self.socket.wait_writable(Some(timeout));
        waited.map_err(|error| Error::os(self.interface.as_ref(), error))?;
        self.reclaim();
        Ok(())
    }
}
