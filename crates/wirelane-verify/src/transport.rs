//! TCP segments and UDP datagrams.

use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{TcpFlags, tcp, udp};

use crate::checksum::{check, pseudo};
use crate::packet::{Datagram, DirectionKey, Ip, Left, TcpSegment, be16};
use crate::rule::Rule;
use crate::walk::PacketWalk;

/// Finds an invalid TCP option: returns its kind and length.
fn bad_option(options: &[u8]) -> Option<(u8, usize)> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        let len = match (*kind, after) {
            (END, _) => return None,
            (NO_OPERATION, _) => 1,
            (_, [len, ..]) => usize::from(*len),
            (kind, []) => return Some((kind, 0)),
        };
        if *kind > NO_OPERATION && len < 2 || len > rest.len() {
            return Some((*kind, len));
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    None
}

/// Ports of tunnels, which may omit the checksum over IPv6 (RFC 6935, RFC 6936): L2TP, GTP-U, AMT,
/// Teredo, LISP, ESP, GRE, VXLAN, GUE, Geneve, MPLS, and VXLAN on the default port of Linux.
const TUNNELS: [u16; 14] =
    [1701, 2152, 2268, 3544, 4341, 4342, 4500, 4754, 4789, 4790, 6080, 6081, 6635, 8472];

impl PacketWalk<'_> {
    pub(crate) fn tcp(&mut self, ip: &Ip<'_>) -> Left {
        let rule = Rule::TcpHeader;
        let Some(header) = ip.payload.first_chunk::<{ tcp::MIN_LEN }>() else {
            self.short(rule, ip.wire, tcp::MIN_LEN);
            self.recorder.cut(Rule::TcpChecksum);
            return None;
        };
        let header_len = usize::from(header[12] >> 4) * 4;
        let fits = (tcp::MIN_LEN..=ip.wire).contains(&header_len);
        let expected = format_args!("a header of 20 to {} bytes", ip.wire.min(tcp::MAX_LEN));
        self.recorder.check(rule, !fits, expected, format_args!("{header_len}"));
        if !fits {
            return None;
        }
        let left = self.tcp_checksum(ip, header);
        let ports = (be16(header, 0), be16(header, 2));
        self.identification(ip, ports);
        let Some(options) = ip.payload.get(tcp::MIN_LEN..header_len) else {
            self.recorder.cut(Rule::TcpOptions);
            return left;
        };
        self.recorder.checked(Rule::TcpOptions);
        if let Some((kind, len)) = bad_option(options) {
            let expected = "options that end within the header";
            let found = format_args!("kind {kind} with a length of {len}");
            self.recorder.violation(Rule::TcpOptions, expected, found, None);
        }
        let number = |at| u32::from(be16(header, at)) << 16 | u32::from(be16(header, at + 2));
        let segment = TcpSegment {
            sequence: number(4),
            acknowledgment: number(8),
            flags: TcpFlags::from_bits(be16(header, 12)),
            window: be16(header, 14),
            urgent: be16(header, 18),
            options,
            len: u32::try_from(ip.wire - header_len).unwrap_or(u32::MAX),
        };
        let key = self.flow_key(ip, ports);
        let ecn = self.flows.tcp(&mut self.recorder, key, &segment, self.time);
        let long = self.is_super_frame(ip.length);
        self.bursts.segment(&mut self.recorder, key, &segment, long, ecn);
        left
    }

    fn tcp_checksum(&mut self, ip: &Ip<'_>, header: &[u8; tcp::MIN_LEN]) -> Left {
        let rule = Rule::TcpChecksum;
        if ip.payload.len() < ip.wire {
            self.recorder.cut(rule);
            return None;
        }
        let Some(pseudo) = pseudo(ip, ip.wire) else {
            self.recorder.undecided(rule);
            return None;
        };
        let field = be16(header, tcp::CHECKSUM_OFFSET);
        let covered = checksum::sum(ip.payload);
        let long = self.is_super_frame(ip.length);
        check(&mut self.recorder, rule, covered, &pseudo, field, None, long)
    }

    /// Parses the header of a datagram. Returns `None` if it cannot be parsed further.
    pub(crate) fn datagram<'p>(&mut self, ip: &Ip<'p>) -> Option<Datagram<'p>> {
        let rule = Rule::UdpLength;
        let Some(header) = ip.payload.first_chunk::<{ udp::LEN }>() else {
            self.short(rule, ip.wire, udp::LEN);
            self.recorder.cut(Rule::UdpChecksum);
            return None;
        };
        let ports = (be16(header, 0), be16(header, 2));
        self.identification(ip, ports);
        let stated = usize::from(be16(header, 4));
        // 0 means a length that is too large for the field (RFC 2675 section 4).
        let length = if stated == 0 && self.is_super_frame(ip.length) { ip.wire } else { stated };
        let fits = (udp::LEN..=ip.wire).contains(&length);
        let expected = format_args!("8 to {}", ip.wire);
        self.recorder.check(rule, !fits, expected, format_args!("{stated}"));
        if !fits {
            return None;
        }
        let bytes = ip.payload.get(..length).unwrap_or(ip.payload);
        let field = be16(header, udp::CHECKSUM_OFFSET);
        Some(Datagram { ports, length, field, bytes })
    }

    /// Checks the checksum of a datagram. `inner` is the pending change by the hardware within it.
    pub(crate) fn datagram_checksum(
        &mut self,
        ip: &Ip<'_>,
        datagram: &Datagram<'_>,
        inner: Left,
    ) -> Left {
        let Datagram { ports, length, field, bytes } = *datagram;
        let whole = (bytes.len() == length).then(|| checksum::sum(bytes));
        let key = self.flow_key(ip, ports);
        let long = self.is_super_frame(ip.length);
        self.udp_checksum(ip, key, whole, (field, length), inner, long)
    }

    /// Checks a UDP checksum. `covered` is the sum of the datagram if it is complete.
    pub(crate) fn udp_checksum(
        &mut self,
        ip: &Ip<'_>,
        key: DirectionKey,
        covered: Option<Sum>,
        (field, length): (u16, usize),
        inner: Left,
        long: bool,
    ) -> Left {
        let rule = Rule::UdpChecksum;
        if field == 0 && ip.v6 {
            let (source, destination) = key.ports;
            let tunnel = TUNNELS.contains(&destination) || TUNNELS.contains(&source);
            let found = format_args!("none from port {source} to {destination}");
            self.recorder.check(Rule::Udp6Zero, !tunnel, "a checksum outside of tunnels", found);
            return inner;
        }
        let (Some(covered), Some(pseudo)) = (covered, pseudo(ip, length)) else {
            match covered {
                None => self.recorder.cut(rule),
                Some(_) => self.recorder.undecided(rule),
            }
            return inner;
        };
        // 0 means no checksum, or a wrongly written 0. Only other datagrams of the flow show which.
        let zero = covered.minus(Sum::of_field(field)).plus(pseudo.sum()).is_valid();
        self.flows.udp(&mut self.recorder, key, field, zero);
        if field == 0 {
            return inner;
        }
        check(&mut self.recorder, rule, covered, &pseudo, field, inner, long)
    }
}
