//! Masks, start and stop of a packet port, from any thread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wirelane_os::clock;
use wirelane_os::packet::{PacketSocket, SockFilter};

use super::fanout::{FanoutGroup, note};
use super::membership::Membership;
use super::parallel::in_parallel;
use super::ring::{self, PacketRing};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::inspect;
use crate::mask::{Class, QueueMask, QueueSet};
use crate::port::accounting::FrameCounts;
use crate::port::control::{Control, Driver, Passed};
use crate::port::device::Device;
use crate::port::spec::Spec;
use crate::port::steering::selection::{self, REJECT_ALL};
use crate::stats::RxCounters;
use crate::sync::lock;

/// The binding of one receiving socket, read back from the kernel. The 2010 paper on multiqueue
/// sockets proposed this query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The class of the packets that it receives.
    pub class: Class,
    /// Their queue; meaningless for [`Class::Other`].
    pub queue: u16,
    /// Index of the interface in the kernel; `None` after the interface was removed.
    pub interface_index: Option<u32>,
    /// Whether its program is attached: the port is started and the mask selects the socket.
    pub selected: bool,
}

/// The port's state for its receivers, and their diagnostics.
#[derive(Default)]
pub(super) struct PortProgress {
    /// Monotonic time of the stop; 0 before it.
    stopped_at: AtomicU64,
    /// Monotonic time at which a ring last had packets; the start counts, too.
    active_at: AtomicU64,
    notes: Mutex<Vec<String>>,
    /// How often a ring saw the interface go down, or return after its removal: the maximum of all
    /// rings.
    downs: AtomicU64,
    returns: AtomicU64,
}

impl PortProgress {
    /// The time at which the port stopped; `None` while it receives.
    pub(super) fn stopped_at(&self) -> Option<u64> {
        Some(self.stopped_at.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    /// Records that a ring had packets at this time.
    pub(super) fn be_active(&self, now: u64) {
        self.active_at.fetch_max(now, Ordering::Relaxed);
    }

    /// For how many nanoseconds no ring has had packets.
    pub(super) fn idle_since(&self, now: u64) -> u64 {
        now.saturating_sub(self.active_at.load(Ordering::Relaxed))
    }

    pub(super) fn stop(&self) {
        self.stopped_at.store(clock::monotonic_ns().max(1), Ordering::Release);
    }

    /// Keeps a diagnostic for the report.
    pub(super) fn note(&self, note: String) {
        lock(&self.notes).push(note);
    }

    /// Records how often an ended ring saw the interface go down, or return after its removal.
    pub(super) fn saw(&self, downs: u64, returns: u64) {
        self.downs.fetch_max(downs, Ordering::Relaxed);
        self.returns.fetch_max(returns, Ordering::Relaxed);
    }

    /// The diagnostics, with one note about `interface` instead of one per ring.
    pub(super) fn notes(&self, interface: &str) -> Vec<String> {
        let mut notes = lock(&self.notes).clone();
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let downs = self.downs.load(Ordering::Relaxed);
        if downs > 0 {
            let downs = times(downs);
            notes.push(format!("{interface} went down {downs}; no packets arrived meanwhile"));
        }
        let returns = self.returns.load(Ordering::Relaxed);
        if returns > 0 {
            let returns = times(returns);
            notes.push(format!(
                "{interface} was removed and came back {returns}; packets that passed before \
                 this was noticed are missing"
            ));
        }
        notes
    }
}

/// The port's rings and the state of their programs.
pub(super) struct PacketControl {
    pub(super) rings: Vec<PacketRing>,
    /// One per ring.
    counters: Vec<Arc<RxCounters>>,
    pub(super) progress: Arc<PortProgress>,
    pub(super) spec: Spec,
    pub(super) device: Device,
    pub(super) snaplen: u32,
    /// Sharing with other ports; the port then has one ring.
    shared: Option<Membership>,
    /// How many rings to close at a time.
    pub(super) at_once: usize,
    fanout: FanoutGroup,
    state: Mutex<RingPrograms>,
}

struct RingPrograms {
    mask: QueueMask,
    /// Appended to the selection in the program of every ring.
    filter: Option<Vec<SockFilter>>,
    phase: PacketPhase,
    /// Per ring: whether its selecting program is attached instead of the rejecting one. With a
    /// counting fanout program, every ring has its selecting program, and this is the ring's switch
    /// there.
    open: Vec<bool>,
    /// A socket that only stays open: see [`PacketControl::stop`]. It also keeps promiscuous mode
    /// on, which the kernel ends when the socket is closed.
    spare: Option<PacketSocket>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketPhase {
    Opened,
    Started,
    Stopped,
}

impl PacketControl {
    pub(super) fn new(
        (rings, fanout): (Vec<PacketRing>, FanoutGroup),
        counters: Vec<Arc<RxCounters>>,
        (spec, device, shared): (Spec, Device, Option<Membership>),
        mask: QueueMask,
        snaplen: u32,
        spare: PacketSocket,
    ) -> Self {
        let open = vec![false; rings.len()];
        let state = RingPrograms {
            mask,
            filter: None,
            phase: PacketPhase::Opened,
            open,
            spare: Some(spare),
        };
        let (progress, state) = (Arc::default(), Mutex::new(state));
        let at_once = usize::MAX;
        Self { rings, counters, progress, spec, device, snaplen, shared, at_once, fanout, state }
    }

    /// The binding of each socket, and whether it takes packets.
    pub(super) fn bindings(&self) -> Result<Vec<Binding>> {
        let state = lock(&self.state);
        let binding = |(ring, open): (&PacketRing, &bool)| {
            let address = ring.socket().local_address();
            let address = address.map_err(|error| Error::os(self.device.name.as_str(), error))?;
            Ok(Binding {
                class: ring.selection.class,
                queue: ring.selection.queue,
                interface_index: u32::try_from(address.ifindex).ok(),
                selected: *open,
            })
        };
        self.rings.iter().zip(&state.open).map(binding).collect()
    }

    /// Blocks by owner.
    pub(super) fn frames(&self) -> FrameCounts {
        count_blocks(&self.rings)
    }

    /// Per ring, whether the mask selects it or a part of its packets.
    fn wanted(&self, mask: &QueueMask) -> Vec<bool> {
        if self.shared.is_some() {
            return self.rings.iter().map(|_| true).collect();
        }
        let selects = |ring: &PacketRing| {
            let selection = &ring.selection;
            self.device.selects(mask, selection.class, selection.queue)
        };
        self.rings.iter().map(selects).collect()
    }

    /// Opens and closes the rings that `mask` changes; without a fanout program, by replacing their
    /// programs. If one fails, restores the programs already replaced.
    fn switch(&self, state: &mut RingPrograms, mask: &QueueMask) -> Result<()> {
        let wanted = self.wanted(mask);
        if let Some(program) = self.fanout.program() {
            let open = |(ring, want)| program.set_open(ring, want, want);
            wanted.iter().copied().enumerate().for_each(open);
            state.open = wanted;
            return Ok(());
        }
        for (i, (ring, want)) in self.rings.iter().zip(&wanted).enumerate() {
            if state.open[i] == *want && self.shared.is_none() {
                continue;
            }
            let wanted = want.then_some(mask);
            if let Err(error) = self.attach(ring, wanted, state.filter.as_deref()) {
                for (ring, open) in self.rings.iter().zip(&state.open).take(i) {
                    // Best effort: the first error is the one to report.
                    let before = open.then_some(&state.mask);
                    let _ = self.attach(ring, before, state.filter.as_deref());
                }
                return Err(error);
            }
        }
        state.open = wanted;
        Ok(())
    }

    /// Accepts the packets of `ring` that `mask` selects; none without a mask.
    fn attach(
        &self,
        ring: &PacketRing,
        mask: Option<&QueueMask>,
        filter: Option<&[SockFilter]>,
    ) -> Result<()> {
        let attached = if let Some(mask) = mask {
            let program = match &self.shared {
                Some(shared) => {
                    let takes = |class, queue| self.device.selects(mask, class, queue);
                    shared.program(takes, self.snaplen, filter)
                }
                None => ring.selection.program(self.snaplen, filter),
            };
            selection::check_length(&program, "with the selection of queues")?;
            ring.attach(&program)
        } else {
            ring.attach(&REJECT_ALL)
        };
        attached.map_err(|error| Error::os(self.device.name.as_str(), error))
    }

    /// Reports a changed number of queues since opening.
    fn compare_queues(&self) {
        let name = self.device.name.as_str();
        // Another namespace may have an interface of this name, and the calling thread may be in
        // that namespace.
        let Ok((index, [rx, tx])) = inspect::queue_counts(name) else { return };
        if index != self.device.index {
            return;
        }
        let before = (self.device.rx_queues, self.device.tx_queues);
        let count =
            |count: Option<u32>, or| count.and_then(|n| u16::try_from(n).ok()).unwrap_or(or);
        let after = (count(rx, before.0), count(tx, before.1));
        if before != after {
            self.progress.note(format!(
                "the queues of {name} changed from {} RX and {} TX to {} and {} during the \
                 capture: packets of new RX queues count as OTHER, those of new TX queues are \
                 missing",
                before.0, before.1, after.0, after.1
            ));
        }
    }

    /// Reports a driver that seems not to record the queues of received packets.
    fn hidden_queues(&self) -> Option<String> {
        let device = &self.device;
        let mask = self.mask();
        if device.rx_queues < 2 || self.shared.is_some() || mask.enabled && mask.rx != QueueSet::All
        {
            return None;
        }
        let seen = |class| {
            let of = |counters: &&Arc<RxCounters>| counters.class == class;
            self.counters.iter().filter(of).map(|counters| counters.packets.value()).sum::<u64>()
        };
        let hidden = seen(Class::Rx) == 0 && seen(Class::Other) > 0;
        hidden.then(|| {
            let name = &device.name;
            format!(
                "no received packet was tied to a queue, although {name} has {} RX queues: its \
                 driver hides them, so all count as OTHER",
                device.rx_queues
            )
        })
    }
}

/// The blocks of these rings by owner.
pub(super) fn count_blocks(rings: &[PacketRing]) -> FrameCounts {
    rings.iter().map(|ring| ring.frames()).sum()
}

/// Whether the program may reject packets. A program that first returns a number other than 0
/// accepts all; it may load A before, for a program that reads A.
pub(super) fn may_reject(program: &[SockFilter]) -> bool {
    let first = program.iter().find(|instruction| instruction.code != LOAD);
    !first.is_some_and(|first| first.code == RETURN && first.k > 0)
}

/// `BPF_LD | BPF_IMM` of `linux/bpf_common.h`.
const LOAD: u16 = 0x00;

/// `BPF_RET | BPF_K` of `linux/bpf_common.h`.
const RETURN: u16 = 0x06;

impl Control for PacketControl {
    fn mask(&self) -> QueueMask {
        lock(&self.state).mask.clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.device.check_mask(&self.spec, &mask)?;
        let mut state = lock(&self.state);
        if state.phase == PacketPhase::Started {
            self.switch(&mut state, &mask)?;
        }
        state.mask = mask;
        Ok(())
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let program = match filter {
            Some(filter) => {
                let program = filter.program(self.device.link_type, self.snaplen)?;
                program.note().into_iter().for_each(|note| self.progress.note(note.to_owned()));
                Some(match filter.is_verbatim() {
                    true => program.verbatim(self.snaplen),
                    false => program.for_socket(self.snaplen)?,
                })
            }
            None => None,
        };
        let mut state = lock(&self.state);
        let all = self.fanout.program().is_some() && state.phase == PacketPhase::Started;
        let rings = || self.rings.iter().zip(&state.open).filter(|(_, open)| all || **open);
        for (done, (ring, _)) in rings().enumerate() {
            if let Err(error) = self.attach(ring, Some(&state.mask), program.as_deref()) {
                for (ring, _) in rings().take(done) {
                    // Best effort: the first error is the one to report.
                    let _ = self.attach(ring, Some(&state.mask), state.filter.as_deref());
                }
                return Err(error);
            }
        }
        let is_unseen = |counters: &Arc<RxCounters>| counters.filtered_unseen.value() > 0;
        if program.as_deref().is_some_and(may_reject)
            && let Some(why) = self.fanout.uncounted()
            && !self.counters.iter().any(is_unseen)
        {
            self.counters.iter().for_each(|counters| counters.filtered_unseen.set(1));
            self.progress.note(note(why));
        }
        state.filter = program;
        Ok(())
    }

    fn passed(&self) -> Result<Option<Passed>> {
        let passed = ring::passed(&self.rings);
        passed.map(Some).map_err(|error| Error::os(self.device.name.as_str(), error))
    }

    /// The kernel shows a packet that was sent through a socket of a fanout group to no socket of
    /// that group (`skb_loop_sk`, `match_fanout_group`).
    fn inject(&self, frame: &[u8], wait: bool) -> Option<io::Result<usize>> {
        let socket = self.rings.first()?.socket();
        Some(if wait { socket.send_frame(frame) } else { socket.try_send_frame(frame) })
    }

    fn stop(&self) {
        let mut state = lock(&self.state);
        if state.phase == PacketPhase::Stopped {
            return;
        }
        state.phase = PacketPhase::Stopped;
        self.fanout.shut(&self.rings, state.spare.take());
        state.open.fill(false);
        self.progress.stop();
        drop(state);
        self.compare_queues();
    }
}

impl Driver for PacketControl {
    /// Accepts the packets that the mask selects.
    ///
    /// # Errors
    /// The system refuses a program; then no ring accepts packets.
    fn start(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if state.phase != PacketPhase::Opened {
            return Ok(());
        }
        for ring in &self.rings {
            self.shared.as_ref().map_or(Ok(()), |shared| shared.join(ring.socket()))?;
        }
        let mask = state.mask.clone();
        if self.fanout.program().is_some() {
            let filter = state.filter.as_deref();
            self.rings.iter().try_for_each(|ring| self.attach(ring, Some(&mask), filter))?;
        }
        self.switch(&mut state, &mask)?;
        state.phase = PacketPhase::Started;
        Ok(())
    }

    fn diagnostics(&self) -> Vec<String> {
        let mut notes = self.progress.notes(&self.device.name);
        notes.extend(self.hidden_queues());
        notes
    }
}

impl Drop for PacketControl {
    fn drop(&mut self) {
        type Closing = Mutex<Option<Box<dyn Send>>>;
        let closing = |one: Box<dyn Send>| Closing::new(Some(one));
        let drain = self.fanout.take_drain().map(|drain| closing(Box::new(drain)));
        let rings = std::mem::take(&mut self.rings);
        let rings = rings.into_iter().map(|ring| closing(Box::new(ring)));
        let all: Vec<_> = rings.chain(drain).collect();
        let close = |_, one: &Closing| {
            drop(lock(one).take());
            Ok(())
        };
        // Closing cannot fail.
        let _ = in_parallel(&all, self.at_once, close);
    }
}
