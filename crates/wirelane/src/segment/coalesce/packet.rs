//! Parses packets that can be merged.

use wirelane_wire::checksum::Sum;
use wirelane_wire::flow::{Addresses, Network};
use wirelane_wire::{
    Layers, Ports, Protocol, TcpFlags, TcpView, UdpView, ipv4, ipv6, tcp, udp, vlan,
};

use super::limits::Limits;
use super::stats::Alone;
use crate::checksum;
use crate::frame::PartialChecksum;

/// Bytes of both Ethernet addresses; tags follow.
const ADDRESSES: usize = 12;

/// A packet that can be merged, if it fits the held packets before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeablePacket<'a> {
    /// The whole frame, which ends with the payload.
    pub(super) frame: &'a [u8],
    pub(super) flow: MergeFlow<'a>,
    /// Offset of the IP header.
    pub(super) network: usize,
    /// Offset of the transport header.
    pub(super) transport: usize,
    /// Offset of the payload.
    pub(super) begin: usize,
    pub(super) v6: bool,
    /// Variable fields of the TCP header; `None` for UDP.
    pub(super) tcp: Option<TcpFields>,
    /// The IPv4 identification.
    pub(super) id: u16,
    pub(super) dont_fragment: bool,
    /// Whether it has a checksum; UDP over IPv4 may have none.
    pub(super) checksum: bool,
    /// Whether its checksum is partial.
    pub(super) partial: bool,
}

/// Fields of a TCP header that may differ from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpFields {
    pub(super) sequence: u32,
    pub(super) flags: TcpFlags,
}

/// The identity of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeFlow<'a> {
    /// The Ethernet header with all tags. Only its [`networks`] belong to the identity.
    pub(super) link: &'a [u8],
    pub(super) addresses: Addresses,
    pub(super) ports: Ports,
    pub(super) protocol: Protocol,
}

/// A packet that cannot be merged: the known part of its flow, and the reason.
#[derive(Debug)]
pub(super) enum Unmergeable<'a> {
    /// The whole flow.
    Flow(MergeFlow<'a>, Alone),
    /// Only its addresses.
    Addresses(Addresses, Alone),
    /// Nothing.
    Foreign(Alone),
}

/// The VLANs in the tags of an Ethernet header. Its other fields may change within a flow, and so
/// may a tag without a VLAN (IEEE 802.1Q, table 9-2: VID 0 has only a priority).
pub(super) fn networks(link: &[u8]) -> impl Iterator<Item = u16> + '_ {
    let tags = link.get(ADDRESSES..).unwrap_or_default().as_chunks::<{ vlan::LEN }>().0;
    tags.iter().map(|[_, _, a, b]| u16::from_be_bytes([*a, *b]) & 0x0fff).filter(|vid| *vid != 0)
}

impl Unmergeable<'_> {
    pub(super) fn reason(&self) -> Alone {
        match self {
            Self::Flow(_, reason) | Self::Addresses(_, reason) | Self::Foreign(reason) => *reason,
        }
    }
}

impl<'a> MergeablePacket<'a> {
    /// Parses a packet and verifies its checksums. A partial checksum, at `partial`, is not
    /// verified, because the packet was not transmitted yet
    /// (`__skb_gro_checksum_validate_needed()`).
    pub(super) fn parse(
        frame: &'a [u8],
        partial: Option<PartialChecksum>,
        limits: &Limits,
    ) -> Result<Self, Unmergeable<'a>> {
        let layers = Layers::parse(frame).map_err(|_| Unmergeable::Foreign(Alone::Malformed))?;
        let network = layers.network_offset;
        let bytes = frame.get(network..).unwrap_or_default();
        // Total length, header length, and properties of the IP version.
        let (addresses, stated, v6) = match &layers.network {
            Network::V4(view) => {
                let (source, destination) = (view.source(), view.destination());
                (Addresses::V4 { source, destination }, usize::from(view.total_len()), false)
            }
            Network::V6(view) => {
                let (source, destination) = (view.source(), view.destination());
                let stated = ipv6::LEN + usize::from(view.payload_len());
                (Addresses::V6 { source, destination }, stated, true)
            }
            Network::Other(_) => return Err(Unmergeable::Foreign(Alone::OtherProtocol)),
        };
        let unknown = |reason| Unmergeable::Addresses(addresses, reason);
        let upper = layers.transport.ok_or(unknown(Alone::OtherProtocol))?;
        let (id, dont_fragment, plain, sound) = match &layers.network {
            Network::V4(view) => (
                view.identification(),
                view.dont_fragment(),
                view.options().is_empty() && !view.is_fragment(),
                // 0xffff is as valid as 0, but segmentation would not write it.
                view.checksum_is_valid() && view.checksum() != 0xffff,
            ),
            _ => (0, true, upper.offset == network + ipv6::LEN && !upper.is_fragment, true),
        };
        if !plain {
            return Err(unknown(Alone::NotPlain));
        }
        let ports = upper.ports().map_err(|_| unknown(Alone::Malformed))?;
        let (Some(ports), Protocol::TCP | Protocol::UDP) = (ports, upper.protocol) else {
            return Err(unknown(Alone::OtherProtocol));
        };
        let link = frame.get(..network).unwrap_or_default();
        let flow = MergeFlow { link, addresses, ports, protocol: upper.protocol };
        let known = |reason| Unmergeable::Flow(flow, reason);
        let is_tcp = upper.protocol == Protocol::TCP;
        if !(if is_tcp { limits.tcp } else { limits.udp }) {
            return Err(known(Alone::OtherProtocol));
        }
        let transport = upper.offset;
        let segment = bytes
            .get(..stated)
            .and_then(|packet| packet.get(transport - network..))
            .ok_or(known(Alone::Malformed))?;
        let (header_len, field, tcp) = if is_tcp {
            let view = TcpView::new(segment).map_err(|_| known(Alone::Malformed))?;
            let fields = TcpFields { sequence: view.sequence(), flags: view.flags() };
            (view.header_len(), view.checksum(), Some(fields))
        } else {
            let view = UdpView::new(segment).map_err(|_| known(Alone::Malformed))?;
            if usize::from(view.length()) != segment.len() {
                return Err(known(Alone::Malformed));
            }
            (udp::LEN, view.checksum(), None)
        };
        if segment.len() == header_len {
            return Err(known(Alone::Empty));
        }
        let single = TcpFlags::SYN.with(TcpFlags::RST).with(TcpFlags::URG);
        if let Some(fields) = tcp
            && (fields.flags.bits() & single.bits() != 0
                || !fields.flags.contains(TcpFlags::ACK)
                || urgent_pointer(segment) != 0)
        {
            return Err(known(Alone::Flags));
        }
        if bytes.len() > stated {
            return Err(known(Alone::Trailer));
        }
        if stated > limits.packet {
            return Err(known(Alone::AboveMtu));
        }
        let none = partial.is_none() && !is_tcp && field == 0 && !v6;
        let right = match partial {
            // The partial checksum of an outer header, or of another place.
            Some(place) if Some(place) != own_place(transport, flow.protocol) => {
                return Err(known(Alone::Offload));
            }
            // From any other sum, completion would make another checksum than segmentation.
            Some(_) => field == pseudo_of(&flow, segment).partial(),
            None if none => true,
            None => {
                (!is_tcp || field != 0xffff) && (is_tcp || field != 0) && verifies(&flow, segment)
            }
        };
        if !(right && sound) {
            return Err(known(Alone::Checksum));
        }
        Ok(Self {
            frame,
            flow,
            network,
            transport,
            begin: transport + header_len,
            v6,
            tcp,
            id,
            dont_fragment,
            checksum: !none,
            partial: partial.is_some(),
        })
    }

    /// The payload.
    pub(super) fn payload(&self) -> &'a [u8] {
        self.frame.get(self.begin..).unwrap_or_default()
    }

    /// Whether it must be the last packet of a frame.
    pub(super) fn ends_frame(&self) -> bool {
        let ends = TcpFlags::PSH.with(TcpFlags::FIN);
        self.tcp.is_some_and(|fields| fields.flags.bits() & ends.bits() != 0)
    }

    /// Whether the headers and tags equal those of `first`, except for fields that segmentation
    /// changes.
    pub(super) fn like(&self, first: &[u8]) -> bool {
        let same = |range: std::ops::Range<usize>| matches!((self.frame.get(range.clone()), first.get(range)), (Some(a), Some(b)) if a == b);
        let (ip, at) = (self.network, self.transport);
        let network = if self.v6 {
            // All but the payload length.
            same(ip..ip + 4) && same(ip + 6..ip + ipv6::LEN)
        } else {
            // All but total length, identification and checksum.
            same(ip..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..ip + ipv4::MIN_LEN)
        };
        same(0..ip)
            && network
            && match self.tcp {
                // All but sequence number, flags and checksum; the data offset is with the flags.
                Some(_) => {
                    same(at..at + 4)
                        && same(at + 8..at + 12)
                        && same(at + 14..at + 16)
                        && same(at + tcp::MIN_LEN..self.begin)
                }
                None => same(at..at + 4),
            }
    }
}

/// It is valid only with URG, but must equal the copy that segmentation makes.
fn urgent_pointer(segment: &[u8]) -> u16 {
    let field = segment.get(18..).and_then(|bytes| bytes.first_chunk());
    field.map_or(0, |field| u16::from_be_bytes(*field))
}

fn verifies(flow: &MergeFlow<'_>, segment: &[u8]) -> bool {
    pseudo_of(flow, segment).plus(checksum::sum(segment)).is_valid()
}

fn pseudo_of(flow: &MergeFlow<'_>, segment: &[u8]) -> Sum {
    pseudo(&flow.addresses, flow.protocol, segment.len())
}

/// The place of a transport header's checksum.
pub(super) fn own_place(transport: usize, protocol: Protocol) -> Option<PartialChecksum> {
    let offset =
        if protocol == Protocol::TCP { tcp::CHECKSUM_OFFSET } else { udp::CHECKSUM_OFFSET };
    PartialChecksum::at(transport, offset)
}

/// The sum of the pseudo-header for `length` bytes.
pub(super) fn pseudo(addresses: &Addresses, protocol: Protocol, length: usize) -> Sum {
    // No packet is longer than 65535 bytes.
    let length = length as u32;
    match *addresses {
        Addresses::V4 { source, destination } => {
            wirelane_wire::checksum::pseudo_v4(source, destination, protocol, length)
        }
        Addresses::V6 { source, destination } => {
            wirelane_wire::checksum::pseudo_v6(source, destination, protocol, length)
        }
    }
}
