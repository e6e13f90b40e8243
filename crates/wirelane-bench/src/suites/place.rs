//! Where suites write files, and `dd`, which shows how fast a file system takes them.

use std::path::Path;
use std::process::Command;

use crate::peers::find;
use crate::report::Report;
use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::{self, Folder};

/// The program that writes as many bytes as ours.
pub(crate) const DD: &str = "dd";
/// Files in memory take no more than this, nor half of what is free.
const MOST_IN_MEMORY: u64 = 4 << 30;
/// Files on a disk take no more than this: it may be slow.
const MOST_ON_DISK: u64 = 1 << 30;

/// A folder to write to.
pub(crate) struct Place {
    /// Its name in rows.
    pub(crate) name: &'static str,
    pub(crate) folder: Folder,
    /// Bytes that all files of a run may take.
    pub(crate) most: u64,
}

impl Place {
    /// One in memory, and one in the folder `disk` if there is one. A place that cannot be used is
    /// skipped with the reason.
    pub(crate) fn all(
        disk: Option<&Path>,
        suite: &'static str,
        case: &'static str,
        report: &mut Report,
    ) -> Vec<Self> {
        let memory = ("memory", Path::new(leftovers::MEMORY), MOST_IN_MEMORY);
        let disk = disk.map(|disk| ("disk", disk, MOST_ON_DISK));
        let places = [memory].into_iter().chain(disk);
        let open = |(name, parent, most)| match Self::new(name, parent, most) {
            Ok(place) => Some(place),
            Err(error) => {
                report.skip(suite, case, error.to_string());
                None
            }
        };
        places.filter_map(open).collect()
    }

    fn new(name: &'static str, parent: &Path, most: u64) -> Result<Self> {
        let folder = Folder::new(parent)?;
        let found = rustix::fs::statvfs(parent);
        let found = found
            .map_err(|errno| Error::io(parent.display().to_string(), "statvfs", errno.into()))?;
        Ok(Self { name, folder, most: most.min(found.f_frsize * found.f_bavail / 2) })
    }
}

/// Writes so many zeroes to a new file as fast as it can; `None` if it is not installed.
pub(crate) fn dd(bytes: u64, file: &Path) -> Option<Command> {
    let mut command = Command::new(find(DD)?);
    command.args(["if=/dev/zero", "bs=1M", "iflag=count_bytes", "status=none"]);
    command.arg(format!("count={bytes}")).arg(format!("of={}", file.display()));
    Some(command)
}

/// Writes as many zeroes past the page cache, a MiB at a time: what the disk takes. A file system
/// that cannot gets them through the page cache, as ours then do; `None` if it is not installed.
pub(crate) fn dd_direct(bytes: u64, file: &Path, is_direct: bool) -> Option<Command> {
    let mut command = Command::new(find(DD)?);
    command.args(["if=/dev/zero", "bs=1M", "status=none"]);
    if is_direct {
        command.arg("oflag=direct");
    }
    command.arg(format!("count={}", bytes.div_ceil(1 << 20)));
    command.arg(format!("of={}", file.display()));
    Some(command)
}
