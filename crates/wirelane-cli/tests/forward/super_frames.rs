//! Frames of several packets, long frames, and frames that only look long: the packets arrive
//! unchanged.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use tempfile::tempdir;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_os::iface;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{kernel, packets, privileged, tools};

use super::bridge::{Bridge, LEFT, RIGHT};
use super::wire::{Wire, content, summary_of};
use super::*;

/// Sends `count` datagrams of `size` bytes by one call, each filled with a different byte.
const SENDER: &str = r#"
    use Socket;
    my ($to, $port, $count, $size) = @ARGV;
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die "socket: $!";
    my ($SOL_UDP, $UDP_SEGMENT) = (17, 103);
    setsockopt($socket, $SOL_UDP, $UDP_SEGMENT, pack("i", $size)) or die "UDP_SEGMENT: $!";
    my $data = join("", map { chr($_) x $size } 1..$count);
    defined(send($socket, $data, 0, sockaddr_in($port, inet_aton($to)))) or die "send: $!";
"#;

/// Writes frames to a file.
fn write(path: &Path, frames: &[Vec<u8>]) {
    let source = Source::new("test", wirelane::Class::Rx, Some(0));
    let options = WriterOptions::of_path(path);
    let mut writer = CaptureWriter::create(path, &[source], options, 0).unwrap();
    for (index, data) in frames.iter().enumerate() {
        let record = Record {
            interface: 0,
            timestamp: 1_000_000 * (1 + index as u64),
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data,
        };
        writer.write(&record).unwrap();
    }
    writer.flush().unwrap();
}

/// The long frame leaves the stack and passes the veth unchanged.
#[test]
fn privileged_datagrams_sent_by_one_call_stay_datagrams() {
    if !privileged::require() || !tools::require("perl") || !tools::require("ethtool") {
        return;
    }
    if !kernel::require(6, 2, "packet sockets receive long frames of datagrams") {
        return;
    }
    for (sink, options) in [
        ("packet:IF", &["--gso"][..]),
        ("packet:IF", &[]),
        ("packet:IF?vnet=off", &["--gso"]),
        ("packet:IF", &["--gso", "--gro", "--qdisc", "fifo"]),
        ("xdp:IF", &["--gso", "--all"]),
    ] {
        if is_refused_for_tags(sink) {
            continue;
        }
        let bridge = Bridge::new(1);
        let near = format!("packet:{}", bridge.near.b.interface);
        let far = sink.replace("IF", &bridge.far.a.interface);
        let running = Running::start(&bridge.middle, &[&[near.as_str(), &far], options].concat());
        let receiver = bridge.right.inside(|| UdpSocket::bind((RIGHT, 0)).unwrap());
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = receiver.local_addr().unwrap().port().to_string();
        // Together longer than the MTU, and shorter.
        for (count, size) in [(10, 1200), (10, 100)] {
            let arguments = [RIGHT, &port, &count.to_string(), &size.to_string()];
            bridge.left.run("perl", [&["-e", SENDER][..], &arguments].concat());
            let mut got = [0; 65_536];
            for number in 1..=count {
                let length = receiver.recv(&mut got).unwrap();
                assert_eq!(length, size, "{sink} {options:?}: datagram {number}");
                assert!(got[..size] == vec![number as u8; size], "{sink} {options:?}: {number}");
            }
        }
        let summary = summary_of(running.0);
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{sink} {options:?}: {summary}");
    }
}

/// An AF_XDP socket in generic mode cannot see that a frame holds several packets. A note says so.
#[test]
fn privileged_generic_mode_says_that_it_cannot_tell_super_frames() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    for (mode, is_told) in [("generic&tags=off", true), ("native&tags=off", false)] {
        let spec = format!("xdp:{}?mode={mode}", pair.a.interface);
        let (summary, text) =
            Running::start(&near, &["--all", "--one-way", &spec, "sim:1"]).finish();
        assert_eq!(text.contains("is passed on whole"), is_told, "{mode}: {summary}");
    }
}

/// The stack relies on the veth to segment, and the command has no --gso.
#[test]
fn privileged_tcp_with_segmentation_offload_passes_without_gso() {
    if !privileged::require() {
        return;
    }
    let bridge = Bridge::new(1);
    let ports = [&bridge.near.b, &bridge.far.a].map(|end| format!("packet:{}", end.interface));
    let running = Running::start(&bridge.middle, &[&ports[0], &ports[1]]);
    for (from, to, address) in
        [(&bridge.left, &bridge.right, RIGHT), (&bridge.right, &bridge.left, LEFT)]
    {
        Wire::transfer(from, to, address, &content(2 << 20));
    }
    let summary = summary_of(running.0);
    for port in [0, 1] {
        assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{summary}");
        // Each is as short as on a wire.
        assert!(of_port(&summary, "tx", port, "packets") > (2 << 20) / 1514, "{summary}");
    }
}

/// Without checksums, as in VXLAN over IPv4, and more in a row than the kernel segments from one
/// frame.
#[test]
fn privileged_datagrams_of_one_flow_all_arrive() {
    if !privileged::require() {
        return;
    }
    const COUNT: u64 = 1000;
    const PORT: u16 = 9;
    for sink in ["packet:IF", "packet:IF?vnet=on", "packet:IF?vnet=off", "xdp:IF", "tap:wl-tap"] {
        for checksum in [true, false] {
            let (near, far) = (Namespace::new(), Namespace::new());
            let pair = VethPair::new(&near, &far, 1, 1500);
            let (ns, mac, address) = match sink.starts_with("tap") {
                true => {
                    let add = "tuntap add dev wl-tap mode tap multi_queue vnet_hdr";
                    near.run("ip", add.split(' '));
                    near.run("ip", "link set wl-tap address 02:00:00:00:00:07 up".split(' '));
                    near.run("ip", "address add 10.97.0.2/24 dev wl-tap".split(' '));
                    (&near, [2, 0, 0, 0, 0, 7], Ipv4Addr::new(10, 97, 0, 2))
                }
                false => (&far, pair.b.mac, pair.b.address),
            };
            let mut source = address.octets();
            source[3] = 77;
            let frames: Vec<_> = (0..COUNT)
                .map(|number| {
                    let packet = packets::udp4(number).length(142).macs([2, 0, 0, 0, 0, 9], mac);
                    let mut frame = packet.addresses(Ipv4Addr::from(source), address).build();
                    if !checksum {
                        frame[40..42].fill(0);
                    }
                    frame
                })
                .collect();
            let receiver = ns.inside(|| UdpSocket::bind((address, PORT)).unwrap());
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 8 << 20).unwrap();
            receiver.set_read_timeout(Some(PATIENCE)).unwrap();
            let directory = tempdir().unwrap();
            let path = directory.path().join("flow.pcapng");
            write(&path, &frames);
            let (file, to) =
                (format!("file:{}", path.display()), sink.replace("IF", &pair.a.interface));
            let mut command = near.command(WIRELANE);
            command.args(["forward", "-q", "--json", "--gso", "--gro", &file, &to]);
            let summary = summary(&output(&mut command));
            let what = format!("{sink}, checksums: {checksum}: {summary}");
            assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{what}");
            assert!(number(&summary["totals"]["merged"]) > COUNT / 2, "{what}");
            let mut got = [0; 65_536];
            for frame in &frames {
                let length = receiver.recv(&mut got).unwrap_or_else(|e| panic!("{e}: {what}"));
                assert!(got[..length] == frame[42..], "{what}");
            }
        }
    }
}

/// Frames of `network` bytes behind their tags, with a trailer.
fn with_tags(number: u64, tags: usize, network: usize, trailer: usize) -> Vec<u8> {
    let mut frame = packets::udp4(number).length(14 + network).build();
    (0..tags).for_each(|tag| drop(frame.splice(12..12, [[0x81, 0x88][tag], [0, 0xa8][tag], 0, 7])));
    frame.extend(vec![0xee; trailer]);
    frame
}

/// Tags and trailers do not count as part of the packet's length.
#[test]
fn privileged_full_packets_pass_with_tags_and_trailers() {
    if !privileged::require() {
        return;
    }
    for (sink, options) in
        [("packet", &[][..]), ("packet", &["--gso"]), ("xdp", &["--gso"]), ("xdp", &[])]
    {
        let ns = Namespace::new();
        let device = MultiQueueTap::new(&ns, "wl-far", 1);
        let mut frames = Vec::new();
        for tags in 0..=2 {
            for (network, trailer) in
                [(1496, 0), (1496, 4), (1497, 0), (1498, 2), (1499, 0), (1500, 0), (46, 20)]
            {
                frames.push(with_tags(frames.len() as u64, tags, network, trailer));
            }
        }
        let directory = tempdir().unwrap();
        let path = directory.path().join("tags.pcapng");
        write(&path, &frames);
        device.drain();
        let (file, to) = (format!("file:{}", path.display()), format!("{sink}:wl-far"));
        let mut command = ns.command(WIRELANE);
        command.args(["forward", "-q", "--json", &file, &to]).args(options);
        let summary = summary(&output(&mut command));
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{sink} {options:?}: {summary}");
        let got: Vec<_> = device.drain().into_iter().map(|(_, frame)| frame).collect();
        assert!(got == frames, "{sink} {options:?}: {} of {}", got.len(), frames.len());
    }
}

/// Whether a packet is too long depends on the MTU at that time.
#[test]
fn privileged_lengths_follow_the_mtu() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let spec = format!("packet:{}", pair.a.interface);
    let options = wirelane::port::OpenOptions::default().receive(false).transmit(true);
    let mut port = near.inside(|| wirelane::port::open(&spec.parse().unwrap(), &options).unwrap());
    let mut tx = port.tx().unwrap().pop().unwrap();
    let mut batch = wirelane::Batch::new(1);
    let mut send = |length| {
        assert_eq!(tx.allocate(&mut batch, 1), 1);
        assert!(batch[0].fill(&packets::udp4(1).length(length).build()));
        let deadline = Instant::now() + PATIENCE;
        while !batch.is_empty() || tx.pending() > 0 {
            assert!(Instant::now() < deadline);
            tx.transmit(&mut batch);
            tx.flush().unwrap();
        }
        (tx.counters().packets.value(), tx.counters().wrong_length.value())
    };
    assert_eq!([send(1514), send(1515)], [(1, 0), (1, 1)]);
    near.inside(|| iface::set_mtu(&pair.a.interface, 600).unwrap());
    assert_eq!([send(614), send(615), send(1514)], [(2, 1), (2, 2), (2, 3)]);
    near.inside(|| iface::set_mtu(&pair.a.interface, 1500).unwrap());
    assert_eq!(send(1514), (3, 3));
}

/// Runs the command, which must succeed without errors.
#[track_caller]
fn forwarded_by(args: &[&str]) {
    let summary = summary(&output(wirelane(["forward", "-q", "--json"]).args(args)));
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{args:?}: {summary}");
}

/// A file accepts packets of any length, even merged ones with partial checksums.
#[test]
fn a_file_takes_what_is_longer_than_its_frames() {
    let directory = tempdir().unwrap();
    let [from, to] = ["from.pcapng", "to.pcapng"].map(|name| directory.path().join(name));
    let port = |path: &Path| format!("file:{}", path.display());
    for length in [2042, 9014, 32_000, 65_549] {
        let frames: Vec<_> = (0..4).map(|n| packets::udp4(n).length(length).build()).collect();
        write(&from, &frames);
        for options in [&[][..], &["--gro"], &["--gso", "--gro"], &["--gso"]] {
            forwarded_by(&[&[port(&from).as_str(), &port(&to)], options].concat());
            let got: Vec<_> = packets(&to).into_iter().map(|packet| packet.data).collect();
            assert!(got == frames, "{length} {options:?}");
        }
    }
    // No IP packet has this length, but the file does.
    let frames = [vec![7; 66_000], vec![8; 100_000]];
    write(&from, &frames);
    for options in [&[][..], &["--gso", "--gro"]] {
        forwarded_by(&[&[port(&from).as_str(), &port(&to)], options].concat());
        let got: Vec<_> = packets(&to).into_iter().map(|packet| packet.data).collect();
        assert!(got == frames, "{options:?}: {}", got.len());
    }
}

/// The stack leaves checksums to the forwarder, for datagrams longer than the frames of a file.
#[test]
fn privileged_a_file_gets_long_packets_with_checksums() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let directory = tempdir().unwrap();
    let path = directory.path().join("stack.pcapng");
    let file = format!("file:{}", path.display());
    let mut command = ns.command(WIRELANE);
    command.args(["forward", "--json", "--gso", "tap:wl-tap?mtu=9000", &file]);
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |child| child.stderr().contains("queues"));
    ns.run("ip", "address add 10.97.0.1/24 dev wl-tap".split(' '));
    let neighbour = "neigh replace 10.97.0.2 lladdr 02:00:00:00:00:09 dev wl-tap nud permanent";
    ns.run("ip", neighbour.split(' '));
    let socket = ns.inside(|| UdpSocket::bind(("10.97.0.1", 0)).unwrap());
    for size in [2000, 4000, 8972] {
        socket.send_to(&content(size), ("10.97.0.2", 4001)).unwrap();
    }
    // The forwarder drops packets that it has not read when it is interrupted.
    let sent = || ns.run("cat", ["/sys/class/net/wl-tap/statistics/tx_packets"]);
    child.wait_until(PATIENCE, |_| sent().trim().parse::<u64>().unwrap() >= 3);
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let got = packets(&path);
    let long: Vec<_> = got.iter().map(|packet| packet.data.len()).filter(|n| *n > 1500).collect();
    assert_eq!(long, [2042, 4042, 9014], "{}", ended.stderr);
    let verified = output(wirelane(["verify", "--mtu", "9000"]).arg(&path));
    assert_eq!(verified.status.code(), Some(0), "{}", verified.stdout);
}
