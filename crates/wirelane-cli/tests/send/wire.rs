//! Through veth pairs: the packets that arrive, and early ends.

use std::time::Duration;

use tempfile::tempdir;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

pub(crate) struct Wire {
    left: Namespace,
    right: Namespace,
    pub(crate) pair: VethPair,
}

impl Wire {
    pub(crate) fn new(queues: u32) -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, queues, 1500);
        pair.set_offloads(false);
        Self { left, right, pair }
    }

    pub(crate) fn port(&self, backend: &str) -> String {
        format!("{backend}{}", self.pair.a.interface)
    }

    pub(crate) fn send(&self, args: &[&str]) -> ChildGuard {
        ChildGuard::spawn(self.left.command(WIRELANE).args(["send", "--json"]).args(args))
    }

    /// Captures `count` UDP packets to port 4791, while `send` runs.
    pub(crate) fn captured(&self, path: &Path, count: usize, send: impl FnOnce()) -> Vec<Vec<u8>> {
        let mut command = self.right.command(WIRELANE);
        let port = format!("packet:{}", self.pair.b.interface);
        let count = count.to_string();
        command.args(["capture", &port, "--tx-queues", "none", "-f", "udp dst port 4791"]);
        command.args(["-c", &count, "--duration", "60s", "-w"]).arg(path);
        let mut capture = ChildGuard::spawn(&mut command);
        capture.wait_until(PATIENCE, |child| child.stderr().contains("capturing"));
        send();
        let ended = capture.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        bytes(path)
    }
}

/// Numbered UDP packets of several lengths and flows.
fn frames(count: u64) -> Vec<Vec<u8>> {
    let frame = |n: u64| {
        let packet = packets::udp4(n).length(60 + (n as usize * 37) % 1400);
        let mut frame = packet.flow((n % 7) as u16).build();
        // The port of the capture's filter, which does not check the checksum.
        frame[36..38].copy_from_slice(&4791_u16.to_be_bytes());
        frame
    };
    (0..count).map(frame).collect()
}

#[test]
fn privileged_what_arrives_is_what_was_sent() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap");
    let frames = frames(500);
    write(&file, 1, &frames);
    for backend in ["packet:", "xdp:", ""] {
        let path = directory.path().join(format!("{backend}y.pcapng").replace(':', ""));
        let seen = wire.captured(&path, 1000, || {
            let file = file.display().to_string();
            let port = wire.port(backend);
            let args = ["-q", &port, &file, "--rate", "20kpps", "--loop", "2"];
            let summary = sent(&summary(&wire.send(&args).wait(PATIENCE)));
            assert_eq!(summary["totals"]["sent"], 1000, "{summary}");
            let expected = if backend == "packet:" { "packet" } else { "xdp" };
            assert_eq!(summary["ports"][0]["backend"], expected, "{summary}");
        });
        assert_eq!(seen.len(), 1000, "{backend}");
        assert!(seen == [&frames[..]; 2].concat(), "{backend}: not what was sent");
    }
}

#[test]
fn privileged_packets_of_a_flow_keep_their_order_over_several_queues() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(2);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap");
    let frames = frames(700);
    write(&file, 1, &frames);
    let path = directory.path().join("y.pcapng");
    let seen = wire.captured(&path, 700, || {
        let file = file.display().to_string();
        let port = format!("{}@0-1", wire.port("xdp:"));
        let summary = sent(&summary(&wire.send(&["-q", &port, &file]).wait(PATIENCE)));
        let of_queues = summary["tx"].as_array().unwrap().iter().map(|tx| number(&tx["packets"]));
        let of_queues: Vec<_> = of_queues.collect();
        assert_eq!(of_queues.iter().sum::<u64>(), 700);
        assert!(of_queues.len() == 2 && of_queues.iter().all(|sent| *sent > 0), "{of_queues:?}");
    });
    // The fields that `flow` changes.
    let flow = |frame: &Vec<u8>| frame[26..36].to_vec();
    let of = |all: &[Vec<u8>], key: &[u8]| {
        all.iter().filter(|frame| flow(frame) == key).cloned().collect::<Vec<_>>()
    };
    for frame in &frames[..7] {
        assert!(of(&seen, &flow(frame)) == of(&frames, &flow(frame)));
    }
}

#[test]
fn privileged_an_interrupt_ends_it_with_exact_counts() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    for backend in ["packet:", "xdp:"] {
        let before = wire.pair.a.statistic("tx_packets");
        let port = wire.port(backend);
        let rate = if backend == "xdp:" { "--top-speed" } else { "--rate=3kpps" };
        let mut sending = wire.send(&[&port, "--packet", "ipv4 dst=10.0.0.0/24 udp", rate]);
        sending.wait_until(PATIENCE, |_| wire.pair.a.statistic("tx_packets") > before + 100);
        sending.interrupt();
        let ended = sending.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let summary = sent(&parse(&ended.stdout));
        let left = wire.pair.a.statistic("tx_packets") - before;
        // The stack itself may have sent packets.
        let counted = number(&summary["totals"]["sent"]);
        assert!((counted..counted + 30).contains(&left), "{counted} of {left}: {summary}");
    }
}

#[test]
fn privileged_an_interface_that_goes_down_or_away_is_an_error_with_counts() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet:", "xdp:"] {
        for (args, words) in [
            (["link", "set", "IF", "down"], "the interface is down"),
            (["link", "delete", "dev", "IF"], "removed"),
        ] {
            let wire = Wire::new(1);
            let port = wire.port(backend);
            let mut sending = wire.send(&[&port, "--packet", "ipv4 udp", "--rate", "5kpps"]);
            sending.wait_until(PATIENCE, |_| wire.pair.b.statistic("rx_packets") > 100);
            let interface = wire.pair.a.interface.as_str();
            wire.left.run("ip", args.map(|word| if word == "IF" { interface } else { word }));
            let ended = sending.wait(Duration::from_secs(60));
            assert_eq!(ended.status.code(), Some(1), "{backend}{words}: {}", ended.stderr);
            assert!(ended.stderr.contains(words), "{backend} {words}: {}", ended.stderr);
            assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
            let summary = parse(&ended.stdout);
            assert!(number(&summary["totals"]["sent"]) > 100, "{summary}");
            assert_eq!(summary["frames"]["leaked"], 0, "{summary}");
        }
    }
}

#[test]
fn privileged_long_packets_are_cut_if_asked() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap");
    write(&file, 1, &[packets::tcp4(0).length(14 + 40 + 3000).build()]);
    let file = file.display().to_string();
    for backend in ["packet:", "xdp:"] {
        let port = wire.port(backend);
        let ended = wire.send(&["-q", &port, &file, "--gso"]).wait(PATIENCE);
        let summary = sent(&summary(&ended));
        assert_eq!(summary["totals"]["sent"], 3, "{backend}: {summary}");
        assert_eq!(summary["gso"][0]["classes"][0]["segments"], 3, "{backend}: {summary}");
    }
}

#[test]
fn privileged_the_kernel_sends_by_itself_where_it_can() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    let port = wire.port("");
    let packet = ["--packet", "ipv4 udp src=1000-1009 dst=4791"];
    let args = [&["--packet", packet[1], "--rate", "20kpps", "-c", "1000", &port][..]].concat();
    // The peer does not accept frames of programs.
    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "gro", "off"]);
    let ended = wire.send(&args).wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("sending (sockets) through "), "{}", ended.stderr);
    assert!(!ended.stderr.contains(" refused: "), "{}", ended.stderr);
    let told = wire.send(&[&args[..], &["-v"]].concat()).wait(PATIENCE);
    assert!(told.stderr.starts_with("kernel refused: "), "{}", told.stderr);
    assert!(told.stderr.contains("xdp-zerocopy refused: "), "{}", told.stderr);
    let summary = sent(&parse(&ended.stdout));
    assert_eq!((&summary["engine"], &summary["totals"]["sent"]), (&"sockets".into(), &1000.into()));
    assert!(summary["kernel_refused"].is_string(), "{summary}");
    // Now it accepts them.
    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "gro", "on"]);
    let directory = tempdir().unwrap();
    let seen = wire.captured(&directory.path().join("y.pcapng"), 1000, || {
        let ended = wire.send(&args).wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("sending (kernel) through"), "{}", ended.stderr);
        let summary = sent(&parse(&ended.stdout));
        assert_eq!(summary["engine"], "kernel");
        assert_eq!(summary["totals"]["sent"], 1000, "{summary}");
    });
    let ports: Vec<_> = seen.iter().map(|frame| frame[35]).collect();
    let expected: Vec<_> = (0..1000).map(|n| (1000 + n % 10) as u8).collect();
    assert!(ports == expected, "the source ports count");
    let file = directory.path().join("x.pcap");
    write(&file, 1, &frames(1));
    let ended = wire.send(&["--engine=kernel", &port, &file.display().to_string()]).wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("come from a file"), "{}", ended.stderr);
}

/// The other end of a veth pair drops frames longer than its MTU, and the kernel reports this like
/// a full queue.
#[test]
fn privileged_packets_that_are_refused_for_good_do_not_stop_the_others() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    wire.right.run("ip", ["link", "set", &wire.pair.b.interface, "mtu", "1000"]);
    let directory = tempdir().unwrap();
    let [file, path] = ["x.pcap", "y.pcapng"].map(|name| directory.path().join(name));
    // One long frame alone, several in a row, and one at the end.
    let mut frames = frames(600);
    let is_refused = |n: usize| n % 10 == 3 || (200..220).contains(&n) || n == 599;
    for (n, frame) in frames.iter_mut().enumerate() {
        frame.resize(if is_refused(n) { 1300 } else { 60 + n % 900 }, n as u8);
    }
    write(&file, 1, &frames);
    let file = file.display().to_string();
    let refused = (0..600).filter(|n| is_refused(*n)).count();
    let expected: Vec<_> = frames.into_iter().filter(|frame| frame.len() != 1300).collect();
    let port = wire.port("packet:");
    let source = format!("file:{file}");
    for args in [
        &["send", &port, &file, "--top-speed"][..],
        &["send", &port, &file, "--rate", "1kpps"],
        &["forward", &source, &port],
    ] {
        let seen = wire.captured(&path, expected.len(), || {
            let mut command = wire.left.command(WIRELANE);
            let ended = ChildGuard::spawn(command.args(args).args(["-q", "--json"])).wait(PATIENCE);
            let summary = summary(&ended);
            let tx = summary["tx"].as_array().unwrap().last().unwrap();
            let counts = ["packets", "refused", "errors"].map(|key| number(&tx[key]) as usize);
            assert_eq!(counts, [expected.len(), refused, refused], "{args:?}: {summary}");
            let told = format!("{refused} packets refused by the kernel (at first with ENOBUFS)");
            let notes = summary["ports"].to_string();
            assert!(args[0] == "forward" || notes.contains(&told), "{notes}");
        });
        assert!(seen == expected, "{args:?}: not what was sent");
    }
}

/// The kernel drops packets for an interface without a link, and reports them as sent.
#[test]
fn privileged_an_interface_without_a_link_is_an_error() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("six.pcap");
    write(&file, 1, &[0, 1, 2, 3, 4, 5].map(|n| packets::udp4(n).build()));
    for backend in ["packet:", "xdp:"] {
        let wire = Wire::new(1);
        let port = wire.port(backend);
        let packet = ["--packet", "ipv4 udp", "--rate", "2kpps"];
        let switch = |how| wire.right.run("ip", ["link", "set", &wire.pair.b.interface, how]);
        let mut sending = wire.send(&[&[port.as_str()][..], &packet].concat());
        sending.wait_until(PATIENCE, |_| wire.pair.b.statistic("rx_packets") > 100);
        switch("down");
        let while_sending = sending.wait(PATIENCE);
        let at_first = wire.send(&[&[port.as_str(), "-c", "5"][..], &packet].concat());
        let at_first = at_first.wait(PATIENCE);
        // All packets are due at once, and there is one more.
        let burst = [&port, file.to_str().unwrap(), "-c", "5", "--speed", "100000"];
        let burst = wire.send(&burst).wait(PATIENCE);
        for ended in [while_sending, at_first, burst] {
            assert_eq!(ended.status.code(), Some(1), "{backend} {}", ended.stderr);
            let told = format!("{}: the interface has no link; ", wire.pair.a.interface);
            assert!(ended.stderr.contains(&told), "{backend} {}", ended.stderr);
        }
        switch("up");
    }
}
