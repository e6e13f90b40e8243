//! CPU time of a packet, of programs that capture: each in turn meets the same load.
//!
//! ```text
//!   first CPU: paced frames from the kernel ─▶ wl-a ═══ wl-b ─▶ ring of the capture     second CPU: capture
//! ```
//!
//! The sender pays for what the kernel does until a packet lies in the ring, for every program
//! alike; what is compared is the CPU time of the capturing process. There are two figures: of the
//! whole process, and of the time under load, because starting and ending cost the same for any
//! number of packets. That time begins with the first packet and ends when the program must have
//! received the last one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::port::Take;
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_os::{affinity, clock};
use wirelane_send::kernel::{LiveSender, Pace, Sending};
use wirelane_send::ndr::Shot;

use crate::peers::capture::Program;
use crate::peers::process::{Running, line, patience};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::senders;
use crate::suites::turns::ProcessPlan;
use crate::wire::Wired;
use wirelane_lab::leftovers::{self, Folder};

/// Bytes of a packet.
pub(super) const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// Receive queues of the interface.
const QUEUES: u16 = 2;
/// No sample is shorter: otherwise what a program does without packets (waking up to look, the
/// first pass through its ring), and what else the machine does, would be a large part of the
/// figure.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
/// How long a program may take to end.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// Packets per second that keep nobody busy.
const TRICKLE: u64 = 2_000;
/// From the moment that a program says it is ready until it is.
pub(super) const SETTLE: Duration = Duration::from_millis(200);

/// How the names of our threads that receive begin.
const RECEIVERS: &str = "wl-rx";

/// One run of one program.
#[derive(Clone, Debug)]
pub(super) struct PacedSample {
    /// CPU time of the whole process.
    total: Duration,
    /// The part of it from the first packet to the last one.
    loaded: Duration,
    /// The part of that of threads of ours that receive.
    receiving: Duration,
    captured: u64,
    /// What came from outside counts as captured or dropped.
    sent: u64,
    /// How long that took.
    elapsed: Duration,
    /// How ours received, as it says.
    mode: Option<String>,
    /// CPU time of the sender.
    sender: Duration,
}

/// What a row is about.
pub(super) struct Subject<'a> {
    pub(super) bed: &'a PacedBed,
    pub(super) suite: &'static str,
    pub(super) case: &'static str,
    pub(super) peer: Option<&'static str>,
    /// What becomes of packets.
    pub(super) target: &'static str,
    /// Packets per second.
    pub(super) rate: u64,
}

/// The figures of these runs.
pub(super) fn rows(subject: &Subject<'_>, samples: &[PacedSample]) -> Vec<Row> {
    let mut params = subject.bed.params(samples.first());
    params.push(("target", Param::Text(subject.target)));
    if subject.bed.sends() {
        params.push(("size", Param::Number(SIZE)));
        params.push(("offered", Param::Number(subject.rate)));
    }
    let params = Params(params);
    let row = |metric, unit, of: &dyn Fn(&PacedSample) -> f64| Row {
        suite: subject.suite,
        case: subject.case,
        peer: subject.peer,
        params: params.clone(),
        metric,
        unit,
        samples: samples.iter().map(of).collect(),
        source: None,
    };
    let per = |time: Duration, sample: &PacedSample| {
        time.as_nanos() as f64 / sample.captured.max(1) as f64
    };
    let lost = |sample: &PacedSample| {
        let lost = sample.sent.saturating_sub(sample.captured);
        lost as f64 / sample.sent.max(1) as f64
    };
    let sender = |sample: &PacedSample| sample.sender.as_nanos() as f64 / sample.sent.max(1) as f64;
    let whole = row("cpu_ns_per_packet", "ns", &|sample| per(sample.total, sample));
    let received = row("packets_received", "1", &|sample| sample.captured as f64);
    let lost = row("lost_share", "1", &lost);
    if !subject.bed.sends() {
        // What others send began before it was counted: none of it is the load of a certain time.
        let rate = row("packets_per_s", "1/s", &|sample| sample.shot().rate);
        return vec![whole, received, rate, lost];
    }
    let loaded = row("cpu_ns_per_packet_under_load", "ns", &|sample| per(sample.loaded, sample));
    vec![loaded, whole, received, row("sender_cpu_ns_per_packet", "ns", &sender), lost]
}

impl PacedSample {
    /// For a search of a rate.
    pub(super) fn shot(&self) -> Shot {
        let (sent, duration) = (self.sent, self.elapsed);
        let rate = sent as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        Shot { duration, sent, lost: sent.saturating_sub(self.captured), rate }
    }

    /// CPU time of our receiving threads per packet, in nanoseconds.
    pub(super) fn receiving_ns_per_packet(&self) -> f64 {
        self.receiving.as_nanos() as f64 / self.captured.max(1) as f64
    }
}

/// A CPU for who sends, and one for who captures.
pub(super) fn cpus() -> Result<[u32; 2]> {
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let pair = cpus.first_chunk().copied();
    pair.ok_or_else(|| Error::failed("CPU time of captures", "it takes two CPUs to measure"))
}

/// What is sent.
pub(super) fn frames() -> Result<Vec<Vec<u8>>> {
    senders::frames(FLOWS, SIZE)
}

/// A cable, and a CPU for either end.
#[derive(Debug)]
pub(super) struct PacedBed {
    window: Duration,
    /// How long a program may take to get ready.
    patience: Duration,
    ends: Ends,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

/// What is joined by it.
#[derive(Debug)]
enum Ends {
    Lab(Lab),
    Wired(Wired),
}

impl PacedBed {
    /// As [`PacedBed::new`]; what is missing is why `case` of `suite` is skipped.
    pub(super) fn or_skip(
        plan: &ProcessPlan<'_>,
        (suite, case): (&'static str, &'static str),
        report: &mut Report,
    ) -> Option<Self> {
        Self::new(plan).inspect_err(|error| report.skip(suite, case, error.to_string())).ok()
    }

    /// # Errors
    /// There are no privileges for a cable, or no two CPUs.
    pub(super) fn new(plan: &ProcessPlan<'_>) -> Result<Self> {
        let lab = Lab::new(LabConfig { queues: QUEUES, ..LabConfig::default() })?;
        // What the sender redirects arrives at packet sockets, too.
        lab.far.set_gro(true)?;
        Self::between(Ends::Lab(lab), plan)
    }

    /// A port of the user's.
    ///
    /// # Errors
    /// There are no two CPUs.
    pub(super) fn wired(wired: Wired, plan: &ProcessPlan<'_>) -> Result<Self> {
        Self::between(Ends::Wired(wired), plan)
    }

    fn between(ends: Ends, plan: &ProcessPlan<'_>) -> Result<Self> {
        let [sender, capturer] = cpus()?;
        let memory = Folder::new(Path::new(leftovers::MEMORY))?;
        let (window, patience) = (plan.window.max(SHORTEST), patience(plan.limit));
        Ok(Self { window, patience, ends, frames: frames()?, sender, capturer, memory })
    }

    /// For searches, whose samples may be shorter: they are of losses, not of CPU time.
    pub(super) fn searching(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// Where to capture.
    pub(super) fn interface(&self) -> &str {
        self.far().interface()
    }

    /// The port there, for our command.
    pub(super) fn port(&self) -> String {
        match &self.ends {
            Ends::Lab(lab) => format!("packet:{}", lab.far.interface()),
            Ends::Wired(wired) => wired.spec.to_string(),
        }
    }

    /// What our command has to be told beside.
    pub(super) fn options(&self) -> Option<&'static str> {
        let takes_all = |wired: &Wired| wired.take == Take::All;
        matches!(&self.ends, Ends::Wired(wired) if takes_all(wired)).then_some("--all")
    }

    fn far(&self) -> &Site {
        match &self.ends {
            Ends::Lab(lab) => &lab.far,
            Ends::Wired(wired) => &wired.far,
        }
    }

    fn near(&self) -> Option<&Site> {
        match &self.ends {
            Ends::Lab(lab) => Some(&lab.near),
            Ends::Wired(wired) => wired.near.as_ref(),
        }
    }

    /// Whether packets are sent here, and do not come from outside.
    pub(super) fn sends(&self) -> bool {
        self.near().is_some()
    }

    /// Where it was measured, for rows.
    pub(super) fn params(&self, sample: Option<&PacedSample>) -> Vec<(&'static str, Param)> {
        let Ends::Wired(wired) = &self.ends else { return vec![("port", Param::Text("packet"))] };
        wired.conditions(sample.and_then(|sample| sample.mode.clone()))
    }

    /// A file in memory to write to, for one run.
    pub(super) fn file(&self) -> PathBuf {
        self.memory.file("capture")
    }

    /// Runs `command`, which ends by itself after a few packets: the CPU time of the process.
    /// `None` if it was stopped.
    ///
    /// # Errors
    /// It fails, or does not end.
    pub(super) fn whole(
        &self,
        mut command: Command,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<Duration>> {
        self.memory.remove();
        self.memory.make()?;
        report.environment.add_command(line(&command));
        let sending = self.send(Pace { count: None, rate: Some(TRICKLE), ..Pace::default() })?;
        // Nothing else is started until it has ended: the difference is its own.
        let before = clock::children_cpu();
        let ended = Running::start(&mut command, &[self.capturer], Some(self.far()))
            .and_then(|running| running.wait(self.patience));
        let total = clock::children_cpu().since(before).total();
        sending.map(Sending::stop).transpose()?;
        self.memory.remove();
        ended?;
        Ok((!stop.load(Ordering::Relaxed)).then_some(total))
    }

    /// Runs `command`, which is `program` or what it becomes, while so many packets per second
    /// come. `None` if it was stopped.
    ///
    /// # Errors
    /// It fails, or does not say what it has captured.
    pub(super) fn sample(
        &self,
        program: &Program,
        mut command: Command,
        rate: u64,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<PacedSample>> {
        self.memory.remove();
        self.memory.make()?;
        report.environment.add_command(line(&command));
        // Nothing else is started until it has ended: the difference is its own.
        let before = clock::children_cpu();
        let mut running = Running::start(&mut command, &[self.capturer], Some(self.far()))?;
        running.wait_for(program.ready, self.patience, stop)?;
        let ready = Instant::now();
        thread::sleep(SETTLE);
        let start = (running.cpu(), running.cpu_of(RECEIVERS));
        let count = (rate as f64 * self.window.as_secs_f64()) as u64;
        let sending =
            self.send(Pace { count: Some(count), rate: Some(rate), ..Pace::default() })?;
        let begin = Instant::now();
        let is_over = || match &sending {
            Some(sending) => sending.is_finished() || begin.elapsed() > 4 * self.window + LIMIT,
            None => begin.elapsed() >= self.window,
        };
        while !is_over() && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        let sent = sending.map(Sending::stop).transpose()?;
        if stop.load(Ordering::Relaxed) {
            self.memory.remove();
            return Ok(None);
        }
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
            let cause = "no packet came from outside";
            let error = Error::failed(self.interface(), cause);
            return Err(error.help("look for what is to send them, or send them: --load IF"));
        }
        let mode = program.mode(&output.stdout);
        let sample =
            PacedSample { total, loaded, receiving, captured, sent, elapsed, mode, sender };
        Ok(Some(sample))
    }

    /// Starts to send; `None` if others do.
    fn send(&self, pace: Pace) -> Result<Option<Sending>> {
        let Some(near) = self.near() else { return Ok(None) };
        let pace = Pace { cpu: Some(self.sender), ..pace };
        let send = || {
            LiveSender::new(near.interface(), &self.frames).and_then(|sender| sender.start(pace))
        };
        near.inside(send)?.map(Some)
    }
}
