//! Stacks that leave checksums to their devices, as on veth: forwarded packets have checksums.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use wirelane_testkit::{privileged, tools};

use super::bridge::{Bridge, LEFT, RIGHT};
use super::*;

const BYTES: usize = 512 << 10;
const LEFT6: &str = "fd99::1";
const RIGHT6: &str = "fd99::2";

/// Both stacks with their default offloads, or without segmentation.
fn bridge(segmentation: bool) -> Bridge {
    let bridge = Bridge::new(1);
    for (ns, end, address) in
        [(&bridge.left, &bridge.near.a, LEFT6), (&bridge.right, &bridge.far.b, RIGHT6)]
    {
        if !segmentation {
            end.ethtool(&["-K", &end.interface, "tso", "off", "gso", "off"]);
        }
        ns.enable_ipv6();
        let address = format!("{address}/64");
        ns.run("ip", ["address", "add", &address, "dev", &end.interface, "nodad"]);
    }
    bridge
}

/// Sends datagrams to the right, which sends them back.
fn datagrams(bridge: &Bridge, from: &str, to: &str) {
    let there = bridge.right.inside(|| UdpSocket::bind((to, 0)).unwrap());
    let here = bridge.left.inside(|| UdpSocket::bind((from, 0)).unwrap());
    for socket in [&there, &here] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    for size in [0, 1, 18, 100, 1400] {
        let mut got = [0; 2000];
        here.send_to(&vec![0x5a; size], there.local_addr().unwrap()).unwrap();
        assert_eq!(there.recv(&mut got).unwrap(), size, "to {to}");
        there.send_to(&got[..size], here.local_addr().unwrap()).unwrap();
        assert_eq!(here.recv(&mut got).unwrap(), size, "from {to}");
    }
}

/// Sends a file to the right, which sends it back.
fn transfer(bridge: &Bridge, to: &str) {
    let listener = bridge.right.inside(|| TcpListener::bind((to, 0)).unwrap());
    let at: SocketAddr = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = vec![];
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(&got).unwrap();
    });
    let mut stream = bridge.left.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let content: Vec<u8> = (0..BYTES).map(|i| ((i * 13) >> 4) as u8).collect();
    stream.write_all(&content).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = vec![];
    stream.read_to_end(&mut back).unwrap();
    assert!(back == content, "{to}");
    echo.join().unwrap();
}

/// Talks through `wirelane forward` between ports of `backends`, with `?` and options or without.
/// No packet that arrives at either side is wrong.
#[track_caller]
fn check(backends: [&str; 2], segmentation: bool, options: &[&str]) {
    const TOOLS: [&str; 3] = ["tcpdump", "tshark", "ethtool"];
    if !privileged::require() || !TOOLS.iter().all(|tool| tools::require(tool)) {
        return;
    }
    if backends.into_iter().any(is_refused_for_tags) {
        return;
    }
    let bridge = bridge(segmentation);
    let ports: Vec<_> = backends
        .iter()
        .zip([&bridge.near.b, &bridge.far.a])
        .map(|(backend, end)| {
            let (backend, query) = backend.split_once('?').unwrap_or((backend, ""));
            let mark = if query.is_empty() { "" } else { "?" };
            format!("{backend}:{}{mark}{query}", end.interface)
        })
        .collect();
    let running =
        Running::start(&bridge.middle, &[&[ports[0].as_str(), &ports[1]], options].concat());
    let directory = tempfile::tempdir().unwrap();
    let record = |ns: &Namespace, interface: &str| {
        let file = directory.path().join(interface).display().to_string();
        let mut command = ns.command("tcpdump");
        // Only received packets: packets sent here have no checksum yet.
        command.args(["-Q", "in", "-i", interface, "-s", "0", "-B", "32768", "-U"]);
        command.args(["--immediate-mode", "-Z", "root", "-w", &file]);
        let mut child = ChildGuard::spawn(&mut command);
        child.wait_until(PATIENCE, |child| child.stderr().contains("listening"));
        child
    };
    let recordings = [
        record(&bridge.left, &bridge.near.a.interface),
        record(&bridge.right, &bridge.far.b.interface),
    ];
    for (from, to) in [(LEFT, RIGHT), (LEFT6, RIGHT6)] {
        datagrams(&bridge, from, to);
        transfer(&bridge, to);
    }
    running.0.interrupt();
    let ended = running.0.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let summary = parse(&ended.stdout);
    assert_eq!(summary["errors"], serde_json::json!([]));
    for port in [0, 1] {
        assert_eq!(of_port(&summary, "tx", port, "unfinished"), 0, "{summary}");
        assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{summary}");
    }
    for (mut recording, end) in recordings.into_iter().zip([&bridge.near.a, &bridge.far.b]) {
        // tcpdump drops packets that it has not read when it is interrupted.
        let file = directory.path().join(&end.interface);
        recording.wait_until(PATIENCE, |_| readable(&file).0.len() > BYTES / 1448);
        thread::sleep(Duration::from_millis(300));
        recording.interrupt();
        assert_eq!(recording.wait(PATIENCE).status.code(), Some(0));
        let file = directory.path().join(&end.interface);
        let ended = output(wirelane(["verify", "--strict", "--mtu", "1500"]).arg(&file));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stdout);
        assert!(packets(&file).len() > BYTES / 1448, "{}", ended.stdout);
        for protocol in ["tcp", "udp"] {
            let wrong = format!("{protocol}.checksum.status == 0");
            let mut tshark = std::process::Command::new("tshark");
            tshark.arg("-n").arg("-r").arg(&file).args(["-Y", &wrong]);
            tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
            assert_eq!(output(&mut tshark).stdout, "", "{}", ended.stdout);
        }
    }
}

#[test]
fn privileged_checksums_left_undone_are_completed() {
    check(["packet", "packet"], false, &[]);
}

#[test]
fn privileged_checksums_are_completed_behind_a_discipline() {
    check(["packet", "packet"], false, &["--qdisc", "fifo"]);
}

#[test]
fn privileged_checksums_left_undone_are_completed_for_xdp() {
    check(["packet", "xdp"], false, &["--all"]);
}

/// The kernel gives AF_XDP sockets no checksum metadata: the packets themselves show it.
#[test]
fn privileged_checksums_left_undone_are_found_by_xdp() {
    check(["xdp", "xdp"], false, &["--all"]);
}

/// veth's default: frames of 64 KB without checksums. The sink's veth would accept them unchanged.
#[test]
fn privileged_long_frames_without_checksums_are_cut() {
    check(["packet?vnet=off", "packet?vnet=off"], true, &["--gso"]);
}
