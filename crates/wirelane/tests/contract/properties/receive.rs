//! Reception: every frame arrives once, intact, in order, on its queue, and with its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::Batch;
use wirelane::internal::clock;
use wirelane::port::Readiness;

use crate::bed::Bed;
use crate::session::{PATIENCE, Session, Verified, check, receive_on, rx_only, wait_for};
use crate::threads;
use crate::traffic::{mixed, short};

/// No frame is received before the start, and every frame after it.
pub(crate) fn nothing_comes_before_the_start(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::open(bed, None, &rx_only());
    for place in 0..session.rx.len() {
        // These frames are sent, but the port need not receive them.
        session.inject(place, 30, short);
    }
    session.injected.fill(0);
    session.calm();
    for _ in 0..10 {
        assert_eq!(session.receive(), 0, "a frame before the start");
        for rx in &mut session.rx {
            assert!(!matches!(rx.readiness().unwrap(), Readiness::End), "the end at the start");
        }
        thread::sleep(Duration::from_millis(1));
    }
    session.port.start().unwrap();
    session.exchange(100, mixed);
    session.finish()
}

/// Frames of every length arrive exactly once, intact, in order and on their queue, and the
/// counters match.
pub(crate) fn every_frame_arrives_once(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    session.exchange(300, mixed);
    // One frame for each queue in turn.
    for _ in 0..20 {
        for place in 0..session.rx.len() {
            session.inject_all(place, 1, mixed);
        }
    }
    session.settle();
    assert_eq!(session.dropped(), 0);
    session.finish()
}

/// A batch receives as many frames as it has room for, and keeps its earlier frames. The next call
/// returns the rest.
pub(crate) fn batches_are_filled_as_far_as_they_go(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    for capacity in [1, 2, 7, 63, 200] {
        let mut batch = Batch::new(capacity);
        for place in 0..session.rx.len() {
            session.inject_all(place, 60, short);
            let deadline = Instant::now() + PATIENCE;
            let mut missing = 60_u32;
            while missing > 0 {
                let rx = &mut session.rx[place];
                assert_eq!(rx.receive(&mut Batch::new(0)), 0, "there is no room");
                // Fill half of the room first, then the rest.
                batch.set_limit(capacity.div_ceil(2));
                let first = rx.receive(&mut batch);
                assert!(first == batch.len() && first <= capacity.div_ceil(2));
                batch.set_limit(capacity);
                let second = rx.receive(&mut batch);
                assert!(first + second == batch.len() && batch.len() <= capacity);
                for frame in batch.iter() {
                    missing -= u32::from(check(rx, &mut session.received[place], frame));
                }
                batch.clear();
                if first == 0 {
                    assert!(Instant::now() < deadline, "no frames: {}", session.books());
                    wait_for(&mut session.rx, Duration::from_millis(20));
                }
            }
        }
    }
    session.finish()
}

/// A frame with a VLAN tag is received with its tag. If the driver removes the tag, a note says
/// that it is lost.
pub(crate) fn a_vlan_tag_stays_or_a_note_says_so(bed: &mut dyn Bed) -> Verified {
    const TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x07];
    let mut session = Session::start(bed);
    let [near, far] = session.bed.promises().macs;
    let says_so = session.port.info().notes.iter().any(|note| note.contains("VLAN tags"));
    let (mut batch, mut seen) = (Batch::new(64), 0);
    for place in 0..session.rx.len() {
        let queue = session.rx[place].queue().unwrap();
        for number in 0..20 {
            let plain = session.tag(queue, number, 60).frame(session.bed.flow(queue), [far, near]);
            let tagged = [&plain[..12], &TAG, &plain[12..]].concat();
            let deadline = Instant::now() + PATIENCE;
            while !session.bed.inject(queue, &tagged) {
                assert!(Instant::now() < deadline, "the medium takes nothing");
                thread::sleep(Duration::from_millis(1));
            }
            // It may arrive on any queue: not every card hashes the headers behind a tag.
            while !session.rx.iter_mut().any(|rx| rx.receive(&mut batch) > 0) {
                assert!(Instant::now() < deadline, "no frame: {}", session.books());
                wait_for(&mut session.rx, Duration::from_millis(20));
            }
            for frame in batch.iter() {
                let is_whole = frame.data() == tagged;
                let is_cut = says_so && frame.data() == plain;
                assert!(
                    is_whole || is_cut,
                    "notes say so: {says_so}; {frame:?} {:02x?}",
                    frame.data()
                );
            }
            seen += batch.len() as u64;
            batch.clear();
        }
    }
    session.assert_nothing_held();
    Verified::of(seen)
}

/// A snap length cuts the bytes but does not change the length on the wire.
pub(crate) fn the_snap_length_cuts(bed: &mut dyn Bed) -> Verified {
    let mut verified = None;
    for snaplen in [60, 128] {
        let options = rx_only().snaplen(snaplen);
        let mut session = Session::open(bed, None, &options);
        assert_eq!(session.port.info().snaplen, snaplen);
        session.port.start().unwrap();
        session.exchange(48, mixed);
        let done = session.finish();
        verified = Some(match verified {
            Some(before) => done.and(before),
            None => done,
        });
    }
    verified.unwrap()
}

/// The timestamp of a frame is between its injection and its reception. No frame is older than the
/// watermark. The watermark advances even if no frames arrive.
pub(crate) fn times_and_watermarks_are_honest(bed: &mut dyn Bed) -> Verified {
    // The medium may stamp frames of a batch a little ahead of the clock, so that their times
    // increase.
    const SLACK: u64 = 1_000_000;
    let mut session = Session::start(bed);
    let lateness = session.port.info().lateness;
    for round in 0..10 {
        for place in 0..session.rx.len() {
            let before = clock::realtime_ns();
            session.inject_all(place, 16, mixed);
            let (mut left, deadline) = (16_u32, Instant::now() + PATIENCE);
            while left > 0 {
                let rx = &mut session.rx[place];
                let floor = rx.watermark();
                let n = rx.receive(&mut session.batch);
                let now = clock::realtime_ns() + SLACK;
                for frame in session.batch.iter() {
                    let time = frame.timestamp();
                    assert!(time >= floor, "{time} is older than promised, {floor}");
                    if check(rx, &mut session.received[place], frame) {
                        assert!((before..=now).contains(&time), "{time} not in {before}..={now}");
                        left -= 1;
                    }
                }
                session.batch.clear();
                if n == 0 {
                    assert!(Instant::now() < deadline, "no frames: {}", session.books());
                    wait_for(&mut session.rx, Duration::from_millis(5));
                }
            }
        }
        if round == 5 {
            let since = clock::realtime_ns();
            let deadline = Instant::now() + PATIENCE;
            while session.rx.iter().any(|rx| rx.watermark() < since) {
                assert!(Instant::now() < deadline, "the watermark stands still ({lateness} ns)");
                assert_eq!(session.receive(), 0);
                wait_for(&mut session.rx, Duration::from_millis(5));
            }
        }
    }
    session.finish()
}

/// A consumer that waits as the port reports receives every frame: a descriptor becomes readable,
/// or a given time suffices.
pub(crate) fn waiting_ends_when_a_frame_comes(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    for _ in 0..5 {
        for place in 0..session.rx.len() {
            session.settle();
            session.inject_all(place, 1, mixed);
            let rx = &mut session.rx[place];
            let deadline = Instant::now() + PATIENCE;
            while receive_on(rx, &mut session.received[place], &mut session.batch) == 0 {
                assert!(Instant::now() < deadline, "a frame does not come");
                match rx.readiness().unwrap() {
                    Readiness::Now => {}
                    Readiness::After(time) => thread::sleep(time),
                    // Ignore the time; this test checks the descriptor.
                    Readiness::Soon(fd, _) | Readiness::Descriptor(fd, _) => {
                        let mut set = [rustix::event::PollFd::from_borrowed_fd(
                            fd,
                            rustix::event::PollFlags::IN,
                        )];
                        let limit = rustix::event::Timespec::try_from(PATIENCE).unwrap();
                        let ready = rustix::event::poll(&mut set, Some(&limit)).unwrap();
                        assert_eq!(ready, 1, "the descriptor does not become readable");
                    }
                    Readiness::End => panic!("the end, though nobody stopped the port"),
                }
            }
        }
    }
    session.finish()
}

/// Each queue is received in a separate thread while another thread injects frames.
pub(crate) fn queues_are_received_on_threads(bed: &mut dyn Bed) -> Verified {
    const COUNT: u32 = 400;
    /// The maximum number of frames of a queue in flight: fewer than any ring holds.
    const AHEAD: u64 = 128;
    let mut session = Session::start(bed);
    let (ends, ledgers) = (std::mem::take(&mut session.rx), std::mem::take(&mut session.received));
    let queues: Vec<u16> = ends.iter().map(|rx| rx.queue().unwrap()).collect();
    let come: Arc<[AtomicU64]> = queues.iter().map(|_| AtomicU64::new(0)).collect();
    let threads: Vec<_> = ends
        .into_iter()
        .zip(ledgers)
        .enumerate()
        .map(|(place, (mut rx, mut ledger))| {
            let come = Arc::clone(&come);
            threads::spawn(move || {
                let mut batch = Batch::new(32);
                let deadline = Instant::now() + PATIENCE;
                while ledger.seen < u64::from(COUNT) {
                    let n = receive_on(&mut rx, &mut ledger, &mut batch);
                    come[place].store(ledger.seen, Ordering::Relaxed);
                    assert!(Instant::now() < deadline, "{:?} is stuck: {ledger:?}", rx.queue());
                    if n == 0 {
                        let one = std::slice::from_mut(&mut rx);
                        wait_for(one, Duration::from_millis(20));
                    }
                }
                (rx, ledger)
            })
        })
        .collect();
    let [near, far] = session.bed.promises().macs;
    let longest = session.longest();
    for number in 0..COUNT {
        for (place, queue) in queues.iter().enumerate() {
            let tag = session.tag(*queue, number, mixed(number, longest));
            let frame = tag.frame(session.bed.flow(*queue), [far, near]);
            let deadline = Instant::now() + PATIENCE;
            // A receiving thread that gets no CPU must not cause losses.
            let is_far = || u64::from(number) > come[place].load(Ordering::Relaxed) + AHEAD;
            while is_far() || !session.bed.inject(*queue, &frame) {
                assert!(Instant::now() < deadline, "the medium takes nothing");
                thread::sleep(Duration::from_micros(100));
            }
        }
        if number % 16 == 15 {
            thread::sleep(Duration::from_micros(200));
        }
    }
    for thread in threads {
        let (rx, ledger) = thread.join().unwrap();
        session.rx.push(rx);
        session.received.push(ledger);
    }
    session.injected.fill(COUNT);
    session.finish()
}
