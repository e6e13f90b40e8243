//! Forwarding between ports: without a copy within one memory region, with a copy otherwise.

use wirelane::internal::port::{ProgramOptions, shared_memory};
use wirelane::port::Backend;
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_testkit::privileged;

use super::*;

const COUNT: u64 = 4000;

/// Two veth pairs with one end of each in a middle namespace.
struct Chain {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    first: VethPair,
    second: VethPair,
}

impl Chain {
    fn new(queues: u32, mtu: u32) -> Self {
        let [left, middle, right] = [(); 3].map(|()| Namespace::new());
        let first = VethPair::new(&left, &middle, queues, mtu);
        let second = VethPair::new(&right, &middle, queues, mtu);
        Self { left, middle, right, first, second }
    }

    /// The specs of the two ends in the middle.
    fn specs(&self, query: &str) -> [Spec; 2] {
        [&self.first.b, &self.second.b]
            .map(|end| format!("xdp:{}{query}", end.interface).parse().unwrap())
    }

    /// Sends on the left, forwards in the middle, and receives on the right. Returns the outcome of
    /// the forwarding.
    fn run(&self, ports: Vec<Port>, mode: &str, longest: u64) -> ForwardOutcome {
        let spec = |end: &wirelane_testkit::veth::End| format!("xdp:{}?mode={mode}", end.interface);
        let mut receiver = open(&self.right, &spec(&self.second.a), &receiving()).unwrap();
        let mut sender = open(&self.left, &spec(&self.first.a), &sending()).unwrap();
        let (mut ends, mut senders) = (receiver.rx().unwrap(), sender.tx().unwrap());
        receiver.start().unwrap();
        let forward = Forward::start(ports, &ForwardConfig::default()).unwrap();
        let frame =
            |n: u64| packets::udp4(n).length((60 + n * 7 % (longest - 59)) as usize).build();
        let mut got = Vec::new();
        for (queue, tx) in senders.iter_mut().enumerate() {
            let first = queue as u64 * COUNT;
            let mut drain = || {
                ends.iter_mut().for_each(|rx| {
                    take(rx, &mut got);
                });
                // A sender without pauses overruns any receiver on a machine with few CPUs.
                std::thread::sleep(Duration::from_micros(200));
            };
            send(tx, (first..first + COUNT).map(frame), &mut drain);
        }
        let total = COUNT as usize * senders.len();
        let patience = Instant::now() + PATIENCE;
        while got.len() < total && Instant::now() < patience {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = forward.join();
        got.extend(finish(&*receiver.control(), &mut ends));
        assert_eq!(outcome.errors.len(), 0, "{:?}", outcome.errors);
        assert_eq!(got.len(), total, "{:?} {:?}", outcome.queues, outcome.tx);
        for got in &got {
            assert_eq!(got.bytes, frame(got.sequence.unwrap()));
        }
        assert_eq!(outcome.frames.held(), 0, "{:?}", outcome.frames);
        assert_eq!(outcome.frames.tx + outcome.frames.completion, 0, "{:?}", outcome.frames);
        outcome
    }
}

#[test]
fn privileged_ports_of_one_region_forward_without_a_copy() {
    if !privileged::require() {
        return;
    }
    for (queues, mtu, query) in
        [(1, 1500, ""), (2, 1500, "?frame=4096"), (1, 1500, "?frame=3000"), (1, 9000, "")]
    {
        let chain = Chain::new(queues, mtu);
        for mode in MODES {
            let mark = if query.is_empty() { "?" } else { "&" };
            let specs = chain.specs(&format!("{query}{mark}mode={mode}"));
            assert!(specs.iter().all(|spec| spec.backend == Some(Backend::Xdp)));
            let options = both();
            let pairs = [(&specs[0], &options), (&specs[1], &options)];
            let shares = chain.middle.inside(|| shared_memory(&pairs).unwrap());
            let mut shares = shares.into_iter();
            let ports = specs.each_ref().map(|spec| {
                let options =
                    both().internal(ProgramOptions::default().memory(shares.next().unwrap()));
                chain.middle.inside(|| XdpPort::open(spec, &options).unwrap())
            });
            assert!(ports[0].shares_memory_with(&ports[1]));
            let ports = ports.into_iter().map(Port::from).collect();
            let outcome = chain.run(ports, mode, u64::from(mtu) + 14);
            let sent: u64 = outcome.tx.iter().map(|tx| tx.packets).sum();
            let copied: u64 = outcome.tx.iter().map(|tx| tx.copied).sum();
            assert_eq!((sent, copied), (COUNT * u64::from(queues), 0), "{query} {mode}");
        }
    }
}

#[test]
fn privileged_frames_of_foreign_memory_are_copied_and_counted() {
    if !privileged::require() {
        return;
    }
    for mtu in [1500, 9000] {
        let chain = Chain::new(1, mtu);
        let specs = chain.specs("?mode=native");
        let ports = specs
            .each_ref()
            .map(|spec| chain.middle.inside(|| XdpPort::open(spec, &both()).unwrap()));
        assert!(!ports[0].shares_memory_with(&ports[1]));
        let ports = ports.into_iter().map(Port::from).collect();
        let outcome = chain.run(ports, "native", u64::from(mtu) + 14);
        let copied: u64 = outcome.tx.iter().map(|tx| tx.copied).sum();
        assert_eq!(copied, COUNT);
    }
}

/// One port sends received packets back with swapped addresses, in the same memory.
#[test]
fn privileged_packets_go_back_uncopied() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(2, 1500);
    for mode in MODES {
        let query = format!("?mode={mode}");
        let far = Port::from(bench.far(&query, &both()));
        let mut near = bench.near(&query, &both());
        let (mut ends, mut senders) = (near.rx().unwrap(), near.tx().unwrap());
        near.start().unwrap();
        let forward = Forward::start(vec![far], &ForwardConfig::default()).unwrap();
        let mut got = Vec::new();
        let (a, b) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let frame = |n: u64| packets::udp4(n).macs(a, b).build();
        send(&mut senders[0], (0..COUNT).map(frame), || {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            std::thread::sleep(Duration::from_micros(200));
        });
        let patience = Instant::now() + PATIENCE;
        while got.len() < COUNT as usize && Instant::now() < patience {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = forward.join();
        assert_eq!(got.len() as u64, COUNT, "{mode}: {:?} {:?}", outcome.queues, outcome.tx);
        for got in &got {
            assert_eq!(got.bytes, packets::udp4(got.sequence.unwrap()).macs(b, a).build());
        }
        assert_eq!(outcome.tx.iter().map(|tx| tx.copied).sum::<u64>(), 0);
        assert_eq!(outcome.frames.held(), 0, "{:?}", outcome.frames);
    }
}
