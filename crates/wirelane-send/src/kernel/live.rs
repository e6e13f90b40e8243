//! A sender of given frames inside the kernel: the load for benchmarks.
//!
//! Sockets in copy mode send more slowly than the receivers under test. Here the kernel allocates
//! the frames and runs an XDP program on them (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18). The
//! program redirects each frame out of the interface. One system call sends thousands of frames.
//!
//! ```text
//!   template ─▶ page pool ─▶ program: next template, count, redirect
//!            ─▶ ndo_xdp_xmit ─▶ cable ─▶ peer's NAPI
//! ```
//!
//! Properties and limits:
//!
//! * The interface must transmit redirected frames (`ndo_xdp_xmit`). A veth does if its *peer* runs
//!   NAPI: the peer is up, and has an XDP program in native mode, or GRO on (`ethtool -K PEER gro
//!   on`, enough for a receiver in generic mode). Otherwise the veth drops every frame.
//! * [`LiveSent::frames`] counts redirected frames. The statistics `tx_dropped` and `rx_dropped` of
//!   the interfaces count drops of the interface and its peer.
//! * A veth delivers to the receive queue *CPU of the sender* modulo *receive queues of the peer*
//!   (`veth_select_rxq`), independently of the frame's content. To reach several queues, use a
//!   sender per CPU.
//! * The receiver's NAPI runs on the sender's CPU, between two batches, until the receiving program
//!   takes over. With one more CPU, that program has a CPU to itself.
//! * All frames have the same length, and fit into a page with the kernel's bookkeeping: about
//!   3,500 bytes of 4,096.
//! * It needs CAP_BPF and CAP_NET_ADMIN. Without CAP_SYS_ADMIN, each system call takes about 20 ms
//!   longer (see `Anchor`), so that even a low rate leaves in large bursts.
//!
//! A system call costs about 12 µs. A frame costs 150 ns, including an `XDP_DROP` at the other end
//! of a veth.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane_os::bpf::{
    Alu, AsmError, Assembler, Cond, Insn, Load, Map, MapKind, Program, ProgramType, Reg, Size,
    XdpAction, missing_capabilities,
};
use wirelane_os::clock::{self, CpuTime};
use wirelane_os::{OsError, affinity, iface};

use super::anchor::Anchor;
use super::probe::is_sound;
use wirelane::error::{Error, Result};

/// Bytes of a timestamp, see [`LiveSender::stamping`].
pub const STAMP_BYTES: usize = 8;

/// How much to send, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub struct LivePace {
    /// Frames to send; until stopped if `None`.
    pub count: Option<u64>,
    /// Frames per second, on average over a millisecond or a frame, whichever is longer; as fast as
    /// possible if `None`. After a delay, at most ten milliseconds' worth of frames is made up.
    pub rate: Option<u64>,
    /// The CPU to send from. It determines the receive queue at the other end of a veth.
    pub cpu: Option<u32>,
}

/// The result of a [`LiveSender`].
#[derive(Clone, Copy, Debug)]
pub struct LiveSent {
    /// Frames redirected to the interface.
    pub frames: u64,
    /// From the start to the end of the last system call.
    pub elapsed: Duration,
    /// CPU time of the sending thread, including the receiver's NAPI while it ran in this thread.
    pub cpu: CpuTime,
}

/// A sender with a loaded program.
#[derive(Debug)]
pub struct LiveSender {
    program: Program,
    /// The program reads this map.
    _words: Option<Map>,
    /// `None` without CAP_SYS_ADMIN: every system call then takes about 20 ms longer.
    _anchor: Option<Anchor>,
    counter: Map,
    template: Vec<u8>,
    interface: String,
    sent: u64,
}

impl LiveSender {
    /// Prepares to send `frames` in turn through the interface, in the network namespace of the
    /// calling thread. They are complete Ethernet frames without frame check sequence.
    ///
    /// # Errors
    /// The interface does not exist, or its driver would crash the kernel; `frames` is empty; the
    /// frames are shorter than 14 bytes, longer than the MTU allows, or of different lengths;
    /// capabilities are missing; the kernel rejects the program or a map.
    pub fn new<F: AsRef<[u8]>>(interface: &str, frames: &[F]) -> Result<Self> {
        Self::with(interface, frames, false)
    }

    /// The same, but the program writes the current time into the last [`STAMP_BYTES`] of each
    /// frame: nanoseconds of the monotonic clock, in native byte order.
    ///
    /// # Errors
    /// As for [`LiveSender::new`].
    pub fn stamping<F: AsRef<[u8]>>(interface: &str, frames: &[F]) -> Result<Self> {
        Self::with(interface, frames, true)
    }

    fn with<F: AsRef<[u8]>>(interface: &str, frames: &[F], stamp: bool) -> Result<Self> {
        let failed = |error| refused(interface, error);
        let ifindex = iface::index(interface).map_err(failed)?;
        is_sound(interface).map_err(|refusal| Error::failed(interface, refusal.to_string()))?;
        let mtu = iface::mtu(interface).map_err(failed)? as usize;
        let template = frames.first().map(|frame| frame.as_ref().to_vec()).unwrap_or_default();
        // A frame may carry one VLAN tag more than the MTU says (xdp_ok_fwd_dev).
        let least = if stamp { ETHERNET + STAMP_BYTES } else { ETHERNET };
        if template.len() < least || template.len() > mtu + ETHERNET + VLAN {
            let cause = format!(
                "cannot send a frame of {} bytes: it must have {least} to {}",
                template.len(),
                mtu + ETHERNET + VLAN
            );
            return Err(Error::usage(interface, cause));
        }
        if frames.iter().any(|frame| frame.as_ref().len() != template.len()) {
            return Err(Error::usage(interface, "the frames to send are of different lengths"));
        }
        let differing = differing_words(frames);
        let counter = Map::create(MapKind::Array, "wl_sent", 8, 1).map_err(failed)?;
        let words = word_map(frames, &differing).map_err(failed)?;
        let insns = assemble(&LiveParameters {
            ifindex,
            counter: &counter,
            length: template.len() as i32,
            frames: frames.len() as i32,
            words: words.as_ref().map(|map| (map, differing.as_slice())),
            stamp,
        })
        .map_err(|error| Error::failed(interface, error.to_string()))?;
        let program = Program::load(&Load::new(ProgramType::Xdp, "wl_send", &insns))
            .map_err(|error| refused(interface, error.into()))?;
        let interface = interface.to_owned();
        let _anchor = Anchor::of(&program).ok();
        Ok(Self { program, _words: words, _anchor, counter, template, interface, sent: 0 })
    }

    /// Sends `frames` frames on the calling thread, which must be in the network namespace of the
    /// interface.
    ///
    /// # Errors
    /// The frames are too long for a page, or the kernel is older than 5.18.
    pub fn send(&mut self, frames: u32) -> Result<()> {
        let mut left = frames;
        while left > 0 {
            match self.program.live_frames(&self.template, None, left, BATCH) {
                Ok(()) => left = 0,
                // A signal ended the call early. The program has counted its frames.
                Err(error) if error.errno() == Some(Errno::INTR.raw_os_error()) => {
                    let before = self.sent;
                    self.count()?;
                    let done = u32::try_from(self.sent - before).unwrap_or(u32::MAX);
                    left = left.saturating_sub(done);
                }
                Err(error) => return Err(not_sent(&self.interface, error)),
            }
        }
        self.count()
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Starts a thread that sends. The thread runs in the network namespace of the calling thread,
    /// and ends after [`LivePace::count`] frames.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self, pace: LivePace) -> Result<RunningSender> {
        let shared = Arc::new(LiveProgress::default());
        let interface = self.interface.clone();
        let thread = thread::Builder::new()
            .name("wl-live".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || self.run(pace, &shared)
            })
            .map_err(|error| Error::io(interface, "clone", error))?;
        Ok(RunningSender { shared, thread: Some(thread) })
    }

    fn run(mut self, pace: LivePace, shared: &LiveProgress) -> Result<LiveSent> {
        if let Some(cpu) = pace.cpu {
            affinity::pin(cpu).map_err(|error| Error::os(self.interface.as_str(), error))?;
        }
        let cpu = clock::thread_cpu();
        let before = self.sent;
        let count = pace.count.unwrap_or(u64::MAX);
        let mut schedule = pace.rate.map(|rate| LiveSchedule::new(rate, Instant::now()));
        let start = Instant::now();
        let mut last = start;
        while !shared.stop.load(Ordering::Relaxed) {
            let left = count - (self.sent - before).min(count);
            if left == 0 {
                break;
            }
            let due = match &mut schedule {
                None => u64::from(RUN),
                Some(schedule) => match schedule.due(Instant::now()) {
                    Ok(due) => due,
                    Err(wait) => {
                        thread::sleep(wait.min(Duration::from_millis(50)));
                        continue;
                    }
                },
            };
            self.send(due.min(left).min(u64::from(RUN)) as u32)?;
            last = Instant::now();
            shared.sent.store(self.sent - before, Ordering::Relaxed);
        }
        let cpu = clock::thread_cpu().since(cpu);
        Ok(LiveSent { frames: self.sent - before, elapsed: last - start, cpu })
    }

    fn count(&mut self) -> Result<()> {
        let value = self.counter.lookup(0);
        let value = value.map_err(|error| Error::os(self.interface.as_str(), error))?;
        self.sent = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(())
    }
}

/// A running sender. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub struct RunningSender {
    shared: Arc<LiveProgress>,
    thread: Option<JoinHandle<Result<LiveSent>>>,
}

impl RunningSender {
    /// Frames sent so far, updated after each system call.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Whether the thread has ended, after its last frame or with an error.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread within about 50 ms, and returns its result.
    ///
    /// # Errors
    /// An error of the sending thread.
    pub fn stop(mut self) -> Result<LiveSent> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until the thread has sent [`LivePace::count`] frames, and returns its result.
    ///
    /// # Errors
    /// As [`RunningSender::stop`].
    pub fn wait(mut self) -> Result<LiveSent> {
        self.join()
    }

    fn join(&mut self) -> Result<LiveSent> {
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = || Error::failed("live sender", "its thread panicked");
        ended.and_then(|ended| ended.ok()).ok_or_else(panicked)?
    }
}

impl Drop for RunningSender {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct LiveProgress {
    stop: AtomicBool,
    sent: AtomicU64,
}

/// The number of frames that are due over time.
#[derive(Debug)]
struct LiveSchedule {
    rate: u64,
    start: Instant,
    /// Frames granted since `start`.
    granted: u64,
}

impl LiveSchedule {
    fn new(rate: u64, start: Instant) -> Self {
        Self { rate: rate.max(1), start, granted: 0 }
    }

    /// The number of frames that are due now, or how long to wait for them.
    fn due(&mut self, now: Instant) -> std::result::Result<u64, Duration> {
        let elapsed = now.saturating_duration_since(self.start).as_nanos();
        let target = elapsed * u128::from(self.rate) / 1_000_000_000;
        let target = u64::try_from(target).unwrap_or(u64::MAX);
        // Half a millisecond's worth of frames: a call also sends the frames that became due during
        // the wait.
        let burst = (self.rate / 2_000).max(1);
        let due = target.saturating_sub(self.granted);
        if due < burst {
            let missing = u128::from(burst - due) * 1_000_000_000 / u128::from(self.rate);
            return Err(Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX).max(1)));
        }
        self.granted = target;
        Ok(due.min((self.rate / 100).max(1)))
    }
}

/// Offsets of the 4-byte words in which the frames differ. The last word may overlap the one before
/// it, as the length need not be a multiple of 4.
fn differing_words<F: AsRef<[u8]>>(frames: &[F]) -> Vec<usize> {
    let Some((first, rest)) = frames.split_first() else { return Vec::new() };
    let first = first.as_ref();
    let last = first.len().saturating_sub(4);
    let word = |frame: &[u8], at: usize| frame.get(at..at + 4).map(<[u8]>::to_vec);
    let places = (0..first.len()).step_by(4).map(|at| at.min(last));
    places
        .filter(|at| rest.iter().any(|frame| word(frame.as_ref(), *at) != word(first, *at)))
        .collect()
}

/// The differing words of each frame, one entry per frame.
fn word_map<F: AsRef<[u8]>>(
    frames: &[F],
    differing: &[usize],
) -> std::result::Result<Option<Map>, OsError> {
    if differing.is_empty() {
        return Ok(None);
    }
    let entries = u32::try_from(frames.len()).unwrap_or(u32::MAX);
    let map = Map::create(MapKind::Array, "wl_words", 4 * differing.len() as u32, entries)?;
    for (index, frame) in (0..).zip(frames) {
        let words = differing.iter().filter_map(|at| frame.as_ref().get(*at..*at + 4));
        map.update(index, &words.collect::<Vec<_>>().concat())?;
    }
    Ok(Some(map))
}

/// The parameters of the program.
struct LiveParameters<'a> {
    ifindex: u32,
    counter: &'a Map,
    length: i32,
    frames: i32,
    /// Words that differ from frame to frame, and their offsets.
    words: Option<(&'a Map, &'a [usize])>,
    /// Whether the program writes the time into each frame.
    stamp: bool,
}

fn assemble(parts: &LiveParameters<'_>) -> std::result::Result<Vec<Insn>, AsmError> {
    const CONTEXT: Reg = Reg::R6;
    const INDEX: Reg = Reg::R7;
    let mut asm = Assembler::new();
    let failed = asm.label();
    let lookup = |asm: &mut Assembler, map: &Map| {
        asm.extend(Insn::load_map(Reg::R1, map.as_fd().as_raw_fd()));
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
        asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
        asm.emit(Insn::call(MAP_LOOKUP_ELEM));
        asm.jump_if(Cond::Eq, Reg::R0, 0, failed);
    };
    asm.emit(Insn::mov_reg(CONTEXT, Reg::R1));
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    lookup(&mut asm, parts.counter);
    asm.emit(Insn::load(Size::Double, INDEX, Reg::R0, 0));
    asm.emit(Insn::mov_reg(Reg::R1, INDEX));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    // Checks the length of a frame, and leaves the address of its start in R2.
    let reach = |asm: &mut Assembler| {
        asm.emit(Insn::load(Size::Word, Reg::R2, CONTEXT, XDP_MD_DATA));
        asm.emit(Insn::load(Size::Word, Reg::R3, CONTEXT, XDP_MD_DATA_END));
        asm.emit(Insn::mov_reg(Reg::R4, Reg::R2));
        asm.emit(Insn::alu64(Alu::Add, Reg::R4, parts.length));
        asm.jump_if_reg(Cond::Gt, Reg::R4, Reg::R3, failed);
    };
    if let Some((map, places)) = parts.words {
        asm.emit(Insn::alu64(Alu::Mod, INDEX, parts.frames));
        asm.emit(Insn::store(Size::Word, Reg::R10, -4, INDEX));
        lookup(&mut asm, map);
        reach(&mut asm);
        for (index, place) in places.iter().enumerate() {
            // Both are below the length of a frame, which is below a page.
            asm.emit(Insn::load(Size::Word, Reg::R1, Reg::R0, 4 * index as i16));
            asm.emit(Insn::store(Size::Word, Reg::R2, *place as i16, Reg::R1));
        }
    }
    if parts.stamp {
        asm.emit(Insn::call(KTIME_GET_NS));
        reach(&mut asm);
        // The length of a frame is below a page.
        let place = parts.length as i16 - STAMP_BYTES as i16;
        asm.emit(Insn::store(Size::Double, Reg::R2, place, Reg::R0));
    }
    asm.emit(Insn::mov(Reg::R1, parts.ifindex as i32));
    asm.emit(Insn::mov(Reg::R2, 0));
    asm.emit(Insn::call(REDIRECT));
    asm.emit(Insn::exit());
    asm.place(failed);
    asm.emit(Insn::mov(Reg::R0, XdpAction::Aborted as i32));
    asm.emit(Insn::exit());
    asm.finish()
}

pub(super) fn refused(interface: &str, error: OsError) -> Error {
    let missing = missing_capabilities();
    if error.errno() != Some(Errno::PERM.raw_os_error()) || missing.is_empty() {
        return Error::os(interface, error);
    }
    let names = missing.iter().map(|capability| capability.name()).collect::<Vec<_>>();
    Error::failed(interface, format!("sending from the kernel needs {}", names.join(" and ")))
        .help("run as root")
        .caused_by(error)
}

pub(super) fn not_sent(interface: &str, error: OsError) -> Error {
    let invalid = error.errno() == Some(Errno::INVAL.raw_os_error());
    let error = Error::os(interface, error);
    if invalid {
        return error.help("it takes Linux 5.18, and frames of no more than about 3500 bytes");
    }
    error
}

/// The most frames per system call. A call takes about 10 to 50 ms; the thread checks for a stop
/// request between calls.
const RUN: u32 = 1 << 16;
/// Frames between two flushes. The ring of a veth has 256 slots, and is drained after each batch.
const BATCH: u32 = 64;
/// Length of an Ethernet header.
const ETHERNET: usize = 14;
/// Length of a VLAN tag.
const VLAN: usize = 4;

// Offsets in `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
// `enum bpf_func_id`.
const MAP_LOOKUP_ELEM: i32 = 1;
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
