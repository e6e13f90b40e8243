//! Builds a simulated port: its memory and its ends.

use std::sync::Arc;

use super::config::{Config, Rate};
use super::control::SimSwitch;
use super::sink::SimTransmitter;
use super::source::SimReceiver;
use super::stream::Stream;
use super::tally::PathCounters;
use crate::error::Result;
use crate::mask::Class;
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge};
use crate::port::accounting::{Accounting, FrameCounts};
use crate::port::info::{PortInfo, PortMode};
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::spec::{Backend, Spec};
use crate::port::tx::Tx;
use crate::stats::{RxCounters, TxCounters};

/// Headroom before each packet in bytes: a cache line, so that packets start at a cache line.
const HEADROOM: u32 = 64;
/// Frames that fit in the second-level cache: enough when packets are created on demand.
pub(super) const FRAMES: u32 = 1024;
/// Bytes of frames at full rate: few enough to remain in a second-level cache, with a minimum of a
/// few batches.
const CACHE: u32 = 512 << 10;
const FEWEST_FRAMES: u32 = 256;
/// Bytes of the ring of a paced queue. It must outlast the time in which its thread does not run.
const RING_BYTES: u32 = 16 << 20;
/// The maximum number of frames of such a ring.
const RING_FRAMES: u32 = 16_384;
/// A ready thread runs within this time, in nanoseconds; packets wait as long.
const LATENESS: u64 = 100_000_000;

/// The minimum number of frames, if memory is short.
const LEAST_FRAMES: u32 = 16;

/// A simulated port under construction.
pub(super) struct SimAssembly {
    pub(super) info: PortInfo,
    pub(super) switch: Arc<SimSwitch>,
    pub(super) rx: Vec<Rx>,
    pub(super) tx: Vec<Tx>,
    pub(super) gauges: Vec<PoolGauge>,
    pub(super) endless: bool,
    /// Frames that leave this port by a cable.
    pub(super) paths: Vec<Arc<PathCounters>>,
}

/// Opens the port that `spec` names.
///
/// # Errors
/// An invalid spec (see [`Stream::new`](super::stream::Stream::new)), a mask with a queue that does
/// not exist, or no memory for the frames.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    SimAssembly::new(spec, options).map(SimAssembly::finish)
}

impl SimAssembly {
    fn new(spec: &Spec, options: &OpenOptions) -> Result<Self> {
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
            let source =
                SimReceiver::new(&stream, walk, &sim.switch, counters, pool, options.snaplen);
            sim.rx.push(Rx::new(source, end));
        }
        for queue in queues.iter().filter(|_| options.transmit) {
            let pool = sim.pool(PoolConfig { numa_node: node_of(*queue), ..sending.clone() })?;
            let counters = Arc::new(TxCounters::new(*queue));
            let end = Arc::clone(&counters);
            sim.tx.push(Tx::new(SimTransmitter::new(pool, counters, config.verify), end));
        }
        Ok(sim)
    }

    /// A port without ends.
    pub(super) fn empty(spec: &Spec, queues: u16, options: &OpenOptions) -> Result<Self> {
        let selected =
            |queue: &u16| spec.queues.as_ref().is_none_or(|set| set.contains(usize::from(*queue)));
        let info = PortInfo {
            queues: (0..queues).filter(selected).collect(),
            hardware: Some("wirelane sim".into()),
            snaplen: options.snaplen,
            lateness: LATENESS,
            ..PortInfo::new(spec, Backend::Sim, PortMode::Sim)
        };
        let switch = Arc::new(SimSwitch::new(spec.to_string(), queues, options.mask.clone())?);
        let (rx, tx) = (Vec::new(), Vec::new());
        Ok(Self { info, switch, rx, tx, gauges: Vec::new(), endless: true, paths: Vec::new() })
    }

    /// Creates a pool whose frames this port counts.
    pub(super) fn pool(&mut self, config: PoolConfig) -> Result<Pool> {
        let pool = Pool::new(config)?;
        self.gauges.push(pool.gauge());
        Ok(pool)
    }

    pub(super) fn finish(self) -> Port {
        let Self { info, switch, rx, tx, gauges, endless, paths } = self;
        let accounting = Accounting::new(move || {
            let mut sum = FrameCounts::of(&gauges);
            // Frames that this port has sent to another port are in transit as well.
            let in_flight: u64 = paths.iter().map(|path| path.in_flight()).sum();
            sum.tx = in_flight.min(sum.held());
            sum
        });
        let mut port = Port::new(info, switch, accounting);
        (port.rx, port.tx, port.is_endless) = (rx, tx, endless);
        port
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

/// The memory of a transmitting end, for full-size Ethernet packets and packets of `longest` bytes.
pub(super) fn transmit_config(frames: Option<u32>, longest: u16) -> PoolConfig {
    PoolConfig {
        chunks: frames.unwrap_or(FRAMES),
        chunk_size: (u32::from(longest) + HEADROOM).next_power_of_two().max(2048),
        headroom: HEADROOM,
        numa_node: None,
    }
}
