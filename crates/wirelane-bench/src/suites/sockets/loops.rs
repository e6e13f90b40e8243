//! The measured loops: rxdrop, txpush and l2fwd of the 2018 AF_XDP zero-copy paper, over any port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use wirelane_os::clock::{self, CpuTime};
use wirelane_wire::ethernet;

use crate::task::Task;
use wirelane::error::Result;
use wirelane::frame::Batch;
use wirelane::internal::threads::Crew;
use wirelane::pipeline;
use wirelane::port::{Rx, Tx};

/// An idle thread checks this often whether the phase has changed.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);
/// How long to wait at a time for room in a full TX ring.
const ROOM: Duration = Duration::from_millis(1);
/// How long to wait at the end for frames in flight.
const FAREWELL: Duration = Duration::from_millis(200);

/// The phase of all threads.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::suites) enum LoopPhase {
    /// Work, and do not count.
    Warm = 0,
    /// Work and count.
    Count = 1,
    /// Continue to work: packets in flight belong to the accounting.
    Drain = 2,
    /// End.
    End = 3,
}

/// The phase, for all threads.
#[derive(Debug)]
pub(in crate::suites) struct Baton {
    phase: AtomicU8,
    /// Threads that have taken their last reading of the counters.
    done: AtomicUsize,
}

impl Baton {
    pub(in crate::suites) fn new() -> Self {
        Self { phase: AtomicU8::new(LoopPhase::Warm as u8), done: AtomicUsize::new(0) }
    }

    pub(in crate::suites) fn set(&self, phase: LoopPhase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// How many threads have finished counting. A sleeping thread needs up to [`PATIENCE`] to see
    /// the end of the phase: if no packets arrived in that time, its rate would be too low.
    pub(in crate::suites) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    #[inline]
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    /// Notes that a thread has read its counters at the start of `phase`.
    fn read(&self, phase: u8) {
        if phase == LoopPhase::Drain as u8 {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The counts of one thread in [`LoopPhase::Count`].
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::suites) struct LoopCounts {
    /// The time between the thread's own first and last reading of the clock.
    pub(in crate::suites) elapsed_ns: u64,
    pub(in crate::suites) received: u64,
    pub(in crate::suites) sent: u64,
    pub(in crate::suites) cpu: CpuTime,
    pub(in crate::suites) system_calls: u64,
    /// Calls that moved 1, 2 to 3, 4 to 7, … frames.
    pub(in crate::suites) batches: [u64; SIZES],
}

/// Powers of two up to [`Batch::DEFAULT`].
pub(in crate::suites) const SIZES: usize = Batch::DEFAULT.ilog2() as usize + 1;

/// One queue of the port, on its thread.
pub(in crate::suites) struct Station {
    pub(in crate::suites) rx: Option<Rx>,
    pub(in crate::suites) tx: Option<Tx>,
    /// The frames to send, in turn.
    pub(in crate::suites) frames: Arc<Vec<Vec<u8>>>,
}

impl Station {
    /// Works until [`LoopPhase::End`]. Returns the counts of [`LoopPhase::Count`].
    ///
    /// # Errors
    /// The port failed.
    pub(in crate::suites) fn run(&mut self, kind: Task, baton: &Baton) -> Result<LoopCounts> {
        let mut batch = Batch::default();
        let mut batches = [0; SIZES];
        let (mut before, mut tally) = (None, LoopCounts::default());
        let (mut phase, mut turn) = (LoopPhase::Warm as u8, 0);
        loop {
            let now = baton.phase();
            if now != phase {
                phase = now;
                let reading = self.reading(batches);
                if now == LoopPhase::Count as u8 {
                    before = Some(reading);
                } else if let Some(before) = before.take() {
                    tally = reading.since(&before);
                }
                baton.read(now);
                let is_sender = self.rx.is_none();
                if now == LoopPhase::End as u8 || is_sender && now == LoopPhase::Drain as u8 {
                    break;
                }
            }
            let moved = match kind {
                Task::Rxdrop => self.drop_some(&mut batch)?,
                Task::Txpush => self.push_some(&mut batch, &mut turn)?,
                Task::L2fwd => self.forward_some(&mut batch)?,
            };
            if let Some(count) = moved.checked_ilog2().and_then(|i| batches.get_mut(i as usize)) {
                *count += 1;
            }
        }
        batch.clear();
        if let Some(tx) = &mut self.tx {
            tx.drain(FAREWELL)?;
        }
        Ok(tally)
    }

    /// Receives and frees packets; sleeps if there are none.
    #[inline]
    fn drop_some(&mut self, batch: &mut Batch) -> Result<usize> {
        let Some(rx) = &mut self.rx else { return Ok(0) };
        let n = receive(rx, batch);
        if n == 0 {
            wait(rx, PATIENCE)?;
        }
        batch.clear();
        Ok(n)
    }

    /// Fills frames of the port's memory and sends them; waits if there is no room.
    #[inline]
    fn push_some(&mut self, batch: &mut Batch, turn: &mut usize) -> Result<usize> {
        let Some(tx) = &mut self.tx else { return Ok(0) };
        let kept = batch.len();
        let room = batch.room();
        tx.allocate(batch, room);
        for frame in batch.iter_mut().skip(kept) {
            *turn = if *turn + 1 < self.frames.len() { *turn + 1 } else { 0 };
            // If a port's frames are too short, it counts them as errors when they are sent.
            let _ = self.frames.get(*turn).is_some_and(|bytes| frame.fill(bytes));
        }
        let n = tx.transmit(batch);
        tx.flush()?;
        if n == 0 {
            tx.wait(ROOM)?;
        }
        Ok(n)
    }

    /// Receives, swaps the addresses, and sends through the TX queue of this station. A second
    /// attempt follows a flush. Packets that still find no room are dropped and counted.
    #[inline]
    fn forward_some(&mut self, batch: &mut Batch) -> Result<usize> {
        let (Some(rx), Some(tx)) = (&mut self.rx, &mut self.tx) else { return Ok(0) };
        let n = receive(rx, batch);
        if n == 0 {
            if tx.pending() > 0 {
                tx.flush()?;
            }
            let patience = if tx.pending() > 0 { ROOM } else { PATIENCE };
            wait(rx, patience)?;
            return Ok(0);
        }
        for frame in batch.iter_mut() {
            // A packet too short for two addresses is sent unchanged.
            let _ = ethernet::swap_addresses(frame.data_mut());
        }
        tx.transmit(batch);
        tx.flush()?;
        if !batch.is_empty() {
            tx.transmit(batch);
            rx.count_unforwarded(batch.len() as u64);
            batch.clear();
        }
        Ok(n)
    }

    fn reading(&self, batches: [u64; SIZES]) -> LoopCounts {
        let (rx, tx) = (self.rx.as_ref().map(Rx::counters), self.tx.as_ref().map(Tx::counters));
        let calls = rx.map_or(0, |rx| rx.system_calls.value());
        LoopCounts {
            elapsed_ns: clock::monotonic_ns(),
            received: rx.map_or(0, |rx| rx.packets.value()),
            sent: tx.map_or(0, |tx| tx.packets.value()),
            cpu: clock::thread_cpu(),
            system_calls: calls + tx.map_or(0, |tx| tx.system_calls.value()),
            batches,
        }
    }
}

/// Waits for all threads of a crew and returns their results.
pub(in crate::suites) fn join<T: Send + 'static>(crew: &mut Crew<Result<T>>) -> Result<Vec<T>> {
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    crew.join(&mut results, &mut errors);
    errors.into_iter().next().map_or(Ok(()), Err)?;
    results.into_iter().collect()
}

/// Sleeps until packets arrive, at most for `timeout`.
fn wait(rx: &mut Rx, timeout: Duration) -> Result<()> {
    let deadline = Some(Instant::now() + timeout);
    pipeline::wait_any(std::slice::from_mut(rx), &[], deadline).map(|_| ())
}

/// Receives. With the feature `slowed`, it also takes a lock for every packet.
#[inline]
fn receive(rx: &mut Rx, batch: &mut Batch) -> usize {
    let received = rx.receive(batch);
    #[cfg(feature = "slowed")]
    for _ in 0..received {
        static PACKETS: std::sync::Mutex<usize> = std::sync::Mutex::new(0);
        *PACKETS.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
    }
    received
}

impl LoopCounts {
    fn since(&self, before: &Self) -> Self {
        let mut batches = self.batches;
        for (now, before) in batches.iter_mut().zip(before.batches) {
            *now -= before;
        }
        Self {
            elapsed_ns: self.elapsed_ns - before.elapsed_ns,
            received: self.received - before.received,
            sent: self.sent - before.sent,
            cpu: self.cpu.since(before.cpu),
            system_calls: self.system_calls - before.system_calls,
            batches,
        }
    }
}
