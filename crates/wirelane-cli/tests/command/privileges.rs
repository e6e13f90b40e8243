//! Privileges: the command drops them once the port is open, and no longer needs them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use tempfile::{TempDir, tempdir};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets as frames, privileged};

use super::rotation::{assert_complete, rotated};
use super::*;

/// The user `nobody` on most systems; here just one that is not root.
const NOBODY: u32 = 65_534;

/// A directory that belongs to `user` alone.
fn directory_of(user: u32) -> TempDir {
    let directory = tempdir().unwrap();
    chown(&directory, Some(user), Some(user)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    directory
}

/// A line of `/proc/PID/status`, split into words; `None` if there is no such process or thread.
fn find_status(pid: u32, key: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    Some(line.split_whitespace().map(str::to_owned).collect())
}

#[track_caller]
fn status(pid: u32, key: &str) -> Vec<String> {
    find_status(pid, key).unwrap_or_else(|| panic!("there is no process {pid}"))
}

/// Whether no thread of the process has a capability, or could regain one.
fn is_powerless(pid: u32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.all(|thread| {
        let thread = thread.unwrap().file_name().into_string().unwrap().parse().unwrap();
        // A thread that has answered a request may end at this moment.
        let is_empty = |set: &str| {
            find_status(thread, set).is_none_or(|set| u64::from_str_radix(&set[0], 16) == Ok(0))
        };
        ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"].into_iter().all(is_empty)
    })
}

/// As root for `nobody`: the user is changed, all privileges are gone, and rotation, masks and the
/// end still work.
#[test]
fn privileged_rotation_after_privileges_are_gone() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-priv", 2);
    let directory = directory_of(NOBODY);
    let path = directory.path().join("x.pcapng");
    let port = format!("packet:wl-priv{QUICK}");
    let user = format!("{NOBODY}:{NOBODY}");
    let options = ["-w", path.to_str().unwrap(), "-Z", &user, "-C", "16k", "-W", "4"];
    let capture = Running::start(Some(&ns), &[&[port.as_str()], &options[..]].concat());

    let pid = capture.child.id();
    assert_eq!(status(pid, "Uid:"), vec![NOBODY.to_string(); 4]);
    assert_eq!(status(pid, "Gid:"), vec![NOBODY.to_string(); 4]);
    assert!(status(pid, "Groups:").is_empty());
    assert!(is_powerless(pid));

    (0..1000).for_each(|number| tap.write((number % 2) as usize, &frames::raw(number)));
    assert_eq!(capture.mask(&["--rx-queues", "1"]), "rx 1 tx all other on\n");
    (1000..2000).for_each(|number| tap.write((number % 2) as usize, &frames::raw(number)));
    let summary = capture.finish();
    assert_eq!(summary["totals"]["written"], 1000 + 500);

    let files = rotated(directory.path());
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(number(&summary["totals"]["files"]) > 4);
    let mut kept = Vec::new();
    for file in &files {
        assert_eq!(file.metadata().unwrap().uid(), NOBODY);
        assert_complete(file, 2 + 2 + 1);
        kept.extend(packets(file).iter().filter_map(|packet| frames::sequence(&packet.data)));
    }
    let all = (0..1000).chain((1000..2000).filter(|number| number % 2 == 1));
    let last: Vec<_> = all.skip(1500 - kept.len()).collect();
    assert_eq!(kept, last);
}

#[test]
fn privileged_capabilities_go_even_if_the_user_stays() {
    if !privileged::require() {
        return;
    }
    let mut captures = [&["sim:2?rate=1kpps"][..], &["sim:2?rate=1kpps", "--keep-privileges"]]
        .map(|args| Running::spawn(None, args));
    captures.iter_mut().for_each(Running::wait_until_ready);
    let [without, with] = captures;
    assert!(is_powerless(without.child.id()));
    assert!(!is_powerless(with.child.id()));
    assert_eq!(without.mask(&[]), "rx all tx all other on\n");
    without.finish();
    with.finish();
}

#[test]
fn privileged_the_error_says_that_privileges_are_gone() {
    if !privileged::require() {
        return;
    }
    let directory = directory_of(0);
    let path = directory.path().join("x.pcapng");
    let user = format!("{NOBODY}:{NOBODY}");
    let args = ["capture", "sim:1?count=5", "-Z", &user, "-w", path.to_str().unwrap()];
    let refused = output(&mut wirelane(args));
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    for part in ["x.pcapng", "EACCES", "had dropped its privileges", "--keep-privileges"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert!(!path.exists());
}

#[test]
fn without_privileges_the_error_names_the_capability() {
    let mut command = if privileged::available() {
        // Still root by name, so that the program can be read in any directory.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", WIRELANE]);
        command
    } else {
        Command::new(WIRELANE)
    };
    let refused = output(command.args(["capture", "packet:lo", "--duration", "10s"]));
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    for part in ["wirelane: lo: ", "EPERM", "CAP_NET_RAW", "; "] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}
