//! Packets leave through the TX queue of their thread, even if the threads are moved between CPUs.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane::inspect::TxWay;
use wirelane::port::{self, OpenOptions};
use wirelane::{Batch, pipeline};
use wirelane_gen::source::{Departure, PacketSource, ThreadShare};
use wirelane_os::affinity;
use wirelane_send::{SendConfig, sockets};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

/// The total number of packets, and the nanoseconds between them.
const PACKETS: u64 = 30_000;
const GAP: u64 = 20_000;
/// How often each thread is moved, and the most packets per call.
const MOVES: u64 = 60;
const BURST: u64 = 64;

/// Numbered packets of many flows, which a flow hash would distribute to all queues.
struct Numbered {
    next: u64,
    of: u64,
    count: u64,
}

impl PacketSource for Numbered {
    fn next(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        let departure = Departure { at: self.next * GAP, len: 60, stream: 0 };
        Ok((self.next < self.count).then_some(departure))
    }

    fn write(&mut self, packet: &mut [u8], _now: u64) {
        let frame = packets::udp4(self.next).flow(self.next as u16).build();
        packet.copy_from_slice(&frame);
        self.next += self.of;
    }

    fn skip(&mut self) {
        self.next += self.of;
    }
}

/// The sending threads of this process by lane.
fn threads() -> Vec<(usize, u32)> {
    let named = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let lane = name.trim().strip_prefix("wl-send")?.parse().ok()?;
        Some((lane, entry.file_name().to_str()?.parse().ok()?))
    };
    fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok).filter_map(named).collect()
}

#[test]
fn privileged_packets_leave_by_the_queue_of_their_thread_although_it_is_moved() {
    if !privileged::require() {
        return;
    }
    let cpus = affinity::allowed_cpus().unwrap();
    if !(0..2).all(|rest| cpus.iter().any(|cpu| cpu % 2 == rest)) {
        // With a single CPU, one of the queues cannot be used.
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let open = |ns: &Namespace, spec: String, options: OpenOptions| {
        ns.inside(|| port::open(&spec.parse().unwrap(), &options)).unwrap()
    };
    let got = Arc::new(Mutex::new(Vec::new()));
    let collect = |_: &[port::Rx]| {
        let got = Arc::clone(&got);
        move |_: usize, batch: &mut Batch| {
            let number = |bytes: &[u8]| packets::sequence(bytes);
            let seen = batch.iter().map(|frame| (frame.queue(), number(frame.data())));
            got.lock().unwrap().extend(seen);
            Ok(())
        }
    };
    let receiver = open(&far, format!("packet:{}", pair.b.interface), OpenOptions::default());
    let receiving = pipeline::spawn(receiver, collect).unwrap();
    let options = OpenOptions::default().receive(false).transmit(true);
    let port = open(&near, format!("packet:{}?bypass=on", pair.a.interface), options);
    let mut sources = |ThreadShare { index, of }| {
        let numbered = Numbered { next: index.into(), of: of.into(), count: PACKETS };
        Ok(Box::new(numbered) as Box<dyn PacketSource>)
    };
    let sending = sockets::start(port, &mut sources, &SendConfig::default()).unwrap();
    let bindings = sending.ports().next().unwrap().tx_queues.clone();
    assert!(bindings.iter().all(|one| one.way == TxWay::Bypass && one.kept), "{bindings:?}");
    let mut moves = 0;
    for _ in 0..MOVES {
        for (lane, thread) in threads() {
            // Moves the thread away; it returns by itself.
            let home = bindings[lane].cpu.unwrap();
            let away = cpus.iter().find(|cpu| *cpu % 2 != home % 2).unwrap();
            moves += u64::from(affinity::pin_thread(thread, *away).is_ok());
        }
        if sending.wait(Duration::from_millis(8)) {
            break;
        }
    }
    assert!(sending.wait(Duration::from_secs(60)));
    let outcome = sending.join();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.sent(), PACKETS);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while got.lock().unwrap().len() < PACKETS as usize && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    receiving.stop();
    receiving.join().result().unwrap();
    let got = std::mem::take(&mut *got.lock().unwrap());
    assert_eq!(got.len(), PACKETS as usize);
    let strays = got.iter().filter(|(queue, number)| queue.map(u64::from) != number.map(|n| n % 2));
    let (strays, counted) = (strays.count() as u64, outcome.tx.iter().map(|tx| tx.strayed).sum());
    // Each move can misdirect at most one burst, and a note reports it.
    assert!(strays <= counted && counted <= moves * BURST, "{strays}, {counted}, {moves} moves");
    assert!(moves > 0);
    let told = outcome.port.notes.iter().any(|note| note.contains("left by another queue"));
    assert_eq!(told, counted > 0, "{:?}", outcome.port.notes);
}

/// Configures XPS: packets of the first CPU use TX queue 0, those of the second TX queue 1.
fn steer(ns: &Namespace, interface: &str, cpus: [u32; 2]) {
    for (queue, cpu) in cpus.into_iter().enumerate() {
        let mask = format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu as usize / 32));
        let path = format!("/sys/class/net/{interface}/queues/tx-{queue}/xps_cpus");
        ns.run("sh", ["-c", &format!("echo {mask} > {path}")]);
    }
}

#[test]
fn privileged_threads_follow_their_queues_when_somebody_changes_the_cpus() {
    /// More packets than the test sends.
    const MANY: u64 = 3_000_000;
    const PATIENCE: Duration = Duration::from_secs(50);
    if !privileged::require() {
        return;
    }
    let cpus = affinity::allowed_cpus().unwrap();
    let [one, other, ..] = cpus[..] else {
        // A single CPU has no alternative.
        return;
    };
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    steer(&near, &pair.a.interface, [one, other]);
    let open = |ns: &Namespace, spec: String, options: OpenOptions| {
        ns.inside(|| port::open(&spec.parse().unwrap(), &options)).unwrap()
    };
    let got = Arc::new(Mutex::new(Vec::new()));
    let collect = |_: &[port::Rx]| {
        let got = Arc::clone(&got);
        move |_: usize, batch: &mut Batch| {
            let number = |bytes: &[u8]| packets::sequence(bytes);
            let seen = batch.iter().map(|frame| (frame.queue(), number(frame.data())));
            got.lock().unwrap().extend(seen);
            Ok(())
        }
    };
    let receiver = open(&far, format!("packet:{}", pair.b.interface), OpenOptions::default());
    let receiving = pipeline::spawn(receiver, collect).unwrap();
    let options = OpenOptions::default().receive(false).transmit(true);
    let port = open(&near, format!("packet:{}", pair.a.interface), options);
    let mut sources = |ThreadShare { index, of }| {
        let numbered = Numbered { next: index.into(), of: of.into(), count: MANY };
        Ok(Box::new(numbered) as Box<dyn PacketSource>)
    };
    let sending = sockets::start(port, &mut sources, &SendConfig::default()).unwrap();
    let bindings = sending.ports().next().unwrap().tx_queues.clone();
    let kept = |(at, one): (usize, &wirelane::inspect::TxBinding)| {
        one.way == TxWay::Xps && one.kept && one.cpu == Some(cpus[at])
    };
    assert!(bindings.iter().enumerate().all(kept), "{bindings:?}");
    let largest = |queue: u64| {
        let got = got.lock().unwrap();
        let of_queue = got.iter().filter_map(|(_, number)| *number);
        of_queue.filter(|number| number % 2 == queue).max().unwrap_or(0)
    };
    let until = std::time::Instant::now() + PATIENCE;
    let wait_for = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(std::time::Instant::now() < until, "{what}");
            assert!(!sending.wait(Duration::from_millis(20)), "{what}: it has ended");
        }
    };
    wait_for("some packets of each", &|| (0..2).all(|queue| largest(queue) > 1000));
    steer(&near, &pair.a.interface, [other, one]);
    let strayed = || sending.monitor().read().tx.iter().map(|tx| tx.strayed).collect::<Vec<_>>();
    wait_for("each thread has noticed", &|| strayed().iter().all(|strayed| *strayed > 0));
    // Earlier packets may still be in the ring or on their way. Waits until they have left.
    let sent = || sending.monitor().read().tx.iter().map(|tx| tx.packets).collect::<Vec<_>>();
    let then = sent();
    let is_over = || sent().iter().zip(&then).all(|(now, then)| *now > then + 4000);
    wait_for("what was in the rings has left", &is_over);
    let mut noticed = [0; 2];
    noticed.iter_mut().zip(sent()).for_each(|(noticed, sent)| *noticed = 2 * sent + 2);
    let is_later = |queue: usize| largest(queue as u64) > noticed[queue] + 4000;
    wait_for("more packets of each", &|| (0..2).all(is_later));
    let outcome = sending.join();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    while got.lock().unwrap().len() < outcome.sent() as usize {
        assert!(std::time::Instant::now() < until, "not all have come");
        std::thread::sleep(Duration::from_millis(5));
    }
    receiving.stop();
    receiving.join().result().unwrap();
    let got = std::mem::take(&mut *got.lock().unwrap());
    let is_stray = |(queue, number): &&(Option<u16>, Option<u64>)| {
        queue.map(u64::from) != number.map(|number| number % 2)
    };
    let is_late = |(_, number): &&(Option<u16>, Option<u64>)| {
        number.is_some_and(|number| number > noticed[(number % 2) as usize])
    };
    assert_eq!(got.iter().filter(is_late).filter(is_stray).count(), 0);
    let (strays, counted) = (got.iter().filter(is_stray).count() as u64, strayed_of(&outcome));
    assert!(0 < strays && strays <= counted && counted < outcome.sent(), "{strays}, {counted}");
    let told = |what: &str| outcome.port.notes.iter().any(|note| note.contains(what));
    assert!(told("left by another queue"), "{:?}", outcome.port.notes);
    assert!(told("which CPUs send by TX queue 0,1"), "{:?}", outcome.port.notes);
    assert!(told("its thread sends from one of them again"), "{:?}", outcome.port.notes);
}

fn strayed_of(outcome: &wirelane_send::SendOutcome) -> u64 {
    outcome.tx.iter().map(|tx| tx.strayed).sum()
}
