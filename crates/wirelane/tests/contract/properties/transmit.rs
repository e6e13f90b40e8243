//! Transmission: every accepted frame is sent once and intact, and frames that are not accepted
//! remain in the batch.

use std::thread;
use std::time::{Duration, Instant};

use wirelane::port::Tx;
use wirelane::{Batch, Pool, PoolConfig};

use crate::bed::Bed;
use crate::session::{PATIENCE, Session, Verified, receive_on, rx_only, send, wait_for};
use crate::threads;
use crate::traffic::{mixed, short};

/// Frames of every length are sent exactly once, intact and in order on their queue, and the
/// counters match.
pub(crate) fn every_frame_is_sent_once(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.transmit(200, mixed);
    for _ in 0..10 {
        for place in 0..session.tx.len() {
            session.transmit_on(place, 3, mixed);
        }
    }
    session.watch();
    assert!(session.tx.iter().all(|tx| tx.counters().errors.value() == 0));
    session.finish()
}

/// Frames from a separate pool are also sent, and return to their pool.
pub(crate) fn foreign_frames_are_sent(bed: &mut dyn Bed) -> Verified {
    const COUNT: u32 = 48;
    let mut session = Session::start(bed);
    let config =
        PoolConfig { chunks: 64, chunk_size: chunk(&session), headroom: 128, numa_node: None };
    let mut pool = Pool::new(config).unwrap();
    let [near, far] = session.bed.promises().macs;
    let longest = session.longest();
    for place in 0..session.tx.len() {
        let (queue, mut batch) = (session.tx[place].queue(), Batch::new(64));
        let deadline = Instant::now() + PATIENCE;
        while pool.take(&mut batch, COUNT as usize) < COUNT as usize {
            // Frames of the previous queue have not yet returned.
            batch.clear();
            assert!(Instant::now() < deadline, "foreign frames do not come home");
            session.look();
            session.tx.iter_mut().for_each(|tx| tx.flush().unwrap());
        }
        for (number, frame) in (0..COUNT).zip(batch.iter_mut()) {
            let tag = session.tag(queue, number, mixed(number, longest));
            assert!(frame.fill(&tag.frame(session.bed.flow(queue), [near, far])));
        }
        let tx = &mut session.tx[place];
        while !batch.is_empty() {
            tx.transmit(&mut batch);
            tx.flush().unwrap();
            assert!(Instant::now() < deadline, "TX queue {queue} takes nothing");
        }
        session.taken[place] = COUNT;
        session.watch();
    }
    let verified = session.finish();
    assert_eq!(pool.free(), pool.size(), "foreign frames have not come home");
    verified
}

/// A frame that is too long is counted as an error; the frames before and after it are sent.
pub(crate) fn long_frames_are_errors(bed: &mut dyn Bed) -> Verified {
    let refuses = bed.promises().refuses_longer;
    let mut session = Session::start(bed);
    let [near, far] = session.bed.promises().macs;
    let longest = session.longest();
    // A VLAN tag of four bytes may exceed the maximum length.
    let too_long = longest as u16 + 5;
    let config =
        PoolConfig { chunks: 64, chunk_size: chunk(&session), headroom: 128, numa_node: None };
    let mut pool = Pool::new(config).unwrap();
    for place in 0..session.tx.len() {
        let (queue, mut batch) = (session.tx[place].queue(), Batch::new(64));
        let flow = session.bed.flow(queue);
        let deadline = Instant::now() + PATIENCE;
        while pool.take(&mut batch, 30) < 30 {
            batch.clear();
            assert!(Instant::now() < deadline, "foreign frames do not come home");
        }
        let mut next = 0;
        for (i, frame) in batch.iter_mut().enumerate() {
            let is_long = refuses && i % 3 == 1;
            let length = if is_long { too_long } else { mixed(next, longest) };
            // A long frame gets an unused number, so that the test fails if it is observed.
            let number = if is_long { u32::MAX } else { next };
            assert!(frame.fill(&session.tag(queue, number, length).frame(flow, [near, far])));
            next += u32::from(!is_long);
        }
        session.taken[place] = next;
        let tx = &mut session.tx[place];
        while !batch.is_empty() {
            tx.transmit(&mut batch);
            tx.flush().unwrap();
            assert!(Instant::now() < deadline, "TX queue {queue} takes nothing");
        }
        session.watch();
        let errors = session.tx[place].counters().errors.value();
        assert_eq!(errors, if refuses { 10 } else { 0 }, "errors of TX queue {queue}");
    }
    session.finish()
}

/// When a transmitting end is full, the frames that do not fit remain in the batch, in order. They
/// are sent once there is room again.
pub(crate) fn what_does_not_fit_stays(bed: &mut dyn Bed) -> Verified {
    const MOST: u32 = 20_000;
    let fills = bed.promises().fills;
    let mut session = Session::start(bed);
    if !fills {
        session.transmit(100, mixed);
        return session.finish();
    }
    let [near, far] = session.bed.promises().macs;
    for place in 0..session.tx.len() {
        let queue = session.tx[place].queue();
        let flow = session.bed.flow(queue);
        let config = PoolConfig { chunks: 32_768, chunk_size: 256, headroom: 64, numa_node: None };
        let mut pool = Pool::new(config).unwrap();
        let mut batch = Batch::new(50);
        let mut number = session.taken[place];
        // Without a flush the end becomes full.
        while batch.is_empty() && number < MOST {
            pool.take(&mut batch, 50);
            for frame in batch.iter_mut() {
                let tag = session.tag(queue, number, 60);
                assert!(frame.fill(&tag.frame(flow, [near, far])));
                number += 1;
            }
            let before = batch.len();
            let taken = session.tx[place].transmit(&mut batch);
            assert_eq!(before - taken, batch.len(), "taken and left");
            session.taken[place] += taken as u32;
        }
        assert!(!batch.is_empty(), "{number} frames were taken, and nothing was flushed");
        let first = number - batch.len() as u32;
        for (frame, number) in batch.iter().zip(first..) {
            let tag = session.tag(queue, number, 60);
            assert_eq!(frame.data(), tag.frame(flow, [near, far]), "what stayed");
        }
        assert!(session.tx[place].pending() > 0);
        let deadline = Instant::now() + PATIENCE;
        while !batch.is_empty() {
            session.tx[place].wait(Duration::from_millis(10)).unwrap();
            session.taken[place] += session.tx[place].transmit(&mut batch) as u32;
            session.look();
            assert!(Instant::now() < deadline, "TX queue {queue} stays full");
        }
        session.tx[place].flush().unwrap();
        assert_eq!(session.taken[place], number);
        session.watch_overload();
        session.transmit_on(place, 50, short);
        session.watch();
        drop(batch);
        let deadline = Instant::now() + PATIENCE;
        while pool.free() < pool.size() {
            session.tx[place].flush().unwrap();
            assert!(Instant::now() < deadline, "foreign frames do not come home");
        }
    }
    session.finish()
}

/// An end allocates a limited number of frames with room for the longest packet. Dropped frames can
/// be allocated again, whether this thread or another dropped them.
pub(crate) fn own_frames_run_out_and_come_back(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let longest = session.longest();
    for place in 0..session.tx.len() {
        let tx = &mut session.tx[place];
        let mut frames = Batch::new(1 << 16);
        let mut first = 0;
        for elsewhere in [false, true] {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let before = frames.len();
                let n = tx.allocate(&mut frames, 100);
                assert_eq!(frames.len() - before, n, "the number of frames allocated");
                // In the second round, dropped frames may need some time to return.
                if n == 0 && frames.len() >= first {
                    break;
                }
                tx.flush().unwrap();
                assert!(Instant::now() < deadline, "{} of {first} came back", frames.len());
            }
            assert!((32..1 << 16).contains(&frames.len()), "{} frames in all", frames.len());
            assert!(frames.iter().all(|frame| frame.capacity() >= longest), "too small");
            assert!(frames.iter().all(|frame| frame.headroom() >= 14), "no room for a header");
            first = frames.len();
            // Drop all frames: in this thread, then in another.
            let gone = std::mem::replace(&mut frames, Batch::new(1 << 16));
            if elsewhere {
                thread::spawn(move || drop(gone)).join().unwrap();
            } else {
                drop(gone);
            }
        }
        session.transmit_on(place, 40, mixed);
        session.watch();
    }
    session.finish()
}

/// Each TX queue is used by a separate thread.
pub(crate) fn queues_transmit_on_threads(bed: &mut dyn Bed) -> Verified {
    const COUNT: u32 = 200;
    let mut session = Session::start(bed);
    let senders = spawn_senders(&mut session, COUNT);
    session.taken.fill(COUNT);
    collect(&mut session, senders);
    session.finish()
}

/// The receiving and the transmitting end of each queue run in two threads at the same time.
pub(crate) fn both_ways_on_two_threads(bed: &mut dyn Bed) -> Verified {
    const COUNT: u32 = 200;
    let mut session = Session::open(bed, None, &rx_only());
    session.port.start().unwrap();
    let senders = spawn_senders(&mut session, COUNT);
    session.taken.fill(COUNT);
    let ends = std::mem::take(&mut session.rx);
    let queues: Vec<u16> = ends.iter().map(|rx| rx.queue().unwrap()).collect();
    let ledgers = std::mem::take(&mut session.received);
    let receivers: Vec<_> = ends
        .into_iter()
        .zip(ledgers)
        .map(|(mut rx, mut ledger)| {
            threads::spawn(move || {
                let mut batch = Batch::new(64);
                let deadline = Instant::now() + PATIENCE;
                while ledger.seen < u64::from(COUNT) {
                    assert!(Instant::now() < deadline, "{ledger:?}");
                    if receive_on(&mut rx, &mut ledger, &mut batch) == 0 {
                        let one = std::slice::from_mut(&mut rx);
                        wait_for(one, Duration::from_millis(20));
                    }
                }
                (rx, ledger)
            })
        })
        .collect();
    let ([near, far], longest) = (session.bed.promises().macs, session.longest());
    for number in 0..COUNT {
        for queue in &queues {
            let tag = session.tag(*queue, number, mixed(number, longest));
            let frame = tag.frame(session.bed.flow(*queue), [far, near]);
            let deadline = Instant::now() + PATIENCE;
            while !session.bed.inject(*queue, &frame) {
                assert!(Instant::now() < deadline, "the medium takes nothing");
                thread::sleep(Duration::from_micros(100));
            }
        }
        if number % 16 == 15 {
            session.look();
            thread::sleep(Duration::from_micros(200));
        }
    }
    for receiver in receivers {
        let (rx, ledger) = receiver.join().unwrap();
        session.rx.push(rx);
        session.received.push(ledger);
    }
    session.injected.fill(COUNT);
    collect(&mut session, senders);
    session.finish()
}

/// The chunk size for frames a little longer than the maximum.
fn chunk(session: &Session<'_>) -> u32 {
    (session.longest() as u32 + 256).next_power_of_two()
}

/// Starts one thread per transmitting end, which sends `count` frames of mixed lengths.
fn spawn_senders(session: &mut Session<'_>, count: u32) -> Vec<thread::JoinHandle<Tx>> {
    let ([near, far], longest) = (session.bed.promises().macs, session.longest());
    let ends = std::mem::take(&mut session.tx);
    let mut senders = Vec::new();
    for mut tx in ends {
        let queue = tx.queue();
        let flow = session.bed.flow(queue);
        let tag = session.tag(queue, 0, 0);
        senders.push(thread::spawn(move || {
            threads::stay();
            // Send a few at a time, because no medium holds all of them.
            for first in (0..count).step_by(20) {
                let numbers = first..count.min(first + 20);
                let frame = |number| {
                    let length = mixed(number, longest);
                    crate::traffic::Tag { number, length, ..tag }.frame(flow, [near, far])
                };
                send(&mut tx, numbers.map(frame));
                thread::sleep(Duration::from_micros(300));
            }
            tx
        }));
    }
    senders
}

/// Observes while the threads transmit, then puts their ends back into the session.
#[track_caller]
fn collect(session: &mut Session<'_>, senders: Vec<thread::JoinHandle<Tx>>) {
    while !senders.iter().all(|sender| sender.is_finished()) {
        session.look();
        thread::sleep(Duration::from_micros(200));
    }
    session.tx = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    session.watch();
}
