//! The offsets of headers that change from segment to segment.

use wirelane_wire::{
    EtherType, GeneveView, GreView, Ipv4View, Ipv6View, Link, Protocol, TcpFlags, TcpView, UdpView,
    VxlanView, WireError, geneve, ipv6, udp, vxlan,
};

use super::stats::{Refusal, SegmentClass};
use crate::frame::{Gso, Offload, Tunnel};

/// IP, tunnel, IP, tunnel, IP: two levels, as Linux allows.
const MAX_LAYERS: usize = 5;

/// A header around the transport header whose length or checksum depends on the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layer {
    #[default]
    None,
    /// An IPv4 header; `header_len` with options.
    Ipv4 { at: usize, header_len: usize, dont_fragment: bool },
    /// An IPv6 header.
    Ipv6 { at: usize },
    /// The UDP header of a tunnel.
    Udp { at: usize, checksum: bool },
    /// A GRE header.
    Gre { at: usize, checksum: bool },
}

/// The layers of a frame to segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    layers: [Layer; MAX_LAYERS],
    count: usize,
    pub(super) class: SegmentClass,
    /// Offset of the first network header, from which the MTU counts.
    pub(super) network: usize,
    /// Offset of the transport header.
    pub(super) transport: usize,
    /// Offset of the first byte after the transport header.
    pub(super) payload: usize,
    /// For IPv6 fragments: offsets of the fragment header, and of the field that announces it.
    pub(super) fragment: usize,
    pub(super) fragment_link: usize,
    /// Offset of the final destination's address in a routing header.
    pub(super) final_destination: Option<usize>,
    /// Whether the AE flag is set: the flags are a counter (RFC 9768).
    pub(super) accurate_ecn: bool,
    /// Whether the checksum field of the transport header is not 0.
    pub(super) checksum: bool,
}

impl Layout {
    /// The layers from the outside in. The last one is the IP header before the transport header.
    pub(super) fn layers(&self) -> &[Layer] {
        self.layers.get(..self.count).unwrap_or_default()
    }

    /// The IP header before the transport header.
    pub(super) fn innermost(&self) -> Layer {
        self.layers().last().copied().unwrap_or_default()
    }

    /// For a frame that is not parsed yet.
    pub(super) fn new() -> Self {
        Self {
            layers: [Layer::None; MAX_LAYERS],
            count: 0,
            class: SegmentClass::Tcp4,
            network: 0,
            transport: 0,
            payload: 0,
            fragment: 0,
            fragment_link: 0,
            final_destination: None,
            accurate_ecn: false,
            checksum: false,
        }
    }

    /// Finds the headers that `offload` refers to. In place, because moving costs more than
    /// parsing.
    pub(super) fn parse(&mut self, frame: &[u8], offload: &Offload) -> Result<(), Refusal> {
        let (mut ethertype, mut at) = link(frame, 0)?;
        self.network = at;
        let mut expected = offload.tunnel;
        loop {
            let (protocol, next) = self.network(frame, ethertype, at)?;
            let inside = match protocol {
                Protocol::UDP => {
                    let view = UdpView::new(rest(frame, next)).map_err(shape)?;
                    if next + usize::from(view.length()) != frame.len() {
                        return Err(Refusal::LengthMismatch);
                    }
                    match udp_tunnel(&view, next, expected, offload) {
                        None if expected.is_some() => return Err(Refusal::Tunnel),
                        None => return self.finish(frame, offload, protocol, next),
                        Some(tunnel) => {
                            let checksum = view.checksum() != 0;
                            self.push(Layer::Udp { at: next, checksum })?;
                            expected = None;
                            udp_tunnel_inside(frame, &view, next, tunnel)?
                        }
                    }
                }
                Protocol::GRE => {
                    let view = GreView::new(rest(frame, next)).map_err(shape)?;
                    if view.sequence().is_some() {
                        return Err(Refusal::GreSequence);
                    }
                    self.push(Layer::Gre { at: next, checksum: view.checksum().is_some() })?;
                    if expected == Some(Tunnel::Gre) {
                        expected = None;
                    }
                    carried(frame, view.protocol(), next + view.header_len())?
                }
                Protocol::IPV4 => (EtherType::IPV4, next),
                Protocol::IPV6 => (EtherType::IPV6, next),
                _ if expected.is_some() => return Err(Refusal::Tunnel),
                _ => return self.finish(frame, offload, protocol, next),
            };
            (ethertype, at) = inside;
        }
    }

    fn push(&mut self, layer: Layer) -> Result<(), Refusal> {
        let slot = self.layers.get_mut(self.count).ok_or(Refusal::TunnelDepth)?;
        *slot = layer;
        self.count += 1;
        Ok(())
    }

    /// Parses an IP header. Returns the next protocol, and its offset.
    fn network(
        &mut self,
        frame: &[u8],
        ethertype: EtherType,
        at: usize,
    ) -> Result<(Protocol, usize), Refusal> {
        let bytes = rest(frame, at);
        match ethertype {
            EtherType::IPV4 => {
                let view = Ipv4View::new_snapped(bytes).map_err(shape)?;
                // A length of 0 means that the field cannot represent it (BIG TCP).
                if !matches!(usize::from(view.total_len()), 0)
                    && usize::from(view.total_len()) != bytes.len()
                {
                    return Err(Refusal::LengthMismatch);
                }
                if view.is_fragment() {
                    return Err(Refusal::Fragment);
                }
                let header_len = view.header_len();
                let dont_fragment = view.dont_fragment();
                self.push(Layer::Ipv4 { at, header_len, dont_fragment })?;
                Ok((view.protocol(), at + header_len))
            }
            EtherType::IPV6 => {
                let view = Ipv6View::new_snapped(bytes).map_err(shape)?;
                let stated = usize::from(view.payload_len());
                if stated == 0 && view.next_header() == Protocol::HOP_BY_HOP {
                    return Err(Refusal::Jumbogram);
                }
                if stated != 0 && stated != bytes.len() - ipv6::LEN {
                    return Err(Refusal::LengthMismatch);
                }
                self.push(Layer::Ipv6 { at })?;
                self.extensions(&view, at)
            }
            _ => Err(Refusal::NotIp),
        }
    }

    /// Skips extension headers and records where fragments would begin (RFC 8200 section 4.5):
    /// after the last header that routers on the way process.
    fn extensions(&mut self, view: &Ipv6View<'_>, at: usize) -> Result<(Protocol, usize), Refusal> {
        // The next-header field of the fixed header, then the first byte of each extension.
        let mut link = at + 6;
        (self.fragment, self.fragment_link) = (at + ipv6::LEN, link);
        self.final_destination = None;
        let mut walker = ipv6::extensions(view.next_header(), view.payload());
        let (mut protocol, mut next) = (view.next_header(), at + ipv6::LEN);
        for extension in &mut walker {
            let extension = extension.map_err(shape)?;
            match extension.kind {
                Protocol::FRAGMENT => return Err(Refusal::Fragment),
                Protocol::AH => return Err(Refusal::Authenticated),
                _ => {}
            }
            link = at + ipv6::LEN + extension.offset;
            next = link + extension.bytes.len();
            protocol = extension.next_header;
            if extension.kind == Protocol::ROUTING {
                let destination =
                    ipv6::final_destination(extension.bytes).map_err(|_| Refusal::RoutingHeader)?;
                self.final_destination = destination.map(|it| link + it);
            }
            if matches!(extension.kind, Protocol::HOP_BY_HOP | Protocol::ROUTING) {
                (self.fragment, self.fragment_link) = (next, link);
            }
        }
        Ok((protocol, next))
    }

    /// Checks that the transport header matches the offload.
    fn finish(
        &mut self,
        frame: &[u8],
        offload: &Offload,
        protocol: Protocol,
        at: usize,
    ) -> Result<(), Refusal> {
        let v6 = matches!(self.innermost(), Layer::Ipv6 { .. });
        let (class, wanted, field) = match (offload.gso, v6) {
            (Gso::Tcp4, false) => (SegmentClass::Tcp4, Protocol::TCP, 16),
            (Gso::Tcp6, true) => (SegmentClass::Tcp6, Protocol::TCP, 16),
            (Gso::Udp, false) => (SegmentClass::Udp4, Protocol::UDP, 6),
            (Gso::Udp, true) => (SegmentClass::Udp6, Protocol::UDP, 6),
            (Gso::UdpFragment, false) => (SegmentClass::Frag4, Protocol::UDP, 6),
            (Gso::UdpFragment, true) => (SegmentClass::Frag6, Protocol::UDP, 6),
            _ => return Err(Refusal::NotIp),
        };
        if protocol != wanted {
            return Err(Refusal::OtherProtocol);
        }
        if let Some(place) = offload.checksum
            && (usize::from(place.start), place.offset) != (at, field)
        {
            return Err(Refusal::ChecksumPlace);
        }
        let header_len = match wanted {
            Protocol::TCP => {
                let view = TcpView::new(rest(frame, at)).map_err(shape)?;
                self.accurate_ecn = view.flags().contains(TcpFlags::AE);
                view.header_len()
            }
            _ => {
                self.checksum = UdpView::new(rest(frame, at)).map_err(shape)?.checksum() != 0;
                udp::LEN
            }
        };
        (self.class, self.transport, self.payload) = (class, at, at + header_len);
        Ok(())
    }
}

/// Offset of the network header of a frame.
pub(super) fn network(frame: &[u8]) -> Result<usize, Refusal> {
    link(frame, 0).map(|(_, at)| at)
}

/// Offset of the network header of a frame, and the end of the packet by its header: padding or a
/// trailer may follow.
pub(super) fn extent(frame: &[u8]) -> Result<(usize, usize), Refusal> {
    let (ethertype, at) = link(frame, 0)?;
    let bytes = rest(frame, at);
    // A length of 0 means that the field cannot represent it.
    let stated = match ethertype {
        EtherType::IPV4 => Ipv4View::new_snapped(bytes).map_or(0, |view| view.total_len().into()),
        EtherType::IPV6 => {
            match Ipv6View::new_snapped(bytes).map_or(0, |view| view.payload_len()) {
                0 => 0,
                payload => ipv6::LEN + usize::from(payload),
            }
        }
        _ => 0,
    };
    let len = if stated == 0 { bytes.len() } else { stated.min(bytes.len()) };
    Ok((at, at + len))
}

/// Skips an Ethernet header and its tags.
fn link(frame: &[u8], at: usize) -> Result<(EtherType, usize), Refusal> {
    match Link::ethernet(rest(frame, at)) {
        Link::Network { ethertype, at: inside, .. } => Ok((ethertype, at + inside)),
        _ => Err(Refusal::Malformed),
    }
}

/// The type and offset of the packet in a tunnel.
fn carried(frame: &[u8], ethertype: EtherType, at: usize) -> Result<(EtherType, usize), Refusal> {
    if ethertype == EtherType::BRIDGED { link(frame, at) } else { Ok((ethertype, at)) }
}

/// The tunnel in a UDP datagram, if there is one: the one expected, or one on its well-known port
/// around the packet to segment, so that the datagram itself cannot be that packet.
fn udp_tunnel(
    view: &UdpView<'_>,
    at: usize,
    expected: Option<Tunnel>,
    offload: &Offload,
) -> Option<Tunnel> {
    let is_tcp = matches!(offload.gso, Gso::Tcp4 | Gso::Tcp6);
    // The partial checksum belongs to the packet to segment.
    let is_around = is_tcp || offload.checksum.is_some_and(|place| usize::from(place.start) > at);
    match expected {
        // A GRE header is still to come.
        Some(Tunnel::Gre) | None => {}
        Some(Tunnel::Udp { transport, .. }) if usize::from(transport) != at => {}
        Some(_) => return expected,
    }
    match view.destination_port() {
        vxlan::PORT if is_around => Some(Tunnel::Vxlan),
        geneve::PORT if is_around => Some(Tunnel::Geneve),
        _ => None,
    }
}

/// The type and offset of the packet in the tunnel over the UDP header at `at`.
fn udp_tunnel_inside(
    frame: &[u8],
    view: &UdpView<'_>,
    at: usize,
    tunnel: Tunnel,
) -> Result<(EtherType, usize), Refusal> {
    let begin = at + udp::LEN;
    match tunnel {
        Tunnel::Vxlan => {
            VxlanView::new(view.payload()).map_err(shape)?;
            link(frame, begin + vxlan::LEN)
        }
        Tunnel::Geneve => {
            let header = GeneveView::new(view.payload()).map_err(shape)?;
            carried(frame, header.protocol(), begin + header.header_len())
        }
        Tunnel::Udp { network, .. } => {
            let network = usize::from(network);
            if network < begin || !(network - begin).is_multiple_of(2) {
                return Err(Refusal::Tunnel);
            }
            match frame.get(network).map(|first| first >> 4) {
                Some(4) => Ok((EtherType::IPV4, network)),
                Some(6) => Ok((EtherType::IPV6, network)),
                _ => Err(Refusal::Tunnel),
            }
        }
        Tunnel::Gre => Err(Refusal::Tunnel),
    }
}

fn rest(frame: &[u8], at: usize) -> &[u8] {
    frame.get(at..).unwrap_or_default()
}

/// The error for a truncated or impossible header.
fn shape(_: WireError) -> Refusal {
    Refusal::Malformed
}
