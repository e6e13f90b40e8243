//! `file:PATH`: a capture file as a port. It is read as fast as frames come back, or written.
//!
//! Opened for receiving, the file is the traffic: one [`Rx`](super::Rx) hands out its packets in their
//! order, with the queue, class, time and wire length that the file records. Files of Wirelane
//! name queue and class in the description of each interface (`rx queue 3`); in other files the
//! number of the interface stands for the queue, and a packet belongs to [`Class::Rx`](crate::Class::Rx) unless it
//! is marked as sent. The masks are applied to exactly that: what is not selected is neither
//! delivered nor counted. What comes is counted per interface as well ([`Rx::bundle`](super::Rx::bundle)), and a capture writes
//! the same interfaces again. It is one stream all the same, so that order, `-c` and a pipe mean what they say.
//!
#![doc = include_str!("options.md")]
//!
//! Nothing is lost: while no frame is free, nothing is read. Packets longer than the usual frame
//! of 2 KiB get frames of 128 KiB, which are set up when the first one comes; what exceeds even
//! those is cut, its wire length kept, and [`Port::diagnostics`](super::Port::diagnostics) says how many were, and which times
//! are not those of the file . Of a damaged
//! file everything before the damage is delivered, then [`Rx::readiness`](super::Rx::readiness) returns the error once,
//! then [`Readiness::End`](super::Readiness::End).
//! `file:-` is standard input or output. A pipe may be live: what has come whole is received at once, and
//! [`Rx::readiness`](super::Rx::readiness) names the descriptor to wait for. (One that is compressed is waited for inside of
//! [`Rx::receive`](super::Rx::receive), until the port is stopped: decompressors want whole blocks.)
//!
//! Opened for transmitting, what is sent is written into a new file, whose suffix decides format
//! and compression. There is one TX queue, because the packets of a file follow each other; a
//! capture of many queues into one file is made by [`capture::live`](crate::session::capture).
//! [`Tx::pending`](super::Tx::pending) counts what waits in memory, and the counters what is safely in the file.
//! [`Tx::flush`](super::Tx::flush) writes the rest and reports what went wrong.

mod control;
mod cursor;
mod open;
mod origin;
mod progress;
mod sink;
mod source;

<<<<<<< HEAD
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wirelane_os::clock;

use self::control::Switch;
use self::cursor::{Cursor, Replay};
use self::origin::Origins;
use self::sink::Sink;
use self::source::Source;
use super::{Census, Control, FrameCounts, OpenOptions, Port, PortInfo, Rung, Rx, Spec, Tx};
use crate::error::{Error, Result};
use crate::frame;
use crate::mask::Class;
use crate::pcap::{self, CaptureWriter, FileId, LINK_TYPE_ETHERNET, OddTimes, WriterOptions, pipe};
use crate::pool::{Pool, PoolConfig, PoolGauge};
use crate::stats::{RxCounters, TxCounters};
use crate::sync::Counter;

/// Most bytes kept of a packet: a frame of the largest size.
pub const MAX_PACKET: usize = (LARGE.chunk_size - LARGE.headroom) as usize;

/// Frames that stay in the second-level cache beside the reader's buffer.
const SMALL: PoolConfig =
    PoolConfig { chunks: 512, chunk_size: 2048, headroom: 64, numa_node: None };
/// For packets that do not fit those: the longest IP packet, 65,535 bytes, has an Ethernet header and tags in front.
const LARGE: PoolConfig =
    PoolConfig { chunks: 64, chunk_size: 131_072, headroom: 64, numa_node: None };

/// An open capture file.
pub struct FilePort {
    info: PortInfo,
    switch: Arc<Switch>,
    progress: Arc<Progress>,
    frames: PoolGauge,
    input: Option<FileId>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
}

/// What the receiving end tells the port.
#[derive(Debug, Default)]
struct Progress {
    /// Frames for large packets, once there are any.
    large: OnceLock<PoolGauge>,
    /// Interfaces that the file describes behind packets of others.
    strangers: Counter,
    /// Packets that were cut because no frame holds them.
    cut: Counter,
    /// Packets whose time is not that of the file.
    odd_times: Mutex<OddTimes>,
}

impl FilePort {
    /// Opens the file that `spec` names, for receiving or for transmitting.
    ///
    /// # Errors
    /// The file cannot be opened or created, is no capture file or mixes link types; an unknown
    /// option, a mask with a queue that the file does not record, or both directions at once.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let object = || format!("port '{spec}'");
        if spec.queues.is_some() {
            return Err(Error::usage(object(), "the queues of a file are chosen by masks")
                .help("use --rx-queues and --tx-queues"));
        }
        if options.receive && options.transmit {
            return Err(Error::usage(object(), "a file can be read or written, not both")
                .help("name two files, one for each direction"));
        }
        if options.transmit { Self::write(spec, options) } else { Self::read(spec, options) }
    }

    fn read(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let replay = Replay::new(spec)?;
        let halt = options.halt.below();
        let input = pipe::open(spec.name.as_ref(), &halt)?;
        let reader = &input.reader;
        let file = reader.file();
        let mut origins = Origins::default();
        origins.extend(reader.interfaces(), reader.name())?;
        let queues = [Class::Rx, Class::Tx].map(|class| origins.queues(class));
        let switch = Arc::new(Switch::new(spec.to_string(), queues, options.mask.clone(), halt)?);
        origins.select(switch.mask());
        let progress = Arc::new(Progress::default());
        let mut info = info(spec, options);
        info.queues =
            origins.queues(Class::Rx).members(usize::from(u16::MAX)).map(|q| q as u16).collect();
        if let [first, others @ ..] = reader.interfaces() {
            info.link_type = first.link_type;
            info.hardware.clone_from(&first.hardware);
            info.speed = first.speed;
            let one = !first.name.is_empty() && others.iter().all(|other| other.name == first.name);
            info.interface = one.then(|| first.name.clone());
        }
        let doubles = origins.doubles();
        if doubles > 0 {
            info.notes.push(format!(
                "{doubles} interfaces of the file have the queue and class of an earlier one; \
                 their packets count as packets of that one"
            ));
        }
        let bundle = origins.bundle(reader.interfaces(), options.snaplen).map(Arc::new);
        let pool = pool(options)?;
        let frames = pool.gauge();
        let counters = Arc::new(RxCounters::new(0, Class::Rx));
        let cursor = Cursor::new(input, origins, replay, bundle.clone(), &switch, &progress);
        let source = Source::new(cursor, pool, options.snaplen, &progress);
        let rx = || Rx::new(source, counters).with_bundle(bundle);
        let rx = options.receive.then(rx).into_iter().collect();
        Ok(Self { info, switch, progress, frames, input: file, rx, tx: Vec::new() })
    }

    fn write(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        spec.options().finish()?;
        let halt = options.halt.below();
        let writer = WriterOptions {
            inputs: options.inputs.clone(),
            halt: halt.clone(),
            ..WriterOptions::of_path(spec.name.as_ref())
        };
        let source = pcap::Source {
            snaplen: options.snaplen,
            ..pcap::Source::new(&spec.to_string(), Class::Tx, Some(0))
        };
        let writer = CaptureWriter::create(&spec.name, &[source], writer, clock::realtime_ns())?;
        let queues = [Class::Rx, Class::Tx].map(|_| [0].into_iter().collect());
        let switch = Arc::new(Switch::new(spec.to_string(), queues, options.mask.clone(), halt)?);
        let pool = pool(options)?;
        let frames = pool.gauge();
        let counters = Arc::new(TxCounters::new(0));
        let sink = Sink::new(writer, pool, Arc::clone(&counters), options.snaplen);
        Ok(Self {
            info: info(spec, options),
            switch,
            progress: Arc::default(),
            frames,
            input: None,
            rx: Vec::new(),
            tx: vec![Tx::new(sink, counters)],
        })
    }
}

impl Port for FilePort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn is_endless(&self) -> bool {
        false
    }

    fn late_notes(&self) -> Vec<String> {
        let cut = self.progress.cut.value();
        let note =
            || format!("{cut} packets longer than {MAX_PACKET} bytes were cut to that length");
        let strangers = self.progress.strangers.value();
        let first = || {
            format!(
                "{strangers} interfaces are described after the first packet; their packets \
                 count as packets of the first interface"
            )
        };
        let notes = [(cut > 0).then(note), (strangers > 0).then(first)];
        let odd_times = *self.progress.odd_times.lock().unwrap_or_else(PoisonError::into_inner);
        notes.into_iter().flatten().chain(odd_times.notes()).collect()
    }

    fn inputs(&self) -> Vec<FileId> {
        self.input.into_iter().collect()
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

    fn sink(&self) -> frame::Sink {
        frame::Sink::unlimited()
    }

    fn census(&self) -> Census {
        let (small, progress) = (self.frames.clone(), Arc::clone(&self.progress));
        Census::new(move || FrameCounts::of([&small].into_iter().chain(progress.large.get())))
    }
}

/// What is true of any file.
fn info(spec: &Spec, options: &OpenOptions) -> PortInfo {
    let mode = if options.transmit { "write" } else { "read" };
    PortInfo {
        spec: spec.to_string(),
        backend: "file",
        mode: mode.into(),
        interface: None,
        queues: vec![0],
        negotiation: vec![Rung {
            rung: "file",
            outcome: "chosen",
            errno: None,
            cause: None,
            fix: None,
        }],
        notes: Vec::new(),
        link_type: LINK_TYPE_ETHERNET,
        hardware: None,
        speed: None,
        snaplen: options.snaplen,
        lossless: true,
        lateness: 0,
    }
}

fn pool(options: &OpenOptions) -> Result<Pool> {
    let chunks = options
        .ring_bytes
        .map_or(SMALL.chunks, |bytes| (bytes / SMALL.chunk_size as usize).clamp(1, 1 << 24) as u32);
    Pool::new(PoolConfig { chunks, ..SMALL })
}
=======
pub use self::open::open;
pub use self::progress::MAX_PACKET;
>>>>>>> house
