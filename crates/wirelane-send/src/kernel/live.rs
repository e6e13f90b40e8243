//! A sender of given frames inside the kernel: the load of benchmarks.
//!
//! Sockets in copy mode send more slowly than the receivers under test. Here the kernel runs an XDP
//! program on frames that it makes itself (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18), and the
//! program redirects each of them out of the interface. One system call sends thousands.
//!
//! ```text
//!   template ─▶ page pool ─▶ program: next template, count, redirect ─▶ ndo_xdp_xmit ─▶ cable ─▶ peer's NAPI
//! ```
//!
//! What to know about it:
//!
//! * The interface must transmit redirected frames (`ndo_xdp_xmit`). A veth does if its *peer* runs
//!   NAPI: the peer is up, and has an XDP program in native mode, or GRO on (`ethtool -K PEER gro
//!   on`, enough for a receiver in generic mode). Otherwise every frame is dropped, which only the
//!   peer's statistics show.
//! * Drops of the interface or its peer are not seen here either: [`Sent::frames`] counts
//!   redirected frames. The statistics `tx_dropped` and `rx_dropped` of the interfaces have the
//!   drops.
//! * A veth delivers to the receive queue *CPU of the sender* modulo *receive queues of the peer*
//!   (`veth_select_rxq`), whatever is in the frame. A sender per CPU is the way to reach several
//!   queues.
//! * The receiver's NAPI runs on the sender's CPU, between two batches, until its consumer takes
//!   over. With one more CPU the consumer has one to itself.
//! * Frames are all equally long, and fit into a page with their bookkeeping: about 3,500 bytes of
//!   4,096.
//! * It needs CAP_BPF and CAP_NET_ADMIN. Without CAP_SYS_ADMIN, too, each system call takes some 20
//!   ms longer (see `Anchor`): a low rate then comes in large bursts.
//!
//! A call costs about 12 µs, a frame 150 ns up to an `XDP_DROP` at the other end of a veth.

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

/// Bytes of a time stamp, see [`LiveSender::stamping`].
pub const STAMP_BYTES: usize = 8;

/// How much to send, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Frames to send; until stopped if `None`.
    pub count: Option<u64>,
    /// Frames per second, on average over a millisecond or a frame, whichever is longer; as fast as
    /// possible if `None`. What could not be sent in time for more than ten milliseconds is not
    /// made up for.
    pub rate: Option<u64>,
    /// The CPU to send from, which decides about the receive queue at the other end of a veth.
    pub cpu: Option<u32>,
}

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Frames that were given to the interface.
    pub frames: u64,
    /// From the first to the last of them.
    pub elapsed: Duration,
    /// What the sending thread used, the receiving NAPI included as far as it ran on its account.
    pub cpu: CpuTime,
}

/// A sender that is ready.
#[derive(Debug)]
pub struct LiveSender {
    program: Program,
    /// The program looks into it.
    _words: Option<Map>,
    /// `None` without the privilege: then every system call takes some 20 ms longer.
    _anchor: Option<Anchor>,
    counter: Map,
    template: Vec<u8>,
    interface: String,
    sent: u64,
}

impl LiveSender {
    /// Prepares to send `frames` in turn out of the interface, which belongs to the calling
    /// thread's network namespace. They are whole Ethernet frames without frame check sequence.
    ///
    /// # Errors
    /// There is no such interface, or its driver would crash the kernel; no frame, a frame shorter
    /// than 14 bytes or longer than the interface's MTU allows, or frames of different lengths;
    /// capabilities are missing; the kernel refuses.
    pub fn new<F: AsRef<[u8]>>(interface: &str, frames: &[F]) -> Result<Self> {
        Self::with(interface, frames, false)
    }

    /// The same, and the kernel writes the time at which it makes a frame into the last
    /// [`STAMP_BYTES`] of it: nanoseconds of the monotonic clock, in the order of this machine.
    ///
    /// # Errors
    /// As there.
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
        let insns = assemble(&Parts {
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

    /// Sends `frames` frames now, on the calling thread, which must be in the namespace of the
    /// interface.
    ///
    /// # Errors
    /// The frames are too long for a page, or the kernel is older than 5.18.
    pub fn send(&mut self, frames: u32) -> Result<()> {
        let mut left = frames;
        while left > 0 {
            match self.program.live_frames(&self.template, None, left, BATCH) {
                Ok(()) => left = 0,
                // A signal ended it early. The program has counted.
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

    /// Starts a thread that sends. It stays in the calling thread's network namespace, and ends by
    /// itself after [`Pace::count`] frames.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self, pace: Pace) -> Result<Sending> {
        let shared = Arc::new(Shared::default());
        let interface = self.interface.clone();
        let thread = thread::Builder::new()
            .name("wl-live".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || self.run(pace, &shared)
            })
            .map_err(|error| Error::io(interface, "clone", error))?;
        Ok(Sending { shared, thread: Some(thread) })
    }

    fn run(mut self, pace: Pace, shared: &Shared) -> Result<Sent> {
        if let Some(cpu) = pace.cpu {
            affinity::pin(cpu).map_err(|error| Error::os(self.interface.as_str(), error))?;
        }
        let cpu = clock::thread_cpu();
        let before = self.sent;
        let count = pace.count.unwrap_or(u64::MAX);
        let mut schedule = pace.rate.map(|rate| Schedule::new(rate, Instant::now()));
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
        Ok(Sent { frames: self.sent - before, elapsed: last - start, cpu })
    }

    fn count(&mut self) -> Result<()> {
        let value = self.counter.lookup(0);
        let value = value.map_err(|error| Error::os(self.interface.as_str(), error))?;
        self.sent = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(())
    }
}

/// A sender at work. Dropping it stops it and waits for its end.
#[derive(Debug)]
pub struct Sending {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Sent>>>,
}

impl Sending {
    /// Frames sent so far, as of the last system call that ended.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Whether it has come to its end, by its count or an error.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it, within about 50 ms, and says what was sent.
    ///
    /// # Errors
    /// What went wrong while it was sending.
    pub fn stop(mut self) -> Result<Sent> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until it has sent all of [`Pace::count`], and says what was sent.
    ///
    /// # Errors
    /// As [`Sending::stop`].
    pub fn wait(mut self) -> Result<Sent> {
        self.join()
    }

    fn join(&mut self) -> Result<Sent> {
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = || Error::failed("live sender", "its thread panicked");
        ended.and_then(|ended| ended.ok()).ok_or_else(panicked)?
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
}

/// When how many frames are due.
#[derive(Debug)]
struct Schedule {
    rate: u64,
    start: Instant,
    /// Frames granted since `start`.
    granted: u64,
}

impl Schedule {
    fn new(rate: u64, start: Instant) -> Self {
        Self { rate: rate.max(1), start, granted: 0 }
    }

    /// How many frames are due now, or how long to wait until some are.
    fn due(&mut self, now: Instant) -> std::result::Result<u64, Duration> {
        let elapsed = now.saturating_duration_since(self.start).as_nanos();
        let target = elapsed * u128::from(self.rate) / 1_000_000_000;
        let target = u64::try_from(target).unwrap_or(u64::MAX);
        // Half of a millisecond's worth: the other half is what comes while waiting for it.
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

/// Places of the 4-byte words in which not all frames agree. The last one may overlap the one
/// before, as the length need not be a multiple of 4.
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

/// What the program is made of.
struct Parts<'a> {
    ifindex: u32,
    counter: &'a Map,
    length: i32,
    frames: i32,
    /// Words that differ from frame to frame, and their places.
    words: Option<(&'a Map, &'a [usize])>,
    /// Whether each frame gets the time.
    stamp: bool,
}

fn assemble(parts: &Parts<'_>) -> std::result::Result<Vec<Insn>, AsmError> {
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
    // Checks that a frame is as long as it should be, and leaves its place in R2.
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

/// Frames per system call at most: some 10 to 50 ms, after which an order to stop is seen.
const RUN: u32 = 1 << 16;
/// Frames between two flushes. A veth's ring has 256 places, and is emptied after each batch.
const BATCH: u32 = 64;
/// Length of an Ethernet header.
const ETHERNET: usize = 14;
/// Length of a VLAN tag.
const VLAN: usize = 4;

// Of `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
// `enum bpf_func_id`.
const MAP_LOOKUP_ELEM: i32 = 1;
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
