//! Opens a capture file as a port, for reading or for writing.

use std::path::Path;
use std::sync::Arc;

use wirelane_os::clock;

use super::control::FileSwitch;
use super::cursor::{FileCursor, ReplayOptions};
use super::origin::Origins;
use super::sink::FileTransmitter;
use super::source::{FileReceiver, large_frames};
use crate::error::{Error, Result};
use crate::halt::Halt;
use crate::mask::Class;
use crate::memory;
use crate::pcap::{self, CaptureWriter, LINK_TYPE_ETHERNET, WriterOptions, pipe};
use crate::pool::{Pool, PoolConfig};
use crate::port::accounting::{Accounting, FrameCounts};
use crate::port::control::Control;
use crate::port::info::{PortInfo, PortMode};
use crate::port::metadata::file::FileMetadata;
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::spec::{Backend, Spec};
use crate::port::tx::Tx;
use crate::remedy::Remedy;
use crate::stats::{RxCounters, TxCounters};

/// Frames that fit in the second-level cache together with the reader's buffer.
const SMALL: PoolConfig =
    PoolConfig { chunks: 512, chunk_size: 2048, headroom: 64, numa_node: None };
/// Opens the file that `spec` names, for receiving or for transmitting.
///
/// # Errors
/// The file cannot be opened or created, is not a capture file, or has several link types without
/// `ProgramOptions::mixed_links`. Or an unknown option, a mask with a queue that the file does not
/// record, or both directions at once.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    let object = || format!("port '{spec}'");
    if spec.queues.is_some() {
        return Err(Error::usage(object(), "the queues of a file are chosen by masks")
            .remedy(Remedy::QueueMasks));
    }
    if options.receive && options.transmit {
        return Err(Error::usage(object(), "a file can be read or written, not both")
            .help("name two files, one for each direction"));
    }
    if options.transmit { write(spec, options) } else { read(spec, options) }
}

fn read(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    let replay = ReplayOptions::new(spec, options.snaplen)?;
    let halt = options.halt.below();
    let input = pipe::open(spec.name.as_ref(), &halt)?;
    let reader = &input.reader;
    let file = reader.file();
    let early = reader.interfaces().len();
    let path = Path::new(&spec.name);
    // Only pcapng, which has sections, describes interfaces late.
    let has_late = options.internal.all_interfaces && reader.section().is_some() && path.is_file();
    let interfaces = match has_late {
        true => every_interface(path, &halt)?,
        false => reader.interfaces().to_vec(),
    };
    let mut origins = Origins::new(options.internal.mixed_links);
    origins.extend(&interfaces, reader.name())?;
    let queues = [Class::Rx, Class::Tx].map(|class| origins.queues(class));
    let switch =
        Arc::new(FileSwitch::new(spec.to_string(), queues, options.mask.clone(), halt, false)?);
    origins.select(switch.mask());
    let mut info = info(spec, options);
    info.queues =
        origins.queues(Class::Rx).members(usize::from(u16::MAX)).map(|q| q as u16).collect();
    if let [first, others @ ..] = interfaces.as_slice() {
        info.link_type = first.link_type;
        info.hardware.clone_from(&first.hardware);
        info.speed = first.speed;
        let one = !first.name.is_empty() && others.iter().all(|other| other.name == first.name);
        info.interface = one.then(|| first.name.clone());
    }
    let table = origins.interface_table(&interfaces, early, options.snaplen).map(Arc::new);
    let pool = pool(options)?;
    let frames = pool.gauge();
    let counters = Arc::new(RxCounters::new(0, Class::Rx));
    let section = reader.section().cloned().unwrap_or_default();
    let metadata = Arc::new(FileMetadata::new(reader.name(), section, table.clone()));
    let cursor = FileCursor::new(input, origins, replay, Arc::clone(&metadata), &switch);
    let source = FileReceiver::new(cursor, pool, options.snaplen, &switch.progress);
    let rx = || Rx::new(source, counters).with_interface_table(table);
    let progress = Arc::clone(&switch.progress);
    let count = move || FrameCounts::of([&frames].into_iter().chain(progress.large.get()));
    let mut port = Port::new(info, switch, Accounting::new(count));
    port.rx = options.receive.then(rx).into_iter().collect();
    port.inputs = file.into_iter().collect();
    port.file_metadata = Some(metadata);
    port.is_endless = false;
    Ok(port)
}

/// All interfaces of a file, at any position. Damage ends this list as it ends the packets; reading
/// the packets reports it.
fn every_interface(path: &Path, halt: &Halt) -> Result<Vec<pcap::Source>> {
    let mut reader = pipe::open(path, halt)?.reader;
    while reader.advance().unwrap_or(false) {
        if reader.packets().is_multiple_of(4096) && halt.is_asked() {
            break;
        }
    }
    Ok(reader.interfaces().to_vec())
}

fn write(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    spec.options().finish()?;
    let halt = options.halt.below();
    let mut writer = WriterOptions::of_path(spec.name.as_ref())
        .inputs(options.internal.inputs.clone())
        .cancel(halt.clone())
        .room(memory::for_writers);
    let mut sources = vec![pcap::Source {
        snaplen: options.snaplen,
        ..pcap::Source::new(&spec.to_string(), Class::Tx, Some(0))
    }];
    if let Some(metadata) = &options.internal.file_metadata {
        writer.section.inherit(&[metadata.section()]);
        if let Some(table) = metadata.interface_table() {
            sources = table.entries().iter().map(|entry| entry.source.clone()).collect();
        }
    }
    let writer = CaptureWriter::create(&spec.name, &sources, writer, clock::realtime_ns())?;
    let queues = [Class::Rx, Class::Tx].map(|_| [0].into_iter().collect());
    let switch =
        Arc::new(FileSwitch::new(spec.to_string(), queues, options.mask.clone(), halt, true)?);
    // A file has no MTU: it accepts packets as long as a file can contain.
    let pool = large_frames()?;
    let frames = pool.gauge();
    let counters = Arc::new(TxCounters::new(0));
    let mut info = info(spec, options);
    info.notes.extend(writer.shortage().map(str::to_owned));
    let sink = FileTransmitter::new(writer, pool, Arc::clone(&counters), options, &switch.progress);
    let mut port = Port::new(info, switch, Accounting::new(move || FrameCounts::of([&frames])));
    port.tx = vec![Tx::new(sink, counters)];
    port.is_endless = false;
    Ok(port)
}

/// The common information of files.
fn info(spec: &Spec, options: &OpenOptions) -> PortInfo {
    let mode = if options.transmit { PortMode::Write } else { PortMode::Read };
    PortInfo {
        queues: vec![0],
        link_type: LINK_TYPE_ETHERNET,
        snaplen: options.snaplen,
        lossless: true,
        ..PortInfo::new(spec, Backend::File, mode)
    }
}

fn pool(options: &OpenOptions) -> Result<Pool> {
    let chunks = options
        .ring_bytes
        .map_or(SMALL.chunks, |bytes| (bytes / SMALL.chunk_size as usize).clamp(1, 1 << 24) as u32);
    Pool::new(PoolConfig { chunks, ..SMALL })
}
