//! By which TX queue packets leave that a packet socket sends, and from which CPUs that is a
//! certain one.
//!
//! AF_PACKET cannot name a queue; the kernel chooses it (`netdev_core_pick_tx`, `net/core/dev.c`):
//!
//! | way | who chooses |
//! |---|---|
//! | `only` | there is one queue |
//! | `device` | the driver, by rules of its own (`ndo_select_queue`) |
//! | `xps` | the sending CPU, where transmit packet steering is set up (`get_xps_queue`) |
//! | `bypass` | past the discipline, the sending CPU modulo the number of queues (`packet_pick_tx_queue`) |
//! | `flow` | otherwise a hash of the flow (`skb_tx_hash`) |
//!
//! Who chooses by rules of its own is known of some drivers only: nothing tells whether one has
//! `ndo_select_queue`. Most that have it ask `netdev_pick_tx` in the end, and so keep what is said
//! here, but for some packets:
//!
//! * `stmmac` sends what it cuts itself by queue 0 (`stmmac_select_queue`).
//! * `mlx4_en` takes the queue modulo those of a priority, and adds those of the VLAN's
//!   (`mlx4_en_select_queue`).
//! * `mlx5_core` and `ice` lead packets of traffic classes to queues of theirs, if there are
//!   classes.
//! * `ena` had a rule, which newer kernels do not have any more: with `bypass=on` the CPU modulo
//!   the number of queues goes before XPS, because `packet_pick_tx_queue` records it and
//!   `ena_select_queue` looks there first.
//! * Wireless devices have a queue for each priority (`ieee80211_netdev_select_queue`).
//!
//! `ifb` has no rule, and sends nothing for sockets: it drops whatever was not redirected to it
//! (`ifb_xmit`).
//!
//! Sockets that name the queue themselves, as those of AF_XDP, are `exact`. "Kernel interfaces for
//! multiqueue aware socket" (Yu, 2010) had a call that bound a socket to a queue, and one that read
//! this back (`SIOGTXQUEUEMAPPING`); Linux has neither. [`TxBinding`] is what can be read instead.

use std::fmt;

#[cfg(feature = "serde")]
use serde::Serialize;
use wirelane_os::affinity;
use wirelane_os::sysfs::Sysfs;

use super::cpus::CpuList;
use super::interface::{InterfaceQueues, TxQueue};

/// Who chooses the TX queue of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum TxWay {
    /// The socket names it.
    Exact,
    /// There is no other.
    Only,
    /// The sending CPU, by transmit packet steering (XPS).
    Xps,
    /// The sending CPU, modulo the number of queues.
    Bypass,
    /// The kernel, by a hash of the flow.
    Flow,
    /// The driver, by rules of its own.
    Device,
}

impl fmt::Display for TxWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "named by the socket",
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
    /// Who chooses it.
    #[cfg_attr(feature = "serde", serde(rename = "by"))]
    pub way: TxWay,
    /// The CPUs from which packets leave by it, and by no other one; empty where no CPU decides.
    pub cpus: CpuList,
    /// The CPU of the thread that sends, once there is one.
    pub cpu: Option<u32>,
    /// Whether what is sent leaves by this queue.
    pub kept: bool,
}

impl TxBinding {
    /// Of a queue that needs no CPU.
    pub(crate) fn new(queue: u16, way: TxWay) -> Self {
        let kept = matches!(way, TxWay::Exact | TxWay::Only);
        Self { queue, way, cpus: CpuList::default(), cpu: None, kept }
    }
}

/// Drivers that choose the queue themselves, not by the sending CPU: `tun_select_queue`,
/// `netvsc_select_queue`, `mana_select_queue`, `bond_select_queue`, `team_select_queue`,
/// `xennet_select_queue` (of xen-netfront, which calls itself `vif`).
const CHOOSING: [&str; 6] = ["tun", "hv_netvsc", "mana", "bonding", "team", "vif"];

/// How each TX queue of an interface is reached by a packet socket from the CPUs that this thread
/// may use; with `bypass` past the queueing discipline. A driver that is not known to choose the
/// queue itself may do so.
#[must_use]
pub fn sending(interface: &InterfaceQueues, bypass: bool) -> Vec<TxBinding> {
    let steered = |queue: &TxQueue| queue.xps_cpus.clone().unwrap_or_default();
    let xps: Vec<_> = interface.tx.queues.iter().map(steered).collect();
    let allowed = affinity::allowed_cpus().unwrap_or_default();
    bindings(interface.driver.as_deref(), &xps, &allowed, bypass)
}

/// Reads again how the TX queues of an interface are reached, from any thread: steering may change
/// at any time.
pub(crate) struct Steering {
    sysfs: Sysfs,
    interface: String,
    index: u32,
    driver: Option<String>,
    queues: u16,
    bypass: bool,
    /// CPUs of who opened the interface.
    allowed: Vec<u32>,
}

impl Steering {
    /// Of an interface in the calling thread's namespace with so many TX queues; `None` where sysfs
    /// cannot be seen.
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

    /// How each TX queue is reached now; nothing once no interface of this name is the one that was
    /// opened.
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

/// As [`sending`], with the CPUs that are steered to each queue, and those that may be used.
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
    // A CPU that is steered to several queues reaches each of them for some flows only.
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
