//! Changes addresses and ports of a whole frame, and updates every checksum that covers them.
//!
//! A change costs the same for a frame of any length: checksums are updated incrementally (RFC
//! 1624), so a wrong checksum stays wrong.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{ChecksumState, Sum};
use crate::error::WireError;
use crate::ethernet::{self, EthernetMut, EthernetView, MacAddr};
use crate::flow::{Layers, Network};
use crate::icmpv4::{Icmpv4, Icmpv4Mut, Icmpv4View};
use crate::icmpv6::{Icmpv6, Icmpv6Mut, Icmpv6View};
use crate::ipv4::Ipv4Mut;
use crate::ipv6::{self, Ipv6Mut, extensions};
use crate::protocol::Protocol;
use crate::{tcp, udp};

/// An Ethernet frame whose outermost addresses, TTL and ports can be changed: through VLAN tags and
/// IPv6 extension headers, and in fragments as far as they contain the header. Updates the IPv4
/// header checksum and the checksums of TCP, UDP, UDP-Lite, DCCP, ICMP and ICMPv6.
///
/// Several changes parse the headers only once. A change that fails leaves the frame unchanged.
///
/// ```
/// use wirelane_wire::{FlowKey, PacketMut, packet};
/// # use wirelane_wire::{MacAddr, WireError};
///
/// let mut frame = [0; 64];
/// let packet = packet::ethernet(MacAddr::ZERO, MacAddr::BROADCAST)
///     .ipv4([10, 0, 0, 2].into(), [192, 0, 2, 9].into())
///     .udp(4000, 53, b"query");
/// let len = packet.emit(&mut frame)?;
///
/// let mut packet = PacketMut::new(&mut frame[..len])?;
/// packet.set_ipv4_source([192, 0, 2, 1].into())?;
/// packet.set_source_port(61_000)?;
///
/// let flow = FlowKey::parse(&frame[..len])?.map(|flow| flow.to_string());
/// assert_eq!(flow.as_deref(), Some("192.0.2.1:61000 > 192.0.2.9:53 udp"));
/// # Ok::<_, WireError>(())
/// ```
#[derive(Debug)]
pub struct PacketMut<'a> {
    frame: &'a mut [u8],
    /// Offset of the IP header.
    network: usize,
    version: IpVersion,
    upper: TransportFacts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpVersion {
    NotIp,
    V4,
    V6 {
        /// Whether the pseudo-header has the destination of the fixed header; an error for a
        /// routing header of unknown type.
        destination: Result<bool, WireError>,
    },
}

/// The properties of the transport packet that changes depend on.
#[derive(Clone, Copy, Debug)]
struct TransportFacts {
    protocol: Protocol,
    /// Its start and end in the frame.
    place: (usize, usize),
    /// Whether it begins with its header; later fragments do not.
    has_header: bool,
    /// The state of its checksum field; `None` if unknown.
    state: Option<ChecksumState>,
}

impl<'a> PacketMut<'a> {
    /// Takes the bytes of a frame whose checksums are complete.
    ///
    /// # Errors
    /// As [`Layers::parse`].
    #[inline]
    pub fn new(frame: &'a mut [u8]) -> Result<Self, WireError> {
        Self::parse(frame, None)
    }

    /// Takes the bytes of a frame with one partial checksum, which covers the bytes from `start`
    /// on, and which a device or a segmenter completes. Its field contains the sum of the
    /// pseudo-header ([`ChecksumState::Partial`]).
    ///
    /// # Errors
    /// As [`Layers::parse`].
    #[inline]
    pub fn new_partial(frame: &'a mut [u8], start: usize) -> Result<Self, WireError> {
        Self::parse(frame, Some(start))
    }

    #[inline]
    fn parse(frame: &'a mut [u8], partial: Option<usize>) -> Result<Self, WireError> {
        let layers = Layers::parse(frame)?;
        let (version, has_header) = match &layers.network {
            Network::V4(view) => (IpVersion::V4, view.fragment_offset() == 0),
            Network::V6(view) => {
                let fragment = view.upper()?.fragment;
                let destination = covers_destination(view.next_header(), view.payload());
                (IpVersion::V6 { destination }, fragment.is_none_or(|it| it.offset == 0))
            }
            Network::Other(_) => (IpVersion::NotIp, false),
        };
        let (protocol, begin, len) =
            layers.transport.map_or((Protocol::NO_NEXT_HEADER, 0, 0), |it| {
                (it.protocol, it.offset, it.bytes.len())
            });
        let place = (begin, begin + len);
        let state = match partial {
            None => Some(ChecksumState::Complete),
            Some(start) if start == begin => Some(ChecksumState::Partial),
            // The partial checksum is of a packet in a tunnel. The outer checksum covers its final
            // value.
            Some(start) if (place.0..place.1).contains(&start) => Some(ChecksumState::Complete),
            Some(_) => None,
        };
        let network = layers.network_offset;
        Ok(Self {
            frame,
            network,
            version,
            upper: TransportFacts { protocol, place, has_header, state },
        })
    }

    /// The source address of the Ethernet header.
    #[inline]
    pub fn source_mac(&self) -> MacAddr {
        EthernetView::new(self.frame).map_or(MacAddr::ZERO, |header| header.source())
    }

    /// Replaces the source address of the Ethernet header.
    #[inline]
    pub fn set_source_mac(&mut self, address: MacAddr) {
        if let Ok(mut ethernet) = EthernetMut::new(self.frame) {
            ethernet.set_source(address);
        }
    }

    /// Replaces the destination address of the Ethernet header.
    #[inline]
    pub fn set_destination_mac(&mut self, address: MacAddr) {
        if let Ok(mut ethernet) = EthernetMut::new(self.frame) {
            ethernet.set_destination(address);
        }
    }

    /// Replaces the source address of the IPv4 header.
    ///
    /// # Errors
    /// [`WireError::Absent`] for other protocols than IPv4; [`WireError::Truncated`] when the frame
    /// ends before a checksum that covers the address; [`WireError::Malformed`] when it is unknown
    /// which of its checksums is partial.
    #[inline]
    pub fn set_ipv4_source(&mut self, address: Ipv4Addr) -> Result<(), WireError> {
        let old = self.ipv4()?.as_view().source();
        self.pseudo_changed(&old.octets(), &address.octets())?;
        self.ipv4()?.set_source(address);
        Ok(())
    }

    /// Replaces the destination address of the IPv4 header.
    ///
    /// # Errors
    /// As [`set_ipv4_source`](Self::set_ipv4_source).
    #[inline]
    pub fn set_ipv4_destination(&mut self, address: Ipv4Addr) -> Result<(), WireError> {
        let old = self.ipv4()?.as_view().destination();
        self.pseudo_changed(&old.octets(), &address.octets())?;
        self.ipv4()?.set_destination(address);
        Ok(())
    }

    /// Replaces the source address of the IPv6 header.
    ///
    /// # Errors
    /// As [`set_ipv4_source`](Self::set_ipv4_source).
    #[inline]
    pub fn set_ipv6_source(&mut self, address: Ipv6Addr) -> Result<(), WireError> {
        let old = self.ipv6()?.as_view().source();
        self.pseudo_changed(&old.octets(), &address.octets())?;
        self.ipv6()?.set_source(address);
        Ok(())
    }

    /// Replaces the destination address of the IPv6 header; with a routing header, the address of
    /// the next router on the way.
    ///
    /// # Errors
    /// As [`set_ipv4_source`](Self::set_ipv4_source); [`WireError::Malformed`] also for a routing
    /// header of unknown type.
    #[inline]
    pub fn set_ipv6_destination(&mut self, address: Ipv6Addr) -> Result<(), WireError> {
        let old = self.ipv6()?.as_view().destination();
        if let IpVersion::V6 { destination } = self.version
            && destination?
        {
            self.pseudo_changed(&old.octets(), &address.octets())?;
        }
        self.ipv6()?.set_destination(address);
        Ok(())
    }

    /// Replaces the TTL of the IPv4 header or the hop limit of the IPv6 header.
    ///
    /// # Errors
    /// [`WireError::Absent`] for other protocols than IP.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) -> Result<(), WireError> {
        match self.version {
            IpVersion::V4 => self.ipv4()?.set_ttl(ttl),
            IpVersion::V6 { .. } => self.ipv6()?.set_hop_limit(ttl),
            IpVersion::NotIp => return Err(WireError::Absent("IP header")),
        }
        Ok(())
    }

    /// Replaces the port of the sender.
    ///
    /// # Errors
    /// [`WireError::Absent`] for a frame without a header of TCP, UDP, UDP-Lite or DCCP, such as a
    /// later fragment; otherwise as [`set_ipv4_source`](Self::set_ipv4_source).
    #[inline]
    pub fn set_source_port(&mut self, port: u16) -> Result<(), WireError> {
        self.set_port(0, port)
    }

    /// Replaces the port of the receiver.
    ///
    /// # Errors
    /// As [`set_source_port`](Self::set_source_port).
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) -> Result<(), WireError> {
        self.set_port(2, port)
    }

    /// The identifier of an ICMP or ICMPv6 echo request or reply, which corresponds to the ports of
    /// other protocols.
    #[inline]
    pub fn echo_identifier(&self) -> Option<u16> {
        let message = self.frame.get(self.upper.place.0..self.upper.place.1)?;
        let echo = match (self.upper.protocol, self.version) {
            _ if !self.upper.has_header => None,
            (Protocol::ICMP, IpVersion::V4) => {
                Icmpv4::parse(&Icmpv4View::new(message).ok()?).echo()
            }
            (Protocol::ICMPV6, IpVersion::V6 { .. }) => {
                Icmpv6::parse(&Icmpv6View::new(message).ok()?).echo()
            }
            _ => None,
        };
        Some(echo?.identifier)
    }

    /// Replaces the identifier of an ICMP or ICMPv6 echo request or reply.
    ///
    /// # Errors
    /// [`WireError::Absent`] for a frame that is neither; otherwise as
    /// [`set_ipv4_source`](Self::set_ipv4_source).
    #[inline]
    pub fn set_echo_identifier(&mut self, identifier: u16) -> Result<(), WireError> {
        const ABSENT: WireError = WireError::Absent("echo identifier");
        let state = self.state()?;
        if !self.upper.has_header {
            return Err(ABSENT);
        }
        let TransportFacts { protocol, place, .. } = self.upper;
        let message = self.frame.get_mut(place.0..place.1).ok_or(ABSENT)?;
        match (protocol, self.version) {
            (Protocol::ICMP, IpVersion::V4) => {
                let mut view = Icmpv4Mut::new(message)?;
                let mut message = Icmpv4::parse(&view.as_view());
                message.echo_mut().ok_or(ABSENT)?.identifier = identifier;
                view.set_message(message);
            }
            (Protocol::ICMPV6, IpVersion::V6 { .. }) => {
                let mut view = Icmpv6Mut::new(message, state)?;
                let mut message = Icmpv6::parse(&view.as_view());
                message.echo_mut().ok_or(ABSENT)?.identifier = identifier;
                view.set_message(message);
            }
            _ => return Err(ABSENT),
        }
        Ok(())
    }

    /// Swaps sender and receiver: the addresses of Ethernet and IP, and the ports. The checksums
    /// stay correct, because a sum does not depend on the order of its parts.
    ///
    /// # Errors
    /// [`WireError::Absent`] for other protocols than IP, for a frame to a group of stations, and
    /// for IPv6 with a routing header.
    #[inline]
    pub fn reverse(&mut self) -> Result<(), WireError> {
        let (at, len) = match self.version {
            IpVersion::V4 => (self.network + 12, 4),
            IpVersion::V6 { destination: Ok(true) } => (self.network + 8, 16),
            IpVersion::V6 { .. } => return Err(WireError::Absent("direct destination")),
            IpVersion::NotIp => return Err(WireError::Absent("IP header")),
        };
        if EthernetView::new(self.frame)?.destination().is_multicast() {
            return Err(WireError::Absent("destination that is one station"));
        }
        ethernet::swap_addresses(self.frame)?;
        swap(self.frame, at, len);
        if self.upper.has_header && has_ports(self.upper.protocol) {
            swap(self.frame, self.upper.place.0, 2);
        }
        Ok(())
    }

    /// Turns an ICMP or ICMPv6 echo request into its reply. [`reverse`](Self::reverse) sends it
    /// back.
    ///
    /// # Errors
    /// As [`set_echo_identifier`](Self::set_echo_identifier), also for a reply.
    #[inline]
    pub fn set_echo_reply(&mut self) -> Result<(), WireError> {
        const ABSENT: WireError = WireError::Absent("echo request");
        let state = self.state()?;
        if !self.upper.has_header {
            return Err(ABSENT);
        }
        let TransportFacts { protocol, place, .. } = self.upper;
        let message = self.frame.get_mut(place.0..place.1).ok_or(ABSENT)?;
        match (protocol, self.version) {
            (Protocol::ICMP, IpVersion::V4) => {
                let mut view = Icmpv4Mut::new(message)?;
                let Icmpv4::EchoRequest(echo) = Icmpv4::parse(&view.as_view()) else {
                    return Err(ABSENT);
                };
                view.set_message(Icmpv4::EchoReply(echo));
            }
            (Protocol::ICMPV6, IpVersion::V6 { .. }) => {
                let mut view = Icmpv6Mut::new(message, state)?;
                let Icmpv6::EchoRequest(echo) = Icmpv6::parse(&view.as_view()) else {
                    return Err(ABSENT);
                };
                view.set_message(Icmpv6::EchoReply(echo));
            }
            _ => return Err(ABSENT),
        }
        Ok(())
    }

    #[inline]
    fn ipv4(&mut self) -> Result<Ipv4Mut<'_>, WireError> {
        if self.version != IpVersion::V4 {
            return Err(WireError::Absent("IPv4 header"));
        }
        Ipv4Mut::new(self.frame.get_mut(self.network..).unwrap_or_default())
    }

    #[inline]
    fn ipv6(&mut self) -> Result<Ipv6Mut<'_>, WireError> {
        if !matches!(self.version, IpVersion::V6 { .. }) {
            return Err(WireError::Absent("IPv6 header"));
        }
        Ipv6Mut::new(self.frame.get_mut(self.network..).unwrap_or_default())
    }

    #[inline]
    fn state(&self) -> Result<ChecksumState, WireError> {
        self.upper.state.ok_or(WireError::Malformed("place of the partial checksum"))
    }

    #[inline]
    fn set_port(&mut self, at: usize, port: u16) -> Result<(), WireError> {
        let TransportFacts { protocol, place: (begin, _), has_header, .. } = self.upper;
        if !has_header || !has_ports(protocol) {
            return Err(WireError::Absent("ports of TCP, UDP, UDP-Lite or DCCP"));
        }
        let state = self.state()?;
        let field = self.checksum_place()?;
        let Some(place) = self.frame.get_mut(begin + at..).and_then(|it| it.first_chunk_mut())
        else {
            return Err(WireError::Truncated { needed: begin + at + 2, have: self.frame.len() });
        };
        let old = u16::from_be_bytes(core::mem::replace(place, port.to_be_bytes()));
        self.update(field, |checksum| {
            state.packet_changed(checksum, Sum::of_field(old), Sum::of_field(port))
        });
        Ok(())
    }

    /// Updates the checksum that covers a part of the pseudo-header, if any.
    #[inline]
    fn pseudo_changed(&mut self, old: &[u8], new: &[u8]) -> Result<(), WireError> {
        let state = self.state()?;
        let field = self.checksum_place()?;
        self.update(field, |checksum| state.pseudo_changed(checksum, Sum::of(old), Sum::of(new)));
        Ok(())
    }

    /// Offset of the checksum that covers the pseudo-header; `None` if there is none.
    #[inline]
    fn checksum_place(&self) -> Result<Option<usize>, WireError> {
        /// RFC 4340 section 5.1.
        const DCCP_CHECKSUM_OFFSET: usize = 6;
        let TransportFacts { protocol, place: (begin, end), has_header, .. } = self.upper;
        let offset = match protocol {
            _ if !has_header => return Ok(None),
            Protocol::TCP => tcp::CHECKSUM_OFFSET,
            Protocol::UDP | Protocol::UDP_LITE => udp::CHECKSUM_OFFSET,
            Protocol::DCCP => DCCP_CHECKSUM_OFFSET,
            Protocol::ICMPV6 if self.version != IpVersion::V4 => crate::icmpv6::CHECKSUM_OFFSET,
            _ => return Ok(None),
        };
        match begin + offset + 2 {
            needed if needed > end => Err(WireError::Truncated { needed, have: end }),
            needed => Ok(Some(needed - 2)),
        }
    }

    #[inline]
    fn update(&mut self, field: Option<usize>, updated: impl FnOnce(u16) -> u16) {
        let is_udp = self.upper.protocol == Protocol::UDP;
        let Some(place) =
            field.and_then(|at| self.frame.get_mut(at..)).and_then(|it| it.first_chunk_mut())
        else {
            return;
        };
        let old = u16::from_be_bytes(*place);
        // RFC 768, and RFC 6935 for tunnels over IPv6: 0 means no checksum.
        if is_udp && old == 0 {
            return;
        }
        let new = match updated(old) {
            0 if is_udp || self.upper.protocol == Protocol::UDP_LITE => 0xffff,
            new => new,
        };
        *place = new.to_be_bytes();
    }
}

/// Whether the protocol has ports, and a checksum that covers them.
#[inline]
fn has_ports(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::TCP | Protocol::UDP | Protocol::UDP_LITE | Protocol::DCCP)
}

/// Swaps the `len` bytes at `at` with the next `len` bytes.
#[inline]
fn swap(frame: &mut [u8], at: usize, len: usize) {
    if let Some((first, second)) =
        frame.get_mut(at..at + 2 * len).and_then(|both| both.split_at_mut_checked(len))
    {
        first.swap_with_slice(second);
    }
}

/// Whether the pseudo-header has the destination of the fixed header: with a routing header it has
/// the address of the final receiver (RFC 8200 section 8.1).
#[inline]
fn covers_destination(next_header: Protocol, payload: &[u8]) -> Result<bool, WireError> {
    for extension in extensions(next_header, payload) {
        let extension = extension?;
        if extension.kind == Protocol::ROUTING
            && ipv6::final_destination(extension.bytes)?.is_some()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
