//! A share of a CPU for some threads: a cgroup with a bandwidth limit, which this module makes and
//! removes.
//!
//! With cgroup version 2, it is a *threaded* cgroup below the cgroup of the process: it limits only
//! the threads that join it, and threads that they start. With version 1, it is a directory of the
//! `cpu` hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::gettid;
use wirelane_os::cgroup::{self, Version};

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers;

/// The period of the limit. It is shorter than the retransmission timeout of TCP and longer than a
/// scheduler's slice.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// A limit that threads can join.
#[derive(Debug)]
pub(super) struct CpuQuota {
    directory: PathBuf,
    /// The file to write a thread's number to.
    members: &'static str,
    /// The file that enabled the controller; `None` if the controller was enabled before.
    enabled: Option<PathBuf>,
}

impl CpuQuota {
    /// `percent` of one CPU.
    ///
    /// # Errors
    /// There is no cgroup with a `cpu` controller that this process may divide.
    pub(super) fn new(percent: u64) -> Result<Self> {
        let (parent, version) = own_cgroup()?;
        leftovers::clear(&parent);
        let directory = leftovers::path_in(&parent);
        match fs::create_dir(&directory) {
            // Left by a killed process with the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failed(&directory, "mkdir", error))?,
        }
        let members = leftovers::MEMBERS[usize::from(version == Version::Two)];
        let mut quota = Self { directory, members, enabled: None };
        let period = PERIOD.as_micros();
        let limit = period * u128::from(percent) / 100;
        match version {
            Version::One => {
                quota.write("cpu.cfs_period_us", &period.to_string())?;
                quota.write("cpu.cfs_quota_us", &limit.to_string())?;
            }
            Version::Two => {
                quota.write("cgroup.type", "threaded")?;
                let control = parent.join("cgroup.subtree_control");
                let enabled = fs::read_to_string(&control).unwrap_or_default();
                if !enabled.split_whitespace().any(|name| name == "cpu") {
                    fs::write(&control, "+cpu")
                        .map_err(|error| failed(&control, "write", error))?;
                    quota.enabled = Some(control);
                }
                quota.write("cpu.max", &format!("{limit} {period}"))?;
            }
        }
        Ok(quota)
    }

    /// Limits the calling thread, and all threads that it starts later.
    pub(super) fn join(&self) -> Result<()> {
        self.write(self.members, &gettid().as_raw_nonzero().to_string())
    }

    /// Limits a kernel thread.
    ///
    /// # Errors
    /// The system refuses, as version 2 does outside of the root cgroup.
    pub(super) fn add(&self, thread: u32) -> Result<()> {
        self.write(self.members, &thread.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, value).map_err(|error| failed(&path, "write", error))
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        leftovers::remove(&self.directory);
        if let Some(control) = &self.enabled {
            // Other programs may have divided the cgroup since; then the controller stays enabled.
            let _ = fs::write(control, "-cpu");
        }
    }
}

/// The cgroup of this process in the hierarchy that divides CPU time.
pub(super) fn own_cgroup() -> Result<(PathBuf, Version)> {
    cgroup::own("cpu").ok_or_else(|| {
        Error::failed("CPU quota", "no cgroup hierarchy with a cpu controller is mounted")
    })
}

fn failed(path: &Path, call: &'static str, error: io::Error) -> Error {
    let lacks_privilege =
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    let error = Error::io(format!("CPU quota '{}'", path.display()), call, error);
    if lacks_privilege {
        error.help("it needs a cgroup that this process may divide")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use wirelane_testkit::privileged;

    #[test]
    fn privileged_a_thread_gets_its_share_and_no_cgroup_stays() {
        if !privileged::require() {
            return;
        }
        let quota = match CpuQuota::new(10) {
            Ok(quota) => quota,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let directory = quota.directory.clone();
        assert!(directory.is_dir());
        let used = std::thread::scope(|scope| {
            let spin = || {
                quota.join().unwrap();
                let (begin, before) = (Instant::now(), wirelane_os::clock::thread_cpu());
                while begin.elapsed() < Duration::from_millis(400) {}
                wirelane_os::clock::thread_cpu().since(before).total()
            };
            scope.spawn(spin).join().unwrap()
        });
        // 40 ms, and the slices that the scheduler hands out in advance.
        assert!(used < Duration::from_millis(120), "{used:?}");
        drop(quota);
        assert!(!directory.exists());
    }
}
