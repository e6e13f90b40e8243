//! Partial checksums: their offsets, and their completion.
//!
//! The kernel reports that a packet has a partial checksum (`TP_STATUS_CSUMNOTREADY`), without its
//! place. The partial checksum contains the sum of its pseudo-header, which the stack stores there
//! (`CHECKSUM_PARTIAL`).
//!
//! The place is searched only when it is needed. On AF_XDP, nothing reports a partial checksum; for
//! veth and TAP the checksum field itself shows it.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{
    EtherType, EthernetView, GeneveView, GreView, Ipv4View, Ipv6View, Protocol, TcpView, UdpView,
    VlanView, VxlanView, ethernet, geneve, ipv6, tcp, udp, vlan, vxlan,
};

use super::offload::PartialChecksum;
use crate::checksum;

/// The most headers to parse: tags, two levels of tunnels.
const MAX_HEADERS: usize = 16;

impl PartialChecksum {
    /// A partial checksum at an unknown offset. No frame has this offset, so completing it fails.
    pub const UNKNOWN: Self = Self { start: u16::MAX, offset: 0 };

    /// The checksum of an Ethernet frame that contains the sum of its pseudo-header. If there are
    /// several, the outermost one, because inner ones are complete.
    pub fn find(frame: &[u8]) -> Option<Self> {
        let view = EthernetView::new(frame).ok()?;
        let (mut at, mut what) = (ethernet::LEN, What::Network(view.ethertype()));
        for _ in 0..MAX_HEADERS {
            let rest = frame.get(at..)?;
            let (next, inside) = match what {
                What::Ethernet => {
                    let view = EthernetView::new(rest).ok()?;
                    (ethernet::LEN, What::Network(view.ethertype()))
                }
                What::Network(ethertype) if ethertype.is_vlan() => {
                    (vlan::LEN, What::Network(VlanView::new(rest).ok()?.ethertype()))
                }
                What::Network(EtherType::IPV4) => {
                    let view = Ipv4View::new_snapped(rest).ok()?;
                    if view.is_fragment() {
                        return None;
                    }
                    let addresses = Sum::of(rest.get(12..20)?);
                    let length = view.payload().len();
                    (view.header_len(), What::Upper(view.protocol(), addresses, length))
                }
                What::Network(EtherType::IPV6) => {
                    let view = Ipv6View::new_snapped(rest).ok()?;
                    let upper = view.upper().ok().filter(|upper| !upper.is_fragment())?;
                    let addresses = addresses6(&view, rest)?;
                    let length = upper.payload.len();
                    (ipv6::LEN + upper.offset, What::Upper(upper.protocol, addresses, length))
                }
                What::Upper(Protocol::TCP, addresses, length) => {
                    let field = TcpView::new(rest).ok()?.checksum();
                    let place = Self::at(at, tcp::CHECKSUM_OFFSET);
                    let partial = is_partial(field, addresses, Protocol::TCP, length);
                    return place.filter(|_| partial);
                }
                What::Upper(Protocol::UDP, addresses, _) => {
                    let view = UdpView::new(rest).ok()?;
                    let length = usize::from(view.length());
                    if is_partial(view.checksum(), addresses, Protocol::UDP, length) {
                        return Self::at(at, udp::CHECKSUM_OFFSET);
                    }
                    udp_tunnel(&view)?
                }
                What::Upper(Protocol::GRE, ..) => {
                    let view = GreView::new(rest).ok()?;
                    (view.header_len(), What::carried(view.protocol()))
                }
                What::Upper(Protocol::IPV4, ..) => (0, What::Network(EtherType::IPV4)),
                What::Upper(Protocol::IPV6, ..) => (0, What::Network(EtherType::IPV6)),
                What::Network(_) | What::Upper(..) => return None,
            };
            (at, what) = (at + next, inside);
        }
        None
    }

    /// The field `offset` bytes after `start`; `None` if an offset exceeds 16 bits.
    pub(crate) fn at(start: usize, offset: usize) -> Option<Self> {
        Some(Self { start: start.try_into().ok()?, offset: offset.try_into().ok()? })
    }

    /// Whether a frame of `len` bytes contains this field.
    #[inline]
    pub fn is_inside(self, len: usize) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= len
    }

    /// Completes the checksum in place. False, without a change, if the frame has no such field.
    #[must_use = "a frame without the field was not changed"]
    pub fn complete(self, frame: &mut [u8]) -> bool {
        let field = usize::from(self.start) + usize::from(self.offset);
        let Some(covered) = frame.get(usize::from(self.start)..) else { return false };
        if !self.offset.is_multiple_of(2) || !self.is_inside(frame.len()) {
            return false;
        }
        let sum = checksum::sum(covered);
        // A TCP checksum of 0 is valid; a UDP checksum of 0 means that there is none (RFC 768).
        let value = match usize::from(self.offset) {
            udp::CHECKSUM_OFFSET => sum.checksum_nonzero(),
            _ => sum.checksum(),
        };
        let Some(field) = frame.get_mut(field..field + 2) else { return false };
        field.copy_from_slice(&value.to_be_bytes());
        true
    }
}

/// The next header of a frame.
#[derive(Clone, Copy)]
enum What {
    Ethernet,
    Network(EtherType),
    /// With the sum of the addresses and the number of bytes.
    Upper(Protocol, Sum, usize),
}

impl What {
    /// The packet that a tunnel declares.
    fn carried(ethertype: EtherType) -> Self {
        if ethertype == EtherType::BRIDGED { Self::Ethernet } else { Self::Network(ethertype) }
    }
}

/// Whether a checksum field contains the sum of the pseudo-header for `length` bytes.
fn is_partial(field: u16, addresses: Sum, protocol: Protocol, length: usize) -> bool {
    let sum = addresses.plus(Sum::of_field(protocol.0.into()));
    field == sum.plus(Sum::of_number(length as u64)).partial()
}

/// The addresses of the pseudo-header. A routing header contains the final destination (RFC 8200
/// section 8.1).
fn addresses6(view: &Ipv6View<'_>, header: &[u8]) -> Option<Sum> {
    let source = Sum::of(header.get(8..24)?);
    for extension in ipv6::extensions(view.next_header(), view.payload()) {
        let extension = extension.ok()?;
        if extension.kind == Protocol::ROUTING
            && let Some(at) = ipv6::final_destination(extension.bytes).ok()?
        {
            return Some(source.plus(Sum::of(extension.bytes.get(at..at + 16)?)));
        }
    }
    Some(source.plus(Sum::of(header.get(24..40)?)))
}

/// The packet in a datagram on the port of a tunnel, and its offset.
fn udp_tunnel(view: &UdpView<'_>) -> Option<(usize, What)> {
    /// The default VXLAN port of Linux.
    const VXLAN_LINUX: u16 = 8472;
    match view.destination_port() {
        vxlan::PORT | VXLAN_LINUX => {
            VxlanView::new(view.payload()).ok()?;
            Some((udp::LEN + vxlan::LEN, What::Ethernet))
        }
        geneve::PORT => {
            let header = GeneveView::new(view.payload()).ok()?;
            Some((udp::LEN + header.header_len(), What::carried(header.protocol())))
        }
        _ => None,
    }
}
