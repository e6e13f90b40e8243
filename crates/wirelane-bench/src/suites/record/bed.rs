//! Where recorders are measured: a directory, a cable, CPUs, and one run of a program.
//!
//! ```text
//!   first CPU: sender ─▶ wl-a ═══ wl-b ─▶ ring of the recorder     all other CPUs: recorder ─▶ directory
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_os::affinity;

use super::load::{Load, Sent, Shape};
use crate::leftovers::{self, Folder};
use crate::peers::process::{Output, Running, line};
use crate::peers::recorders::{Recorder, Recording};
use crate::report::Report;

/// The name of the suite.
pub(super) const SUITE: &str = "record";
/// How long a program may take to get ready, and to end.
const LIMIT: Duration = Duration::from_secs(30);
/// From the moment that a program says it is ready until it is.
const SETTLE: Duration = Duration::from_millis(300);
/// A run writes no more than this, nor a third of what is free.
const MOST_ON_DISK: u64 = 4 << 30;

/// Where programs write to, and the CPUs.
pub(super) struct Bed<'a> {
    pub(super) own: &'a Path,
    pub(super) folder: Folder,
    /// `disk` or `memory`, as in rows.
    pub(super) target: &'static str,
    /// A run writes no more.
    pub(super) most_bytes: u64,
    /// Whether the file system has direct I/O.
    pub(super) is_direct: bool,
    pub(super) cpus: Vec<u32>,
}

/// A run of a recorder beside a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) sent: u64,
    pub(super) recorded: u64,
    pub(super) elapsed: Duration,
    /// CPU time of the recorder, from the first packet to the last one and what its ring kept.
    pub(super) cpu: Duration,
    /// Bytes of its directory, and those of them that are an index.
    pub(super) bytes: u64,
    pub(super) index_bytes: u64,
}

impl Trial {
    pub(super) fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.recorded)
    }
}

impl<'a> Bed<'a> {
    /// In a directory of `disk`, or in memory without one.
    pub(super) fn new(own: &'a Path, disk: Option<&Path>) -> Result<Self> {
        let parent = disk.unwrap_or(Path::new(leftovers::MEMORY));
        let folder = Folder::new(parent)?;
        let object = || parent.display().to_string();
        let found = rustix::fs::statvfs(parent)
            .map_err(|errno| Error::io(object(), "statvfs", errno.into()))?;
        let free = found.f_frsize * found.f_bavail;
        let most_bytes = (free / 3).min(MOST_ON_DISK);
        folder.make()?;
        let is_direct = has_direct(&folder.file("direct"));
        folder.remove();
        let target = if disk.is_some() { "disk" } else { "memory" };
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        Ok(Self { own, folder, target, most_bytes, is_direct, cpus })
    }

    /// The CPU of the sender, if it can have one for itself.
    pub(super) fn sender(&self) -> Option<u32> {
        self.cpus.first().copied().filter(|_| self.cpus.len() > 1)
    }

    /// The CPUs of a recorder beside a sender.
    pub(super) fn recorders(&self) -> &[u32] {
        if self.cpus.len() > 1 { &self.cpus[1..] } else { &self.cpus }
    }

    /// Calls `work` with a new directory, which is gone afterwards.
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
    pub(super) fn run(&self, mut command: Command, report: &mut Report) -> Result<Output> {
        report.environment.add_command(line(&command));
        Running::start(&mut command, &self.cpus, None)?.wait(10 * LIMIT)
    }
}

/// A cable, and the bed at its end.
pub(super) struct Cable<'a> {
    pub(super) bed: &'a Bed<'a>,
    lab: Lab,
}

impl<'a> Cable<'a> {
    pub(super) fn new(bed: &'a Bed<'a>) -> Result<Self> {
        // The longest packets are one frame.
        let lab = Lab::new(LabConfig { mtu: u32::from(u16::MAX), ..LabConfig::default() })?;
        // What the sender redirects arrives at packet sockets, too.
        lab.far.set_gro(true)?;
        Ok(Self { bed, lab })
    }

    /// The end that sends.
    pub(super) fn near(&self) -> &Site {
        &self.lab.near
    }

    /// The end that records.
    pub(super) fn far(&self) -> &Site {
        &self.lab.far
    }

    /// Records what is sent: packets of this shape, `rate` a second, or with `None` all that can be sent, for a
    /// time to warm up and one that counts. `None` if it was stopped.
    pub(super) fn trial(
        &self,
        recorder: &Recorder,
        index: bool,
        (shape, rate, warm, window): (Shape, Option<f64>, Duration, Duration),
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<Trial>> {
        let interface = self.lab.far.interface();
        self.bed.in_folder(|folder| {
            let failed = |error| Error::io(folder.display().to_string(), "mkdir", error);
            recorder.prepare(folder).map_err(failed)?;
            let port = format!("packet:{interface}");
            let recording = Recording {
                own: self.bed.own,
                source: if recorder.is_ours() { &port } else { interface },
                folder,
                is_super: shape == Shape::Super,
                index,
                compress: None,
            };
            let missing = || Error::failed(recorder.name, "is missing");
            let mut command = recorder.command(&recording).ok_or_else(missing)?;
            report.environment.add_command(line(&command));
            let far = Some(&self.lab.far);
            let mut running = Running::start(&mut command, self.bed.recorders(), far)?;
            match running.wait_for(recorder.ready, LIMIT, stop) {
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
                ready => ready?,
            }
            thread::sleep(SETTLE);
            let load = Load {
                near: &self.lab.near,
                cpu: self.bed.sender(),
                most_bytes: self.bed.most_bytes,
            };
            // The first touch of a page of its buffers costs much, and only once.
            let warmed = match warm.is_zero() {
                true => 0,
                false => load.send(shape, rate, warm, stop)?.frames,
            };
            let before = running.cpu();
            let Sent { frames, elapsed } = load.send(shape, rate, window, stop)?;
            thread::sleep(recorder.drain);
            let cpu = running.cpu().saturating_sub(before);
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            running.ask_to_end();
            // An index may take it much longer than the packets.
            let deadline = Instant::now() + 4 * LIMIT;
            while recorder.ends_with_a_packet && running.is_running() && Instant::now() < deadline {
                load.push()?;
                thread::sleep(Duration::from_millis(100));
            }
            let output = running.wait(LIMIT)?;
            let unclear = || Error::failed(recorder.name, "does not tell how much it recorded");
            let counts = recorder.counts(&output.stdout, &output.stderr).ok_or_else(unclear)?;
            let recorded = counts.captured.saturating_sub(warmed);
            let recorded = recorded.min(frames.saturating_sub(counts.dropped));
            let (bytes, index_bytes) = (size(folder, &|_| true), size(folder, &is_index));
            Ok(Some(Trial { sent: frames, recorded, elapsed, cpu, bytes, index_bytes }))
        })
    }
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

/// Whether a file is an index: of ours by its name, of stenotype by its directory.
pub(super) fn is_index(path: &Path) -> bool {
    let is_of_steno = path.parent().and_then(Path::file_name).is_some_and(|name| name == "IDX0");
    is_of_steno || path.extension().is_some_and(|extension| extension == "index")
}
