//! Builds frames to segment, with a choice of headers, and segments them in every way that the
//! segmenter offers.

use std::net::{Ipv4Addr, Ipv6Addr};
use wirelane::frame::{Gso, Offload, PartialChecksum, Tunnel};

use wirelane::internal::frame::Sink;
use wirelane::internal::segment::{Cursor, MAX_HEADER, Segment, Segmenter, Taken, Verdict};
use wirelane_wire::checksum::{Sum, pseudo_v4, pseudo_v6};
use wirelane_wire::{
    EtherType, Ethernet, Geneve, Gre, Ipv4, Ipv6, MacAddr, Protocol, Tcp, TcpFlags, Udp, Vlan,
    Vxlan,
};

pub(crate) const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const DESTINATION_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub(crate) const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const DESTINATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);

/// The state of the checksum of a frame to segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    Partial,
    Complete,
    None,
}

/// The tunnel around the packet to segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    Nothing,
    Vxlan,
    Geneve,
    Gre,
    /// GRE with a key that carries Ethernet.
    GreEthernet,
}

/// A frame to segment.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) v6: bool,
    pub(crate) gso: Gso,
    pub(crate) tags: Vec<EtherType>,
    pub(crate) ip_options: Vec<u8>,
    /// Extension headers with their kinds; the first two bytes are filled in.
    pub(crate) extensions: Vec<(Protocol, Vec<u8>)>,
    pub(crate) tcp_options: Vec<u8>,
    pub(crate) flags: TcpFlags,
    pub(crate) urgent: u16,
    pub(crate) sequence: u32,
    pub(crate) port: u16,
    pub(crate) id: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) ecn: u8,
    pub(crate) payload: Vec<u8>,
    pub(crate) mss: u16,
    pub(crate) checksum: Checksum,
    pub(crate) accurate_ecn: bool,
    pub(crate) fixed_id: bool,
    pub(crate) around: Around,
    pub(crate) outer_v6: bool,
    pub(crate) outer_checksum: bool,
}

impl Frame {
    pub(crate) fn new(gso: Gso, v6: bool, payload: usize, mss: u16) -> Self {
        Self {
            v6,
            gso,
            tags: vec![],
            ip_options: vec![],
            extensions: vec![],
            tcp_options: vec![],
            flags: TcpFlags::ACK,
            urgent: 0,
            sequence: 0xffff_f000,
            port: 4321,
            id: 0xfffe,
            dont_fragment: false,
            ecn: 0,
            payload: (0..payload)
                .map(|i| (i as u32).wrapping_mul(2_654_435_761) as u8 ^ (i >> 8) as u8)
                .collect(),
            mss,
            checksum: Checksum::Partial,
            accurate_ecn: false,
            fixed_id: false,
            around: Around::Nothing,
            outer_v6: false,
            outer_checksum: false,
        }
    }

    pub(crate) fn tcp4(payload: usize, mss: u16) -> Self {
        Self::new(Gso::Tcp4, false, payload, mss)
    }

    pub(crate) fn tcp6(payload: usize, mss: u16) -> Self {
        Self::new(Gso::Tcp6, true, payload, mss)
    }

    fn is_tcp(&self) -> bool {
        matches!(self.gso, Gso::Tcp4 | Gso::Tcp6)
    }

    /// The number of bytes before the payload.
    pub(crate) fn header_len(&self) -> usize {
        self.build().0.len() - self.payload.len()
    }

    /// Builds the frame and its offload request.
    pub(crate) fn build(&self) -> (Vec<u8>, Offload) {
        let mut packet = self.packet();
        let mut inner = self.link_len_inside();
        if self.around != Around::Nothing {
            let (wrapped, header) = self.wrap(packet);
            packet = wrapped;
            inner += header;
        }
        let outer_is_v6 = if self.around == Around::Nothing { self.v6 } else { self.outer_v6 };
        let mut frame = link(&self.tags, ethertype(outer_is_v6));
        let before = frame.len();
        frame.extend(packet);
        let transport = before + inner + self.network_len();
        let offset = if self.is_tcp() { 16 } else { 6 };
        let tunnel = match self.around {
            Around::Nothing => None,
            Around::Vxlan => Some(Tunnel::Vxlan),
            Around::Geneve => Some(Tunnel::Geneve),
            Around::Gre | Around::GreEthernet => Some(Tunnel::Gre),
        };
        let offload = Offload {
            gso: self.gso,
            size: self.mss,
            checksum: (self.checksum == Checksum::Partial)
                .then_some(PartialChecksum { start: transport as u16, offset }),
            ecn: self.flags.contains(TcpFlags::CWR) && self.is_tcp(),
            accurate_ecn: self.accurate_ecn,
            fixed_id: self.fixed_id,
            tunnel,
        };
        (frame, offload)
    }

    fn network_len(&self) -> usize {
        let extensions: usize = self.extensions.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.v6 { 40 + extensions } else { 20 + self.ip_options.len() }
    }

    /// The length of the inner Ethernet header.
    fn link_len_inside(&self) -> usize {
        match self.around {
            Around::Nothing | Around::Gre => 0,
            _ => 14,
        }
    }

    /// The packet to segment, from its IP header on.
    fn packet(&self) -> Vec<u8> {
        let protocol = if self.is_tcp() { Protocol::TCP } else { Protocol::UDP };
        let mut transport = vec![0; if self.is_tcp() { 20 + self.tcp_options.len() } else { 8 }];
        if self.is_tcp() {
            let header = Tcp {
                source_port: self.port,
                destination_port: 80,
                sequence: self.sequence,
                acknowledgment: 77,
                flags: self.flags,
                window: 501,
                checksum: 0,
                urgent_pointer: self.urgent,
                options: &self.tcp_options,
            };
            header.emit(&mut transport).unwrap();
        } else {
            let payload_len = self.payload.len() as u16;
            let header =
                Udp { source_port: self.port, destination_port: 9999, payload_len, checksum: 0 };
            header.emit(&mut transport).unwrap();
        }
        transport.extend(&self.payload);
        let length = transport.len() as u32;
        let pseudo = if self.v6 {
            pseudo_v6(SOURCE_V6, DESTINATION_V6, protocol, length)
        } else {
            pseudo_v4(SOURCE_V4, DESTINATION_V4, protocol, length)
        };
        let value = match self.checksum {
            Checksum::Partial => pseudo.partial(),
            Checksum::Complete => pseudo.plus(Sum::of(&transport)).checksum_nonzero(),
            Checksum::None => 0,
        };
        let at = if self.is_tcp() { 16 } else { 6 };
        transport[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let mut packet = self.network(protocol, transport.len());
        packet.extend(transport);
        packet
    }

    fn network(&self, protocol: Protocol, length: usize) -> Vec<u8> {
        let mut header = vec![0; self.network_len()];
        let payload_len = length as u16;
        if !self.v6 {
            let value = Ipv4 {
                source: SOURCE_V4,
                destination: DESTINATION_V4,
                protocol,
                ttl: 63,
                dscp: 10,
                ecn: self.ecn,
                identification: self.id,
                dont_fragment: self.dont_fragment,
                more_fragments: false,
                fragment_offset: 0,
                payload_len,
                options: &self.ip_options,
            };
            value.emit(&mut header).unwrap();
            return header;
        }
        let kinds: Vec<_> =
            self.extensions.iter().map(|(kind, _)| *kind).chain([protocol]).collect();
        let value = Ipv6 {
            source: SOURCE_V6,
            destination: DESTINATION_V6,
            next_header: kinds[0],
            hop_limit: 63,
            dscp: 10,
            ecn: self.ecn,
            flow_label: 0x12345,
            payload_len: (header.len() - 40 + length) as u16,
        };
        value.emit(&mut header).unwrap();
        let mut at = 40;
        for ((_, bytes), next) in self.extensions.iter().zip(&kinds[1..]) {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            header[at..at + 2].copy_from_slice(&[next.0, (bytes.len() / 8 - 1) as u8]);
            at += bytes.len();
        }
        header
    }

    /// Puts a tunnel around a packet. Also returns the number of header bytes that it adds before
    /// the inner Ethernet header.
    fn wrap(&self, packet: Vec<u8>) -> (Vec<u8>, usize) {
        let inner_type = ethertype(self.v6);
        let mut inside = Vec::new();
        let mut tunnel = [0; 64];
        let len = match self.around {
            Around::Nothing => unreachable!(),
            Around::Vxlan => Vxlan { id: 42 }.emit(&mut tunnel),
            Around::Geneve => Geneve {
                protocol: EtherType::BRIDGED,
                control: false,
                critical_options: false,
                id: 42,
                options: &[1, 2, 3, 1, 9, 9, 9, 9],
            }
            .emit(&mut tunnel),
            Around::Gre | Around::GreEthernet => Gre {
                protocol: if self.around == Around::Gre { inner_type } else { EtherType::BRIDGED },
                checksum: self.outer_checksum.then_some(0),
                key: (self.around == Around::GreEthernet).then_some(7),
                sequence: None,
            }
            .emit(&mut tunnel),
        };
        let tunnel_len = len.unwrap();
        inside.extend(&tunnel[..tunnel_len]);
        if self.around != Around::Gre {
            inside.extend(link(&[], inner_type));
        }
        inside.extend(packet);
        let protocol = match self.around {
            Around::Gre | Around::GreEthernet => Protocol::GRE,
            _ => Protocol::UDP,
        };
        let outer = Self {
            v6: self.outer_v6,
            ip_options: vec![],
            extensions: vec![],
            id: 0x7fff,
            dont_fragment: true,
            ..self.clone()
        };
        let mut transport = vec![];
        if protocol == Protocol::UDP {
            let port = if self.around == Around::Vxlan { 4789 } else { 6081 };
            let checksum = u16::from(self.outer_checksum);
            let payload_len = inside.len() as u16;
            let header = Udp { source_port: 50_000, destination_port: port, payload_len, checksum };
            transport = vec![0; 8];
            header.emit(&mut transport).unwrap();
        }
        let mut wrapped = outer.network(protocol, transport.len() + inside.len());
        let header = wrapped.len() + transport.len() + tunnel_len;
        wrapped.extend(transport);
        wrapped.extend(inside);
        (wrapped, header)
    }
}

fn ethertype(v6: bool) -> EtherType {
    if v6 { EtherType::IPV6 } else { EtherType::IPV4 }
}

fn link(tags: &[EtherType], inside: EtherType) -> Vec<u8> {
    let kinds: Vec<_> = tags.iter().copied().chain([inside]).collect();
    let mut header = vec![0; 14 + 4 * tags.len()];
    let ethernet = Ethernet {
        destination: MacAddr([2, 0, 0, 0, 0, 0x22]),
        source: MacAddr([2, 0, 0, 0, 0, 0x11]),
        ethertype: kinds[0],
    };
    ethernet.emit(&mut header).unwrap();
    for (index, kind) in kinds[1..].iter().enumerate() {
        let tag =
            Vlan { priority: 3, drop_eligible: false, id: 100 + index as u16, ethertype: *kind };
        tag.emit(&mut header[14 + 4 * index..]).unwrap();
    }
    header
}

/// Segments a frame for `sink` with all functions of the cursor, whose results must be equal.
/// Returns a frame that passes unchanged.
///
/// # Panics
/// When the frame is refused.
#[track_caller]
pub(crate) fn cut_for(sink: Sink, frame: &[u8], offload: &Offload) -> Vec<(Vec<u8>, Offload)> {
    let mut segmenter = Segmenter::new(sink);
    let mut copier = match segmenter.plan(frame, offload) {
        Verdict::Pass(left) => return vec![(frame.to_vec(), left)],
        Verdict::Segment(cursor) => cursor,
        Verdict::Refuse(reason) => panic!("refused: {reason}"),
    };
    let mut slicer = copier.clone();
    let mut bursts = [false, true].map(|copies| Burst::of(&copier, frame, copies));
    let mut packets = Vec::new();
    loop {
        let (len, remaining) = (copier.next_len(), copier.remaining());
        let mut packet = vec![0xa5; len];
        let Ok(segment) = copier.copy(frame, &mut packet) else { break };
        assert_eq!((segment.len(), copier.remaining()), (len, remaining - 1));
        let mut header = vec![0; segment.header_len];
        assert_eq!(slicer.slice(frame, &mut header), Ok(segment.clone()));
        header.extend(&frame[segment.payload.clone()]);
        assert!(header == packet, "copy and slices differ");
        for burst in &mut bursts {
            assert_eq!(burst.next(), Some((packet.clone(), segment.clone())));
        }
        segmenter.sent(&copier, &segment);
        packets.push((packet, segment.offload));
    }
    assert!(copier.is_done() && slicer.is_done());
    assert!(bursts.iter_mut().all(|burst| burst.next().is_none()));
    packets
}

/// The results of [`Cursor::slices`] or [`Cursor::copies`], called with a few buffers at a time.
struct Burst(std::vec::IntoIter<(Vec<u8>, Segment)>);

impl Burst {
    fn of(cursor: &Cursor, frame: &[u8], copies: bool) -> Self {
        let mut cursor = cursor.clone();
        let longest = cursor.frame_lengths().0.max(MAX_HEADER);
        let mut packets = Vec::new();
        // The first call gets one buffer or many. In every other call the last buffer is too short,
        // so that the next call continues with the same segment.
        let counts = [1, 2, 5, 70, 3].into_iter().cycle().skip(frame.len() % 5);
        for (turn, count) in counts.enumerate() {
            // Buffers of copies are as long as the longest segment, or a little longer.
            let len = if copies { longest + turn % 3 } else { MAX_HEADER };
            let mut buffers = vec![vec![0xa5; len]; count.min(cursor.remaining() + 1)];
            if turn % 2 == 1 {
                buffers.push(vec![0xa5; 20]);
            }
            let before = packets.len();
            let taken = match copies {
                true => cursor.copies(frame, &mut buffers, |buffer, segment| {
                    let (packet, behind) = buffer.split_at(segment.len());
                    assert!(behind == vec![0xa5; behind.len()], "behind the segment");
                    packets.push((packet.to_vec(), segment));
                }),
                false => cursor.slices(frame, &mut buffers, |buffer, segment| {
                    let mut packet = buffer[..segment.header_len].to_vec();
                    packet.extend(&frame[segment.payload.clone()]);
                    packets.push((packet, segment));
                }),
            };
            let Ok(taken) = taken else { break };
            let new = &packets[before..];
            let bytes = new.iter().map(|(packet, _)| packet.len()).sum();
            assert_eq!(taken, Taken { segments: new.len(), bytes });
        }
        assert!(cursor.is_done());
        Self(packets.into_iter())
    }

    fn next(&mut self) -> Option<(Vec<u8>, Segment)> {
        self.0.next()
    }
}

/// Segments a frame for an MTU of 1500 bytes, with complete checksums.
#[track_caller]
pub(crate) fn cut(frame: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    let packets = cut_for(Sink::ethernet(), frame, offload);
    assert!(packets.iter().all(|(_, left)| left.is_none()));
    packets.into_iter().map(|(packet, _)| packet).collect()
}
