//! The contract of ports on two existing interfaces at the ends of one cable and in one namespace,
//! such as the emulated ones in the guest of `cargo xtask vm`. The port under test uses the first.
//!
//! | variable | value |
//! |---|---|
//! | `WIRELANE_CONTRACT_PAIR` | the two interfaces: `igb0,igb1` |
//! | `WIRELANE_CONTRACT_TWIN` | two others, for properties of two ports |
//! | `WIRELANE_CONTRACT_MODE` | `packet`, or a mode of `xdp:`, which is then forced |
//!
//! The tests share the interfaces, so they run on one thread.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(unused, reason = "the other beds belong to the contract's own target")]

mod bed;
mod beds;
mod hints;
mod properties;
mod session;
mod suite;
mod threads;
mod traffic;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::Batch;
use wirelane::internal::packet::PacketPort;
use wirelane::port::{Port, Rx};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;

use bed::Observed;
use beds::veth::{Drops, hear, listener, sender};
use beds::{Medium, OnInterface};
use suite::contract;
use traffic::Tag;

contract!(wire, privileged, crate::on_wire);

fn on_wire() -> OnInterface<Wire> {
    let wire = Wire::named("WIRELANE_CONTRACT_PAIR");
    let queues = wire.flows.len() as u16;
    let bed = match env::var("WIRELANE_CONTRACT_MODE").unwrap().as_str() {
        "packet" => beds::packet::on(wire, queues, true),
        "zerocopy" => {
            beds::xdp::on(wire, queues, "zerocopy", "?mode=zerocopy&ring=512&frames=1024")
        }
        "native" => beds::xdp::on(wire, queues, "native", "?mode=native&ring=512&frames=1024"),
        "generic" => beds::xdp::on(wire, queues, "generic", "?mode=generic&ring=512&frames=1024"),
        mode => panic!("no such mode: {mode}"),
    };
    // Emulated cards drop packets that find no descriptor. Counters in the guest do not show it.
    bed.that_loses_silently()
}

/// Two interfaces with a cable between them.
struct Wire {
    near: String,
    far: String,
    macs: [[u8; 6]; 2],
    /// For each RX queue of the near interface, a flow that arrives there.
    flows: Vec<u16>,
    sender: PacketSocket,
    ears: Vec<Rx>,
    batch: Batch,
    near_drops: Drops,
    far_drops: Drops,
    /// Whether the device and the port count the same drops: packets that found a ring of the
    /// port's sockets full.
    counts_twice: bool,
    // Keeps the listening port open as long as its ends.
    _listener: PacketPort,
}

/// An interface may lose its link for a while when its settings change.
const PATIENCE: Duration = Duration::from_secs(60);

impl Wire {
    fn named(variable: &str) -> Self {
        let pair = env::var(variable).unwrap_or_else(|_| panic!("{variable} names no interfaces"));
        let (near, far) = pair.split_once(',').expect("two interfaces");
        wait_for_carriers([near, far]);
        let sender = sender(far);
        let flows = flows(near, &sender, [far, near].map(|name| iface::mac(name).unwrap()));
        let mut listener = listener(far);
        let queues = queues(far);
        let ears = listener.rx().unwrap().into_iter().take(queues).collect();
        listener.start().unwrap();
        let macs = [near, far].map(|name| iface::mac(name).unwrap());
        let (mut ears, mut batch): (Vec<Rx>, _) = (ears, Batch::new(64));
        prove_cable([near, far], macs, &flows, &mut ears, &mut batch);
        Self {
            near: near.to_owned(),
            far: far.to_owned(),
            macs,
            flows,
            sender,
            ears,
            batch,
            near_drops: Drops::here(near),
            far_drops: Drops::here(far),
            counts_twice: env::var("WIRELANE_CONTRACT_MODE").unwrap() == "zerocopy",
            _listener: listener,
        }
    }
}

impl Medium for Wire {
    fn interface(&self) -> &str {
        &self.near
    }

    fn macs(&self) -> [[u8; 6]; 2] {
        self.macs
    }

    fn again(&self) -> Self {
        Self::named("WIRELANE_CONTRACT_TWIN")
    }

    fn inside<T>(&self, action: impl FnOnce() -> T) -> T {
        let result = action();
        wait_for_carriers([&self.near, &self.far]);
        result
    }

    fn flow(&self, queue: u16) -> u16 {
        self.flows[usize::from(queue)]
    }

    fn inject(&mut self, _queue: u16, frame: &[u8]) -> bool {
        iface::flags(&self.near).unwrap().is_running()
            && self.sender.send_frame(frame).is_ok_and(|sent| sent == frame.len())
    }

    fn observe(&mut self) -> Vec<Observed> {
        let mut observed = hear(&mut self.ears, &mut self.batch);
        // This is the RX queue of the far end, which does not depend on the TX queue of the port.
        observed.iter_mut().for_each(|frame| frame.queue = None);
        observed
    }

    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        let socket = sender(&self.near);
        socket.send_frame(frame).unwrap();
        None
    }

    fn calm(&self) -> Duration {
        // An emulated device is slow, especially if the emulator shares its CPUs.
        Duration::from_secs(1)
    }

    fn lost_before(&mut self) -> u64 {
        if self.counts_twice { 0 } else { self.near_drops.read().received }
    }

    fn lost_behind(&mut self) -> u64 {
        self.near_drops.read().transmitted + self.far_drops.read().received
    }
}

/// The number of queues of an interface.
fn queues(name: &str) -> usize {
    Ethtool::open(name).unwrap().channels().unwrap().unwrap().combined as usize
}

/// Finds a flow for each RX queue of `near` by sending frames: not every driver reports the key of
/// its hash.
fn flows(near: &str, sender: &PacketSocket, macs: [[u8; 6]; 2]) -> Vec<u16> {
    let mut listener = listener(near);
    let count = queues(near);
    let mut ears: Vec<Rx> = listener.rx().unwrap().into_iter().take(count).collect();
    listener.start().unwrap();
    let mut found: Vec<Option<u16>> = vec![None; count];
    let mut batch = Batch::new(64);
    for flow in 0..256 {
        let tag = Tag { run: u8::MAX, queue: 0, length: 60, number: u32::from(flow) };
        sender.send_frame(&tag.frame(flow, macs)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut missing = true;
        while missing {
            for observed in hear(&mut ears, &mut batch) {
                if Tag::of(&observed.bytes) == Some(tag) {
                    missing = false;
                    found[usize::from(observed.queue.unwrap())].get_or_insert(flow);
                }
            }
            assert!(Instant::now() < deadline, "a frame of flow {flow} does not come to {near}");
        }
        if let Some(flows) = found.iter().copied().collect() {
            return flows;
        }
    }
    panic!("no flow comes to some queue of {near}: {found:?}");
}

/// Fails if the cable loses frames that the kernel sends from `near` to `far`; then no port is the
/// cause. The frames belong to many flows, because each queue of the far interface may fail alone,
/// and some have foreign addresses. If the far interface loses a frame, it is taken down and up
/// once.
#[allow(clippy::print_stdout, reason = "the report of the guest shows a repair")]
fn prove_cable(
    [near, far]: [&str; 2],
    macs: [[u8; 6]; 2],
    flows: &[u16],
    ears: &mut [Rx],
    batch: &mut Batch,
) {
    const WAIT: Duration = Duration::from_secs(5);
    const FLOWS: u16 = 8;
    const FOREIGN: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let mut passes = || {
        let all = || flows.iter().copied().chain(0..FLOWS);
        let frames = [macs, FOREIGN].into_iter().flat_map(|macs| all().map(move |it| (macs, it)));
        frames.into_iter().all(|(macs, flow)| passes(near, macs, flow, ears, batch, WAIT))
    };
    if passes() {
        return;
    }
    println!("{far} loses frames from {near}: taking {far} down and up");
    iface::down(far).unwrap();
    iface::up(far).unwrap();
    wait_for_carriers([near, far]);
    assert!(passes(), "the cable between {near} and {far} loses the kernel's own frames");
}

/// Whether a frame of `flow` that the kernel sends from `near` arrives at `ears` within `wait`. The
/// frame is sent again every 100 ms, because a device may be busy.
fn passes(
    near: &str,
    macs: [[u8; 6]; 2],
    flow: u16,
    ears: &mut [Rx],
    batch: &mut Batch,
    wait: Duration,
) -> bool {
    let socket = sender(near);
    let tag = Tag { run: u8::MAX, queue: 0, length: 60, number: u32::from(flow) };
    let deadline = Instant::now() + wait;
    let mut sent = 0;
    while Instant::now() < deadline {
        let _ = socket.send_frame(&tag.frame(flow, macs));
        sent += 1;
        let pause = Instant::now() + Duration::from_millis(100);
        while Instant::now() < pause {
            let heard = hear(ears, batch);
            if heard.iter().any(|observed| Tag::of(&observed.bytes) == Some(tag)) {
                if sent > 1 {
                    // The test must not see the other copies.
                    thread::sleep(Duration::from_secs(1));
                    hear(ears, batch);
                }
                return true;
            }
        }
    }
    false
}

fn wait_for_carriers(names: [&str; 2]) {
    let deadline = Instant::now() + PATIENCE;
    while !names.iter().all(|name| iface::flags(name).unwrap().is_running()) {
        assert!(Instant::now() < deadline, "no link between {} and {}", names[0], names[1]);
        thread::sleep(Duration::from_millis(10));
    }
}
