//! The pieces between the first and the last one, of which a long frame has dozens: all of one length
//! and with the same flags, so that of their headers only two or three fields have to be found out.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, Protocol, TcpFlags, ipv4, ipv6, tcp, udp};

use super::{Fix, Piece, Template, Transport, at_mut, control, flags_of, fragment_offset, put};

/// What is to be written into the headers of such a piece.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Middle {
    network: Network,
    upper: Upper,
}

/// The IP header.
#[derive(Clone, Copy, Debug)]
enum Network {
    Ipv4 {
        at: u16,
        length: u16,
        id: u16,
        step: u16,
        /// Of the header without its identification.
        base: Sum,
    },
    Ipv6 {
        at: u16,
        length: u16,
    },
    /// Of fragments, without options.
    Fragment4 {
        at: u16,
        length: u16,
        /// Of the header without its fragment offset.
        base: Sum,
    },
    /// Of fragments, with the header at `fragment` that `link` announces.
    Fragment6 {
        at: u16,
        length: u16,
        link: u16,
        fragment: u16,
        header: Fragment,
    },
}

/// The header that is cut.
#[derive(Clone, Copy, Debug)]
enum Upper {
    Tcp {
        at: u16,
        sequence: u32,
        control: u16,
        checksum: Checksum,
    },
    Udp {
        at: u16,
        length: u16,
        checksum: Checksum,
    },
    /// Fragments: it is payload of the first one.
    Payload,
}

/// A checksum field.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    /// The same in all pieces: none, or the sum of the pseudo-header, for the sink.
    Fixed(u16),
    /// Of everything but the payload and the sequence number.
    Base(Sum),
}

impl Middle {
    /// For pieces of `unit` bytes. `None` where their headers differ in more than this can write: in
    /// tunnels, fragments with options and with urgent data.
    pub(super) fn new(template: &Template, unit: usize) -> Option<Self> {
        if template.count != 1 {
            return None;
        }
        let total = template.len + unit;
        // Lengths fit: no piece is longer than IP allows.
        let network = match template.fixes[0] {
            Fix::Ipv4 { at, id, step, base } => {
                let length = (total - usize::from(at)) as u16;
                Network::Ipv4 { at, length, id, step, base: base.plus(Sum::of_field(length)) }
            }
            Fix::Ipv6 { at } => {
                Network::Ipv6 { at, length: (total - usize::from(at) - ipv6::LEN) as u16 }
            }
            Fix::Fragment4 { at, base, options_len: 0, .. } => {
                let length = (total - usize::from(at)) as u16;
                Network::Fragment4 { at, length, base: base.plus(Sum::of_field(length)) }
            }
            Fix::Fragment6 { at, link, header } => {
                let length = (total - usize::from(at) - ipv6::LEN) as u16;
                Network::Fragment6 { at, length, link, fragment: template.payload as u16, header }
            }
            _ => return None,
        };
        let upper = match template.transport {
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
                let length = Sum::of_field((total - usize::from(at)) as u16);
                let fields = Sum::of_field(control).plus(Sum::of_field(urgent));
                let checksum = match template.partial {
                    true => Checksum::Fixed(pseudo.plus(length).partial()),
                    false => Checksum::Base(base.plus(length).plus(fields)),
                };
                Upper::Tcp { at, sequence, control, checksum }
            }
            Transport::Udp { at, checksum, base, pseudo } => {
                let length = (total - usize::from(at)) as u16;
                let field = Sum::of_field(length);
                let checksum = match template.partial {
                    _ if !checksum => Checksum::Fixed(0),
                    true => Checksum::Fixed(pseudo.plus(field).partial()),
                    // The length is in the header and in the pseudo-header.
                    false => Checksum::Base(base.plus(field).plus(field)),
                };
                Upper::Udp { at, length, checksum }
            }
            Transport::Fragment { .. } => Upper::Payload,
            Transport::Whole { .. } => return None,
        };
        Some(Self { network, upper })
    }

    /// Writes what differs from the frame's headers into a copy of them.
    #[inline(always)]
    pub(super) fn write(&self, header: &mut [u8], piece: &Piece) {
        match self.upper {
            Upper::Tcp { at, control, checksum, .. } => {
                put(header, usize::from(at) + 12, control.to_be_bytes());
                put(header, usize::from(at) + tcp::CHECKSUM_OFFSET, checksum.fixed());
            }
            Upper::Udp { at, length, checksum } => {
                put(header, usize::from(at) + 4, length.to_be_bytes());
                put(header, usize::from(at) + udp::CHECKSUM_OFFSET, checksum.fixed());
            }
            Upper::Payload => {}
        }
        match self.network {
            Network::Ipv4 { at, length, .. } | Network::Fragment4 { at, length, .. } => {
                put(header, usize::from(at) + 2, length.to_be_bytes());
            }
            Network::Ipv6 { at, length } => put(header, usize::from(at) + 4, length.to_be_bytes()),
            Network::Fragment6 { at, length, link, fragment, header: fields } => {
                put(header, usize::from(at) + 4, length.to_be_bytes());
                put(header, link.into(), [Protocol::FRAGMENT.0]);
                // There is room: the block has its length.
                _ = fields.emit(header.get_mut(usize::from(fragment)..).unwrap_or_default());
            }
        }
        self.write_next(header, piece);
    }

    /// Writes what differs from piece to piece into a copy of the header block of another one.
    #[inline(always)]
    pub(in crate::segment) fn write_next(&self, header: &mut [u8], piece: &Piece) {
        let payload = u64::from(piece.sum.partial());
        match self.upper {
            Upper::Tcp { at, sequence, checksum, .. } => {
                let Some(tcp) = at_mut::<{ tcp::MIN_LEN }>(header, at.into()) else { return };
                let sequence = sequence.wrapping_add(piece.offset as u32);
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                if let Checksum::Base(base) = checksum {
                    let sum = u64::from(base.partial()) + u64::from(sequence) + payload;
                    tcp[16..18].copy_from_slice(&Sum::of_number(sum).checksum().to_be_bytes());
                }
            }
            Upper::Udp { at, checksum: Checksum::Base(base), .. } => {
                let sum = Sum::of_number(u64::from(base.partial()) + payload);
                let Some(udp) = at_mut::<{ udp::LEN }>(header, at.into()) else { return };
                udp[6..8].copy_from_slice(&sum.checksum_nonzero().to_be_bytes());
            }
            Upper::Udp { .. } | Upper::Payload => {}
        }
        match self.network {
            Network::Ipv4 { at, id, step, base, .. } => {
                let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(header, at.into()) else { return };
                let id = id.wrapping_add((piece.index as u16).wrapping_mul(step));
                let sum = Sum::of_number(u64::from(base.partial()) + u64::from(id));
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
            }
            Network::Ipv6 { .. } => {}
            Network::Fragment4 { at, base, .. } => {
                let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(header, at.into()) else { return };
                let offset = fragment_offset(piece);
                let sum = Sum::of_number(u64::from(base.partial()) + u64::from(offset));
                ip[6..8].copy_from_slice(&offset.to_be_bytes());
                ip[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
            }
            Network::Fragment6 { fragment, .. } => {
                // The last bit says that more follow (RFC 8200 section 4.5).
                put(header, usize::from(fragment) + 2, (piece.offset as u16 | 1).to_be_bytes());
            }
        }
    }
}

impl Checksum {
    /// The field, as far as it is the same in all pieces.
    #[inline]
    fn fixed(self) -> [u8; 2] {
        match self {
            Self::Fixed(value) => value.to_be_bytes(),
            Self::Base(_) => [0; 2],
        }
    }
}
