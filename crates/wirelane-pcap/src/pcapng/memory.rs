//! Decodes blocks in memory, in the byte order of this machine, without copying.

use super::blocks::*;
use super::counters;
use super::options::options;
use crate::error::CaptureError;
use crate::record::{Direction, Record, Statistics};

/// Iterates over whole blocks in memory: packets, statistics, and blocks of other types.
///
/// The blocks must have the byte order of this machine, and their interfaces must count
/// nanoseconds, as in all output of this crate. [`PcapngReader`](super::PcapngReader) reads other
/// blocks. For any input, the iterator ends, and each block is inside the input.
///
/// ```
/// use wirelane_pcap::pcapng::{self, Content};
/// use wirelane_pcap::{Direction, Record};
///
/// let direction = Direction::Inbound;
/// let record = Record { interface: 0, timestamp: 7, original_len: 60, direction, data: &[1; 14] };
/// let mut bytes = Vec::new();
/// pcapng::packet_with_comment(&mut bytes, &record, "the first");
///
/// let block = pcapng::blocks(&bytes).next().unwrap().unwrap();
/// let Content::Packet { record: read, .. } = block.content else { unreachable!() };
/// assert_eq!(read, record);
/// assert_eq!(block.comment(), Some("the first"));
/// ```
#[must_use]
pub fn blocks(bytes: &[u8]) -> Blocks<'_> {
    Blocks { bytes, at: 0 }
}

/// An iterator over blocks; see [`blocks`]. After an error it ends.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A block in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Where it starts, in bytes.
    pub offset: usize,
    /// All of its bytes.
    pub bytes: &'a [u8],
    /// Its contents.
    pub content: Content<'a>,
}

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A packet (enhanced packet block).
    Packet {
        /// The packet.
        record: Record<'a>,
        /// Its options, in their coding; empty if there are none.
        options: &'a [u8],
    },
    /// Counters of an interface.
    Statistics(Statistics),
    /// A block of any other type.
    Other(u32),
}

/// A block that this crate cannot have written. It allocates nothing; [`CaptureError`] has the
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// Where it starts, in bytes.
    pub offset: usize,
    /// The contradiction.
    pub what: &'static str,
}

impl From<BadBlock> for CaptureError {
    fn from(BadBlock { offset, what }: BadBlock) -> Self {
        Self::Malformed { name: "blocks in memory".into(), offset: offset as u64, what }
    }
}

impl<'a> Block<'a> {
    /// The options of a packet, in their coding.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        match self.content {
            Content::Packet { options, .. } => options,
            Content::Statistics(_) | Content::Other(_) => &[],
        }
    }

    /// The first comment of a packet, if it has one that is text.
    #[must_use]
    pub fn comment(&self) -> Option<&'a str> {
        match self.content {
            Content::Packet { options, .. } => comment(options),
            Content::Statistics(_) | Content::Other(_) => None,
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, BadBlock>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.at;
        let rest = self.bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        let block = block(rest);
        self.at = match block {
            Ok((_, bytes)) => offset + bytes.len(),
            Err(_) => self.bytes.len(),
        };
        Some(match block {
            Ok((content, bytes)) => Ok(Block { offset, bytes, content }),
            Err(what) => Err(BadBlock { offset, what }),
        })
    }
}

/// The block that `rest` starts with.
#[inline]
fn block(rest: &[u8]) -> Result<(Content<'_>, &[u8]), &'static str> {
    let Some([kind, len]) = rest.first_chunk::<8>().map(words) else {
        return Err("less is left than a block needs");
    };
    let size = len as usize;
    if size < BLOCK_OVERHEAD || !size.is_multiple_of(4) {
        return Err("impossible block length");
    }
    let Some((bytes, trailer)) = rest.get(..size).and_then(<[u8]>::split_last_chunk::<4>) else {
        return Err("a block is longer than what is left");
    };
    if u32::from_ne_bytes(*trailer) != len {
        return Err("the two lengths of a block differ");
    }
    let content = match kind {
        ENHANCED_PACKET => packet(bytes)?,
        INTERFACE_STATISTICS => statistics(bytes)?,
        kind => Content::Other(kind),
    };
    Ok((content, rest.get(..size).unwrap_or_default()))
}

/// The packet of a block, given without its trailer.
#[inline]
fn packet(block: &[u8]) -> Result<Content<'_>, &'static str> {
    let Some((header, rest)) = block.split_first_chunk::<PACKET_HEADER>() else {
        return Err("packet block too short");
    };
    let [_, _, interface, high, low, captured, original_len] = words(header);
    let captured = captured as usize;
    let Some(data) = rest.get(..captured) else { return Err("packet longer than its block") };
    let options = rest.get(captured.next_multiple_of(4)..).unwrap_or_default();
    let direction = if options.is_empty() { Direction::Unknown } else { direction(options) };
    let timestamp = u64::from(high) << 32 | u64::from(low);
    let record = Record { interface, timestamp, original_len, direction, data };
    Ok(Content::Packet { record, options })
}

/// The counters of a block, given without its trailer.
fn statistics(block: &[u8]) -> Result<Content<'_>, &'static str> {
    let Some((header, rest)) = block.split_first_chunk::<20>() else {
        return Err("interface statistics too short");
    };
    let [_, _, interface, high, low] = words(header);
    let timestamp = u64::from(high) << 32 | u64::from(low);
    let mut statistics = Statistics { interface, timestamp, ..Statistics::default() };
    for (code, value) in options(rest) {
        let Some(value) = value.first_chunk::<8>() else { continue };
        let [high, low] = words(value);
        let time = || Some(u64::from(high) << 32 | u64::from(low));
        counters::note(&mut statistics, code, u64::from_ne_bytes(*value), time);
    }
    Ok(Content::Statistics(statistics))
}

#[cold]
fn direction(bytes: &[u8]) -> Direction {
    let flags = options(bytes).find(|(code, _)| *code == EPB_FLAGS);
    match flags.and_then(|(_, value)| value.first_chunk()).map(|flags| u32::from_ne_bytes(*flags)) {
        Some(flags) if flags & 3 == 1 => Direction::Inbound,
        Some(flags) if flags & 3 == 2 => Direction::Outbound,
        _ => Direction::Unknown,
    }
}

/// The first comment among the options of a packet, if it is text.
fn comment(bytes: &[u8]) -> Option<&str> {
    let (_, text) = options(bytes).find(|(code, _)| *code == OPT_COMMENT)?;
    std::str::from_utf8(text).ok()
}

/// Consecutive numbers of 32 bits.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    const { assert!(BYTES == 4 * WORDS) }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}
