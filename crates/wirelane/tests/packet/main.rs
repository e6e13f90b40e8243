//! The packet port on real interfaces: multi-queue TAP devices, veth pairs and loopback, in
//! separate network namespaces.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod immediate;
mod mtu;
mod order;
mod passing;
mod queues;
mod receive;
mod rejected;
mod selection;
mod sharing;
mod traffic;
mod transmit;

use std::time::{Duration, Instant};

use wirelane::internal::packet::PacketPort;
use wirelane::mask::{Class, QueueMask, QueueSet};
use wirelane::port::{Control, OpenOptions, Readiness, Rx, Spec};
use wirelane::{Batch, Error};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::packets;
use wirelane_testkit::wait::eventually;

/// Small rings and a short timer, so that tests are fast. On a busy machine the timer retires a
/// block for each frame, so there are more blocks than frames that a test sends at once.
const QUICK: &str = "?ring=1Mi&block=4Ki&retire=2ms";
/// After this time without the expected result the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(ns: &Namespace, spec: &str, options: &OpenOptions) -> Result<PacketPort, Error> {
    let spec: Spec = spec.parse()?;
    ns.inside(|| PacketPort::open(&spec, options))
}

fn quick(ns: &Namespace, interface: &str, options: &OpenOptions) -> PacketPort {
    open(ns, &format!("packet:{interface}{QUICK}"), options).unwrap()
}

fn transmitting() -> OpenOptions {
    OpenOptions::default().receive(false).transmit(true)
}

fn mask(rx: &[usize], tx: &[usize], other: bool) -> QueueMask {
    let set = |queues: &[usize]| queues.iter().copied().collect::<QueueSet>();
    QueueMask { enabled: true, rx: set(rx), tx: set(tx), other }
}

fn masked(mask: QueueMask) -> OpenOptions {
    OpenOptions::default().mask(mask)
}

/// A packet received from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    class: Class,
    queue: u16,
    sequence: Option<u64>,
    bytes: Vec<u8>,
    original_len: u32,
    timestamp: u64,
}

/// Receives all packets that one end has now, without waiting, and returns their number.
fn take(rx: &mut Rx, into: &mut Vec<Got>) -> usize {
    let mut batch = Batch::new(7);
    let mut total = 0;
    loop {
        let n = rx.receive(&mut batch);
        if n == 0 {
            return total;
        }
        total += n;
        into.extend(batch.iter().map(|frame| Got {
            class: frame.class(),
            queue: frame.queue().unwrap_or(0),
            sequence: packets::sequence(frame.data()),
            bytes: frame.data().to_vec(),
            original_len: frame.original_len(),
            timestamp: frame.timestamp(),
        }));
        batch.clear();
    }
}

/// Pins the calling thread to one CPU, so that its packets remain in order on loopback and veth,
/// which use the backlog of the sending CPU (`netif_rx`).
fn stay() {
    wirelane_os::affinity::pin(wirelane_os::affinity::allowed_cpus().unwrap()[0]).unwrap();
}

/// As [`finish`], but first waits until `count` packets have arrived: on a busy machine packets
/// from the other end of a veth take some time.
fn finish_after(control: &dyn Control, ends: &mut [Rx], count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    eventually(|| {
        ends.iter_mut().for_each(|rx| {
            take(rx, &mut got);
        });
        got.len() >= count
    });
    got.extend(finish(control, ends));
    got
}

/// Stops the port, receives to the end, and returns the packets.
fn finish(control: &dyn Control, ends: &mut [Rx]) -> Vec<Got> {
    control.stop();
    let mut got = Vec::new();
    for rx in ends {
        let patience = Instant::now() + PATIENCE;
        loop {
            take(rx, &mut got);
            match rx.readiness().unwrap() {
                Readiness::End => break,
                Readiness::After(time) | Readiness::Descriptor(_, time) => {
                    std::thread::sleep(time.min(Duration::from_millis(1)));
                }
                Readiness::Now | Readiness::Soon(..) => {}
            }
            assert!(Instant::now() < patience, "no end");
        }
    }
    got
}

/// The sequence numbers of one queue and class, in the order of arrival.
fn sequences(got: &[Got], class: Class, queue: u16) -> Vec<u64> {
    let of = |got: &&Got| got.class == class && got.queue == queue;
    got.iter().filter(of).filter_map(|got| got.sequence).collect()
}

/// Checks that the program holds no frames of the port, and that the port has no other diagnostics
/// than one about shared interfaces.
fn assert_conserved(port: &PacketPort) {
    let counts = port.frames();
    assert_eq!(counts.held(), 0, "{counts:?}");
    // Rejected packets are not counted on shared interfaces.
    let uncounted = "what the filter rejects is not counted: other ports share the interface";
    let notes = port.diagnostics();
    assert!(notes.iter().all(|note| note == uncounted), "{notes:?}");
}
