//! Findings: what is unusual about an interface, what it means for a capture, and what to do.

use super::{CpuList, InterfaceQueues, QueueMapping};

/// The findings on an interface. `steering_visible` says whether RPS and XPS could be read.
pub(super) fn findings(found: &InterfaceQueues, steering_visible: bool) -> Vec<String> {
    let name = &found.name;
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(text);

    if !found.up {
        note(format!("the interface is down: `ip link set {name} up`"));
    }
    if found.driver.as_deref() == Some("tun") && found.combined.count == Some(0) {
        note("no program has a queue of this device open: it carries nothing".to_owned());
    }
    match (found.rx_queue_mapping, found.driver.is_some()) {
        (QueueMapping::Unshifted, _) => note(
            "the driver marks received packets with the sender's transmit queue; those that come by XDP redirect count as queue 0"
                .to_owned(),
        ),
        // Loopback and its like have no driver to ask, and none that records queues.
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
                "{both} received packets: a capture holds fewer and larger ones than the wire carried; `ethtool -K {name} lro off gro off` turns it off"
            ));
        }
        (Some(true), _) => note(format!(
            "GRO merges received packets: a capture holds fewer and larger ones than the wire carried; `ethtool -K {name} gro off` turns it off"
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

/// Receive queues, written the way CPU lists are, that no bucket of the indirection table names.
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
