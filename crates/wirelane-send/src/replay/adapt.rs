//! Converts packets of files to Ethernet frames: link types, frame check sequences, packets cut by
//! a snap length.

use wirelane::internal::Remedy;
use wirelane::pcap::{LINK_TYPE_ETHERNET, Record, Source};
use wirelane::{Error, Result};
use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::flow::Network;
use wirelane_wire::{Layers, MacAddr, Protocol};

use super::config::TruncatedPackets;

/// The largest length to pad a cut frame to: an IP packet of 64 KiB, the Ethernet header and two
/// VLAN tags.
const LONGEST: usize = 65_535 + 14 + 8;
/// The largest end of a checksum field in a transport header (TCP).
const HEADER: usize = 18;
/// The length of an Ethernet header. Shorter packets are not sent.
const SHORTEST: usize = 14;

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adapted {
    /// A frame of this length. The missing bytes are zeros.
    Frame {
        len: usize,
        /// Zeros replace bytes that a snap length has cut.
        is_padded: bool,
        /// The transport checksum could not be recomputed.
        is_unfixed: bool,
    },
    /// The packet is cut by a snap length, and not sent.
    Cut,
    /// Too short for an Ethernet header.
    Short,
}

/// The conversion options.
#[derive(Clone, Debug)]
pub(super) struct Adapter {
    pub(super) cut: TruncatedPackets,
    /// Destination and source for packets without an Ethernet header.
    pub(super) header: Option<(MacAddr, MacAddr)>,
    pub(super) fix_checksums: bool,
}

impl Adapter {
    /// Writes the packet as an Ethernet frame into `frame`, without the frame check sequence of
    /// `check` bytes at its end: the network card recomputes it.
    ///
    /// # Errors
    /// The link type cannot be converted to Ethernet, or needs an Ethernet header that is not
    /// configured.
    pub(super) fn frame(
        &self,
        record: &Record<'_>,
        check: usize,
        source: Option<&Source>,
        name: &str,
        frame: &mut Vec<u8>,
    ) -> Result<Adapted> {
        let link_type = source.map_or(LINK_TYPE_ETHERNET, |source| source.link_type);
        let mut data = record.data;
        let mut len = (record.original_len as usize).max(data.len());
        if link_type == LINK_TYPE_ETHERNET && check > 0 && len > check {
            // The format allows several lengths; in practice it is 0 or 4 bytes.
            len -= check;
            data = data.get(..len.min(data.len())).unwrap_or(data);
        }
        let is_cut = data.len() < len;
        if is_cut
            && (self.cut == TruncatedPackets::Skip
                || self.cut == TruncatedPackets::Pad && len > LONGEST)
        {
            return Ok(Adapted::Cut);
        }
        frame.clear();
        if link_type == LINK_TYPE_ETHERNET {
            frame.extend_from_slice(data);
        } else {
            let (ethertype, skip) =
                payload(link_type, data).ok_or_else(|| foreign(name, link_type))?;
            let (destination, source) = self.header.ok_or_else(|| headless(name, link_type))?;
            let Some(payload) = data.get(skip..) else { return Ok(Adapted::Short) };
            frame.extend_from_slice(&destination.0);
            frame.extend_from_slice(&source.0);
            frame.extend_from_slice(&ethertype.to_be_bytes());
            frame.extend_from_slice(payload);
            len = len - skip + SHORTEST;
        }
        if frame.len() < SHORTEST {
            return Ok(Adapted::Short);
        }
        if is_cut && self.cut == TruncatedPackets::Send {
            len = frame.len();
        }
        let is_padded = len > frame.len();
        if is_padded {
            // Room for the checksum of a transport header.
            frame.resize(len.min(frame.len() + HEADER), 0);
        }
        let is_unfixed = (self.fix_checksums || is_padded) && !fix(frame, len);
        Ok(Adapted::Frame { len, is_padded, is_unfixed })
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The EtherType of a packet of another link type, and the offset of its payload
/// (<https://www.tcpdump.org/linktypes.html>).
fn payload(link_type: u16, data: &[u8]) -> Option<(u16, usize)> {
    let word = |at: usize| data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
    Some(match link_type {
        // Raw IP, including the numbers that some systems write.
        12 | 14 | 101 if data.first().is_some_and(|first| first >> 4 == 6) => (IPV6, 0),
        12 | 14 | 101 | 228 => (IPV4, 0),
        229 => (IPV6, 0),
        // Linux cooked capture, as of the interface "any".
        113 => (word(14).unwrap_or(0), 16),
        276 => (word(0).unwrap_or(0), 20),
        // BSD loopback: an address family in the byte order of the capturing machine.
        0 | 108 => {
            let family = data.first_chunk::<4>()?.iter().fold(0, |sum, byte| sum | byte);
            (if family == 2 { IPV4 } else { IPV6 }, 4)
        }
        _ => return None,
    })
}

fn foreign(name: &str, link_type: u16) -> Error {
    Error::failed(
        name,
        format!("its packets have the link type {link_type}, which is not Ethernet"),
    )
    .help("convert it to Ethernet first, such as with editcap or Scapy")
}

fn headless(name: &str, link_type: u16) -> Error {
    let cause = format!("its packets have no Ethernet header (link type {link_type})");
    Error::failed(name, cause).remedy(Remedy::EthernetHeader)
}

/// Recomputes the checksums of a frame of `len` bytes. Missing bytes at its end count as zeros.
/// Returns false if a wrong checksum may remain: fragments, packets with a routing header, and
/// packets with invalid lengths keep their transport checksum.
pub(super) fn fix(frame: &mut [u8], len: usize) -> bool {
    let Ok(layers) = Layers::parse(frame) else { return true };
    let at = layers.network_offset;
    let Some(transport) = layers.transport else { return true };
    let (begin, protocol) = (transport.offset, transport.protocol);
    let is_fragment = transport.is_fragment;
    // The end of the whole packet, even if `frame` contains only its start.
    let (end, pseudo): (usize, Option<Sum>) = match layers.network {
        Network::V4(view) => {
            let (source, destination) = (view.source(), view.destination());
            let total = field(frame, at + 2).map_or(0, usize::from);
            let end = if total == 0 { len } else { at + total };
            let length = end.saturating_sub(begin) as u32;
            let header = at..begin;
            if let Some(header) = frame.get_mut(header) {
                put(header, 10, 0);
                let sum = checksum::checksum(header);
                put(header, 10, sum);
            }
            (end, Some(checksum::pseudo_v4(source, destination, protocol, length)))
        }
        Network::V6(view) => {
            let payload = field(frame, at + 4).map_or(0, usize::from);
            let end = if payload == 0 { len } else { at + 40 + payload };
            let length = end.saturating_sub(begin) as u32;
            let is_routed = view.next_header() == Protocol::ROUTING;
            let sum = checksum::pseudo_v6(view.source(), view.destination(), protocol, length);
            (end, Some(sum).filter(|_| !is_routed))
        }
        Network::Other(_) => return true,
    };
    let field_at = match protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        Protocol::ICMP | Protocol::ICMPV6 => 2,
        _ => return true,
    };
    let Some(pseudo) = pseudo.filter(|_| !is_fragment && end >= begin && end <= len) else {
        return false;
    };
    let pseudo = if protocol == Protocol::ICMP { Sum::ZERO } else { pseudo };
    let end = end.min(frame.len());
    let Some(packet) = frame.get_mut(begin..end).filter(|it| it.len() >= field_at + 2) else {
        return false;
    };
    if protocol == Protocol::UDP && field(packet, 6) == Some(0) {
        return true;
    }
    put(packet, field_at, 0);
    let sum = pseudo.plus(Sum::of(packet));
    let sum = if protocol == Protocol::UDP { sum.checksum_nonzero() } else { sum.checksum() };
    put(packet, field_at, sum);
    true
}

fn field(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut()) {
        *place = value.to_be_bytes();
    }
}
