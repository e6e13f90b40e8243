//! A multi-queue veth pair between two namespaces.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::netns::{Namespace, ip};
use crate::process::run;

/// Two interfaces, each the other's neighbour; they go with their namespaces.
///
/// Both ends are up, know each other's address for good, and so send no ARP. With IPv6 off, as it
/// is in a [`Namespace`], the wire is silent until a test speaks.
#[derive(Debug)]
pub struct VethPair {
    /// The end in the first namespace.
    pub a: End,
    /// The end in the second namespace.
    pub b: End,
}

/// One end of a [`VethPair`].
#[derive(Debug, Clone)]
pub struct End {
    /// The name of the interface.
    pub interface: String,
    /// The name of the namespace it is in.
    pub namespace: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its address, of a /24 network that holds both ends.
    pub address: Ipv4Addr,
}

impl VethPair {
    /// Creates a pair with `queues` receive and `queues` transmit queues at each end.
    ///
    /// # Panics
    /// When it cannot be created.
    #[track_caller]
    pub fn new(ns_a: &Namespace, ns_b: &Namespace, queues: u32, mtu: u32) -> Self {
        static COUNTER: AtomicU16 = AtomicU16::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let [a, b] = [(ns_a, 'a', 1), (ns_b, 'b', 2)].map(|(ns, letter, host)| {
            let [high, low] = number.to_be_bytes();
            End {
                interface: format!("wl{letter}{number}"),
                namespace: ns.name().to_owned(),
                // The bit 0x02 of the first byte marks a locally administered address.
                mac: [0x02, 0x57, 0x4c, high, low, host],
                address: Ipv4Addr::new(10, 128 | high, low, host),
            }
        });

        let mut add = ip();
        add.args(["link", "add"]);
        a.describe(&mut add, queues, mtu);
        add.args(["type", "veth", "peer"]);
        b.describe(&mut add, queues, mtu);
        run(&mut add);
        for (end, peer) in [(&a, &b), (&b, &a)] {
            end.configure(peer);
        }
        Self { a, b }
    }

    /// Turns the offloads that let frames exceed the MTU or lack a checksum on or off, at both ends:
    /// TSO, GSO, GRO, and transmit and receive checksums.
    ///
    /// # Panics
    /// When `ethtool` is missing or fails.
    #[track_caller]
    pub fn set_offloads(&self, on: bool) {
        let value = if on { "on" } else { "off" };
        for end in [&self.a, &self.b] {
            for feature in ["tso", "gso", "gro", "tx", "rx"] {
                end.ethtool(&["-K", &end.interface, feature, value]);
            }
        }
    }
}

impl End {
    /// Runs `ethtool` with `args` in the namespace of this end, and returns its output.
    ///
    /// # Panics
    /// When `ethtool` is missing or fails.
    #[track_caller]
    pub fn ethtool(&self, args: &[&str]) -> String {
        run(ip().args(["netns", "exec", &self.namespace, "ethtool"]).args(args))
    }

    /// A counter from `/sys/class/net/<interface>/statistics`, such as `rx_packets`.
    ///
    /// # Panics
    /// When there is no such counter.
    #[track_caller]
    pub fn statistic(&self, name: &str) -> u64 {
        // `ip netns exec` mounts the /sys of the namespace for its child.
        let path = format!("/sys/class/net/{}/statistics/{name}", self.interface);
        let text = run(ip().args(["netns", "exec", &self.namespace, "cat", &path]));
        text.trim().parse().unwrap_or_else(|error| panic!("{path} holds {text:?}: {error}"))
    }

    fn describe(&self, add: &mut std::process::Command, queues: u32, mtu: u32) {
        let (queues, mtu) = (queues.to_string(), mtu.to_string());
        add.args(["name", &self.interface, "netns", &self.namespace]);
        add.args(["address", &self.mac_text(), "mtu", &mtu]);
        add.args(["numrxqueues", &queues, "numtxqueues", &queues]);
    }

    #[track_caller]
    fn configure(&self, peer: &Self) {
        let address = format!("{}/24", self.address);
        let (name, neighbour) = (self.interface.as_str(), peer.address.to_string());
        let ip = |args: &[&str]| run(ip().args(["-n", &self.namespace]).args(args));
        ip(&["address", "add", &address, "dev", name]);
        ip(&["link", "set", name, "up"]);
        let lladdr = peer.mac_text();
        ip(&["neigh", "replace", &neighbour, "lladdr", &lladdr, "dev", name, "nud", "permanent"]);
    }

    fn mac_text(&self) -> String {
        self.mac.map(|byte| format!("{byte:02x}")).join(":")
    }
}
