//! The TX side is too slow, or fails.

use std::time::Duration;

use super::*;
use crate::frame::{Batch, Protocols};
use crate::mask::{QueueMask, QueueSet};
use crate::port::{OpenOptions, Switches, Transmit, sim};
use crate::stats::QueueStats;

/// The end of a TX ring that takes only some frames until it is flushed.
struct NarrowTx {
    inner: Box<dyn Transmit>,
    refill: usize,
    room: usize,
    flushes: usize,
}

impl Transmit for NarrowTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let mut part = Batch::default();
        part.as_vec().extend(batch.drain(self.room));
        self.room -= part.len();
        self.inner.transmit(&mut part)
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        if self.flushes == 0 {
            return Err(Error::failed("narrow", "gone"));
        }
        self.flushes -= 1;
        self.room = self.refill;
        self.inner.flush()
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        std::thread::sleep(timeout.min(Duration::from_micros(50)));
        self.flush()
    }
}

/// A simulated port with such ends, whose flushes make room for `room` frames and work `flushes`
/// times.
fn narrow(room: usize, flushes: usize) -> Port {
    let mut port = sim("sim:2", false);
    port.map_tx(|tx| tx.wrap(|inner, _| NarrowTx { inner, refill: room, room: 0, flushes }));
    port
}

fn sim(spec: &str, receive: bool) -> Port {
    let options = OpenOptions::default().receive(receive).transmit(!receive);
    sim::open(&spec.parse().unwrap(), &options).unwrap()
}

fn start(source: &str, room: usize, flushes: usize) -> Session<Forward> {
    let sink = narrow(room, flushes);
    let ports: Vec<Port> = vec![sim(source, true), sink];
    Forward::start(ports, &ForwardConfig { one_way: true, ..ForwardConfig::default() }).unwrap()
}

/// Received, delivered, dropped for want of room, sent; after checking what always holds.
fn sums(outcome: &ForwardOutcome) -> [u64; 4] {
    let mut sums = [0; 4];
    for queue in &outcome.queues {
        let full = queue.dropped.tx_full.unwrap();
        assert_eq!(queue.received, Some(queue.packets + queue.filtered.unwrap() + full));
        assert_eq!(queue.bytes, Some(64 * queue.packets));
        sums[0] += queue.received.unwrap();
        sums[1] += queue.packets;
        sums[2] += full;
    }
    sums[3] = outcome.tx.iter().map(|tx| tx.packets).sum();
    assert_eq!(sums[1], sums[3], "{outcome:?}");
    assert_eq!(outcome.frames.held(), 0);
    sums
}

#[test]
fn a_source_that_can_wait_waits() {
    let forward = start("sim:2?count=20000", 7, usize::MAX);
    assert!(forward.wait(Duration::from_secs(60)));
    let outcome = forward.join();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(sums(&outcome), [20_000, 20_000, 0, 20_000]);
}

#[test]
fn packets_of_another_source_are_dropped_at_the_tail() {
    let forward = start("sim:2?count=20000&rate=10Mpps&frames=16384", 7, usize::MAX);
    assert!(forward.wait(Duration::from_secs(60)));
    let [received, delivered, full, _] = sums(&forward.join());
    assert_eq!(received, 20_000);
    assert!(full > 0 && delivered > 0, "{full} of {received} dropped");
}

#[test]
fn a_ring_that_never_has_room_does_not_keep_it_from_ending() {
    let forward = start("sim:1?count=1000", 0, usize::MAX);
    assert!(!forward.wait(Duration::from_millis(50)));
    let [received, delivered, full, _] = sums(&forward.join());
    assert!(received > 0 && received == full && delivered == 0);
}

#[test]
fn a_failure_ends_it_and_is_said() {
    let forward = start("sim:1", 7, 3);
    assert!(forward.wait(Duration::from_secs(60)));
    let outcome = forward.join();
    let errors: Vec<_> = outcome.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["narrow: gone"]);
    let [received, delivered, full, _] = sums(&outcome);
    assert!(delivered > 0 && received == delivered + full);
}

/// Each packet counts instead of each frame: packets taken, packets without room, and packets over
/// a limit.
#[test]
fn merged_packets_are_conserved_one_by_one() {
    for (source, room, qdisc) in [
        ("sim:2?count=20000&flows=2", 7, None),
        ("sim:2?count=20000&flows=2&rate=10Mpps&frames=16384", 7, None),
        ("sim:2?count=20000&flows=2&rate=10Mpps&frames=16384", 7, Some("fifo,limit=3")),
        ("sim:2?count=20000&flows=2&rate=10Mpps&frames=16384", 7, Some("lockless,limit=4")),
    ] {
        let sink = narrow(room, usize::MAX);
        let ports: Vec<Port> = vec![sim(source, true), sink];
        let switches = Some(Arc::new(Switches::new(Protocols::NONE, Some(Protocols::ALL))));
        let config = ForwardConfig {
            one_way: true,
            qdisc: qdisc.map(|spec| spec.parse().unwrap()),
            switches: vec![switches, None],
            ..ForwardConfig::default()
        };
        let forward = Forward::start(ports, &config).unwrap();
        assert!(forward.wait(Duration::from_secs(60)));
        let monitor = forward.monitor();
        let outcome = forward.join();
        let sum = |of: fn(&QueueStats) -> u64| outcome.queues.iter().map(of).sum::<u64>();
        let (delivered, merged) = (sum(|queue| queue.packets), sum(|queue| queue.merged));
        let full = sum(|queue| queue.dropped.tx_full.unwrap());
        let lost = sum(|queue| queue.dropped.total().unwrap());
        let context = format!("{source} {qdisc:?}: {:?}", outcome.queues);
        assert_eq!(sum(|queue| queue.received.unwrap()), 20_000, "{context}");
        assert_eq!(delivered + lost, 20_000, "{context}");
        assert_eq!(full > 0, source.contains("rate"), "{context}");
        assert!(merged > 10_000 && merged < 20_000, "{context}");
        // The packets taken were segmented into the same number of packets.
        assert_eq!(outcome.tx.iter().map(|tx| tx.packets).sum::<u64>(), delivered, "{context}");
        if qdisc.is_none() {
            assert!(outcome.queues.iter().all(|queue| queue.bytes == Some(64 * queue.packets)));
        }
        let read = monitor.queues().iter().map(|queue| queue.received.unwrap()).sum::<u64>();
        assert_eq!(read, 20_000, "{context}");
        assert_eq!(outcome.frames.held(), 0);
    }
}

#[test]
fn ports_that_do_not_fit() {
    let config = ForwardConfig::default();
    let start = |ports: Vec<Port>| Forward::start(ports, &config).err().unwrap();
    assert!(start(Vec::new()).to_string().contains("one port or two"));
    let receiving = || sim("sim:1", true);
    let error = start(vec![receiving(), receiving()]);
    assert!(error.to_string().contains("without transmitting ends"), "{error}");
    let error = start(vec![(sim("sim:1", false))]);
    assert!(error.to_string().contains("no queue to receive from"), "{error}");
}

#[test]
fn a_running_session_is_read_from_outside() {
    let sink = narrow(7, usize::MAX);
    let ports: Vec<Port> = vec![sim("sim:3", true), sink];
    let qdisc = Some("fifo".parse().unwrap());
    let config = ForwardConfig { one_way: true, qdisc, ..ForwardConfig::default() };
    let forward = Forward::start(ports, &config).unwrap();
    let (monitor, controls) = (forward.monitor(), forward.controls());
    let sent = |reading: &Reading| reading.tx.iter().map(|tx| tx.packets).sum::<u64>();
    while sent(&monitor.read()) == 0 {
        assert!(!forward.wait(Duration::from_millis(1)));
    }
    let reading = monitor.read();
    assert_eq!((reading.queues.len(), reading.tx.len(), reading.qdiscs.len()), (3, 2, 2));
    assert!(reading.qdiscs.iter().all(|(port, ..)| *port == 1));
    assert_eq!((monitor.ports().len(), monitor.frames().len()), (2, 2));

    // Only what is received can be selected.
    let rx = "1".parse().unwrap();
    let mask = QueueMask { rx, tx: QueueSet::NONE, ..QueueMask::ALL };
    controls[0].set_mask(mask.clone()).unwrap();
    assert_eq!(controls[0].mask(), mask);
    for wrong in [QueueMask { enabled: false, ..mask.clone() }, QueueMask::ALL] {
        let error = controls[0].set_mask(wrong).unwrap_err();
        assert!(error.to_string().contains("the host sends"), "{error}");
    }
    assert_eq!(controls[0].mask(), mask);
    let error = controls[1].set_mask(mask).unwrap_err();
    assert!(error.to_string().contains("only leave through it"), "{error}");

    let outcome = forward.join();
    assert!(outcome.qdiscs.iter().any(|(.., stats)| stats.enqueued > 0), "{outcome:?}");
    // Ended disciplines are not counted; the other counters are the same.
    let after = monitor.read();
    assert_eq!(after.qdiscs.len(), 0);
    assert_eq!(sent(&after), outcome.tx.iter().map(|tx| tx.packets).sum::<u64>());
    assert!(monitor.frames().iter().all(|frames| frames.held() == 0));
}
