//! The kernel's packets are correct, as far as a capture can show.
//!
//! ```text
//!   left: a ══ veth ══ b ─ the kernel routes ─ c ══ veth ══ d :right
//!                  middle: long frames come in at b, c sends segments
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::{End, VethPair};
use wirelane_testkit::{privileged, tools};

use super::peer::Peer;
use super::*;

const BYTES: usize = 1 << 20;
/// The payload of the last datagram.
const LAST: &[u8] = b"the last datagram of this talk";

struct Path3 {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    near: VethPair,
    far: VethPair,
    directory: TempDir,
}

impl Path3 {
    fn new() -> Self {
        let [left, middle, right] = [(); 3].map(|()| Namespace::new());
        let near = VethPair::new(&left, &middle, 1, 1500);
        let far = VethPair::new(&middle, &right, 1, 1500);
        let ends = [
            (&left, &near.a, "10.97.1.1/24", "fd97:1::1/64"),
            (&middle, &near.b, "10.97.1.2/24", "fd97:1::2/64"),
            (&middle, &far.a, "10.97.2.1/24", "fd97:2::1/64"),
            (&right, &far.b, "10.97.2.2/24", "fd97:2::2/64"),
        ];
        for ns in [&left, &middle, &right] {
            ns.enable_ipv6();
        }
        for (ns, end, v4, v6) in ends {
            // IPv6 neighbours are resolved with the link-local address.
            ns.run("ip", ["-4", "address", "flush", "dev", &end.interface]);
            ns.run("ip", ["address", "add", v4, "dev", &end.interface]);
            ns.run("ip", ["address", "add", v6, "dev", &end.interface, "nodad"]);
        }
        middle.inside(|| {
            for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{path}"), "1").unwrap();
            }
        });
        for (ns, v4, v6) in [(&left, "10.97.1.2", "fd97:1::2"), (&right, "10.97.2.1", "fd97:2::1")]
        {
            // ECN with every peer, so that CWR has its meaning in the handshake.
            ns.inside(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap());
            ns.run("ip", ["route", "add", "default", "via", v4]);
            ns.run("ip", ["-6", "route", "add", "default", "via", v6]);
        }
        Self { left, middle, right, near, far, directory: tempdir().unwrap() }
    }

    /// The kernel segments and completes frames before the interface.
    fn without_offloads(end: &End) {
        for feature in ["tso", "gso", "gro", "tx"] {
            end.ethtool(&["-K", &end.interface, feature, "off"]);
        }
    }

    /// tcpdump at one end, writing to a file.
    fn record(&self, ns: &Namespace, end: &End, name: &str) -> Peer {
        Peer::tcpdump(ns, &end.interface, &self.directory.path().join(name), &[])
    }

    /// TCP both ways over both IP versions, in writes of odd lengths, and long datagrams.
    fn talk(&self) {
        for address in ["10.97.2.2", "fd97:2::2"] {
            let listener = self.right.inside(|| TcpListener::bind((address, 0)).unwrap());
            let at = listener.local_addr().unwrap();
            let echo = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut got = vec![];
                stream.read_to_end(&mut got).unwrap();
                stream.write_all(&got).unwrap();
                got.len()
            });
            let mut stream =
                self.left.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let content: Vec<u8> = (0..BYTES).map(|i| ((i * 7) >> 3) as u8).collect();
            for (index, part) in content.chunks(70_001).enumerate() {
                // Short writes between long ones.
                stream.set_nodelay(index % 2 == 0).unwrap();
                let (small, long) = part.split_at(part.len().min(1448));
                stream.write_all(small).unwrap();
                stream.write_all(long).unwrap();
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = vec![];
            stream.read_to_end(&mut back).unwrap();
            assert!(back == content);
            assert_eq!(echo.join().unwrap(), BYTES);
            let receiver = self.right.inside(|| UdpSocket::bind((address, 0)).unwrap());
            receiver.set_read_timeout(Some(PATIENCE)).unwrap();
            let any = if address.contains(':') { "::" } else { "0.0.0.0" };
            let sender = self.left.inside(|| UdpSocket::bind((any, 0)).unwrap());
            for size in [1, 100, 1473, 5000, 20_001] {
                let at = receiver.local_addr().unwrap();
                sender.send_to(&content[..size], at).unwrap();
                let mut got = vec![0; 65_536];
                assert_eq!(receiver.recv(&mut got).unwrap(), size);
            }
        }
        let last = self.right.inside(|| UdpSocket::bind(("10.97.2.2", 0)).unwrap());
        last.set_read_timeout(Some(PATIENCE)).unwrap();
        let sender = self.left.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
        sender.send_to(LAST, last.local_addr().unwrap()).unwrap();
        assert_eq!(last.recv(&mut [0; 100]).unwrap(), LAST.len());
    }
}

const TOOLS: [&str; 3] = ["tcpdump", "ethtool", "tshark"];

fn unavailable() -> bool {
    !privileged::require() || !TOOLS.iter().all(|tool| tools::require(tool))
}

#[test]
fn privileged_segments_of_the_kernel_are_clean() {
    if unavailable() {
        return;
    }
    let path = Path3::new();
    for end in [&path.near.a, &path.near.b, &path.far.a, &path.far.b] {
        Path3::without_offloads(end);
    }
    let recording = path.record(&path.right, &path.far.b, "wire.pcap");
    path.talk();
    let file = recording.finish(LAST, 1);
    let (document, clean) = audit(&file, &["--strict", "--mtu", "1500"]);
    assert!(clean, "{document}");
    assert_eq!(wrong_checksums(&file), [0; 0]);
    for (name, least) in [
        ("tcp-checksum", 2 * 2 * BYTES as u64 / 1448),
        ("udp-checksum", 10),
        ("fragment-missing", 6),
        ("tcp-options", 1000),
    ] {
        assert!(rule(&document, name, "checked") >= least, "{name}: {document}");
        assert_eq!(rule(&document, name, "left"), 0, "{document}");
    }
}

#[test]
fn privileged_what_the_kernel_leaves_to_the_device_is_said() {
    if unavailable() {
        return;
    }
    let path = Path3::new();
    let recording = path.record(&path.left, &path.near.a, "sender.pcap");
    path.talk();
    let file = recording.finish(LAST, 1);
    let (document, clean) = audit(&file, &[]);
    assert!(clean, "{document}");
    assert!(rule(&document, "tcp-checksum", "left") > 20, "{document}");
    assert!(rule(&document, "super-frame", "notes") > 20, "{document}");
    let (document, clean) = audit(&file, &["--strict", "--max", "0"]);
    assert!(!clean);
    assert!(rule(&document, "tcp-checksum", "violations") > 20, "{document}");
    assert!(rule(&document, "super-frame", "violations") > 20, "{document}");
}

/// The kernel as a segmenter, seen from both sides.
#[test]
fn privileged_segments_are_checked_against_the_super_frames_of_the_kernel() {
    if unavailable() {
        return;
    }
    let path = Path3::new();
    Path3::without_offloads(&path.far.a);
    let long = path.record(&path.middle, &path.near.b, "long.pcap");
    let wire = path.record(&path.middle, &path.far.a, "wire.pcap");
    path.talk();
    let (long, wire) = (long.finish(LAST, 1), wire.finish(LAST, 1));
    let both = path.directory.path().join("both.pcapng");
    let merged = output(wirelane(["merge"]).args([&long, &wire]).arg("-w").arg(&both));
    assert_eq!(merged.status.code(), Some(0), "{}", merged.stderr);
    let (document, clean) = audit(&both, &["--notes"]);
    assert!(clean, "{document}");
    for name in ["segment-sequence", "segment-flags", "segment-options", "segment-size"] {
        assert!(rule(&document, name, "checked") > 100, "{name}: {document}");
    }
    assert_eq!(rule(&document, "segment-missing", "notes"), 0, "{document}");
}
