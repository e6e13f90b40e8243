//! Builds distinguishable frames: each carries a sequence number in its payload.
//!
//! ```
//! use wirelane_testkit::packets;
//!
//! let frame = packets::udp4(7).flow(3).vlan(100).length(1500).build();
//! assert_eq!(frame.len(), 1500);
//! assert_eq!(packets::sequence(&frame), Some(7));
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirelane_wire::checksum::{pseudo_v4, pseudo_v6};
use wirelane_wire::flow::{Layers, Transport};
use wirelane_wire::{
    EtherType, Ethernet, Ipv4, Ipv6, MacAddr, Protocol, Tcp, TcpFlags, Udp, Vlan, WireError, tcp,
    udp,
};

/// A UDP packet over IPv4 that carries `sequence`.
pub fn udp4(sequence: u64) -> Packet {
    Packet::new(sequence, Protocol::UDP, V4)
}

/// A UDP packet over IPv6 that carries `sequence`.
pub fn udp6(sequence: u64) -> Packet {
    Packet::new(sequence, Protocol::UDP, V6)
}

/// A TCP segment over IPv4 that carries `sequence`; it belongs to no connection.
pub fn tcp4(sequence: u64) -> Packet {
    Packet::new(sequence, Protocol::TCP, V4)
}

/// A TCP segment over IPv6 that carries `sequence`; it belongs to no connection.
pub fn tcp6(sequence: u64) -> Packet {
    Packet::new(sequence, Protocol::TCP, V6)
}

/// A broadcast frame that is not IP and carries `sequence`. No protocol answers it.
pub fn raw(sequence: u64) -> Vec<u8> {
    let ethernet =
        Ethernet { destination: MacAddr::BROADCAST, source: SOURCE_MAC, ethertype: EXPERIMENTAL };
    let mut frame = vec![0; MIN_FRAME];
    let header = emitted(ethernet.emit(&mut frame));
    fill_payload(&mut frame[header..], sequence);
    frame
}

/// The sequence number of a frame that these builders made; `None` for any other frame.
///
/// VLAN tags in front of the network header do not matter. The frame may be cut short after the
/// number.
pub fn sequence(frame: &[u8]) -> Option<u64> {
    let layers = Layers::parse(frame).ok()?;
    let payload = match layers.transport {
        Some(Transport { protocol: Protocol::UDP, bytes, .. }) => bytes.get(udp::LEN..)?,
        Some(Transport { protocol: Protocol::TCP, bytes, .. }) => bytes.get(tcp::MIN_LEN..)?,
        None if layers.ethertype == EXPERIMENTAL => frame.get(layers.network_offset..)?,
        _ => return None,
    };
    let number = payload.strip_prefix(&MARK)?.first_chunk()?;
    Some(u64::from_be_bytes(*number))
}

/// A builder of a packet. Lengths and checksums are correct for all settings.
#[derive(Debug, Clone)]
pub struct Packet {
    sequence: u64,
    protocol: Protocol,
    source: IpAddr,
    destination: IpAddr,
    source_mac: MacAddr,
    destination_mac: MacAddr,
    flow: u16,
    vlan: Option<u16>,
    length: usize,
}

impl Packet {
    /// Selects the flow of the packet: `flow` is added to the source port.
    pub fn flow(mut self, flow: u16) -> Self {
        self.flow = flow;
        self
    }

    /// Adds an 802.1Q tag with this VLAN id, 0 to 4095.
    pub fn vlan(mut self, id: u16) -> Self {
        self.vlan = Some(id);
        self
    }

    /// Sets the length of the frame in bytes, without the frame check sequence. If `length` is too
    /// short for the headers and the sequence number, the frame is as short as they allow. The
    /// default is 60, the shortest Ethernet frame.
    pub fn length(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    /// Sets the MAC addresses.
    pub fn macs(mut self, source: [u8; 6], destination: [u8; 6]) -> Self {
        (self.source_mac, self.destination_mac) = (MacAddr(source), MacAddr(destination));
        self
    }

    /// Sets the IP addresses.
    ///
    /// # Panics
    /// When one of them is not of the IP version of the packet.
    pub fn addresses(mut self, source: impl Into<IpAddr>, destination: impl Into<IpAddr>) -> Self {
        let (source, destination) = (source.into(), destination.into());
        let v6 = self.source.is_ipv6();
        assert!(source.is_ipv6() == v6 && destination.is_ipv6() == v6, "addresses of one version");
        (self.source, self.destination) = (source, destination);
        self
    }

    /// Builds the frame.
    ///
    /// # Panics
    /// When the frame is too long for its length fields or the VLAN id is above 4095.
    pub fn build(&self) -> Vec<u8> {
        let transport_len = if self.protocol == Protocol::TCP { tcp::MIN_LEN } else { udp::LEN };
        let network_len = if self.source.is_ipv6() { 40 } else { 20 };
        let link_len = 14 + if self.vlan.is_some() { 4 } else { 0 };
        let headers = link_len + network_len + transport_len;
        let length = self.length.max(headers + NUMBER_LEN);
        let mut frame = vec![0; length];

        self.emit_link(&mut frame);
        let packet = &mut frame[link_len..];
        self.emit_network(packet, field(length - link_len - network_len));
        let transport = &mut packet[network_len..];
        fill_payload(&mut transport[transport_len..], self.sequence);
        self.emit_transport(transport, field(length - headers));
        frame
    }

    fn new(sequence: u64, protocol: Protocol, (source, destination): (IpAddr, IpAddr)) -> Self {
        Self {
            sequence,
            protocol,
            source,
            destination,
            source_mac: SOURCE_MAC,
            destination_mac: DESTINATION_MAC,
            flow: 0,
            vlan: None,
            length: MIN_FRAME,
        }
    }

    fn emit_link(&self, frame: &mut [u8]) {
        let network = if self.source.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
        let ethernet = Ethernet {
            destination: self.destination_mac,
            source: self.source_mac,
            ethertype: if self.vlan.is_some() { EtherType::VLAN } else { network },
        };
        let header = emitted(ethernet.emit(frame));
        if let Some(id) = self.vlan {
            let tag = Vlan { priority: 0, drop_eligible: false, id, ethertype: network };
            emitted(tag.emit(&mut frame[header..]));
        }
    }

    fn emit_network(&self, packet: &mut [u8], payload_len: u16) {
        emitted(match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4 {
                source,
                destination,
                protocol: self.protocol,
                ttl: 64,
                dscp: 0,
                ecn: 0,
                identification: self.sequence as u16,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len,
                options: &[],
            }
            .emit(packet),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ipv6 {
                source,
                destination,
                next_header: self.protocol,
                hop_limit: 64,
                dscp: 0,
                ecn: 0,
                flow_label: self.flow.into(),
                payload_len,
            }
            .emit(packet),
            _ => unreachable!("addresses() keeps the version"),
        });
    }

    /// `transport` is the whole datagram or segment with its payload filled in.
    fn emit_transport(&self, transport: &mut [u8], payload_len: u16) {
        let length = transport.len() as u32;
        let pseudo = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(to)) => pseudo_v4(source, to, self.protocol, length),
            (IpAddr::V6(source), IpAddr::V6(to)) => pseudo_v6(source, to, self.protocol, length),
            _ => unreachable!("addresses() keeps the version"),
        };
        let source_port = FIRST_PORT.wrapping_add(self.flow);
        if self.protocol == Protocol::TCP {
            let header = Tcp {
                source_port,
                destination_port: DISCARD,
                sequence: self.sequence as u32,
                acknowledgment: 1,
                flags: TcpFlags::ACK.with(TcpFlags::PSH),
                window: 0xffff,
                checksum: 0,
                urgent_pointer: 0,
                options: &[],
            };
            emitted(header.emit(transport));
            checked(tcp::fill_checksum(transport, pseudo));
        } else {
            let header = Udp { source_port, destination_port: DISCARD, payload_len, checksum: 0 };
            emitted(header.emit(transport));
            checked(udp::fill_checksum(transport, pseudo));
        }
    }
}

/// The shortest Ethernet frame, without its frame check sequence.
const MIN_FRAME: usize = 60;
/// Precedes the sequence number, so that a packet from another source is not mistaken for a test
/// packet.
const MARK: [u8; 4] = *b"WLSQ";
const NUMBER_LEN: usize = MARK.len() + 8;
const FIRST_PORT: u16 = 10_000;
/// The discard service, RFC 863: it never answers.
const DISCARD: u16 = 9;
/// Local experimental EtherType 1 of IEEE Std 802.
const EXPERIMENTAL: EtherType = EtherType(0x88b5);
const SOURCE_MAC: MacAddr = MacAddr([2, 0x57, 0x4c, 0xff, 0, 1]);
const DESTINATION_MAC: MacAddr = MacAddr([2, 0x57, 0x4c, 0xff, 0, 2]);
/// Addresses for documentation: RFC 5737 and RFC 3849.
const V4: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)));
const V6: (IpAddr, IpAddr) = (
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
);

/// The mark, the number, and bytes that differ from packet to packet.
fn fill_payload(payload: &mut [u8], sequence: u64) {
    for (index, byte) in payload.iter_mut().enumerate() {
        *byte = (index as u64).wrapping_mul(31).wrapping_add(sequence) as u8;
    }
    payload[..MARK.len()].copy_from_slice(&MARK);
    payload[MARK.len()..NUMBER_LEN].copy_from_slice(&sequence.to_be_bytes());
}

#[track_caller]
fn field(length: usize) -> u16 {
    u16::try_from(length).unwrap_or_else(|_| panic!("{length} bytes do not fit a length field"))
}

#[track_caller]
fn emitted(result: Result<usize, WireError>) -> usize {
    result.unwrap_or_else(|error| panic!("cannot build the packet: {error:?}"))
}

#[track_caller]
fn checked(result: Result<(), WireError>) {
    result.unwrap_or_else(|error| panic!("cannot build the packet: {error:?}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_wire::FlowKey;

    const ALL: [fn(u64) -> Packet; 4] = [udp4, udp6, tcp4, tcp6];

    #[test]
    fn sequence_numbers_are_read_back() {
        for make in ALL {
            for number in [0, 1, 0x0102_0304_0506_0708, u64::MAX] {
                assert_eq!(sequence(&make(number).build()), Some(number));
                assert_eq!(sequence(&make(number).vlan(5).length(9000).build()), Some(number));
            }
        }
        assert_eq!(sequence(&raw(9)), Some(9));
    }

    #[test]
    fn other_frames_have_none() {
        let mut frame = udp4(1).build();
        assert_eq!(sequence(&[]), None);
        assert_eq!(sequence(&frame[..50]), None);
        frame[42] ^= 1;
        assert_eq!(sequence(&frame), None);
    }

    #[test]
    fn length_is_that_of_the_frame() {
        assert_eq!(udp4(0).build().len(), 60);
        assert_eq!(tcp6(0).vlan(1).length(0).build().len(), 14 + 4 + 40 + 20 + NUMBER_LEN);
        assert_eq!(udp6(0).length(1514).build().len(), 1514);
    }

    #[test]
    fn flows_differ_in_the_source_port() {
        let ports = |flow| {
            let key = FlowKey::parse(&udp4(1).flow(flow).build());
            key.expect("a packet").expect("IP").ports.expect("UDP").source
        };
        assert_eq!((ports(0), ports(7)), (10_000, 10_007));
    }
}
