//! Held frames: they remain intact, and reception continues or recovers.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::{Batch, Frame};

use crate::bed::{Bed, Held};
use crate::session::{PATIENCE, Session, Verified, check, wait_for};
use crate::threads;
use crate::traffic::{long, mixed, short};

/// Frames that a consumer holds across many receives are not changed, are counted as held, and do
/// not block later frames.
pub(crate) fn held_frames_stay_whole(bed: &mut dyn Bed) -> Verified {
    let (hold, unit) = (bed.promises().hold, bed.promises().held);
    let mut session = Session::start(bed);
    let mut held: Vec<Frame> = Vec::new();
    for place in 0..session.rx.len() {
        let want = held.len() + hold as usize;
        session.inject_all(place, hold, mixed);
        keep(&mut session, place, &mut held, want);
    }
    let copies: Vec<Vec<u8>> = held.iter().map(|frame| frame.data().to_vec()).collect();
    let counts = session.frames();
    match unit {
        Held::Frames => assert_eq!(counts.held(), held.len() as u64, "{counts:?}"),
        Held::Blocks => {
            assert!((1..=held.len() as u64).contains(&counts.held()), "{counts:?}");
        }
    }
    session.exchange(400, mixed);
    for (frame, copy) in held.iter().zip(&copies) {
        assert_eq!(frame.data(), copy, "a frame that was held has changed");
    }
    // The owner may write to a frame; this must not change other frames.
    for frame in held.iter_mut().step_by(2) {
        frame.data_mut().fill(0xee);
        let capacity = frame.capacity();
        assert!(frame.set_len(capacity));
        frame.data_mut().fill(0xdd);
    }
    for (frame, copy) in held.iter().zip(&copies).skip(1).step_by(2) {
        assert_eq!(frame.data(), copy, "writing on a frame has changed another");
    }
    drop(held);
    session.exchange(100, mixed);
    session.finish()
}

/// A consumer that pauses until the rings are full loses frames, and they are counted. Afterwards
/// all queues receive without loss.
pub(crate) fn reception_recovers_after_a_pause(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.exchange(20, mixed);
    for _ in 0..2 {
        for place in 0..session.rx.len() {
            // More frames than any ring of the beds holds, unless the medium refuses some first.
            for _ in 0..24 {
                session.inject(place, 64, long);
                thread::sleep(Duration::from_micros(100));
            }
        }
        session.settle_overload();
        session.exchange(100, mixed);
    }
    session.finish()
}

/// A consumer that holds all frames until none arrive and then releases them receives again without
/// loss.
pub(crate) fn reception_recovers_when_all_was_held(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    for _ in 0..2 {
        for place in 0..session.rx.len() {
            let mut held: Vec<Frame> = Vec::new();
            let (mut still, mut bursts) = (0, 0);
            let deadline = Instant::now() + PATIENCE;
            // The first frame may arrive late.
            while (still < 10 || held.is_empty()) && bursts < 120 && Instant::now() < deadline {
                bursts += u32::from(!held.is_empty());
                session.inject(place, 64, long);
                let before = held.len();
                take(&mut session, place, &mut held);
                still = if held.len() == before { still + 1 } else { 0 };
                // Gives the timer of a ring time to deliver waiting frames.
                thread::sleep(Duration::from_micros(300));
                // Runs the maintenance that a port does when a thread waits for it.
                session.rx[place].readiness().unwrap();
            }
            assert!(!held.is_empty(), "no frames: {}", session.books());
            assert!(session.frames().held() > 0);
            drop(held);
            session.settle_overload();
            // Each call lets the port reuse some of the returned frames.
            for _ in 0..32 {
                session.receive();
                session.rx[place].readiness().unwrap();
            }
        }
        session.exchange(100, short);
    }
    session.finish()
}

/// Frames are received in one thread and dropped in another, out of order, while reception
/// continues.
pub(crate) fn frames_come_home_from_other_threads(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let (give, take_over) = mpsc::channel::<Frame>();
    let dropper = threads::spawn(move || {
        let mut kept: Vec<Frame> = Vec::new();
        let mut dropped = 0_u64;
        for frame in take_over {
            kept.push(frame);
            if kept.len() > 24 {
                // Drop one from the middle, so that the frames return in a different order.
                drop(kept.swap_remove(dropped as usize % 24));
                dropped += 1;
            }
        }
        dropped + kept.len() as u64
    });
    let mut handed = 0;
    for _ in 0..12 {
        for place in 0..session.rx.len() {
            session.inject_all(place, 32, mixed);
            let mut frames = Vec::new();
            keep(&mut session, place, &mut frames, 32);
            handed += frames.len() as u64;
            frames.into_iter().for_each(|frame| give.send(frame).unwrap());
        }
    }
    drop(give);
    assert_eq!(dropper.join().unwrap(), handed);
    session.exchange(64, mixed);
    session.finish()
}

/// Frames remain intact after their port is closed, and can be dropped in any thread.
pub(crate) fn frames_outlive_their_port(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let mut held: Vec<Frame> = Vec::new();
    for place in 0..session.rx.len() {
        let want = held.len() + 16;
        session.inject_all(place, 16, mixed);
        keep(&mut session, place, &mut held, want);
    }
    let copies: Vec<Vec<u8>> = held.iter().map(|frame| frame.data().to_vec()).collect();
    session.control.stop();
    session.receive_to_the_end();
    let held_now = session.frames().held();
    assert!(held_now > 0 && held_now <= held.len() as u64);
    drop(session);
    // Another port replaces the first and allocates memory.
    let mut session = Session::start(bed);
    session.exchange(100, mixed);
    let reader = thread::spawn(move || {
        assert!(held.iter().map(Frame::data).eq(copies.iter().map(Vec::as_slice)));
    });
    reader.join().unwrap();
    session.finish()
}

/// Receives on one queue and holds the frames until there are `want` of them.
#[track_caller]
fn keep(session: &mut Session<'_>, place: usize, held: &mut Vec<Frame>, want: usize) {
    let deadline = Instant::now() + PATIENCE;
    while held.len() < want {
        if take(session, place, held) > 0 {
            continue;
        }
        assert!(Instant::now() < deadline, "no frames: {}", session.books());
        let wait = Duration::from_millis(5);
        wait_for(&mut session.rx[place..=place], wait);
    }
    assert_eq!(held.len(), want, "more than was sent");
}

/// Receives the available frames of one queue, and holds them.
#[track_caller]
fn take(session: &mut Session<'_>, place: usize, held: &mut Vec<Frame>) -> usize {
    let mut batch = Batch::new(64);
    let rx = &mut session.rx[place];
    let mut total = 0;
    while rx.receive(&mut batch) > 0 {
        batch.retain(|frame| check(rx, &mut session.received[place], frame));
        let n = batch.len();
        total += n;
        held.extend(batch.drain(n));
    }
    total
}
