//! A service manager, played by the test: READY, the watchdog, STOPPING, and a restart.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Instant;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::{privileged, tools};

use super::*;

/// The service manager's socket.
struct Manager {
    socket: UnixDatagram,
    directory: TempDir,
}

impl Manager {
    fn new() -> Self {
        let directory = tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts `wirelane ARGS` as the service manager does, with this time for the watchdog.
    fn start(&self, args: &[&str], watchdog: Duration) -> ChildGuard {
        let mut command = wirelane(args);
        command.env("NOTIFY_SOCKET", self.path("notify"));
        command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        ChildGuard::spawn(&mut command)
    }

    /// The next message.
    #[track_caller]
    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Whether the watchdog is fed within `time`.
    fn is_fed_within(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            let mut buffer = [0; 4096];
            if let Ok(length) = self.socket.recv(&mut buffer)
                && &buffer[..length] == b"WATCHDOG=1"
            {
                return true;
            }
        }
    }
}

/// Nearly no packets: the watchdog must be fed nevertheless.
const SILENT: &str = "sim:2?rate=1pps";

#[test]
fn it_is_ready_feeds_the_watchdog_and_says_that_it_stops() {
    let manager = Manager::new();
    let store = manager.path("store");
    let file = manager.path("x.pcapng");
    let commands: [&[&str]; 4] = [
        &["record", "-q", SILENT, store.to_str().unwrap()],
        &["capture", "-q", SILENT, "-w", file.to_str().unwrap()],
        &["flows", "-q", SILENT],
        &["count", "-q", SILENT],
    ];
    for command in commands {
        let child = manager.start(command, Duration::from_secs(3));
        let ready = manager.next();
        assert!(ready.starts_with("READY=1\nSTATUS="), "{ready}");
        assert!(ready.contains(command[0]) && ready.contains("sim"), "{ready}");
        for _ in 0..3 {
            assert!(manager.is_fed_within(PATIENCE), "{command:?}");
        }
        child.interrupt();
        let last = std::iter::repeat_with(|| manager.next()).find(|text| text != "WATCHDOG=1");
        assert_eq!(last.unwrap(), "STOPPING=1\nSTATUS=stopping", "{command:?}");
        assert!(child.wait(PATIENCE).status.success());
    }
}

#[test]
fn a_command_that_cannot_start_is_never_ready() {
    let manager = Manager::new();
    let child = manager.start(&["capture", "sim:0"], Duration::from_secs(3));
    assert!(!child.wait(PATIENCE).status.success());
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 64]).is_err());
}

/// Stops a single thread. The thread runs again when this program ends.
const STOP_THREAD: &str = "
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
seize, interrupt = 0x4206, 0x4207
thread = int(sys.argv[1])
def ptrace(request):
    if libc.ptrace(request, thread, None, None) != 0:
        sys.exit('ptrace: errno %d' % ctypes.get_errno())
ptrace(seize)
ptrace(interrupt)
every_thread = 0x40000000
libc.waitpid(thread, None, every_thread)
print('stopped', flush=True)
time.sleep(60)
";

/// The id of the thread with this name.
fn thread_of(child: &ChildGuard, name: &str) -> Option<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
    threads.flatten().find_map(|thread| {
        let comm = fs::read_to_string(thread.path().join("comm")).ok()?;
        (comm.trim() == name).then(|| thread.file_name().into_string().ok())?
    })
}

#[test]
fn privileged_a_stuck_receiving_thread_ends_the_feeding() {
    if !privileged::require() || !tools::require("python3") {
        return;
    }
    let manager = Manager::new();
    let mut child = manager.start(&["count", "-q", SILENT], Duration::from_secs(3));
    assert!(manager.is_fed_within(PATIENCE));
    child.wait_until(PATIENCE, |child| thread_of(child, "wl-rx1").is_some());
    let thread = thread_of(&child, "wl-rx1").unwrap();
    let mut command = Command::new("python3");
    let mut stopper = ChildGuard::spawn(command.args(["-c", STOP_THREAD, &thread]));
    stopper.wait_until(PATIENCE, |stopper| stopper.stdout().contains("stopped"));
    // A feed may have been under way.
    manager.is_fed_within(Duration::from_secs(2));
    assert!(!manager.is_fed_within(Duration::from_secs(5)));
    // The thread works again, and so does the feeding.
    drop(stopper);
    assert!(manager.is_fed_within(PATIENCE));
    child.interrupt();
    assert!(child.wait(PATIENCE).status.success());
}
