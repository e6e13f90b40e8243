//! Real traffic, captured, replayed and rewritten: the captured packets arrive.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use tempfile::{TempDir, tempdir};
use wirelane::wire::FlowKey;
use wirelane_gen::rewrite::{Rewrite, Rule};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::tshark::check_clean_with_checksums;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use super::*;

/// Captures received packets, and the queues of `sent`, while `traffic` runs.
fn captured(of: &Namespace, interface: &str, sent: &str, path: &Path, traffic: impl FnOnce()) {
    let mut command = of.command(WIRELANE);
    let port = format!("packet:{interface}");
    command.args(["capture", &port, "--tx-queues", sent, "-w"]).arg(path);
    let mut capture = ChildGuard::spawn(&mut command);
    capture.wait_until(PATIENCE, |child| child.stderr().contains("capturing"));
    traffic();
    capture.interrupt();
    let ended = capture.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

/// Both directions of ping, TCP and UDP between two stacks, as on a wire.
fn real_traffic() -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("real.pcapng");
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    pair.set_offloads(false);
    let address = pair.b.address.to_string();
    captured(&far, &pair.b.interface, "all", &path, || {
        near.run("ping", ["-c", "5", "-i", "0.02", "-s", "300", &address]);
        for protocol in [&[][..], &["-u"]] {
            let mut server = far.spawn("iperf3", ["-s", "-1", "--forceflush"]);
            server.wait_until(PATIENCE, |server| server.stdout().contains("listening"));
            let client = ["-c", &address, "-t", "1", "-b", "6M", "-l", "1200"];
            near.run("iperf3", [&client, protocol].concat());
            assert!(server.wait(PATIENCE).status.success());
        }
    });
    (directory, path)
}

/// A single packet may be late for other reasons: the median shows the accuracy.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn privileged_real_traffic_arrives_as_it_was_captured() {
    if !privileged::require() || !["iperf3", "ping", "tshark"].iter().all(|it| tools::require(it)) {
        return;
    }
    let (directory, file) = real_traffic();
    let originals = packets(&file);
    let wanted: Vec<_> = originals.iter().map(|packet| packet.data.clone()).collect();
    assert!(wanted.len() > 1000, "{}", wanted.len());
    arrives_as_captured(&directory, &file, &originals);
    let file = file.display().to_string();

    // Other hosts, other ports, in a VLAN: the rules can be undone, and each checksum is right.
    let to = directory.path().join("rewritten.pcapng");
    let port = format!("file:{}", to.display());
    let rewriting = ["--random-ip", "7", "--port", "+1000", "--vlan", "push:100", "--top-speed"];
    let summary = send(&[&[port.as_str(), &file], &rewriting[..]].concat());
    assert_eq!(number(&summary["totals"]["sent"]), wanted.len() as u64, "{summary}");
    verified(&to);
    let rules = [
        Rule::Pseudonyms { seed: 7 },
        Rule::port("+1000").unwrap(),
        Rule::Vlan("push:100".parse().unwrap()),
    ];
    let rewrite = Rewrite::new(&rules).unwrap();
    for (mut frame, original) in bytes(&to).into_iter().zip(&wanted) {
        assert_ne!(&frame, original);
        rewrite.undo(&mut frame, 0);
        assert_same(&frame, original);
    }

    // No flow of a loop occurs again in the next one.
    let to = directory.path().join("unique.pcapng");
    let port = format!("file:{}", to.display());
    send(&[&port, &file, "--unique", "--loop", "3", "--top-speed", "--load", "100"]);
    verified(&to);
    let all = bytes(&to);
    assert_eq!(all.len(), 3 * wanted.len());
    let rewrite = Rewrite::new(&[Rule::Unique { seed: 0, within: Vec::new() }]).unwrap();
    let mut flows = HashSet::new();
    for (number, frames) in (0..).zip(all.chunks(wanted.len())) {
        let of_loop = frames.iter().filter_map(|it| FlowKey::parse(it).unwrap());
        // Groups are no hosts, and keep their addresses.
        let of_loop = of_loop.filter(|it| !it.addresses.destination().is_multicast());
        let of_loop: HashSet<_> = of_loop.collect();
        assert!(of_loop.len() >= 6 && of_loop.is_disjoint(&flows));
        flows.extend(of_loop);
        for (frame, original) in frames.iter().zip(&wanted) {
            let mut frame = frame.clone();
            rewrite.undo(&mut frame, number);
            assert_same(&frame, original);
        }
    }
}

/// Replays the file through a veth, and compares packets, their order and their gaps.
fn arrives_as_captured(directory: &TempDir, file: &Path, originals: &[Packet]) {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    pair.set_offloads(false);
    let path = directory.path().join("far.pcapng");
    captured(&far, &pair.b.interface, "none", &path, || {
        let mut command = near.command(WIRELANE);
        command.args(["send", "-q", "--json", &format!("packet:{}", pair.a.interface)]).arg(file);
        let summary = sent(&summary(&ChildGuard::spawn(&mut command).wait(PATIENCE)));
        assert_eq!(number(&summary["totals"]["sent"]), originals.len() as u64, "{summary}");
    });
    // Packets of the local stack are not from the file.
    let known: HashSet<_> = originals.iter().map(|packet| &packet.data).collect();
    let mut seen = packets(&path);
    seen.retain(|packet| known.contains(&packet.data));
    let data = |packets: &[Packet]| packets.iter().map(|it| it.data.clone()).collect::<Vec<_>>();
    assert!(data(&seen) == data(originals), "{} of {}", seen.len(), originals.len());
    let gaps = |packets: &[Packet]| {
        let gap = |pair: &[Packet]| pair[1].timestamp.saturating_sub(pair[0].timestamp);
        packets.windows(2).map(gap).collect::<Vec<_>>()
    };
    let errors = gaps(&seen).iter().zip(gaps(originals)).map(|(a, b)| a.abs_diff(b)).collect();
    let error = median(errors);
    assert!(error < 1_000_000, "half of the gaps are more than {error} ns wrong");
}

/// `wirelane verify` and tshark find nothing wrong.
#[track_caller]
fn verified(file: &Path) {
    let ended = output(wirelane(["verify", "--strict"]).arg(file));
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    check_clean_with_checksums(file);
}

/// Equal, except that a checksum of 0 may be 0xffff: both are zero in ones' complement.
#[track_caller]
fn assert_same(actual: &[u8], expected: &[u8]) {
    assert_eq!(actual.len(), expected.len());
    for (at, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!(a == b || matches!((a, b), (0, 255) | (255, 0)), "byte {at}: {a:#x}, {b:#x}");
    }
}

#[test]
fn standard_input_and_several_files_are_sent_in_turn() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let frames = |from: u64| -> Vec<_> {
        (from..from + 20).map(|n| wirelane_testkit::packets::udp4(n).build()).collect()
    };
    write(&path("a.pcap"), 1, &frames(0));
    write(&path("b.pcap"), 1, &frames(20));
    let port = format!("file:{}", path("out.pcapng").display());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#"cat "$4" | "$0" send -q --json "$2" "$3" - --top-speed"#,
        WIRELANE,
        "-",
    ]);
    command.arg(port).args([path("a.pcap"), path("b.pcap")]);
    assert_eq!(sent(&summary(&output(&mut command)))["totals"]["sent"], 40);
    assert!(bytes(&path("out.pcapng")) == [frames(0), frames(20)].concat());
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let frame = wirelane_testkit::packets::udp4(1).build();
    write(Path::new(&path("wlan.pcap")), 105, std::slice::from_ref(&frame));
    write(Path::new(&path("raw.pcap")), 101, &[frame[14..].to_vec()]);
    write(Path::new(&path("none.pcap")), 1, &[]);
    write(Path::new(&path("good.pcap")), 1, std::slice::from_ref(&frame));
    refused(&["send", "sim:1", &path("wlan.pcap")], 1, &["link type 105", "not Ethernet"]);
    refused(&["send", "sim:1", &path("raw.pcap")], 1, &["link type 101", "--ethernet"]);
    refused(&["send", "sim:1", &path("none.pcap")], 1, &["none.pcap", "holds no packets"]);
    refused(&["send", "sim:1", &path("missing")], 1, &["missing", "cannot open"]);
    let good = path("good.pcap");
    let wrong = ["--map-ip", "10.0.0.0/8=192.0.2.0/24"];
    let ended = output(wirelane(["send", "sim:1", &good]).args(wrong));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no room for the hosts"), "{}", ended.stderr);
    let both = ["--unique=10.0.0.1/32"];
    refused(&[&["send", "sim:1", good.as_str()], &both[..]].concat(), 2, &["10.0.0.1/32"]);
}
