//! The pcapng decoder: a stream of blocks in, borrowed packets out.

use std::collections::VecDeque;
use std::io::Read;

use super::blocks::*;
use super::metadata::{self, MetadataBlock};
use super::options::{self, Of, survey};
use super::time::TimeScale;
use super::view::BlockView;
use crate::error::CaptureError;
use crate::input::{Availability, StreamWindow};
use crate::link_order;
use crate::losses::Losses;
use crate::record::{Direction, OddTimes, Record, Section, Source, Statistics};

/// Reads pcapng from a byte stream: any byte order, any number of sections, all kinds of packet
/// blocks.
///
/// [`MAX_BLOCK`] and [`MAX_INTERFACES`] bound its memory, whatever lengths the file states. Options
/// of packets and blocks of other kinds are returned unchanged, in the byte order of this machine.
pub struct PcapngReader<R> {
    window: StreamWindow<R>,
    /// The section is not in the byte order of this machine.
    swapped: bool,
    section: Option<Section>,
    interfaces: Vec<Source>,
    scales: Vec<TimeScale>,
    statistics: Vec<Option<Statistics>>,
    /// Index of the first interface of the current section.
    base: usize,
    packets: u64,
    odd_times: OddTimes,
    lost: Losses,
    /// Bytes of options of interfaces and sections that may still be kept.
    options_room: usize,
    finished: bool,
    current: Current,
    /// Options or a block in the byte order of this machine, if the file has the other order.
    translated: Vec<u8>,
    /// Blocks before the first packet that were read to find the interfaces.
    early: VecDeque<Vec<u8>>,
    /// The current block.
    metadata: ReadablePlace,
}

/// The place of bytes that a caller may read.
#[derive(Clone, Copy, Default)]
enum ReadablePlace {
    #[default]
    Nowhere,
    Window(usize, usize),
    Translated,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A packet.
    Packet,
    /// A block beside packets.
    Metadata,
    /// The end.
    End,
}

/// The current packet, with the position of its data in the window.
#[derive(Default)]
struct Current {
    interface: u32,
    timestamp: u64,
    original_len: u32,
    flags: u32,
    start: usize,
    len: usize,
    options: ReadablePlace,
}

/// The kind of one block.
enum BlockKind {
    Packet,
    Metadata,
    Other,
    End,
}

impl<R: Read> PcapngReader<R> {
    /// Reads from `source`; errors call it `name`.
    pub fn new(source: R, name: &str) -> Self {
        Self {
            window: StreamWindow::new(source, name.into()),
            swapped: false,
            section: None,
            interfaces: Vec::new(),
            scales: Vec::new(),
            statistics: Vec::new(),
            base: 0,
            packets: 0,
            odd_times: OddTimes::default(),
            lost: Losses::default(),
            options_room: MAX_OPTIONS,
            finished: false,
            current: Current::default(),
            translated: Vec::new(),
            early: VecDeque::new(),
            metadata: ReadablePlace::Nowhere,
        }
    }

    /// The next packet, or `None` at the end. After an error the reader is at its end. An exception
    /// is a source that would block: no data is lost, and the next call continues
    /// ([`CaptureError::is_would_block`]).
    ///
    /// # Errors
    /// The file is damaged or cannot be read; every packet before the damage was delivered.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        Ok(if self.advance()? { Some(self.current()) } else { None })
    }

    /// Moves to the next packet, over blocks of other kinds; false at the end.
    ///
    /// # Errors
    /// See [`PcapngReader::next_record`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        loop {
            match self.move_on()? {
                Step::Packet => return Ok(true),
                Step::Metadata => {}
                Step::End => return Ok(false),
            }
        }
    }

    /// Moves to the next packet, or to the next block beside packets: then
    /// [`PcapngReader::metadata`] returns it.
    ///
    /// # Errors
    /// See [`PcapngReader::next_record`].
    #[inline]
    pub fn step(&mut self) -> Result<Step, CaptureError> {
        if let Some(block) = self.early.pop_front() {
            self.translated = block;
            self.metadata = ReadablePlace::Translated;
            return Ok(Step::Metadata);
        }
        self.move_on()
    }

    /// Moves to the next block that is not among the early ones.
    #[inline]
    fn move_on(&mut self) -> Result<Step, CaptureError> {
        while !self.finished {
            match self.block() {
                Ok(BlockKind::Packet) => {
                    self.packets += 1;
                    return Ok(Step::Packet);
                }
                Ok(BlockKind::Metadata) => return Ok(Step::Metadata),
                Ok(BlockKind::Other) => {}
                Ok(BlockKind::End) => self.finished = true,
                Err(error) => {
                    self.finished = !error.is_would_block();
                    self.current = Current::default();
                    return Err(error);
                }
            }
        }
        self.current = Current::default();
        Ok(Step::End)
    }

    /// The packet that [`PcapngReader::advance`] moved to; empty when there is none.
    #[inline]
    pub fn current(&self) -> Record<'_> {
        Record {
            interface: self.current.interface,
            timestamp: self.current.timestamp,
            original_len: self.current.original_len,
            direction: match self.current.flags & 3 {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                _ => Direction::Unknown,
            },
            data: self.window.slice(self.current.start, self.current.len),
        }
    }

    /// The whole options of the packet that [`PcapngReader::advance`] moved to, in the byte order
    /// of this machine, without the end-of-options option; empty if there are none.
    /// [`options`](super::options) parses them.
    #[inline]
    pub fn options(&self) -> &[u8] {
        match self.current.options {
            ReadablePlace::Nowhere => &[],
            place => self.at(place),
        }
    }

    /// Bytes of the frame check sequence at the end of the current packet, if the file states it. A
    /// length for the packet (`epb_flags`) overrides the length for its interface.
    pub fn fcs_len(&self) -> Option<u8> {
        let own = (self.current.flags >> 5 & 15) as u8;
        let of_interface = || self.interfaces.get(self.current.interface as usize)?.fcs_len;
        if own > 0 { Some(own) } else { of_interface() }
    }

    /// The block that [`PcapngReader::step`] moved to.
    pub fn metadata(&self) -> Option<MetadataBlock<'_>> {
        MetadataBlock::new(self.at(self.metadata))
    }

    /// Contents of the file that a copy cannot receive.
    pub fn lost(&self) -> Losses {
        self.lost
    }

    fn at(&self, place: ReadablePlace) -> &[u8] {
        match place {
            ReadablePlace::Nowhere => &[],
            ReadablePlace::Window(start, len) => self.window.slice(start, len),
            ReadablePlace::Translated => &self.translated,
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

    /// The header of the first section, with the comments and other options of all sections so far.
    pub fn section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    /// Counts the packets so far whose time cannot be represented exactly.
    pub fn odd_times(&self) -> OddTimes {
        self.odd_times
    }

    /// Packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Reads up to the first packet, so that the interfaces are known before it. Reading a packet
    /// does the same.
    ///
    /// # Errors
    /// See [`PcapngReader::next_record`].
    pub fn open(&mut self) -> Result<(), CaptureError> {
        let mut early = 0;
        while self.window.need(BLOCK_OVERHEAD)? != Availability::Empty {
            let is_packet =
                matches!(self.word(0), ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET);
            if self.section.is_some() && is_packet || early > MAX_EARLY {
                break;
            }
            if let BlockKind::Metadata = self.block()? {
                let block = self.at(self.metadata).to_vec();
                early += block.len();
                self.early.push_back(block);
            }
        }
        Ok(())
    }

    #[inline]
    fn block(&mut self) -> Result<BlockKind, CaptureError> {
        match self.window.need(BLOCK_OVERHEAD)? {
            Availability::Whole => {}
            Availability::Partial => return Err(self.truncated()),
            Availability::Empty => return Ok(BlockKind::End),
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
        if self.window.need(len)? != Availability::Whole {
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
            _ => Ok(self.other(kind, len)),
        };
        match result {
            Ok(block) => {
                if self.swapped && matches!(block, BlockKind::Packet) {
                    self.turn_link_header();
                }
                self.window.consume(len);
                Ok(block)
            }
            Err(what) => Err(self.malformed(what)),
        }
    }

    #[inline]
    fn enhanced_packet(&mut self, len: usize) -> Result<BlockKind, &'static str> {
        if len < PACKET_HEADER + 4 {
            return Err("packet block too short");
        }
        let mut header = self.window.words::<{ PACKET_HEADER / 4 }>();
        if self.swapped {
            header = header.map(u32::swap_bytes);
        }
        let [_, _, interface, high, low, captured, original_len] = header;
        let (interface, scale) = self.interface_of(interface)?;
        let captured = captured as usize;
        let room = len - PACKET_HEADER - 4;
        if captured > room {
            return Err("packet longer than its block");
        }
        let padded = (captured + 3) & !3;
        let (flags, options) = match padded < room {
            true => self.packet_options(PACKET_HEADER + padded, len - 4),
            false => (0, ReadablePlace::Nowhere),
        };
        self.current = Current {
            interface,
            timestamp: scale.of_packet(high, low, &mut self.odd_times),
            original_len,
            flags,
            start: self.window.position() + PACKET_HEADER,
            len: captured,
            options,
        };
        Ok(BlockKind::Packet)
    }

    /// A simple packet block belongs to the section's first interface, and only the snap length of
    /// that interface determines the captured length.
    fn simple_packet(&mut self, len: usize) -> Result<BlockKind, &'static str> {
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
            flags: 0,
            start: self.window.position() + 12,
            len: (limit as usize).min(len - 16),
            options: ReadablePlace::Nowhere,
        };
        Ok(BlockKind::Packet)
    }

    fn obsolete_packet(&mut self, len: usize) -> Result<BlockKind, &'static str> {
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
        // Its options have the codes of the enhanced packet block, which replaced it.
        let (flags, options) = self.packet_options(PACKET_HEADER + ((captured + 3) & !3), len - 4);
        // 0xffff: unknown.
        self.lost.packet_options += u64::from(!matches!(self.half(10), 0 | 0xffff));
        self.current = Current {
            interface,
            timestamp,
            original_len: self.word(24),
            flags,
            start: self.window.position() + PACKET_HEADER,
            len: captured,
            options,
        };
        Ok(BlockKind::Packet)
    }

    #[inline(never)]
    fn turn_link_header(&mut self) {
        let Some(source) = self.interfaces.get(self.current.interface as usize) else { return };
        let packet = self.window.slice_mut(self.current.start, self.current.len);
        link_order::to_native(source.link_type, packet);
    }

    /// Determines the byte order of a section before its length is read.
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

    fn section_header(&mut self, len: usize) -> Result<BlockKind, &'static str> {
        let view = BlockView {
            bytes: self.window.bytes().get(..len).unwrap_or_default(),
            is_swapped: self.swapped,
        };
        let section = view.section(&mut self.options_room, &mut self.lost)?;
        match &mut self.section {
            Some(first) => {
                if first.options != section.options {
                    first.options.extend_from_slice(&section.options);
                }
                self.lost.file_options += first.differences(&section);
            }
            None => self.section = Some(section),
        }
        self.base = self.interfaces.len();
        Ok(BlockKind::Other)
    }

    fn interface(&mut self, len: usize) -> Result<BlockKind, &'static str> {
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err("more than 65536 interfaces");
        }
        let view = BlockView {
            bytes: self.window.bytes().get(..len).unwrap_or_default(),
            is_swapped: self.swapped,
        };
        let (source, scale) = view.interface(&mut self.options_room, &mut self.lost)?;
        self.interfaces.push(source);
        self.scales.push(scale);
        self.statistics.push(None);
        Ok(BlockKind::Other)
    }

    fn interface_statistics(&mut self, len: usize) -> Result<BlockKind, &'static str> {
        if len < 24 {
            return Err("interface statistics too short");
        }
        let Ok((interface, scale)) = self.interface_of(self.word(8)) else {
            // dumpcap and other programs write statistics for interfaces that they describe later
            // or never.
            self.lost.statistics += 1;
            return Ok(BlockKind::Other);
        };
        let view = BlockView {
            bytes: self.window.bytes().get(..len).unwrap_or_default(),
            is_swapped: self.swapped,
        };
        if let Some(slot) = self.statistics.get_mut(interface as usize) {
            *slot = Some(view.statistics(interface, scale));
        }
        Ok(BlockKind::Other)
    }

    /// Keeps a block that is copied as a whole, if that is permitted and possible.
    #[cold]
    fn other(&mut self, kind: u32, len: usize) -> BlockKind {
        if metadata::is_private(kind) {
            self.lost.private += 1;
            return BlockKind::Other;
        }
        self.metadata = ReadablePlace::Window(self.window.position(), len);
        if self.swapped {
            let block = self.window.bytes().get(..len).unwrap_or_default();
            if !metadata::translate(kind, block, &mut self.translated, &mut self.lost) {
                self.lost.untranslated += 1;
                return BlockKind::Other;
            }
            self.metadata = ReadablePlace::Translated;
        }
        BlockKind::Metadata
    }

    /// The flags and the options of a packet, between two offsets of its block.
    #[inline(never)]
    fn packet_options(&mut self, start: usize, end: usize) -> (u32, ReadablePlace) {
        let bytes = self.window.bytes().get(start..end).unwrap_or_default();
        let mut found = survey(bytes);
        let mut place = ReadablePlace::Window(self.window.position() + start, found.len);
        if self.swapped || found.has_private {
            self.translated.clear();
            let (out, lost) = (&mut self.translated, &mut self.lost);
            options::copy(Of::Packet, self.swapped, bytes, out, lost, |_, _| true);
            found = survey(out);
            place = ReadablePlace::Translated;
        }
        (found.flags.unwrap_or(0), if found.len > 0 { place } else { ReadablePlace::Nowhere })
    }

    /// Index over all sections, and time scale, of interface `id` of the current section.
    #[inline]
    fn interface_of(&self, id: u32) -> Result<(u32, TimeScale), &'static str> {
        let index = self.base.saturating_add(id as usize);
        match self.scales.get(index) {
            Some(scale) => Ok((index as u32, *scale)),
            None => Err("a block names an interface that was not described"),
        }
    }

    /// The 32-bit word at an offset in the current block. Callers have checked the length.
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
