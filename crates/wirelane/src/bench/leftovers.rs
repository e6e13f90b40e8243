//! What a benchmark makes where others see it, and removing what one that was killed left of that.
//!
//! Namespaces, interfaces, programs and most files go with the process, whatever ends it. Two things have a
//! name: the cgroup of a CPU quota, and for a moment the folder in which a capture opens its files. The name
//! holds the process id, so that one that nobody uses any more can be told.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::gso;

const PREFIX: &str = "wirelane-bench-";
/// Where files in memory are (`shm_overview(7)`).
pub(super) const MEMORY: &str = "/dev/shm";

/// The folder of this process in another one.
pub(super) fn path_in(parent: &Path) -> PathBuf {
    parent.join(format!("{PREFIX}{}", std::process::id()))
}

/// Removes what benchmarks that were killed left in memory and among cgroups. Returns it.
///
/// What they left on a disk that was named is removed by the next one that is given it.
pub fn sweep() -> Vec<PathBuf> {
    let mut removed = sweep_in(Path::new(MEMORY));
    // It may have been in another one, such as that of a session that has ended.
    if let Some(own) = gso::cgroup() {
        let is_cgroup = |path: &&Path| path.join("cgroup.procs").exists();
        let root = own.ancestors().take_while(is_cgroup).last();
        sweep_below(root.unwrap_or(&own), DEPTH, &mut removed);
    }
    removed
}

/// Cgroups are nested less deeply, as people use them.
const DEPTH: u32 = 16;

fn sweep_below(cgroup: &Path, depth: u32, removed: &mut Vec<PathBuf>) {
    removed.extend(sweep_in(cgroup));
    let Ok(entries) = fs::read_dir(cgroup) else { return };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.flatten().filter(|entry| depth > 0 && is_directory(entry)) {
        sweep_below(&entry.path(), depth - 1, removed);
    }
}

/// The same of one folder. What cannot be removed stays, without a word: it is in nobody's way.
pub(super) fn sweep_in(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let left = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
    let paths = left.map(|entry| entry.path());
    paths.filter(|path| is_ours(path) && remove(path)).collect()
}

/// Whether it is a folder of the same user.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
}

/// A cgroup can be removed though it shows files, and its files cannot; but not before the last process in it
/// has ended, which takes those that were killed a moment.
fn remove(path: &Path) -> bool {
    let patience = Instant::now() + Duration::from_secs(2);
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return true,
            Err(error) if error.kind() != ErrorKind::ResourceBusy => {
                return fs::remove_dir_all(path).is_ok();
            }
            Err(_) if Instant::now() >= patience => return false,
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_uses_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = path_in(folder.path());
        // No process has this number: it is above PID_MAX_LIMIT.
        let dead = folder.path().join(format!("{PREFIX}{}", 1 << 23));
        let others = ["wirelane-bench-", "wirelane-bench-x", "something else"];
        for path in [&own, &dead] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("capture.pcapng"), "x").unwrap();
        }
        others.iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        let elsewhere = tempfile::tempdir().unwrap();
        let link = folder.path().join(format!("{PREFIX}{}", (1 << 23) + 1));
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        assert_eq!(sweep_in(folder.path()), std::slice::from_ref(&dead));
        assert!(!dead.exists() && own.exists() && elsewhere.path().exists());
        assert!(others.iter().all(|name| folder.path().join(name).exists()));
        assert!(fs::symlink_metadata(link).is_ok(), "a link is left alone");
        assert!(sweep_in(&folder.path().join("none")).is_empty());
    }
}
