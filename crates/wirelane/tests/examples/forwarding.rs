//! Programs between two hosts: `bridge`, `nat`, `policer`, `responder`, `xdp_echo`, `tap`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use crate::{PATIENCE, example, interrupted};

const CLIENT: &str = "10.99.0.1";
const SERVER: &str = "10.99.0.2";
/// A second address of the client.
const SECOND: &str = "10.99.0.3";
/// The outside address of the NAT.
const OUTSIDE: &str = "10.99.0.254";
const STATION: &str = "02:57:4c:00:00:77";

/// A client and a server that reach each other only through a program in the middle.
///
/// ```text
///   left: client ══ veth ══ nat ══ veth ══ server :right
/// ```
pub(crate) struct Network {
    pub(crate) left: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) right: Namespace,
    near: VethPair,
    far: VethPair,
}

impl Network {
    pub(crate) fn new() -> Self {
        let [left, middle, right] = [(); 3].map(|()| Namespace::new());
        let near = VethPair::new(&left, &middle, 1, 1500);
        let far = VethPair::new(&middle, &right, 1, 1500);
        for (ns, end, address) in [
            (&left, &near.a, Some(CLIENT)),
            (&middle, &near.b, None),
            (&middle, &far.a, None),
            (&right, &far.b, Some(SERVER)),
        ] {
            ns.run("ip", ["address", "flush", "dev", &end.interface]);
            if let Some(address) = address {
                ns.run("ip", ["address", "add", &format!("{address}/24"), "dev", &end.interface]);
            }
        }
        Self { left, middle, right, near, far }
    }

    /// Gives the client its second address.
    fn add_second(&self) {
        let device = &self.near.a.interface;
        self.left.run("ip", ["address", "add", &format!("{SECOND}/24"), "dev", device]);
    }

    pub(crate) fn ports(&self) -> [String; 2] {
        [&self.near.b, &self.far.a].map(|end| format!("packet:{}", end.interface))
    }

    /// Starts the NAT, and the responder that answers ARP requests for its outside address.
    fn translate(&self) -> [ChildGuard; 2] {
        let [inside, outside] = self.ports();
        let nat = self.middle.spawn(example("nat"), [&inside, &outside, OUTSIDE]);
        let mut responder = self.middle.spawn(example("responder"), [outside.as_str(), OUTSIDE]);
        responder.wait_until(PATIENCE, |it| it.stdout().contains(STATION));
        [nat, responder]
    }
}

/// Test data with a long period.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

/// Checks that data over TCP and UDP is echoed intact, and that the server sees the client with the
/// address `known_as`.
#[track_caller]
fn tcp_and_udp_pass(network: &Network, known_as: &str) {
    let sent = content(8 << 20);
    let listener = network.right.inside(|| TcpListener::bind((SERVER, 0)).unwrap());
    let there = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        let mut back = stream.try_clone().unwrap();
        let copied = std::io::copy(&mut stream, &mut back).unwrap();
        (copied, peer)
    });
    let stream = network.left.inside(|| TcpStream::connect_timeout(&there, PATIENCE).unwrap());
    let here = stream.local_addr().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut reader, expected) = (stream.try_clone().unwrap(), sent.clone());
    let reader = thread::spawn(move || {
        let mut received = vec![0; expected.len()];
        reader.read_exact(&mut received).unwrap();
        assert!(received == expected, "the echo differs from the sent bytes");
    });
    (&stream).write_all(&sent).unwrap();
    reader.join().unwrap();
    drop(stream);
    let (copied, peer) = echo.join().unwrap();
    assert_eq!((copied, peer.ip().to_string()), (sent.len() as u64, known_as.to_owned()));
    assert_eq!(here.ip().to_string(), CLIENT);

    let echo = network.right.inside(|| UdpSocket::bind((SERVER, 0)).unwrap());
    let socket = network.left.inside(|| UdpSocket::bind((CLIENT, 0)).unwrap());
    for socket in [&echo, &socket] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut buffer = [0; 2048];
    for len in [1, 18, 999, 1472] {
        socket.send_to(&sent[..len], echo.local_addr().unwrap()).unwrap();
        let (received, peer) = echo.recv_from(&mut buffer).unwrap();
        assert_eq!((received, peer.ip().to_string()), (len, known_as.to_owned()));
        echo.send_to(&buffer[..len], peer).unwrap();
        let (received, peer) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..received], peer), (&sent[..len], echo.local_addr().unwrap()));
    }
}

/// Runs `ping` until three answers arrive, and fails if they do not arrive in time.
#[track_caller]
fn ping(ns: &Namespace, address: &str) {
    let mut command = ns.command("ping");
    command.args(["-n", "-c", "3", "-i", "0.2", "-w", "20", address]);
    let ended = output(&mut command);
    assert!(ended.status.success(), "{}", ended.stdout);
}

#[test]
fn privileged_nat_translates_partial_checksums() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let network = Network::new();
    // The client leaves checksums and segmentation to its device; the server checks all checksums.
    network.far.set_offloads(false);
    let _running = network.translate();
    tcp_and_udp_pass(&network, OUTSIDE);
}

#[test]
fn privileged_nat_translates_complete_checksums() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let network = Network::new();
    network.near.set_offloads(false);
    network.far.set_offloads(false);
    let _running = network.translate();
    tcp_and_udp_pass(&network, OUTSIDE);
}

#[test]
fn privileged_bridge_is_fast_and_segments_long_packets() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    // Hosts leave checksums and segmentation to their devices, as usual.
    let network = Network::new();
    let bridge = network.middle.spawn(example("bridge"), network.ports());
    tcp_and_udp_pass(&network, CLIENT);
    let mut command = network.left.command("ping");
    command.args(["-n", "-c", "50", "-i", "0.02", "-w", "20", SERVER]);
    let ended = output(&mut command);
    let times = ended.stdout.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let mut times: Vec<f64> = times.map(|(time, _)| time.parse().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied();
    assert!(times.len() >= 45 && median.is_some_and(|ms| ms < 5.0), "{}", ended.stdout);

    let ended = interrupted(bridge);
    let text = ended.stdout;
    assert!(["port 0 rx 0: ", "port 1 rx 0: "].iter().all(|queue| text.contains(queue)), "{text}");
}

#[test]
fn privileged_nat_gives_each_host_a_port() {
    if !privileged::require() {
        return;
    }
    let network = Network::new();
    network.add_second();
    let _running = network.translate();
    let server = socket(&network.right, SERVER.parse().unwrap());
    let bind = |address| network.left.inside(|| UdpSocket::bind((address, 4000)).unwrap());
    let hosts = [CLIENT, SECOND].map(bind);
    let (mut buffer, mut peers) = ([0; 100], Vec::new());
    for (host, text) in hosts.iter().zip([b"one", b"two"]) {
        host.set_read_timeout(Some(PATIENCE)).unwrap();
        host.send_to(text, server.local_addr().unwrap()).unwrap();
        peers.push(server.recv_from(&mut buffer).unwrap().1);
        assert_eq!(&buffer[..3], text);
    }
    let expected = [4000, 4001].map(|port| (OUTSIDE.parse::<Ipv4Addr>().unwrap(), port).into());
    assert_eq!(peers, expected);
    for ((host, peer), text) in hosts.iter().zip(peers).zip([b"uno", b"dos"]) {
        server.send_to(text, peer).unwrap();
        assert_eq!(host.recv(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], text);
    }
}

#[test]
fn privileged_nat_translates_ping() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    let network = Network::new();
    let _running = network.translate();
    ping(&network.left, SERVER);
    // The server has resolved the outside address to the MAC address of the responder.
    let neighbours = network.right.run("ip", ["neighbour", "show", OUTSIDE]);
    assert!(neighbours.contains(STATION), "{neighbours}");
}

#[test]
fn privileged_responder_answers_for_an_address() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    for backend in ["packet", "xdp"] {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, 1, 1500);
        let [a, b, c, _] = pair.b.address.octets();
        let address = Ipv4Addr::new(a, b, c, 77).to_string();
        let port = format!("{backend}:{}", pair.b.interface);
        let mut responder = far.spawn(example("responder"), [&port, &address]);
        responder.wait_until(PATIENCE, |it| it.stdout().contains(STATION));
        ping(&near, &address);
        let neighbours = near.run("ip", ["neighbour", "show", &address]);
        assert!(neighbours.contains(STATION), "{neighbours}");
        // The host receives packets for other addresses.
        ping(&near, &pair.b.address.to_string());
        assert!(responder.is_running(), "{}", responder.stderr());
    }
}

/// The rate that iperf3 measures from the client to the server, in bit/s.
fn iperf(network: &Network, seconds: u32) -> f64 {
    let mut server = network.right.spawn("iperf3", ["-s", "-1", "--forceflush"]);
    server.wait_until(PATIENCE, |it| it.stdout().contains("Server listening"));
    let mut client = network.left.command("iperf3");
    client.args(["-c", SERVER, "-t", &seconds.to_string(), "-O", "1", "--json"]);
    let ended = output(&mut client);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.unwrap_or_else(|| panic!("{report}"))
}

/// Compares the rates of TCP through the NAT and through `wirelane forward`, in turn. It prints
/// figures and checks none: `cargo build --release -p wirelane-cli && cargo test --release -p
/// wirelane --test examples -- --ignored --nocapture nat_beside` after `cargo build --release -p
/// wirelane --examples`.
#[test]
#[ignore = "prints figures; takes a minute and wants a quiet machine"]
#[allow(clippy::print_stdout, reason = "the figures are its result")]
fn privileged_nat_beside_forward() {
    if !privileged::require() || !tools::require("iperf3") {
        return;
    }
    let network = Network::new();
    let wirelane = example("nat").with_file_name("../wirelane");
    assert!(wirelane.is_file(), "cargo build --release -p wirelane-cli");
    let [inside, outside] = network.ports();
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        let running = network.translate();
        rates[0].push(iperf(&network, 4));
        drop(running);
        let running = network.middle.spawn(&wirelane, ["forward", &inside, &outside]);
        let start = Instant::now();
        rates[1].push(iperf(&network, 4));
        assert!(start.elapsed() < PATIENCE);
        drop(running);
    }
    for (name, rates) in ["nat", "wirelane forward"].iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let [low, .., high] = rates[..] else { return };
        let gbits = [rates[2], low, high].map(|rate| format!("{:.2}", rate / 1e9));
        println!("{name:16} {} Gbit/s ({} to {})", gbits[0], gbits[1], gbits[2]);
    }
}

/// A socket in a namespace, with a limit on the time that it waits.
fn socket(ns: &Namespace, address: Ipv4Addr) -> UdpSocket {
    let socket = ns.inside(|| UdpSocket::bind((address, 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

/// Receives until nothing has arrived for two seconds; returns the number of datagrams.
fn arrived(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn privileged_policer_limits_each_source() {
    if !privileged::require() {
        return;
    }
    let network = Network::new();
    network.add_second();
    let [inside, outside] = network.ports();
    let policer = network.middle.spawn(example("policer"), [&inside, &outside, "1_000_000"]);
    // The second source sends a few packets: the first one's rate must not concern it. A bucket
    // has 100 kbit, which are 12 packets, and gains 12 more in 100 ms.
    for (source, sent, expected) in [(CLIENT, 200, 12..100), (SECOND, 10, 10..11)] {
        let sink = socket(&network.right, SERVER.parse().unwrap());
        let socket = socket(&network.left, source.parse().unwrap());
        let deadline = Instant::now() + PATIENCE;
        // The ports may not be open yet, and ARP needs its first answer.
        while {
            socket.send_to(b"first", sink.local_addr().unwrap()).unwrap();
            sink.recv(&mut [0; 2048]).is_err()
        } {
            assert!(Instant::now() < deadline, "nothing is forwarded: {}", policer.stderr());
        }
        thread::sleep(Duration::from_millis(200));
        for _ in 0..sent {
            socket.send_to(&[0; 1000], sink.local_addr().unwrap()).unwrap();
        }
        let count = arrived(&sink);
        assert!(expected.contains(&count), "{source}: {count} of {sent}");
    }
    let ended = interrupted(policer);
    let filtered =
        |line: &str| line.split_once(" bytes, ")?.1.split_once(" filtered")?.0.parse::<u64>().ok();
    let filtered: u64 = ended.stdout.lines().filter_map(filtered).sum();
    assert!((100..=188).contains(&filtered), "{}", ended.stdout);
}

#[test]
fn privileged_xdp_echo_answers_on_all_queues_and_leaves_the_rest() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    // Only the program answers ping.
    far.run("sysctl", ["-qw", "net.ipv4.icmp_echo_ignore_all=1"]);
    let port = format!("xdp:{}", pair.b.interface);
    let mut echo = far.spawn(example("xdp_echo"), [&port]);
    echo.wait_until(PATIENCE, |it| it.stdout().contains("queues [0, 1]"));
    ping(&near, &pair.b.address.to_string());
    let mut buffer = [0; 2048];
    for flow in 0..32_u8 {
        let socket = socket(&near, pair.a.address);
        for len in [1, 18, 999, 1472] {
            socket.send_to(&vec![flow; len], (pair.b.address, 7)).unwrap();
            let (received, peer) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(
                (&buffer[..received], peer),
                (&*vec![flow; len], (pair.b.address, 7).into())
            );
        }
    }
    // The host still has TCP, and UDP to other ports.
    let listener = far.inside(|| TcpListener::bind((pair.b.address, 0)).unwrap());
    let there = listener.local_addr().unwrap();
    near.inside(|| TcpStream::connect_timeout(&there, PATIENCE).unwrap());
    let host = socket(&far, pair.b.address);
    let socket = socket(&near, pair.a.address);
    socket.send_to(b"host", host.local_addr().unwrap()).unwrap();
    assert_eq!(host.recv(&mut buffer).unwrap(), 4);

    let ended = interrupted(echo);
    let packets = |queue: &str| {
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix(queue))?;
        line.split_once(' ')?.0.parse::<u64>().ok()
    };
    let [first, second] = ["port 0 rx 0: ", "port 0 rx 1: "].map(|queue| packets(queue).unwrap());
    assert!(first > 0 && second > 0 && first + second == 131, "{}", ended.stdout);
}

#[test]
fn privileged_tap_connects_two_stacks() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    let (left, right) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&left, &right, 1, 1500);
    let ends = [&pair.a, &pair.b].map(|end| format!("{}:5000", end.address));
    let [a, b] = ["10.98.0.1", "10.98.0.2"];
    let mut running = Vec::new();
    for (ns, own, other, address) in
        [(&left, &ends[0], &ends[1], a), (&right, &ends[1], &ends[0], b)]
    {
        let mut program = ns.spawn(example("tap"), ["wl0", own, other]);
        let exists = || output(ns.command("ip").args(["link", "show", "wl0"])).status.success();
        program.wait_until(PATIENCE, |_| exists());
        ns.run("ip", ["address", "add", &format!("{address}/24"), "dev", "wl0"]);
        ns.run("ip", ["link", "set", "wl0", "up"]);
        running.push(program);
    }
    ping(&left, b);
    let listener = right.inside(|| TcpListener::bind((b, 0)).unwrap());
    let there = listener.local_addr().unwrap();
    let sent = content(1 << 20);
    let mut stream = left.inside(|| TcpStream::connect_timeout(&there, PATIENCE).unwrap());
    let expected = sent.clone();
    let reader = thread::spawn(move || {
        let (mut stream, mut received) = (listener.accept().unwrap().0, vec![0; expected.len()]);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut received).unwrap();
        assert!(received == expected, "something else arrived");
    });
    stream.write_all(&sent).unwrap();
    reader.join().unwrap();
}
