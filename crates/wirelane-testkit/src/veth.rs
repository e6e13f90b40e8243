//! A multi-queue veth pair between two namespaces.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};
use wirelane_os::{affinity, iface, netns};

use crate::netns::{Namespace, ip, sysfs};
use crate::process::run;

/// Two connected interfaces. They are removed with their namespaces.
///
/// Both ends are up and have a permanent neighbour entry for each other, so they send no ARP. With
/// IPv6 off, as it is in a [`Namespace`], the link carries no frames until a test sends some.
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
    /// The name of its namespace.
    pub namespace: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address, in a /24 network that contains both ends.
    pub address: Ipv4Addr,
}

impl VethPair {
    /// Creates a pair with `queues` receive and `queues` transmit queues at each end.
    ///
    /// # Panics
    /// When it cannot be created.
    #[track_caller]
    pub fn new(ns_a: &Namespace, ns_b: &Namespace, queues: u32, mtu: u32) -> Self {
        Self::uneven(ns_a, ns_b, queues, queues, mtu)
    }

    /// As [`VethPair::new`], but end B has `transmit` transmit queues.
    ///
    /// # Panics
    /// When it cannot be created.
    #[track_caller]
    pub fn uneven(
        ns_a: &Namespace,
        ns_b: &Namespace,
        queues: u32,
        transmit: u32,
        mtu: u32,
    ) -> Self {
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
        a.describe(&mut add, [queues, queues], mtu);
        add.args(["type", "veth", "peer"]);
        b.describe(&mut add, [queues, transmit], mtu);
        run(&mut add);
        for (end, peer) in [(&a, &b), (&b, &a)] {
            end.configure(peer);
        }
        for end in [&a, &b] {
            end.wait_until_running();
        }
        Self { a, b }
    }

    /// Turns the offloads that let frames exceed the MTU or lack a checksum on or off, at both
    /// ends: TSO, GSO, GRO, and transmit and receive checksums.
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

    /// Returns a handle that chooses the TX queue of all frames sent through this end, which has
    /// `queues` TX queues.
    ///
    /// # Panics
    /// When the kernel was built without XPS.
    #[track_caller]
    pub fn steering(&self, queues: usize) -> TxSteering {
        let open = || -> rustix::io::Result<Vec<File>> {
            let root = sysfs()?;
            let file = |queue| {
                let path = format!("class/net/{}/queues/tx-{queue}/xps_cpus", self.interface);
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                Ok(File::from(openat(&root, path, flags, Mode::empty())?))
            };
            (0..queues).map(file).collect()
        };
        let _inside = netns::enter_named(&self.namespace)
            .unwrap_or_else(|error| panic!("cannot enter {}: {error}", self.namespace));
        let files =
            open().unwrap_or_else(|error| panic!("cannot steer {}: {error}", self.interface));
        let cpus = affinity::allowed_cpus().unwrap_or_else(|error| panic!("{error}"));
        TxSteering { files, cpus: cpu_mask(&cpus), selected: None }
    }

    fn describe(&self, add: &mut std::process::Command, queues: [u32; 2], mtu: u32) {
        let ([receive, transmit], mtu) = (queues.map(|n| n.to_string()), mtu.to_string());
        add.args(["name", &self.interface, "netns", &self.namespace]);
        add.args(["address", &self.mac_text(), "mtu", &mtu]);
        add.args(["numrxqueues", &receive, "numtxqueues", &transmit]);
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

    /// Frames sent before the link is running are lost.
    #[track_caller]
    fn wait_until_running(&self) {
        let wait = || {
            let _inside = netns::enter_named(&self.namespace)?;
            iface::wait_until_running(&self.interface, Duration::from_secs(30))
        };
        wait().unwrap_or_else(|error| panic!("in {}: {error}", self.namespace));
    }

    fn mac_text(&self) -> String {
        self.mac.map(|byte| format!("{byte:02x}")).join(":")
    }
}

/// Selects the TX queue through which an interface sends, with transmit packet steering (XPS): all
/// CPUs are mapped to that queue. Senders that choose their queue themselves, such as AF_XDP
/// sockets, are not affected.
#[derive(Debug)]
pub struct TxSteering {
    /// `xps_cpus` of each queue.
    files: Vec<File>,
    /// All CPUs that may send.
    cpus: String,
    selected: Option<usize>,
}

impl TxSteering {
    /// Selects `queue` for all frames sent from now on. On a veth pair this is also the RX queue of
    /// the other end.
    ///
    /// # Panics
    /// When there is no such queue, or the kernel refuses.
    #[track_caller]
    pub fn select(&mut self, queue: usize) {
        // The kernel refuses to configure XPS on an interface with one queue; there is nothing to
        // choose.
        if self.selected == Some(queue) || self.files.len() == 1 && queue == 0 {
            return;
        }
        let mut write = |queue: usize, cpus: &str| {
            if let Err(error) = self.files[queue].write_all(cpus.as_bytes()) {
                panic!("cannot steer to TX queue {queue}: {error}");
            }
        };
        write(queue, &self.cpus);
        if let Some(before) = self.selected {
            write(before, "0");
        }
        self.selected = Some(queue);
    }
}

/// A set of CPUs in the format of sysfs: 32-bit words in hexadecimal, the highest first.
fn cpu_mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(0, |highest| highest / 32);
    let word = |index: u32| {
        let within = cpus.iter().filter(|cpu| **cpu / 32 == index);
        within.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words: Vec<_> = (0..=words).rev().map(|index| format!("{:x}", word(index))).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::cpu_mask;

    #[test]
    fn cpu_masks_are_written_as_sysfs_reads_them() {
        assert_eq!(cpu_mask(&[0, 1]), "3");
        assert_eq!(cpu_mask(&[1, 4, 33]), "2,12");
        assert_eq!(cpu_mask(&[64]), "1,0,0");
    }
}
