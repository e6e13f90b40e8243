//! Checksums that a sender left to its hardware: where they are, and completing them.
//!
//! The kernel reports that a packet's checksum is not ready (`TP_STATUS_CSUMNOTREADY`), but not
//! which one. It is the one that holds the sum of its pseudo-header, as the stack leaves it
//! (`CHECKSUM_PARTIAL`).

use wirelane_wire::checksum::Sum;
use wirelane_wire::{
    EtherType, EthernetView, GeneveView, GreView, Ipv4View, Ipv6View, Protocol, TcpView, UdpView,
    VlanView, VxlanView, ethernet, geneve, ipv6, tcp, udp, vlan, vxlan,
};

use super::offload::PartialChecksum;
use crate::checksum;

/// Headers to look into: tags, two levels of tunnels.
const MAX_HEADERS: usize = 16;

impl PartialChecksum {
    /// Stands for a partial checksum at an unknown place. No frame has this place, so completing it
    /// fails.
    pub const UNKNOWN: Self = Self { start: u16::MAX, offset: 0 };

    /// The checksum of an Ethernet frame that holds the sum of its pseudo-header; the outermost one
    /// if there are several, because inner ones are complete.
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

    /// The field `offset` bytes behind `start`; `None` if no frame is so long.
    pub(crate) fn at(start: usize, offset: usize) -> Option<Self> {
        Some(Self { start: start.try_into().ok()?, offset: offset.try_into().ok()? })
    }

    /// Whether a frame of `len` bytes has this field.
    #[inline]
    pub fn is_inside(self, len: usize) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= len
    }

    /// Completes the checksum in place. False, and nothing changed, if the frame has no such field.
    #[must_use = "a frame without the field was not changed"]
    pub fn complete(self, frame: &mut [u8]) -> bool {
        let field = usize::from(self.start) + usize::from(self.offset);
        let Some(covered) = frame.get(usize::from(self.start)..) else { return false };
        if !self.offset.is_multiple_of(2) || !self.is_inside(frame.len()) {
            return false;
        }
        let sum = checksum::sum(covered);
        // A TCP checksum of 0 is one; that of UDP says that there is none (RFC 768).
        let value = match usize::from(self.offset) {
            udp::CHECKSUM_OFFSET => sum.checksum_nonzero(),
            _ => sum.checksum(),
        };
        let Some(field) = frame.get_mut(field..field + 2) else { return false };
        field.copy_from_slice(&value.to_be_bytes());
        true
    }
}

/// What comes next in a frame.
#[derive(Clone, Copy)]
enum What {
    Ethernet,
    Network(EtherType),
    /// With the sum of the addresses and the number of bytes.
    Upper(Protocol, Sum, usize),
}

impl What {
    /// What a tunnel declares to carry.
    fn carried(ethertype: EtherType) -> Self {
        if ethertype == EtherType::BRIDGED { Self::Ethernet } else { Self::Network(ethertype) }
    }
}

/// Whether a checksum field holds the sum of the pseudo-header for `length` bytes.
fn is_partial(field: u16, addresses: Sum, protocol: Protocol, length: usize) -> bool {
    let sum = addresses.plus(Sum::of_field(protocol.0.into()));
    field == sum.plus(Sum::of_number(length as u64)).partial()
}

/// The addresses of the pseudo-header; that of the final receiver is in a routing header
/// (RFC 8200 section 8.1).
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

/// What a datagram on the port of a tunnel carries, and how far in.
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
