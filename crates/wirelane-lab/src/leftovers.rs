//! Objects that a benchmark creates outside its process. A later benchmark removes them if it is
//! killed.
//!
//! Namespaces, interfaces, programs and most files end with the process, however it ends. Two
//! objects have a name: the cgroup of a CPU quota, and the folder of files that a capture or
//! another program opens. The name contains the process id and its PID namespace, because
//! containers share folders but do not see each other's processes. So unused objects can be
//! recognised.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_os::cgroup;

const PREFIX: &str = "wirelane-bench-";
/// The files of a cgroup that hold its threads, in version 1 and in version 2.
pub const MEMBERS: [&str; 2] = ["tasks", "cgroup.threads"];
/// How long to wait until a cgroup is empty.
const PATIENCE: Duration = Duration::from_secs(10);
/// The directory of files in memory (`shm_overview(7)`).
pub const MEMORY: &str = "/dev/shm";

/// The path of this process's folder in `parent`.
pub fn path_in(parent: &Path) -> PathBuf {
    parent.join(name_of(std::process::id(), own_namespace()))
}

fn name_of(process: u32, namespace: u64) -> String {
    format!("{PREFIX}{process}-{namespace}")
}

/// The process and the PID namespace in a folder's name.
fn owner_of(name: &str) -> Option<(u32, u64)> {
    let (process, namespace) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((process.parse().ok()?, namespace.parse().ok()?))
}

/// The number of this process's PID namespace (`namespaces(7)`); 0 if the kernel has none.
fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// A folder of this process in another one. It exists only while it is needed, and at the latest
/// until this is dropped. An open file can be written and measured after its name is removed, so it
/// ends with the process even if that is killed.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A folder in `parent`, which must be writable. Removes leftovers of killed benchmarks from
    /// `parent`.
    pub fn new(parent: &Path) -> Result<Self> {
        clear(parent);
        let folder = Self(path_in(parent));
        folder.make()?;
        folder.remove();
        Ok(folder)
    }

    /// Creates the folder again.
    ///
    /// # Errors
    /// The system refuses.
    pub fn make(&self) -> Result<()> {
        fs::create_dir(&self.0)
            .map_err(|error| Error::io(self.0.display().to_string(), "create", error))
    }

    /// The path of a file in it, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Removes the folder with all its files.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Leftovers of killed benchmarks.
#[derive(Debug, Default)]
pub struct Swept {
    /// Objects that were removed.
    pub removed: Vec<PathBuf>,
    /// Objects that could not be removed.
    pub left: Vec<PathBuf>,
}

/// Removes the leftovers of killed benchmarks from memory, temporary files and cgroups.
///
/// Leftovers on a disk are removed by the next benchmark with the same folder.
pub fn sweep() -> Swept {
    let mut swept = Swept::default();
    sweep_in(Path::new(MEMORY), &mut swept);
    sweep_in(&std::env::temp_dir(), &mut swept);
    // The killed process may have been in another cgroup, such as the cgroup of an ended login
    // session.
    if let Some((own, _)) = cgroup::own("cpu") {
        let is_cgroup = |path: &&Path| path.join("cgroup.procs").exists();
        let root = own.ancestors().take_while(is_cgroup).last();
        sweep_below(root.unwrap_or(&own), DEPTH, &mut swept);
    }
    swept
}

/// Cgroups are rarely nested more deeply.
const DEPTH: u32 = 16;

fn sweep_below(cgroup: &Path, depth: u32, swept: &mut Swept) {
    sweep_in(cgroup, swept);
    let Ok(entries) = fs::read_dir(cgroup) else { return };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.flatten().filter(|entry| depth > 0 && is_directory(entry)) {
        sweep_below(&entry.path(), depth - 1, swept);
    }
}

/// Removes leftovers from one folder. Ignores failures.
pub fn clear(parent: &Path) {
    sweep_in(parent, &mut Swept::default());
}

fn sweep_in(parent: &Path, swept: &mut Swept) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own = own_namespace();
    let found = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        // Processes of other PID namespaces are invisible here.
        let owner = name.to_str().and_then(owner_of).filter(|(_, namespace)| *namespace == own);
        owner.is_some_and(|(pid, _)| !Path::new("/proc").join(pid.to_string()).exists())
    });
    for path in found.map(|entry| entry.path()).filter(|path| is_ours(path)) {
        let end = if remove(&path) { &mut swept.removed } else { &mut swept.left };
        end.push(path);
    }
}

/// Whether it is a folder of the same user.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
}

/// Removes a folder or a cgroup. A cgroup is removed although it lists files, which cannot be
/// removed themselves, but only once it has no members.
pub fn remove(path: &Path) -> bool {
    let patience = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return true,
            Err(error) if error.kind() != ErrorKind::ResourceBusy => {
                return fs::remove_dir_all(path).is_ok();
            }
            Err(_) if Instant::now() >= patience => return false,
            Err(_) => {
                release_members(path);
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Moves the members of a dead owner's cgroup to its parent. They are kernel threads, which run
/// until the interface that they receive for is torn down, or killed processes, which end soon.
fn release_members(cgroup: &Path) {
    let Some(parent) = cgroup.parent() else { return };
    for file in MEMBERS {
        let members = fs::read_to_string(cgroup.join(file)).unwrap_or_default();
        for member in members.lines() {
            // It may have ended since.
            let _ = fs::write(parent.join(file), member);
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
        let path = |process, namespace| folder.path().join(name_of(process, namespace));
        let dead = path(1 << 23, own_namespace());
        let elsewhere = name_of(1 << 23, own_namespace() + 1);
        let others = ["wirelane-bench-", "wirelane-bench-x", "something else", &elsewhere];
        for path in [&own, &dead] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("capture.pcapng"), "x").unwrap();
        }
        others.iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        let target = tempfile::tempdir().unwrap();
        let link = path((1 << 23) + 1, own_namespace());
        std::os::unix::fs::symlink(target.path(), &link).unwrap();
        let mut swept = Swept::default();
        sweep_in(folder.path(), &mut swept);
        assert_eq!((swept.removed, swept.left), (vec![dead.clone()], vec![]));
        assert!(!dead.exists() && own.exists() && target.path().exists());
        assert!(others.iter().all(|name| folder.path().join(name).exists()));
        assert!(fs::symlink_metadata(link).is_ok(), "a link is left alone");
        clear(&folder.path().join("none"));
    }
}
