//! Classic pcap (draft-ietf-opsawg-pcap): microseconds or nanoseconds, read in both byte orders.
//!
//! It holds packets of one link type and nothing about queues or drops; its packet header is 16
//! bytes instead of the 32 of pcapng.

use std::io::Read;

use crate::error::CaptureError;
use crate::input::{Availability, StreamWindow};
use crate::link_order;
use crate::pcapng::MAX_PACKET;
use crate::record::{Direction, Record, Source};

pub(crate) const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
pub(crate) const MAGIC_NANOSECONDS: u32 = 0xA1B2_3C4D;
/// Packets with extra fields, which patched libpcaps wrote in the 1990s and routers still write.
pub(crate) const MAGIC_MODIFIED: u32 = 0xA1B2_CD34;

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// The extra fields follow the usual ones: index of an interface (32 bits), EtherType (16), packet
/// type (8) and padding, as in `struct pcap_sf_patched_pkthdr` of libpcap. This reader ignores
/// them.
const MODIFIED_PACKET_HEADER: usize = 24;

/// The unit of the fraction of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Readable by every program.
    Microseconds,
    /// Readable by every program since about 2012.
    Nanoseconds,
}

impl Resolution {
    fn nanoseconds(self) -> u32 {
        match self {
            Self::Microseconds => 1000,
            Self::Nanoseconds => 1,
        }
    }
}

/// A flag in a file header: its upper bits hold the length of a frame check sequence, in words of
/// 16 bits.
const HAS_FCS: u32 = 1 << 26;

/// Appends the file header with the fields of `source` that it can hold: link type, snap length and
/// frame check sequence.
pub fn file_header(out: &mut Vec<u8>, resolution: Resolution, source: &Source) {
    let magic = match resolution {
        Resolution::Microseconds => MAGIC_MICROSECONDS,
        Resolution::Nanoseconds => MAGIC_NANOSECONDS,
    };
    let snaplen = if source.snaplen == 0 { MAX_PACKET as u32 } else { source.snaplen };
    let fcs = source.fcs_len.filter(|len| len.is_multiple_of(2) && *len < 32);
    let fcs = fcs.map_or(0, |len| HAS_FCS | u32::from(len / 2) << 28);
    out.extend_from_slice(&magic.to_ne_bytes());
    out.extend_from_slice(&2u16.to_ne_bytes());
    out.extend_from_slice(&4u16.to_ne_bytes());
    out.extend_from_slice(&[0; 8]); // time zone and accuracy, always 0
    out.extend_from_slice(&snaplen.to_ne_bytes());
    out.extend_from_slice(&(u32::from(source.link_type) | fcs).to_ne_bytes());
}

/// The first second since 1970 that the format cannot express: in February 2106.
pub(crate) const END_OF_TIME: u64 = 1 << 32;

/// Appends a packet, without its interface and direction, which the format cannot hold. Seconds
/// after 2106 wrap; [`CaptureWriter`](super::CaptureWriter) refuses them.
#[inline]
pub fn packet(out: &mut Vec<u8>, resolution: Resolution, record: &Record<'_>) {
    let data = record.data.get(..MAX_PACKET).unwrap_or(record.data);
    let seconds = (record.timestamp / 1_000_000_000) as u32;
    let fraction = (record.timestamp % 1_000_000_000) as u32 / resolution.nanoseconds();
    let mut header = [0; PACKET_HEADER];
    let words = [seconds, fraction, data.len() as u32, record.original_len];
    for (bytes, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    out.reserve(PACKET_HEADER + data.len());
    out.extend_from_slice(&header);
    out.extend_from_slice(data);
}

/// For packets written by this module, with or without a file header, of which only `len` bytes
/// reached the disk: the length of the whole packets, and their number.
pub(crate) fn whole_packets(bytes: &[u8], len: usize, with_header: bool) -> (usize, u64) {
    let mut at = if with_header { FILE_HEADER } else { 0 };
    if at > len {
        return (0, 0);
    }
    let mut packets = 0;
    while let Some(&[a, b, c, d]) = bytes.get(at + 8..).and_then(|rest| rest.first_chunk::<4>()) {
        let next = at + PACKET_HEADER + u32::from_ne_bytes([a, b, c, d]) as usize;
        if next > len {
            break;
        }
        packets += 1;
        at = next;
    }
    (at, packets)
}

/// Reads classic pcap from a byte stream. [`MAX_PACKET`] bounds its memory, whatever lengths the
/// file states.
pub struct PcapReader<R> {
    window: StreamWindow<R>,
    swapped: bool,
    resolution: Resolution,
    /// Bytes before the data of each packet.
    packet_header: usize,
    /// The only interface, once the header is read.
    source: Option<Source>,
    packets: u64,
    finished: bool,
    current: Current,
}

/// The current packet, with the position of its data in the window.
#[derive(Default)]
struct Current {
    timestamp: u64,
    original_len: u32,
    start: usize,
    len: usize,
}

impl<R: Read> PcapReader<R> {
    /// Reads from `source`; errors call it `name`.
    pub fn new(source: R, name: &str) -> Self {
        Self {
            window: StreamWindow::new(source, name.into()),
            swapped: false,
            resolution: Resolution::Microseconds,
            packet_header: PACKET_HEADER,
            source: None,
            packets: 0,
            finished: false,
            current: Current::default(),
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

    /// Moves to the next packet; false at the end.
    ///
    /// # Errors
    /// See [`PcapReader::next_record`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        if self.finished {
            return Ok(false);
        }
        let result = self.packet();
        if matches!(result, Ok(true)) {
            self.packets += 1;
        } else {
            self.finished = !result.as_ref().is_err_and(CaptureError::is_would_block);
            self.current = Current::default();
        }
        result
    }

    /// The packet that [`PcapReader::advance`] moved to; empty when there is none.
    #[inline]
    pub fn current(&self) -> Record<'_> {
        Record {
            interface: 0,
            timestamp: self.current.timestamp,
            original_len: self.current.original_len,
            direction: Direction::Unknown,
            data: self.window.slice(self.current.start, self.current.len),
        }
    }

    /// The only interface of the file, after the first call for a packet.
    pub fn interfaces(&self) -> &[Source] {
        self.source.as_slice()
    }

    /// Packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The unit of the file's timestamps.
    pub fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Reads the file header, so that the interface is known before the first packet. Reading a
    /// packet does the same.
    ///
    /// # Errors
    /// The file is no pcap file, or of an unsupported kind.
    pub fn open(&mut self) -> Result<(), CaptureError> {
        if self.source.is_none() { self.header() } else { Ok(()) }
    }

    #[inline]
    fn packet(&mut self) -> Result<bool, CaptureError> {
        self.open()?;
        match self.window.need(self.packet_header)? {
            Availability::Whole => {}
            Availability::Partial => return Err(self.truncated()),
            Availability::Empty => return Ok(false),
        }
        let mut header = self.window.words::<{ PACKET_HEADER / 4 }>();
        if self.swapped {
            header = header.map(u32::swap_bytes);
        }
        let [seconds, fraction, captured, original_len] = header;
        let captured = captured as usize;
        if captured > MAX_PACKET {
            return Err(self.malformed("packet longer than 256 KiB"));
        }
        if self.window.need(self.packet_header + captured)? != Availability::Whole {
            return Err(self.truncated());
        }
        let nanoseconds = u64::from(fraction) * u64::from(self.resolution.nanoseconds());
        self.current = Current {
            // 2³² seconds and 2³² microseconds are below 2⁶⁴ nanoseconds together.
            timestamp: u64::from(seconds) * 1_000_000_000 + nanoseconds,
            original_len,
            start: self.window.position() + self.packet_header,
            len: captured,
        };
        self.window.consume(self.packet_header + captured);
        if self.swapped {
            self.turn_link_header();
        }
        Ok(true)
    }

    #[inline(never)]
    fn turn_link_header(&mut self) {
        let link_type = self.source.as_ref().map_or(0, |source| source.link_type);
        let packet = self.window.slice_mut(self.current.start, self.current.len);
        link_order::to_native(link_type, packet);
    }

    fn header(&mut self) -> Result<(), CaptureError> {
        if self.window.need(FILE_HEADER)? != Availability::Whole {
            return Err(self.truncated());
        }
        let magic = self.word(0);
        self.swapped =
            matches!(magic.swap_bytes(), MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED);
        self.resolution = match self.word(0) {
            MAGIC_MICROSECONDS => Resolution::Microseconds,
            MAGIC_NANOSECONDS => Resolution::Nanoseconds,
            MAGIC_MODIFIED => {
                self.packet_header = MODIFIED_PACKET_HEADER;
                Resolution::Microseconds
            }
            _ => return Err(self.malformed("it does not start with the magic number of pcap")),
        };
        let link = self.word(20);
        self.source = Some(Source {
            link_type: link as u16,
            snaplen: self.word(16),
            fcs_len: (link & HAS_FCS != 0).then_some((link >> 28) as u8 * 2),
            ..Source::default()
        });
        self.window.consume(FILE_HEADER);
        Ok(())
    }

    /// The 32-bit word at an offset from the current position. Callers have checked the length.
    #[inline]
    fn word(&self, at: usize) -> u32 {
        let bytes = self.window.bytes().get(at..).and_then(|rest| rest.first_chunk());
        let value = bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes));
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
