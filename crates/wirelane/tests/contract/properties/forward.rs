//! Forwarding: received frames are transmitted again.

use std::time::{Duration, Instant};

use wirelane::Batch;
use wirelane_wire::ethernet;

use crate::bed::Bed;
use crate::session::{PATIENCE, Session, Verified, check, wait_for};
use crate::traffic::{Ledger, mixed};

/// Received frames are sent back through their own queue with swapped addresses.
pub(crate) fn received_frames_go_back_with_their_addresses_swapped(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let mut batch = Batch::new(32);
    for _ in 0..8 {
        for place in 0..session.rx.len() {
            session.inject_all(place, 32, mixed);
            let deadline = Instant::now() + PATIENCE;
            let mut left = 32;
            while left > 0 {
                let rx = &mut session.rx[place];
                rx.receive(&mut batch);
                batch.retain(|frame| check(rx, &mut session.received[place], frame));
                left -= batch.len();
                for frame in batch.iter_mut() {
                    ethernet::swap_addresses(frame.data_mut()).unwrap();
                }
                session.taken[place] += batch.len() as u32;
                let tx = &mut session.tx[place];
                while !batch.is_empty() {
                    tx.transmit(&mut batch);
                    tx.flush().unwrap();
                    assert!(Instant::now() < deadline, "TX queue {} is stuck", tx.queue());
                }
                assert!(Instant::now() < deadline, "no frames: {}", session.books());
                let one = &mut session.rx[place..=place];
                wait_for(one, Duration::from_millis(5));
            }
            session.watch();
        }
    }
    session.finish()
}

/// Frames that one port received are sent through another port of the same kind.
pub(crate) fn received_frames_leave_through_another_port(bed: &mut dyn Bed) -> Verified {
    let mut twin = bed.twin();
    let mut from = Session::start(bed);
    let mut to = Session::start(&mut *twin);
    // The second port sends the frames of the first, with their addresses.
    to.observed = from.received.iter().map(Ledger::like).collect();
    to.take_run_of(&from);
    let mut batch = Batch::new(32);
    for _ in 0..8 {
        for place in 0..from.rx.len() {
            from.inject_all(place, 32, mixed);
            let deadline = Instant::now() + PATIENCE;
            let mut left = 32;
            while left > 0 {
                let rx = &mut from.rx[place];
                rx.receive(&mut batch);
                batch.retain(|frame| check(rx, &mut from.received[place], frame));
                left -= batch.len();
                // The other port may have fewer queues.
                let by = place % to.tx.len();
                to.taken[by] += batch.len() as u32;
                let tx = &mut to.tx[by];
                while !batch.is_empty() {
                    tx.transmit(&mut batch);
                    tx.flush().unwrap();
                    assert!(Instant::now() < deadline, "TX queue {} is stuck", tx.queue());
                }
                assert!(Instant::now() < deadline, "no frames: {}", from.books());
                let one = &mut from.rx[place..=place];
                wait_for(one, Duration::from_millis(5));
            }
            to.watch();
        }
    }
    // Frames of the first port may still be in flight on the second.
    let sent = to.finish();
    from.finish().and(sent)
}
