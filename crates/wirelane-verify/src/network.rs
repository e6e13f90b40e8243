//! IP packets and tunnels, from the outside in.

use std::hash::{DefaultHasher, Hash, Hasher};

use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{
    EtherType, GeneveView, GreView, Link, Protocol, VxlanView, WireError, geneve, ipv4, ipv6, udp,
    vxlan,
};

use crate::packet::{Fragment, Ip, Left};
use crate::rule::Rule;
use crate::walk::{PacketWalk, USUAL_MTU};

impl PacketWalk<'_> {
    /// Checks the payload of an EtherType. `bytes` are the captured part of `wire` bytes.
    pub(crate) fn network(
        &mut self,
        ethertype: EtherType,
        bytes: &[u8],
        wire: usize,
        context: u64,
    ) -> Left {
        // A presumed tunnel may contain other data, so the version must match.
        let version = bytes.first().map(|first| first >> 4);
        let outside = self.recorder.place.is_outside();
        match ethertype {
            EtherType::IPV4 if outside || version == Some(4) => self.ipv4(bytes, wire, context),
            EtherType::IPV6 if outside || version == Some(6) => self.ipv6(bytes, wire, context),
            _ => {
                if outside {
                    self.recorder.summary.not_ip += 1;
                    self.length(wire);
                }
                None
            }
        }
    }

    /// Checks the length of a packet against the MTU.
    fn length(&mut self, length: usize) {
        if !self.recorder.place.is_outside() {
            return;
        }
        let most = self.mtu.map_or(USUAL_MTU, |mtu| mtu as usize);
        let expected = format_args!("at most {most} bytes from the network header on");
        let found = format_args!("{length}");
        if self.mtu.is_some() {
            self.recorder.check(Rule::Mtu, length > most, expected, found);
        } else {
            self.recorder.checked(Rule::SuperFrame);
            if length > most {
                self.recorder.note(Rule::SuperFrame, expected, found);
            }
        }
    }

    /// Checks the stated length of a packet. Returns `None` if the packet cannot be parsed further.
    fn stated(&mut self, stated: usize, wire: usize) -> Option<usize> {
        let found = format_args!("{wire} behind a header that states {stated}");
        let expected = format_args!("at least {stated} bytes in the frame");
        self.recorder.check(Rule::IpLength, stated > wire, expected, found);
        // Ethernet pads frames to 60 bytes, or 64 with a frame check sequence or a tag.
        if self.recorder.place.is_outside() && wire > stated && wire > 64 {
            self.recorder.summary.trailers += 1;
        }
        (stated <= wire).then_some(stated)
    }

    fn ipv4(&mut self, bytes: &[u8], wire: usize, context: u64) -> Left {
        let rule = Rule::Ipv4Header;
        let Some(header) = bytes.first_chunk::<{ ipv4::MIN_LEN }>() else {
            self.short(rule, wire, ipv4::MIN_LEN);
            return None;
        };
        let (version, header_len) = (header[0] >> 4, usize::from(header[0] & 0x0f) * 4);
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // A length of 0 means a length too large for the field, or one that the hardware fills in.
        let filled = total != 0 || !self.is_super_frame(wire);
        let fits = header_len >= ipv4::MIN_LEN && (!filled || total >= header_len);
        let found = format_args!("version {version}, {header_len} bytes in a total of {total}");
        let expected = "version 4, at least 20 bytes in a total that holds them";
        self.recorder.check(rule, version != 4 || !fits, expected, found);
        if version != 4 || !fits {
            return None;
        }
        let length = if filled {
            self.stated(total, wire)?
        } else {
            let found = format_args!("0 in a frame with {wire}");
            self.recorder.left(Rule::IpLength, "a total length", found);
            wire
        };
        self.length(length);
        let Some((header, payload)) = bytes.split_at_checked(header_len) else {
            // The snap length has cut the options.
            self.recorder.cut(Rule::Ipv4Checksum);
            return None;
        };
        let payload = payload.get(..length - header_len).unwrap_or(payload);
        let mut left = self.ipv4_checksum(header);
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        source[..4].copy_from_slice(&header[12..16]);
        destination[..4].copy_from_slice(&header[16..20]);
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let options = &header[ipv4::MIN_LEN..];
        let (dont, more) = (fragment & 0x4000 != 0, fragment & 0x2000 != 0);
        let offset = usize::from(fragment & 0x1fff) * 8;
        let identification = u16::from_be_bytes([header[4], header[5]]);
        let ip = Ip {
            source,
            destination,
            addresses: (!has_source_route(options)).then(|| Sum::of(&header[12..20])),
            v6: false,
            protocol: Protocol(header[9]),
            payload,
            wire: length - header_len,
            length,
            id: (!dont).then_some(identification),
            context,
        };
        if more || offset > 0 {
            self.fragment(
                &ip,
                &Fragment { before: header_len, offset, more, id: identification.into(), options },
            );
            return left;
        }
        if let Some(inner) = self.upper(&ip) {
            left = Some(left.unwrap_or_default().plus(inner));
        }
        left
    }

    fn ipv4_checksum(&mut self, header: &[u8]) -> Left {
        let field = u16::from_be_bytes([header[10], header[11]]);
        let sum = Sum::of(header);
        let right = sum.minus(Sum::of_field(field)).checksum();
        let (rule, expected, found) =
            (Rule::Ipv4Checksum, format_args!("{right:#06x}"), format_args!("{field:#06x}"));
        if field == 0 && !sum.is_valid() {
            self.recorder.left(rule, expected, found);
            return Some(Sum::of_field(right));
        }
        self.recorder.check(rule, !sum.is_valid(), expected, found);
        None
    }

    fn ipv6(&mut self, bytes: &[u8], wire: usize, context: u64) -> Left {
        let rule = Rule::Ipv6Header;
        let Some((header, rest)) = bytes.split_first_chunk::<{ ipv6::LEN }>() else {
            self.short(rule, wire, ipv6::LEN);
            return None;
        };
        let version = header[0] >> 4;
        let found = format_args!("{version}");
        self.recorder.check(rule, version != 6, "version 6", found);
        if version != 6 {
            return None;
        }
        let (stated, next) =
            (usize::from(u16::from_be_bytes([header[4], header[5]])), Protocol(header[6]));
        // 0 with a payload: a jumbo payload option has the length (RFC 2675), or the hardware fills
        // it in.
        let jumbo = stated == 0 && (next == Protocol::HOP_BY_HOP || self.is_super_frame(wire));
        let length = if jumbo { wire } else { self.stated(stated + ipv6::LEN, wire)? };
        self.length(length);
        let rest = rest.get(..length - ipv6::LEN).unwrap_or(rest);
        let (mut source, mut destination) = ([0; 16], [0; 16]);
        source.copy_from_slice(&header[8..24]);
        destination.copy_from_slice(&header[24..40]);
        let mut ip = Ip {
            source,
            destination,
            addresses: Some(Sum::of(&header[8..40])),
            v6: true,
            protocol: next,
            payload: rest,
            wire: length - ipv6::LEN,
            length,
            id: None,
            context,
        };
        let mut found = None;
        for extension in ipv6::extensions(next, rest) {
            let extension = match extension {
                Ok(extension) => extension,
                Err(error) => {
                    let expected = "extension headers within the packet";
                    self.chain_ends(found.is_some(), rest.len() < ip.wire, expected, error);
                    return None;
                }
            };
            let end = extension.offset + extension.bytes.len();
            match extension.kind {
                Protocol::ROUTING => reroute(&mut ip, extension.bytes),
                Protocol::DESTINATION_OPTIONS if has_home_address(extension.bytes) => {
                    ip.addresses = None;
                }
                Protocol::FRAGMENT => found = fragment_header(extension.bytes, extension.offset),
                _ => {}
            }
            ip.protocol = extension.next_header;
            ip.payload = rest.get(end..).unwrap_or_default();
            if found.is_some() {
                // The rest belongs to the fragmentable part, which starts with a header only in the
                // first fragment.
                break;
            }
        }
        self.recorder.checked(rule);
        // Subtracts the skipped extension headers.
        ip.wire -= rest.len() - ip.payload.len();
        match found {
            Some(fragment) if fragment.more || fragment.offset > 0 => {
                self.fragment(&ip, &fragment);
                None
            }
            Some(_) => {
                let expected = "no fragment header, or fragments";
                self.recorder.note(Rule::Fragment6Atomic, expected, "one around a whole packet");
                self.atomic(&mut ip)?;
                self.upper(&ip)
            }
            None => self.upper(&ip),
        }
    }

    /// Skips the extension headers after the fragment header of an atomic fragment.
    fn atomic(&mut self, ip: &mut Ip<'_>) -> Option<()> {
        match ipv6::walk(ip.protocol, ip.payload) {
            Ok(upper) => {
                ip.wire -= upper.offset;
                (ip.protocol, ip.payload) = (upper.protocol, upper.payload);
                Some(())
            }
            Err(error) => {
                let cut = ip.payload.len() < ip.wire;
                self.chain_ends(true, cut, "extension headers within the packet", error);
                None
            }
        }
    }

    /// Reports a truncated chain of extension headers.
    fn chain_ends(&mut self, fragment: bool, cut: bool, expected: &str, error: WireError) {
        let rule = if fragment { Rule::Fragment6Chain } else { Rule::Ipv6Header };
        if cut {
            self.recorder.cut(rule);
        } else {
            self.recorder.check(rule, true, expected, error);
        }
    }

    /// Checks the payload of an IP packet.
    fn upper(&mut self, ip: &Ip<'_>) -> Left {
        match ip.protocol {
            Protocol::TCP => self.tcp(ip),
            Protocol::UDP => self.udp(ip),
            Protocol::GRE => self.gre(ip),
            Protocol::IPV4 => self.inside("IP in IP", EtherType::IPV4, ip, 0, 0),
            Protocol::IPV6 => self.inside("IP in IP", EtherType::IPV6, ip, 0, 0),
            _ => {
                self.recorder.summary.other_protocol += 1;
                self.identification(ip, (0, 0));
                None
            }
        }
    }

    fn gre(&mut self, ip: &Ip<'_>) -> Left {
        self.identification(ip, (0, 0));
        let Ok(view) = GreView::new(ip.payload) else {
            // Another GRE version, or truncated.
            self.recorder.summary.other_protocol += 1;
            return None;
        };
        let (header_len, protocol) = (view.header_len(), view.protocol());
        let inner = self.inside("GRE", protocol, ip, header_len, view.key().unwrap_or(0));
        let Some(field) = view.checksum() else { return inner };
        let rule = Rule::GreChecksum;
        if ip.payload.len() < ip.wire {
            self.recorder.cut(rule);
            return inner;
        }
        let sum = checksum::sum(ip.payload);
        let whole = sum.plus(inner.unwrap_or_default());
        let right = whole.minus(Sum::of_field(field)).checksum();
        let (expected, found) = (format_args!("{right:#06x}"), format_args!("{field:#06x}"));
        if field == 0 && inner.is_some() && !whole.is_valid() {
            self.recorder.left(rule, expected, found);
            return Some(inner.unwrap_or_default().plus(Sum::of_field(right)));
        }
        self.recorder.check(rule, !sum.is_valid() && !whole.is_valid(), expected, found);
        inner
    }

    fn udp(&mut self, ip: &Ip<'_>) -> Left {
        let datagram = self.datagram(ip)?;
        let payload = datagram.bytes.get(udp::LEN..).unwrap_or_default();
        let inner = self.udp_tunnel(ip, datagram.ports.1, payload);
        self.datagram_checksum(ip, &datagram, inner)
    }

    /// Enters a UDP tunnel, identified by its port. `payload` follows the UDP header.
    fn udp_tunnel(&mut self, ip: &Ip<'_>, port: u16, payload: &[u8]) -> Left {
        // The default VXLAN port of Linux.
        const VXLAN_LINUX: u16 = 8472;
        match port {
            vxlan::PORT | VXLAN_LINUX => {
                let view = VxlanView::new(payload).ok()?;
                let at = udp::LEN + vxlan::LEN;
                self.inside("VXLAN", EtherType::BRIDGED, ip, at, view.id())
            }
            geneve::PORT => {
                let view = GeneveView::new(payload).ok()?;
                let at = udp::LEN + view.header_len();
                self.inside("Geneve", view.protocol(), ip, at, view.id())
            }
            _ => None,
        }
    }

    /// Enters a tunnel, whose headers are the first `at` bytes of the payload.
    fn inside(
        &mut self,
        tunnel: &'static str,
        ethertype: EtherType,
        ip: &Ip<'_>,
        at: usize,
        id: u32,
    ) -> Left {
        if tunnel == "IP in IP" {
            self.identification(ip, (0, 0));
        }
        let mut hasher = DefaultHasher::new();
        // The context is the same in both directions.
        let both = ip.source.max(ip.destination);
        (ip.context, ip.source.min(ip.destination), both, tunnel, id).hash(&mut hasher);
        let mut context = hasher.finish();
        let bytes = ip.payload.get(at..)?;
        let (ethertype, begin) = if ethertype == EtherType::BRIDGED {
            let link = Link::ethernet(bytes);
            let Link::Network { ethertype, at, outer_vlan, inner_vlan } = link else { return None };
            context ^= tags(outer_vlan, inner_vlan);
            (ethertype, at)
        } else {
            (ethertype, 0)
        };
        let bytes = bytes.get(begin..)?;
        let wire = ip.wire.checked_sub(at + begin)?;
        let Some(place) = self.recorder.place.inside(tunnel) else {
            self.recorder.summary.too_deep += 1;
            return None;
        };
        let outside = std::mem::replace(&mut self.recorder.place, place);
        let left = self.network(ethertype, bytes, wire, context);
        self.recorder.place = outside;
        left
    }
}

/// A number for the VLAN tags of a packet.
pub(crate) fn tags(outer: Option<u16>, inner: Option<u16>) -> u64 {
    let place = |id: Option<u16>| id.map_or(0, |id| u64::from(id) + 1);
    place(outer) << 32 | place(inner)
}

/// Whether IPv4 options contain a source route, whose last address is in the pseudo-header (RFC
/// 1122 section 4.2.3.8).
fn has_source_route(options: &[u8]) -> bool {
    const NO_OPERATION: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        rest = match (*kind, after) {
            (LOOSE | STRICT, _) => return true,
            (NO_OPERATION, after) => after,
            (1.., [len, ..]) if *len >= 2 => rest.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

/// Uses the final destination of a routing header, which is in the pseudo-header (RFC 8200 section
/// 8.1).
fn reroute(ip: &mut Ip<'_>, routing: &[u8]) {
    match wirelane_wire::ipv6::final_destination(routing) {
        Ok(None) => {}
        Ok(Some(at)) => {
            let last = routing.get(at..at + 16).map(Sum::of);
            let source = Sum::of(&ip.source);
            ip.addresses = last.map(|last| last.plus(source));
        }
        Err(_) => ip.addresses = None,
    }
}

/// Whether destination options contain a home address (RFC 6275 section 6.3), which replaces the
/// source in the pseudo-header.
fn has_home_address(options: &[u8]) -> bool {
    const PAD1: u8 = 0;
    const HOME_ADDRESS: u8 = 201;
    let mut rest = options.get(2..).unwrap_or_default();
    while let [kind, after @ ..] = rest {
        rest = match (*kind, after) {
            (PAD1, after) => after,
            (HOME_ADDRESS, _) => return true,
            (_, [len, after @ ..]) => after.get(usize::from(*len)..).unwrap_or_default(),
            (_, []) => return false,
        };
    }
    false
}

/// Parses the fragment header at `offset` after the fixed header.
fn fragment_header(bytes: &[u8], offset: usize) -> Option<Fragment<'static>> {
    let view = wirelane_wire::FragmentView::new(bytes).ok()?;
    Some(Fragment {
        before: offset,
        offset: view.offset().into(),
        more: view.more_fragments(),
        id: view.identification(),
        options: &[],
    })
}
