//! A session: a port under test from opening to closing, with traffic in both directions and
//! counters that must add up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::internal::stats::RxCounters;
use wirelane::pipeline::{self, Wake};
use wirelane::port::{Control, FrameCounts, OpenOptions, Port, Rx, Take, Tx};
use wirelane::stats::Dropped;
use wirelane::{Batch, Class, Frame, QueueMask, QueueSet};

use crate::bed::Bed;
use crate::traffic::{Ledger, Tag};

/// After this time without progress the test fails. On a busy machine a thread may wait for
/// seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum number of frames in flight: far fewer than any ring holds.
const BURST: u32 = 64;

/// Returns the length of a frame from its number and the maximum length.
pub(crate) type Lengths = fn(u32, usize) -> u16;

/// The number of frames that were checked byte by byte, as a proof of traffic.
pub(crate) struct Verified(u64);

impl Verified {
    /// A number of frames that the property itself has checked.
    pub(crate) fn of(frames: u64) -> Self {
        Self(frames)
    }

    pub(crate) fn frames(&self) -> u64 {
        self.0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// A port on a bed, its ends, and records of the frames that passed them.
pub(crate) struct Session<'a> {
    pub(crate) bed: &'a mut dyn Bed,
    pub(crate) port: Port,
    pub(crate) control: Arc<dyn Control>,
    /// The receiving ends of class RX by queue, and their ledgers.
    pub(crate) rx: Vec<Rx>,
    pub(crate) received: Vec<Ledger>,
    /// The receiving ends of the other classes.
    pub(crate) others: Vec<Rx>,
    pub(crate) tx: Vec<Tx>,
    pub(crate) observed: Vec<Ledger>,
    /// The numbers of frames injected, and of frames accepted by the transmitting ends, by queue.
    pub(crate) injected: Vec<u32>,
    pub(crate) taken: Vec<u32>,
    /// The loss counters of the medium when the session began.
    lost_before: u64,
    lost_behind: u64,
    pub(crate) batch: Batch,
    run: u8,
}

/// Options to receive from all RX queues and no other class.
pub(crate) fn rx_only() -> OpenOptions {
    options(QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: false })
}

/// Options to receive the selected packets, to take them from the host's stack, and to transmit.
pub(crate) fn options(mask: QueueMask) -> OpenOptions {
    OpenOptions::default().mask(mask).transmit(true).take(Take::AllAndManagement)
}

impl<'a> Session<'a> {
    /// Opens a port for all RX queues and starts it.
    #[track_caller]
    pub(crate) fn start(bed: &'a mut dyn Bed) -> Self {
        let mut session = Self::open(bed, None, &rx_only());
        session.port.start().unwrap();
        session
    }

    /// Opens a port.
    #[track_caller]
    pub(crate) fn open(bed: &'a mut dyn Bed, queues: Option<&str>, options: &OpenOptions) -> Self {
        static RUNS: AtomicU8 = AtomicU8::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mut port = bed.open(queues, options).unwrap_or_else(|error| panic!("{error}"));
        let (rx, others): (Vec<_>, Vec<_>) =
            port.rx().unwrap().into_iter().partition(|rx| rx.class() == Class::Rx);
        let tx = port.tx().unwrap();
        let [near, far] = bed.promises().macs;
        let received = rx.iter().map(|rx| {
            let queue = rx.queue().unwrap();
            Ledger::new(run, queue, bed.flow(queue), [far, near], options.snaplen)
        });
        let received = received.collect();
        let observed = tx.iter().map(|tx| {
            let queue = tx.queue();
            Ledger::new(run, queue, bed.flow(queue), [near, far], u32::MAX)
        });
        let observed = observed.collect();
        let control = port.control();
        let _before = bed.observe();
        Self {
            lost_before: bed.lost_before(),
            lost_behind: bed.lost_behind(),
            port,
            control,
            injected: vec![0; rx.len()],
            taken: vec![0; tx.len()],
            rx,
            received,
            others,
            tx,
            observed,
            batch: Batch::new(64),
            run,
            bed,
        }
    }

    /// The maximum length of a frame in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.bed.promises().longest
    }

    /// Injects the next frame for the end at `place`. Returns false if the medium does not accept
    /// it.
    pub(crate) fn inject_one(&mut self, place: usize, lengths: Lengths) -> bool {
        let queue = self.rx[place].queue().unwrap();
        let number = self.injected[place];
        let tag = self.tag(queue, number, lengths(number, self.longest()));
        let [near, far] = self.bed.promises().macs;
        let taken = self.bed.inject(queue, &tag.frame(self.bed.flow(queue), [far, near]));
        self.injected[place] += u32::from(taken);
        taken
    }

    /// Injects up to `count` frames for the end at `place`, as long as the medium accepts them.
    /// Returns the number accepted.
    pub(crate) fn inject(&mut self, place: usize, count: u32, lengths: Lengths) -> u32 {
        (0..count).take_while(|_| self.inject_one(place, lengths)).count() as u32
    }

    /// Injects `count` frames for the end at `place`, and retries until the medium has accepted
    /// all. The medium must have room for them.
    #[track_caller]
    pub(crate) fn inject_all(&mut self, place: usize, count: u32, lengths: Lengths) {
        let deadline = Instant::now() + PATIENCE;
        let mut left = count;
        while left > 0 {
            // Other senders on the same CPU may use all the room for a moment.
            left -= self.inject(place, left, lengths);
            if left > 0 {
                assert!(Instant::now() < deadline, "the medium takes nothing: {}", self.books());
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Injects `count` frames on every queue in bursts, and receives them. None may be missing.
    #[track_caller]
    pub(crate) fn exchange(&mut self, count: u32, lengths: Lengths) {
        let before = self.dropped() + self.lost();
        for place in 0..self.rx.len() {
            self.exchange_on(place, count, lengths);
        }
        let lost = self.dropped() + self.lost() - before;
        assert_eq!(lost, 0, "frames were lost at ease: {}", self.books());
    }

    /// As [`Session::exchange`], but on one queue.
    #[track_caller]
    pub(crate) fn exchange_on(&mut self, place: usize, count: u32, lengths: Lengths) {
        let mut left = count;
        let mut deadline = Instant::now() + PATIENCE;
        while left > 0 {
            let taken = self.inject(place, left.min(BURST), lengths);
            left -= taken;
            self.settle();
            if taken > 0 {
                deadline = Instant::now() + PATIENCE;
            }
            assert!(Instant::now() < deadline, "the medium takes nothing: {}", self.books());
        }
    }

    /// Receives the frames that are available now on all queues, and returns their number.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> usize {
        let mut total = 0;
        for (rx, ledger) in self.rx.iter_mut().zip(&mut self.received) {
            total += receive_on(rx, ledger, &mut self.batch);
        }
        total
    }

    /// Receives until every injected frame has arrived or is counted as lost.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        let mut deadline = Instant::now() + PATIENCE;
        loop {
            if self.receive() > 0 {
                deadline = Instant::now() + PATIENCE;
            }
            if self.is_settled() {
                return;
            }
            assert!(Instant::now() < deadline, "frames do not come: {}", self.books());
            wait_for(&mut self.rx, Duration::from_millis(20));
        }
    }

    /// As [`Session::settle`], for use after an overload. If the medium does not count its losses,
    /// the missing frames are considered lost.
    #[track_caller]
    pub(crate) fn settle_overload(&mut self) {
        if self.bed.promises().counts_losses {
            return self.settle();
        }
        // Ports read the kernel's counters only from time to time.
        let calm = self.bed.promises().calm.max(Duration::from_millis(400));
        let (mut since, mut counted) = (Instant::now(), 0);
        while since.elapsed() < calm {
            let now = self.dropped() + self.lost();
            if self.receive() > 0 || now != counted {
                (since, counted) = (Instant::now(), now);
            }
            wait_for(&mut self.rx, Duration::from_millis(20));
        }
        let injected: u64 = self.injected.iter().map(|n| u64::from(*n)).sum();
        let seen: u64 = self.received.iter().map(|ledger| ledger.seen).sum();
        let missing = injected.saturating_sub(seen + self.dropped() + self.lost());
        self.lost_before = self.lost_before.wrapping_sub(missing);
        self.settle();
    }

    /// As [`Session::watch`], for use after more frames were sent at once than the medium may
    /// accept.
    #[track_caller]
    pub(crate) fn watch_overload(&mut self) {
        if self.bed.promises().counts_losses {
            return self.watch();
        }
        let calm = self.bed.promises().calm;
        let seen = |session: &Self| session.observed.iter().map(|ledger| ledger.seen).sum::<u64>();
        let (mut since, mut before) = (Instant::now(), seen(self));
        while since.elapsed() < calm && !self.look() {
            self.tx.iter_mut().for_each(|tx| tx.flush().unwrap());
            thread::sleep(Duration::from_millis(1));
            if seen(self) != before {
                (since, before) = (Instant::now(), seen(self));
            }
        }
        let taken: u64 = self.taken.iter().map(|n| u64::from(*n)).sum();
        let lost = self.bed.lost_behind().wrapping_sub(self.lost_behind);
        let missing = taken.saturating_sub(before + lost);
        self.lost_behind = self.lost_behind.wrapping_sub(missing);
        self.watch();
    }

    /// Whether every injected frame is accounted for.
    #[track_caller]
    fn is_settled(&mut self) -> bool {
        let injected: u64 = self.injected.iter().map(|n| u64::from(*n)).sum();
        let seen: u64 = self.received.iter().map(|ledger| ledger.seen).sum();
        assert!(seen <= injected, "more than was sent: {}", self.books());
        // The counters are read only if a frame is missing: reading them needs system calls.
        seen == injected || seen + self.dropped() + self.lost() >= injected
    }

    /// The number of frames that the port counts as dropped on the queues of class RX.
    pub(crate) fn dropped(&self) -> u64 {
        let unknown = |rx: &Rx| rx.counters().snapshot(0).dropped.kernel.is_none();
        assert!(
            self.bed.promises().drops_known || self.rx.iter().all(unknown),
            "the kernel's drops"
        );
        self.rx.iter().map(|rx| known_dropped(rx.counters())).sum()
    }

    /// The number of injected frames of this session that the medium lost before the port.
    pub(crate) fn lost(&mut self) -> u64 {
        self.bed.lost_before().wrapping_sub(self.lost_before)
    }

    /// Transmits `count` frames from the memory of the port on every TX queue, and waits until the
    /// bed has observed them.
    #[track_caller]
    pub(crate) fn transmit(&mut self, count: u32, lengths: Lengths) {
        for place in 0..self.tx.len() {
            let mut left = count;
            while left > 0 {
                let n = left.min(BURST);
                self.transmit_on(place, n, lengths);
                self.watch();
                left -= n;
            }
        }
    }

    /// Transmits `count` frames on the end at `place`, and retries until all are accepted.
    #[track_caller]
    pub(crate) fn transmit_on(&mut self, place: usize, count: u32, lengths: Lengths) {
        let longest = self.longest();
        let [near, far] = self.bed.promises().macs;
        let (queue, first) = (self.tx[place].queue(), self.taken[place]);
        let flow = self.bed.flow(queue);
        let frame = |run, number| {
            let length = lengths(number, longest);
            Tag { run, queue: queue as u8, length, number }.frame(flow, [near, far])
        };
        send(&mut self.tx[place], (first..first + count).map(|number| frame(self.run, number)));
        self.taken[place] += count;
    }

    /// Observes until all accepted frames have been seen or are counted as lost.
    #[track_caller]
    pub(crate) fn watch(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.look() {
            assert!(Instant::now() < deadline, "frames were not sent: {}", self.books());
            self.tx.iter_mut().for_each(|tx| tx.flush().unwrap());
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Observes once. Returns whether all accepted frames have been seen or are counted as lost.
    #[track_caller]
    pub(crate) fn look(&mut self) -> bool {
        for observed in self.bed.observe() {
            // If the medium does not report the queue, the queue in the tag is used.
            let tag = Tag::of(&observed.bytes).filter(|tag| tag.run == self.run);
            let queue = tag.map(|tag| u16::from(tag.queue));
            let ledger = self.observed.iter_mut().find(|ledger| Some(ledger.queue()) == queue);
            if let Some(ledger) = ledger {
                ledger.check_on(observed.path, observed.queue, &observed.bytes);
            }
        }
        let taken: u64 = self.taken.iter().map(|n| u64::from(*n)).sum();
        let seen: u64 = self.observed.iter().map(|ledger| ledger.seen).sum();
        assert!(seen <= taken, "more than was sent: {}", self.books());
        seen == taken || seen + self.bed.lost_behind().wrapping_sub(self.lost_behind) >= taken
    }

    /// Makes this session transmit the frames of another session.
    pub(crate) fn take_run_of(&mut self, other: &Session<'_>) {
        self.run = other.run;
    }

    /// Waits until all injected frames have arrived at the port, or at the host.
    pub(crate) fn calm(&mut self) {
        self.bed.settle();
        thread::sleep(self.bed.promises().calm);
    }

    /// The tag of a frame of this session.
    pub(crate) fn tag(&self, queue: u16, number: u32, length: u16) -> Tag {
        Tag { run: self.run, queue: queue as u8, length, number }
    }

    /// The numbers of all frames by place.
    pub(crate) fn frames(&mut self) -> FrameCounts {
        self.bed.frames(&self.port)
    }

    /// Checks that every frame is counted in at most one place, and that the test holds none.
    #[track_caller]
    pub(crate) fn assert_nothing_held(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Transmitted frames are in flight until the port reclaims them.
            self.tx.iter_mut().for_each(|tx| tx.flush().unwrap());
            let counts = self.frames();
            let known = counts.free + counts.fill + counts.rx + counts.tx + counts.completion;
            assert!(counts.pool > 0 && known <= counts.pool, "counted twice: {counts:?}");
            if counts.held() == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "frames have leaked: {counts:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the port, receives to the end, and checks the counters.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Verified {
        self.control.stop();
        self.receive_to_the_end();
        self.watch();
        self.close()
    }

    /// Receives until every end has ended.
    #[track_caller]
    pub(crate) fn receive_to_the_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut others = std::mem::take(&mut self.others);
        let mut silent = Ledger::new(self.run, u16::MAX, 0, [[0; 6]; 2], u32::MAX);
        loop {
            self.receive();
            for rx in &mut others {
                // An assertion of this ledger fails for frames of this session.
                receive_on(rx, &mut silent, &mut self.batch);
            }
            let wait = Duration::from_millis(5);
            let ended = wait_for(&mut self.rx, wait).ended;
            if ended && wait_for(&mut others, wait).ended {
                break;
            }
            assert!(Instant::now() < deadline, "no end: {}", self.books());
        }
        assert_eq!(self.receive(), 0, "a frame after the end");
        self.others = others;
    }

    /// Checks, after all ends have ended, that the counters match the observed frames and that no
    /// frame has leaked.
    #[track_caller]
    pub(crate) fn close(mut self) -> Verified {
        self.assert_nothing_held();
        let mut frames = 0;
        for (rx, ledger) in self.rx.iter().zip(&self.received) {
            let (queue, counters) = (rx.queue().unwrap(), rx.counters());
            let packets = ledger.seen + ledger.late;
            assert_eq!(counters.packets.value(), packets, "RX queue {queue}: packets");
            if ledger.late == 0 {
                assert_eq!(counters.bytes.value(), ledger.bytes, "RX queue {queue}: bytes");
            }
            let stats = counters.snapshot(0);
            let (filtered, dropped) = (stats.filtered, stats.dropped.total());
            let sum = filtered.zip(dropped).map(|(a, b)| a + b + stats.packets);
            assert_eq!(stats.received, sum, "received = filtered + delivered + dropped");
            frames += ledger.seen;
        }
        for (tx, ledger) in self.tx.iter().zip(&self.observed) {
            let (queue, counters) = (tx.queue(), tx.counters());
            assert_eq!(tx.pending(), 0, "TX queue {queue}: pending");
            let taken = self.taken[self.place_of(queue)];
            assert_eq!(counters.packets.value(), u64::from(taken), "TX queue {queue}: packets");
            if ledger.seen == u64::from(taken) {
                assert_eq!(counters.bytes.value(), ledger.bytes, "TX queue {queue}: bytes");
            }
            frames += ledger.seen;
        }
        Verified(frames)
    }

    fn place_of(&self, queue: u16) -> usize {
        self.tx.iter().position(|tx| tx.queue() == queue).unwrap()
    }

    /// The counts of all frames as text, for messages.
    pub(crate) fn books(&mut self) -> String {
        let seen = |ledgers: &[Ledger]| ledgers.iter().map(|l| l.seen).collect::<Vec<_>>();
        let dropped: Vec<_> = self.rx.iter().map(|rx| known_dropped(rx.counters())).collect();
        let errors: Vec<_> = self.tx.iter().map(|tx| tx.counters().errors.value()).collect();
        format!(
            "injected {:?}, received {:?}, dropped {dropped:?}, lost before the port {}; \
             taken {:?}, errors {errors:?}, seen {:?}, lost behind the port {}; {:?}",
            self.injected,
            seen(&self.received),
            self.bed.lost_before().wrapping_sub(self.lost_before),
            self.taken,
            seen(&self.observed),
            self.bed.lost_behind().wrapping_sub(self.lost_behind),
            self.bed.frames(&self.port),
        )
    }
}

/// Receives and checks the frames that an end has now, returns them to the port, and returns their
/// number.
#[track_caller]
pub(crate) fn receive_on(rx: &mut Rx, ledger: &mut Ledger, batch: &mut Batch) -> usize {
    let mut total = 0;
    loop {
        let n = rx.receive(batch);
        assert_eq!(n, batch.len(), "the number of frames received");
        for frame in batch.iter() {
            check(rx, ledger, frame);
        }
        total += n;
        batch.clear();
        if n == 0 {
            return total;
        }
    }
}

/// Waits until one of `rx` may have frames, at most `timeout`.
#[track_caller]
pub(crate) fn wait_for(rx: &mut [Rx], timeout: Duration) -> Wake {
    pipeline::wait_any(rx, &[], Some(Instant::now() + timeout)).unwrap()
}

/// Checks a frame from `rx`. Returns true if it belongs to this session.
#[track_caller]
pub(crate) fn check(rx: &Rx, ledger: &mut Ledger, frame: &Frame) -> bool {
    assert_eq!(frame.class(), rx.class(), "the class of a frame is that of its end");
    assert!(frame.queue() == rx.queue(), "so is the queue");
    let ours = ledger.check(rx.queue(), frame.data());
    if ours {
        let tag = Tag::of(frame.data()).unwrap();
        assert_eq!(frame.original_len(), u32::from(tag.length), "the length on the wire");
    }
    ours
}

/// The number of frames that an end counts as dropped, for all reasons. The number of the kernel's
/// drops may be unknown and then counts as 0.
fn known_dropped(counters: &RxCounters) -> u64 {
    let Dropped { kernel, ring_full, writer, bad_header, tx_full, .. } =
        counters.snapshot(0).dropped;
    let user =
        [ring_full, writer, bad_header, tx_full].map(|lost| lost.expect("what we drop is known"));
    user.iter().sum::<u64>() + kernel.unwrap_or(0)
}

/// Transmits frames from the memory of an end, and retries until all are accepted.
///
/// # Panics
/// When it makes no progress.
#[track_caller]
pub(crate) fn send(tx: &mut Tx, frames: impl Iterator<Item = Vec<u8>>) {
    let mut batch = Batch::new(32);
    let mut frames = frames.peekable();
    let mut deadline = Instant::now() + PATIENCE;
    while frames.peek().is_some() || !batch.is_empty() {
        if batch.is_empty() {
            let n = batch.room();
            tx.allocate(&mut batch, n);
            let mut filled = 0;
            for (frame, bytes) in batch.iter_mut().zip(frames.by_ref()) {
                assert!(frame.fill(&bytes), "{} bytes in {frame:?}", bytes.len());
                filled += 1;
            }
            batch.truncate(filled);
        }
        if tx.transmit(&mut batch) > 0 {
            deadline = Instant::now() + PATIENCE;
        } else {
            tx.wait(Duration::from_millis(10)).unwrap();
        }
        tx.flush().unwrap();
        assert!(Instant::now() < deadline, "TX queue {} is stuck", tx.queue());
    }
}
