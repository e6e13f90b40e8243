//! The packets for all programs: conversations with something to find for every reader.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use wirelane_wire::checksum::{pseudo_v4, pseudo_v6};
use wirelane_wire::{
    Arp, Echo, EtherType, Ethernet, Icmpv4, Icmpv6, Ipv4, Ipv6, MacAddr, Protocol, Tcp, TcpFlags,
    Udp, Vlan, tcp, udp,
};

/// Web sites to fetch, each over one TCP connection.
const FETCHES: u16 = 24;
/// Names to look up.
const LOOKUPS: u16 = 24;

/// All frames, in order.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames = addresses();
    frames.extend(fetches());
    frames.extend(lookups());
    frames.extend(pings());
    frames.extend(tagged());
    frames.extend(fragments());
    frames.extend(oddities());
    frames
}

/// Long datagrams of many flows, from other hosts: 4.5 MB.
pub(crate) fn filling() -> Vec<Vec<u8>> {
    let flow = |number: u16| Way::v6(Host(9), Host(10), (20_000 + number % 64, 4));
    (0..3000).map(|number| flow(number).udp(&[0x66; 1400])).collect()
}

/// Writes `frames` as a capture file, a millisecond apart.
pub(crate) fn write(frames: &[Vec<u8>], path: &Path) {
    let mut file = Vec::new();
    // draft-ietf-opsawg-pcap: magic, version, two unused fields, snap length, Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for (index, frame) in frames.iter().enumerate() {
        let index = u32::try_from(index).unwrap();
        let length = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000 + index / 1000, index % 1000 * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

/// A station with its addresses.
#[derive(Clone, Copy)]
struct Host(u8);

impl Host {
    const SERVER: Self = Self(200);

    fn mac(self) -> MacAddr {
        MacAddr([2, 0, 0x5e, 0x10, 0, self.0])
    }

    fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, self.0)
    }

    fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self.0.into())
    }

    fn address(self, version: u8) -> IpAddr {
        if version == 6 { self.v6().into() } else { self.v4().into() }
    }
}

/// The endpoints of a packet.
#[derive(Clone, Copy)]
struct Way {
    from: Host,
    to: Host,
    ports: (u16, u16),
    version: u8,
    id: u16,
}

impl Way {
    fn v4(from: Host, to: Host, ports: (u16, u16)) -> Self {
        Self { from, to, ports, version: 4, id: 1 }
    }

    fn v6(from: Host, to: Host, ports: (u16, u16)) -> Self {
        Self { version: 6, ..Self::v4(from, to, ports) }
    }

    fn back(self) -> Self {
        Self { from: self.to, to: self.from, ports: (self.ports.1, self.ports.0), ..self }
    }

    fn frame(self, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14];
        let ethertype = if self.version == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let (source, destination) = (self.from.mac(), self.to.mac());
        Ethernet { destination, source, ethertype }.emit(&mut frame).unwrap();
        frame.extend(self.packet(protocol, payload, 0, false));
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn packet(self, protocol: Protocol, payload: &[u8], offset: u16, more: bool) -> Vec<u8> {
        let payload_len = u16::try_from(payload.len()).unwrap();
        let mut packet = vec![0; if self.version == 6 { 40 } else { 20 }];
        if self.version == 6 {
            let header = Ipv6 {
                source: self.from.v6(),
                destination: self.to.v6(),
                next_header: protocol,
                hop_limit: 64,
                dscp: 0,
                ecn: 0,
                flow_label: 0,
                payload_len,
            };
            header.emit(&mut packet).unwrap();
        } else {
            let header = Ipv4 {
                source: self.from.v4(),
                destination: self.to.v4(),
                protocol,
                ttl: 64,
                dscp: 0,
                ecn: 0,
                identification: self.id,
                dont_fragment: !more && offset == 0,
                more_fragments: more,
                fragment_offset: offset,
                payload_len,
                options: &[],
            };
            header.emit(&mut packet).unwrap();
        }
        packet.extend(payload);
        packet
    }

    fn pseudo(self, protocol: Protocol, length: usize) -> wirelane_wire::checksum::Sum {
        let length = u32::try_from(length).unwrap();
        match (self.from.address(self.version), self.to.address(self.version)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => pseudo_v4(from, to, protocol, length),
            (IpAddr::V6(from), IpAddr::V6(to)) => pseudo_v6(from, to, protocol, length),
            _ => unreachable!("both have the version"),
        }
    }

    fn datagram(self, payload: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; 8];
        datagram.extend(payload);
        let header = Udp {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            payload_len: u16::try_from(payload.len()).unwrap(),
            checksum: 0,
        };
        header.emit(&mut datagram).unwrap();
        let pseudo = self.pseudo(Protocol::UDP, datagram.len());
        udp::fill_checksum(&mut datagram, pseudo).unwrap();
        datagram
    }

    fn udp(self, payload: &[u8]) -> Vec<u8> {
        self.frame(Protocol::UDP, &self.datagram(payload))
    }

    fn tcp(self, flags: TcpFlags, [sequence, acknowledgment]: [u32; 2], payload: &[u8]) -> Vec<u8> {
        // Like Linux: maximum segment size, selective acknowledgements, time stamps, window scale.
        const OPTIONS: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
        let options = if flags.contains(TcpFlags::SYN) { &OPTIONS[..] } else { &[] };
        let mut segment = vec![0; 20 + options.len()];
        segment.extend(payload);
        let header = Tcp {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            sequence,
            acknowledgment,
            flags,
            window: 64_240,
            checksum: 0,
            urgent_pointer: 0,
            options,
        };
        header.emit(&mut segment).unwrap();
        let pseudo = self.pseudo(Protocol::TCP, segment.len());
        tcp::fill_checksum(&mut segment, pseudo).unwrap();
        self.frame(Protocol::TCP, &segment)
    }
}

/// ARP announcements of all hosts; one host changes its card.
fn addresses() -> Vec<Vec<u8>> {
    let announce = |host: Host, mac: MacAddr| {
        let mut frame = vec![0; 60];
        let ethernet =
            Ethernet { destination: MacAddr::BROADCAST, source: mac, ethertype: EtherType::ARP };
        ethernet.emit(&mut frame).unwrap();
        Arp::request(mac, host.v4(), Host::SERVER.v4()).emit(&mut frame[14..]).unwrap();
        frame
    };
    let mut frames: Vec<_> = (1..=8).map(Host).map(|host| announce(host, host.mac())).collect();
    frames.push(announce(Host(3), MacAddr([2, 0, 0x5e, 0x66, 0, 3])));
    frames
}

/// Connections to a web server, several at the same time, each with its own page.
fn fetches() -> Vec<Vec<u8>> {
    let conversations: Vec<Vec<Vec<u8>>> = (0..FETCHES).map(fetch).collect();
    let longest = conversations.iter().map(Vec::len).max().unwrap_or(0);
    let step = |at: usize| conversations.iter().filter_map(move |it| it.get(at).cloned());
    (0..longest).flat_map(step).collect()
}

fn fetch(number: u16) -> Vec<Vec<u8>> {
    let client = Host(1 + (number % 8) as u8);
    let way = if number % 6 == 5 { Way::v6 } else { Way::v4 };
    let out = way(client, Host::SERVER, (40_000 + number, 80));
    let back = out.back();
    let request = format!(
        "GET /page/{number} HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"
    );
    let body = format!("This is page {number}. ").repeat(20 + usize::from(number));
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ack = TcpFlags::ACK;
    let (mut here, mut there) = (1000, 9_000_000);
    let mut frames = vec![
        out.tcp(TcpFlags::SYN, [here, 0], &[]),
        back.tcp(TcpFlags::SYN.with(ack), [there, here + 1], &[]),
    ];
    here += 1;
    there += 1;
    frames.push(out.tcp(ack, [here, there], &[]));
    frames.push(out.tcp(ack.with(TcpFlags::PSH), [here, there], request.as_bytes()));
    here += u32::try_from(request.len()).unwrap();
    for part in answer.as_bytes().chunks(1200) {
        frames.push(back.tcp(ack.with(TcpFlags::PSH), [there, here], part));
        there += u32::try_from(part.len()).unwrap();
        frames.push(out.tcp(ack, [here, there], &[]));
    }
    frames.push(out.tcp(ack.with(TcpFlags::FIN), [here, there], &[]));
    frames.push(back.tcp(ack.with(TcpFlags::FIN), [there, here + 1], &[]));
    frames.push(out.tcp(ack, [here + 1, there + 1], &[]));
    frames
}

/// Questions to a name server and its answers: RFC 1035, section 4.
fn lookups() -> Vec<Vec<u8>> {
    (0..LOOKUPS)
        .flat_map(|number| {
            let out = Way::v4(Host(1 + (number % 8) as u8), Host::SERVER, (50_000 + number, 53));
            let label = format!("host{number}");
            let mut question = vec![label.len() as u8];
            question.extend(label.as_bytes());
            question.extend(b"\x07example\x03org\x00\x00\x01\x00\x01");
            let message = |flags: u16, answers: u16, answer: &[u8]| {
                let mut bytes = Vec::new();
                for word in [number, flags, 1, answers, 0, 0] {
                    bytes.extend(word.to_be_bytes());
                }
                [&bytes[..], &question, answer].concat()
            };
            let address = [192, 0, 2, 100 + number as u8];
            let record =
                [&b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04"[..], &address].concat();
            [out.udp(&message(0x0100, 0, &[])), out.back().udp(&message(0x8180, 1, &record))]
        })
        .collect()
}

fn pings() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for sequence in 0..10 {
        let echo = Echo { identifier: 77, sequence };
        let way = Way::v4(Host(1 + sequence as u8 % 8), Host::SERVER, (0, 0));
        for (way, message) in
            [(way, Icmpv4::EchoRequest(echo)), (way.back(), Icmpv4::EchoReply(echo))]
        {
            let mut bytes = vec![0x5a; 64];
            message.emit(&mut bytes).unwrap();
            frames.push(way.frame(Protocol::ICMP, &bytes));
        }
        let way = Way { version: 6, ..way };
        let mut bytes = vec![0x5a; 64];
        let pseudo = way.pseudo(Protocol::ICMPV6, bytes.len());
        Icmpv6::EchoRequest(echo).emit(&mut bytes, pseudo).unwrap();
        frames.push(way.frame(Protocol::ICMPV6, &bytes));
    }
    frames
}

/// Frames with one VLAN tag and with two.
fn tagged() -> Vec<Vec<u8>> {
    (0..12)
        .map(|number| {
            let way = Way::v4(Host(number + 1), Host::SERVER, (7000 + u16::from(number), 7001));
            let mut frame = way.udp(&[number; 90]);
            for depth in 0..=number % 2 {
                let inner = EtherType(u16::from_be_bytes([frame[12], frame[13]]));
                let mut tag = [0; 4];
                let id = 100 + u16::from(number) + 50 * u16::from(depth);
                Vlan { priority: 3, drop_eligible: false, id, ethertype: inner }
                    .emit(&mut tag)
                    .unwrap();
                frame.splice(12..14, [&[0x81, 0], &tag[..]].concat());
            }
            frame
        })
        .collect()
}

/// Datagrams in pieces.
fn fragments() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..4 {
        let way = Way::v4(Host(number + 1), Host::SERVER, (6000, 6001 + u16::from(number)));
        let way = Way { id: 900 + u16::from(number), ..way };
        let datagram = way.datagram(&[b'f'; 3000]);
        for (index, piece) in datagram.chunks(1480).enumerate() {
            let offset = u16::try_from(index * 1480).unwrap();
            let more = usize::from(offset) + piece.len() < datagram.len();
            let mut frame = way.frame(Protocol::UDP, &[])[..14].to_vec();
            frame.extend(way.packet(Protocol::UDP, piece, offset, more));
            frames.push(frame);
        }
    }
    frames
}

/// An unknown type, a truncated packet, a wrong checksum, a full-size payload and an empty one.
fn oddities() -> Vec<Vec<u8>> {
    let way = Way::v4(Host(5), Host::SERVER, (5000, 5001));
    let mut unknown = vec![0xee; 100];
    let ethertype = EtherType(0x88b5);
    let ethernet = Ethernet { destination: Host(1).mac(), source: Host(2).mac(), ethertype };
    ethernet.emit(&mut unknown).unwrap();
    let mut short = way.udp(&[1; 100]);
    short.truncate(64);
    let mut wrong = way.udp(b"the checksum is wrong");
    wrong[40] ^= 0xff;
    vec![unknown, short, wrong, way.udp(&[b'L'; 1472]), way.udp(b"")]
}
