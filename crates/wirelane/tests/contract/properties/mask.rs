//! Masks: only the selected queues and classes are received.

use std::thread;
use std::time::{Duration, Instant};

use wirelane::{Class, ErrorKind, QueueMask, QueueSet};

use crate::bed::{Bed, Classes};
use crate::session::{PATIENCE, Session, Verified, options, rx_only, wait_for};
use crate::traffic::{mixed, short};

/// A port that was opened with some queues selected receives only from those. The others are
/// received after a mask selects them.
pub(crate) fn unselected_queues_are_invisible(bed: &mut dyn Bed) -> Verified {
    let queues = usize::from(bed.promises().queues);
    let selected = rx(&(0..queues).filter(|queue| queue % 2 == 1).collect::<Vec<_>>());
    let mut session = Session::open(bed, None, &options(selected.clone()));
    assert_eq!(session.control.mask(), selected);
    session.port.start().unwrap();
    for place in 0..queues {
        if place % 2 == 1 {
            session.exchange_on(place, 50, mixed);
        } else {
            assert_invisible(&mut session, place);
        }
    }
    session.control.set_mask(rx_only().mask).unwrap();
    assert_eq!(session.control.mask(), rx_only().mask);
    session.exchange(50, mixed);
    session.control.set_mask(QueueMask { tx: QueueSet::NONE, other: false, ..rx(&[]) }).unwrap();
    for place in 0..queues {
        assert_invisible(&mut session, place);
    }
    session.finish()
}

/// While masks change, queues that remain selected lose no frame, and unselected queues deliver
/// none.
pub(crate) fn masks_change_under_traffic(bed: &mut dyn Bed) -> Verified {
    let queues = usize::from(bed.promises().queues);
    let mut session = Session::start(bed);
    for round in 0..24_usize {
        // Each round excludes the next queue. With only one queue, every other round excludes it.
        let out = if queues == 1 && round % 2 == 0 { usize::MAX } else { round % queues };
        let all: Vec<usize> = (0..queues).filter(|queue| *queue != out).collect();
        for &place in &all {
            session.control.set_mask(rx(&all)).unwrap();
            // During this traffic the mask changes, but this queue remains selected.
            session.inject_all(place, 8, mixed);
            let more = if round % 3 == 0 { rx_only().mask } else { rx(&[place]) };
            session.control.set_mask(more).unwrap();
            session.inject_all(place, 8, mixed);
            session.settle();
        }
        if out != usize::MAX {
            session.control.set_mask(rx(&all)).unwrap();
            hide(&mut session, out, 8);
        }
        assert_eq!(session.dropped(), 0, "{}", session.books());
    }
    quiet(&mut session);
    session.control.set_mask(rx_only().mask).unwrap();
    session.exchange(20, mixed);
    session.finish()
}

/// Selecting a queue that does not exist is a usage error that names the queue, when opening and
/// later. It changes nothing.
pub(crate) fn queues_that_are_not_there_are_refused(bed: &mut dyn Bed) -> Verified {
    let queues = usize::from(bed.promises().queues);
    for beyond in [queues, queues + 1, 63, 4095] {
        let error = bed.open(None, &options(rx(&[0, beyond]))).err();
        let error = error.unwrap_or_else(|| panic!("opened with queue {beyond}"));
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.to_string().contains(&format!("queue {beyond}")), "{error}");
    }
    let error = bed.open(Some(&queues.to_string()), &rx_only()).err();
    let error = error.unwrap_or_else(|| panic!("opened @{queues}"));
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    let mut session = Session::start(bed);
    let before = session.control.mask();
    session.inject_all(0, 20, mixed);
    let error = session.control.set_mask(rx(&[queues])).expect_err("a queue too many");
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(error.to_string().contains(&format!("queue {queues}")), "{error}");
    assert_eq!(session.control.mask(), before);
    session.inject_all(0, 20, mixed);
    session.settle();
    session.exchange(20, mixed);
    session.finish()
}

/// Packets of the classes TX and OTHER are received if the port can see them. Otherwise a mask that
/// selects them is a usage error that names an alternative.
pub(crate) fn the_other_classes_are_seen_or_refused(bed: &mut dyn Bed) -> Verified {
    let classes = bed.promises().classes;
    let tx = QueueMask { tx: [0].into_iter().collect(), ..rx_only().mask };
    // Only this class: a mask that selects everything is accepted with the available classes.
    let other = QueueMask { other: true, ..rx(&[]) };
    match classes {
        Classes::Seen => the_host_is_seen(bed),
        Classes::Refused => {
            let mut session = Session::start(bed);
            for mask in [tx.clone(), other.clone()] {
                session.inject_all(0, 10, mixed);
                let error = session.control.set_mask(mask).expect_err("it cannot see them");
                assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
                let words = format!("{error} {}", error.next_step().unwrap_or_default());
                assert!(words.contains("packet:"), "{words}");
                assert_eq!(session.control.mask(), rx_only().mask);
                session.settle();
            }
            let verified = session.finish();
            for mask in [tx, other] {
                let error = bed.open(None, &options(mask)).err().expect("it cannot see them");
                assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
            }
            verified
        }
        Classes::Absent => {
            let mut session = Session::start(bed);
            assert!(session.others.is_empty());
            for mask in [tx, QueueMask { other: true, ..rx_only().mask }] {
                session.control.set_mask(mask.clone()).unwrap();
                assert_eq!(session.control.mask(), mask);
                session.exchange(20, mixed);
            }
            session.finish()
        }
    }
}

/// Packets that the host sends are received in class TX on their queue, if the mask selects it.
fn the_host_is_seen(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let [near, far] = session.bed.promises().macs;
    let mut seen = 0;
    for selected in [true, false, true] {
        let tx = if selected { QueueSet::All } else { QueueSet::NONE };
        session.control.set_mask(QueueMask { tx, ..rx_only().mask }).unwrap();
        session.exchange(10, short);
        let frame = session.tag(u16::from(u8::MAX), 0, 333).frame(0, [near, far]);
        let queue = session.bed.host_sends(&frame);
        let patience = if selected { PATIENCE } else { Duration::from_millis(100) };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            for rx in &mut session.others {
                rx.receive(&mut session.batch);
                rx.readiness().unwrap();
            }
            if !session.batch.is_empty() && selected {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(session.batch.len(), usize::from(selected), "frames of the host");
        for frame_seen in session.batch.iter() {
            assert_eq!(frame_seen.class(), Class::Tx);
            // If the bed does not know the queue, the port may.
            assert!(queue.is_none() || frame_seen.queue() == queue, "{:?}", frame_seen.queue());
            assert_eq!(frame_seen.data(), frame);
            seen += 1;
        }
        session.batch.clear();
        // The frame must not be mistaken for one that the port sent.
        session.bed.observe();
    }
    assert_eq!(seen, 2);
    session.finish()
}

/// A port can be opened for one of its queues and does not use the others, or it refuses.
pub(crate) fn a_part_of_the_queues_can_be_opened(bed: &mut dyn Bed) -> Verified {
    let last = bed.promises().queues - 1;
    let name = last.to_string();
    if !bed.promises().parts {
        let error = bed.open(Some(&name), &rx_only()).err().expect("not a part of them");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let mut session = Session::start(bed);
        session.exchange(50, mixed);
        return session.finish();
    }
    let mut session = Session::open(bed, Some(&name), &rx_only());
    assert_eq!(session.port.info().queues, [last]);
    assert!(session.rx.iter().map(|rx| rx.queue()).eq([Some(last)]));
    assert!(session.tx.iter().map(|tx| tx.queue()).eq([last]));
    session.port.start().unwrap();
    session.exchange(50, mixed);
    for queue in 0..last {
        let tag = session.tag(queue, 0, 60);
        let [near, far] = session.bed.promises().macs;
        session.bed.inject(queue, &tag.frame(session.bed.flow(queue), [far, near]));
    }
    quiet(&mut session);
    if last > 0 {
        let mask = rx(&[usize::from(last) - 1]);
        let error = session.control.set_mask(mask).expect_err("a queue that is not open");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    session.exchange(50, mixed);
    session.transmit(50, mixed);
    session.finish()
}

/// A mask of RX queues.
fn rx(queues: &[usize]) -> QueueMask {
    let rx = queues.iter().copied().collect();
    QueueMask { enabled: true, rx, tx: QueueSet::NONE, other: false }
}

/// Checks that frames for an unselected queue are not received.
#[track_caller]
fn assert_invisible(session: &mut Session<'_>, place: usize) {
    hide(session, place, 20);
    quiet(session);
}

/// Injects frames for a queue that must not be received. The ledgers do not expect them, so that a
/// received frame is an error.
#[track_caller]
fn hide(session: &mut Session<'_>, place: usize, count: u32) {
    let injected = session.injected.clone();
    let seen = session.received.iter().map(|ledger| ledger.seen).sum::<u64>();
    session.inject(place, count, short);
    session.injected = injected;
    session.calm();
    session.receive();
    let now = session.received.iter().map(|ledger| ledger.seen).sum::<u64>();
    assert_eq!(now, seen, "frames of a queue that is not selected");
}

/// Checks that no frame is received.
#[track_caller]
fn quiet(session: &mut Session<'_>) {
    for _ in 0..8 {
        assert_eq!(session.receive(), 0, "a frame that is not selected: {}", session.books());
        wait_for(&mut session.rx, Duration::from_millis(1));
    }
}
