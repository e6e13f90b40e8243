//! The pieces between the first and the last one, of which a long frame has dozens: all of one length
//! and with the same flags, so that their headers differ in two or three fields.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{TcpFlags, ipv4, tcp, udp};

use super::{Fix, Piece, Template, Transport, at_mut, put, sum_of};

/// The longest header block, in bytes: room for Ethernet, tags, IPv6 and TCP with all its options.
const LONGEST: usize = 128;

/// What is to be written into the block of such a piece; the rest is in the block.
#[derive(Clone, Debug)]
pub(super) struct Middle {
    network: Network,
    upper: Upper,
}

/// The IP header.
#[derive(Clone, Copy, Debug)]
enum Network {
    Ipv4 {
        at: usize,
        id: u16,
        step: u16,
        /// Of the header without identification and checksum.
        base: Sum,
    },
    Ipv6,
}

/// The header that is cut; `base` is of it without what is written, with its pseudo-header.
#[derive(Clone, Copy, Debug)]
enum Upper {
    Tcp { at: usize, sequence: u32, base: Option<Sum> },
    Udp { at: usize, base: Option<Sum> },
}

impl Middle {
    /// Completes the template's block for pieces of `unit` bytes. `None`, and a block as it was, where
    /// their headers differ in more than this can write: in tunnels, fragments and with urgent data.
    pub(super) fn new(template: &mut Template, unit: usize) -> Option<Self> {
        let [network, ..] = template.fixes;
        if template.count != 1 || template.covered || template.len > LONGEST {
            return None;
        }
        match template.transport {
            Transport::Tcp { flags, .. } if !flags.contains(TcpFlags::URG) => {}
            Transport::Udp { .. } => {}
            _ => return None,
        }
        if !matches!(network, Fix::Ipv4 { .. } | Fix::Ipv6 { .. }) {
            return None;
        }

        let len = template.len;
        let mut block: [u8; LONGEST] = *template.block.first_chunk()?;
        let piece = Piece { offset: unit, len: unit, index: 1, last: false, sum: Sum::ZERO };
        template.write_any(block.get_mut(..len)?, &piece);
        let network = match network {
            Fix::Ipv4 { at, id, step, .. } => {
                put(&mut block, at + 4, [0; 2]);
                put(&mut block, at + 10, [0; 2]);
                let header_len = usize::from(*block.get(at)? & 0xf) * 4;
                Network::Ipv4 { at, id, step, base: sum_of(&block, at, at + header_len) }
            }
            _ => Network::Ipv6,
        };
        let complete = |sums: bool, pseudo: Sum, block: &[u8], at: usize| {
            let length = Sum::of_number((len - at + unit) as u64);
            sums.then(|| sum_of(block, at, len).plus(pseudo).plus(length))
        };
        let sums = template.sums_payload;
        let upper = match template.transport {
            Transport::Tcp { at, sequence, pseudo, .. } => {
                put(&mut block, at + 4, [0; 4]);
                if sums {
                    put(&mut block, at + tcp::CHECKSUM_OFFSET, [0; 2]);
                }
                Upper::Tcp { at, sequence, base: complete(sums, pseudo, &block, at) }
            }
            Transport::Udp { at, pseudo, .. } => {
                if sums {
                    put(&mut block, at + udp::CHECKSUM_OFFSET, [0; 2]);
                }
                Upper::Udp { at, base: complete(sums, pseudo, &block, at) }
            }
            _ => return None,
        };
        template.block.get_mut(..len)?.copy_from_slice(block.get(..len)?);
        Some(Self { network, upper })
    }

    /// Writes what differs into the copied block.
    #[inline(always)]
    pub(super) fn write(&self, header: &mut [u8], piece: &Piece) {
        let payload = u64::from(piece.sum.partial());
        match self.upper {
            Upper::Tcp { at, sequence, base } => {
                let sequence = sequence.wrapping_add(piece.offset as u32);
                let Some(tcp) = at_mut::<{ tcp::MIN_LEN }>(header, at) else { return };
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                if let Some(base) = base {
                    let sum = u64::from(base.partial()) + u64::from(sequence) + payload;
                    tcp[16..18].copy_from_slice(&Sum::of_number(sum).checksum().to_be_bytes());
                }
            }
            Upper::Udp { at, base: Some(base) } => {
                let sum = Sum::of_number(u64::from(base.partial()) + payload);
                put(header, at + 6, sum.checksum_nonzero().to_be_bytes());
            }
            Upper::Udp { base: None, .. } => {}
        }
        if let Network::Ipv4 { at, id, step, base } = self.network {
            let id = id.wrapping_add((piece.index as u16).wrapping_mul(step));
            let sum = Sum::of_number(u64::from(base.partial()) + u64::from(id));
            let Some(ip) = at_mut::<{ ipv4::MIN_LEN }>(header, at) else { return };
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
        }
    }
}
