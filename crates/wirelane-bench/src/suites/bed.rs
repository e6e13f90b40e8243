//! The environment of a measurement: a cable of a lab or of the user, CPUs for both ends, and
//! directories to write to.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::port::{self, Backend, OpenOptions, Port, Spec, Take};
use wirelane_lab::leftovers::{self, Folder};
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_os::affinity;
use wirelane_send::kernel::{LivePace, LiveSender, RunningSender};
use wirelane_send::ndr::{Goal, GoalResult, Method, RateSearch, Shot};

use crate::job::Job;
use crate::peers::find;
use crate::row::{Params, params};
use crate::wire::Wired;

/// The program that writes as many bytes as the command does.
pub(crate) const DD: &str = "dd";
/// The most bytes of files in memory; at most half of the free memory is used.
const MOST_IN_MEMORY: u64 = 4 << 30;
/// The most bytes of files on a disk, which may be slow.
const MOST_ON_DISK: u64 = 1 << 30;

/// A lab whose cable has `queues` queues and takes packets of up to `longest` bytes.
pub(crate) fn config(queues: u16, longest: usize) -> LabConfig {
    const ETHERNET_HEADER: usize = 14;
    let usual = LabConfig::default();
    let mtu = (longest.saturating_sub(ETHERNET_HEADER) as u32).max(usual.mtu);
    LabConfig { queues, mtu, ..usual }
}

/// The cable of [`config`]. Packets that a sender redirects into it also arrive at packet sockets
/// and at generic XDP programs.
pub(crate) fn cable(queues: u16, longest: usize) -> Result<Lab> {
    let lab = Lab::new(config(queues, longest))?;
    lab.far.set_gro(true)?;
    Ok(lab)
}

/// Opens a port at `site`, or else here.
pub(crate) fn open(site: Option<&Site>, spec: &Spec, options: &OpenOptions) -> Result<Port> {
    match site {
        Some(site) => site.inside(|| port::open(spec, options))?,
        None => port::open(spec, options),
    }
}

/// Starts to send from inside the kernel, out of the interface of `site`.
pub(crate) fn send(site: &Site, frames: &[Vec<u8>], pace: LivePace) -> Result<RunningSender> {
    let interface = site.interface();
    site.inside(|| LiveSender::new(interface, frames).and_then(|sender| sender.start(pace)))?
}

/// Both ends of a cable.
#[derive(Debug)]
pub(crate) enum CableEnds {
    Lab(Lab),
    /// A port of the user, and its sender.
    Wired(Wired),
}

impl CableEnds {
    /// The end that is measured.
    pub(crate) fn far(&self) -> &Site {
        match self {
            Self::Lab(lab) => &lab.far,
            Self::Wired(wired) => &wired.far,
        }
    }

    /// The end that sends; `None` if other hosts send.
    pub(crate) fn near(&self) -> Option<&Site> {
        match self {
            Self::Lab(lab) => Some(&lab.near),
            Self::Wired(wired) => wired.near.as_ref(),
        }
    }

    /// The port at the far end, for Wirelane's command.
    pub(crate) fn port(&self) -> String {
        match self {
            Self::Lab(lab) => format!("packet:{}", lab.far.interface()),
            Self::Wired(wired) => wired.spec.to_string(),
        }
    }

    /// Whether [`CableEnds::port`] is an AF_XDP port.
    pub(crate) fn is_xdp(&self) -> bool {
        matches!(self, Self::Wired(wired) if wired.spec.backend == Some(Backend::Xdp))
    }

    /// The options that the command needs in addition to the port.
    pub(crate) fn options(&self) -> Option<&'static str> {
        matches!(self, Self::Wired(wired) if wired.take == Take::All).then_some("--all")
    }

    /// The conditions of the port. `mode` is the mode that Wirelane's command reported.
    pub(crate) fn params(&self, mode: Option<String>) -> Params {
        match self {
            Self::Lab(_) => params![port = "packet"],
            Self::Wired(wired) => Params(wired.conditions(mode)),
        }
    }

    /// The error if nothing arrived from outside.
    pub(crate) fn nothing_came(&self) -> Error {
        let error = Error::failed(self.far().interface(), "no packet came from outside");
        error.help("check the sender, or let this program send: --load IF")
    }
}

/// A CPU for the sender, and one for the receiver.
///
/// # Errors
/// Fewer than two CPUs are allowed.
pub(crate) fn two_cpus(object: &str) -> Result<[u32; 2]> {
    let pair = cpus().first_chunk().copied();
    pair.ok_or_else(|| Error::failed(object, "it takes two CPUs to measure"))
}

/// The CPU of the sender, if there is one for it alone, and the CPUs of the receivers.
pub(crate) fn sender_and_receivers() -> (Option<u32>, Vec<u32>) {
    match cpus().split_first() {
        Some((first, others)) if !others.is_empty() => (Some(*first), others.to_vec()),
        _ => (None, Vec::new()),
    }
}

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<u32> {
    affinity::allowed_cpus().unwrap_or_default()
}

/// A new folder in memory.
pub(crate) fn in_memory() -> Result<Folder> {
    Folder::new(Path::new(leftovers::MEMORY))
}

/// A search for the highest rate without loss (RFC 2544, section 26.1).
pub(crate) struct Bisection {
    /// The highest rate that can be sent, in packets per second.
    pub(crate) most: f64,
    /// A trial at that rate; it is the first step.
    pub(crate) first: Option<Shot>,
    /// Relative precision.
    pub(crate) width: f64,
    /// Length of a trial.
    pub(crate) duration: Duration,
    /// The longest time of the search. The figure is then the best rate so far.
    pub(crate) patience: Duration,
}

impl Bisection {
    /// Halves the range between the best rate that passed and the lowest that failed.
    pub(crate) fn run(self, mut trial: impl FnMut(f64) -> Result<Shot>) -> Result<GoalResult> {
        let Self { most, first, width, duration, patience } = self;
        let end = Instant::now() + patience;
        let (loss_ratio, exceed_ratio, duration_sum) = (0.0, 0.0, duration);
        let goal = Goal { loss_ratio, exceed_ratio, duration, duration_sum, width };
        let mut search = RateSearch::new(most, vec![goal], Method::Bisection);
        if let (Some(shot), Some(probe)) = (first, search.probe()) {
            search.tell(probe, shot);
        }
        while let Some(probe) = search.probe().filter(|_| Instant::now() < end) {
            let shot = trial(probe.rate)?;
            search.tell(probe, Shot { duration, ..shot });
        }
        Ok(search.found().first().copied().unwrap_or_default())
    }
}

/// A folder to write to.
pub(crate) struct OutputFolder {
    /// Its name in rows.
    pub(crate) name: &'static str,
    pub(crate) folder: Folder,
    /// Bytes that all files of a run may take.
    pub(crate) most: u64,
}

impl OutputFolder {
    /// A place in memory, and one in the folder `disk` if it is given. If a place cannot be used,
    /// `case` is skipped with the reason.
    pub(crate) fn all(disk: Option<&Path>, case: &'static str, job: &mut Job<'_>) -> Vec<Self> {
        let memory = ("memory", Path::new(leftovers::MEMORY), MOST_IN_MEMORY);
        let disk = disk.map(|disk| ("disk", disk, MOST_ON_DISK));
        let places = [memory].into_iter().chain(disk);
        let open = |(name, parent, most): (&'static str, &Path, u64)| {
            let open = || {
                let (folder, free) = (Folder::new(parent)?, free(parent)?);
                Ok(Self { name, folder, most: most.min(free / 2) })
            };
            job.or_skip(case, open())
        };
        places.filter_map(open).collect()
    }
}

/// Bytes that are free on the file system of a folder.
pub(crate) fn free(folder: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(folder);
    let found =
        found.map_err(|errno| Error::io(folder.display().to_string(), "statvfs", errno.into()))?;
    Ok(found.f_frsize * found.f_bavail)
}

/// Writes `bytes` zeroes to a new file as fast as possible; `None` if it is not installed.
pub(crate) fn dd(bytes: u64, file: &Path) -> Option<Command> {
    let mut command = Command::new(find(DD)?);
    command.args(["if=/dev/zero", "bs=1M", "iflag=count_bytes", "status=none"]);
    command.arg(format!("count={bytes}")).arg(format!("of={}", file.display()));
    Some(command)
}

/// Writes zeroes past the page cache, a MiB at a time: the rate of the disk. On a file system
/// without direct I/O both this program and the command write through the page cache. `None` if
/// the program is not installed.
pub(crate) fn dd_direct(bytes: u64, file: &Path, is_direct: bool) -> Option<Command> {
    let mut command = Command::new(find(DD)?);
    command.args(["if=/dev/zero", "bs=1M", "status=none"]);
    command.args(is_direct.then_some("oflag=direct"));
    command.arg(format!("count={}", bytes.div_ceil(1 << 20)));
    command.arg(format!("of={}", file.display()));
    Some(command)
}
