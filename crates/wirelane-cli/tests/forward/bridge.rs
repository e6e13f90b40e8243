//! Two namespaces that are connected only through Wirelane between their veth pairs.
//!
//! ```text
//!   left: a ══ veth ══ b ─ wirelane forward ─ c ══ veth ══ d :right
//!                          (in the middle)
//! ```

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::veth::{End, VethPair};
use wirelane_testkit::{kernel, privileged, tools};

use super::*;

/// Both sides and the middle.
pub(super) struct Bridge {
    pub(super) left: Namespace,
    pub(super) middle: Namespace,
    pub(super) right: Namespace,
    pub(super) near: VethPair,
    pub(super) far: VethPair,
}

pub(super) const LEFT: &str = "10.99.0.1";
pub(super) const RIGHT: &str = "10.99.0.2";
const PORT: u16 = 4000;
/// The pause after which answers are no longer expected.
const SILENCE: Duration = Duration::from_secs(1);

impl Bridge {
    pub(super) fn new(queues: u32) -> Self {
        let [left, middle, right] = [(); 3].map(|()| Namespace::new());
        let near = VethPair::new(&left, &middle, queues, 1500);
        let far = VethPair::new(&middle, &right, queues, 1500);
        let bridge = Self { left, middle, right, near, far };
        for (ns, end, address) in
            [(&bridge.left, &bridge.near.a, LEFT), (&bridge.right, &bridge.far.b, RIGHT)]
        {
            ns.run("ip", ["address", "flush", "dev", &end.interface]);
            ns.run("ip", ["address", "add", &format!("{address}/24"), "dev", &end.interface]);
        }
        // The middle host does not take part.
        for end in bridge.inner() {
            bridge.middle.run("ip", ["address", "flush", "dev", &end.interface]);
        }
        bridge
    }

    fn inner(&self) -> [&End; 2] {
        [&self.near.b, &self.far.a]
    }

    fn ports(&self) -> [String; 2] {
        self.inner().map(|end| format!("packet:{}", end.interface))
    }

    pub(super) fn forward(&self, options: &[&str]) -> Running {
        let ports = self.ports();
        Running::start(&self.middle, &[&[ports[0].as_str(), &ports[1]], options].concat())
    }

    /// Sends `count` datagrams of `size` bytes to the right, which sends them back. Returns how
    /// many come back before a pause of `silence`.
    fn exchange(&self, count: usize, size: usize, silence: Duration) -> usize {
        // Any free port: a child of another test may still hold the previous one.
        let echo = self.right.inside(|| UdpSocket::bind((RIGHT, 0)).unwrap());
        let there = echo.local_addr().unwrap();
        let here = self.left.inside(|| UdpSocket::bind((LEFT, 0)).unwrap());
        echo.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        here.set_read_timeout(Some(silence)).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut packet = [0; 65_536];
                while !over.load(Ordering::Relaxed) {
                    if let Ok((length, from)) = echo.recv_from(&mut packet) {
                        echo.send_to(&packet[..length], from).unwrap();
                    }
                }
            });
            let mut packet = vec![0; size];
            let mut answered = 0;
            for number in 0..count {
                packet[0] = number as u8;
                here.send_to(&packet, there).unwrap();
                match here.recv(&mut packet) {
                    Ok(length) => {
                        answered += usize::from((length, packet[0]) == (size, number as u8))
                    }
                    Err(_) => break,
                }
            }
            over.store(true, Ordering::Relaxed);
            answered
        })
    }

    /// Waits until no packet is in flight: the device would count packets at the very end that the
    /// forwarder does not receive.
    #[track_caller]
    fn wait_until_silent(&self) {
        let counted = || {
            let of = |end: &End| ["rx_packets", "tx_packets"].map(|name| end.statistic(name));
            self.inner().map(of)
        };
        let deadline = Instant::now() + PATIENCE;
        let (mut before, mut still) = (counted(), 0);
        while still < 2 {
            assert!(Instant::now() < deadline, "{before:?}");
            thread::sleep(SILENCE);
            let now = counted();
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
    }

    fn promiscuous(&self) -> [bool; 2] {
        self.inner().map(|end| {
            let text = self.middle.run("ip", ["-d", "link", "show", "dev", &end.interface]);
            !text.contains("promiscuity 0 ")
        })
    }

    /// Every packet that an inner end received was sent by the other one, or counted.
    #[track_caller]
    fn assert_balanced(&self, summary: &Value) {
        for (port, other) in [(0, 1), (1, 0)] {
            let (from, to) = (self.inner()[port], self.inner()[other]);
            let (port, other) = (port as u64, other as u64);
            let received = of_port(summary, "queues", port, "received");
            assert_eq!(received, from.statistic("rx_packets"), "{summary}");
            let sent = of_port(summary, "tx", other, "packets");
            assert_eq!(sent, to.statistic("tx_packets"), "{summary}");
        }
    }
}

/// ARP, which is broadcast, is sent first.
#[test]
fn privileged_datagrams_through_the_middle() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let bridge = Bridge::new(1);
    bridge.near.set_offloads(false);
    bridge.far.set_offloads(false);
    assert_eq!(bridge.exchange(1, 100, SILENCE), 0, "nothing forwards yet");
    bridge.left.run("ip", ["neigh", "flush", "all"]);
    let before = bridge.inner().map(|end| end.statistic("rx_packets"));
    let running = bridge.forward(&[]);
    assert_eq!(bridge.promiscuous(), [true, true]);
    assert_eq!(bridge.exchange(20, 100, PATIENCE), 20);
    assert_eq!(bridge.exchange(5, 1472, PATIENCE), 5, "the longest packet");
    let (summary, _) = running.finish();
    assert_eq!(summary["totals"]["dropped"], 0);
    // Request and reply, and ARP.
    assert!(number(&summary["totals"]["sent"]) >= 2 * 25 + 2, "{summary}");
    for (port, end) in bridge.inner().into_iter().enumerate() {
        let received = of_port(&summary, "queues", port as u64, "received");
        assert_eq!(received, end.statistic("rx_packets") - before[port]);
    }
    assert_eq!(bridge.exchange(1, 100, SILENCE), 0, "nothing forwards any more");
    assert_eq!(bridge.promiscuous(), [false, false]);
}

/// A transfer over four connections, with acknowledgements the other way.
#[track_caller]
fn transfer(options: &[&str]) {
    const TOOLS: [&str; 2] = ["iperf3", "ethtool"];
    if !privileged::require() || !TOOLS.iter().all(|tool| tools::require(tool)) {
        return;
    }
    let bridge = Bridge::new(2);
    bridge.near.set_offloads(false);
    bridge.far.set_offloads(false);
    let running = bridge.forward(options);
    let mut server = bridge.right.spawn("iperf3", ["-s", "-1", "--forceflush"]);
    server.wait_until(PATIENCE, |server| server.stdout().contains("listening"));
    // Counted as written to the sockets: up to 4 MB per socket may remain in buffers at the end.
    bridge.left.run("iperf3", ["-c", RIGHT, "-n", "60M", "-P", "4"]);
    assert!(server.wait(PATIENCE).status.success());
    bridge.wait_until_silent();
    let (summary, text) = running.finish();
    bridge.assert_balanced(&summary);
    // Segments of 1448 bytes.
    assert!(of_port(&summary, "tx", 1, "packets") > 9_000, "{summary}");
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0);
    assert!(!text.contains("could not be sent through"), "{text}");
}

#[test]
fn privileged_tcp_through_the_middle() {
    transfer(&[]);
}

#[test]
fn privileged_tcp_through_disciplines() {
    transfer(&["--qdisc", "lockless", "--tx-choice", "flow"]);
    transfer(&["--qdisc", "bulk,bql=on"]);
}

/// Packets that are too long for the other side are counted, and a note explains it.
#[test]
fn privileged_packets_over_the_mtu_are_counted_and_explained() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let bridge = Bridge::new(1);
    bridge.near.set_offloads(false);
    bridge.far.set_offloads(false);
    bridge.middle.run("ip", ["link", "set", &bridge.far.a.interface, "mtu", "1000"]);
    let running = bridge.forward(&[]);
    assert_eq!(bridge.exchange(3, 800, PATIENCE), 3);
    assert_eq!(bridge.exchange(1, 1200, SILENCE), 0);
    let (summary, text) = running.finish();
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 1, "{summary}");
    assert!(text.contains("gro off") && text.contains(&bridge.far.a.interface), "{text}");
}

/// A station whose packets all return to it.
#[test]
fn privileged_one_interface_sends_back() {
    if !privileged::require() {
        return;
    }
    let bridge = Bridge::new(2);
    let port = &bridge.ports()[0];
    let running = Running::start(&bridge.middle, &[port]);
    let before = bridge.near.a.statistic("rx_packets");
    // To an address with a fixed neighbour entry, so that no host needs to answer.
    let neighbour = ["neigh", "replace", RIGHT, "lladdr", "02:00:00:00:00:99", "nud", "permanent"];
    let device = ["dev", &bridge.near.a.interface];
    bridge.left.run("ip", [&neighbour[..], &device].concat());
    let socket = bridge.left.inside(|| UdpSocket::bind((LEFT, 0)).unwrap());
    (0..10).for_each(|_| assert_eq!(socket.send_to(&[7; 50], (RIGHT, PORT)).unwrap(), 50));
    let deadline = Instant::now() + PATIENCE;
    while bridge.near.a.statistic("rx_packets") < before + 10 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let (summary, _) = running.finish();
    assert_eq!(summary["totals"]["sent"], 10);
    assert_eq!(bridge.near.a.statistic("rx_packets") - before, 10);
}

/// A bare name takes no packets from the host without --all.
#[test]
fn privileged_bare_names_are_copies_unless_all_is_asked_for() {
    if !privileged::require() {
        return;
    }
    let bridge = Bridge::new(1);
    let names = bridge.inner().map(|end| end.interface.as_str());
    for (options, backend) in
        [(&[][..], "packet"), (&["-f", "icmp"], "packet"), (&["--all"], "xdp")]
    {
        if is_refused_for_tags(backend) {
            continue;
        }
        let args = [&names[..], options, &["--json", "--duration", "1ms"]].concat();
        let ended = output(bridge.middle.command(WIRELANE).arg("forward").args(args));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        for port in summary["ports"].as_array().unwrap() {
            assert_eq!(port["backend"], backend, "{port}");
        }
        let says_xdp = ended.stderr.contains("xdp") || summary.to_string().contains("xdp");
        assert_eq!(says_xdp, backend == "xdp", "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("takes all packets away"), says_xdp, "{}", ended.stderr);
    }
}

/// ARP requests pass to the other side. With --keep-management they stay with this host.
#[test]
fn privileged_management_passes_between_two_interfaces_unless_it_is_kept() {
    if !privileged::require() || !tools::require("ethtool") || !kernel::require_tags() {
        return;
    }
    let bridge = Bridge::new(1);
    bridge.near.set_offloads(false);
    bridge.far.set_offloads(false);
    let ports = bridge.inner().map(|end| format!("xdp:{}", end.interface));
    for (option, answered) in [(None, 5), (Some("--keep-management"), 0)] {
        let args = [ports[0].as_str(), &ports[1], "--all"].into_iter().chain(option);
        let running = Running::start(&bridge.middle, &args.collect::<Vec<_>>());
        for (ns, end) in [(&bridge.left, &bridge.near.a), (&bridge.right, &bridge.far.b)] {
            ns.run("ip", ["neigh", "flush", "dev", &end.interface]);
        }
        let silence = if answered > 0 { PATIENCE } else { SILENCE };
        assert_eq!(bridge.exchange(5, 100, silence), answered, "{option:?}");
        running.finish();
    }
}
