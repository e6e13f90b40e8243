//! The environment of a sender: cables whose far ends count packets or record arrival times, and
//! files.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirelane::error::{Error, Result};
use wirelane_lab::{Lab, Site};
use wirelane_os::bpf::XdpMode;

use super::file;
use super::named::{NamedInterface, PacketCounter};
use crate::job::{Job, pause};
use crate::peers::process::{RunningProgram, line};
use crate::row::Params;
use crate::suites::bed;
use crate::suites::programs::{ArrivalRecorder, Drops};
use wirelane_lab::leftovers::Folder;

/// How long a program may take to end.
const LIMIT: Duration = Duration::from_secs(20);
/// The time from a sender's first packet until its rate is steady.
const SETTLE: Duration = Duration::from_millis(150);
/// The pause between attempts to open a busy queue.
const RELEASE: Duration = Duration::from_millis(100);
/// The wait after the last packet of a file.
const DRAIN: Duration = Duration::from_millis(100);
/// Packets of a file that is sent as fast as possible, again and again.
const PACKETS: u64 = 10_000;

/// The packets counted at the far end, and the cost of sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendResult {
    pub(super) packets_per_s: f64,
    /// CPU time of the sender per packet, in nanoseconds; `None` if the kernel does not report it.
    pub(super) cpu_ns: Option<f64>,
}

/// Cables and files, which are removed when this is dropped.
pub(super) struct SendBed {
    pub(super) own: PathBuf,
    ends: CableOrigin,
    folder: Folder,
    /// How long a program may take to get ready.
    patience: Duration,
    pub(super) cpu: u32,
    /// The highest rate that Wirelane's command has reached so far, in packets of 64 bytes per
    /// second.
    pub(super) fastest: Cell<Option<f64>>,
}

/// Cables of a lab, or a cable of the user.
enum CableOrigin {
    Labs {
        lab: Lab,
        counter: Drops,
        /// A cable whose far end records arrival times.
        timed: Lab,
    },
    Named(NamedInterface),
}

impl CableOrigin {
    fn labs(sizes: &[usize]) -> Result<Self> {
        let longest = sizes.iter().max().copied().unwrap_or(0);
        let config = bed::config(1, longest);
        let lab = Lab::new(config)?;
        let counter = Drops::attach(&lab.far, XdpMode::Native)?;
        Ok(Self::Labs { lab, counter, timed: Lab::new(config)? })
    }
}

impl SendBed {
    /// On cables of a lab, unless interfaces are named.
    pub(super) fn new(
        own: PathBuf,
        named: Option<NamedInterface>,
        sizes: &[usize],
        patience: Duration,
    ) -> Result<Self> {
        let ends = named
            .map_or_else(|| CableOrigin::labs(sizes), |named| Ok(CableOrigin::Named(named)))?;
        let (folder, cpu) = (bed::in_memory()?, bed::cpus().first().copied().unwrap_or(0));
        let fastest = Cell::new(None);
        let bed = Self { own, ends, folder, patience, cpu, fastest };
        bed.folder.make()?;
        for size in sizes {
            file::write(&bed.file(*size), &file::packets(*size)?, &file::even(PACKETS, 10))?;
        }
        Ok(bed)
    }

    /// A capture of packets of this size.
    pub(super) fn file(&self, size: usize) -> PathBuf {
        self.folder.file(&format!("{size}.pcap"))
    }

    /// The interface to send on, which has the same name on both cables.
    pub(super) fn interface(&self) -> &str {
        self.near().interface()
    }

    fn near(&self) -> &Site {
        match &self.ends {
            CableOrigin::Labs { lab, .. } => &lab.near,
            CableOrigin::Named(named) => &named.near,
        }
    }

    /// The two ends with arrival times: the sending end and the recording end.
    fn timed(&self) -> Option<(&Site, &Site)> {
        match &self.ends {
            CableOrigin::Labs { timed, .. } => Some((&timed.near, &timed.far)),
            CableOrigin::Named(named) => Some((&named.near, named.far()?)),
        }
    }

    /// Whether arrival times can be recorded.
    pub(super) fn notes_times(&self) -> bool {
        self.timed().is_some()
    }

    /// The conditions, for rows.
    pub(super) fn params(&self) -> Params {
        match &self.ends {
            CableOrigin::Labs { .. } => Params::default(),
            CableOrigin::Named(named) => named.params(),
        }
    }

    fn counting(&self) -> Result<PacketCounter<'_>> {
        match &self.ends {
            CableOrigin::Labs { counter, .. } => Ok(PacketCounter::There(counter)),
            CableOrigin::Named(named) => named.counting(),
        }
    }

    /// Starts `command`, counts at the far end for `window`, and ends it. Returns the summary of
    /// Wirelane's command.
    pub(super) fn count(
        &self,
        command: &mut Command,
        window: Duration,
        is_ours: bool,
        stop: &AtomicBool,
    ) -> Result<(SendResult, Option<Value>)> {
        let counting = self.counting()?;
        let mut running = self.start(command, &counting, stop)?;
        thread::sleep(SETTLE);
        let used = running.cpu();
        let (first, begin) = reading(&counting)?;
        pause(window, stop)?;
        let (last, end) = reading(&counting)?;
        let used = running.cpu().saturating_sub(used);
        let elapsed = end.saturating_duration_since(begin).as_secs_f64();
        let packets = last.saturating_sub(first);
        if !running.is_running() {
            running.wait(LIMIT)?;
            return Err(Error::failed(line(command), "ended before it was asked to"));
        }
        let summary = match is_ours {
            true => Some(summary(&running.interrupt(LIMIT)?.stdout, command)?),
            // Dropping it ends it; its output is not needed.
            false => None,
        };
        if packets == 0 {
            return Err(Error::failed(line(command), "nothing of what it sent has arrived"));
        }
        let per_packet = used.as_nanos() as f64 / packets as f64;
        let cpu_ns = (!used.is_zero()).then_some(per_packet);
        Ok((SendResult { packets_per_s: packets as f64 / elapsed, cpu_ns }, summary))
    }

    /// Starts `command` and waits for its first packet. After a program closes an AF_XDP socket,
    /// the queue stays busy until the kernel releases it.
    fn start(
        &self,
        command: &mut Command,
        counting: &PacketCounter<'_>,
        stop: &AtomicBool,
    ) -> Result<RunningProgram> {
        const ATTEMPTS: usize = 5;
        let before = counting.packets()?;
        let has_come = |_: &RunningProgram| counting.packets().is_ok_and(|now| now > before);
        let mut attempt = 1;
        loop {
            let mut running = RunningProgram::start(command, &[self.cpu], Some(self.near()))?;
            match running.wait_until(has_come, self.patience, stop) {
                Err(error) if attempt < ATTEMPTS && error.to_string().contains("busy") => {
                    attempt += 1;
                    thread::sleep(RELEASE);
                }
                outcome => return outcome.map(|()| running),
            }
        }
    }

    /// Sends a file of 64-byte packets with these times, using the command from `make`. Returns the
    /// arrival times.
    pub(super) fn replay(
        &self,
        name: &str,
        times: &[u64],
        make: impl Fn(&Path) -> Result<Command>,
        job: &mut Job<'_>,
    ) -> Result<Vec<u64>> {
        let path = self.folder.file(name);
        if !path.exists() {
            file::write(&path, &file::packets(64)?, times)?;
        }
        let mut command = make(&path)?;
        job.note(&command);
        let nowhere = || Error::failed("times of arrival", "have no interface to be noted at");
        let (near, far) = self.timed().ok_or_else(nowhere)?;
        let room = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let arrivals = ArrivalRecorder::attach(far, room)?;
        if let CableOrigin::Named(named) = &self.ends {
            named.wait()?;
        }
        let mut running = RunningProgram::start(&mut command, &[self.cpu], Some(near))?;
        let whole = Duration::from_nanos(times.last().copied().unwrap_or(0));
        running.wait_until_ended(whole + LIMIT, job.stop)?;
        running.wait(Duration::ZERO)?;
        thread::sleep(DRAIN);
        let (arrived, sent) = (arrivals.packets()?, times.len() as u64);
        if arrived != sent {
            let cause = format!("{arrived} packets have arrived of {sent}");
            return Err(Error::failed(line(&command), cause));
        }
        arrivals.times()
    }

    /// Removes a file that [`SendBed::replay`] has made.
    pub(super) fn forget(&self, name: &str) {
        // The folder is removed at the end in any case.
        let _ = fs::remove_file(self.folder.file(name));
    }
}

/// Packets that have arrived, and the time of the count, which is as exact as a busy machine
/// allows.
fn reading(counting: &PacketCounter<'_>) -> Result<(u64, Instant)> {
    const EXACT: Duration = Duration::from_micros(10);
    const ATTEMPTS: usize = 100;
    let mut best: Option<(Duration, u64, Instant)> = None;
    for _ in 0..ATTEMPTS {
        let begin = Instant::now();
        let packets = counting.packets()?;
        let took = begin.elapsed();
        if best.is_none_or(|(least, ..)| took < least) {
            best = Some((took, packets, begin + took / 2));
        }
        if took < EXACT {
            break;
        }
    }
    best.map(|(_, packets, at)| (packets, at))
        .ok_or_else(|| Error::failed("counting", "was not possible"))
}

fn summary(text: &str, command: &Command) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Error::failed(line(command), format!("its summary is not understood: {error}"))
    })
}
