//! Forwarded packets leave through their assigned TX queue if the sending CPU selects the queue. If
//! nothing can guarantee the queue, a note says so.

use std::{fs, thread};

use wirelane::inspect::{TxBinding, TxWay};
use wirelane::port;
use wirelane::qdisc::QueueSelection;
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_os::privilege::{self, Capability};
use wirelane_os::{affinity, bpf};
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
    let config = ForwardConfig::default().one_way(true).qdisc(qdisc).choice(choice);
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

/// Without XPS, a program assigns each socket its queue, for a subset of the queues as well. It
/// ends with the port.
#[test]
fn privileged_each_socket_sends_through_its_queue() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    for (options, qdisc) in [("", ""), ("", "bulk"), ("?vnet=on", "")] {
        let passed = forward(&near, &far, &pair, options, qdisc);
        assert_eq!(passed.came, passed.sent, "{options} {qdisc}");
        assert!(passed.bindings().iter().all(|one| one.way == TxWay::Program && one.kept));
        assert!(!passed.notes().contains("TX queue"), "{}", passed.notes());
    }
    // Two of four queues.
    let pair = VethPair::new(&near, &far, 4, 1500);
    let mut receiver = quick(&far, &pair.b.interface, &OpenOptions::default());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    let spec = format!("packet:{}@1,3", pair.a.interface);
    let mut port = open(&near, &spec, &transmitting()).unwrap();
    let mut senders = port.tx().unwrap();
    for (tx, count) in senders.iter_mut().zip([5, 7]) {
        let mut batch = Batch::default();
        assert_eq!(tx.allocate(&mut batch, count), count);
        batch.iter_mut().for_each(|frame| assert!(frame.fill(&[0xff; 60])));
        assert_eq!(tx.transmit(&mut batch), count);
        tx.flush().unwrap();
    }
    let got = finish_after(&*receiver.control(), &mut ends, 12);
    let by = |queue| got.iter().filter(|got| got.class == Class::Rx && got.queue == queue).count();
    assert_eq!([0, 1, 2, 3].map(by), [0, 5, 0, 7]);
    let programs = egress_programs();
    assert_eq!(programs.len(), 1);
    drop((port, senders));
    assert!(eventually(|| !bpf::program_exists(programs[0]).unwrap()));
}

/// The programs that this process has attached to the egress of interfaces.
fn egress_programs() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/fdinfo").unwrap();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let links = texts.filter(|text| text.contains("link_type:\ttcx"));
    let id = |text: String| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    links.filter_map(id).collect()
}

/// The kernel or the driver selects the queue by the flow.
#[test]
fn privileged_a_queue_that_nothing_can_keep_is_told() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let spec = format!("packet:{}", pair.a.interface).parse().unwrap();
    // Capabilities belong to a thread.
    let port = near.inside(|| {
        let without = || {
            privilege::drop_all([Capability::NetRaw].into_iter().collect()).unwrap();
            port::open(&spec, &transmitting()).unwrap()
        };
        thread::scope(|scope| scope.spawn(without).join().unwrap())
    });
    assert!(port.info().tx_queues.iter().all(|one| one.way == TxWay::Flow && !one.kept));
    let notes = port.info().notes.join("\n");
    assert!(notes.contains("by its flow") && notes.contains("CAP_BPF"), "{notes}");
    let _tap = MultiQueueTap::new(&near, "wl-own", 2);
    let port = open(&near, "packet:wl-own?bypass=on", &transmitting()).unwrap();
    let bindings = &port.info().tx_queues;
    assert!(
        bindings.len() == 2 && bindings.iter().all(|one| one.way == TxWay::Device && !one.kept)
    );
    assert!(port.info().notes.iter().any(|note| note.contains("driver of wl-own chooses")));
    assert_eq!(port.tx_queue_cpu(0), None);
}
