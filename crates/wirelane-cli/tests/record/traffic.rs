//! Real packets, through a multi-queue TAP device and a veth pair.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use tempfile::tempdir;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::check_clean;
use wirelane_testkit::{packets as frames, privileged, tools};

use super::*;

#[test]
fn privileged_each_queue_has_its_own_segments() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-rec", 4);
    let directory = tempdir().unwrap();
    let port = format!("packet:wl-rec{QUICK}");
    let args = [&port, directory.path().to_str().unwrap(), "--tx-queues", "none"];
    let mut recording = Running::start(Some(&ns), &args);
    (0..4000).for_each(|number| tap.write((number % 4) as usize, &frames::raw(number)));
    recording.wait_for(4000);
    let summary = recording.finish();
    assert_eq!(summary["totals"]["written"], 4000);
    assert_counters(&summary, directory.path());
    let mut seen = Vec::new();
    for segment in segments(directory.path()) {
        let packets = packets(&segment);
        for packet in &packets {
            let number = frames::sequence(&packet.data).unwrap();
            assert_eq!(packet.queue, Some((number % 4) as u32));
            assert_eq!(packet.queue, packets[0].queue, "one lane, one queue");
            seen.push(number);
        }
        if tools::require("tshark") {
            assert_eq!(check_clean(&segment), packets.len() as u64);
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..4000));
}

/// Another user without capabilities, and files that a group may read.
#[test]
fn privileged_files_are_made_after_privileges_are_gone() {
    const USER: u32 = 65_534;
    const GROUP: u32 = 7;
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    chown(&directory, Some(USER), Some(USER)).unwrap();
    let store = directory.path().join("store");
    let (user, group) = (format!("{USER}:{USER}"), GROUP.to_string());
    let args = ["sim:2?rate=10kpps", store.to_str().unwrap(), "-Z", &user, "--group", &group];
    let mut recording = Running::start(None, &args);
    recording.wait_for(100);
    let status = fs::read_to_string(format!("/proc/{}/status", recording.pid())).unwrap();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("Uid:"), vec![USER.to_string(); 4]);
    assert_eq!(line("Groups:"), [GROUP.to_string()]);
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(u64::from_str_radix(&line(set)[0], 16), Ok(0), "{set}");
    }
    recording.finish();
    let mut files = segments(&store);
    assert!(!files.is_empty());
    files.push(store.join("wirelane.store"));
    for file in files {
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (USER, GROUP), "{}", file.display());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640, "{}", file.display());
    }
}
