//! Long runs: ports that are opened and closed under load, and a forwarder during random
//! disturbances.
//!
//! In the usual tests they take seconds.
//! `WIRELANE_SOAK_MINUTES=10 cargo test --release -p wirelane --test xdp -- --ignored --nocapture
//! soak_` takes as long as it says; `WIRELANE_SOAK_SEED` repeats a run.
#![allow(clippy::print_stdout, reason = "prints the figures of a run")]

use std::env;

use wirelane_os::bpf;
use wirelane_os::xdp::wait_for_receivers;
use wirelane_send::kernel::{LivePace, LiveSender, RunningSender};
use wirelane_testkit::oracle::Random;
use wirelane_testkit::privileged;
use wirelane_testkit::process::output;
use wirelane_wire::ethernet;

use super::*;

/// Starts a sender in the kernel, whose packets arrive on queue `cpu` of two.
fn load(bench: &Bench, cpu: u32) -> RunningSender {
    let frames: Vec<_> = (0..64).map(|n| packets::udp4(n).build()).collect();
    let pace = LivePace { count: None, rate: Some(20_000), cpu: Some(cpu) };
    let interface = &bench.pair.a.interface;
    bench.near.inside(|| LiveSender::new(interface, &frames).unwrap().start(pace).unwrap())
}

/// A value in kilobytes from `/proc/self/status`.
fn kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs in a separate process, because it checks the memory and the descriptors of the whole
/// process.
#[test]
#[ignore = "is started by another test"]
fn open_and_close() {
    let bench = Bench::new(2, 1500);
    bench.pair.b.ethtool(&["-K", &bench.pair.b.interface, "gro", "on"]);
    let index = bench.far.inside(|| wirelane_os::iface::index(&bench.pair.b.interface).unwrap());
    let sending = load(&bench, 0);
    let mut got = Vec::new();
    let (mut received, mut before) = (0, None);
    for round in 0..220 {
        let mut port = bench.far(&format!("?mode={}", MODES[round % 2]), &both());
        let (mut ends, senders) = (port.rx().unwrap(), port.tx().unwrap());
        port.start().unwrap();
        assert!(eventually(|| take(&mut ends[0], &mut got) > 0), "round {round}: nothing comes");
        received += got.len();
        got.clear();
        if round % 3 == 0 {
            drop((ends, senders));
        } else {
            received += finish(&*port.control(), &mut ends).len();
            let counts = port.frames();
            assert_eq!(counts.held(), 0, "round {round}: {counts:?}");
        }
        drop(port);
        let left = bench.far.inside(|| bpf::attached(index).unwrap());
        assert!(left.is_none(), "round {round}: {left:?}");
        // One-time allocations happen in the first rounds.
        if round == 19 {
            before = Some((descriptors(), kilobytes("VmRSS:")));
        }
    }
    let (files, memory) = before.unwrap();
    let (files_now, memory_now) = (descriptors(), kilobytes("VmRSS:"));
    assert!(files_now <= files, "descriptors: {files}, then {files_now}");
    // The frames of a port take megabytes.
    assert!(memory_now < memory + 4096, "resident memory: {memory} kB, then {memory_now} kB");
    sending.stop().unwrap();
    println!("220 ports, {received} packets, {files_now} descriptors, {memory_now} kB");
}

#[test]
fn privileged_two_hundred_ports_under_load_leak_nothing() {
    if !privileged::require() {
        return;
    }
    let mut command = std::process::Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "soak::open_and_close"]);
    let ended = output(&mut command);
    assert!(ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("220 ports"), "{}", ended.stdout);
}

/// A forwarder of two queues that swaps addresses, and the state of the disturbances.
struct Restless {
    bench: Bench,
    port: XdpPort,
    ends: Vec<Rx>,
    senders: Vec<Tx>,
    batch: Batch,
    sending: Option<RunningSender>,
    /// The queue on which packets arrive, and the selected queues.
    queue: usize,
    selected: Vec<usize>,
    checks: u64,
}

impl Restless {
    fn new() -> Self {
        let bench = Bench::new(2, 1500);
        bench.pair.a.ethtool(&["-K", &bench.pair.a.interface, "gro", "on"]);
        let mut port = bench.far("?mode=native", &both());
        let (ends, senders) = (port.rx().unwrap(), port.tx().unwrap());
        port.start().unwrap();
        let sending = Some(load(&bench, 0));
        let (batch, selected) = (Batch::new(64), vec![0, 1]);
        Self { bench, port, ends, senders, batch, sending, queue: 0, selected, checks: 0 }
    }

    /// Forwards the available packets once.
    fn turn(&mut self) {
        for (rx, tx) in self.ends.iter_mut().zip(&mut self.senders) {
            rx.receive(&mut self.batch);
            rx.readiness().unwrap();
            for frame in self.batch.iter_mut() {
                let _ = ethernet::swap_addresses(frame.data_mut());
            }
            tx.transmit(&mut self.batch);
            rx.count_unforwarded(self.batch.len() as u64);
            self.batch.clear();
            tx.flush().unwrap();
        }
    }

    fn turn_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.turn();
        }
    }

    fn forwarded(&self) -> u64 {
        self.senders.iter().map(|tx| tx.counters().packets.value()).sum()
    }

    fn received(&self) -> u64 {
        self.ends.iter().map(|rx| rx.counters().packets.value()).sum()
    }

    /// Checks that the frame counts add up, and that packets of a selected queue are forwarded and
    /// others are not received.
    fn check(&mut self, what: &str) {
        self.checks += 1;
        self.turn();
        let counts = self.port.frames();
        assert_eq!(counts.held(), 0, "after {what}: {counts:?}");
        let sum = counts.free + counts.fill + counts.rx + counts.tx + counts.completion;
        assert_eq!(sum, counts.pool, "after {what}: {counts:?}");
        let before = self.forwarded();
        if self.selected.contains(&self.queue) {
            let patience = Instant::now() + PATIENCE;
            while self.forwarded() < before + 200 {
                self.turn();
                assert!(Instant::now() < patience, "after {what}: it stands still: {counts:?}");
            }
        } else {
            // Packets that passed the program before the mask changed are in the rings, even if the
            // kernel got no CPU for a while. Receive them first.
            wait_for_receivers();
            while {
                let before = self.received();
                self.turn();
                self.received() > before
            } {}
            let before = self.received();
            self.turn_for(Duration::from_millis(20));
            assert_eq!(self.received(), before, "after {what}: a queue that is not selected");
        }
    }

    fn set_link(&mut self, far: bool, state: &str) {
        let end = if far { &self.bench.pair.b } else { &self.bench.pair.a };
        let mut command = std::process::Command::new("ip");
        command.args(["-n", &end.namespace, "link", "set", &end.interface, state]);
        let ended = output(&mut command);
        assert!(ended.status.success(), "{}", ended.stderr);
    }

    fn restart_peer(&mut self, cpu: u32) {
        if let Some(sending) = self.sending.take() {
            // The link may have been down.
            let _ = sending.stop();
        }
        self.turn_for(Duration::from_millis(5));
        self.sending = Some(load(&self.bench, cpu));
        self.queue = cpu as usize % 2;
    }
}

/// Disturbs a forwarder for `time`.
fn disturb(time: Duration) {
    let named = env::var("WIRELANE_SOAK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(|| wirelane_os::clock::realtime_ns() | 1);
    println!("seed {seed}");
    let mut dice = Random::new(seed);
    let mut world = Restless::new();
    let (mut masks, mut flaps, mut restarts) = (0, 0, 0);
    let until = Instant::now() + time;
    world.check("the start");
    while Instant::now() < until {
        match dice.below(8) {
            0..5 => {
                let queues: &[usize] = [&[0, 1][..], &[0], &[1], &[]][dice.below(4) as usize];
                world.port.control().set_mask(rx_mask(queues)).unwrap();
                world.selected = queues.to_vec();
                masks += 1;
                world.check("a change of the mask");
            }
            5 => {
                let far = dice.below(2) == 0;
                world.set_link(far, "down");
                world.turn_for(Duration::from_millis(dice.below(50)));
                world.set_link(far, "up");
                // The sender may have ended when its interface was down.
                let cpu = world.queue as u32;
                world.restart_peer(cpu);
                flaps += 1;
                world.check("a link that was down");
            }
            _ => {
                let cpus = wirelane_os::affinity::allowed_cpus().unwrap();
                let cpu = cpus[dice.below(cpus.len() as u64) as usize];
                world.restart_peer(cpu);
                restarts += 1;
                world.check("a restart of the peer");
            }
        }
        world.turn_for(Duration::from_millis(dice.below(100)));
    }
    let _ = world.sending.take().map(RunningSender::stop);
    world.port.control().stop();
    let patience = Instant::now() + PATIENCE;
    while world.senders.iter().any(|tx| tx.pending() > 0) {
        world.turn();
        assert!(Instant::now() < patience, "frames are never sent");
    }
    let (received, forwarded, checks) = (world.received(), world.forwarded(), world.checks);
    let sum = |of: fn(&wirelane::internal::stats::TxCounters) -> u64| -> u64 {
        world.senders.iter().map(|tx| of(tx.counters())).sum()
    };
    let (stalls, errors) = (sum(|tx| tx.stalls.value()), sum(|tx| tx.errors.value()));
    let full: u64 = world.ends.iter().map(|rx| rx.counters().tx_full.value()).sum();
    world.ends.clear();
    world.senders.clear();
    let counts = world.port.frames();
    assert_eq!((counts.held(), counts.tx, counts.completion), (0, 0, 0), "{counts:?}");
    assert_eq!(received, forwarded + errors + full, "received = sent + refused + no room");
    println!(
        "{received} received, {forwarded} sent, {errors} refused, {full} without room; {masks} masks, \
         {flaps} links down and up, {restarts} restarts, {checks} checks, {stalls} stalls ended by a kick"
    );
}

#[test]
fn privileged_a_forwarder_in_a_restless_world() {
    if privileged::require() {
        disturb(Duration::from_secs(8));
    }
}

#[test]
#[ignore = "takes as long as WIRELANE_SOAK_MINUTES says"]
fn soak_forwarder() {
    let minutes = env::var("WIRELANE_SOAK_MINUTES").ok().and_then(|text| text.parse().ok());
    disturb(Duration::from_secs(60 * minutes.unwrap_or(10)));
}
