//! Network namespaces that are removed when the test ends, even by a panic.
//!
//! ```no_run
//! # use wirelane_testkit::netns::Namespace;
//! let ns = Namespace::new();
//! let links = ns.run("ip", ["-br", "link"]);
//! let socket = ns.inside(|| std::net::UdpSocket::bind("127.0.0.1:0"));
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wirelane_os::iface;
use wirelane_os::netns::unshare_net;

use crate::process::{ChildGuard, output, run};
use crate::{privileged, tools};

/// A named network namespace. When the guard is dropped, it is deleted with everything in it.
///
/// Its name is `wl-<process id>-<counter>`. The process id shows which namespaces a killed test
/// process left behind; every process removes such leftovers when it creates its first namespace.
///
/// The loopback interface is up. IPv6 is off, because otherwise the kernel would send router
/// solicitations and multicast reports among the packets that a test counts; see
/// [`Self::enable_ipv6`].
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace.
    ///
    /// # Panics
    /// When it cannot be created: call [`privileged::require`] first.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "creating a namespace is not a default value")]
    pub fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        static REAPER: Once = Once::new();
        REAPER.call_once(remove_leftovers);

        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{counter}", process::id());
        run(ip().args(["netns", "add", &name]));
        // From here on the guard exists and deletes the namespace if one of the next steps panics.
        let namespace = Self { name };
        namespace.set_ipv6(false);
        namespace.ask_neighbours_patiently();
        run(ip().args(["-n", namespace.name(), "link", "set", "lo", "up"]));
        namespace
    }

    /// Its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the file to which `ip netns` binds it.
    pub fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// A command that runs `program` inside.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        // `ip netns exec` executes the program in the same process, so the process id of the child
        // is that of the program.
        let mut command = ip();
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `program` inside to its end, and returns its standard output.
    ///
    /// # Panics
    /// When it cannot be started or fails.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        run(self.command(program).args(args))
    }

    /// Starts `program` inside. It is killed when the returned guard is dropped.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> ChildGuard {
        ChildGuard::spawn(self.command(program).args(args))
    }

    /// Moves the calling thread inside until the returned guard is dropped.
    ///
    /// Until then the thread sees `/proc/net` and `/proc/sys/net` of the namespace, and creates
    /// sockets and TAP devices in it. Sockets remain in the namespace. `/sys/class/net` does not
    /// change: it shows the namespace of the process that mounted it. Threads that the thread
    /// starts inside remain there.
    ///
    /// # Panics
    /// When the thread cannot be moved.
    #[track_caller]
    pub fn enter(&self) -> Entered {
        let open = |path: &Path| {
            File::open(path)
                .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
        };
        let outside = open(Path::new("/proc/thread-self/ns/net"));
        move_thread(&open(&self.path()));
        Entered { outside, _not_send: PhantomData }
    }

    /// Calls `action` with the calling thread inside.
    #[track_caller]
    pub fn inside<T>(&self, action: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        action()
    }

    /// Opens a file of the `/sys` of the namespace, such as `class/net/tap0/carrier`, for reading.
    ///
    /// # Panics
    /// When there is no such file.
    #[track_caller]
    pub fn open_sysfs(&self, path: &str) -> File {
        let open = || openat(sysfs()?, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let file = self.inside(open);
        File::from(file.unwrap_or_else(|error| panic!("cannot open {path}: {error}")))
    }

    /// Turns IPv6 on for all interfaces, present and future.
    pub fn enable_ipv6(&self) {
        self.set_ipv6(true);
    }

    /// Raises the number of address requests to a neighbour. The kernel sends one request a second
    /// and gives up after three by default. That is too early when the processes between the
    /// neighbours get no CPU for that long. New interfaces of the namespace inherit the value.
    #[track_caller]
    fn ask_neighbours_patiently(&self) {
        self.inside(|| {
            for family in ["ipv4", "ipv6"] {
                let path = format!("/proc/sys/net/{family}/neigh/default/mcast_solicit");
                if Path::new(&path).exists() {
                    fs::write(&path, "60")
                        .unwrap_or_else(|error| panic!("cannot write {path}: {error}"));
                }
            }
        });
    }

    #[track_caller]
    fn set_ipv6(&self, on: bool) {
        let value = if on { "0" } else { "1" };
        self.inside(|| {
            for scope in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
                // A kernel without IPv6 has no such file and sends no IPv6 packets.
                if Path::new(&path).exists() {
                    fs::write(&path, value)
                        .unwrap_or_else(|error| panic!("cannot write {path}: {error}"));
                }
            }
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(reason) = remove(&self.name) {
            // A panic here would abort a test that is already panicking.
            eprintln!("{reason}");
        }
    }
}

/// Mounts a `/sys` that shows the network namespace of the calling thread.
pub(crate) fn sysfs() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Keeps the calling thread inside a namespace until it is dropped; see [`Namespace::enter`].
#[derive(Debug)]
pub struct Entered {
    outside: File,
    // The thread that entered must drop it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        move_thread(&self.outside);
    }
}

const PREFIX: &str = "wl-";
/// Where iproute2 keeps named namespaces (`NETNS_RUN_DIR`).
const DIRECTORY: &str = "/run/netns";

pub(crate) fn ip() -> Command {
    Command::new(tools::find("ip").unwrap_or_else(|| "ip".into()))
}

/// Runs `body` in a separate thread, inside a new namespace without a name, with `lo` up. Without
/// privileges it prints a note and skips, or fails when `WIRELANE_REQUIRE_PRIVILEGED=1`.
///
/// # Panics
/// When `body` panics, or when the namespace cannot be created.
pub fn in_new_namespace(body: impl FnOnce() + Send) {
    if !privileged::require() {
        return;
    }
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let made = unshare_net().and_then(|()| iface::up("lo"));
            made.unwrap_or_else(|error| panic!("cannot create a namespace: {error}"));
            body();
        });
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    });
}

#[track_caller]
fn move_thread(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .unwrap_or_else(|error| panic!("cannot move the thread to a network namespace: {error}"));
}

/// Kills the processes that still run inside the namespace `name`, then deletes it.
///
/// The kernel keeps a namespace and its interfaces as long as a process runs in it.
fn remove(name: &str) -> Result<(), String> {
    // A thread of this process may be inside; do not kill this process.
    let own = process::id().to_string();
    let pids = output(ip().args(["netns", "pids", name])).stdout;
    for pid in pids.lines().filter(|pid| *pid != own) {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let deleted = output(ip().args(["netns", "del", name]));
    if deleted.status.success() {
        return Ok(());
    }
    Err(format!("cannot delete the network namespace {name}: {}", deleted.stderr.trim()))
}

/// Removes the namespaces of test processes that no longer exist.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = owner(&name) else { continue };
        if Path::new(&format!("/proc/{owner}")).exists() {
            continue;
        }
        // Another process may be removing the same namespace. If the file is gone, that is no
        // error.
        if let Err(reason) = remove(&name)
            && entry.path().exists()
        {
            eprintln!("{reason}");
        }
    }
}

/// The process id in the name of a test namespace.
fn owner(name: &str) -> Option<u32> {
    let (owner, counter) = name.strip_prefix(PREFIX)?.split_once('-')?;
    counter.parse::<u32>().ok()?;
    owner.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn owner_is_the_process_id_in_the_name() {
        assert_eq!(owner("wl-123-0"), Some(123));
        for name in ["wl-123", "wl-123-x", "wl--1", "eth0", "xwl-1-2", ""] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
