//! Cutting and merging between two real stacks, with switches that are turned while packets come.
//!
//! ```text
//!   left: stack ─ wl-tap ─ Forward ─ a ══ veth ══ b ─ stack :right
//! ```
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod soak;
mod switches;
mod transfer;

use std::sync::Arc;
use wirelane::session::Session;

use wirelane::frame::SinkGso;
use wirelane::port::{self, Forwarding, OpenOptions, Protocols, Switches, Take};
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::VethPair;

/// The addresses of both stacks, over IPv4 and IPv6.
const LEFT: [&str; 2] = ["10.97.0.1", "fd97::1"];
const RIGHT: [&str; 2] = ["10.97.0.2", "fd97::2"];

/// The position of the port on the wire; the TAP device comes first.
const WIRE: usize = 1;

/// Two stacks, and Wirelane between them.
struct World {
    forward: Session<Forward>,
    left: Namespace,
    right: Namespace,
}

impl World {
    /// Starts with everything switched on.
    fn new(backend: &str, queues: u32) -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, queues, 1500);
        // Real checksums on the wire, no long frames from the other side, and no address on our end
        // of it.
        let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        for end in [&pair.a, &pair.b] {
            end.ethtool(&[&["-K", &end.interface][..], &off].concat());
        }
        left.run("ip", ["address", "flush", "dev", &pair.a.interface]);
        let options = OpenOptions::default()
            .transmit(true)
            .promiscuous(true)
            .take(Take::All)
            .take_management(true)
            .forwarding(Forwarding::default().offload(SinkGso::leaving(Protocols::ALL)));
        let specs =
            [format!("tap:wl-tap?queues={queues}"), format!("{backend}:{}", pair.a.interface)];
        let open = |spec: String| port::open(&spec.parse().unwrap(), &options).unwrap();
        let ports = left.inside(|| specs.map(open));
        let switches = || Some(Arc::new(Switches::new(Protocols::ALL, Some(Protocols::ALL))));
        let config =
            ForwardConfig { switches: vec![switches(), switches()], ..ForwardConfig::default() };
        let forward = Forward::start(ports.into(), &config).unwrap();
        for (ns, interface, [v4, v6]) in
            [(&left, "wl-tap", LEFT), (&right, &pair.b.interface, RIGHT)]
        {
            ns.enable_ipv6();
            ns.run("ip", ["address", "add", &format!("{v4}/24"), "dev", interface]);
            ns.run("ip", ["address", "add", &format!("{v6}/64"), "dev", interface, "nodad"]);
        }
        Self { forward, left, right }
    }

    /// Long frames that were cut before the wire, and packets that were merged behind it, until
    /// now.
    fn cut_and_merged(&self) -> (u64, u64) {
        let reading = self.forward.monitor().read();
        let cut = reading.gso.iter().filter(|(port, ..)| *port == WIRE);
        let cut = cut.flat_map(|(.., stats)| &stats.classes).map(|class| class.super_frames);
        let merged = reading.gro.iter().filter(|(port, ..)| *port == WIRE);
        (cut.sum(), merged.map(|(.., stats)| stats.merged).sum())
    }

    /// Ends it: nothing failed, and every frame is back.
    fn finish(self) -> ForwardOutcome {
        let outcome = self.forward.join();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        assert_eq!(outcome.frames.held(), 0, "{:?}", outcome.frames);
        for queue in &outcome.queues {
            let dropped = queue.dropped;
            let known = [dropped.ring_full, dropped.writer, dropped.bad_header, dropped.tx_full];
            assert!(known.iter().all(Option::is_some), "{queue:?}");
        }
        for (port, queue, stats) in &outcome.gro {
            let alone: u64 = stats.alone.iter().map(|reason| reason.frames).sum();
            assert_eq!(stats.packets, stats.merged + alone, "port {port}, {queue:?}: {stats:?}");
        }
        outcome
    }
}
