//! Bad input: one line that names the object, the cause and the next step; status 1 or 2; no
//! leftover files, and a readable file with all packets captured so far.

use std::fs;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::check_clean;
use wirelane_testkit::{privileged, tools};

use super::*;

#[test]
fn ports_that_cannot_be() {
    for (port, parts) in [
        ("", &["port ''"][..]),
        ("sim:", &["port 'sim:'"]),
        ("sim:x", &["sim:x", "not a number of queues"]),
        ("sim:0", &["sim:0", "1 to 1024", "; "]),
        ("sim:1025", &["sim:1025", "1 to 1024", "; "]),
        ("foo:bar", &["no backend 'foo'", "known: sim, file, packet"]),
        ("sim:4?speed=1", &["'speed'", "wirelane ports sim"]),
        ("sim:4?gso=tcp", &["sim:4?gso=tcp", "neither segments nor merges", "wirelane forward"]),
        ("sim:4?rate=fast", &["rate=fast"]),
        ("sim:4?size=9217", &["size=9217", "9216"]),
        ("sim:4?size=1M", &["size=1M"]),
        ("sim:4?rate", &["rate"]),
        ("sim:4@4", &["no queue 4", "0 to 3"]),
        ("sim:4@x", &["'x'"]),
        ("sim:4@3-1", &["3-1", "backwards"]),
        ("sim:4@9999", &["9999", "4095"]),
        ("packet:lo@1", &["no RX queue 1", "lo has 1 RX queue"]),
        ("packet:lo?ring=x", &["ring=x"]),
        ("packet:lo?speed=1", &["'speed'", "known: "]),
        ("packet:a-name-that-is-far-too-long", &["cannot be an interface name", "; "]),
        ("sim:4\n?x", &["\\n"]),
        ("sim:\u{1b}[31m", &["\\u{1b}"]),
    ] {
        refused(&["capture", port, "-w", "x.pcapng"], 2, parts);
    }
}

#[test]
fn arguments_that_cannot_be() {
    for (args, parts) in [
        (&["--rx-queues", "4"][..], &["no queue 4", "0 to 3"][..]),
        (&["--tx-queues", "1,7"], &["no queue 7"]),
        (&["--rx-queues", "a"], &["--rx-queues", "'a'", "; write all, none"]),
        (&["--other", "maybe"], &["--other", "; write on or off"]),
        (&["-c", "0"], &["--count", "'0'", "; write a number above 0"]),
        (&["-c", "-1"], &["-1"]),
        (&["-s", "300000"], &["--snaplen", "262144"]),
        (&["-C", "10x"], &["--rotate-size", "10x", "; write"]),
        (&["-G", "0"], &["--rotate-time", "; write a time"]),
        (&["-W", "3"], &["-W", "a rotation", "; add -C"]),
        (&["--duration", "1e9"], &["--duration", "; write a time"]),
        (&["--cpus", "none"], &["CPUs: ", "; write a list"]),
        (&["--cpus", "4000"], &["CPU 4000: ", "; "]),
        (&["-Z", "no-such-user"], &["user 'no-such-user'", "; "]),
        (&["-Z", "1", "--keep-privileges"], &["--keep-privileges", "--user"]),
        (&["--no-such"], &["'--no-such'", "; "]),
        (&["another"], &["'another'", "; "]),
    ] {
        let args = [&["capture", "sim:4?count=10", "-w", "x.pcapng"], args].concat();
        refused(&args, 2, parts);
    }
    for (args, parts) in [
        (&["capture"][..], &["port: none is named", "; name an interface"][..]),
        (&["capture", "sim:1", "--split"], &["--write"]),
        (&["capture", "sim:1", "-C", "1M"], &["--write"]),
        (&["capture", "sim:1", "-w", "-", "--json"], &["--json", "; "]),
        (
            &["capture", "sim:1", "-w", "-", "--split"],
            &["standard output", "cannot be split", "; "],
        ),
        (&["capture", "sim:1", "-w", "-", "-C", "1M"], &["-w -", "cannot be rotated", "; "]),
        (&["no-such-command"], &["'no-such-command'", "; "]),
        (&["mask", "x"], &["'x'"]),
        (&["mask", "1", "--rx-queues"], &["--rx-queues"]),
        (&["merge"], &["FILE"]),
        (&["merge", "a", "-w", "-", "--json"], &["--json", "; "]),
    ] {
        refused(args, 2, parts);
    }
}

/// A long quotation is shortened, but the line keeps its beginning and end.
#[test]
fn input_of_any_length_is_quoted_in_brief() {
    let long = "x".repeat(100_000);
    let (port, file) = (format!("sim:1?{long}=1"), format!("/no/{long}"));
    for (args, status) in [
        (&["capture", &long][..], 2),
        (&["capture", &port], 2),
        (&["capture", "sim:1", "--duration", &long], 2),
        (&["capture", "sim:1", "--filter", &long], 2),
        (&["capture", "sim:1", "-Z", &long], 2),
        (&["capture", "sim:1?count=1", "-w", &file], 1),
        (&["capture", &long, &long], 2),
        (&[&long], 2),
        (&[&format!("--{long}")], 2),
        (&["filter", &long], 2),
        (&["forward", "sim:1", &port], 2),
        (&["lab", "up", "--name", &long], 2),
        (&["mask", &long], 2),
        (&["merge", &file, "-w", "y"], 1),
        (&["offload", "1", "--gso", &long], 2),
        (&["ports", &long], 2),
        (&["queues", &long], 1),
        (&["stats", &long], 2),
        (&["verify", &file], 1),
    ] {
        let ended = output(&mut wirelane(args));
        let shown = &args[0][..args[0].len().min(10)];
        assert_refused(&ended, status, &[]);
        assert!(ended.stderr.len() < 1500, "{shown}: {} bytes", ended.stderr.len());
    }
    // The same for requests to a running command, and its replies.
    let capture = Running::start(None, &["sim:1?rate=1kpps"]);
    let pid = capture.child.id().to_string();
    for (option, status) in [("--rx-queues", 2), ("--filter", 2)] {
        let ended = output(&mut wirelane(["mask", &pid, option, &long[..60_000]]));
        assert_refused(&ended, status, &[&format!("process {pid}: ")]);
        assert!(ended.stderr.len() < 1500, "{option}: {} bytes", ended.stderr.len());
    }
    capture.finish();
}

#[test]
fn things_that_are_not_there() {
    for (args, parts) in [
        (&["capture", "packet:nosuch0"][..], &["nosuch0: ", "no such interface", "; "][..]),
        (&["capture", "nosuch0"], &["nosuch0: ", "no such interface", "wirelane queues"]),
        (&["capture", "file:/no/such.pcapng"], &["/no/such.pcapng: ", "ENOENT", "; "]),
        (&["merge", "/no/such", "-w", "x"], &["/no/such: ", "ENOENT", "; "]),
        (&["mask", "4194304"], &["process 4194304: ", "; give the process id"]),
    ] {
        refused(args, 1, parts);
    }
}

#[test]
fn privileged_an_interface_that_is_down_or_goes_away() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    ns.run("ip", ["link", "add", "wl-down", "type", "veth", "peer", "wl-peer"]);
    let ended = output(ns.command(WIRELANE).args(["capture", "packet:wl-down"]));
    assert_refused(&ended, 1, &["wl-down: ", "is down", "ip link set wl-down up"]);

    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let tap = MultiQueueTap::new(&ns, "wl-gone", 2);
    // The kernel still holds the packets when it reports the removed device.
    let port = "packet:wl-gone?ring=1Mi&block=64Ki&retire=500ms";
    let capture = Running::start(Some(&ns), &[port, "-w", file.to_str().unwrap()]);
    let frames = (0..100).map(wirelane_testkit::packets::raw);
    frames.enumerate().for_each(|(i, frame)| tap.write(i % 2, &frame));
    drop(tap);
    let ended = capture.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.lines().all(|line| line.starts_with("wirelane: wl-gone: ")));
    let summary = parse(&ended.stdout);
    assert_eq!(summary["totals"]["written"], 100, "{summary}");
    assert_eq!(packets(&file).len(), 100);
}

#[test]
fn paths_that_cannot_be_written() {
    let directory = tempdir().unwrap();
    let is_file = directory.path().join("file");
    fs::write(&is_file, "untouched").unwrap();
    let below_file = is_file.join("x.pcapng");
    let long = directory.path().join("x".repeat(300));
    for (path, part) in [
        ("/no/such/directory/x.pcapng", "ENOENT"),
        (directory.path().to_str().unwrap(), "EISDIR"),
        (below_file.to_str().unwrap(), "ENOTDIR"),
        (long.to_str().unwrap(), "ENAMETOOLONG"),
    ] {
        for rotation in [&[][..], &["-C", "1M"]] {
            if !rotation.is_empty() && part == "EISDIR" {
                continue; // x_00001_… beside the directory can be written
            }
            let args = [&["capture", "sim:2?count=10", "-w", path], rotation].concat();
            let ended = output(&mut wirelane(args));
            assert_refused(&ended, 1, &[part]);
        }
    }
    assert_eq!(fs::read_to_string(&is_file).unwrap(), "untouched");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

/// A capture file of 1000 packets, and its bytes.
fn sample(directory: &TempDir, name: &str) -> (String, Vec<u8>) {
    let path = directory.path().join(name).to_str().unwrap().to_owned();
    capture(&["sim:2?rate=100kpps&count=1000&size=imix", "-w", &path]);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// A damaged file is captured and merged up to the damage. Then the command reports an error, for
/// every format.
#[test]
fn damaged_files() {
    let directory = tempdir().unwrap();
    for name in ["a.pcapng", "a.pcap", "a.pcapng.gz", "a.pcapng.lz4", "a.pcapng.zst"] {
        let (path, whole) = sample(&directory, name);
        let mut corrupt = whole.clone();
        // A length field, or compressed data.
        let at = whole.len() / 2;
        corrupt[at..at + 64].fill(0xff);
        let damages: [(&str, &[u8]); 3] = [
            ("cut", &whole[..whole.len() - 7]),
            ("half", &whole[..whole.len() / 2]),
            ("corrupt", &corrupt),
        ];
        for (damage, bytes) in damages {
            fs::write(&path, bytes).unwrap();
            let again = directory.path().join("again.pcapng");
            let again_path = again.to_str().unwrap();
            let port = format!("file:{path}");
            let captured =
                output(&mut wirelane(["capture", "-q", "--json", &port, "-w", again_path]));
            if damage == "corrupt" && captured.status.success() {
                // The damage changed only packet bytes, which these formats cannot detect.
                assert!(!name.ends_with("gz") && !name.ends_with("zst"), "{name}");
                assert_eq!(packets(&again).len(), 1000);
                fs::remove_file(&again).unwrap();
                continue;
            }
            assert_refused(&captured, 1, &[&path]);
            // Opening the reader may fail at once.
            if CaptureReader::open(&path).is_err() {
                // Even the start is damaged: there was no capture.
                assert_eq!((captured.stdout.as_str(), again.exists()), ("", false));
                continue;
            }
            let readable = readable(&path).0.len();
            let summary = parse(&captured.stdout);
            let held = packets(&again);
            assert_eq!(summary["totals"]["written"], held.len(), "{name} {damage}");
            assert_eq!(held.len(), readable, "{name} {damage}");
            fs::remove_file(&again).unwrap();
            if !name.ends_with("gz") && !name.ends_with("zst") {
                assert!(readable > 400, "{name} {damage}: {readable}");
            }

            let merged = directory.path().join("merged.pcapng");
            let args = ["merge", "--json", &path, "-w", merged.to_str().unwrap()];
            let ended = output(&mut wirelane(args));
            assert_refused(&ended, 1, &[&path]);
            assert_eq!(packets(&merged).len(), readable, "{name} {damage}");
            // A compressed file may yield arbitrary bytes before its checksum is verified.
            if damage != "corrupt" && readable > 0 && tools::require("tshark") {
                assert_eq!(check_clean(&merged), readable as u64);
            }
        }
    }
}

#[test]
fn files_that_are_no_captures() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x");
    let text = path.to_str().unwrap();
    let huge = [
        &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]
            [..],
        &[0; 8],
        &0x7fff_ffffu32.to_le_bytes(),
        &0x7fff_ffffu32.to_le_bytes(),
        &[0; 100],
    ]
    .concat();
    for (content, parts) in [
        (&b""[..], &["it is empty"][..]),
        (b"a letter to a friend", &["not a capture file"]),
        (&[0x1f, 0x8b], &["x: "]),
        (&[0x0a, 0x0d, 0x0d, 0x0a, 0xff, 0xff, 0xff, 0xff], &["x: "]),
        (&huge, &["x: ", "corrupt"]),
    ] {
        fs::write(&path, content).unwrap();
        let out = directory.path().join("out.pcapng");
        for command in ["capture", "merge"] {
            let input = if command == "capture" { format!("file:{text}") } else { text.into() };
            let args = [command, &input, "-w", out.to_str().unwrap()];
            let quiet = (command == "capture").then_some("-q");
            let json = (command == "merge").then_some("--json");
            assert_refused(&output(wirelane(args).args(quiet).args(json)), 1, parts);
            if out.exists() {
                assert_eq!(packets(&out).len(), 0);
                fs::remove_file(&out).unwrap();
            }
        }
    }
    let (file, bytes) = sample(&directory, "same.pcapng");
    let ended = output(&mut wirelane(["merge", &file, "-w", &file]));
    assert_refused(&ended, 2, &["same.pcapng: ", "; write to another file"]);
    assert!(fs::read(&file).unwrap() == bytes, "the input was touched");
}

/// Frames longer than the interface allows, or than a block of the ring holds, are truncated. Their
/// original length is kept, and the command does not panic.
#[test]
fn privileged_oversized_frames() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-over", 1);
    let directory = tempdir().unwrap();
    let frame = |length: usize| {
        let mut frame = wirelane_testkit::packets::raw(length as u64);
        frame.resize(length, 0x55);
        frame
    };
    let lengths = [60, 1514, 1515, 9000, 30_000, 65_000];
    for (options, room) in [("?retire=2ms", 65_536), ("?retire=2ms&ring=64Ki&block=16Ki", 16_384)] {
        let file = directory.path().join("x.pcapng");
        let port = format!("packet:wl-over{options}");
        let capture = Running::start(Some(&ns), &[&port, "-w", file.to_str().unwrap()]);
        for length in lengths {
            tap.write(0, &frame(length));
            // Four blocks hold only few of these frames.
            std::thread::sleep(Duration::from_millis(30));
        }
        let summary = capture.finish();
        let packets = packets(&file);
        let seen: Vec<_> = packets.iter().map(|packet| packet.original_len as usize).collect();
        assert_eq!(seen, lengths, "{options}: {summary}");
        for packet in &packets {
            let whole = frame(packet.original_len as usize);
            assert_eq!(packet.data, whole[..packet.data.len()]);
            assert!(packet.data.len() >= whole.len().min(room - 1024), "{}", packet.data.len());
        }
        if tools::require("tshark") {
            assert_eq!(check_clean(&file), lengths.len() as u64);
        }
    }
}
