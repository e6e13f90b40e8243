//! TCP segments and UDP datagrams.

use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{Protocol, TcpFlags, tcp, udp};

use crate::flow::FlowKey;
use crate::network::{Ip, Left, Walk};
use crate::record::Recorder;
use crate::rule::Rule;

/// A TCP segment whose header made sense.
#[derive(Clone, Copy)]
pub(super) struct Segment<'p> {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: &'p [u8],
    /// Bytes of payload.
    pub(super) len: u32,
}

impl Segment<'_> {
    /// The sequence number behind the payload.
    pub(super) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.len)
    }
}

/// What stands in for the pseudo-header.
#[derive(Clone, Copy)]
pub(super) struct Pseudo {
    pub(super) addresses: Sum,
    pub(super) protocol: Protocol,
    pub(super) length: u32,
}

impl Pseudo {
    /// Without the length, as some stacks leave it to hardware that cuts segments.
    fn short(&self) -> Sum {
        self.addresses.plus(Sum::of_field(self.protocol.0.into()))
    }

    pub(super) fn sum(&self) -> Sum {
        self.short().plus(Sum::of_number(self.length.into()))
    }
}

/// Checks the checksum `field` of bytes with the sum `covered`, in which the hardware would still change
/// `inner`. Returns what it would change in all. `long`: the packet was put together or is still to be cut.
pub(super) fn check(
    recorder: &mut Recorder<'_>,
    rule: Rule,
    covered: Sum,
    pseudo: &Pseudo,
    field: u16,
    inner: Left,
    long: bool,
) -> Left {
    let with = pseudo.sum();
    let total = covered.plus(with);
    let whole = total.plus(inner.unwrap_or_default());
    if total.is_valid() || whole.is_valid() {
        recorder.checked(rule);
        return inner;
    }
    let rest = whole.minus(Sum::of_field(field));
    let right = if rule == Rule::UdpChecksum { rest.checksum_nonzero() } else { rest.checksum() };
    let (expected, found) = (format_args!("{right:#06x}"), format_args!("{field:#06x}"));
    if field == with.partial() || field == pseudo.short().partial() {
        let found = format_args!("{field:#06x}, the sum of the pseudo-header");
        recorder.left(rule, expected, found);
        let change = Sum::of_field(right).minus(Sum::of_field(field));
        return Some(inner.unwrap_or_default().plus(change));
    }
    if long {
        // Hardware that puts segments together (LRO) leaves any checksum of theirs.
        recorder.left(rule, expected, found);
    } else {
        recorder.check(rule, true, expected, found);
    }
    inner
}

/// Whether TCP options end within `bytes` and have possible lengths; says what is wrong.
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

/// Ports of tunnels, which may do without a checksum over IPv6 (RFC 6935, RFC 6936): GTP-U, AMT,
/// LISP, ESP, GRE, VXLAN, GUE, Geneve, MPLS, L2TP, Teredo, VXLAN as Linux has it.
const TUNNELS: [u16; 14] =
    [1701, 2152, 2268, 3544, 4341, 4342, 4500, 4754, 4789, 4790, 6080, 6081, 6635, 8472];

impl Walk<'_> {
    pub(super) fn flow_key(&self, ip: &Ip<'_>, ports: (u16, u16)) -> FlowKey {
        FlowKey {
            interface: self.interface,
            context: ip.context,
            source: ip.source,
            destination: ip.destination,
            protocol: ip.protocol.0,
            ports,
        }
    }

    pub(super) fn tcp(&mut self, ip: &Ip<'_>) -> Left {
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
        let segment = Segment {
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

    pub(super) fn udp(&mut self, ip: &Ip<'_>) -> Left {
        let rule = Rule::UdpLength;
        let Some(header) = ip.payload.first_chunk::<{ udp::LEN }>() else {
            self.short(rule, ip.wire, udp::LEN);
            self.recorder.cut(Rule::UdpChecksum);
            return None;
        };
        let ports = (be16(header, 0), be16(header, 2));
        self.identification(ip, ports);
        let stated = usize::from(be16(header, 4));
        // 0 stands for a length that the field cannot hold (RFC 2675 section 4).
        let length = if stated == 0 && self.is_super_frame(ip.length) { ip.wire } else { stated };
        let fits = (udp::LEN..=ip.wire).contains(&length);
        let expected = format_args!("8 to {}", ip.wire);
        self.recorder.check(rule, !fits, expected, format_args!("{stated}"));
        if !fits {
            return None;
        }
        let datagram = ip.payload.get(..length).unwrap_or(ip.payload);
        let payload = datagram.get(udp::LEN..).unwrap_or_default();
        let inner = self.udp_tunnel(ip, ports.1, payload);
        let field = be16(header, udp::CHECKSUM_OFFSET);
        let whole = (datagram.len() == length).then(|| checksum::sum(datagram));
        let key = self.flow_key(ip, ports);
        let long = self.is_super_frame(ip.length);
        self.udp_checksum(ip, key, whole, (field, length), inner, long)
    }

    /// Checks a UDP checksum; `covered` is the sum of the datagram if all of it is there.
    pub(super) fn udp_checksum(
        &mut self,
        ip: &Ip<'_>,
        key: FlowKey,
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
        // 0 for none, and 0 for 0: only the other datagrams of the flow can tell.
        let zero = covered.minus(Sum::of_field(field)).plus(pseudo.sum()).is_valid();
        self.flows.udp(&mut self.recorder, key, field, zero);
        if field == 0 {
            return inner;
        }
        check(&mut self.recorder, rule, covered, &pseudo, field, inner, long)
    }
}

/// The pseudo-header for `length` bytes, where the addresses in it are known.
pub(super) fn pseudo(ip: &Ip<'_>, length: usize) -> Option<Pseudo> {
    let length = u32::try_from(length).ok()?;
    ip.addresses.map(|addresses| Pseudo { addresses, protocol: ip.protocol, length })
}

/// The big-endian field at `at`.
pub(super) fn be16(header: &[u8], at: usize) -> u16 {
    let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}
