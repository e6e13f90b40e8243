//! The header block that all segments of a frame have in common, and what differs.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Protocol, TcpFlags, ipv4, ipv6, tcp, udp};

use self::middle::Middle;

use super::cursor::{Cut, MAX_HEADER};
use super::layout::{Layer, Layout};
use super::offload::{Gso, Offload, PartialChecksum};
use super::stats::Refusal;

mod fragments;
mod middle;

/// IP, tunnel, IP, tunnel, IP.
const MAX_FIXES: usize = 5;

/// A header block with its changing fields cleared, and the sums of what is left.
#[derive(Clone, Debug)]
pub(super) struct Template {
    block: [u8; MAX_HEADER],
    len: usize,
    /// Bytes after the block that only the first fragment has: the UDP header and what is before it.
    pub(super) prefix: usize,
    /// The first byte of the frame that is not in the block.
    pub(super) payload: usize,
    transport: Transport,
    /// Headers around the transport header, from the inside out; the first `count`.
    fixes: [Fix; MAX_FIXES],
    count: usize,
    /// Bytes of IPv4 options of all fragments but the first.
    options: [u8; ipv4::MAX_LEN - ipv4::MIN_LEN],
    /// A checksum around the transport header covers it.
    covered: bool,
    /// A checksum depends on the payload.
    pub(super) sums_payload: bool,
    /// What is left to a sink, apart from its size.
    offload: Offload,
    /// The sink completes checksums.
    partial: bool,
    /// How to write most pieces faster, if there are such; the block is theirs then.
    middle: Option<Middle>,
}

/// A part of the payload that goes out as one frame.
pub(super) struct Piece {
    /// Where it is in the payload.
    pub(super) offset: usize,
    /// Its length.
    pub(super) len: usize,
    /// How many came before.
    pub(super) index: u32,
    /// Whether it is the last one.
    pub(super) last: bool,
    /// Its sum; zero where nothing depends on it.
    pub(super) sum: Sum,
}

/// What of the transport header differs from piece to piece.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Tcp {
        at: usize,
        header_len: usize,
        sequence: u32,
        flags: TcpFlags,
        urgent: u16,
        accurate_ecn: bool,
        /// Of pseudo-header and header without lengths and what differs.
        base: Sum,
        /// Of the pseudo-header without its length.
        pseudo: Sum,
    },
    Udp {
        at: usize,
        checksum: bool,
        base: Sum,
        pseudo: Sum,
    },
    /// Fragments: the transport header is payload, in the prefix.
    Fragment,
    /// Only a checksum, from `start` on.
    Whole {
        start: usize,
        field: usize,
        nonzero: bool,
    },
}

/// What of another header differs.
#[derive(Clone, Copy, Debug, Default)]
enum Fix {
    #[default]
    None,
    Ipv4 {
        at: usize,
        id: u16,
        step: u16,
        base: Sum,
    },
    Ipv6 {
        at: usize,
    },
    /// An IPv4 header of fragments.
    Fragment4 {
        at: usize,
        base: Sum,
        first_base: Sum,
        options_len: u8,
    },
    /// An IPv6 header of fragments, and its fragment header.
    Fragment6 {
        at: usize,
        fragment: usize,
    },
    Udp {
        at: usize,
        checksum: bool,
        pseudo: Sum,
    },
    Gre {
        at: usize,
        checksum: bool,
    },
}

impl Template {
    /// Takes the headers of a frame that is to be cut.
    ///
    /// Always inlined, as what it calls: so a template is made in its place and not moved there.
    #[inline(always)]
    pub(super) fn new(
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        cut: &Cut,
    ) -> Result<Self, Refusal> {
        let mut template = match offload.gso {
            Gso::UdpFragment => Self::fragments(frame, layout, offload, cut)?,
            _ => Self::segments(frame, layout, offload, cut)?,
        };
        // The innermost header is done; those of tunnels around it follow.
        let id_step = u16::try_from(cut.unit.div_ceil(cut.mss.max(1))).unwrap_or(u16::MAX);
        let fragments = offload.gso == Gso::UdpFragment;
        let layers = layout.layers().iter().rev().enumerate();
        for ((index, layer), fix) in layers.zip(&mut template.fixes) {
            if fragments && index == 0 {
                continue;
            }
            *fix = match *layer {
                Layer::None => Fix::None,
                Layer::Ipv4 { at, header_len, dont_fragment } => {
                    let fixed = offload.fixed_id && dont_fragment;
                    let id = field(&template.block, at + 4);
                    for cleared in [at + 2, at + 4, at + 10] {
                        put(&mut template.block, cleared, [0; 2]);
                    }
                    let base = sum_of(&template.block, at, at + header_len);
                    Fix::Ipv4 { at, id, step: if fixed { 0 } else { id_step }, base }
                }
                Layer::Ipv6 { at } => Fix::Ipv6 { at },
                Layer::Udp { at, checksum } => {
                    put(&mut template.block, at + 6, [0; 2]);
                    let around = layout.layers().iter().rev().nth(index + 1);
                    let pseudo = pseudo(frame, *around.ok_or(Refusal::Tunnel)?, None, 17)?;
                    Fix::Udp { at, checksum, pseudo }
                }
                Layer::Gre { at, checksum } => {
                    if checksum {
                        put(&mut template.block, at + 4, [0; 2]);
                    }
                    Fix::Gre { at, checksum }
                }
            };
        }
        template.count = layout.layers().len();
        template.covered = template.fixes.iter().any(Fix::has_checksum);
        // Without a checksum of its own, a datagram is summed for those around it.
        let own = !matches!(template.transport, Transport::Udp { checksum: false, .. });
        template.sums_payload |= template.covered && !own;
        template.middle = Middle::new(&mut template, cut.unit);
        Ok(template)
    }

    /// Takes the part of a frame that ends with its checksum field.
    pub(super) fn whole(frame: &[u8], place: PartialChecksum) -> Result<Self, Refusal> {
        let start = usize::from(place.start);
        let at = start + usize::from(place.offset);
        if !place.offset.is_multiple_of(2) {
            return Err(Refusal::ChecksumPlace);
        }
        let (block, len) = block(frame, at + 2)?;
        let nonzero = usize::from(place.offset) == udp::CHECKSUM_OFFSET;
        Ok(Self {
            block,
            len,
            prefix: 0,
            payload: len,
            transport: Transport::Whole { start, field: at, nonzero },
            fixes: [Fix::None; MAX_FIXES],
            count: 0,
            options: [0; ipv4::MAX_LEN - ipv4::MIN_LEN],
            covered: false,
            sums_payload: true,
            offload: Offload::default(),
            partial: false,
            middle: None,
        })
    }

    /// Bytes of the header block, of the first piece or another.
    #[inline]
    pub(super) fn header_len(&self, first: bool) -> usize {
        if first { self.len + self.prefix } else { self.len }
    }

    /// What the sink has to do to a piece of `len` payload bytes.
    #[inline]
    pub(super) fn left_to_sink(&self, len: usize, mss: usize, first: bool) -> Offload {
        if !self.partial {
            return Offload::default();
        }
        let cut = len > mss;
        Offload {
            gso: if cut { self.offload.gso } else { Gso::None },
            size: if cut { self.offload.size } else { 0 },
            ecn: cut && first && self.offload.ecn,
            accurate_ecn: cut && self.offload.accurate_ecn,
            fixed_id: cut && self.offload.fixed_id,
            ..self.offload
        }
    }

    /// Copies the block to the front of `out`, which has `len` bytes. What is behind may be overwritten.
    #[inline(always)]
    pub(super) fn copy_block(&self, out: &mut [u8], len: usize) {
        // A copy of known length is a few instructions, one of any length a call. One after the other, not
        // as alternatives, which the compiler would make a call again.
        const FRONT: usize = 64;
        let done = match (out.first_chunk_mut::<FRONT>(), self.block.first_chunk()) {
            (Some(to), Some(from)) => {
                *to = *from;
                FRONT
            }
            _ => 0,
        };
        if len > done
            && let (Some(to), Some(from)) = (out.get_mut(done..len), self.block.get(done..len))
        {
            to.copy_from_slice(from);
        }
    }

    /// Writes what differs into the copied block of a piece.
    #[inline(always)]
    pub(super) fn write(&self, header: &mut [u8], piece: &Piece) {
        match &self.middle {
            Some(middle) if piece.offset != 0 && !piece.last => middle.write(header, piece),
            _ => self.write_any(header, piece),
        }
    }

    fn write_any(&self, header: &mut [u8], piece: &Piece) {
        self.write_transport(header, piece);
        let covered = if self.covered { self.sum_covered(header, piece) } else { Sum::ZERO };
        let total = self.len + piece.len;
        for fix in self.fixes.get(..self.count).unwrap_or_default() {
            match *fix {
                Fix::None => {}
                Fix::Ipv4 { at, id, step, base } => {
                    // Lengths fit: no piece is longer than IP allows.
                    let (length, index) = ((total - at) as u16, piece.index as u16);
                    let id = id.wrapping_add(index.wrapping_mul(step));
                    let sum = u64::from(base.partial()) + u64::from(length) + u64::from(id);
                    let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(header, at) else { return };
                    ip[2..4].copy_from_slice(&length.to_be_bytes());
                    ip[4..6].copy_from_slice(&id.to_be_bytes());
                    ip[10..12].copy_from_slice(&Sum::of_number(sum).checksum().to_be_bytes());
                }
                Fix::Ipv6 { at } => {
                    put(header, at + 4, ((total - at - ipv6::LEN) as u16).to_be_bytes());
                }
                Fix::Udp { at, checksum, pseudo } => {
                    let length = (total - at) as u16;
                    put(header, at + 4, length.to_be_bytes());
                    if checksum {
                        let inside = sum_of(header, at, self.covered_from()).plus(covered);
                        let sum = pseudo.plus(Sum::of_field(length)).plus(inside);
                        put(header, at + 6, sum.checksum_nonzero().to_be_bytes());
                    }
                }
                Fix::Gre { at, checksum } => {
                    if checksum {
                        let sum = sum_of(header, at, self.covered_from()).plus(covered);
                        put(header, at + 4, sum.checksum().to_be_bytes());
                    }
                }
                Fix::Fragment4 { at, base, first_base, options_len } => {
                    let length = (total - at) as u16;
                    // The offset counts in units of 8 bytes; "more fragments" is bit 13.
                    let fragment = (piece.offset >> 3) as u16 | u16::from(!piece.last) << 13;
                    let base = if piece.offset == 0 {
                        first_base
                    } else {
                        let begin = at + ipv4::MIN_LEN;
                        let range = begin..begin + usize::from(options_len);
                        let options = self.options.get(..usize::from(options_len));
                        if let (Some(to), Some(options)) = (header.get_mut(range), options) {
                            to.copy_from_slice(options);
                        }
                        base
                    };
                    let sum = u64::from(base.partial()) + u64::from(length) + u64::from(fragment);
                    let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(header, at) else { return };
                    ip[2..4].copy_from_slice(&length.to_be_bytes());
                    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
                    ip[10..12].copy_from_slice(&Sum::of_number(sum).checksum().to_be_bytes());
                }
                Fix::Fragment6 { at, fragment } => {
                    let offset = (piece.offset as u16) | u16::from(!piece.last);
                    put(header, at + 4, ((total - at - ipv6::LEN) as u16).to_be_bytes());
                    put(header, fragment + 2, offset.to_be_bytes());
                }
            }
        }
    }

    #[inline]
    fn write_transport(&self, header: &mut [u8], piece: &Piece) {
        match self.transport {
            Transport::Tcp {
                at,
                header_len,
                sequence,
                flags,
                urgent,
                accurate_ecn,
                base,
                pseudo,
            } => {
                let first = piece.offset == 0;
                let mut flags = flags;
                if !piece.last {
                    flags = flags.without(TcpFlags::FIN.with(TcpFlags::PSH));
                }
                if !first && !accurate_ecn {
                    flags = flags.without(TcpFlags::CWR);
                }
                // The pointer counts from the segment's own sequence number (RFC 9293 section 3.1).
                let mut pointer = urgent;
                if flags.contains(TcpFlags::URG) && !first {
                    pointer = usize::from(urgent).saturating_sub(piece.offset) as u16;
                    if pointer == 0 {
                        flags = flags.without(TcpFlags::URG);
                    }
                }
                let sequence = sequence.wrapping_add(piece.offset as u32);
                let control = ((header_len / 4) as u16) << 12 | flags.bits();
                let length = (header_len + piece.len) as u64;
                let checksum = if self.partial {
                    pseudo.plus(Sum::of_number(length)).partial()
                } else {
                    let differs = u64::from(sequence)
                        + u64::from(control)
                        + u64::from(pointer)
                        + length
                        + u64::from(piece.sum.partial())
                        + u64::from(base.partial());
                    Sum::of_number(differs).checksum()
                };
                let Some(tcp) = at_mut::<{ tcp::MIN_LEN }>(header, at) else { return };
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                tcp[12..14].copy_from_slice(&control.to_be_bytes());
                tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
                tcp[18..20].copy_from_slice(&pointer.to_be_bytes());
            }
            Transport::Udp { at, checksum, base, pseudo } => {
                let length = (udp::LEN + piece.len) as u16;
                let value = if !checksum {
                    0
                } else if self.partial {
                    pseudo.plus(Sum::of_field(length)).partial()
                } else {
                    // The length is in the header and in the pseudo-header.
                    let differs = u64::from(length) * 2
                        + u64::from(piece.sum.partial())
                        + u64::from(base.partial());
                    Sum::of_number(differs).checksum_nonzero()
                };
                let Some(udp) = at_mut::<{ udp::LEN }>(header, at) else { return };
                udp[4..6].copy_from_slice(&length.to_be_bytes());
                udp[6..8].copy_from_slice(&value.to_be_bytes());
            }
            Transport::Fragment => {}
            Transport::Whole { start, field, nonzero } => {
                let sum = sum_of(header, start, field + 2).plus(piece.sum);
                let value = if nonzero { sum.checksum_nonzero() } else { sum.checksum() };
                put(header, field, value.to_be_bytes());
            }
        }
    }

    /// The sum of everything from the transport header on, for checksums around it: once its
    /// checksum is complete, that of the rest is the complement of its pseudo-header's.
    #[inline]
    fn sum_covered(&self, header: &[u8], piece: &Piece) -> Sum {
        let (pseudo, header_len) = match self.transport {
            Transport::Tcp { header_len, pseudo, .. } => (pseudo, header_len),
            Transport::Udp { checksum: true, pseudo, .. } => (pseudo, udp::LEN),
            _ => return sum_of(header, self.covered_from(), self.len).plus(piece.sum),
        };
        let length = Sum::of_number((header_len + piece.len) as u64);
        Sum::of_field(pseudo.plus(length).checksum())
    }

    /// Where what [`sum_covered`](Self::sum_covered) sums begins.
    #[inline]
    fn covered_from(&self) -> usize {
        match self.transport {
            Transport::Tcp { at, .. } | Transport::Udp { at, .. } => at,
            Transport::Fragment | Transport::Whole { .. } => self.len,
        }
    }

    #[inline(always)]
    fn segments(
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        cut: &Cut,
    ) -> Result<Self, Refusal> {
        let (mut block, len) = block(frame, layout.payload)?;
        let at = layout.transport;
        let tcp = matches!(offload.gso, Gso::Tcp4 | Gso::Tcp6);
        let protocol = if tcp { Protocol::TCP } else { Protocol::UDP };
        let destination = layout.final_destination;
        let pseudo = pseudo(frame, layout.innermost(), destination, protocol.0)?;
        let transport = if tcp {
            let control = field(&block, at + 12);
            let flags = TcpFlags::from_bits(control);
            if flags.bits() & TcpFlags::SYN.with(TcpFlags::RST).bits() != 0 {
                return Err(Refusal::SynOrRst);
            }
            let (high, low) = (field(&block, at + 4), field(&block, at + 6));
            let urgent = field(&block, at + 18);
            for cleared in [at + 4, at + 6, at + 12, at + 16, at + 18] {
                put(&mut block, cleared, [0; 2]);
            }
            Transport::Tcp {
                at,
                header_len: layout.payload - at,
                sequence: u32::from(high) << 16 | u32::from(low),
                flags,
                urgent,
                accurate_ecn: offload.accurate_ecn || flags.contains(TcpFlags::AE),
                base: sum_of(&block, at, layout.payload).plus(pseudo),
                pseudo,
            }
        } else {
            // No checksum is a choice over IPv4 (RFC 768); over IPv6 there must be one (RFC 8200
            // section 8.1).
            let v6 = matches!(layout.innermost(), Layer::Ipv6 { .. });
            let checksum = offload.checksum.is_some() || field(&block, at + 6) != 0 || v6;
            put(&mut block, at + 4, [0; 4]);
            Transport::Udp {
                at,
                checksum,
                base: sum_of(&block, at, layout.payload).plus(pseudo),
                pseudo,
            }
        };
        let place = PartialChecksum { start: at as u16, offset: if tcp { 16 } else { 6 } };
        let without = matches!(transport, Transport::Udp { checksum: false, .. });
        Ok(Self {
            block,
            len,
            prefix: 0,
            payload: layout.payload,
            transport,
            fixes: [Fix::None; MAX_FIXES],
            count: 0,
            options: [0; ipv4::MAX_LEN - ipv4::MIN_LEN],
            covered: false,
            sums_payload: !cut.partial && !without,
            offload: Offload {
                size: u16::try_from(cut.mss).unwrap_or(u16::MAX),
                checksum: (!without).then_some(place),
                ..*offload
            },
            partial: cut.partial,
            middle: None,
        })
    }
}

impl Fix {
    fn has_checksum(&self) -> bool {
        matches!(self, Self::Udp { checksum: true, .. } | Self::Gre { checksum: true, .. })
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

/// The first `len` bytes of a frame as a header block.
#[inline(always)]
fn block(frame: &[u8], len: usize) -> Result<([u8; MAX_HEADER], usize), Refusal> {
    let mut block = [0; MAX_HEADER];
    let headers = frame.get(..len).ok_or(Refusal::ChecksumPlace)?;
    block.get_mut(..len).ok_or(Refusal::HeadersTooLong)?.copy_from_slice(headers);
    Ok((block, len))
}

/// The big-endian field at `at`, which is in the block.
#[inline]
fn field(block: &[u8], at: usize) -> u16 {
    let bytes = block.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

#[inline]
fn put<const N: usize>(block: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = block.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *field = value;
    }
}

/// The `N` bytes at `at`, which are in the block.
#[inline]
fn at_mut<const N: usize>(block: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    block.get_mut(at..)?.first_chunk_mut()
}

#[inline]
fn sum_of(block: &[u8], from: usize, to: usize) -> Sum {
    Sum::of(block.get(from..to).unwrap_or_default())
}
