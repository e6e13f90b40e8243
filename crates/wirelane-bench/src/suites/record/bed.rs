//! The environment of a recorder: a directory, a cable, CPUs, and one run of a program.
//!
//! ```text
//!   first CPU:       sender ─▶ wl-a ═══ wl-b ─▶ ring of the recorder
//!   all other CPUs:  recorder ─▶ directory
//! ```

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::Site;
use wirelane_lab::leftovers::{self, Folder};
use wirelane_os::iface;

use super::load::{LoadResult, PacketLengths, RecordLoad};
use crate::job::{Job, TimedOutput, go_on, pause};
use crate::peers::process::{ProgramOutput, RunningProgram, SETTLE};
use crate::peers::recorders::{RecordProgram, RecordTask};
use crate::row::Params;
use crate::suites::bed::{self, CableEnds};
use crate::wire::{InterfaceCounter, Wired};

/// How long a program may take to get ready, and to end.
const LIMIT: Duration = Duration::from_secs(30);
/// How long to wait for a program that should have ended already.
const GRACE: Duration = Duration::from_secs(2);
/// The most bytes of a run; a run also uses at most a third of the free space.
const MOST_ON_DISK: u64 = 4 << 30;

/// Where programs write to, and the CPUs.
pub(super) struct RecordBed<'a> {
    pub(super) own: &'a Path,
    pub(super) folder: Folder,
    /// `disk` or `memory`, as in rows.
    pub(super) target: &'static str,
    /// The most bytes of a run.
    pub(super) most_bytes: u64,
    /// Whether the file system has direct I/O.
    pub(super) is_direct: bool,
    pub(super) cpus: Vec<u32>,
}

/// The result of a recorder's run with a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordTrial {
    pub(super) sent: u64,
    pub(super) recorded: u64,
    pub(super) elapsed: Duration,
    /// CPU time of the recorder, from the first packet until its ring is empty. If other hosts
    /// send, it is the CPU time of the whole run.
    pub(super) cpu: Duration,
    /// Bytes of its directory, and of its index files.
    pub(super) bytes: u64,
    pub(super) index_bytes: u64,
}

impl RecordTrial {
    pub(super) fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.recorded)
    }
}

impl<'a> RecordBed<'a> {
    /// In a directory of `disk`, or in memory without one.
    pub(super) fn new(own: &'a Path, disk: Option<&Path>) -> Result<Self> {
        let parent = disk.unwrap_or(Path::new(leftovers::MEMORY));
        let folder = Folder::new(parent)?;
        let most_bytes = (bed::free(parent)? / 3).min(MOST_ON_DISK);
        folder.make()?;
        let is_direct = has_direct(&folder.file("direct"));
        folder.remove();
        let target = if disk.is_some() { "disk" } else { "memory" };
        let cpus = bed::cpus();
        Ok(Self { own, folder, target, most_bytes, is_direct, cpus })
    }

    /// The CPU of the sender, if it can be exclusive.
    pub(super) fn sender(&self) -> Option<u32> {
        self.cpus.first().copied().filter(|_| self.cpus.len() > 1)
    }

    /// The CPUs of a recorder that runs with a sender.
    pub(super) fn recorders(&self) -> &[u32] {
        if self.cpus.len() > 1 { &self.cpus[1..] } else { &self.cpus }
    }

    /// Calls `work` with a new directory, and then removes the directory.
    pub(super) fn in_folder<T>(&self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        self.folder.remove();
        self.folder.make()?;
        let path = self.folder.file("recording");
        let made = fs::create_dir(&path);
        let result = made
            .map_err(|error| Error::io(path.display().to_string(), "mkdir", error))
            .and_then(|()| work(&path));
        self.folder.remove();
        result
    }

    /// Runs a program to its end, on all CPUs.
    pub(super) fn run(&self, mut command: Command, job: &mut Job<'_>) -> Result<TimedOutput> {
        job.run(&mut command, &self.cpus, None, 10 * LIMIT)
    }
}

/// A cable, and the bed at its end.
pub(super) struct RecordCable<'a> {
    pub(super) bed: &'a RecordBed<'a>,
    ends: CableEnds,
    /// The mode that Wirelane reported.
    mode: OnceCell<String>,
}

impl<'a> RecordCable<'a> {
    /// At the user's port, or else in a lab, where the longest packets are one frame.
    pub(super) fn new(bed: &'a RecordBed<'a>, wired: Option<Wired>) -> Result<Self> {
        const HEADER: usize = 14;
        let lab = || bed::cable(1, HEADER + usize::from(u16::MAX)).map(CableEnds::Lab);
        let ends = wired.map_or_else(lab, |wired| Ok(CableEnds::Wired(wired)))?;
        Ok(Self { bed, ends, mode: OnceCell::new() })
    }

    /// The end that sends; `None` if other hosts send.
    pub(super) fn near(&self) -> Option<&Site> {
        self.ends.near()
    }

    /// The sender at the near end.
    pub(super) fn load(&self) -> Option<RecordLoad<'_>> {
        let (cpu, most_bytes) = (self.bed.sender(), self.bed.most_bytes);
        let is_lab = matches!(&self.ends, CableEnds::Lab(_));
        self.near().map(|near| RecordLoad { near, is_lab, cpu, most_bytes })
    }

    /// The end that records.
    pub(super) fn far(&self) -> &Site {
        self.ends.far()
    }

    /// Whether packets of this shape pass, and this recorder can record them.
    pub(super) fn takes(&self, shape: PacketLengths, recorder: &RecordProgram) -> bool {
        let CableEnds::Wired(wired) = &self.ends else { return true };
        let is_socket = !self.ends.is_xdp() || recorder.is_ours();
        // A packet may exceed the MTU by the Ethernet header and one VLAN tag.
        let fits = |site: &Site| {
            let mtu = site.inside(|| iface::mtu(site.interface()));
            mtu.is_ok_and(|mtu| mtu.is_ok_and(|mtu| shape.longest() <= mtu as usize + 18))
        };
        is_socket && fits(&wired.far) && wired.near.as_ref().is_none_or(fits)
    }

    /// The conditions of the port and the target, for rows.
    pub(super) fn params(&self) -> Params {
        let params = self.ends.params(self.mode.get().cloned());
        params.and([("target", self.bed.target.into())])
    }

    /// Records packets of this shape while they are sent: `rate` per second, or as many as possible
    /// with `None`. The sender runs for a time to warm up and for a time that counts. If other
    /// hosts send, packets are recorded for the second time, and all count.
    pub(super) fn trial(
        &self,
        recorder: &RecordProgram,
        index: bool,
        (shape, rate, warm, window): (PacketLengths, Option<f64>, Duration, Duration),
        job: &mut Job<'_>,
    ) -> Result<RecordTrial> {
        let (far, stop, port) = (self.far(), job.stop, self.ends.port());
        self.bed.in_folder(|folder| {
            let failed = |error| Error::io(folder.display().to_string(), "mkdir", error);
            recorder.prepare(folder).map_err(failed)?;
            let recording = RecordTask {
                own: self.bed.own,
                source: if recorder.is_ours() { &port } else { far.interface() },
                folder,
                is_super: shape == PacketLengths::Super,
                index,
                compress: None,
            };
            let mut command = recorder.command(&recording)?;
            if recorder.is_ours() {
                command.args(self.ends.options());
            }
            job.note(&command);
            let mut running = RunningProgram::start(&mut command, self.bed.recorders(), Some(far))?;
            running.wait_for(recorder.ready, LIMIT, stop)?;
            thread::sleep(SETTLE);
            // A card may lose its link for seconds when it gets an XDP program (igb_xdp_setup).
            far.inside(|| iface::wait_until_running(far.interface(), LIMIT))?
                .map_err(|error| Error::os(far.interface(), error))?;
            let load = self.load();
            // The first use of each buffer page is expensive.
            let warmed = match &load {
                Some(load) if !warm.is_zero() => load.send(shape, rate, warm, stop)?.frames,
                _ => 0,
            };
            let before = if load.is_some() { running.cpu() } else { Duration::ZERO };
            let sent = match &load {
                Some(load) => Some(load.send(shape, rate, window, stop)?),
                None => {
                    until_one_comes(far, stop)?;
                    thread::sleep(window);
                    None
                }
            };
            thread::sleep(recorder.drain);
            let cpu = running.cpu().saturating_sub(before);
            go_on(stop)?;
            let output = self.end(running, recorder, warm + window)?;
            let unclear = || Error::failed(recorder.name, "does not tell how much it recorded");
            let counts = recorder.counts(&output.stdout, &output.stderr).ok_or_else(unclear)?;
            if let Some(mode) = recorder.mode(&output.stdout) {
                self.mode.get_or_init(|| mode);
            }
            let all = LoadResult { frames: counts.captured + counts.dropped, elapsed: window };
            let LoadResult { frames, elapsed } = sent.unwrap_or(all);
            if sent.is_none() && frames == 0 {
                return Err(self.ends.nothing_came());
            }
            if counts.captured == 0 {
                let cause = format!("it recorded none of {frames} packets");
                return Err(Error::failed(recorder.name, cause));
            }
            let recorded = counts.captured.saturating_sub(warmed);
            let recorded = recorded.min(frames.saturating_sub(counts.dropped));
            let (bytes, index_bytes) = (size(folder, &|_| true), size(folder, &is_index));
            Ok(RecordTrial { sent: frames, recorded, elapsed, cpu, bytes, index_bytes })
        })
    }

    /// Ends a program that has recorded for `time`. The index of stenotype may take much longer
    /// than the packets.
    fn end(
        &self,
        running: RunningProgram,
        recorder: &RecordProgram,
        time: Duration,
    ) -> Result<ProgramOutput> {
        if recorder.ends_with_a_packet {
            return self.end_with_packets(running, LIMIT / 2 + 20 * time);
        }
        running.interrupt(LIMIT)
    }

    /// Ends a program that checks for the signal only when a packet arrives. Some versions of
    /// stenotype hang after a loss.
    pub(super) fn end_with_packets(
        &self,
        mut running: RunningProgram,
        limit: Duration,
    ) -> Result<ProgramOutput> {
        running.ask_to_end();
        let (load, deadline) = (self.load(), Instant::now() + limit);
        while running.is_running() && Instant::now() < deadline {
            load.as_ref().map_or(Ok(()), RecordLoad::push)?;
            thread::sleep(Duration::from_millis(100));
        }
        running.wait(GRACE)
    }
}

/// Waits until the interface of `far` counts another packet. After an XDP program is attached, the
/// link may be down for a time, and packets from other hosts are lost. The driver may report the
/// link before packets arrive, and may reset its counter.
fn until_one_comes(far: &Site, stop: &AtomicBool) -> Result<()> {
    let (mut before, end) = (InterfaceCounter::Received.read(far)?, Instant::now() + LIMIT);
    while Instant::now() < end {
        pause(Duration::from_millis(10), stop)?;
        let now = InterfaceCounter::Received.read(far)?;
        if now > before {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Whether a file there can be opened for direct I/O.
fn has_direct(path: &PathBuf) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(direct)
        .open(path)
        .is_ok()
}

/// Bytes of the files below a directory that `counts`.
pub(super) fn size(folder: &Path, counts: &dyn Fn(&Path) -> bool) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path(), counts),
        Ok(found) if counts(&entry.path()) => found.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

/// Whether a file is an index: by its name for Wirelane, by its directory for stenotype.
pub(super) fn is_index(path: &Path) -> bool {
    let is_of_steno = path.parent().and_then(Path::file_name).is_some_and(|name| name == "IDX0");
    is_of_steno || path.extension().is_some_and(|extension| extension == "index")
}
