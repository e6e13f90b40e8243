//! Receiving threads keep complete counts however they end, and event loops are not starved.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use wirelane::halt::Halt;
use wirelane::internal::pipeline::Work;
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::pipeline::{self, Consumer, Outcome, Threads};
use wirelane::port::{self, OpenOptions, Port, Readiness, Receive, Rx, Take};
use wirelane::{Batch, Error, Result};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

/// No test takes as long as this.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(spec: &str) -> Port {
    port::open(&spec.parse().expect("a spec"), &OpenOptions::default()).expect("it opens")
}

fn take_all(spec: &str) -> Port {
    let options = OpenOptions::default()
        .take(Take::AllAndManagement)
        .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE });
    port::open(&spec.parse().expect("a spec"), &options).expect("it opens")
}

/// Counts packets, and calls `end` after `limit` packets.
struct Counter {
    packets: u64,
    limit: u64,
    end: fn() -> Result<()>,
}

impl Consumer for Counter {
    fn consume(&mut self, _: usize, batch: &mut Batch) -> Result<()> {
        self.packets += batch.len() as u64;
        if self.packets < self.limit { Ok(()) } else { (self.end)() }
    }
}

fn counting(limit: u64, end: fn() -> Result<()>) -> Counter {
    Counter { packets: 0, limit, end }
}

fn never(_: &[Rx]) -> Counter {
    counting(u64::MAX, || Ok(()))
}

/// Checks that the consumers received all packets that the queues counted. Returns their number.
#[track_caller]
fn assert_whole(outcome: &Outcome<Counter>) -> u64 {
    for queue in &outcome.queues {
        let dropped = queue.dropped.total();
        assert_eq!(queue.received, dropped.map(|n| n + queue.packets), "{queue:?}");
    }
    let counted: u64 = outcome.queues.iter().map(|queue| queue.packets).sum();
    assert_eq!(counted, outcome.consumers.iter().map(|one| one.packets).sum::<u64>());
    counted
}

#[test]
fn threads_end_by_themselves_with_their_ports() {
    let running = pipeline::spawn(open("sim:3?count=30000&tx=1&other=5"), never).unwrap();
    assert!(running.wait(Some(PATIENCE)));
    let outcome = running.join();
    assert_eq!((outcome.consumers.len(), outcome.errors.len()), (3, 0));
    assert_eq!(assert_whole(&outcome), 30_000);
}

#[test]
fn all_threads_together_receive_exactly_their_quota() {
    for packets in [0, 1, 1000, 29_999, 30_000] {
        // A queue without packets holds nothing that another one waits for.
        let port = open("sim:3?count=30000&flows=2");
        let running = Threads::default().packets(Some(packets)).spawn(port, never).unwrap();
        assert!(running.wait(Some(PATIENCE)));
        assert_eq!(assert_whole(&running.join()), packets);
    }
}

#[test]
fn threads_that_are_stopped_have_received_what_was_there() {
    let running = pipeline::spawn(open("sim:2?rate=1Mpps"), never).unwrap();
    assert!(!running.wait(Some(Duration::from_millis(100))));
    running.stop();
    assert!(running.wait(Some(PATIENCE)));
    let outcome = running.join();
    assert!(assert_whole(&outcome) > 1000 && outcome.errors.is_empty());
}

#[test]
fn a_halt_ends_who_sleeps_at_once() {
    let halt = Halt::default();
    // At one packet per second the threads sleep.
    let threads = Threads::default().until(&halt.below());
    let running = threads.spawn(open("sim:2?rate=1"), never);
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let asker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        halt.ask();
        Instant::now()
    });
    let outcome = running.join();
    let asked = asker.join().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5) && outcome.errors.is_empty());
    assert_whole(&outcome);
}

#[test]
fn an_error_of_one_thread_stops_the_others_and_is_told() {
    let fail = || Err(Error::failed("consumer", "full"));
    let mut limits = [5000, u64::MAX].into_iter();
    let make = |_: &[Rx]| counting(limits.next().unwrap(), fail);
    let outcome = pipeline::spawn(open("sim:2?rate=max"), make).unwrap().join();
    assert_whole(&outcome);
    assert_eq!(outcome.result().map(|_| ()).unwrap_err().to_string(), "consumer: full");
}

#[test]
fn a_panic_of_one_thread_stops_the_others_and_is_an_error() {
    let mut limits = [5000, u64::MAX].into_iter();
    let make = |_: &[Rx]| counting(limits.next().unwrap(), || panic!("on purpose"));
    let outcome = pipeline::spawn(open("sim:2?rate=max"), make).unwrap().join();
    assert_eq!((outcome.consumers.len(), outcome.errors.len()), (1, 1));
    // The packets that the thread received are still counted.
    assert_eq!(outcome.queues.len(), 2);
    assert!(outcome.queues.iter().any(|queue| queue.packets >= 5000));
}

/// A receiving end whose link fails after a number of packets.
struct Unplugged(Box<dyn Receive>, u64, Arc<AtomicU64>);

impl Receive for Unplugged {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if self.1 == 0 {
            return 0;
        }
        let n = self.0.receive(batch);
        self.1 = self.1.saturating_sub(n as u64);
        self.2.fetch_add(n as u64, Ordering::Relaxed);
        n
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        match self.1 {
            0 => {
                self.0.readiness()?;
                Err(Error::failed("link", "is down"))
            }
            _ => self.0.readiness(),
        }
    }

    fn watermark(&self) -> u64 {
        self.0.watermark()
    }
}

#[test]
fn counts_stay_when_the_link_goes_down() {
    let mut port = open("sim:2?rate=max");
    let seen = Arc::new(AtomicU64::new(0));
    let work = port.rx().unwrap().into_iter().map(|rx| {
        let seen = Arc::clone(&seen);
        let rx = vec![rx.wrap(|inner, _| Unplugged(inner, 10_000, seen))];
        Work { port: 0, consumer: never(&rx), rx }
    });
    let work: Vec<_> = work.collect();
    let outcome = Threads::default().start(vec![port], work).unwrap().join();
    let counted: u64 = outcome.queues.iter().map(|queue| queue.packets).sum();
    assert_eq!(counted, seen.load(Ordering::Relaxed));
    assert_eq!(counted, outcome.consumers.iter().map(|one| one.packets).sum::<u64>());
    assert_eq!(outcome.errors.len(), 1, "the same for both queues, told once");
}

/// A receiving end that always busy-polls and never has packets.
struct Awake;

impl Receive for Awake {
    fn receive(&mut self, _: &mut Batch) -> usize {
        0
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        Ok(Readiness::Now)
    }

    fn watermark(&self) -> u64 {
        0
    }
}

#[test]
fn an_event_loop_with_two_ports_sees_all_that_happens() {
    for awake in [false, true] {
        let (mut one, mut two) = (open("sim:2?rate=200kpps&count=20000"), open("sim:1?count=5000"));
        let mut rx = one.rx().unwrap();
        rx.extend(two.rx().unwrap());
        if awake {
            let idle = open("sim:1").rx().unwrap().remove(0);
            rx.push(idle.wrap(|_, _| Awake));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        one.start().unwrap();
        two.start().unwrap();
        let (address, bell) = (socket.local_addr().unwrap(), event.try_clone().unwrap());
        let sender = thread::spawn(move || {
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            for number in 0..10_u8 {
                thread::sleep(Duration::from_millis(5));
                from.send_to(&[number], address).unwrap();
                rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
            }
        });
        let (mut packets, mut datagrams, mut rings, mut ticks) = (0, 0, 0, 0);
        let mut batch = Batch::default();
        let tick = Duration::from_millis(10);
        let (begun, mut next) = (Instant::now(), Instant::now() + tick);
        while packets < 25_000 || datagrams < 10 || rings < 10 || ticks < 5 {
            assert!(begun.elapsed() < PATIENCE, "{packets} {datagrams} {rings} {ticks}");
            let before = packets;
            for rx in &mut rx {
                packets += rx.receive(&mut batch);
                batch.clear();
            }
            if packets > before {
                continue;
            }
            let own = [socket.as_fd(), event.as_fd()];
            // Leave out the ends once all packets have arrived: an ended one would make each call
            // return at once.
            let ends = if packets == 25_000 && !awake { &mut [][..] } else { &mut rx[..] };
            let wake = pipeline::wait_any(ends, &own, Some(next)).unwrap();
            if wake.is_ready(0) {
                while socket.recv(&mut [0; 8]).is_ok() {
                    datagrams += 1;
                }
            }
            if wake.is_ready(1) {
                let mut count = [0; 8];
                rustix::io::read(&event, &mut count).unwrap();
                rings += u64::from_ne_bytes(count);
            }
            if wake.deadline {
                ticks += 1;
                next += tick;
            }
        }
        sender.join().unwrap();
        assert_eq!((packets, datagrams, rings), (25_000, 10, 10), "awake: {awake}");
    }
}

#[test]
fn privileged_an_event_loop_keeps_its_time_while_an_xdp_port_idles() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let mut port = far.inside(|| take_all(&format!("xdp:{}", pair.b.interface)));
    let mut rx = port.rx().unwrap();
    port.start().unwrap();
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
    let every = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let every = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every).unwrap();
    let (mut batch, mut ticks, mut wakes, mut packets) = (Batch::default(), 0, 0, 0);
    let begun = Instant::now();
    while ticks < 100 {
        assert!(begun.elapsed() < PATIENCE, "{ticks} ticks");
        let wake = pipeline::wait_any(&mut rx, &[timer.as_fd()], None).unwrap();
        assert!(!wake.ended && !wake.deadline);
        wakes += 1;
        if wake.is_ready(0) {
            let mut count = [0; 8];
            rustix::io::read(&timer, &mut count).unwrap();
            ticks += u64::from_ne_bytes(count);
        }
        packets += rx.iter_mut().map(|rx| rx.receive(&mut batch)).sum::<usize>();
        batch.clear();
    }
    // The port busy-polls for half a second after the start, then sleeps.
    assert_eq!(packets, 0);
    assert!(begun.elapsed() >= Duration::from_millis(990), "{wakes} wakes");
    let before = begun.elapsed();
    for _ in 0..20 {
        assert!(pipeline::wait_any(&mut rx, &[timer.as_fd()], None).unwrap().is_ready(0));
        rustix::io::read(&timer, &mut [0; 8]).unwrap();
    }
    assert!(begun.elapsed() - before < PATIENCE);
    // A packet wakes it up.
    let socket = near.inside(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
    socket.send_to(&[1; 99], (pair.b.address, 9)).unwrap();
    while packets == 0 {
        assert!(begun.elapsed() < PATIENCE, "the packet does not come");
        pipeline::wait_any(&mut rx, &[], Some(Instant::now() + PATIENCE)).unwrap();
        packets += rx.iter_mut().map(|rx| rx.receive(&mut batch)).sum::<usize>();
    }
    assert_eq!(packets, 1);
}

#[test]
fn privileged_counts_stay_when_the_interface_goes() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet", "xdp"] {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, 2, 1500);
        let port = far.inside(|| take_all(&format!("{backend}:{}", pair.b.interface)));
        let running = pipeline::spawn(port, never).unwrap();
        let socket = near.inside(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
        for _ in 0..100 {
            socket.send_to(&[1; 99], (pair.b.address, 9)).unwrap();
        }
        let begun = Instant::now();
        let packets = || running.queues().iter().map(|queue| queue.packets).sum::<u64>();
        while packets() < 100 {
            assert!(begun.elapsed() < PATIENCE, "{backend}: {} packets", packets());
            thread::sleep(Duration::from_millis(5));
        }
        // The port continues while its link is down.
        near.run("ip", ["link", "set", &pair.a.interface, "down"]);
        assert!(!running.wait(Some(Duration::from_millis(300))), "{backend}");
        near.run("ip", ["link", "del", &pair.a.interface]);
        assert!(running.wait(Some(PATIENCE)), "{backend}: nobody has noticed");
        let outcome = running.join();
        assert_eq!(assert_whole(&outcome), 100, "{backend}");
        assert_eq!(outcome.errors.len(), 1, "{backend}: {:?}", outcome.errors);
    }
}

#[test]
fn what_cannot_be_waited_for_is_told() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let many = vec![socket.as_fd(); 65];
    assert!(pipeline::wait_any::<Rx>(&mut [], &many, None).is_err());
    // More descriptors than are polled without an allocation.
    let wake = pipeline::wait_any::<Rx>(&mut [], &many[..64], Some(Instant::now())).unwrap();
    assert!(wake.deadline && wake.ended && !wake.packets && !(0..70).any(|at| wake.is_ready(at)));
    // There is nothing to wait for.
    assert!(pipeline::wait_any::<Rx>(&mut [], &[], None).unwrap().ended);
}

/// A consumer whose rounds block while the test holds the lock.
struct Stuck(Arc<Mutex<()>>);

impl Consumer for Stuck {
    fn consume(&mut self, _: usize, _: &mut Batch) -> Result<()> {
        Ok(())
    }

    fn round(&mut self, _: &[Rx], _: bool) -> Result<()> {
        drop(self.0.lock());
        Ok(())
    }
}

#[test]
fn rounds_go_on_without_packets_unless_a_thread_is_stuck() {
    // Nearly without packets.
    let port = open("sim:2?rate=1pps");
    let gate = Arc::new(Mutex::new(()));
    let mut first = true;
    let running = Threads::default().spawn(port, |_| {
        let own = if std::mem::take(&mut first) { Arc::clone(&gate) } else { Arc::default() };
        Stuck(own)
    });
    let running = running.expect("it starts");
    let handle = running.handle();
    let pause = || thread::sleep(Duration::from_millis(1500));
    let moved = |before: &[Option<u64>]| -> Vec<bool> {
        handle.rounds().iter().zip(before).map(|(now, before)| now > before).collect()
    };
    let before = handle.rounds();
    pause();
    assert_eq!(moved(&before), [true, true]);
    let held = gate.lock();
    pause();
    let before = handle.rounds();
    pause();
    assert_eq!(moved(&before), [false, true]);
    drop(held);
    running.stop();
    running.join();
    assert_eq!(handle.rounds(), [None, None]);
}
