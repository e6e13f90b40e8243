//! Two simulated ports joined by a cable: each receives the frames that the other transmits.
//!
//! ```text
//!   a: Tx 0 ──┬─────▶ Rx 0 :b      a lock-free ring per pair of queues; the bytes of each frame
//!             ╲╱                   decide, by the receiver's hash key, which one it takes
//!   a: Tx 1 ──┴┴────▶ Rx 1 :b
//! ```
//!
//! Frames move without a copy. Received frames return to the sender's pool.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::assembly::{FRAMES, SimAssembly, transmit_config};
use super::config::{self, CommonOptions};
use super::control::SimSwitch;
use super::stream::SimRss;
use super::tally::PathCounters;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::info::PortMode;
use crate::port::number::parse_number;
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::{Readiness, Receive, Rx};
use crate::port::spec::Spec;
use crate::port::tx::{Transmit, Tx};
use crate::ring::{self, Receiver, Sender};
use crate::stats::{RxCounters, TxCounters};

/// The maximum number of queues of a port on a cable: there is a ring for every pair of queues.
const MAX_QUEUES: u16 = 8;
/// Default number of frames that a ring holds.
const RING: u64 = 512;
/// How long an end without work waits.
const NAP: Duration = Duration::from_micros(50);

/// Opens two ports, `sim:N` and `sim:M` with N and M up to 8, and joins them by a cable. Both
/// receive and transmit, for any options.
///
/// The options of such a spec are `key` (`standard` or `symmetric`: how the port spreads received
/// packets), `frames` (of each transmitting end) and `ring` (frames in transit from one queue to
/// another, 512 by default). A frame that finds its ring full is lost and counted as `ring_full` of
/// the queue that would have received it.
///
/// # Errors
/// An invalid spec, a mask with a queue that does not exist, or no memory for the frames.
pub fn cable(a: (&Spec, &OpenOptions), b: (&Spec, &OpenOptions)) -> Result<(Port, Port)> {
    let (mut left, mut right) = (Plug::new(a.0, a.1)?, Plug::new(b.0, b.1)?);
    left.join(&mut right)?;
    right.join(&mut left)?;
    Ok((left.finish(), right.finish()))
}

/// One end of the cable under construction.
struct Plug<'a> {
    sim: SimAssembly,
    rss: SimRss,
    queues: u16,
    frames: u32,
    ring: usize,
    options: &'a OpenOptions,
    /// The incoming paths of each queue.
    incoming: Vec<Vec<Incoming>>,
}

impl<'a> Plug<'a> {
    fn new(spec: &Spec, options: &'a OpenOptions) -> Result<Self> {
        let queues = config::queues(spec)?;
        let object = || format!("port '{spec}'");
        if queues > MAX_QUEUES {
            let cause = format!("{queues} queues are too many for a cable");
            return Err(Error::usage(object(), cause).help("use at most 8"));
        }
        if spec.queues.is_some() {
            return Err(Error::usage(object(), "the cable's port has no more queues"));
        }
        let mut given = spec.options();
        let key = given.key()?;
        let frames = given.frames()?.unwrap_or(FRAMES);
        let ring = given.value("ring", RING, "1 to 1048576 frames", |text| {
            parse_number(text).filter(|n| (1..=1 << 20).contains(n))
        })?;
        given.finish()?;
        let mut sim = SimAssembly::empty(spec, queues, options)?;
        sim.info.mode = PortMode::Cable;
        let incoming = (0..queues).map(|_| Vec::new()).collect();
        let rss = SimRss::new(&key, queues);
        Ok(Self { sim, rss, queues, frames, ring: ring as usize, options, incoming })
    }

    /// Connects every transmitting queue to every receiving queue of `far`.
    fn join(&mut self, far: &mut Plug<'_>) -> Result<()> {
        for queue in 0..self.queues {
            let pool = self.sim.pool(transmit_config(Some(self.frames), 0))?;
            let outgoing = far.incoming.iter_mut().map(|paths| {
                let (sender, receiver) = ring::channel(far.ring);
                let tally = Arc::new(PathCounters::default());
                self.sim.paths.push(Arc::clone(&tally));
                paths.push(Incoming { receiver, tally: Arc::clone(&tally) });
                Outgoing { sender, tally, staged: Batch::default() }
            });
            let outgoing = outgoing.collect();
            let counters = Arc::new(TxCounters::new(queue));
            let transmitter = Transmitter {
                pool,
                outgoing,
                rss: far.rss.clone(),
                far: Arc::clone(&far.sim.switch),
                counters: Arc::clone(&counters),
            };
            self.sim.tx.push(Tx::new(transmitter, counters));
        }
        Ok(())
    }

    fn finish(mut self) -> Port {
        for (queue, incoming) in (0..).zip(self.incoming) {
            let counters = Arc::new(RxCounters::new(queue, Class::Rx));
            let receiver = CableReceiver {
                incoming,
                first: 0,
                switch: Arc::clone(&self.sim.switch),
                counters: Arc::clone(&counters),
                snaplen: self.options.snaplen as usize,
                watermark: 0,
            };
            self.sim.rx.push(Rx::new(receiver, counters));
        }
        self.sim.finish()
    }
}

struct Outgoing {
    sender: Sender<Frame>,
    tally: Arc<PathCounters>,
    /// Frames of the current batch for this path.
    staged: Batch,
}

struct Incoming {
    receiver: Receiver<Frame>,
    tally: Arc<PathCounters>,
}

/// The transmitting end of one queue.
struct Transmitter {
    pool: Pool,
    /// One path per queue of the far port.
    outgoing: Vec<Outgoing>,
    /// Chooses the queue of the far port.
    rss: SimRss,
    far: Arc<SimSwitch>,
    counters: Arc<TxCounters>,
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        // A port that has not started has no link yet: frames wait.
        if self.far.times().is_none() {
            return 0;
        }
        let taken = batch.len();
        if self.far.stopped() != u64::MAX {
            self.counters.errors.add(taken as u64);
            batch.clear();
            return taken;
        }
        let mut bytes = 0;
        for frame in batch.drain(taken) {
            bytes += frame.len() as u64;
            let queue = usize::from(self.rss.queue(frame.data()));
            if let Some(outgoing) = self.outgoing.get_mut(queue) {
                outgoing.staged.as_vec().push(frame);
            }
        }
        for outgoing in self.outgoing.iter_mut().filter(|outgoing| !outgoing.staged.is_empty()) {
            let sent = outgoing.staged.len() as u64;
            // Counted first, so that the count of received frames never exceeds the count of sent
            // ones.
            outgoing.tally.sent.add(sent);
            outgoing.sender.send(outgoing.staged.as_vec());
            let lost = outgoing.staged.len() as u64;
            if lost > 0 {
                outgoing.tally.sent.set(outgoing.tally.sent.value() - lost);
                outgoing.tally.lost.add(lost);
                outgoing.staged.clear();
            }
        }
        self.counters.packets.add(taken as u64);
        self.counters.bytes.add(bytes);
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        // Publishes the number of free frames.
        self.pool.take(&mut Batch::new(0), 0);
        Ok(())
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        std::thread::sleep(timeout.min(NAP));
        Ok(())
    }
}

/// The receiving end of one queue.
struct CableReceiver {
    /// One path per queue of the far port.
    incoming: Vec<Incoming>,
    /// The path that is served first, in turn.
    first: usize,
    switch: Arc<SimSwitch>,
    counters: Arc<RxCounters>,
    snaplen: usize,
    watermark: u64,
}

impl CableReceiver {
    /// Whether no more frames will arrive.
    fn is_over(&mut self) -> bool {
        let is_stopped = self.switch.stopped() != u64::MAX;
        self.incoming.iter_mut().all(|incoming| match is_stopped {
            true => !incoming.receiver.is_ready(),
            false => incoming.receiver.is_finished(),
        })
    }
}

impl Receive for CableReceiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let Some((epoch, zero)) = self.switch.times() else { return 0 };
        self.watermark = self.watermark.max(epoch + clock::monotonic_ns().saturating_sub(zero));
        let is_selected = self.switch.selects(Class::Rx, self.counters.number);
        let first = batch.len();
        let mut lost = 0;
        let paths = self.incoming.len();
        for i in 0..paths {
            let incoming = &mut self.incoming[(self.first + i) % paths];
            let room = batch.room();
            let n = incoming.receiver.receive(batch.as_vec(), room);
            incoming.tally.received.add(n as u64);
            lost += incoming.tally.lost.value();
            if !is_selected {
                batch.as_vec().truncate(first);
            }
        }
        self.first = (self.first + 1) % paths.max(1);
        self.counters.ring_full.set(lost);
        for frame in &mut batch[first..] {
            frame.stamp(self.watermark, self.counters.number, Class::Rx);
            frame.truncate(self.snaplen);
            self.watermark += 1;
        }
        batch.len() - first
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.is_over() {
            self.watermark = u64::MAX;
            return Ok(Readiness::End);
        }
        let is_ready = self.incoming.iter_mut().any(|incoming| incoming.receiver.is_ready());
        let has_started = self.switch.times().is_some();
        Ok(if is_ready && has_started { Readiness::Now } else { Readiness::After(NAP) })
    }

    fn watermark(&self) -> u64 {
        self.watermark
    }
}
