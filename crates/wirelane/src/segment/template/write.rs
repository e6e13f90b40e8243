//! Writes the headers of any piece, including the first and the last one.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, Protocol, TcpFlags, ipv4, ipv6, tcp, udp};

use super::HeaderTemplate;
use super::fields::{at_mut, control, flags_of, fragment_offset, put, sum_of};
use super::parts::{Fix, Piece, Transport};

impl HeaderTemplate {
    /// Writes the different fields into the copied block of a piece.
    pub(super) fn write_any(&self, frame: &[u8], header: &mut [u8], piece: &Piece) {
        self.write_transport(frame, header, piece);
        let covered = if self.covered { self.sum_covered(header, piece) } else { Sum::ZERO };
        let total = self.len + piece.len;
        for fix in self.fixes.get(..self.count).unwrap_or_default() {
            match *fix {
                Fix::None => {}
                Fix::Ipv4 { at, id, step, base } => {
                    let at = usize::from(at);
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
                    let at = usize::from(at);
                    put(header, at + 4, ((total - at - ipv6::LEN) as u16).to_be_bytes());
                }
                Fix::Udp { at, checksum, pseudo } => {
                    let at = usize::from(at);
                    let length = (total - at) as u16;
                    put(header, at + 4, length.to_be_bytes());
                    if checksum {
                        put(header, at + 6, [0; 2]);
                        let inside = sum_of(header, at, self.covered_from()).plus(covered);
                        let sum = pseudo.plus(Sum::of_field(length)).plus(inside);
                        put(header, at + 6, sum.checksum_nonzero().to_be_bytes());
                    }
                }
                Fix::Gre { at, checksum } => {
                    let at = usize::from(at);
                    if checksum {
                        put(header, at + 4, [0; 2]);
                        let sum = sum_of(header, at, self.covered_from()).plus(covered);
                        put(header, at + 4, sum.checksum().to_be_bytes());
                    }
                }
                Fix::Fragment4 { at, base, first_base, options_len } => {
                    let at = usize::from(at);
                    let length = (total - at) as u16;
                    let fragment = fragment_offset(piece);
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
                Fix::Fragment6 { at, link, header: fragment } => {
                    let at = usize::from(at);
                    put(header, at + 4, ((total - at - ipv6::LEN) as u16).to_be_bytes());
                    put(header, link.into(), [Protocol::FRAGMENT.0]);
                    let offset = piece.offset as u16;
                    let fragment = Fragment { offset, more_fragments: !piece.last, ..fragment };
                    let room = header.get_mut(self.payload..).unwrap_or_default();
                    // There is room: the block has its length.
                    _ = fragment.emit(room);
                }
            }
        }
    }

    #[inline]
    fn write_transport(&self, frame: &[u8], header: &mut [u8], piece: &Piece) {
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
                let mut flags = flags_of(flags, first, piece.last, accurate_ecn);
                // The pointer counts from the segment's own sequence number (RFC 9293 section 3.1).
                let mut pointer = urgent;
                if flags.contains(TcpFlags::URG) && !first {
                    pointer = usize::from(urgent).saturating_sub(piece.offset) as u16;
                    if pointer == 0 {
                        flags = flags.without(TcpFlags::URG);
                    }
                }
                let sequence = sequence.wrapping_add(piece.offset as u32);
                let control = control(header_len, flags);
                let length = u64::from(header_len) + piece.len as u64;
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
                let Some(tcp) = at_mut::<{ tcp::MIN_LEN }>(header, at.into()) else { return };
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
                let Some(udp) = at_mut::<{ udp::LEN }>(header, at.into()) else { return };
                udp[4..6].copy_from_slice(&length.to_be_bytes());
                udp[6..8].copy_from_slice(&value.to_be_bytes());
            }
            Transport::Fragment { checksum } => {
                if piece.offset == 0 {
                    let own = frame.get(self.payload..self.payload + self.prefix);
                    if let (Some(to), Some(own)) = (header.get_mut(self.len..), own) {
                        to.copy_from_slice(own);
                    }
                    if let Some((place, value)) = checksum {
                        put(header, place.into(), value.to_be_bytes());
                    }
                }
            }
            Transport::Whole { start, field, nonzero } => {
                let (start, field) = (usize::from(start), usize::from(field));
                let sum = sum_of(header, start, field + 2).plus(piece.sum);
                let value = if nonzero { sum.checksum_nonzero() } else { sum.checksum() };
                put(header, field, value.to_be_bytes());
            }
        }
    }

    /// The sum from the transport header on, for checksums around it. Once its checksum is
    /// complete, the rest sums up to the complement of its pseudo-header's sum.
    #[inline]
    fn sum_covered(&self, header: &[u8], piece: &Piece) -> Sum {
        let (pseudo, header_len) = match self.transport {
            Transport::Tcp { header_len, pseudo, .. } => (pseudo, header_len.into()),
            Transport::Udp { checksum: true, pseudo, .. } => (pseudo, udp::LEN),
            _ => return sum_of(header, self.covered_from(), self.len).plus(piece.sum),
        };
        let length = Sum::of_number((header_len + piece.len) as u64);
        Sum::of_field(pseudo.plus(length).checksum())
    }

    /// Offset of the first byte that [`sum_covered`](Self::sum_covered) sums.
    #[inline]
    fn covered_from(&self) -> usize {
        match self.transport {
            Transport::Tcp { at, .. } | Transport::Udp { at, .. } => at.into(),
            Transport::Fragment { .. } | Transport::Whole { .. } => self.len,
        }
    }
}
