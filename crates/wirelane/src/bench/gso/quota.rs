//! A share of a CPU for some threads: a cgroup with a bandwidth limit, made and removed here.
//!
//! It is made below the cgroup that the process is in, as a *threaded* one where cgroups have version 2, so
//! that only the threads that join it are limited, and those that they start. Of version 1 it is a
//! directory of the `cpu` hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::gettid;

use crate::bench::leftovers;
use crate::error::{Error, Result};

/// The limit holds in each such span. Shorter than a TCP connection's patience, longer than a scheduler's
/// slice.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// A limit that threads can join.
#[derive(Debug)]
pub(super) struct Quota {
    directory: PathBuf,
    /// The file to write a thread's number to.
    members: &'static str,
    /// Where the controller was switched on, which it was not before.
    enabled: Option<PathBuf>,
}

impl Quota {
    /// `percent` of one CPU.
    ///
    /// # Errors
    /// There is no cgroup with a `cpu` controller that this process may divide.
    pub(super) fn new(percent: u64) -> Result<Self> {
        let (parent, version) = own_cgroup()?;
        leftovers::clear(&parent);
        let directory = leftovers::path_in(&parent);
        match fs::create_dir(&directory) {
            // Of a process of the same number that was killed.
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

    /// Puts the calling thread under the limit, and all threads that it starts from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn join(&self) -> Result<()> {
        self.write(self.members, &gettid().as_raw_nonzero().to_string())
    }

    /// Puts a thread of the kernel under the limit.
    ///
    /// # Errors
    /// The system refuses, as version 2 does outside the root.
    pub(super) fn add(&self, thread: u32) -> Result<()> {
        self.write(self.members, &thread.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, value).map_err(|error| failed(&path, "write", error))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        leftovers::remove(&self.directory);
        if let Some(control) = &self.enabled {
            // Others may have divided the cgroup meanwhile; then it stays.
            let _ = fs::write(control, "-cpu");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// Where the cgroup of this process is that divides CPU time.
pub(super) fn own_cgroup() -> Result<(PathBuf, Version)> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|error| failed(Path::new(path), "read", error))
    };
    let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    locate(&mounts, &own).ok_or_else(|| {
        Error::failed("CPU quota", "no cgroup hierarchy with a cpu controller is mounted")
    })
}

/// As [`own_cgroup`], from `mountinfo` and `cgroup` of `/proc/self` (proc(5), cgroups(7)). Version 1 first:
/// where it has the controller, version 2 has it not.
fn locate(mounts: &str, own: &str) -> Option<(PathBuf, Version)> {
    let own_path = |is_wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_wanted(controllers).then_some(path)
        })
    };
    let has_cpu = |list: &str| list.split(',').any(|name| name == "cpu");
    let find = |kind: &str, is_wanted: &dyn Fn(&str) -> bool, path: &str| {
        mounts.lines().find_map(|line| {
            let (place, filesystem) = line.split_once(" - ")?;
            let mut filesystem = filesystem.split(' ');
            let (type_, options) = (filesystem.next()?, filesystem.nth(1)?);
            let mut place = place.split(' ').skip(3);
            let (root, point) = (place.next()?, place.next()?);
            if type_ != kind || !is_wanted(options) {
                return None;
            }
            let below = Path::new(path).strip_prefix(root).ok()?;
            Some(Path::new(point).join(below))
        })
    };
    let first = own_path(&has_cpu).and_then(|path| find("cgroup", &has_cpu, path));
    if let Some(directory) = first {
        return Some((directory, Version::One));
    }
    let path = own_path(&str::is_empty)?;
    find("cgroup2", &|_| true, path).map(|directory| (directory, Version::Two))
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
    fn own_cgroup_is_found_in_both_versions() {
        let mixed = "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                     31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                     39 25 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/user\n";
        let found = locate(mixed, own).unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/cpu/a/b".into(), Version::One));
        let unified =
            "26 24 0:24 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = locate(unified, "0::/user.slice/x.scope\n").unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/user.slice/x.scope".into(), Version::Two));
        // A part of the hierarchy, as containers see it.
        let part = "26 24 0:24 /box /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(locate(part, "0::/box/in\n").unwrap().0, Path::new("/sys/fs/cgroup/in"));
        assert_eq!(locate(part, "0::/elsewhere\n"), None);
        assert_eq!(locate("", "0::/\n"), None);
        assert_eq!(locate("x - cgroup2", "::"), None);
    }

    #[test]
    fn privileged_a_thread_gets_its_share_and_no_cgroup_stays() {
        if !privileged::require() {
            return;
        }
        let quota = match Quota::new(10) {
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
        // 40 ms, and what the scheduler hands out in advance.
        assert!(used < Duration::from_millis(120), "{used:?}");
        drop(quota);
        assert!(!directory.exists());
    }
}
