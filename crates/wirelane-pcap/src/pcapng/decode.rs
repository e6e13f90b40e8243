//! The pcapng decoder: a stream of blocks in, borrowed packets out.

use std::io::Read;

use super::blocks::*;
use super::time::{Scale, in_range};
use crate::error::CaptureError;
use crate::input::{Filled, Window};
use crate::link_order;
use crate::record::{Direction, OddTimes, Record, Section, Source, Statistics};

/// Reads pcapng from a byte stream: any byte order, any number of sections, all kinds of packet blocks.
///
/// Memory is bounded by [`MAX_BLOCK`] and [`MAX_INTERFACES`], whatever the file claims.
pub struct PcapngReader<R> {
    window: Window<R>,
    /// The section is not in the byte order of this machine.
    swapped: bool,
    section: Option<Section>,
    interfaces: Vec<Source>,
    scales: Vec<Scale>,
    statistics: Vec<Option<Statistics>>,
    /// Index of the first interface of the current section.
    base: usize,
    packets: u64,
    odd_times: OddTimes,
    finished: bool,
    current: Current,
}

/// The current packet, its data as a place in the window.
#[derive(Default)]
struct Current {
    interface: u32,
    timestamp: u64,
    original_len: u32,
    direction: Direction,
    start: usize,
    len: usize,
}

/// What one block was.
enum Block {
    Packet,
    Other,
    End,
}

impl<R: Read> PcapngReader<R> {
    /// Reads from `source`; errors call it `name`.
    pub fn new(source: R, name: &str) -> Self {
        Self {
            window: Window::new(source, name.into()),
            swapped: false,
            section: None,
            interfaces: Vec::new(),
            scales: Vec::new(),
            statistics: Vec::new(),
            base: 0,
            packets: 0,
            odd_times: OddTimes::default(),
            finished: false,
            current: Current::default(),
        }
    }

    /// The next packet, or `None` at the end. After an error the end is reached, unless it is that of a source that
    /// would block: of that, nothing is lost, and the next call goes on ([`CaptureError::is_would_block`]).
    ///
    /// # Errors
    /// The file is damaged or cannot be read; every packet before the damage was delivered.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        Ok(if self.advance()? { Some(self.current()) } else { None })
    }

    /// Moves to the next packet; false at the end.
    ///
    /// # Errors
    /// See [`PcapngReader::next_record`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        while !self.finished {
            match self.block() {
                Ok(Block::Packet) => {
                    self.packets += 1;
                    return Ok(true);
                }
                Ok(Block::Other) => {}
                Ok(Block::End) => self.finished = true,
                Err(error) => {
                    self.finished = !error.is_would_block();
                    self.current = Current::default();
                    return Err(error);
                }
            }
        }
        self.current = Current::default();
        Ok(false)
    }

    /// The packet that [`PcapngReader::advance`] moved to; empty when there is none.
    #[inline]
    pub fn current(&self) -> Record<'_> {
        Record {
            interface: self.current.interface,
            timestamp: self.current.timestamp,
            original_len: self.current.original_len,
            direction: self.current.direction,
            data: self.window.slice(self.current.start, self.current.len),
        }
    }

    /// The interfaces described so far, over all sections.
    pub fn interfaces(&self) -> &[Source] {
        &self.interfaces
    }

    /// The last statistics seen of each interface.
    pub fn statistics(&self) -> impl Iterator<Item = &Statistics> {
        self.statistics.iter().flatten()
    }

    /// Who wrote the first section.
    pub fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    /// How many packets so far had a time in the file that is not theirs here.
    pub fn odd_times(&self) -> OddTimes {
        self.odd_times
    }

    /// Packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Reads up to the first packet, so that the interfaces are known before it. Done by itself otherwise.
    ///
    /// # Errors
    /// See [`PcapngReader::next_record`].
    pub fn open(&mut self) -> Result<(), CaptureError> {
        while self.window.need(BLOCK_OVERHEAD)? != Filled::Empty {
            let is_packet =
                matches!(self.word(0), ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET);
            if self.section.is_some() && is_packet {
                break;
            }
            self.block()?;
        }
        Ok(())
    }

    #[inline]
    fn block(&mut self) -> Result<Block, CaptureError> {
        match self.window.need(BLOCK_OVERHEAD)? {
            Filled::Whole => {}
            Filled::Partial => return Err(self.truncated()),
            Filled::Empty => return Ok(Block::End),
        }
        let kind = self.word(0);
        if kind == SECTION_HEADER {
            self.byte_order()?;
        } else if self.section.is_none() {
            return Err(self.malformed("it does not start with a section header block"));
        }
        let len = self.word(4) as usize;
        if len < BLOCK_OVERHEAD || !len.is_multiple_of(4) {
            return Err(self.malformed("impossible block length"));
        }
        if len > MAX_BLOCK {
            return Err(self.malformed("block longer than 16 MiB"));
        }
        if self.window.need(len)? != Filled::Whole {
            return Err(self.truncated());
        }
        if self.word(len - 4) as usize != len {
            return Err(self.malformed("the two lengths of a block differ"));
        }
        let result = match kind {
            ENHANCED_PACKET => self.enhanced_packet(len),
            SIMPLE_PACKET => self.simple_packet(len),
            OBSOLETE_PACKET => self.obsolete_packet(len),
            SECTION_HEADER => self.section_header(len),
            INTERFACE_DESCRIPTION => self.interface(len),
            INTERFACE_STATISTICS => self.interface_statistics(len),
            _ => Ok(Block::Other),
        };
        match result {
            Ok(block) => {
                if self.swapped && matches!(block, Block::Packet) {
                    self.turn_link_header();
                }
                self.window.consume(len);
                Ok(block)
            }
            Err(what) => Err(self.malformed(what)),
        }
    }

    #[inline]
    fn enhanced_packet(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < PACKET_HEADER + 4 {
            return Err("packet block too short");
        }
        let (interface, scale) = self.interface_of(self.word(8))?;
        let (high, low, captured) = (self.word(12), self.word(16), self.word(20) as usize);
        let room = len - PACKET_HEADER - 4;
        if captured > room {
            return Err("packet longer than its block");
        }
        let mut direction = Direction::Unknown;
        let padded = (captured + 3) & !3;
        if padded < room {
            let flags =
                self.options(PACKET_HEADER + padded, len).find(|(code, _)| *code == EPB_FLAGS);
            direction = match flags
                .and_then(|(_, value)| value.first_chunk())
                .map(|bytes| self.u32(*bytes) & 3)
            {
                Some(1) => Direction::Inbound,
                Some(2) => Direction::Outbound,
                _ => Direction::Unknown,
            };
        }
        self.current = Current {
            interface,
            timestamp: scale.of_packet(high, low, &mut self.odd_times),
            original_len: self.word(24),
            direction,
            start: self.window.position() + PACKET_HEADER,
            len: captured,
        };
        Ok(Block::Packet)
    }

    /// A simple packet block belongs to the section's first interface, and only its snap length says how much of the
    /// packet is there.
    fn simple_packet(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < 16 {
            return Err("packet block too short");
        }
        let (interface, _) = self.interface_of(0)?;
        let original_len = self.word(8);
        let snaplen = self.interfaces.get(interface as usize).map_or(0, |source| source.snaplen);
        self.odd_times.missing += 1;
        let limit = if snaplen == 0 { original_len } else { original_len.min(snaplen) };
        self.current = Current {
            interface,
            timestamp: 0,
            original_len,
            direction: Direction::Unknown,
            start: self.window.position() + 12,
            len: (limit as usize).min(len - 16),
        };
        Ok(Block::Packet)
    }

    fn obsolete_packet(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < PACKET_HEADER + 4 {
            return Err("packet block too short");
        }
        // A 16-bit interface and a 16-bit drop count share the first word.
        let (interface, scale) = self.interface_of(u32::from(self.half(8)))?;
        let captured = self.word(20) as usize;
        if captured > len - PACKET_HEADER - 4 {
            return Err("packet longer than its block");
        }
        let (high, low) = (self.word(12), self.word(16));
        let timestamp = scale.of_packet(high, low, &mut self.odd_times);
        self.current = Current {
            interface,
            timestamp,
            original_len: self.word(24),
            direction: Direction::Unknown,
            start: self.window.position() + PACKET_HEADER,
            len: captured,
        };
        Ok(Block::Packet)
    }

    #[inline(never)]
    fn turn_link_header(&mut self) {
        let Some(source) = self.interfaces.get(self.current.interface as usize) else { return };
        let packet = self.window.slice_mut(self.current.start, self.current.len);
        link_order::to_native(source.link_type, packet);
    }

    /// Learns the byte order of a section before its length is looked at.
    fn byte_order(&mut self) -> Result<(), CaptureError> {
        self.swapped = false;
        let magic = self.word(8);
        self.swapped = magic != BYTE_ORDER_MAGIC;
        if magic == BYTE_ORDER_MAGIC || magic.swap_bytes() == BYTE_ORDER_MAGIC {
            Ok(())
        } else {
            Err(self.malformed("unknown byte-order magic in a section header"))
        }
    }

    fn section_header(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < 28 {
            return Err("section header too short");
        }
        if self.half(12) != 1 {
            return Err("pcapng version other than 1");
        }
        let mut section = Section::default();
        for (code, value) in self.options(24, len) {
            match code {
                SHB_HARDWARE => section.hardware = text(value),
                SHB_OS => section.os = text(value),
                SHB_APPLICATION => section.application = text(value),
                _ => {}
            }
        }
        self.section.get_or_insert(section);
        self.base = self.interfaces.len();
        Ok(Block::Other)
    }

    fn interface(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < 20 {
            return Err("interface description too short");
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err("more than 65536 interfaces");
        }
        let mut source =
            Source { link_type: self.half(8), snaplen: self.word(12), ..Source::default() };
        let (mut resolution, mut offset) = (6, 0);
        for (code, value) in self.options(16, len) {
            match code {
                IF_NAME => source.name = text(value),
                IF_DESCRIPTION => source.set_description(text(value)),
                IF_SPEED => source.speed = value.first_chunk().map(|bytes| self.u64(*bytes)),
                IF_TSRESOL => resolution = value.first().copied().unwrap_or(resolution),
                IF_FILTER => {
                    source.filter =
                        value.split_first().filter(|(kind, _)| **kind == 0).map(|(_, v)| text(v))
                }
                IF_OS => source.os = Some(text(value)),
                IF_TSOFFSET => {
                    offset = value.first_chunk().map_or(0, |bytes| self.u64(*bytes).cast_signed())
                }
                IF_FCSLEN => source.fcs_len = value.first().copied(),
                IF_HARDWARE => source.hardware = Some(text(value)),
                _ => {}
            }
        }
        self.interfaces.push(source);
        self.scales.push(Scale::new(resolution, offset));
        self.statistics.push(None);
        Ok(Block::Other)
    }

    fn interface_statistics(&mut self, len: usize) -> Result<Block, &'static str> {
        if len < 24 {
            return Err("interface statistics too short");
        }
        let (interface, scale) = self.interface_of(self.word(8))?;
        let timestamp = in_range(scale.nanoseconds(self.word(12), self.word(16)).0);
        let mut statistics = Statistics { interface, timestamp, ..Statistics::default() };
        for (code, value) in self.options(20, len) {
            let Some(bytes @ &[a, b, c, d, e, f, g, h]) = value.first_chunk::<8>() else {
                continue;
            };
            // Better none than another one.
            let time = || {
                scale.nanoseconds(self.u32([a, b, c, d]), self.u32([e, f, g, h])).0.try_into().ok()
            };
            let count = Some(self.u64(*bytes));
            match code {
                ISB_START => statistics.start = time(),
                ISB_END => statistics.end = time(),
                ISB_RECEIVED => statistics.received = count,
                ISB_DROPPED => statistics.dropped = count,
                ISB_FILTER_ACCEPTED => statistics.filter_accepted = count,
                ISB_OS_DROPPED => statistics.os_dropped = count,
                ISB_DELIVERED => statistics.delivered = count,
                _ => {}
            }
        }
        if let Some(slot) = self.statistics.get_mut(interface as usize) {
            *slot = Some(statistics);
        }
        Ok(Block::Other)
    }

    /// Index over all sections, and time scale, of interface `id` of this section.
    #[inline]
    fn interface_of(&self, id: u32) -> Result<(u32, Scale), &'static str> {
        let index = self.base.saturating_add(id as usize);
        match self.scales.get(index) {
            Some(scale) => Ok((index as u32, *scale)),
            None => Err("a block names an interface that was not described"),
        }
    }

    /// The options between two places of the current block; they end where one does not fit.
    fn options(&self, start: usize, block_len: usize) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = self.window.bytes().get(start..block_len - 4).unwrap_or_default();
        std::iter::from_fn(move || {
            let (&[a, b, c, d], after) = rest.split_first_chunk::<4>()?;
            let (code, len) = (self.u16([a, b]), usize::from(self.u16([c, d])));
            let value = after.get(..len)?;
            rest = after.get((len + 3) & !3..).unwrap_or_default();
            (code != OPT_END).then_some((code, value))
        })
    }

    /// The 32-bit word at a place in the current block. Callers have checked the length.
    #[inline]
    fn word(&self, at: usize) -> u32 {
        let bytes = self.window.bytes().get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| self.u32(*bytes))
    }

    /// The 16-bit number at byte `at` of the current block.
    fn half(&self, at: usize) -> u16 {
        let bytes = self.window.bytes().get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| self.u16(*bytes))
    }

    #[inline]
    fn u32(&self, bytes: [u8; 4]) -> u32 {
        let value = u32::from_ne_bytes(bytes);
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u16(&self, bytes: [u8; 2]) -> u16 {
        let value = u16::from_ne_bytes(bytes);
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u64(&self, bytes: [u8; 8]) -> u64 {
        let value = u64::from_ne_bytes(bytes);
        if self.swapped { value.swap_bytes() } else { value }
    }

    #[cold]
    fn truncated(&self) -> CaptureError {
        let name = self.window.name().into();
        CaptureError::Truncated { name, offset: self.window.offset(), packets: self.packets }
    }

    #[cold]
    fn malformed(&self, what: &'static str) -> CaptureError {
        CaptureError::Malformed {
            name: self.window.name().into(),
            offset: self.window.offset(),
            what,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    // Some writers count a terminating zero.
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
