//! The TX queue of packets from a packet socket, and the CPUs whose packets always use one queue.
//!
//! AF_PACKET cannot name a queue; the kernel chooses it (`netdev_core_pick_tx`, `net/core/dev.c`):
//!
//! | way | chooser |
//! |---|---|
//! | `only` | there is one queue |
//! | `device` | the driver, by its rules (`ndo_select_queue`) |
//! | `xps` | the sending CPU, where transmit packet steering is set up (`get_xps_queue`) |
//! | `bypass` | past the discipline, the sending CPU modulo the number of queues (`packet_pick_tx_queue`) |
//! | `flow` | otherwise a hash of the flow (`skb_tx_hash`) |
//!
//! The rules are known for some drivers only: the kernel does not report whether a driver has
//! `ndo_select_queue`. Most drivers with it call `netdev_pick_tx` in the end, and so follow this
//! table, except for some packets:
//!
//! * `stmmac` sends the packets that it segments itself through queue 0 (`stmmac_select_queue`).
//! * `mlx4_en` uses the queue modulo the queues of a priority, plus an offset for the VLAN's
//!   priority (`mlx4_en_select_queue`).
//! * `mlx5_core` and `ice` use separate queues for packets of traffic classes, if there are
//!   classes.
//! * `ena` had a rule, which newer kernels have removed: with `bypass=on` the CPU modulo the number
//!   of queues takes precedence over XPS, because `packet_pick_tx_queue` records it and
//!   `ena_select_queue` reads this first.
//! * Wireless devices have a queue for each priority (`ieee80211_netdev_select_queue`).
//!
//! `ifb` has no rule, and sends no packets for sockets: it drops packets that were not redirected
//! to it (`ifb_xmit`).
//!
//! Sockets that name the queue themselves, as AF_XDP sockets do, are `exact`. "Kernel interfaces
//! for multiqueue aware socket" (Yu, 2010) had a call that bound a socket to a queue, and one that
//! read this back (`SIOGTXQUEUEMAPPING`); Linux has neither. [`TxBinding`] has the information that
//! can be read instead.

use std::fmt;

#[cfg(feature = "serde")]
use serde::Serialize;
use wirelane_os::affinity;
use wirelane_os::sysfs::Sysfs;

use super::cpus::CpuList;
use super::interface::{InterfaceQueues, TxQueue};

/// The chooser of the TX queue of sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum TxWay {
    /// The socket names it.
    Exact,
    /// The socket, by an eBPF program that the port attaches to the interface.
    Program,
    /// There is only one queue.
    Only,
    /// The sending CPU, by transmit packet steering (XPS).
    Xps,
    /// The sending CPU, modulo the number of queues.
    Bypass,
    /// The kernel, by a hash of the flow.
    Flow,
    /// The driver, by its rules.
    Device,
}

impl fmt::Display for TxWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "named by the socket",
            Self::Program => "assigned by a program",
            Self::Only => "the only one",
            Self::Xps => "XPS",
            Self::Bypass => "bypass=on",
            Self::Flow => "chosen by flow",
            Self::Device => "chosen by the driver",
        })
    }
}

/// How a transmitting end is bound to its TX queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct TxBinding {
    /// The queue.
    pub queue: u16,
    /// The chooser of the queue.
    #[cfg_attr(feature = "serde", serde(rename = "by"))]
    pub way: TxWay,
    /// The CPUs whose packets always leave by this queue; empty if no CPU determines it.
    pub cpus: CpuList,
    /// The CPU of the sending thread, if it is known.
    pub cpu: Option<u32>,
    /// Whether all frames of the end leave by this queue.
    pub kept: bool,
}

impl TxBinding {
    /// The binding of a queue that needs no CPU.
    pub(crate) fn new(queue: u16, way: TxWay) -> Self {
        let kept = matches!(way, TxWay::Exact | TxWay::Program | TxWay::Only);
        Self { queue, way, cpus: CpuList::default(), cpu: None, kept }
    }
}

/// Drivers that choose the queue themselves, independent of the sending CPU: `tun_select_queue`,
/// `netvsc_select_queue`, `mana_select_queue`, `bond_select_queue`, `team_select_queue`,
/// `xennet_select_queue` (of xen-netfront, whose driver name is `vif`).
const CHOOSING: [&str; 6] = ["tun", "hv_netvsc", "mana", "bonding", "team", "vif"];

/// How a packet socket reaches each TX queue of an interface from the CPUs that this thread may
/// use; with `bypass` past the queueing discipline. Other drivers may also choose the queue
/// themselves.
#[must_use]
pub fn sending(interface: &InterfaceQueues, bypass: bool) -> Vec<TxBinding> {
    let steered = |queue: &TxQueue| queue.xps_cpus.clone().unwrap_or_default();
    let xps: Vec<_> = interface.tx.queues.iter().map(steered).collect();
    let allowed = affinity::allowed_cpus().unwrap_or_default();
    bindings(interface.driver.as_deref(), &xps, &allowed, bypass)
}

/// Reads the steering of an interface's TX queues again, from any thread: it may change at any
/// time.
pub(crate) struct Steering {
    sysfs: Sysfs,
    interface: String,
    index: u32,
    driver: Option<String>,
    queues: u16,
    bypass: bool,
    /// CPUs of the thread that opened the interface.
    allowed: Vec<u32>,
}

impl Steering {
    /// For an interface in the calling thread's namespace with `queues` TX queues; `None` if sysfs
    /// is not visible.
    pub(crate) fn open(
        (interface, index): (&str, u32),
        driver: Option<&str>,
        queues: u16,
        bypass: bool,
    ) -> Option<Self> {
        Some(Self {
            sysfs: Sysfs::of_this_namespace()?,
            interface: interface.to_owned(),
            index,
            driver: driver.map(str::to_owned),
            queues,
            bypass,
            allowed: affinity::allowed_cpus().unwrap_or_default(),
        })
    }

    /// The name of the interface when it was opened.
    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// How each TX queue is reached now. `None` if the interface was removed or renamed.
    pub(crate) fn read(&self) -> Option<Vec<TxBinding>> {
        let file = |file: &str| self.sysfs.read(&format!("class/net/{}/{file}", self.interface));
        if file("ifindex")?.parse() != Ok(self.index) {
            return None;
        }
        let mask = |queue: u16| CpuList::from_mask(&file(&format!("queues/tx-{queue}/xps_cpus"))?);
        let xps: Vec<_> = (0..self.queues).map(|queue| mask(queue).unwrap_or_default()).collect();
        Some(bindings(self.driver.as_deref(), &xps, &self.allowed, self.bypass))
    }
}

/// As [`sending`], with the CPUs that XPS assigns to each queue, and the allowed CPUs.
fn bindings(
    driver: Option<&str>,
    xps: &[CpuList],
    allowed: &[u32],
    bypass: bool,
) -> Vec<TxBinding> {
    let way = match driver {
        _ if xps.len() < 2 => TxWay::Only,
        Some(driver) if CHOOSING.contains(&driver) => TxWay::Device,
        _ if xps.iter().any(|cpus| !cpus.is_empty()) => TxWay::Xps,
        _ if bypass => TxWay::Bypass,
        _ => TxWay::Flow,
    };
    // A CPU assigned to several queues reaches each of them for some flows only.
    let reaches = |cpu: u32, queue: usize| match way {
        TxWay::Xps => {
            let of_cpu = |cpus: &CpuList| cpus.contains(cpu);
            let mut reached = xps.iter().enumerate().filter(|(_, cpus)| of_cpu(cpus));
            reached.next().is_some_and(|(first, _)| first == queue) && reached.next().is_none()
        }
        TxWay::Bypass => cpu as usize % xps.len() == queue,
        _ => false,
    };
    let binding = |queue: u16| TxBinding {
        cpus: allowed.iter().copied().filter(|cpu| reaches(*cpu, queue.into())).collect(),
        ..TxBinding::new(queue, way)
    };
    let count = u16::try_from(xps.len()).unwrap_or(u16::MAX);
    (0..count).map(binding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        CpuList::from_list(text).unwrap()
    }

    /// The way, and the CPUs of each queue.
    fn said(driver: &str, xps: &[&str], bypass: bool) -> (TxWay, Vec<String>) {
        let xps: Vec<_> = xps.iter().map(|text| list(text)).collect();
        let found = bindings(Some(driver), &xps, &[0, 1, 2, 3, 5], bypass);
        assert!(found.iter().enumerate().all(|(at, one)| usize::from(one.queue) == at));
        (found[0].way, found.iter().map(|one| one.cpus.to_string()).collect())
    }

    #[test]
    fn steering_by_cpu_goes_before_bypass() {
        for bypass in [false, true] {
            assert_eq!(said("igb", &["0-1", "2-4"], bypass).1, ["0-1", "2-3"]);
            assert_eq!(said("igb", &["0-1", "2-4"], bypass).0, TxWay::Xps);
        }
    }

    #[test]
    fn a_cpu_of_several_queues_is_certain_of_none() {
        assert_eq!(said("igb", &["0-1", "1,5"], false).1, ["0", "5"]);
        assert_eq!(said("igb", &["0-5", "0-5"], false).1, ["", ""]);
    }

    #[test]
    fn past_the_discipline_the_cpu_decides_modulo_the_queues() {
        assert_eq!(
            said("veth", &["", "", ""], true),
            (TxWay::Bypass, vec!["0,3".into(), "1".into(), "2,5".into()])
        );
        // There is no CPU 7.
        assert_eq!(said("veth", &[""; 8], true).1[7], "");
    }

    #[test]
    fn without_steering_the_flow_decides_and_one_queue_needs_no_choice() {
        assert_eq!(said("veth", &["", ""], false).0, TxWay::Flow);
        for driver in ["tun", "vif"] {
            assert_eq!(said(driver, &["0", "1"], true), (TxWay::Device, vec![String::new(); 2]));
        }
        let only = bindings(None, &[CpuList::default()], &[0], true);
        assert_eq!((only[0].way, only[0].kept), (TxWay::Only, true));
    }
}
