//! `sim:N`: a network card in the process, with N RX and N TX queues. It needs no privileges.
//!
//! On the way in a deterministic source makes packets, whose k-th one anybody can compute (see
//! [`Stream`]), and receive-side scaling spreads their flows over the queues. On the way out a
//! sink counts and frees. Two ports can be joined by a [`cable`] instead.
//!
//! ```text
//!                  ┌─ flow a, flow d ─▶ queue 0 ─▶ Rx      packet k belongs to flow k % flows;
//!   stream: 0 1 2 …┤                                       every Rx walks the flows of its own
//!                  └─ flow b, flow c ─▶ queue 1 ─▶ Rx      queue and asks nobody
//! ```
//!
#![doc = include_str!("options.md")]
//!
//! At `rate=max` a queue makes packets as they are asked for: if its frames are all in use it
//! makes none, and nothing is lost. At any other rate packets are due at their time; those that
//! are due and exceed the free frames are lost and counted as `ring_full`, as in the ring of a
//! real card.

mod cable;
mod config;
mod control;
mod schedule;
mod sink;
mod source;
mod stream;
mod template;

use std::sync::Arc;

use self::cable::Tally;
use self::control::Switch;
use self::sink::Sink;
use self::source::Source;
use super::{Census, Control, FrameCounts, OpenOptions, Port, PortInfo, Rung, Rx, Tx};
use crate::error::Result;
use crate::frame;
use crate::mask::Class;
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge};
use crate::port::spec::Spec;
use crate::stats::{RxCounters, TxCounters};

pub use self::cable::cable;
pub use self::config::{Config, DEFAULT_SEED, Kind, MAX_FLOWS, MAX_QUEUES, Rate};
pub use self::stream::{Predicted, Stream};
pub(super) use self::template::mix;

/// Bytes free before each packet: a cache line, so that packets begin at one.
const HEADROOM: u32 = 64;
/// Frames that stay in the second-level cache: enough when packets come as they are asked for.
const FRAMES: u32 = 1024;
/// At full rate they are few enough to stay in a second-level cache, and never fewer than a few
/// batches.
const CACHE: u32 = 512 << 10;
const FEWEST_FRAMES: u32 = 256;
/// The ring of a paced queue, which must outlast the time its thread is not running.
const RING_BYTES: u32 = 16 << 20;
/// Frames of such a ring at most.
const RING_FRAMES: u32 = 16_384;
/// A thread that is ready runs within this time, in nanoseconds; until then its packets wait.
const LATENESS: u64 = 100_000_000;

/// As few as there may be where memory is short.
const LEAST_FRAMES: u32 = 16;

/// An open simulated port.
pub struct Sim {
    info: PortInfo,
    switch: Arc<Switch>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    gauges: Vec<PoolGauge>,
    endless: bool,
    /// What leaves this port by a cable.
    strands: Vec<Arc<Tally>>,
}

impl Sim {
    /// Opens the port that `spec` names.
    ///
    /// # Errors
    /// A spec that cannot be (see [`Stream::new`]), a mask with a queue that does not exist, or no
    /// memory for the frames.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let stream = Stream::new(spec)?;
        let config = stream.config();
        let mut sim = Self::empty(spec, config.queues, options)?;
        let shortest = config.shortest();
        if shortest > 64 && config.sizes.contains(&shortest) {
            let note = format!("the shortest packets have {shortest} bytes, to hold all headers");
            sim.info.notes.push(note);
        }
        sim.info.speed = match config.rate {
            Rate::Bits(rate) => Some(rate),
            Rate::Max | Rate::Packets(_) => None,
        };
        sim.endless = config.count.is_none();
        sim.info.lossless = config.rate == Rate::Max;
        let queues = sim.info.queues.clone();
        let on_queues = |class| queues.iter().map(move |queue| (class, *queue));
        let mut ends: Vec<_> = on_queues(Class::Rx).collect();
        ends.extend(config.transmitted.into_iter().flat_map(|_| on_queues(Class::Tx)));
        ends.extend(config.other.map(|_| (Class::Other, 0)));
        if !options.receive {
            ends.clear();
        }
        let mut memory = pool_config(config, options);
        let mut sending = transmit_config(config.frames, config.longest());
        if config.frames.is_none() && options.ring_bytes.is_none() {
            let budget = Allotment::of_rest();
            let (receivers, senders) =
                (ends.len(), if options.transmit { queues.len() } else { 0 });
            let bytes = |frames: u32| {
                let sent = frames.min(sending.chunks) as usize * sending.chunk_size as usize;
                receivers * frames as usize * memory.chunk_size as usize + senders * sent
            };
            let frames = budget.fit(memory.chunks, LEAST_FRAMES, bytes);
            sim.info.notes.extend(budget.note("frames per queue", memory.chunks, frames));
            (memory.chunks, sending.chunks) = (frames, frames.min(sending.chunks));
        }
        let position = |queue| queues.iter().position(|open| *open == queue).unwrap_or(0);
        let node_of = |queue| options.placement.numa_node(position(queue));
        for ((class, queue), walk) in ends.iter().zip(stream.walks(&ends)) {
            let pool = sim.pool(PoolConfig { numa_node: node_of(*queue), ..memory.clone() })?;
            let counters = Arc::new(RxCounters::new(*queue, *class));
            let end = Arc::clone(&counters);
            let source = Source::new(&stream, walk, &sim.switch, counters, pool, options.snaplen);
            sim.rx.push(Rx::new(source, end));
        }
        for queue in queues.iter().filter(|_| options.transmit) {
            let pool = sim.pool(PoolConfig { numa_node: node_of(*queue), ..sending.clone() })?;
            let counters = Arc::new(TxCounters::new(*queue));
            let end = Arc::clone(&counters);
            sim.tx.push(Tx::new(Sink::new(pool, counters, config.verify), end));
        }
        Ok(sim)
    }

    /// A port without ends.
    fn empty(spec: &Spec, queues: u16, options: &OpenOptions) -> Result<Self> {
        let selected =
            |queue: &u16| spec.queues.as_ref().is_none_or(|set| set.contains(usize::from(*queue)));
        let chosen = Rung { rung: "sim", outcome: "chosen", errno: None, cause: None, fix: None };
        let info = PortInfo {
            spec: spec.to_string(),
            backend: "sim",
            mode: "sim".into(),
            interface: None,
            queues: (0..queues).filter(selected).collect(),
            negotiation: vec![chosen],
            notes: Vec::new(),
            link_type: 1,
            hardware: Some("wirelane sim".into()),
            speed: None,
            snaplen: options.snaplen,
            lossless: false,
            lateness: LATENESS,
        };
        let switch = Arc::new(Switch::new(spec.to_string(), queues, options.mask.clone())?);
        let (rx, tx) = (Vec::new(), Vec::new());
        Ok(Self { info, switch, rx, tx, gauges: Vec::new(), endless: true, strands: Vec::new() })
    }

    /// A pool whose frames this port counts.
    fn pool(&mut self, config: PoolConfig) -> Result<Pool> {
        let pool = Pool::new(config)?;
        self.gauges.push(pool.gauge());
        Ok(pool)
    }
}

impl Port for Sim {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx(&mut self) -> Vec<Rx> {
        std::mem::take(&mut self.rx)
    }

    fn tx(&mut self) -> Vec<Tx> {
        std::mem::take(&mut self.tx)
    }

    fn start(&mut self) -> Result<()> {
        self.switch.start();
        Ok(())
    }

    fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.switch) as Arc<dyn Control>
    }

    fn is_endless(&self) -> bool {
        self.endless
    }

    fn sink(&self) -> frame::Sink {
        frame::Sink::unlimited()
    }

    fn census(&self) -> Census {
        let (gauges, strands) = (self.gauges.clone(), self.strands.clone());
        Census::new(move || {
            let mut sum = FrameCounts::of(&gauges);
            // Frames of other ports that were sent by this one are on the way as well.
            let in_flight: u64 = strands.iter().map(|strand| strand.in_flight()).sum();
            sum.tx = in_flight.min(sum.held());
            sum
        })
    }
}

/// The memory of a receiving end.
fn pool_config(config: &Config, options: &OpenOptions) -> PoolConfig {
    let chunk_size = (u32::from(config.longest().max(128)) + HEADROOM).next_power_of_two();
    let chunks = match (config.frames, options.ring_bytes, config.rate) {
        (Some(frames), _, _) => frames,
        (None, Some(bytes), _) => (bytes / chunk_size as usize).clamp(1, 1 << 24) as u32,
        (None, None, Rate::Max) => (CACHE / chunk_size).clamp(FEWEST_FRAMES, FRAMES),
        (None, None, _) => (RING_BYTES / chunk_size).clamp(FRAMES, RING_FRAMES),
    };
    PoolConfig { chunks, chunk_size: chunk_size.max(256), headroom: HEADROOM, numa_node: None }
}

/// The memory of a transmitting end, for full-size Ethernet packets and those of `longest` bytes.
fn transmit_config(frames: Option<u32>, longest: u16) -> PoolConfig {
    PoolConfig {
        chunks: frames.unwrap_or(FRAMES),
        chunk_size: (u32::from(longest) + HEADROOM).next_power_of_two().max(2048),
        headroom: HEADROOM,
        numa_node: None,
    }
}
