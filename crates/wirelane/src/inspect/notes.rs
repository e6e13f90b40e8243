//! Findings: unusual properties of an interface, their meaning for a capture, and the remedy.

use super::cpus::CpuList;

use super::interface::InterfaceQueues;

use super::mapping::QueueMapping;

/// The findings on an interface. `steering_visible`: RPS and XPS could be read.
pub(super) fn findings(found: &InterfaceQueues, steering_visible: bool) -> Vec<String> {
    let name = &found.name;
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(text);

    if !found.up {
        note(format!("the interface is down: `ip link set {name} up`"));
    }
    if found.driver.as_deref() == Some("tun") && found.combined.current == Some(0) {
        note("no program has opened a queue of this device: it carries no packets".to_owned());
    }
    match (found.rx_queue_mapping, found.driver.is_some()) {
        (QueueMapping::Unshifted, _) => note(
            "the driver marks received packets with the sender's transmit queue; those that come \
             by XDP redirect count as queue 0"
                .to_owned(),
        ),
        // Loopback and similar interfaces have no driver to query, and none that records queues.
        (QueueMapping::Shifted, false) => note(
            "the driver records no receive queue: every received packet counts as OTHER".to_owned(),
        ),
        (QueueMapping::Shifted, true) if found.rx.count == Some(1) => note(
            "with one receive queue many drivers record none: received packets may count as OTHER"
                .to_owned(),
        ),
        (QueueMapping::Shifted, true) => {}
    }
    match (found.offloads.gro, found.offloads.lro) {
        (gro, Some(true)) => {
            let both = if gro == Some(true) { "LRO and GRO merge" } else { "LRO merges" };
            note(format!(
                "{both} received packets: a capture holds fewer and larger ones than the wire \
                 carried; `ethtool -K {name} lro off gro off` turns it off"
            ));
        }
        (Some(true), _) => note(format!(
            "GRO merges received packets: a capture holds fewer and larger ones than the wire \
             carried; `ethtool -K {name} gro off` turns it off"
        )),
        _ => {}
    }
    if found.rx.count.is_some_and(|count| count > 1)
        && found.rss.as_ref().is_some_and(|rss| rss.key_symmetric == Some(false))
    {
        note(
            "the RSS hash is not symmetric: the two directions of a flow reach different queues"
                .to_owned(),
        );
    }
    if let Some(unused) = unused_queues(found) {
        note(format!("the RSS table sends nothing to receive queues {unused}"));
    }
    if let Some(far) = far_queues(found) {
        note(format!(
            "receive queues {far} are served by CPUs of another NUMA node than the device's"
        ));
    }
    if !steering_visible {
        note("no sysfs of this network namespace can be seen: RPS, XPS and the device's interrupts are unknown".to_owned());
    }
    notes
}

/// Receive queues, formatted like CPU lists, without a bucket in the indirection table.
fn unused_queues(found: &InterfaceQueues) -> Option<CpuList> {
    let table = found.rss.as_ref()?.indirection.as_ref()?;
    let unused = (0..found.rx.count?).filter(|queue| !table.contains(queue));
    numbers(unused)
}

fn far_queues(found: &InterfaceQueues) -> Option<CpuList> {
    let node = found.numa_node?;
    let far = found.rx.queues.iter().filter(|queue| queue.service.numa.is_some_and(|n| n != node));
    numbers(far.map(|queue| queue.index))
}

fn numbers(numbers: impl Iterator<Item = u32>) -> Option<CpuList> {
    let list: CpuList = numbers.collect();
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::super::{Offloads, Rss, RxQueue, Service, Setting, Side};
    use super::*;

    /// A quiet server NIC with four queues on node 0.
    fn nic() -> InterfaceQueues {
        let queues = (0..4).map(|index| RxQueue {
            index,
            service: Service { numa: Some(0), ..Service::default() },
            rps_cpus: None,
        });
        InterfaceQueues {
            name: "eth0".into(),
            index: 2,
            up: true,
            mtu: Some(1500),
            speed_mbps: Some(25_000),
            driver: Some("ice".into()),
            driver_version: None,
            firmware: None,
            bus: None,
            numa_node: Some(0),
            rx_queue_mapping: QueueMapping::Shifted,
            rx: Side {
                count: Some(4),
                max: Some(8),
                ring: Setting::default(),
                queues: queues.collect(),
            },
            tx: Side { count: Some(4), max: Some(8), ring: Setting::default(), queues: Vec::new() },
            combined: Setting::default(),
            rss: Some(Rss {
                key_symmetric: Some(true),
                indirection: Some(vec![0, 1, 2, 3]),
                ..Rss::default()
            }),
            offloads: Offloads { gro: Some(false), lro: Some(false), ..Offloads::default() },
            notes: Vec::new(),
        }
    }

    /// The only finding on `nic` once `change` is made.
    fn only(change: impl FnOnce(&mut InterfaceQueues)) -> String {
        let mut nic = nic();
        change(&mut nic);
        let notes = findings(&nic, true);
        assert_eq!(notes.len(), 1, "{notes:?}");
        notes.into_iter().next().unwrap()
    }

    #[test]
    fn nothing_unusual_gives_no_note() {
        assert_eq!(findings(&nic(), true), Vec::<String>::new());
    }

    #[test]
    fn each_finding_is_noted() {
        let rss = |nic: &mut InterfaceQueues| nic.rss.as_mut().unwrap().key_symmetric = Some(false);
        assert!(only(rss).contains("not symmetric"));
        let table = |nic: &mut InterfaceQueues| {
            nic.rss.as_mut().unwrap().indirection = Some(vec![0, 0]);
        };
        assert!(only(table).ends_with("receive queues 1-3"));
        let far = |nic: &mut InterfaceQueues| nic.rx.queues[2].service.numa = Some(1);
        assert!(only(far).starts_with("receive queues 2 are served"));
        assert!(only(|nic| nic.up = false).contains("`ip link set eth0 up`"));
        assert!(only(|nic| nic.offloads.gro = Some(true)).starts_with("GRO merges"));
        assert!(only(|nic| nic.offloads.lro = Some(true)).starts_with("LRO merges"));
        assert!(only(|nic| nic.driver = None).contains("records no receive queue"));
        assert!(
            only(|nic| nic.rx_queue_mapping = QueueMapping::Unshifted).contains("XDP redirect")
        );
    }

    #[test]
    fn what_is_unknown_is_not_noted() {
        let mut nic = nic();
        nic.rss = None;
        nic.numa_node = None;
        nic.offloads = Offloads::default();
        nic.rx.count = None;
        nic.rx.queues.clear();
        assert_eq!(findings(&nic, true), Vec::<String>::new());
        assert_eq!(findings(&nic, false).len(), 1);
    }
}
