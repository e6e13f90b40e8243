//! The order of sent frames when the sending thread moves to another CPU, and the queues through
//! which a TAP device sends a flow.

use wirelane::port::Tx;
use wirelane_os::affinity;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

/// Transmits these frames, without a flush.
fn transmit(tx: &mut Tx, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut batch = Batch::new(64);
    for bytes in frames {
        tx.allocate(&mut batch, 1);
        assert!(batch.last_mut().unwrap().fill(&bytes));
    }
    let n = batch.len();
    assert_eq!(tx.transmit(&mut batch), n);
}

/// Each CPU sends through a different TX queue (XPS), and the queue of the first CPU is slow, so
/// that frames of the second CPU could overtake.
#[test]
fn privileged_frames_keep_their_order_when_their_thread_changes_the_cpu() {
    if !privileged::require() {
        return;
    }
    const ROUNDS: u64 = 20;
    const EACH: u64 = 10;
    let cpus = affinity::allowed_cpus().unwrap();
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let name = pair.a.interface.as_str();
    for (queue, cpu) in cpus.iter().take(2).enumerate() {
        let (words, bit) = (*cpu as usize / 32, 1_u32 << (cpu % 32));
        let mask = format!("{bit:x}{}", ",00000000".repeat(words));
        let write = format!("echo {mask} > /sys/class/net/{name}/queues/tx-{queue}/xps_cpus");
        near.run("sh", ["-c", &write]);
    }
    near.run("tc", ["qdisc", "add", "dev", name, "root", "handle", "1:", "mq"]);
    let slow = ["rate", "4mbit", "burst", "2000", "limit", "1000000"];
    let to = ["qdisc", "add", "dev", name, "parent", "1:1", "handle", "10:", "tbf"];
    near.run("tc", to.into_iter().chain(slow));
    let mut port = open(&near, &format!("packet:{name}"), &transmitting()).unwrap();
    // Observe the frames before they leave: the other end has one queue per CPU again.
    let mut observer = quick(&near, name, &masked(mask(&[], &[0, 1], false)));
    let mut ends = observer.rx().unwrap();
    observer.start().unwrap();
    let mut tx = port.tx().unwrap().remove(0);
    for round in 0..ROUNDS {
        affinity::pin(cpus[round as usize % cpus.len().min(2)]).unwrap();
        let numbers = round * EACH..(round + 1) * EACH;
        transmit(&mut tx, numbers.map(|number| packets::udp4(number).length(200).build()));
        tx.flush().unwrap();
    }
    assert_eq!(tx.drain(PATIENCE).unwrap(), 0);
    let mut got = finish_after(&*observer.control(), &mut ends, (ROUNDS * EACH) as usize);
    got.sort_by_key(|got| got.timestamp);
    let numbers: Vec<_> = got.iter().filter_map(|got| got.sequence).collect();
    assert_eq!(numbers, (0..ROUNDS * EACH).collect::<Vec<_>>());
}

/// A TAP device sends a flow through the queue on which it last received a packet of the flow
/// (`tun_flow_update`, `tun_automq_select_queue`), so the queue may change within a flow. Each
/// queue is in order, but a reader that reads the queues in turn sees a different order. The
/// contract's beds on TAP devices rely on this.
#[test]
fn privileged_a_tap_leads_a_flow_to_the_queue_that_it_came_by() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-order", 2);
    let mut port = open(&ns, "packet:wl-order", &transmitting()).unwrap();
    let mut tx = port.tx().unwrap().remove(0);
    let mut came = [Vec::new(), Vec::new()];
    for to in [0, 1, 0, 1] {
        // The device receives a packet of the flow, then sends packets of the flow.
        tap.write(to, &packets::udp4(0).build());
        let first = came.iter().map(Vec::len).sum::<usize>() as u64;
        transmit(&mut tx, (first..first + 10).map(|number| packets::udp4(number).build()));
        assert_eq!(tx.drain(PATIENCE).unwrap(), 0);
        for (queue, frame) in tap.drain() {
            assert_eq!(queue, to, "the flow was received on queue {to}");
            came[queue].push(packets::sequence(&frame).unwrap());
        }
    }
    assert!(came.iter().all(|numbers| numbers.len() == 20 && numbers.is_sorted()), "{came:?}");
}
