//! The kernel's stack behind a TAP device, and another one at the end of a wire.
//!
//! ```text
//!   left: stack ─ wl-tap ─ wirelane forward ─ a ══ veth ══ b ─ stack :right
//! ```

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use wirelane_testkit::veth::VethPair;

use super::*;

/// The addresses of both stacks, over IPv4 and IPv6.
pub(crate) const LEFT: [&str; 2] = ["10.98.0.1", "fd98::1"];
pub(crate) const RIGHT: [&str; 2] = ["10.98.0.2", "fd98::2"];

pub(crate) struct Wire {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    pub(crate) pair: VethPair,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self::with_queues(1)
    }

    pub(crate) fn with_queues(queues: u32) -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        for site in [&left, &right] {
            // On a slow machine, the stack would make frames of two segments.
            site.inside(|| fs::write("/proc/sys/net/ipv4/tcp_min_tso_segs", "8").unwrap());
        }
        let pair = VethPair::new(&left, &right, queues, 1500);
        // Complete checksums on the wire, short frames from the other side, and an unnumbered near
        // end.
        let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        for end in [&pair.a, &pair.b] {
            end.ethtool(&[&["-K", &end.interface][..], &off].concat());
        }
        left.run("ip", ["address", "flush", "dev", &pair.a.interface]);
        right.enable_ipv6();
        add_addresses(&right, RIGHT, &pair.b.interface);
        Self { left, right, pair }
    }

    /// Starts forwarding between a new TAP device and the wire. `tap` and `wire` are specs; the
    /// latter ends before the name of the interface, or has `IF` in its place.
    pub(crate) fn forward(&self, options: &[&str], tap: &str, wire: &str) -> ChildGuard {
        let mut command = self.left.command(WIRELANE);
        let wire = match wire.split_once("IF") {
            Some((before, after)) => format!("{before}{}{after}", self.pair.a.interface),
            None => format!("{wire}:{}", self.pair.a.interface),
        };
        command.args(["forward", "--json", "--all", tap, &wire]).args(options);
        let mut child = ChildGuard::spawn(&mut command);
        child.wait_until(PATIENCE, |child| child.stderr().contains("queues"));
        self.left.enable_ipv6();
        add_addresses(&self.left, LEFT, "wl-tap");
        child
    }

    /// Sends `content` from one namespace to `address` in the other one, where it must arrive
    /// unchanged.
    #[track_caller]
    pub(crate) fn transfer(from: &Namespace, to: &Namespace, address: &str, content: &[u8]) {
        let listener = to.inside(|| TcpListener::bind((address, 0)).unwrap());
        let at = listener.local_addr().unwrap();
        let receiver = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            got
        });
        let mut sender = from.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        sender.set_write_timeout(Some(PATIENCE)).unwrap();
        sender.write_all(content).unwrap();
        drop(sender);
        assert!(receiver.join().unwrap() == content, "{address}: not what was sent");
    }

    /// A counter of the TAP device, as the kernel keeps it: `rx` is what it got from Wirelane.
    pub(crate) fn tap_statistic(&self, name: &str) -> u64 {
        let text = self.left.run("cat", [format!("/sys/class/net/wl-tap/statistics/{name}")]);
        text.trim().parse().unwrap()
    }
}

/// Gives an interface both addresses.
pub(crate) fn add_addresses(ns: &Namespace, [v4, v6]: [&str; 2], interface: &str) {
    ns.run("ip", ["address", "add", &format!("{v4}/24"), "dev", interface]);
    ns.run("ip", ["address", "add", &format!("{v6}/64"), "dev", interface, "nodad"]);
}

/// A counter of a namespace from `/proc/net/snmp`: of IPv4, or of TCP over both IP versions.
#[track_caller]
pub(crate) fn counter(ns: &Namespace, protocol: &str, name: &str) -> u64 {
    let text = ns.run("cat", ["/proc/net/snmp"]);
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let position = names.split(' ').position(|known| known == name).unwrap();
    values.split(' ').nth(position).unwrap().parse().unwrap()
}

/// Bytes that depend on their position.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

/// Ends it as ^C does. Returns its summary, which must have no errors.
#[track_caller]
pub(crate) fn summary_of(child: ChildGuard) -> Value {
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // The losses of a TAP device's queues are unknown.
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["errors"], serde_json::json!([]));
    assert_eq!(summary["frames"]["leaked"], 0, "{summary}");
    summary
}

/// A counter of segmented (`gso`) or merged (`gro`) frames of one class, over all queues.
pub(crate) fn of_class(summary: &Value, table: &str, class: &str, key: &str) -> u64 {
    of_queues(summary, table, class, key).sum()
}

/// The longest frame of all queues.
pub(crate) fn longest_of_class(summary: &Value, table: &str, class: &str) -> u64 {
    of_queues(summary, table, class, "largest_frame").max().unwrap_or_default()
}

fn of_queues(summary: &Value, table: &str, class: &str, key: &str) -> impl Iterator<Item = u64> {
    let queues = summary[table].as_array().unwrap().iter();
    let classes = queues.flat_map(|queue| queue["classes"].as_array().unwrap());
    classes.filter(move |row| row["class"] == class).map(move |row| number(&row[key]))
}
