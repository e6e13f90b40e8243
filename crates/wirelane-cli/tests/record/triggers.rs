//! Only packets around a trigger are written.

use rustix::process::Signal;
use tempfile::tempdir;

use super::*;

/// Five seconds of packets in a file, 100 each second. One has port 7777.
#[track_caller]
fn five_seconds(path: &Path) {
    use wirelane::pcap::{CaptureWriter, Record, Source, WriterOptions};
    use wirelane_testkit::packets::udp4;
    let source = Source::new("eth0", wirelane::Class::Rx, Some(0));
    let mut file = CaptureWriter::create(path, &[source], WriterOptions::of_path(path), 0).unwrap();
    for number in 0..500_u64 {
        let mut data = udp4(number).build();
        if number == 250 {
            // The destination port of UDP behind IPv4, without a checksum.
            data[36..38].copy_from_slice(&7777_u16.to_be_bytes());
            data[40..42].fill(0);
        }
        let record = Record {
            interface: 0,
            timestamp: 1_700_000_000_000_000_000 + number * 10_000_000,
            original_len: data.len() as u32,
            direction: Default::default(),
            data: &data,
        };
        file.write(&record).unwrap();
    }
    file.end(&[]).unwrap();
}

#[test]
fn a_packet_that_matches_triggers() {
    let directory = tempdir().unwrap();
    let (file, store) = (directory.path().join("x.pcapng"), directory.path().join("store"));
    five_seconds(&file);
    let (port, store_name) = (format!("file:{}", file.display()), store.to_str().unwrap());
    let args =
        [&port, store_name, "--trigger", "udp port 7777", "--before", "500ms", "--after", "1s"];
    let summary = record(&args);
    assert_eq!(summary["store"]["trigger"]["fired"], 1);
    assert_eq!(summary["totals"]["delivered"], 500);
    let kept = stored(&store);
    assert_eq!(summary["totals"]["written"], kept.len());
    // Whole extents are written, so there may be more packets.
    let at = 1_700_000_002_500_000_000;
    let wanted = (at - 500_000_000..=at + 1_000_000_000).step_by(10_000_000);
    let times: Vec<_> = kept.iter().map(|packet| packet.timestamp).collect();
    assert!(wanted.into_iter().all(|time| times.contains(&time)));
}

#[test]
fn without_a_trigger_nothing_is_written() {
    let directory = tempdir().unwrap();
    let (file, store) = (directory.path().join("x.pcapng"), directory.path().join("store"));
    five_seconds(&file);
    let port = format!("file:{}", file.display());
    let summary = record(&[&port, store.to_str().unwrap(), "--trigger", "udp port 7778"]);
    assert_eq!(
        (&summary["store"]["trigger"]["fired"], &summary["totals"]["written"]),
        (&0.into(), &0.into())
    );
    assert_eq!(summary["store"]["trigger"]["forgotten_packets"], 500);
    assert!(segments(&store).is_empty());
}

/// With the command, and with the signal.
#[test]
fn a_user_triggers() {
    for by_signal in [false, true] {
        let directory = tempdir().unwrap();
        let args = ["sim:2?rate=1kpps", directory.path().to_str().unwrap(), "--before", "1m"];
        let mut recording = Running::start(None, &args);
        recording.wait_for(500);
        recording.wait_until(|stats| stats["store"]["packets"] == 0);
        if by_signal {
            recording.child.signal(Signal::USR2);
        } else {
            let pid = recording.pid();
            let said = output(&mut wirelane(["trigger", "--json", &pid]));
            assert!(said.status.success(), "{}", said.stderr);
            let said: Value = serde_json::from_str(&said.stdout).unwrap();
            assert_eq!(said["schema"], "wirelane.trigger/1");
            assert_eq!(
                (&said["triggers"], &said["before_s"], &said["after_s"]),
                (&1.into(), &60.0.into(), &120.0.into())
            );
        }
        recording.wait_until(|stats| number(&stats["store"]["packets"]) >= 500);
        let summary = recording.finish();
        assert_eq!(summary["store"]["trigger"]["fired"], 1);
        assert_eq!(summary["totals"]["written"], summary["totals"]["delivered"]);
        assert_eq!(summary["totals"]["written"], stored(directory.path()).len());
    }
}

#[test]
fn others_cannot_be_triggered() {
    let directory = tempdir().unwrap();
    let recording = Running::start(None, &["sim:1?rate=1kpps", directory.path().to_str().unwrap()]);
    let refused = output(&mut wirelane(["trigger", &recording.pid()]));
    assert_refused(&refused, 1, &["no trigger", "everything is written"]);
    // The signal changes nothing.
    recording.child.signal(Signal::USR2);
    recording.finish();
}

/// With two recordings, the user must name one; the store is a valid name.
#[test]
fn a_store_names_its_recording() {
    let (one, other) = (tempdir().unwrap(), tempdir().unwrap());
    let start = |directory: &tempfile::TempDir| {
        let args = ["sim:1?rate=1kpps", directory.path().to_str().unwrap(), "--before", "1m"];
        Running::start(None, &args)
    };
    let (first, second) = (start(&one), start(&other));
    let refused = output(&mut wirelane(["trigger"]));
    assert_refused(&refused, 2, &["several recordings", "the directory or the process id"]);
    // From another directory, through a link.
    let link = one.path().join("link");
    std::os::unix::fs::symlink(other.path(), &link).unwrap();
    let said = output(wirelane(["trigger", "link"]).current_dir(&one));
    assert!(said.status.success(), "{}", said.stderr);
    let nowhere = output(wirelane(["trigger", "."]).current_dir("/"));
    assert_refused(&nowhere, 1, &["no `wirelane record` of this user writes into it"]);
    let missing = output(wirelane(["trigger", "none"]).current_dir(&one));
    assert_refused(&missing, 2, &["none", "neither a process id nor a directory"]);
    assert_eq!(first.finish()["store"]["trigger"]["fired"], 0);
    assert_eq!(second.finish()["store"]["trigger"]["fired"], 1);
}
