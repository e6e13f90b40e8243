//! The kernel's stack sends long frames through a TAP device, and the wire gets packets.
//!
//! ```text
//!   left: stack ─ tap ─ wirelane forward --gso ─ a ══ veth ══ b :right
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

const BYTES: usize = 4 << 20;

/// Bytes that depend on their place.
fn content() -> Vec<u8> {
    (0..BYTES).map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

struct Wire {
    left: Namespace,
    right: Namespace,
    pair: VethPair,
}

impl Wire {
    fn new() -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, 1, 1500);
        // Real checksums on the wire, no long frames from the other side, and no address on our end of it.
        let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        for end in [&pair.a, &pair.b] {
            end.ethtool(&[&["-K", &end.interface][..], &off].concat());
        }
        left.run("ip", ["address", "flush", "dev", &pair.a.interface]);
        for (address, more) in [("10.98.0.2/24", None), ("fd98::2/64", Some("nodad"))] {
            right.enable_ipv6();
            let arguments = ["address", "add", address, "dev", &pair.b.interface];
            right.run("ip", arguments.into_iter().chain(more));
        }
        Self { left, right, pair }
    }

    /// Starts forwarding between a new TAP device and the wire.
    fn forward(&self, tap: &str, wire: &str) -> ChildGuard {
        let mut command = self.left.command(WIRELANE);
        let wire = format!("{wire}:{}", self.pair.a.interface);
        command.args(["forward", "--json", "--gso", "--all", tap, &wire]);
        let mut child = ChildGuard::spawn(&mut command);
        child.wait_until(PATIENCE, |child| child.stderr().contains("queues"));
        self.left.enable_ipv6();
        self.left.run("ip", ["address", "add", "10.98.0.1/24", "dev", "wl-tap"]);
        self.left.run("ip", ["address", "add", "fd98::1/64", "dev", "wl-tap", "nodad"]);
        child
    }

    /// Sends the content to `address` on the right; panics if it does not come as it is.
    fn transfer(&self, address: &str) {
        let listener = self.right.inside(|| TcpListener::bind((address, 0)).unwrap());
        let at = listener.local_addr().unwrap();
        let receiver = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            got
        });
        let mut sender = self.left.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        sender.set_write_timeout(Some(PATIENCE)).unwrap();
        sender.write_all(&content()).unwrap();
        drop(sender);
        assert!(receiver.join().unwrap() == content(), "{address}: not what was sent");
    }
}

fn summary_of(child: ChildGuard) -> Value {
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // A TAP device does not know what its queues lost.
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["errors"], serde_json::json!([]));
    assert_eq!(summary["frames"]["leaked"], 0, "{summary}");
    summary
}

/// What was cut of one class, over all queues.
fn cut(summary: &Value, class: &str, key: &str) -> u64 {
    let queues = summary["gso"].as_array().unwrap().iter();
    let classes = queues.flat_map(|queue| queue["classes"].as_array().unwrap());
    classes.filter(|row| row["class"] == class).map(|row| number(&row[key])).sum()
}

#[test]
fn privileged_tcp_is_cut_and_comes_whole() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet", "xdp"] {
        let wire = Wire::new();
        let child = wire.forward("tap:wl-tap", backend);
        wire.transfer("10.98.0.2");
        wire.transfer("fd98::2");
        let summary = summary_of(child);
        for class in ["tcp4", "tcp6"] {
            let (frames, segments) =
                (cut(&summary, class, "super_frames"), cut(&summary, class, "segments"));
            assert!(frames > 0 && segments > 2 * frames, "{backend}: {class}: {summary}");
            assert!(cut(&summary, class, "bytes") >= BYTES as u64, "{summary}");
            assert!(cut(&summary, class, "largest_frame") <= 1514, "{summary}");
        }
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{backend}: {summary}");
    }
}

#[test]
fn privileged_long_datagrams_become_fragments() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    // Linux sends datagrams with "don't fragment" otherwise.
    wire.left.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1").unwrap());
    let child = wire.forward("tap:wl-tap?mtu=9500", "packet");
    let echo = wire.right.inside(|| UdpSocket::bind("10.98.0.2:4001").unwrap());
    echo.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = wire.left.inside(|| UdpSocket::bind("10.98.0.1:0").unwrap());
    let content = content();
    for number in 0..50 {
        let datagram = &content[number * 9000..][..9000];
        sender.send_to(datagram, "10.98.0.2:4001").unwrap();
        let mut got = vec![0; 65_536];
        let length = echo.recv(&mut got).unwrap();
        assert!(got[..length] == *datagram, "datagram {number}: {length} bytes");
        thread::sleep(Duration::from_millis(1));
    }
    let summary = summary_of(child);
    assert_eq!(cut(&summary, "frag4", "super_frames"), 50, "{summary}");
    assert_eq!(cut(&summary, "frag4", "segments"), 50 * 7, "{summary}");
}
