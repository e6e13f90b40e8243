//! Which users may send requests to which commands.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;
use wirelane_testkit::privileged;
use wirelane_testkit::process::copy_program;

use super::*;

/// A user id without other processes on this machine, so that it sees only its own commands.
struct Stranger(u32);

impl Stranger {
    /// One of several user ids of this process.
    fn new(number: u32) -> Self {
        Self(1_000_000 + 8 * std::process::id() + number)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        for entry in fs::read_dir("/tmp").unwrap().flatten() {
            if entry.metadata().is_ok_and(|file| file.uid() == self.0) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A copy of the command that every user can run.
fn for_everybody() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("wirelane");
    copy_program(Path::new(WIRELANE), &program);
    (directory, program)
}

/// `program` as `user`.
pub(super) fn as_user(user: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let [uid, gid] = ["--reuid", "--regid"].map(|option| format!("{option}={user}"));
    command.args([&uid, &gid, "--clear-groups"]).arg(program).current_dir("/");
    command
}

#[test]
fn privileged_without_a_process_id_it_is_the_only_one() {
    if !privileged::require() {
        return;
    }
    let (_directory, program) = for_everybody();
    let stranger = Stranger::new(0);
    let user = stranger.0;
    let stats = |args: &[&str]| output(as_user(user, &program).arg("stats").args(args));
    assert_refused(&stats(&[]), 1, &["stats: ", "of this user is running", "; root sees"]);
    let start = |port: &str| {
        let mut command = as_user(user, &program);
        let mut child = ChildGuard::spawn(command.args(["capture", "-q", port]));
        let pid = child.id().to_string();
        child.wait_until(PATIENCE, |_| output(&mut wirelane(["mask", &pid])).status.success());
        child
    };
    let one = start("sim:1?rate=1kpps");
    let only = stats(&[]);
    assert!(only.stdout.starts_with(&format!("process {}: ", one.id())), "{}", only.stdout);

    let two = start("sim:2?rate=1kpps");
    let several = stats(&[]);
    assert_eq!((several.status.code(), several.stderr.as_str()), (Some(0), ""));
    let lines: Vec<_> = several.stdout.lines().collect();
    assert!(lines[0].starts_with("pid "), "{lines:?}");
    let mut pids = [(one.id(), "sim:1?rate=1kpps"), (two.id(), "sim:2?rate=1kpps")];
    pids.sort_unstable();
    for (line, (pid, port)) in lines[1..].iter().zip(pids) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words[0], words[1], words[4]), (pid.to_string().as_str(), "capture", port));
    }
    assert_eq!(lines[3..], ["choose one: wirelane stats PID"]);
    let json: Value = serde_json::from_str(&stats(&["--json"]).stdout).unwrap();
    assert_eq!(json["schema"], "wirelane.sessions/1");
    assert_eq!(json["sessions"][1]["pid"], pids[1].0);
    assert_eq!(json["sessions"][1]["ports"][0], pids[1].1);
    // Root sees the commands of all users.
    let all: Value =
        serde_json::from_str(&output(&mut wirelane(["stats", "--json"])).stdout).unwrap();
    let all: Vec<_> =
        all["sessions"].as_array().unwrap().iter().map(|row| number(&row["pid"])).collect();
    assert!(all.contains(&one.id().into()) && all.contains(&two.id().into()), "{all:?}");

    // A killed command leaves its socket, but is not listed.
    two.signal(Signal::KILL);
    two.wait(PATIENCE);
    let only = stats(&[]);
    assert!(only.stdout.starts_with(&format!("process {}: ", one.id())), "{}", only.stdout);
    one.interrupt();
    one.wait(PATIENCE);
    assert_refused(&stats(&[]), 1, &["of this user is running"]);
}

#[test]
fn privileged_other_users_may_not_ask() {
    if !privileged::require() {
        return;
    }
    let (_directory, program) = for_everybody();
    let strangers = (Stranger::new(1), Stranger::new(2));
    let (owner, other) = (strangers.0.0, strangers.1.0);
    let mut capture =
        ChildGuard::spawn(as_user(owner, &program).args(["capture", "-q", "sim:1?rate=1kpps"]));
    let pid = capture.id().to_string();
    capture.wait_until(PATIENCE, |_| output(&mut wirelane(["mask", &pid])).status.success());
    for command in ["mask", "offload", "stats"] {
        let refused = output(as_user(other, &program).args([command, &pid]));
        let help = format!("; it belongs to user {owner}; run this as that user or as root");
        assert_refused(&refused, 1, &["EACCES", &help]);
    }
    assert_refused(&output(as_user(other, &program).arg("stats")), 1, &["of this user is running"]);
    // The same if the socket's permissions are wrong: the process checks the peer.
    let socket = sockets_of(capture.id()).pop().unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = output(as_user(other, &program).args(["mask", &pid, "--rx-queues", "none"]));
    assert_refused(&refused, 1, &["only its own user and root may send requests"]);
    assert_eq!(output(&mut wirelane(["mask", &pid])).stdout, "rx all tx all other on\n");

    // Sockets of another user under the command's name get no requests, with or without a listener.
    let mut others = Vec::new();
    for number in 0..40 {
        let path = PathBuf::from(format!("/tmp/wirelane-{pid}-{number}.sock"));
        others.push(UnixListener::bind(&path).unwrap());
        chown(&path, Some(other), Some(other)).unwrap();
    }
    others.truncate(20);
    for asked in [
        output(&mut wirelane(["mask", &pid])),
        output(as_user(owner, &program).args(["mask", &pid])),
    ] {
        assert_eq!(asked.stdout, "rx all tx all other on\n", "{}", asked.stderr);
    }
    capture.interrupt();
    assert_eq!(capture.wait(PATIENCE).status.code(), Some(0));
}
