//! The pieces between the first and the last one. A long frame has dozens, all with the same length
//! and flags, so that only two or three fields of their headers differ.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, Protocol, TcpFlags, ipv4, ipv6, tcp, udp};

use super::fields::{at_mut, control, flags_of, fragment_offset, put};
use super::parts::{Fix, Piece, Transport};

/// The fields to write into the headers of such a piece.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) enum Middle {
    Tcp4(Tcp, Ipv4),
    Tcp6(Tcp, Ipv6),
    Udp4(Udp, Ipv4),
    Udp6(Udp, Ipv6),
    Fragment4(Fragment4),
    Fragment6(Fragment6),
}

/// One or several headers of such pieces.
pub(in crate::segment) trait Header {
    /// Writes the common fields into a copy of the frame's headers.
    fn write_common(&self, headers: &mut [u8]);

    /// Writes the different fields into a copy of another piece's headers.
    fn write_next(&self, headers: &mut [u8], piece: &Piece);
}

/// An operation on the headers of a [`Middle`]. It is compiled for each kind of header, so that the
/// loop over pieces has no branches on it.
pub(in crate::segment) trait Visitor {
    type Output;

    fn visit(self, header: impl Header) -> Self::Output;
}

impl Middle {
    /// For pieces of `unit` bytes after headers of `len` bytes, whose outermost IP header `fix`
    /// describes. `None` if more fields differ: in fragments with options, and with urgent data.
    #[inline(always)]
    pub(super) fn new(
        transport: &Transport,
        fix: Fix,
        (len, payload): (usize, usize),
        partial: bool,
        unit: usize,
    ) -> Option<Self> {
        // Lengths fit: no piece is longer than IP allows.
        let total = len + unit;
        let length_from = |at: u16| (total - usize::from(at)) as u16;
        let with = |base: Sum, length| base.plus(Sum::of_field(length));
        let upper = InnermostHeader::new(transport, partial, length_from)?;
        Some(match fix {
            Fix::Ipv4 { at, id, step, base } => {
                let length = length_from(at);
                let ip = Ipv4 { at, length, id, step, base: with(base, length) };
                match upper {
                    InnermostHeader::Tcp(tcp) => Self::Tcp4(tcp, ip),
                    InnermostHeader::Udp(udp) => Self::Udp4(udp, ip),
                    InnermostHeader::Payload => return None,
                }
            }
            Fix::Ipv6 { at } => {
                let ip = Ipv6 { at, length: length_from(at + ipv6::LEN as u16) };
                match upper {
                    InnermostHeader::Tcp(tcp) => Self::Tcp6(tcp, ip),
                    InnermostHeader::Udp(udp) => Self::Udp6(udp, ip),
                    InnermostHeader::Payload => return None,
                }
            }
            Fix::Fragment4 { at, base, options_len: 0, .. } => {
                let length = length_from(at);
                Self::Fragment4(Fragment4 { at, length, base: with(base, length) })
            }
            Fix::Fragment6 { at, link, header } => {
                let ip = Ipv6 { at, length: length_from(at + ipv6::LEN as u16) };
                Self::Fragment6(Fragment6 { ip, link, at: payload as u16, header })
            }
            _ => return None,
        })
    }

    /// Calls the visitor with the headers.
    #[inline(always)]
    pub(in crate::segment) fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        match *self {
            Self::Tcp4(tcp, ip) => visitor.visit((tcp, ip)),
            Self::Tcp6(tcp, ip) => visitor.visit((tcp, ip)),
            Self::Udp4(udp, ip) => visitor.visit((udp, ip)),
            Self::Udp6(udp, ip) => visitor.visit((udp, ip)),
            Self::Fragment4(fragment) => visitor.visit(fragment),
            Self::Fragment6(fragment) => visitor.visit(fragment),
        }
    }

    /// Writes the different fields into a copy of the frame's headers.
    #[inline(always)]
    pub(super) fn write(&self, headers: &mut [u8], piece: &Piece) {
        self.visit(WriteOne { headers, piece });
    }
}

struct WriteOne<'a> {
    headers: &'a mut [u8],
    piece: &'a Piece,
}

impl Visitor for WriteOne<'_> {
    type Output = ();

    #[inline(always)]
    fn visit(self, header: impl Header) {
        header.write_common(self.headers);
        header.write_next(self.headers, self.piece);
    }
}

impl<A: Header, B: Header> Header for (A, B) {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        self.0.write_common(headers);
        self.1.write_common(headers);
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        self.0.write_next(headers, piece);
        self.1.write_next(headers, piece);
    }
}

/// The innermost header.
enum InnermostHeader {
    Tcp(Tcp),
    Udp(Udp),
    /// Fragments: it belongs to the payload of the first one.
    Payload,
}

impl InnermostHeader {
    /// `None` with urgent data. `length_from` returns the length of the pieces from an offset on.
    #[inline(always)]
    fn new(transport: &Transport, partial: bool, length_from: impl Fn(u16) -> u16) -> Option<Self> {
        Some(match *transport {
            Transport::Tcp { flags, .. } if flags.contains(TcpFlags::URG) => return None,
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
                let control = control(header_len, flags_of(flags, false, false, accurate_ecn));
                let length = Sum::of_field(length_from(at));
                let fields = Sum::of_field(control).plus(Sum::of_field(urgent));
                let checksum = match partial {
                    true => Checksum::Fixed(pseudo.plus(length).partial()),
                    false => Checksum::Base(base.plus(length).plus(fields)),
                };
                Self::Tcp(Tcp { at, sequence, control, checksum })
            }
            Transport::Udp { at, checksum, base, pseudo } => {
                let length = length_from(at);
                let field = Sum::of_field(length);
                let checksum = match partial {
                    _ if !checksum => Checksum::Fixed(0),
                    true => Checksum::Fixed(pseudo.plus(field).partial()),
                    // The length is in the header and in the pseudo-header.
                    false => Checksum::Base(base.plus(field).plus(field)),
                };
                Self::Udp(Udp { at, length, checksum })
            }
            Transport::Fragment { .. } => Self::Payload,
            Transport::Whole { .. } => return None,
        })
    }
}

/// A checksum field.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    /// The same in all pieces: none, or the sum of the pseudo-header, for the sink.
    Fixed(u16),
    /// The sum of everything except payload and sequence number.
    Base(Sum),
}

impl Checksum {
    /// The field in all pieces, or 0 if it differs.
    #[inline]
    fn common(self) -> [u8; 2] {
        match self {
            Self::Fixed(value) => value.to_be_bytes(),
            Self::Base(_) => [0; 2],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Tcp {
    at: u16,
    sequence: u32,
    control: u16,
    checksum: Checksum,
}

impl Header for Tcp {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        let at = usize::from(self.at);
        put(headers, at + 12, self.control.to_be_bytes());
        put(headers, at + tcp::CHECKSUM_OFFSET, self.checksum.common());
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        let Some(tcp) = at_mut::<{ tcp::MIN_LEN }>(headers, self.at.into()) else { return };
        let sequence = self.sequence.wrapping_add(piece.offset as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if let Checksum::Base(base) = self.checksum {
            let payload = u64::from(piece.sum.partial());
            let sum = u64::from(base.partial()) + u64::from(sequence) + payload;
            tcp[16..18].copy_from_slice(&Sum::of_number(sum).checksum().to_be_bytes());
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Udp {
    at: u16,
    length: u16,
    checksum: Checksum,
}

impl Header for Udp {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        let at = usize::from(self.at);
        put(headers, at + 4, self.length.to_be_bytes());
        put(headers, at + udp::CHECKSUM_OFFSET, self.checksum.common());
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        if let Checksum::Base(base) = self.checksum {
            let Some(udp) = at_mut::<{ udp::LEN }>(headers, self.at.into()) else { return };
            let checksum = base.plus(piece.sum).checksum_nonzero();
            udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Ipv4 {
    at: u16,
    length: u16,
    id: u16,
    step: u16,
    /// The sum of the header without its identification.
    base: Sum,
}

impl Header for Ipv4 {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        put(headers, usize::from(self.at) + 2, self.length.to_be_bytes());
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(headers, self.at.into()) else { return };
        let id = self.id.wrapping_add((piece.index as u16).wrapping_mul(self.step));
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        let checksum = self.base.plus(Sum::of_field(id)).checksum();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Ipv6 {
    at: u16,
    length: u16,
}

impl Header for Ipv6 {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        put(headers, usize::from(self.at) + 4, self.length.to_be_bytes());
    }

    #[inline(always)]
    fn write_next(&self, _headers: &mut [u8], _piece: &Piece) {}
}

/// An IPv4 header of fragments, without options.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Fragment4 {
    at: u16,
    length: u16,
    /// The sum of the header without its fragment offset.
    base: Sum,
}

impl Header for Fragment4 {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        put(headers, usize::from(self.at) + 2, self.length.to_be_bytes());
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(headers, self.at.into()) else { return };
        let offset = fragment_offset(piece);
        ip[6..8].copy_from_slice(&offset.to_be_bytes());
        let checksum = self.base.plus(Sum::of_field(offset)).checksum();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The fragment header at `at`, which `link` announces.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Fragment6 {
    ip: Ipv6,
    link: u16,
    at: u16,
    header: Fragment,
}

impl Header for Fragment6 {
    #[inline(always)]
    fn write_common(&self, headers: &mut [u8]) {
        self.ip.write_common(headers);
        put(headers, self.link.into(), [Protocol::FRAGMENT.0]);
        // There is room: the block has its length.
        _ = self.header.emit(headers.get_mut(usize::from(self.at)..).unwrap_or_default());
    }

    #[inline(always)]
    fn write_next(&self, headers: &mut [u8], piece: &Piece) {
        // The last bit says that more follow (RFC 8200 section 4.5).
        put(headers, usize::from(self.at) + 2, (piece.offset as u16 | 1).to_be_bytes());
    }
}
