//! The AF_XDP port on veth pairs in separate network namespaces.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod checksum;
mod filter;
mod forward;
mod hints;
mod negotiation;
mod robustness;
mod soak;
mod tags;
mod teardown;
mod timestamps;
mod traffic;

use std::time::{Duration, Instant};

use wirelane::internal::xdp::XdpPort;
use wirelane::mask::{Class, QueueMask, QueueSet};
use wirelane::port::{
    Backend, Control, FrameCounts, OpenOptions, Port, PortMode, Readiness, Rx, Spec, Take, Tx,
};
use wirelane::{Batch, Error};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::packets;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::wait::eventually;

/// After this time without the expected result the test fails. On a busy machine a thread may wait
/// for seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum number of frames of a sender in flight: the ring of a veth has 256 entries, and a
/// frame that finds it full is lost.
const ON_THE_WAY: usize = 128;

/// The modes that veth supports.
const MODES: [&str; 2] = ["native", "generic"];

/// Two namespaces with a veth pair between them.
struct Bench {
    near: Namespace,
    far: Namespace,
    pair: VethPair,
}

impl Bench {
    fn new(queues: u32, mtu: u32) -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, queues, mtu);
        Self { near, far, pair }
    }

    /// Opens the near end, with `query` after its name in the spec.
    fn near(&self, query: &str, options: &OpenOptions) -> XdpPort {
        open(&self.near, &format!("xdp:{}{query}", self.pair.a.interface), options).unwrap()
    }

    /// Opens the far end, with `query` after its name in the spec.
    fn far(&self, query: &str, options: &OpenOptions) -> XdpPort {
        open(&self.far, &format!("xdp:{}{query}", self.pair.b.interface), options).unwrap()
    }
}

fn open(ns: &Namespace, spec: &str, options: &OpenOptions) -> Result<XdpPort, Error> {
    let spec: Spec = spec.parse()?;
    ns.inside(|| XdpPort::open(&spec, options))
}

fn receiving() -> OpenOptions {
    OpenOptions::default().take(Take::AllAndManagement)
}

fn sending() -> OpenOptions {
    OpenOptions::default().receive(false).transmit(true)
}

fn both() -> OpenOptions {
    receiving().transmit(true)
}

fn rx_mask(queues: &[usize]) -> QueueMask {
    let rx = queues.iter().copied().collect::<QueueSet>();
    QueueMask { enabled: true, rx, tx: QueueSet::NONE, other: false }
}

/// A packet received from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    queue: u16,
    sequence: Option<u64>,
    bytes: Vec<u8>,
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
        into.extend(batch.iter().map(|frame| {
            assert_eq!(frame.class(), Class::Rx);
            Got {
                queue: frame.queue().unwrap(),
                sequence: packets::sequence(frame.data()),
                bytes: frame.data().to_vec(),
                timestamp: frame.timestamp(),
            }
        }));
        batch.clear();
    }
}

/// Pins the calling thread to one CPU, so that its packets remain in order on a veth without NAPI,
/// which uses the backlog of the sending CPU (`netif_rx`).
fn stay() {
    wirelane_os::affinity::pin(wirelane_os::affinity::allowed_cpus().unwrap()[0]).unwrap();
}

/// As [`finish`], but first waits until `got` has `count` packets: on a busy machine this takes
/// some time.
fn finish_after(control: &dyn Control, ends: &mut [Rx], got: &mut Vec<Got>, count: usize) {
    eventually(|| {
        ends.iter_mut().for_each(|rx| {
            take(rx, got);
        });
        got.len() >= count
    });
    got.extend(finish(control, ends));
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

/// Sends all frames and waits until the kernel has completed them. `meanwhile` runs after every
/// batch.
fn send(tx: &mut Tx, frames: impl IntoIterator<Item = Vec<u8>>, mut meanwhile: impl FnMut()) {
    let mut frames = frames.into_iter().peekable();
    let mut batch = Batch::new(32);
    let patience = Instant::now() + PATIENCE;
    while frames.peek().is_some() || !batch.is_empty() || tx.pending() > 0 {
        if tx.pending() < ON_THE_WAY {
            let mut empty = Batch::new(32 - batch.len());
            tx.allocate(&mut empty, 32);
            while frames.peek().is_some()
                && let Some(mut frame) = empty.pop()
            {
                assert!(frame.fill(&frames.next().unwrap()));
                batch.push(frame).unwrap();
            }
            tx.transmit(&mut batch);
        }
        tx.flush().unwrap();
        meanwhile();
        assert!(Instant::now() < patience, "{} pending", tx.pending());
    }
}

/// The sequence numbers of one queue, in the order of arrival.
fn sequences(got: &[Got], queue: u16) -> Vec<u64> {
    got.iter().filter(|got| got.queue == queue).filter_map(|got| got.sequence).collect()
}

/// Checks that the program holds no frames and that the port has no diagnostics.
fn assert_conserved(port: &Port) {
    let counts: FrameCounts = port.frames();
    assert_eq!(counts.held(), 0, "{counts:?}");
    assert_eq!(port.diagnostics(), [] as [String; 0]);
}
