//! Frames that stay with the consumer: they stay whole, and reception goes on or recovers.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::{Batch, Frame};

use crate::bed::{Bed, Held};
use crate::session::{PATIENCE, Session, Verified, check, wait_for};
use crate::threads;
use crate::traffic::{long, mixed, short};

/// Frames that a consumer keeps across many receives are not touched, are counted as held, and do
/// not stop those that follow.
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
    // A frame is the owner's to write on, which hurts no neighbour.
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

/// A consumer that pauses until everything is full loses frames, which are counted; afterwards all
/// queues go on without a loss.
pub(crate) fn reception_recovers_after_a_pause(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.exchange(20, mixed);
    for _ in 0..2 {
        for place in 0..session.rx.len() {
            // More than any ring of the beds holds, unless the medium pushes back before.
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

/// A consumer that keeps everything until nothing comes any more, and then gives it back, receives
/// again without a loss.
pub(crate) fn reception_recovers_when_all_was_held(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    for _ in 0..2 {
        for place in 0..session.rx.len() {
            let mut held: Vec<Frame> = Vec::new();
            let (mut still, mut bursts) = (0, 0);
            let deadline = Instant::now() + PATIENCE;
            // The first one may take its time.
            while (still < 10 || held.is_empty()) && bursts < 120 && Instant::now() < deadline {
                bursts += u32::from(!held.is_empty());
                session.inject(place, 64, long);
                let before = held.len();
                take(&mut session, place, &mut held);
                still = if held.len() == before { still + 1 } else { 0 };
                // What waits for the timer of a ring comes meanwhile.
                thread::sleep(Duration::from_micros(300));
                // The housekeeping of a port that is waited for.
                session.rx[place].readiness().unwrap();
            }
            assert!(!held.is_empty(), "no frames: {}", session.books());
            assert!(session.frames().held() > 0);
            drop(held);
            session.settle_overload();
            // A port that is asked takes what came back, a portion at a time.
            for _ in 0..32 {
                session.receive();
                session.rx[place].readiness().unwrap();
            }
        }
        session.exchange(100, short);
    }
    session.finish()
}

/// Frames are received on one thread and dropped on others, out of order, while reception goes on.
pub(crate) fn frames_come_home_from_other_threads(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let (give, take_over) = mpsc::channel::<Frame>();
    let dropper = threads::spawn(move || {
        let mut kept: Vec<Frame> = Vec::new();
        let mut dropped = 0_u64;
        for frame in take_over {
            kept.push(frame);
            if kept.len() > 24 {
                // From the middle, so that they come back in another order than they went.
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

/// Frames stay whole when their port is long gone, and can be dropped anywhere.
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
    // Another port takes the place of the first, and memory is asked for anew.
    let mut session = Session::start(bed);
    session.exchange(100, mixed);
    let reader = thread::spawn(move || {
        assert!(held.iter().map(Frame::data).eq(copies.iter().map(Vec::as_slice)));
    });
    reader.join().unwrap();
    session.finish()
}

/// Receives on one queue and keeps the frames until there are `want` of them.
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

/// Receives what there is on one queue, and keeps it.
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
