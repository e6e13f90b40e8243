//! CPUs and NUMA nodes.

use crate::error::{OsError, Result};
use rustix::thread::{CpuSet, Pid};
use std::path::Path;
use std::sync::OnceLock;

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// `EINVAL` on a machine with more CPUs than the set can hold (1024).
pub fn allowed_cpus() -> Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|errno| OsError::new("sched_getaffinity", "this thread", errno))?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect())
}

/// Pins the calling thread to one CPU; threads that it starts later inherit the CPU.
///
/// # Errors
/// `EINVAL` for a CPU that does not exist, is offline, or is outside the process's cpuset.
pub fn pin(cpu: u32) -> Result<()> {
    pin_to(&[cpu])
}

/// Restricts the calling thread to these CPUs.
///
/// # Errors
/// As [`pin`], when none of them can be used.
pub fn pin_to(cpus: &[u32]) -> Result<()> {
    place(None, cpus)
}

/// Pins another thread, by its ID, to one CPU.
///
/// # Errors
/// As [`pin`]; `ESRCH` when there is no such thread, `EPERM` for a thread of another user, also
/// `EINVAL` for a kernel thread that is bound to its CPU.
pub fn pin_thread(thread: u32, cpu: u32) -> Result<()> {
    let missing = || OsError::from_errno("sched_setaffinity", thread.to_string(), libc::ESRCH);
    let pid = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or_else(missing)?;
    place(Some(pid), &[cpu])
}

fn place(thread: Option<Pid>, cpus: &[u32]) -> Result<()> {
    const CALL: &str = "sched_setaffinity";
    let object = || format!("CPU {cpus:?}");
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = usize::try_from(*cpu)
            .ok()
            .filter(|cpu| *cpu < CpuSet::MAX_CPU)
            .ok_or_else(|| OsError::from_errno(CALL, object(), libc::EINVAL))?;
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(thread, &set)
        .map_err(|errno| OsError::new(CALL, object(), errno))
}

/// The CPU that currently runs the calling thread.
pub fn current_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0)
}

/// The number of online CPUs, at least 1.
pub fn online_cpus() -> u32 {
    // SAFETY: sysconf reads a number and touches no memory of ours.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// Whether this machine has several NUMA nodes.
pub fn has_several_nodes() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    // A list such as `0-1` means several nodes; a single node is one number.
    let is_list = |text: String| text.trim().contains(['-', ',']);
    let ask = || crate::file::small("/sys/devices/system/node/online").is_ok_and(is_list);
    *SEVERAL.get_or_init(ask)
}

/// The NUMA node of a CPU, or `None` if the kernel does not report it: no such CPU, or no NUMA.
pub fn numa_node_of_cpu(cpu: u32) -> Option<u32> {
    node_among(&Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}")))
}

/// The directory of a CPU contains a link `nodeN`.
fn node_among(directory: &Path) -> Option<u32> {
    std::fs::read_dir(directory)
        .ok()?
        .filter_map(std::result::Result::ok)
        .find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_is_exact_and_of_this_thread_only() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        let last = *before.last().unwrap();
        std::thread::spawn(move || {
            pin(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            assert_eq!(current_cpu(), last);
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn impossible_cpus() {
        for cpus in [&[1023][..], &[1024], &[u32::MAX], &[]] {
            let error = pin_to(cpus).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        }
        assert_eq!(numa_node_of_cpu(u32::MAX), None);
    }

    #[test]
    fn online_covers_allowed() {
        assert!(online_cpus() as usize >= allowed_cpus().unwrap().len());
    }

    #[test]
    fn node_is_read_from_the_link() {
        let directory =
            std::env::temp_dir().join(format!("wirelane-os-cpu-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("topology")).unwrap();
        assert_eq!(node_among(&directory), None);
        std::fs::create_dir_all(directory.join("node3")).unwrap();
        assert_eq!(node_among(&directory), Some(3));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
