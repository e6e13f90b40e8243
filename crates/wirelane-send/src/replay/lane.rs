//! The packet source of one sending thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};

use wirelane::Error;
use wirelane::halt::Halt;
use wirelane::pcap::Cancel;
use wirelane_gen::rewrite::{LoopChanges, Rewrite};
use wirelane_gen::{Departure, PacketSource};

use super::block::{BlockPacket, PacketBlock};
use super::clock::DueScale;

/// The packets of one lane, in the order of the files.
pub struct ReplayLane {
    supply: Supply,
    /// If false, the lane sends as fast as possible: all packets are due at time 0.
    is_paced: bool,
    scale: DueScale,
    rewrite: Arc<Rewrite>,
    round: Option<LoopChanges>,
    /// The loop of `round`.
    number: u64,
    next: Option<(BlockPacket, Departure)>,
    /// An error of the reader, reported after all packets before it were sent.
    failure: Option<Error>,
}

/// The source of blocks.
pub(super) enum Supply {
    Loaded(Loaded),
    Streamed(Streamed),
}

/// Blocks in memory, repeated for each loop.
pub(super) struct Loaded {
    pub(super) blocks: Arc<[PacketBlock]>,
    /// The next packet: its block, its index in the block, its loop, and the place where the loop
    /// begins.
    pub(super) block: usize,
    pub(super) packet: usize,
    pub(super) number: u64,
    pub(super) base: u64,
    /// The number of loops, 0 for no limit, and the distance between two loops.
    pub(super) loops: u64,
    pub(super) period: u64,
}

/// Blocks from the reading thread.
pub(super) struct Streamed {
    pub(super) blocks: Receiver<Result<PacketBlock, Error>>,
    /// Returns used blocks to the reader.
    pub(super) used: Sender<PacketBlock>,
    pub(super) block: PacketBlock,
    pub(super) packet: usize,
    pub(super) halt: Halt,
    /// Stops the reader when the last lane is dropped.
    pub(super) _reader: Arc<StopReader>,
}

/// Stops the reading thread when dropped.
#[derive(Debug)]
pub(super) struct StopReader(pub(super) Halt);

impl Drop for StopReader {
    fn drop(&mut self) {
        self.0.ask();
    }
}

impl ReplayLane {
    pub(super) fn new(
        supply: Supply,
        scale: DueScale,
        is_paced: bool,
        rewrite: Arc<Rewrite>,
        failure: Option<Error>,
    ) -> Self {
        let round = rewrite.in_loop(0);
        Self { supply, is_paced, scale, rewrite, round, number: 0, next: None, failure }
    }

    #[inline]
    fn seek(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        let found = match &mut self.supply {
            Supply::Loaded(loaded) => loaded.seek(),
            Supply::Streamed(streamed) => {
                streamed.seek().map_err(wirelane_gen::Error::of_source)?
            }
        };
        let Some(NextPacket { packet, place, number }) = found else {
            return self
                .failure
                .take()
                .map_or(Ok(None), |error| Err(wirelane_gen::Error::of_source(error)));
        };
        if number != self.number {
            self.number = number;
            self.round = self.rewrite.in_loop(number);
        }
        let at = if self.is_paced { self.scale.due(place) } else { 0 };
        let departure = Departure { at, len: packet.len as usize, stream: packet.file };
        self.next = Some((packet, departure));
        Ok(Some(departure))
    }
}

// These methods are called through `dyn PacketSource`. With `#[inline]`, they would be compiled in
// the crate that creates the box: the command, which is not optimised.
impl PacketSource for ReplayLane {
    fn next(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        match self.next {
            Some((_, departure)) => Ok(Some(departure)),
            None => self.seek(),
        }
    }

    fn write(&mut self, packet: &mut [u8], _now: u64) {
        let Some((stored, _)) = self.next.take() else { return };
        let from = self.supply.bytes(&stored);
        let count = from.len().min(packet.len());
        if let (Some(to), Some(from)) = (packet.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
            if let Some(round) = &self.round {
                round.apply(to);
            }
        }
        let end = (stored.len as usize).min(packet.len());
        if let Some(rest) = packet.get_mut(count..end) {
            rest.fill(0);
        }
        self.supply.advance();
    }

    fn skip(&mut self) {
        if self.next.take().is_some() {
            self.supply.advance();
        }
    }
}

/// The next packet of a supply.
struct NextPacket {
    packet: BlockPacket,
    place: u64,
    /// The loop of the packet.
    number: u64,
}

impl Supply {
    #[inline]
    fn bytes(&self, packet: &BlockPacket) -> &[u8] {
        let block = match self {
            Self::Loaded(loaded) => loaded.blocks.get(loaded.block),
            Self::Streamed(streamed) => Some(&streamed.block),
        };
        let begin = packet.begin as usize;
        block.and_then(|it| it.bytes.get(begin..begin + packet.stored as usize)).unwrap_or_default()
    }

    #[inline]
    fn advance(&mut self) {
        match self {
            Self::Loaded(loaded) => loaded.packet += 1,
            Self::Streamed(streamed) => streamed.packet += 1,
        }
    }
}

impl Loaded {
    #[inline]
    fn seek(&mut self) -> Option<NextPacket> {
        loop {
            if let Some(block) = self.blocks.get(self.block) {
                if let Some(packet) = block.packets.get(self.packet) {
                    let place = self.base.saturating_add(packet.place);
                    return Some(NextPacket { packet: *packet, place, number: self.number });
                }
                self.block += 1;
                self.packet = 0;
            } else if self.blocks.is_empty() || self.loops > 0 && self.number + 1 >= self.loops {
                return None;
            } else {
                self.number += 1;
                self.base = self.base.saturating_add(self.period);
                self.block = 0;
            }
        }
    }
}

impl Streamed {
    #[inline]
    fn seek(&mut self) -> Result<Option<NextPacket>, Error> {
        loop {
            if let Some(packet) = self.block.packets.get(self.packet) {
                let (place, number) = (packet.place, self.block.number);
                return Ok(Some(NextPacket { packet: *packet, place, number }));
            }
            match self.receive()? {
                Some(block) => {
                    let used = std::mem::replace(&mut self.block, block);
                    // Ignores the error if the reader has ended.
                    let _ = self.used.send(used);
                    self.packet = 0;
                }
                None => return Ok(None),
            }
        }
    }

    /// Waits for the next block. Returns `None` after the last block or a requested halt.
    #[cold]
    fn receive(&mut self) -> Result<Option<PacketBlock>, Error> {
        loop {
            match self.blocks.recv_timeout(Cancel::NAP) {
                Ok(block) => return block.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if self.halt.is_asked() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
