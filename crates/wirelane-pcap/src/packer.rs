//! Compresses on separate threads: chunks are returned in the order in which they were sent.
//!
//! ```text
//!              ┌▶ thread 0: chunks 0, 2, 4 … ─▶┐
//!  chunks ─────┤                               ├─▶ the same chunks, compressed, in the same order
//!              └▶ thread 1: chunks 1, 3, 5 … ─▶┘
//! ```
//!
//! Chunks have equal length, so round robin keeps all threads busy, and the order needs no
//! bookkeeping. The number of pending chunks is limited: a caller at the limit waits for the oldest
//! one.
//!
//! A chunk has 1 MiB, or 4 MiB for zstd. Each compressed chunk is a separate frame, so a file that
//! ends early is readable up to its last whole frame. At most two chunks per thread are in flight.
//! Packets count as written only after their chunk is in the file, so the writer's counts are exact
//! after an error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

#[cfg(feature = "compression")]
use crate::compress::Compressor;
use crate::compression::CompressionOptions;
use crate::fitting::{Fit, PER_THREAD};
use crate::room::Room;
#[cfg(not(feature = "compression"))]
use crate::uncompressed::Compressor;

/// A chunk of whole blocks.
#[derive(Default)]
pub(crate) struct BlockChunk {
    /// The uncompressed blocks.
    pub(crate) plain: Vec<u8>,
    /// The compressed blocks.
    pub(crate) compressed: Vec<u8>,
    /// Packets in them.
    pub(crate) packets: u64,
}

/// Threads that compress for one file after the other. Dropping it ends them; pending chunks are
/// then lost.
pub(crate) struct ChunkPacker {
    threads: Vec<Thread>,
    /// Chunks sent to the threads, and chunks received from them.
    sent: usize,
    received: usize,
    /// Pending packets, and their bytes before compression.
    packets: u64,
    bytes: u64,
    /// Empty chunks whose memory is used again.
    spare: Vec<BlockChunk>,
    is_abandoned: Arc<AtomicBool>,
    fit: Fit,
}

struct Thread {
    /// Dropped first, which ends the thread.
    plain: Option<Sender<BlockChunk>>,
    packed: Receiver<io::Result<BlockChunk>>,
    handle: Option<JoinHandle<()>>,
}

impl ChunkPacker {
    /// Starts the threads: fewer threads with shorter chunks, if memory is short.
    ///
    /// # Errors
    /// There is not enough memory for them.
    pub(crate) fn start(options: CompressionOptions, room: fn() -> Room) -> io::Result<Self> {
        let fit = options.fit(room)?;
        let mut packer = Self {
            threads: Vec::new(),
            sent: 0,
            received: 0,
            packets: 0,
            bytes: 0,
            spare: Vec::new(),
            is_abandoned: Arc::default(),
            fit,
        };
        for _ in 0..packer.fit.threads {
            let mut compressor = Compressor::new(options)?;
            let (plain, to_pack) = channel::<BlockChunk>();
            let (done, packed) = channel();
            let is_abandoned = Arc::clone(&packer.is_abandoned);
            let run = move || {
                for mut chunk in to_pack {
                    if is_abandoned.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = compressor.compress(&chunk.plain, &mut chunk.compressed);
                    if done.send(result.map(|()| chunk)).is_err() {
                        return;
                    }
                }
            };
            let handle = thread::Builder::new().name("wl-compress".into()).spawn(run)?;
            packer.threads.push(Thread { plain: Some(plain), packed, handle: Some(handle) });
        }
        Ok(packer)
    }

    /// The length of a chunk before compression, in bytes.
    pub(crate) fn chunk(&self) -> usize {
        self.fit.chunk
    }

    /// A sentence, if memory was short.
    pub(crate) fn note(&self) -> Option<&str> {
        self.fit.note.as_deref()
    }

    /// Whether another chunk may be sent; otherwise the caller must receive one first.
    pub(crate) fn has_room(&self) -> bool {
        self.sent - self.received < PER_THREAD * self.threads.len()
    }

    /// An empty chunk, with the memory of an earlier one if possible.
    pub(crate) fn blank(&mut self) -> BlockChunk {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back a chunk for reuse.
    pub(crate) fn recycle(&mut self, mut chunk: BlockChunk) {
        chunk.plain.clear();
        self.spare.push(chunk);
    }

    /// Pending packets.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Pending bytes, before compression.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends a chunk to the next thread.
    ///
    /// # Errors
    /// The thread has ended.
    pub(crate) fn send(&mut self, chunk: BlockChunk) -> io::Result<()> {
        let (packets, bytes) = (chunk.packets, chunk.plain.len() as u64);
        let thread = self.threads.get(self.sent % self.threads.len());
        let plain = thread.and_then(|thread| thread.plain.as_ref()).ok_or_else(gone)?;
        plain.send(chunk).map_err(|_| gone())?;
        self.sent += 1;
        self.packets += packets;
        self.bytes += bytes;
        Ok(())
    }

    /// The oldest pending chunk, once it is compressed; `None` if there is none, or, unless
    /// `waits`, if it is not ready.
    ///
    /// # Errors
    /// It could not be compressed, or the thread has ended.
    pub(crate) fn receive(&mut self, waits: bool) -> io::Result<Option<BlockChunk>> {
        if self.sent == self.received {
            return Ok(None);
        }
        let thread = self.threads.get(self.received % self.threads.len()).ok_or_else(gone)?;
        let chunk = if waits {
            thread.packed.recv().map_err(|_| gone())??
        } else {
            match thread.packed.try_recv() {
                Ok(result) => result?,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(gone()),
            }
        };
        self.received += 1;
        self.packets -= chunk.packets;
        self.bytes -= chunk.plain.len() as u64;
        Ok(Some(chunk))
    }
}

impl Drop for ChunkPacker {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        for thread in &mut self.threads {
            thread.plain = None;
        }
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            let _ = handle.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("a compressing thread panicked: a defect")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Compression;

    /// Chunks that take different times arrive in order, and never more are pending than allowed.
    #[test]
    fn order_holds() {
        for threads in 1..=4 {
            let options =
                CompressionOptions { threads, ..CompressionOptions::fastest(Compression::Zstd) };
            let mut packer = ChunkPacker::start(options, Room::unlimited).unwrap();
            let (mut sent, mut received) = (0, 0);
            let mut check = |chunk: BlockChunk| {
                assert_eq!(chunk.packets, received);
                assert_eq!(
                    zstd_safe::get_frame_content_size(&chunk.compressed).unwrap(),
                    Some(chunk.plain.len() as u64)
                );
                received += 1;
            };
            while sent < 200 {
                while packer.has_room() {
                    let plain = vec![7; if sent % 3 == 0 { 300_000 } else { 1 }];
                    packer
                        .send(BlockChunk { plain, packets: sent, ..BlockChunk::default() })
                        .unwrap();
                    sent += 1;
                }
                check(packer.receive(true).unwrap().unwrap());
                while let Some(chunk) = packer.receive(false).unwrap() {
                    check(chunk);
                }
            }
            while let Some(chunk) = packer.receive(true).unwrap() {
                check(chunk);
            }
            assert_eq!((sent, packer.packets(), packer.bytes()), (received, 0, 0));
        }
    }

    #[test]
    fn it_ends_with_chunks_on_their_way() {
        let options = CompressionOptions::fastest(Compression::Gzip);
        let mut packer = ChunkPacker::start(options, Room::unlimited).unwrap();
        while packer.has_room() {
            packer.send(BlockChunk { plain: vec![1; 1 << 20], ..BlockChunk::default() }).unwrap();
        }
    }
}
