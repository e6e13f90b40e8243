//! Segmenting and merging between two real network stacks, with switches that change while packets
//! arrive.
//!
//! ```text
//!   left: stack ─ wl-tap ─ Forward ─ a ══ veth ══ b ─ stack :right
//! ```
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod soak;
mod switches;
mod transfer;

use std::sync::Arc;

use wirelane::internal::frame::{Protocols, SinkGso};
use wirelane::internal::port::{Forwarding, ProgramOptions, Switches};
use wirelane::port::{self, OpenOptions, Take};
use wirelane::session::Session;
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::VethPair;

/// The IPv4 and IPv6 addresses of both stacks.
const LEFT: [&str; 2] = ["10.97.0.1", "fd97::1"];
const RIGHT: [&str; 2] = ["10.97.0.2", "fd97::2"];

/// The index of the port on the veth pair; the TAP device has index 0.
const WIRE: usize = 1;

/// Two stacks with Wirelane between them.
struct World {
    forward: Session<Forward>,
    left: Namespace,
    right: Namespace,
}

impl World {
    /// Starts with all switches on.
    fn new(backend: &str, queues: u32) -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, queues, 1500);
        // Complete checksums on the wire, and only short frames from the other side. Wirelane's end
        // has no address.
        let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        for end in [&pair.a, &pair.b] {
            end.ethtool(&[&["-K", &end.interface][..], &off].concat());
        }
        left.run("ip", ["address", "flush", "dev", &pair.a.interface]);
        let forwarding = Forwarding::default().offload(SinkGso::leaving(Protocols::ALL));
        let options = OpenOptions::default()
            .transmit(true)
            .promiscuous(true)
            .take(Take::AllAndManagement)
            .internal(ProgramOptions::default().forwarding(forwarding));
        let specs =
            [format!("tap:wl-tap?queues={queues}"), format!("{backend}:{}", pair.a.interface)];
        let open = |spec: String| port::open(&spec.parse().unwrap(), &options).unwrap();
        let ports = left.inside(|| specs.map(open));
        let switches = || Some(Arc::new(Switches::new(Protocols::ALL, Some(Protocols::ALL))));
        let config = ForwardConfig::default().switches(vec![switches(), switches()]);
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

    /// The numbers of long frames segmented before the wire, and of packets merged after it, until
    /// now.
    fn cut_and_merged(&self) -> (u64, u64) {
        let reading = self.forward.monitor().read();
        let cut = reading.gso.iter().filter(|(port, ..)| *port == WIRE);
        let cut = cut.flat_map(|(.., stats)| &stats.classes).map(|class| class.super_frames);
        let merged = reading.gro.iter().filter(|(port, ..)| *port == WIRE);
        (cut.sum(), merged.map(|(.., stats)| stats.merged).sum())
    }

    /// Ends the forwarding, and checks that nothing failed and that every frame has returned.
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
