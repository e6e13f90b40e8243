//! The common part of the header blocks of a frame's segments, and the fields that differ.
//!
//! The blocks begin as copies of the frame's headers. A template has only the offsets of the fields
//! that differ, and the sums of all others.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Protocol, TcpFlags, ipv4, udp};

use self::fields::{field, flags_of, sum_but, sum_of};
use self::middle::Middle;
pub(super) use self::middle::{Header, Visitor};
pub(super) use self::parts::Piece;
use self::parts::{Fix, Transport};

use super::layout::{Layer, Layout};
use super::parameters::{MAX_HEADER, Parameters};
use super::stats::Refusal;
use crate::frame::{Gso, Offload, PartialChecksum};

mod fields;
mod fragments;
mod middle;
mod parts;
mod write;

/// IP, tunnel, IP, tunnel, IP.
const MAX_FIXES: usize = 5;

/// The offsets of the changing header fields, and the sums of everything else.
#[derive(Clone, Debug)]
pub(super) struct HeaderTemplate {
    /// Bytes of the header block: the frame's headers, and an added fragment header.
    len: usize,
    /// Bytes after the block in the first fragment only: the UDP header and extension headers
    /// before it.
    pub(super) prefix: usize,
    /// The first byte of the frame after the block.
    pub(super) payload: usize,
    transport: Transport,
    /// Headers around the transport header, from the inside out; `count` are in use.
    fixes: [Fix; MAX_FIXES],
    count: usize,
    /// IPv4 options of all fragments except the first.
    options: [u8; ipv4::MAX_LEN - ipv4::MIN_LEN],
    /// Whether a checksum around the transport header covers it.
    covered: bool,
    /// Whether a checksum depends on the payload.
    pub(super) sums_payload: bool,
    /// Offloads for the sink, except its size.
    offload: Offload,
    /// Whether the sink completes checksums.
    partial: bool,
    /// A faster way to write most pieces, if there is one.
    middle: Option<Middle>,
    /// Whether the first piece can use it, too.
    first_is_middle: bool,
}

impl HeaderTemplate {
    /// For a frame that is not parsed yet.
    #[inline]
    pub(super) fn blank() -> Self {
        Self {
            len: 0,
            prefix: 0,
            payload: 0,
            transport: Transport::Fragment { checksum: None },
            fixes: [Fix::None; MAX_FIXES],
            count: 0,
            options: [0; ipv4::MAX_LEN - ipv4::MIN_LEN],
            covered: false,
            sums_payload: false,
            offload: Offload::default(),
            partial: false,
            middle: None,
            first_is_middle: false,
        }
    }

    /// Takes the headers of a frame to segment. In place, because moving costs as much as parsing.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        parameters: &Parameters,
    ) -> Result<(), Refusal> {
        if layout.payload > MAX_HEADER {
            return Err(Refusal::HeadersTooLong);
        }
        match offload.gso {
            Gso::UdpFragment => self.take_fragmented(frame, layout, offload, parameters)?,
            _ => self.take_segmented(frame, layout, offload, parameters)?,
        }
        if self.len + self.prefix > MAX_HEADER {
            return Err(Refusal::HeadersTooLong);
        }
        // The innermost header is done; the headers of tunnels follow.
        let id_step =
            u16::try_from(parameters.unit.div_ceil(parameters.mss.max(1))).unwrap_or(u16::MAX);
        let fragments = offload.gso == Gso::UdpFragment;
        let layers = layout.layers().iter().rev().enumerate();
        for ((index, layer), fix) in layers.zip(&mut self.fixes) {
            if fragments && index == 0 {
                continue;
            }
            *fix = match *layer {
                Layer::None => Fix::None,
                Layer::Ipv4 { at, header_len, dont_fragment } => {
                    let fixed = offload.fixed_id && dont_fragment;
                    let id = field(frame, at + 4);
                    let base = sum_but(frame, at..at + header_len, [2, 4, 10]);
                    Fix::Ipv4 { at: at as u16, id, step: if fixed { 0 } else { id_step }, base }
                }
                Layer::Ipv6 { at } => Fix::Ipv6 { at: at as u16 },
                Layer::Udp { at, checksum } => {
                    let around = layout.layers().iter().rev().nth(index + 1);
                    let pseudo = pseudo(frame, *around.ok_or(Refusal::Tunnel)?, None, 17)?;
                    Fix::Udp { at: at as u16, checksum, pseudo }
                }
                Layer::Gre { at, checksum } => Fix::Gre { at: at as u16, checksum },
            };
        }
        self.count = layout.layers().len();
        self.covered = self.fixes.iter().any(Fix::has_checksum);
        // A datagram without its own checksum is summed for the checksums around it.
        let own = !matches!(self.transport, Transport::Udp { checksum: false, .. });
        self.sums_payload |= self.covered && !own;
        self.middle = match self.fixes {
            [fix, ..] if self.count == 1 => {
                let places = (self.len, self.payload);
                Middle::new(&self.transport, fix, places, self.partial, parameters.unit)
            }
            _ => None,
        };
        self.first_is_middle = self.first_is_alike();
        Ok(())
    }

    /// Takes the part of a frame that ends with its checksum field.
    pub(super) fn whole(frame: &[u8], place: PartialChecksum) -> Result<Self, Refusal> {
        let start = usize::from(place.start);
        let at = start + usize::from(place.offset);
        if !place.offset.is_multiple_of(2) {
            return Err(Refusal::ChecksumPlace);
        }
        let len = at + 2;
        if len > frame.len() {
            return Err(Refusal::ChecksumPlace);
        }
        if len > MAX_HEADER {
            return Err(Refusal::HeadersTooLong);
        }
        let nonzero = usize::from(place.offset) == udp::CHECKSUM_OFFSET;
        Ok(Self {
            len,
            payload: len,
            transport: Transport::Whole { start: place.start, field: at as u16, nonzero },
            sums_payload: true,
            ..Self::blank()
        })
    }

    /// Bytes of the header block, of the first piece or of another.
    #[inline]
    pub(super) fn header_len(&self, first: bool) -> usize {
        if first { self.len + self.prefix } else { self.len }
    }

    /// Offloads for the sink of a piece of `len` payload bytes.
    #[inline]
    pub(super) fn left_to_sink(&self, len: usize, mss: usize, first: bool) -> Offload {
        if !self.partial {
            return Offload::default();
        }
        let segmented = len > mss;
        Offload {
            gso: if segmented { self.offload.gso } else { Gso::None },
            size: if segmented { self.offload.size } else { 0 },
            ecn: segmented && first && self.offload.ecn,
            accurate_ecn: segmented && self.offload.accurate_ecn,
            fixed_id: segmented && self.offload.fixed_id,
            ..self.offload
        }
    }

    /// Copies the headers of the frame to the front of `out`, and may overwrite bytes after them.
    #[inline(always)]
    pub(super) fn copy_headers(&self, frame: &[u8], out: &mut [u8]) {
        // A copy of constant length is a few instructions, a copy of variable length a call. The
        // two copies are sequential, because the compiler would turn alternatives into a call.
        const FRONT: usize = 64;
        let len = self.payload;
        let done = match (out.first_chunk_mut::<FRONT>(), frame.first_chunk()) {
            (Some(to), Some(from)) => {
                *to = *from;
                FRONT
            }
            _ => 0,
        };
        if len > done {
            copy_rest::<FRONT>(frame, out, done, len);
        }
    }

    /// Writes the different fields into the copied block of a piece.
    #[inline(always)]
    pub(super) fn write(&self, frame: &[u8], header: &mut [u8], piece: &Piece) {
        match self.middle(piece.offset == 0) {
            Some(middle) if !piece.last => middle.write(header, piece),
            _ => self.write_any(frame, header, piece),
        }
    }

    /// The faster way for a piece other than the last, which may be the first.
    #[inline(always)]
    pub(super) fn middle(&self, first: bool) -> Option<&Middle> {
        self.middle.as_ref().filter(|_| !first || self.first_is_middle)
    }

    /// Whether the first piece has the same headers and pending offload as the next.
    fn first_is_alike(&self) -> bool {
        let flags = match self.transport {
            Transport::Tcp { flags, accurate_ecn, .. } => {
                flags_of(flags, true, false, accurate_ecn)
                    == flags_of(flags, false, false, accurate_ecn)
            }
            _ => true,
        };
        flags && self.prefix == 0 && !(self.partial && self.offload.ecn)
    }

    #[inline(always)]
    fn take_segmented(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        parameters: &Parameters,
    ) -> Result<(), Refusal> {
        let (at, len) = (layout.transport, layout.payload);
        let tcp = matches!(offload.gso, Gso::Tcp4 | Gso::Tcp6);
        let protocol = if tcp { Protocol::TCP } else { Protocol::UDP };
        let destination = layout.final_destination;
        let pseudo = pseudo(frame, layout.innermost(), destination, protocol.0)?;
        self.transport = if tcp {
            let control = field(frame, at + 12);
            let flags = TcpFlags::from_bits(control);
            if flags.bits() & TcpFlags::SYN.with(TcpFlags::RST).bits() != 0 {
                return Err(Refusal::SynOrRst);
            }
            let (high, low) = (field(frame, at + 4), field(frame, at + 6));
            let urgent = field(frame, at + 18);
            let fixed = sum_but(frame, at..len, [4, 6, 12, 16, 18]);
            Transport::Tcp {
                at: at as u16,
                header_len: (len - at) as u16,
                sequence: u32::from(high) << 16 | u32::from(low),
                flags,
                urgent,
                accurate_ecn: offload.accurate_ecn || flags.contains(TcpFlags::AE),
                base: fixed.plus(pseudo),
                pseudo,
            }
        } else {
            // No checksum is a choice over IPv4 (RFC 768); over IPv6 there must be one (RFC 8200
            // section 8.1).
            let v6 = matches!(layout.innermost(), Layer::Ipv6 { .. });
            let checksum = offload.checksum.is_some() || field(frame, at + 6) != 0 || v6;
            let ports = sum_of(frame, at, at + 4);
            Transport::Udp { at: at as u16, checksum, base: ports.plus(pseudo), pseudo }
        };
        let place = PartialChecksum { start: at as u16, offset: if tcp { 16 } else { 6 } };
        let without = matches!(self.transport, Transport::Udp { checksum: false, .. });
        (self.len, self.payload) = (len, len);
        self.sums_payload = !parameters.partial && !without;
        self.partial = parameters.partial;
        self.offload = Offload {
            size: u16::try_from(parameters.mss).unwrap_or(u16::MAX),
            checksum: (!without).then_some(place),
            ..*offload
        };
        Ok(())
    }
}

/// The sum of a pseudo-header without its length. `destination` is where a routing header has the
/// address of the final receiver.
fn pseudo(
    frame: &[u8],
    layer: Layer,
    destination: Option<usize>,
    protocol: u8,
) -> Result<Sum, Refusal> {
    let bytes = |at: usize, len: usize| frame.get(at..at + len).ok_or(Refusal::Malformed);
    let addresses = match layer {
        Layer::Ipv4 { at, .. } => Sum::of(bytes(at + 12, 8)?),
        Layer::Ipv6 { at } => {
            Sum::of(bytes(at + 8, 16)?).plus(Sum::of(bytes(destination.unwrap_or(at + 24), 16)?))
        }
        _ => return Err(Refusal::NotIp),
    };
    Ok(addresses.plus(Sum::of_field(protocol.into())))
}

/// Copies the rest of `len` bytes of headers, of which `done` are copied: the last `N`, or all.
#[inline(always)]
fn copy_rest<const N: usize>(frame: &[u8], out: &mut [u8], done: usize, len: usize) {
    let (Some(out), Some(headers)) = (out.get_mut(..len), frame.get(..len)) else { return };
    match (out.last_chunk_mut::<N>(), headers.last_chunk()) {
        (Some(to), Some(from)) if len - done <= N => *to = *from,
        _ => out.copy_from_slice(headers),
    }
}
