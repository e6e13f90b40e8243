//! The directories of control sockets, and disturbances there: logins and logouts, other PID
//! namespaces, and names that strangers create. Each test has private directories, so that it does
//! not meet other tests and users.

use std::env;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use rustix::process::Signal;
use wirelane_testkit::{privileged, process};

use super::users::as_user;
use super::*;

/// Marks the process inside the namespaces.
const INSIDE: &str = "WIRELANE_TEST_PLACES";
/// The command, where every user can run it.
const PROGRAM: &str = "/run/bin/wirelane";
const USER: u32 = 1_000_001;
const STRANGER: u32 = 1_000_002;

/// Runs the test `name` of this file as a separate process, in a mount namespace with an empty
/// `/run` and `/tmp`, and in a PID namespace: `wirelane stats` also lists programs over the libpcap
/// of other tests, which it finds in `/proc`. True in that process.
#[track_caller]
fn inside(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    if !privileged::require() {
        return false;
    }
    let test = env::current_exe().unwrap();
    let script = "mount -t tmpfs -o mode=755 wirelane /run && mkdir /run/bin /run/test /run/user && \
                  mount --bind \"$0\" /run/bin && mount --bind \"$1\" /run/test && \
                  mount -t tmpfs -o mode=1777 wirelane /tmp && \
                  exec \"/run/test/$2\" --exact \"places::$3\" --nocapture";
    let mut command = Command::new("unshare");
    command.args(["-mpf", "--mount-proc", "--kill-child", "sh", "-ec", script]);
    command.current_dir("/").env(INSIDE, "1");
    command.arg(Path::new(WIRELANE).parent().unwrap()).arg(test.parent().unwrap());
    let said = process::run(command.arg(test.file_name().unwrap()).arg(name));
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// Starts a capture as `user`, and waits until it answers requests.
#[track_caller]
fn start(user: u32) -> ChildGuard {
    let mut command = as_user(user, Path::new(PROGRAM));
    ready(ChildGuard::spawn(command.args(["capture", "-q", "sim:1?rate=1kpps"])))
}

#[track_caller]
fn ready(mut child: ChildGuard) -> ChildGuard {
    let pid = child.id();
    child.wait_until(PATIENCE, |_| answers(0, pid));
    child
}

/// Whether the process answers `user`.
fn answers(user: u32, pid: u32) -> bool {
    let mut command = as_user(user, Path::new(PROGRAM));
    output(command.args(["mask", &pid.to_string()])).stdout == "rx all tx all other on\n"
}

/// The processes that `wirelane stats --json` lists for `user`: the answering ones, and the silent
/// ones.
#[track_caller]
fn listed(user: u32) -> [Vec<u64>; 2] {
    let mut command = as_user(user, Path::new(PROGRAM));
    let json: Value =
        serde_json::from_str(&process::run(command.args(["stats", "--json"]))).unwrap();
    if json["schema"] == "wirelane.stats/1" {
        return [vec![number(&json["pid"])], vec![]];
    }
    assert_eq!(json["schema"], "wirelane.sessions/1");
    let known = json["sessions"].as_array().unwrap().iter().map(|row| number(&row["pid"]));
    [known.collect(), json["silent"].as_array().unwrap().iter().map(number).collect()]
}

#[track_caller]
fn finish(child: ChildGuard) {
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
}

/// Files in both directories with a name of Wirelane.
fn left() -> Vec<PathBuf> {
    let entries = ["/run", "/tmp"].map(|place| fs::read_dir(place).unwrap().flatten());
    let names = entries.into_iter().flatten().map(|entry| entry.path());
    names.filter(|path| path.to_string_lossy().contains("/wirelane")).collect()
}

fn sorted(mut pids: Vec<u64>) -> Vec<u64> {
    pids.sort_unstable();
    pids
}

#[test]
fn privileged_a_login_or_a_logout_makes_no_command_unreachable() {
    if !inside("privileged_a_login_or_a_logout_makes_no_command_unreachable") {
        return;
    }
    for user in [USER, 0] {
        let runtime = format!("/run/user/{user}");
        let before = start(user);
        let ask = |children: &[&ChildGuard]| {
            for (child, asker) in children.iter().flat_map(|child| [(child, user), (child, 0)]) {
                assert!(answers(asker, child.id()), "user {asker} does not reach {}", child.id());
                let pid = u64::from(child.id());
                assert!(listed(asker)[0].contains(&pid), "user {asker} does not see {pid}");
            }
        };
        // As pam_systemd(8) makes and removes it.
        fs::create_dir(&runtime).unwrap();
        let owner = format!("mode=700,uid={user}");
        process::run(
            Command::new("mount").args(["-t", "tmpfs", "-o", &owner, "wirelane", &runtime]),
        );
        ask(&[&before]);
        let between = start(user);
        ask(&[&before, &between]);
        process::run(Command::new("umount").args(["-l", &runtime]));
        fs::remove_dir(&runtime).unwrap();
        ask(&[&before, &between]);
        finish(before);
        finish(between);
    }
    assert_eq!(left(), [] as [PathBuf; 0]);
}

#[test]
fn privileged_nothing_stays_behind() {
    if !inside("privileged_nothing_stays_behind") {
        return;
    }
    for user in [USER, 0] {
        for signal in [Signal::INT, Signal::TERM] {
            let child = start(user);
            assert_eq!(left().len(), 1);
            child.signal(signal);
            child.wait(PATIENCE);
            assert_eq!(left(), [] as [PathBuf; 0]);
        }
        // The next command of the user removes the socket of a killed process.
        let child = start(user);
        child.signal(Signal::KILL);
        child.wait(PATIENCE);
        assert_eq!(left().len(), 1);
        finish(start(user));
        assert_eq!(left(), [] as [PathBuf; 0]);
    }
}

/// Files and sockets in a directory that earlier versions used, and in the current ones.
#[test]
fn privileged_thirty_two_thousand_names_of_a_stranger_do_not_trouble_root() {
    if !inside("privileged_thirty_two_thousand_names_of_a_stranger_do_not_trouble_root") {
        return;
    }
    let (capture, silent) = (start(0), start(STRANGER));
    silent.signal(Signal::STOP);
    let directory = format!("/tmp/wirelane-{STRANGER}");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(STRANGER), Some(STRANGER)).unwrap();
    for pid in 1..=32_000 {
        drop(UnixListener::bind(format!("{directory}/{pid}.sock")).unwrap());
        let path = format!("/tmp/wirelane-{pid}-{pid:016x}.sock");
        drop(UnixListener::bind(&path).unwrap());
        chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    // Many more sockets with a listener, in the name of a process of that user.
    let silent_path = sockets_of(silent.id()).pop().unwrap();
    for number in 0..4000 {
        let path = format!("/tmp/wirelane-{}-{number}.sock", silent.id());
        fs::hard_link(&silent_path, path).unwrap();
    }
    let mut stats = ChildGuard::spawn(Command::new(PROGRAM).args(["stats", "--json"]));
    let status = format!("/proc/{}/status", stats.id());
    let (mut threads, began) = (0, Instant::now());
    while stats.is_running() {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        threads = threads.max(line.map_or(0, |line| line.trim().parse().unwrap()));
        assert!(began.elapsed() < PATIENCE, "it is still asking");
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = stats.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(&format!("\"pid\":{},", capture.id())), "{}", ended.stdout);
    assert!((1..=2).contains(&threads), "{threads} threads");
    assert!(answers(0, capture.id()));
    // The stranger's commands do not matter; root's command ends normally.
    finish(capture);
    silent.signal(Signal::CONT);
}

#[test]
fn privileged_a_silent_listener_hides_no_other_command() {
    if !inside("privileged_a_silent_listener_hides_no_other_command") {
        return;
    }
    for user in [STRANGER, 0] {
        let (capture, silent) = (start(0), start(user));
        silent.signal(Signal::STOP);
        let [one, other] = [&capture, &silent].map(|child| u64::from(child.id()));
        assert_eq!(listed(0), [vec![one], vec![other]]);
        let table = process::run(Command::new(PROGRAM).arg("stats"));
        let row = [&other.to_string(), "(does", "not", "answer)"];
        assert!(table.lines().any(|line| line.split_whitespace().eq(row)), "{table}");
        assert!(answers(0, capture.id()));
        silent.signal(Signal::CONT);
        assert_eq!(listed(0), [sorted(vec![one, other]), vec![]]);
        finish(silent);
        finish(capture);
    }
}

/// The first process of a PID namespace has the number 1 inside, and another number outside that it
/// cannot see.
#[test]
fn privileged_other_pid_namespaces_take_no_socket_away() {
    if !inside("privileged_other_pid_namespaces_take_no_socket_away") {
        return;
    }
    let unshared = |port: &str| {
        let mut command = Command::new("unshare");
        command.args(["-pf", "--mount-proc", PROGRAM, "capture", "-q", port]);
        command
    };
    let outside = start(0);
    process::run(&mut unshared("sim:1?count=10"));
    assert!(answers(0, outside.id()));
    let start = || {
        let mut parent = ChildGuard::spawn(&mut unshared("sim:1?rate=1kpps"));
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        let child = || fs::read_to_string(&children).ok()?.trim().parse::<u32>().ok();
        parent.wait_until(PATIENCE, |_| child().is_some_and(|pid| answers(0, pid)));
        (parent, child().unwrap())
    };
    let inside = [start(), start()];
    let mut all = vec![outside.id(), inside[0].1, inside[1].1];
    assert!(all.iter().all(|pid| answers(0, *pid)), "{all:?}");
    let known = |all: &[u32]| sorted(all.iter().map(|pid| u64::from(*pid)).collect());
    assert_eq!(listed(0), [known(&all), vec![]]);
    // One is killed. The next command removes only its socket.
    let [(first, killed), (second, _)] = inside;
    process::run(Command::new("kill").args(["-KILL", &killed.to_string()]));
    // Its parent ends with it.
    first.wait(PATIENCE);
    all.retain(|pid| *pid != killed);
    let next = start();
    all.push(next.1);
    assert_eq!((listed(0), left().len()), ([known(&all), vec![]], 3));
    drop((second, next));
    finish(outside);
}

#[test]
fn privileged_a_capture_runs_where_it_can_listen_nowhere() {
    if !inside("privileged_a_capture_runs_where_it_can_listen_nowhere") {
        return;
    }
    process::run(Command::new("mount").args(["-o", "remount,ro", "/tmp"]));
    let mut capture = as_user(USER, Path::new(PROGRAM));
    let mut capture = ChildGuard::spawn(capture.args(["capture", "sim:1?rate=1kpps"]));
    let note = "note: `wirelane stats`, `mask`, `offload` and `trigger` cannot reach this command: /tmp: bind";
    capture.wait_until(PATIENCE, |capture| capture.stderr().contains(note));
    capture.interrupt();
    assert_eq!(capture.wait(PATIENCE).status.code(), Some(0));
}
