//! Packs a filled buffer for the disk: computes the checksum, and compresses on separate threads.
//!
//! ```text
//!                ┌▶ thread 0: extents 0, 2, 4 … ─▶┐
//!  filled ───────┤                                ├─▶ packed extents, in the same order
//!                └▶ thread 1: extents 1, 3, 5 … ─▶┘
//! ```
//!
//! Extents are equally long, so round-robin keeps all threads busy and the order needs no
//! bookkeeping.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{JoinHandle, Thread};

use crc32fast::hash;
use wirelane_pcap::{CompressionOptions, FrameCompressor, Source};

use super::filled::FilledBlocks;
use super::lane::BufferLayout;
use super::lost::{BySource, add_blocks};
use super::status::Counts;
use crate::disk::{Buffer, Buffers};
use crate::error::{Error, Result};
use crate::extent::{EXTENT_SIZE, ExtentHeader};
use crate::threads::spawn;

/// Extents in flight per thread: one is being compressed, one waits.
const PER_THREAD: usize = 2;
/// The least room for padding.
const PADDING: usize = 12;

/// An extent that is ready to be placed in a segment.
pub(crate) struct Packed {
    /// Room for the header, then the payload.
    pub(crate) buffer: Buffer,
    /// All fields except segment and number and, if uncompressed, the checksum.
    pub(crate) header: ExtentHeader,
    pub(crate) counts: Counts,
    /// The blocks, if they are still needed; `None` if they are in `buffer`, or were dropped.
    pub(crate) plain: Option<FilledBlocks>,
    /// The sources of its packets, and maybe more.
    pub(crate) sources: Arc<[Source]>,
    /// Its packets by source, if already counted.
    pub(crate) by_source: Option<BySource>,
}

/// An extent that could not be packed.
pub(crate) struct Unpacked {
    /// The extent, if it still exists.
    pub(crate) filled: Option<FilledBlocks>,
    pub(crate) why: String,
}

impl Packed {
    /// Its packets by source.
    pub(crate) fn count_by_source(&self) -> BySource {
        let sources = &self.sources;
        match (&self.by_source, &self.plain) {
            (Some(known), _) => known.clone(),
            (None, Some(plain)) => add_blocks(plain.blocks(), sources, &mut None),
            (None, None) => {
                let start = ExtentHeader::disk_len(false);
                let payload = self.buffer.get(start..start + self.header.payload as usize);
                add_blocks(payload.unwrap_or_default(), sources, &mut None)
            }
        }
    }
}

/// Packs extents in order.
pub(crate) enum ExtentPacker {
    Plain(VecDeque<FilledBlocks>),
    Compressed(Turns),
}

/// Threads that work round-robin.
pub(crate) struct Turns {
    threads: Vec<Compressing>,
    sent: usize,
    received: usize,
    /// Buffers for compressed extents.
    room: Buffers,
}

struct Compressing {
    /// It is dropped first, which ends the thread.
    plain: Option<SyncSender<(FilledBlocks, Buffer)>>,
    packed: Receiver<std::result::Result<Packed, Unpacked>>,
    handle: Option<JoinHandle<()>>,
}

impl ExtentPacker {
    /// The range of blocks in a buffer for which the extent is no longer than [`EXTENT_SIZE`].
    pub(crate) fn layout(compression: Option<CompressionOptions>) -> Result<BufferLayout> {
        let start = ExtentHeader::disk_len(compression.is_some());
        let Some(options) = compression else {
            return Ok(BufferLayout { start, limit: EXTENT_SIZE - PADDING });
        };
        let compressor = FrameCompressor::new(options).map_err(cannot_compress)?;
        let most = EXTENT_SIZE - start - PADDING;
        let fits = |len: &usize| compressor.bound(*len) <= most;
        let len = (0..most).rev().step_by(64).find(fits).unwrap_or(0);
        Ok(BufferLayout { start, limit: start + len })
    }

    /// Starts the packer for `depth` concurrent writes. `wake` is the thread that receives packed
    /// extents.
    pub(crate) fn start(
        compression: Option<CompressionOptions>,
        depth: usize,
        wake: &Thread,
    ) -> Result<Self> {
        let Some(options) = compression else { return Ok(Self::Plain(VecDeque::new())) };
        let count = usize::from(options.threads.max(1));
        let room = Buffers::new(count * PER_THREAD + depth + 1, EXTENT_SIZE).map_err(Error::os)?;
        let threads = (0..count).map(|_| Compressing::start(options, wake.clone()));
        let threads = threads.collect::<Result<_>>()?;
        Ok(Self::Compressed(Turns { threads, sent: 0, received: 0, room }))
    }

    /// The buffers for writing, if they are not the filled ones.
    pub(crate) fn room(&self) -> Option<&Buffers> {
        match self {
            Self::Plain(_) => None,
            Self::Compressed(turns) => Some(&turns.room),
        }
    }

    /// Whether no extent is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(queue) => queue.is_empty(),
            Self::Compressed(turns) => turns.sent == turns.received,
        }
    }

    /// Packs an extent; returns it if there is no room now.
    pub(crate) fn send(&mut self, filled: FilledBlocks) -> Option<FilledBlocks> {
        match self {
            Self::Plain(queue) if queue.is_empty() => queue.push_back(filled),
            Self::Plain(_) => return Some(filled),
            Self::Compressed(turns) => return turns.send(filled),
        }
        None
    }

    /// The next packed extent, if it is ready.
    pub(crate) fn receive(&mut self) -> Option<std::result::Result<Packed, Unpacked>> {
        match self {
            Self::Plain(queue) => queue.pop_front().map(|filled| Ok(pack_plain(filled))),
            Self::Compressed(turns) => turns.receive(),
        }
    }
}

impl Turns {
    fn send(&mut self, filled: FilledBlocks) -> Option<FilledBlocks> {
        if self.sent - self.received >= self.threads.len() * PER_THREAD {
            return Some(filled);
        }
        let turn = self.sent % self.threads.len();
        let sender = self.threads.get(turn).and_then(|thread| thread.plain.as_ref());
        let (Some(sender), Some(buffer)) = (sender, self.room.take()) else { return Some(filled) };
        match sender.try_send((filled, buffer)) {
            Ok(()) => {
                self.sent += 1;
                None
            }
            Err(error) => {
                use std::sync::mpsc::TrySendError::{Disconnected, Full};
                let (Full((filled, _)) | Disconnected((filled, _))) = error;
                Some(filled)
            }
        }
    }

    fn receive(&mut self) -> Option<std::result::Result<Packed, Unpacked>> {
        if self.sent == self.received {
            return None;
        }
        let thread = self.threads.get(self.received % self.threads.len())?;
        let packed = match thread.packed.try_recv() {
            Ok(packed) => packed,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err(Unpacked { filled: None, why: "a compressing thread ended".into() })
            }
        };
        self.received += 1;
        Some(packed)
    }
}

impl Compressing {
    fn start(options: CompressionOptions, wake: Thread) -> Result<Self> {
        let mut compressor = FrameCompressor::new(options).map_err(cannot_compress)?;
        let (plain, to_pack) = sync_channel(PER_THREAD);
        let (done, packed) = sync_channel(PER_THREAD);
        let run = move || {
            for (filled, buffer) in to_pack {
                if done.send(compress(&mut compressor, filled, buffer)).is_err() {
                    return;
                }
                wake.unpark();
            }
        };
        let handle = Some(spawn("wl-compress", run)?);
        Ok(Self { plain: Some(plain), packed, handle })
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.plain = None;
        }
        for thread in &mut self.threads {
            // A thread that waits to deliver a result must not block for ever.
            while thread.packed.recv().is_ok() {}
            if let Some(handle) = thread.handle.take() {
                let _ = handle.join();
            }
        }
    }
}

fn pack_plain(filled: FilledBlocks) -> Packed {
    // The checksum is computed when the extent is placed.
    let header = header(&filled, filled.end - filled.start);
    let FilledBlocks { buffer, counts, sources, .. } = filled;
    Packed { buffer, header, counts, plain: None, sources, by_source: None }
}

fn compress(
    compressor: &mut FrameCompressor,
    filled: FilledBlocks,
    mut buffer: Buffer,
) -> std::result::Result<Packed, Unpacked> {
    let start = ExtentHeader::disk_len(true);
    let room = buffer.get_mut(start..).unwrap_or_default();
    let len = match compressor.compress(filled.blocks(), room) {
        Ok(len) => len,
        Err(error) => return Err(Unpacked { filled: Some(filled), why: error.to_string() }),
    };
    let checksum = hash(room.get(..len).unwrap_or_default());
    let header = ExtentHeader { checksum, ..header(&filled, len) };
    let (counts, sources) = (filled.counts, Arc::clone(&filled.sources));
    Ok(Packed { buffer, header, counts, plain: Some(filled), sources, by_source: None })
}

fn header(filled: &FilledBlocks, payload: usize) -> ExtentHeader {
    ExtentHeader {
        packets: u32::try_from(filled.counts.packets).unwrap_or(u32::MAX),
        payload: payload as u32,
        plain: (filled.end - filled.start) as u32,
        oldest: filled.oldest,
        newest: filled.newest,
        ..ExtentHeader::default()
    }
}

fn cannot_compress(error: io::Error) -> Error {
    Error::new("compression", error.to_string())
}
