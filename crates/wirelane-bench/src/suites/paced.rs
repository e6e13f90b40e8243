//! CPU time of a packet, of programs that capture: each in turn meets the same load.
//!
//! ```text
//!   first CPU:   paced frames from the kernel ─▶ wl-a ═══ wl-b ─▶ ring of the capture
//!   second CPU:  the capture
//! ```
//!
//! The kernel's work until a packet is in the ring belongs to the sender, for every program alike;
//! the figures compare the CPU time of the capturing process. There are two figures: of the
//! whole process, and of the time under load, because starting and ending cost the same for any
//! number of packets. That time begins with the first packet and ends when the program must have
//! received the last one.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;
use wirelane_os::clock;
use wirelane_send::kernel::{LivePace, RunningSender};
use wirelane_send::ndr::Shot;

use super::bed::{self, CableEnds};
use crate::job::{Job, Sample, SampleFigure, wait};
use crate::peers::capture::CaptureProgram;
use crate::peers::process::{RunningProgram, SETTLE, patience};
use crate::row::params;
use crate::suites::senders;
use crate::wire::Wired;

/// Bytes of a packet.
pub(super) const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// Receive queues of the interface.
const QUEUES: u16 = 2;
/// The shortest sample. In a shorter one, the cost of an idle program (wake-ups, the first pass
/// through its ring) and of other programs would be a large part of the figure.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
/// How long a program may take to end.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// Packets per second that keep no CPU busy.
const TRICKLE: u64 = 2_000;
/// The first characters of the names of Wirelane's receiving threads.
const RECEIVERS: &str = "wl-rx";

/// One run of one program.
#[derive(Clone, Debug)]
pub(super) struct PacedSample {
    /// CPU time of the whole process.
    total: Duration,
    /// The part of it from the first packet to the last one.
    loaded: Duration,
    /// The part of `loaded` that Wirelane's receiving threads used.
    receiving: Duration,
    captured: u64,
    /// Packets sent. If other hosts send: packets captured and dropped.
    sent: u64,
    /// The time of sending them.
    elapsed: Duration,
    /// The mode of the port in the summary of `wirelane capture`.
    pub(super) mode: Option<String>,
    /// CPU time of the sender.
    sender: Duration,
}

impl PacedSample {
    /// The result for the search of a rate.
    pub(super) fn shot(&self) -> Shot {
        let (sent, duration) = (self.sent, self.elapsed);
        let rate = sent as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        Shot { duration, sent, lost: sent.saturating_sub(self.captured), rate }
    }

    /// CPU time of Wirelane's receiving threads per packet, in nanoseconds.
    pub(super) fn receiving_ns_per_packet(&self) -> f64 {
        self.per_packet(self.receiving)
    }

    fn per_packet(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.captured.max(1) as f64
    }
}

/// The frames that are sent.
pub(super) fn frames() -> Result<Vec<Vec<u8>>> {
    senders::frames(FLOWS, SIZE)
}

/// A cable, and a CPU for either end.
#[derive(Debug)]
pub(super) struct PacedBed {
    window: Duration,
    /// How long a program may take to get ready.
    patience: Duration,
    ends: CableEnds,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

impl PacedBed {
    /// On a cable of a lab. If that cannot be set up, `case` is skipped with the reason.
    pub(super) fn or_skip(case: &'static str, job: &mut Job<'_>) -> Option<Self> {
        let made = bed::cable(QUEUES, 0).and_then(|lab| Self::between(CableEnds::Lab(lab), job));
        job.or_skip(case, made)
    }

    /// At the user's port, or else in a lab.
    ///
    /// # Errors
    /// There are fewer than two CPUs for the user's port.
    pub(super) fn at(
        wired: Option<Wired>,
        case: &'static str,
        job: &mut Job<'_>,
    ) -> Result<Option<Self>> {
        match wired {
            Some(wired) => Self::between(CableEnds::Wired(wired), job).map(Some),
            None => Ok(Self::or_skip(case, job)),
        }
    }

    fn between(ends: CableEnds, job: &Job<'_>) -> Result<Self> {
        let [sender, capturer] = bed::two_cpus("CPU time of captures")?;
        let (window, patience) = (job.plan.window.max(SHORTEST), patience(job.plan.limit));
        let (frames, memory) = (frames()?, bed::in_memory()?);
        Ok(Self { window, patience, ends, frames, sender, capturer, memory })
    }

    /// For searches. Their samples count losses instead of CPU time, and may be shorter.
    pub(super) fn searching(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// Both ends.
    pub(super) fn ends(&self) -> &CableEnds {
        &self.ends
    }

    /// The interface to capture from.
    pub(super) fn interface(&self) -> &str {
        self.ends.far().interface()
    }

    /// Whether this process sends the packets.
    pub(super) fn sends(&self) -> bool {
        self.ends.near().is_some()
    }

    /// A file in memory to write to, for one run.
    pub(super) fn file(&self) -> PathBuf {
        self.memory.file("capture")
    }

    /// The figures of a run; the condition `target` names the destination of packets.
    pub(super) fn figures(
        &self,
        target: (&'static str, &'static str),
        rate: u64,
        sample: &PacedSample,
    ) -> Sample {
        let sent = |of: f64| of / sample.sent.max(1) as f64;
        let whole = SampleFigure::new("cpu_ns_per_packet", sample.per_packet(sample.total));
        let received = SampleFigure::new("packets_received", sample.captured as f64);
        let lost = sample.sent.saturating_sub(sample.captured) as f64;
        let lost = SampleFigure::new("lost_share", sent(lost));
        let params = self.ends.params(sample.mode.clone()).and([(target.0, target.1.into())]);
        if !self.sends() {
            // Packets from outside have no beginning, so there is no figure under load.
            let rate = SampleFigure::new("packets_per_s", sample.shot().rate);
            let figures = vec![whole, received, rate, lost];
            return Sample { figures, params: Some(params) };
        }
        let loaded = sample.per_packet(sample.loaded);
        let figures = vec![
            SampleFigure::new("cpu_ns_per_packet_under_load", loaded),
            whole,
            received,
            SampleFigure::new("sender_cpu_ns_per_packet", sent(sample.sender.as_nanos() as f64)),
            lost,
        ];
        let params = params.and(params![size = SIZE, offered = rate].0);
        Sample { figures, params: Some(params) }
    }

    /// Runs `command`, which ends by itself after a few packets. Returns the CPU time of the
    /// process.
    ///
    /// # Errors
    /// It fails, or does not end.
    pub(super) fn whole(&self, mut command: Command, job: &mut Job<'_>) -> Result<Duration> {
        self.memory.remove();
        self.memory.make()?;
        let sending =
            self.send(LivePace { count: None, rate: Some(TRICKLE), ..LivePace::default() })?;
        let far = Some(self.ends.far());
        let ended = job.run(&mut command, &[self.capturer], far, self.patience);
        sending.map(RunningSender::stop).transpose()?;
        self.memory.remove();
        Ok(ended?.cpu)
    }

    /// Runs `program` on the interface under `rate` packets per second; with `is_written` it writes
    /// to a file in memory.
    ///
    /// # Errors
    /// It is missing, fails, or does not report the captured packets.
    pub(super) fn capture(
        &self,
        program: &CaptureProgram,
        is_written: bool,
        rate: u64,
        job: &mut Job<'_>,
    ) -> Result<PacedSample> {
        let file = is_written.then(|| self.file());
        let command = program.command(job.own()?, self.interface(), file.as_deref())?;
        self.sample(program, command, rate, job)
    }

    /// Runs `command`, a variant of `program`, under `rate` packets per second.
    pub(super) fn sample(
        &self,
        program: &CaptureProgram,
        mut command: Command,
        rate: u64,
        job: &mut Job<'_>,
    ) -> Result<PacedSample> {
        self.memory.remove();
        self.memory.make()?;
        job.note(&command);
        // No other child runs at the same time, so the difference belongs to this program.
        let before = clock::children_cpu();
        let mut running =
            RunningProgram::start(&mut command, &[self.capturer], Some(self.ends.far()))?;
        running.wait_for(program.ready, self.patience, job.stop)?;
        let ready = Instant::now();
        thread::sleep(SETTLE);
        let start = (running.cpu(), running.cpu_of(RECEIVERS));
        let count = (rate as f64 * self.window.as_secs_f64()) as u64;
        let sending =
            self.send(LivePace { count: Some(count), rate: Some(rate), ..LivePace::default() })?;
        let time = if sending.is_some() { 4 * self.window + LIMIT } else { self.window };
        let is_over = || sending.as_ref().is_some_and(RunningSender::is_finished);
        let go_on = wait(time, job.stop, is_over);
        let sent = sending.map(RunningSender::stop).transpose()?;
        if go_on.is_err() {
            self.memory.remove();
        }
        go_on?;
        thread::sleep(program.drain);
        let loaded = running.cpu().saturating_sub(start.0);
        let receiving = running.cpu_of(RECEIVERS).saturating_sub(start.1);
        let whole = ready.elapsed();
        let output = running.interrupt(LIMIT)?;
        let total = clock::children_cpu().since(before).total();
        self.memory.remove();
        let counts = program.counts(&output.stdout, &output.stderr).ok_or_else(|| {
            Error::failed(program.name, "does not tell how many packets it captured")
        })?;
        let captured = counts.captured;
        let (sent, elapsed, sender) = match sent {
            Some(sent) => (sent.frames, sent.elapsed, sent.cpu.total()),
            None => (captured + counts.dropped, whole, Duration::ZERO),
        };
        if captured == 0 && !self.sends() {
            return Err(self.ends.nothing_came());
        }
        let mode = program.mode(&output.stdout);
        Ok(PacedSample { total, loaded, receiving, captured, sent, elapsed, mode, sender })
    }

    /// Starts to send; `None` if other hosts send.
    fn send(&self, pace: LivePace) -> Result<Option<RunningSender>> {
        let Some(near) = self.ends.near() else { return Ok(None) };
        bed::send(near, &self.frames, LivePace { cpu: Some(self.sender), ..pace }).map(Some)
    }
}
