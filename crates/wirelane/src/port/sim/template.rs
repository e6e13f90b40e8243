//! Packets without their numbers: built once per flow and size, then copied and patched.

use std::net::{Ipv4Addr, Ipv6Addr};

use wirelane_wire::checksum::{Sum, pseudo_v4, pseudo_v6};
use wirelane_wire::{
    Addresses, EtherType, Ethernet, FlowKey, Ipv4, Ipv6, MacAddr, Ports, Protocol, Tcp, TcpFlags,
    Udp, Vlan, WireError, tcp, udp,
};

use super::config::{Config, Kind};
use crate::frame::Frame;

/// Bytes of a template; the rest of a longer packet is from the filler, which all packets share.
const HEAD: usize = 128;
const HALF: usize = HEAD / 2;

/// One packet of one flow, without number and checksum. Its headers and number fit in `head`.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct FrameTemplate {
    head: [u8; HEAD],
    /// Sum of the bytes that the transport checksum covers, without number and sequence.
    sum: Sum,
    len: u16,
    /// Offset of the number, which is also the offset of the payload.
    number: u16,
    /// Offset of the transport checksum.
    checksum: u16,
    /// TCP: offset of the sequence number.
    sequence: Option<u16>,
    /// Bytes by which the sequence number of a flow increases per packet.
    step: u16,
}

impl FrameTemplate {
    /// Builds the packet of `flow` with the `variant`-th size. `filler` has the longest size.
    pub(super) fn new(
        config: &Config,
        flow: u32,
        variant: usize,
        filler: &[u8],
    ) -> Result<Self, WireError> {
        let key = flow_key(config, flow);
        // No size is below the length of headers and number.
        let len = usize::from(config.sizes[variant]);
        let mut bytes = filler[..len].to_vec();
        let ethertype = match key.addresses {
            Addresses::V4 { .. } => EtherType::IPV4,
            Addresses::V6 { .. } => EtherType::IPV6,
        };
        let outer = if config.vlan.is_some() { EtherType::VLAN } else { ethertype };
        let (destination, source) = (DESTINATION, SOURCE);
        let mut at = Ethernet { destination, source, ethertype: outer }.emit(&mut bytes)?;
        if let Some(id) = config.vlan {
            let tag = Vlan { priority: 0, drop_eligible: false, id, ethertype };
            at += tag.emit(&mut bytes[at..])?;
        }
        let is_tcp = key.protocol == Protocol::TCP;
        let header = if is_tcp { tcp::MIN_LEN } else { udp::LEN };
        let (segment, pseudo) = network_header(&key, &mut bytes, &mut at)?;
        let ports = key.ports.unwrap_or(Ports { source: 0, destination: 0 });
        transport_header(is_tcp, ports, segment, &mut bytes[at..])?;
        let number = at + header;
        bytes[number..number + 8].fill(0);
        let offset = if is_tcp { tcp::CHECKSUM_OFFSET } else { udp::CHECKSUM_OFFSET };
        let longest = usize::from(config.longest());
        let mut head = [0; HEAD];
        let copied = len.min(HEAD);
        head[..copied].copy_from_slice(&bytes[..copied]);
        Ok(Self {
            head,
            sum: pseudo.plus(Sum::of(&bytes[at..])),
            len: len as u16,
            number: number as u16,
            checksum: (at + offset) as u16,
            sequence: is_tcp.then_some((at + 4) as u16),
            step: (longest - number) as u16,
        })
    }

    /// Writes packet `k`, the `round`-th of its flow, into an empty frame. False if it does not
    /// fit.
    #[inline(always)]
    pub(super) fn fill(&self, frame: &mut Frame, filler: &[u8], k: u64, round: u64) -> bool {
        let len = usize::from(self.len);
        // Copies of constant length: bytes beyond the packet are truncated again.
        if len <= HALF {
            if !frame.set_len(HALF) {
                return false;
            }
            frame.data_mut()[..HALF].copy_from_slice(&self.head[..HALF]);
        } else {
            if !frame.set_len(len.max(HEAD)) {
                return false;
            }
            let (head, tail) = frame.data_mut().split_at_mut(HEAD);
            head.copy_from_slice(&self.head);
            tail.copy_from_slice(&filler[HEAD.min(len)..len]);
        }
        self.patch(frame.data_mut(), k, round);
        frame.set_len(len)
    }

    /// The same packet as a vector.
    pub(super) fn bytes(&self, filler: &[u8], k: u64, round: u64) -> Vec<u8> {
        let len = usize::from(self.len);
        let mut bytes = filler[..len].to_vec();
        let head = len.min(HEAD);
        bytes[..head].copy_from_slice(&self.head[..head]);
        self.patch(&mut bytes, k, round);
        bytes
    }

    /// Writes number, sequence number and checksum.
    #[inline(always)]
    fn patch(&self, bytes: &mut [u8], k: u64, round: u64) {
        put(bytes, self.number, k.to_be_bytes());
        let sequence = (round as u32).wrapping_mul(u32::from(self.step));
        // 2^32 = 2^16 = 1 modulo 0xffff: words of any width may be added and folded once.
        let mut sum = u64::from(self.sum.partial()) + (k >> 32) + (k & 0xffff_ffff);
        if let Some(at) = self.sequence {
            put(bytes, at, sequence.to_be_bytes());
            sum += u64::from(sequence);
        }
        sum = (sum >> 32) + (sum & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        let checksum = match !(sum as u16) {
            // RFC 768: an UDP checksum of zero is transmitted as all ones.
            0 if self.sequence.is_none() => 0xffff,
            checksum => checksum,
        };
        put(bytes, self.checksum, checksum.to_be_bytes());
    }
}

/// Writes a field at an offset inside the packet.
#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8], at: u16, field: [u8; N]) {
    let at = usize::from(at);
    bytes[at..at + N].copy_from_slice(&field);
}

/// Addresses of the two simulated hosts.
const SOURCE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 2]);

/// The five-tuple of a flow. Sources differ between flows; the rest is drawn from the seed.
pub(super) fn flow_key(config: &Config, flow: u32) -> FlowKey {
    let drawn = mix(config.seed ^ mix(u64::from(flow)));
    // A flow's kinds follow from its number, so that both kinds occur with few flows.
    let is_second = |kind, bit: u32| match kind {
        Kind::First => false,
        Kind::Second => true,
        Kind::Mix => flow >> bit & 1 == 1,
    };
    let (host, [_, _, a, b, ..]) = (flow as u16, drawn.to_be_bytes());
    let [c, d] = host.to_be_bytes();
    let addresses = if is_second(config.network, 0) {
        // 2001:2::/48 is for benchmarks (RFC 5180).
        let segment =
            |i: u16, last| Ipv6Addr::new(0x2001, 2, 0, i, (drawn >> 8) as u16, 0, 0, last);
        Addresses::V6 { source: segment(1, host), destination: segment(2, (drawn >> 16) as u16) }
    } else {
        // 198.18.0.0/15 is for benchmarks (RFC 2544).
        Addresses::V4 {
            source: Ipv4Addr::new(198, 18, c, d),
            destination: Ipv4Addr::new(198, 19, a, b),
        }
    };
    // Dynamic ports (RFC 6335 section 6): no tool decodes the payload as a protocol.
    let port = |bits: u64| 0xc000 | bits as u16;
    let ports = Ports { source: port(drawn >> 32), destination: port(mix(drawn)) };
    let is_tcp = is_second(config.transport, if config.network == Kind::Mix { 1 } else { 0 });
    let protocol = if is_tcp { Protocol::TCP } else { Protocol::UDP };
    FlowKey { addresses, protocol, ports: Some(ports) }
}

/// The bytes of the payloads.
pub(super) fn filler(config: &Config) -> Vec<u8> {
    let words = usize::from(config.longest()).div_ceil(8).max(HEAD / 8) as u64;
    (0..words).flat_map(|word| mix(config.seed.wrapping_add(word)).to_be_bytes()).collect()
}

/// Writes the network header at `at`, and advances `at`. Returns the length of the rest, and its
/// pseudo-header.
fn network_header(
    key: &FlowKey,
    bytes: &mut [u8],
    at: &mut usize,
) -> Result<(u16, Sum), WireError> {
    let total = bytes.len();
    let network = &mut bytes[*at..];
    let rest = |header: usize| (total - *at - header) as u16;
    let (header, segment, pseudo) = match key.addresses {
        Addresses::V4 { source, destination } => {
            let segment = rest(wirelane_wire::ipv4::MIN_LEN);
            let header = Ipv4 {
                source,
                destination,
                protocol: key.protocol,
                ttl: 64,
                dscp: 0,
                ecn: 0,
                // An atomic datagram (RFC 6864 section 4.1): any identification will do.
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len: segment,
                options: &[],
            };
            let pseudo = pseudo_v4(source, destination, key.protocol, u32::from(segment));
            (header.emit(network)?, segment, pseudo)
        }
        Addresses::V6 { source, destination } => {
            let segment = rest(wirelane_wire::ipv6::LEN);
            let header = Ipv6 {
                source,
                destination,
                next_header: key.protocol,
                hop_limit: 64,
                dscp: 0,
                ecn: 0,
                flow_label: 0,
                payload_len: segment,
            };
            let pseudo = pseudo_v6(source, destination, key.protocol, u32::from(segment));
            (header.emit(network)?, segment, pseudo)
        }
    };
    *at += header;
    Ok((segment, pseudo))
}

/// Writes the transport header with a zero checksum.
fn transport_header(
    is_tcp: bool,
    ports: Ports,
    segment: u16,
    transport: &mut [u8],
) -> Result<usize, WireError> {
    let Ports { source: source_port, destination: destination_port } = ports;
    if is_tcp {
        let header = Tcp {
            source_port,
            destination_port,
            sequence: 0,
            acknowledgment: 1,
            flags: TcpFlags::ACK,
            window: u16::MAX,
            checksum: 0,
            urgent_pointer: 0,
            options: &[],
        };
        return header.emit(transport);
    }
    let payload_len = segment - udp::LEN as u16;
    Udp { source_port, destination_port, payload_len, checksum: 0 }.emit(transport)
}

/// One step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators").
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
