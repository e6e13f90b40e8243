//! The receiving ends of a simulated port without a cable: each creates its packets.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::control::SimSwitch;
use super::schedule::SimSchedule;
use super::stream::{PacketWalk, Stream};
use crate::error::Result;
use crate::frame::Batch;
use crate::pool::Pool;
use crate::port::rx::{Readiness, Receive};
use crate::stats::RxCounters;

/// How many packets of a deselected queue are skipped at once at rate `max`.
const PASSED_BY: u64 = 4096;
/// The shortest sleep at a paced rate, like the interrupt coalescing of a real interface: waking up
/// for single packets would cost more than processing them.
const COALESCE: Duration = Duration::from_micros(500);
/// The longest sleep: masks may change during it.
const NAP: Duration = Duration::from_millis(10);

/// The receiving end of one class and queue.
pub(super) struct SimReceiver {
    walk: PacketWalk,
    schedule: Option<SimSchedule>,
    filler: Box<[u8]>,
    pool: Pool,
    switch: Arc<SimSwitch>,
    counters: Arc<RxCounters>,
    /// Packets have lower numbers than this.
    count: u64,
    /// The snap length, if some packets are longer.
    snaplen: Option<usize>,
    /// Realtime and monotonic time of the start; `None` before it.
    times: Option<(u64, u64)>,
    /// No later packet is older.
    watermark: u64,
    /// The last check found that no more packets will arrive.
    is_over: bool,
}

impl SimReceiver {
    pub(super) fn new(
        stream: &Stream,
        walk: PacketWalk,
        switch: &Arc<SimSwitch>,
        counters: Arc<RxCounters>,
        pool: Pool,
        snaplen: u32,
    ) -> Self {
        Self {
            walk,
            schedule: stream.schedule().cloned(),
            filler: stream.filler().into(),
            pool,
            switch: Arc::clone(switch),
            counters,
            count: stream.count().unwrap_or(u64::MAX),
            snaplen: (snaplen < u32::from(stream.config().longest())).then_some(snaplen as usize),
            times: None,
            watermark: 0,
            is_over: false,
        }
    }

    /// Creates as many packets as room and memory allow, with the current time.
    fn receive_at_once(&mut self, batch: &mut Batch, (epoch, zero): (u64, u64)) -> usize {
        let now = epoch + clock::monotonic_ns().saturating_sub(zero);
        self.watermark = self.watermark.max(now);
        let ready = self.walk.ready(self.count);
        self.is_over = ready == 0 || self.switch.stopped() != u64::MAX;
        if self.is_over {
            return self.idle();
        }
        let (class, queue) = (self.counters.class, self.counters.number);
        if !self.switch.selects(class, queue) {
            self.walk.skip(ready.min(PASSED_BY));
            return self.idle();
        }
        let taken = self.pool.take(batch, usize::try_from(ready).unwrap_or(usize::MAX));
        let mut timestamp = self.watermark;
        let first = batch.len() - taken;
        for frame in &mut batch[first..] {
            self.walk.fill(frame, &self.filler);
            frame.stamp(timestamp, queue, class);
            timestamp += 1;
        }
        self.watermark = timestamp;
        taken
    }

    /// Creates the packets that are due, with their due times.
    fn receive_paced(&mut self, batch: &mut Batch, (epoch, zero): (u64, u64)) -> usize {
        let Some(schedule) = &self.schedule else { return 0 };
        let now = clock::monotonic_ns().saturating_sub(zero);
        let stopped = self.switch.stopped();
        let limit = schedule.count(now.min(stopped)).min(self.count);
        let mut ready = self.walk.ready(limit);
        let (class, queue) = (self.counters.class, self.counters.number);
        if !self.switch.selects(class, queue) {
            self.walk.skip(ready);
            ready = 0;
        }
        // The free frames are the ring of a real card: packets that do not fit were lost.
        let lost = ready.saturating_sub(u64::from(self.pool.free()));
        if lost > 0 {
            self.walk.skip(lost);
            self.counters.ring_full.add(lost);
            ready -= lost;
        }
        let taken = self.pool.take(batch, usize::try_from(ready).unwrap_or(usize::MAX));
        let first = batch.len() - taken;
        for frame in &mut batch[first..] {
            let k = self.walk.fill(frame, &self.filler);
            frame.stamp(epoch.saturating_add(schedule.due(k)), queue, class);
        }
        let next = self.walk.next();
        self.is_over = next >= self.count || stopped <= now && taken as u64 == ready;
        self.watermark = match self.is_over {
            true => u64::MAX,
            false => epoch.saturating_add(schedule.due(next)),
        };
        taken
    }

    /// Publishes the number of free frames; returns 0.
    fn idle(&mut self) -> usize {
        self.pool.take(&mut Batch::new(0), 0);
        if self.is_over {
            self.watermark = u64::MAX;
        }
        0
    }
}

impl Receive for SimReceiver {
    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if self.times.is_none() {
            self.times = self.switch.times();
        }
        let Some(times) = self.times else {
            self.is_over = self.switch.stopped() != u64::MAX;
            return self.idle();
        };
        let taken = match self.schedule {
            None => self.receive_at_once(batch, times),
            Some(_) => self.receive_paced(batch, times),
        };
        if let Some(snaplen) = self.snaplen {
            let first = batch.len() - taken;
            batch[first..].iter_mut().for_each(|frame| frame.truncate(snaplen));
        }
        taken
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.is_over {
            return Ok(Readiness::End);
        }
        let Some((epoch, zero)) = self.times else {
            return Ok(Readiness::After(Duration::from_micros(200)));
        };
        if self.schedule.is_some() {
            let now = epoch + clock::monotonic_ns().saturating_sub(zero);
            let wait = Duration::from_nanos(self.watermark.saturating_sub(now));
            return Ok(if wait.is_zero() {
                Readiness::Now
            } else {
                Readiness::After(wait.clamp(COALESCE, NAP))
            });
        }
        let is_selected = self.switch.selects(self.counters.class, self.counters.number);
        Ok(match is_selected {
            true if self.pool.free() > 0 => Readiness::Now,
            // Only the consumer can free frames.
            true => Readiness::After(Duration::from_micros(20)),
            // A finite stream ends even if it is not selected.
            false if self.count != u64::MAX => Readiness::Now,
            false => Readiness::After(NAP),
        })
    }

    fn watermark(&self) -> u64 {
        self.watermark
    }
}
