//! Start, stop, end, and the next port on the same interface.

use std::thread;
use std::time::{Duration, Instant};

use wirelane::port::Readiness;

use crate::bed::Bed;
use crate::session::{PATIENCE, Session, Verified, receive_on, rx_only};
use crate::threads;
use crate::traffic::{mixed, short};

/// Frames that are in the rings when the port is stopped are still received. Then every end reports
/// its end, and keeps reporting it. Later frames are not received.
pub(crate) fn what_is_in_the_rings_is_received_after_the_stop(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.exchange(20, mixed);
    for place in 0..session.rx.len() {
        session.inject_all(place, 48, mixed);
    }
    session.calm();
    session.control.stop();
    session.control.stop();
    let injected = session.injected.clone();
    for place in 0..session.rx.len() {
        session.inject(place, 16, short);
    }
    session.injected = injected;
    session.settle();
    session.receive_to_the_end();
    for rx in session.rx.iter_mut().chain(&mut session.others) {
        for _ in 0..3 {
            assert_eq!(rx.receive(&mut session.batch), 0, "a frame after the end");
            assert!(matches!(rx.readiness().unwrap(), Readiness::End), "the end stays");
        }
    }
    assert_eq!(session.dropped(), 0);
    session.close()
}

/// A stop from another thread during traffic ends every queue, and the counters add up.
pub(crate) fn a_stop_in_the_middle_of_traffic_ends(bed: &mut dyn Bed) -> Verified {
    let mut verified: Option<Verified> = None;
    for delay in [2, 5] {
        let mut session = Session::start(bed);
        session.exchange(10, short);
        let control = std::sync::Arc::clone(&session.control);
        let stopper = threads::spawn(move || {
            thread::sleep(Duration::from_millis(delay));
            control.stop();
        });
        while !stopper.is_finished() {
            for place in 0..session.rx.len() {
                session.inject(place, 4, mixed);
            }
            session.receive();
        }
        stopper.join().unwrap();
        // From here on frames may be missing: the port does not receive frames after the stop.
        session.receive_to_the_end();
        let done = session.close();
        verified = Some(match verified {
            Some(before) => before.and(done),
            None => done,
        });
    }
    verified.unwrap()
}

/// Dropping a port stops it: its receiving ends deliver the frames in the rings, then report the
/// end.
pub(crate) fn a_dropped_port_is_stopped(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.exchange(20, mixed);
    for place in 0..session.rx.len() {
        session.inject_all(place, 48, mixed);
    }
    session.calm();
    let Session { port, mut rx, mut received, injected, mut batch, .. } = session;
    drop(port);
    let deadline = Instant::now() + PATIENCE;
    for (rx, ledger) in rx.iter_mut().zip(&mut received) {
        loop {
            if receive_on(rx, ledger, &mut batch) > 0 {
                continue;
            }
            match rx.readiness().unwrap() {
                Readiness::End => break,
                _ => thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < deadline, "no end of a port that was dropped");
        }
    }
    let seen: Vec<_> = received.iter().map(|ledger| ledger.seen).collect();
    assert!(seen.iter().copied().eq(injected.iter().map(|n| u64::from(*n))), "{seen:?}");
    Verified::of(seen.iter().sum())
}

/// A port that is stopped or dropped without being started ends, and does not block the next port.
pub(crate) fn a_port_that_was_never_started_ends(bed: &mut dyn Bed) -> Verified {
    drop(Session::open(bed, None, &rx_only()));
    let mut session = Session::open(bed, None, &rx_only());
    session.inject(0, 5, short);
    session.injected.fill(0);
    session.control.stop();
    session.receive_to_the_end();
    session.assert_nothing_held();
    drop(session);
    let mut session = Session::start(bed);
    session.exchange(50, mixed);
    session.finish()
}

/// Ports can be opened, used and closed in quick succession while frames arrive.
pub(crate) fn ports_open_again_at_once(bed: &mut dyn Bed) -> Verified {
    let mut verified: Option<Verified> = None;
    for round in 0..5 {
        let mut session = Session::start(bed);
        session.exchange(20, mixed);
        session.transmit(10, short);
        for place in 0..session.rx.len() {
            // The test does not wait for these frames.
            session.inject(place, 8, short);
        }
        if round % 2 == 0 {
            drop(session);
            continue;
        }
        let done = session.finish();
        verified = Some(match verified {
            Some(before) => before.and(done),
            None => done,
        });
    }
    verified.unwrap()
}

/// A port that is dropped during traffic, before or after its ends and their frames, leaves nothing
/// behind.
pub(crate) fn a_port_dropped_in_the_middle_of_traffic_leaves_nothing(
    bed: &mut dyn Bed,
) -> Verified {
    for order in 0..3 {
        let mut session = Session::start(bed);
        session.exchange(20, mixed);
        for place in 0..session.rx.len() {
            session.inject(place, 32, mixed);
        }
        let mut batch = wirelane::Batch::new(16);
        for rx in &mut session.rx {
            rx.receive(&mut batch);
        }
        for (tx, place) in session.tx.iter_mut().zip(0..) {
            // These frames are allocated and never sent.
            let mut own = wirelane::Batch::new(4);
            assert_eq!(tx.allocate(&mut own, 4), 4, "end {place}");
        }
        let Session { port, rx, others, tx, control, .. } = session;
        match order {
            0 => {
                drop((rx, others, tx));
                drop(batch);
                drop(port);
                control.stop();
            }
            1 => {
                drop(port);
                drop(batch);
                drop((rx, others, tx));
            }
            _ => {
                drop(port);
                drop((rx, others, tx, control));
                // Drop them in a thread that never used the port.
                thread::spawn(move || drop(batch)).join().unwrap();
            }
        }
    }
    let mut session = Session::start(bed);
    session.exchange(50, mixed);
    session.transmit(20, mixed);
    session.finish()
}
