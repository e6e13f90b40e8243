//! A named lab that exists as long as its test, and checks of its remains.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use wirelane_testkit::process::{output, run};

use super::shared::{PATIENCE, wirelane};

/// A name for a lab, which is taken down when the guard is dropped.
///
/// The name holds the process id, so that the next test process removes the lab of a killed one.
pub(crate) struct Bed {
    name: String,
}

const PREFIX: &str = "wlt";

impl Bed {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        static REAPER: Once = Once::new();
        REAPER.call_once(remove_leftovers);
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        Self { name: format!("{PREFIX}{}.{counter}", process::id()) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn namespace(&self, side: &str) -> String {
        format!("{}-{side}", self.name)
    }

    pub(crate) fn path(&self, side: &str) -> PathBuf {
        Path::new("/run/netns").join(self.namespace(side))
    }

    /// `wirelane lab ACTION --name … OPTIONS`.
    pub(crate) fn lab(&self, args: &[&str]) -> Command {
        let (action, options) = args.split_first().unwrap();
        let mut command = wirelane(["lab", action, "--name", &self.name]);
        command.args(options);
        command
    }

    /// `wirelane lab exec SIDE -- COMMAND`.
    pub(crate) fn exec<A: AsRef<OsStr>>(
        &self,
        side: &str,
        program: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = self.lab(&["exec", side, "--"]);
        command.args(program);
        command
    }

    /// Creates the lab.
    #[track_caller]
    pub(crate) fn up(&self, options: &[&str]) {
        run(&mut self.lab(&[&["up"], options].concat()));
    }

    /// The lab in the output of `status --json`.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let document: Value =
            serde_json::from_str(&run(&mut self.lab(&["status", "--json"]))).unwrap();
        assert_eq!(document["schema"], "wirelane.lab/1");
        let [lab] = &document["labs"].as_array().unwrap()[..] else { panic!("{document}") };
        assert_eq!(lab["name"], self.name);
        lab.clone()
    }

    /// Device and inode of the namespaces, which identify them.
    pub(crate) fn identity(&self) -> [(u64, u64); 2] {
        ["a", "b"].map(|side| {
            let metadata = fs::metadata(self.path(side)).unwrap();
            (metadata.dev(), metadata.ino())
        })
    }

    /// Whether no file and no mount has its names.
    pub(crate) fn is_gone(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let names = ["a", "b"].map(|side| self.path(side));
        names.iter().all(|path| fs::symlink_metadata(path).is_err())
            && !mounts.contains(&format!("/{}-", self.name))
    }

    /// Calls `action` with the calling thread inside the namespace.
    pub(crate) fn inside<T>(&self, side: &str, action: impl FnOnce() -> T) -> T {
        let outside = File::open("/proc/thread-self/ns/net").unwrap();
        enter(&File::open(self.path(side)).unwrap());
        let result = action();
        enter(&outside);
        result
    }

    /// Takes the lab down from a thread outside. Returns the output of `--json`.
    pub(crate) fn down_from_outside(&self, options: &[&str]) -> Value {
        let mut down = self.lab(&[&["down"], options].concat());
        let host = File::open(format!("/proc/{}/ns/net", process::id())).unwrap();
        let text = thread::scope(|scope| {
            let outside = scope.spawn(|| {
                enter(&host);
                run(&mut down)
            });
            outside.join().unwrap()
        });
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let ended = output(&mut self.lab(&["down", "--grace", "10ms"]));
        if !ended.status.success() && !thread::panicking() {
            eprintln!("{}", ended.stderr);
        }
    }
}

#[track_caller]
pub(crate) fn take_down(bed: &Bed) {
    run(&mut bed.lab(&["down"]));
}

/// The interfaces of the host.
pub(crate) fn host() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.collect()
}

/// Sends one datagram each way, from end a to end b and back.
#[track_caller]
pub(crate) fn exchange(bed: &Bed, near: IpAddr, far: IpAddr, payload: &[u8]) {
    let open = |side: &str, address| {
        let socket = bed.inside(side, || UdpSocket::bind((address, 0))).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (near, far) = (open("a", near), open("b", far));
    let mut buffer = [0; 1 << 16];
    near.send_to(payload, far.local_addr().unwrap()).unwrap();
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (payload, near.local_addr().unwrap()));
    far.send_to(b"answer", from).unwrap();
    let (length, from) = near.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"answer"[..], far.local_addr().unwrap()));
}

fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Takes down the labs of test processes that no longer exist.
fn remove_leftovers() {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some((lab, _)) = name.rsplit_once('-') else { continue };
        let owner = lab.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.'));
        let Some(owner) = owner.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            output(&mut wirelane(["lab", "down", "--name", lab]));
        }
    }
}
