//! Runs the compiled examples on interfaces in namespaces.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT: &str = "10.99.0.1";
const SERVER: &str = "10.99.0.2";
/// The outside address of the NAT.
const OUTSIDE: &str = "10.99.0.254";
const STATION: &str = "02:57:4c:00:00:77";

/// The compiled program of an example. Cargo builds the examples with all tests of a package.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.is_file(), "{}: cargo build -p wirelane --examples", program.display());
    program
}

/// A client and a server that reach each other only through a program in the middle.
///
/// ```text
///   left: client ══ veth ══ nat ══ veth ══ server :right
/// ```
struct Network {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    near: VethPair,
    far: VethPair,
}

impl Network {
    fn new() -> Self {
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

    fn ports(&self) -> [String; 2] {
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
        assert!(received == expected, "what came back is something else");
    });
    (&stream).write_all(&sent).unwrap();
    reader.join().unwrap();
    drop(stream);
    let (copied, peer) = echo.join().unwrap();
    assert_eq!((copied, peer.ip().to_string()), (sent.len() as u64, known_as.to_owned()));
    assert_eq!(here.ip().to_string(), CLIENT);
    assert_eq!(peer.port() == here.port(), known_as == CLIENT);

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
fn privileged_forward_is_fast_and_cuts_what_is_long() {
    if !privileged::require() || !tools::require("ping") {
        return;
    }
    // Hosts leave checksums and segmentation to their devices, as usual.
    let network = Network::new();
    let forward = network.middle.spawn(example("forward"), network.ports());
    tcp_and_udp_pass(&network, CLIENT);
    let mut command = network.left.command("ping");
    command.args(["-n", "-c", "50", "-i", "0.02", "-w", "20", SERVER]);
    let ended = output(&mut command);
    let times = ended.stdout.lines().filter_map(|line| line.split_once("time=")?.1.split_once(' '));
    let mut times: Vec<f64> = times.map(|(time, _)| time.parse().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied();
    assert!(times.len() >= 45 && median.is_some_and(|ms| ms < 5.0), "{}", ended.stdout);

    forward.interrupt();
    let ended = forward.wait(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let text = ended.stdout;
    assert!(["port 0 rx 0: ", "port 1 rx 0: "].iter().all(|queue| text.contains(queue)), "{text}");
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

#[test]
fn talkers_counts_every_packet() {
    let ended = output(Command::new(example("talkers")).arg("sim:3?count=123456&flows=7"));
    let text = ended.stdout;
    assert!(ended.status.success(), "{}", ended.stderr);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("123456 packets of "), "{text}");
}

#[test]
fn privileged_talkers_counts_exactly() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let [a, b, c, _] = pair.a.address.octets();
    let second = Ipv4Addr::new(a, b, c, 9);
    near.run("ip", ["address", "add", &format!("{second}/24"), "dev", &pair.a.interface]);
    let mut talkers = far.spawn(example("talkers"), [format!("packet:{}", pair.b.interface)]);
    talkers.wait_until(PATIENCE, |it| it.stdout().contains("0 packets of 0 sources"));
    let sink = far.inside(|| UdpSocket::bind((pair.b.address, 0)).unwrap());
    for (source, count) in [(pair.a.address, 300), (second, 200)] {
        let socket = near.inside(|| UdpSocket::bind((source, 0)).unwrap());
        for _ in 0..count {
            socket.send_to(&[0; 58], sink.local_addr().unwrap()).unwrap();
        }
    }
    // Each packet has 100 bytes: the headers of Ethernet, IP and UDP, and 58 bytes of data.
    let line = |source: Ipv4Addr, packets, bytes| format!("{source:39} {packets:11} {bytes:15}");
    let lines = [line(pair.a.address, 300, 30_000), line(second, 200, 20_000)];
    talkers.wait_until(PATIENCE, |it| it.stdout().contains("500 packets of 2 sources"));
    let text = talkers.stdout();
    assert!(lines.iter().all(|line| text.contains(line)), "{text}\n{lines:?}");
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
#[allow(clippy::print_stdout, reason = "figures for whoever runs it")]
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
