//! Forwarded packets leave through their assigned TX queue if the sending CPU selects the queue. If
//! nothing can guarantee the queue, a note says so.

use wirelane::inspect::{TxBinding, TxWay};
use wirelane::port;
use wirelane::qdisc::QueueSelection;
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_os::affinity;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;

use super::*;

/// The number of packets sent through each TX queue, and received on each RX queue of the other
/// end.
struct Passed {
    outcome: ForwardOutcome,
    sent: [u64; 2],
    came: [u64; 2],
}

impl Passed {
    fn bindings(&self) -> &[TxBinding] {
        &self.outcome.ports[1].tx_queues
    }

    fn notes(&self) -> String {
        self.outcome.ports[1].notes.join("\n")
    }
}

/// Forwards some flows of two simulated queues to one end of a veth pair with two queues.
fn forward(
    near: &Namespace,
    far: &Namespace,
    pair: &VethPair,
    options: &str,
    qdisc: &str,
) -> Passed {
    let open = |spec: &str, options| {
        let spec = spec.parse().unwrap();
        near.inside(|| port::open(&spec, &options)).unwrap()
    };
    let mut receiver = quick(far, &pair.b.interface, &OpenOptions::default());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    let source = open("sim:2?count=600&flows=30", OpenOptions::default());
    let sink = open(&format!("packet:{}{options}", pair.a.interface), transmitting());
    let qdisc = Some(qdisc).filter(|text| !text.is_empty()).map(|text| text.parse().unwrap());
    let choice = QueueSelection::Explicit;
    let config = ForwardConfig { one_way: true, qdisc, choice, ..ForwardConfig::default() };
    let forward = Forward::start(vec![source, sink], &config).unwrap();
    assert!(forward.wait(PATIENCE));
    let outcome = forward.join();
    let sent = [0, 1].map(|queue| outcome.tx[queue].packets);
    assert!(sent.iter().sum::<u64>() == 600 && sent[0] != sent[1], "{sent:?}");
    let got = finish_after(&*receiver.control(), &mut ends, 600);
    let by = |queue| got.iter().filter(|got| got.class == Class::Rx && got.queue == queue).count();
    Passed { outcome, sent, came: [0, 1].map(|queue| by(queue) as u64) }
}

#[test]
fn privileged_forwarded_packets_leave_by_the_queue_of_their_cpu() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let cpus = affinity::allowed_cpus().unwrap();
    let [even, odd] = [0, 1].map(|rest| cpus.iter().find(|cpu| **cpu % 2 == rest).copied());
    let name = &pair.a.interface;
    // The reverse of the mapping of `bypass=on`.
    let steer = |queue: usize, cpu: Option<u32>| {
        let Some(cpu) = cpu else { return };
        let mask = format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu as usize / 32));
        let path = format!("/sys/class/net/{name}/queues/tx-{queue}/xps_cpus");
        near.run("sh", ["-c", &format!("echo {mask} > {path}")]);
    };
    let ways = [("?bypass=on", TxWay::Bypass, [even, odd]), ("", TxWay::Xps, [odd, even])];
    for (options, way, expected) in ways {
        if way == TxWay::Xps {
            steer(0, odd);
            steer(1, even);
        }
        for qdisc in ["", "bulk"] {
            let passed = forward(&near, &far, &pair, options, qdisc);
            for (queue, binding) in passed.bindings().iter().enumerate() {
                assert_eq!(
                    (binding.way, binding.cpu.filter(|_| binding.kept)),
                    (way, expected[queue])
                );
            }
            if expected.iter().all(Option::is_some) {
                assert_eq!(passed.came, passed.sent, "{options} {qdisc}");
                assert!(!passed.notes().contains("TX queue"), "{}", passed.notes());
            } else {
                assert!(passed.notes().contains("no CPU of this process"), "{}", passed.notes());
            }
            assert!(passed.outcome.tx.iter().all(|tx| tx.strayed == 0), "{:?}", passed.outcome.tx);
        }
    }
}

/// The kernel or the driver selects the queue by the flow.
#[test]
fn privileged_a_queue_that_nothing_can_keep_is_told() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let passed = forward(&near, &far, &pair, "", "");
    assert_eq!(passed.came.iter().sum::<u64>(), 600);
    assert!(passed.bindings().iter().all(|one| one.way == TxWay::Flow && !one.kept));
    assert!(passed.notes().contains("by its flow"), "{}", passed.notes());
    let _tap = MultiQueueTap::new(&near, "wl-own", 2);
    let port = open(&near, "packet:wl-own?bypass=on", &transmitting()).unwrap();
    let bindings = &port.info().tx_queues;
    assert!(
        bindings.len() == 2 && bindings.iter().all(|one| one.way == TxWay::Device && !one.kept)
    );
    assert!(port.info().notes.iter().any(|note| note.contains("driver of wl-own chooses")));
    assert_eq!(port.tx_queue_cpu(0), None);
}
