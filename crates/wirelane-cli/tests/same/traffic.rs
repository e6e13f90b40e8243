//! The table of traffic: packets with times and RX queues.

use std::iter;

use wirelane::pcap::LINK_TYPE_ETHERNET;
use wirelane::wire::{Ipv4, MacAddr, Protocol, Tcp, TcpFlags, packet};
use wirelane_testkit::packets;

use crate::{captures, generated};

/// A row: packets in the order of their arrival.
pub(crate) struct Traffic {
    pub(crate) name: &'static str,
    /// Whether an interface can receive it within a moment; otherwise it is for files alone.
    pub(crate) live: bool,
    pub(crate) make: fn() -> Vec<Packet>,
}

pub(crate) const TRAFFIC: &[Traffic] = &[
    Traffic { name: "conversations", live: true, make: conversations },
    Traffic { name: "handshakes", live: true, make: handshakes },
    Traffic { name: "sent again", live: true, make: sent_again },
    Traffic { name: "one-way flows", live: true, make: one_way },
    Traffic { name: "bursts", live: true, make: bursts },
    Traffic { name: "VLAN tags", live: true, make: tags },
    Traffic { name: "fragments", live: true, make: fragments },
    Traffic { name: "IPv6", live: true, make: ipv6 },
    Traffic { name: "tunnels", live: true, make: tunnels },
    Traffic { name: "100 packets/s for a minute", live: false, make: a_minute },
    Traffic { name: "gaps of a minute", live: false, make: gaps },
    Traffic { name: "decreasing times", live: false, make: decreasing },
    Traffic { name: "long frames", live: false, make: long_frames },
    Traffic { name: "very long frames", live: false, make: very_long_frames },
    Traffic { name: "several link types", live: false, make: link_types },
    Traffic { name: "generated", live: true, make: generated::example },
    Traffic { name: "captures of Ethernet", live: false, make: captures::ethernet },
    Traffic { name: "captures of other links", live: false, make: captures::others },
    Traffic { name: "PPP and 802.11", live: false, make: ppp_and_wlan },
];

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Nanoseconds since 1970, a whole number of microseconds, which every format can record.
    pub(crate) time: u64,
    pub(crate) queue: u32,
    pub(crate) link_type: u16,
    /// Bytes of the packet, of which `data` has the first ones.
    pub(crate) original_len: u32,
    pub(crate) data: Vec<u8>,
}

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000_000_000;
pub(crate) const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
pub(crate) const LINK_TYPE_LINUX_SLL: u16 = 113;

pub(crate) fn at(time: u64, queue: u64, data: Vec<u8>) -> Packet {
    let (link_type, original_len) = (LINK_TYPE_ETHERNET, data.len() as u32);
    Packet { time: START + time, queue: queue as u32, link_type, original_len, data }
}

/// Another queue receives the answer, 3 µs after the request.
fn conversations() -> Vec<Packet> {
    let of = |number: u64| {
        let (client, server) = ([10, 0, 0, number as u8 + 1], [10, 0, 1, 1]);
        let time = number * MILLISECOND;
        let port = 20_000 + number as u16;
        let request = datagram(client, server, port, 53);
        let response = datagram(server, client, 53, port);
        [at(time, number % 4, request), at(time + 3 * MICROSECOND, (number + 1) % 4, response)]
    };
    (0..26).flat_map(of).collect()
}

/// SYN, SYN-ACK, ACK, a request, its answer and both FINs of each connection, microseconds apart.
fn handshakes() -> Vec<Packet> {
    let of = |number: u64| {
        let (client, server) = ([10, 2, 0, number as u8 + 1], [10, 2, 1, 1]);
        let port = 30_000 + number as u16;
        let segment = |out: bool, flags: TcpFlags, [sequence, acknowledgment]: [u32; 2], data| {
            let (from, to) = if out { (client, server) } else { (server, client) };
            let (source, destination) = if out { (port, 80) } else { (80, port) };
            let ports = Tcp::between(source, destination);
            let tcp = Tcp { sequence, acknowledgment, flags, ..ports };
            let link = packet::ethernet(mac(from), mac(to)).ipv4(from.into(), to.into());
            emitted(|frame| link.tcp(tcp, data).emit(frame))
        };
        let ack = TcpFlags::ACK;
        let fin = ack.with(TcpFlags::FIN);
        let frames = [
            (0, segment(true, TcpFlags::SYN, [100, 0], &b""[..])),
            (1, segment(false, TcpFlags::SYN.with(ack), [900, 101], b"")),
            (0, segment(true, ack, [101, 901], b"")),
            (0, segment(true, ack, [101, 901], b"GET /")),
            (1, segment(false, ack, [901, 106], b"200 OK")),
            (0, segment(true, fin, [106, 907], b"")),
            (1, segment(false, fin, [907, 107], b"")),
        ];
        let time = number * MILLISECOND;
        let place = move |(index, (direction, frame))| {
            at(time + index as u64 * 5 * MICROSECOND, (number + direction) % 4, frame)
        };
        frames.into_iter().enumerate().map(place).collect::<Vec<_>>()
    };
    (0..8).flat_map(of).collect()
}

/// Segments of a direction arrive on different queues, some of them again or late.
fn sent_again() -> Vec<Packet> {
    let of = |number: u64| {
        let (client, server) = ([10, 7, 0, number as u8 + 1], [10, 7, 1, 1]);
        let segment = move |(index, segment): (u64, u32)| {
            let ports = Tcp::between(40_000 + number as u16, 80);
            let tcp = Tcp { sequence: 100 + segment * 10, flags: TcpFlags::ACK, ..ports };
            let link = packet::ethernet(mac(client), mac(server));
            let network = link.ipv4(client.into(), server.into());
            let frame = emitted(|frame| network.tcp(tcp, b"ten bytes.").emit(frame));
            let time = number * MILLISECOND + index * 5 * MICROSECOND;
            at(time, index * (number % 4) % 4, frame)
        };
        (0..).zip([0, 1, 3, 2, 1, 4, 5, 6, 6, 7]).map(segment)
    };
    (0..8).flat_map(of).collect()
}

/// Consecutive packets of a flow arrive on different queues, as when XPS moves its socket.
fn one_way() -> Vec<Packet> {
    let frame = |n: u64| packets::udp4(n).flow((n % 15) as u16).build();
    (0..60).map(|n| at(n * 20 * MICROSECOND, n % 4, frame(n))).collect()
}

/// Five packets at a time on one queue, then five on the next one.
fn bursts() -> Vec<Packet> {
    let packet = |n: u64| packets::udp4(n).addresses([10, 3, 0, (n / 5) as u8], [10, 3, 1, 1]);
    let frame = |n: u64| packet(n).length(60 + n as usize * 9).build();
    let time = |n: u64| n / 5 * 100 * MILLISECOND + n % 5 * MICROSECOND;
    (0..80).map(|n| at(time(n), n / 5 % 4, frame(n))).collect()
}

/// None, one, and two of them.
fn tags() -> Vec<Packet> {
    let packet = |n: u64| packets::udp4(n).addresses([10, 5, 0, n as u8 / 8], [10, 5, 1, 1]);
    let frame = |n: u64| match n % 3 {
        0 => packet(n).build(),
        1 => packet(n).vlan(7).build(),
        _ => in_service_vlan(packet(n).vlan(7).build()),
    };
    (0..24).map(|n| at(n * MICROSECOND, n % 4, frame(n))).collect()
}

/// The frame with an outer tag (IEEE 802.1ad) of VLAN 9 and priority 1.
pub(crate) fn in_service_vlan(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [0x88, 0xa8, 0x20, 9]);
    frame
}

/// Three of each datagram; only the first one has ports.
fn fragments() -> Vec<Packet> {
    let frame = |n: u64| {
        let (source, destination) = ([10, 4, 0, (n / 3) as u8 + 1], [10, 4, 1, 1]);
        let mut datagram = packets::udp4(n / 3).length(14 + 20 + 3000).build();
        let mut frame = datagram.drain(..14).collect::<Vec<_>>();
        let part = &datagram[20..][..3000].chunks(1200).nth((n % 3) as usize).unwrap();
        let mut header = [0; 20];
        let ipv4 = Ipv4 {
            source: source.into(),
            destination: destination.into(),
            protocol: Protocol::UDP,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            identification: n as u16 / 3,
            dont_fragment: false,
            more_fragments: n % 3 != 2,
            fragment_offset: (n % 3) as u16 * 1200,
            payload_len: part.len() as u16,
            options: &[],
        };
        ipv4.emit(&mut header).unwrap();
        frame.extend(header);
        frame.extend(*part);
        frame
    };
    (0..24).map(|n| at(n * MICROSECOND, n % 4, frame(n))).collect()
}

fn ipv6() -> Vec<Packet> {
    let frame = |n: u64| match n % 2 {
        0 => packets::udp6(n).flow((n / 4) as u16).build(),
        _ => packets::tcp6(n).flow((n / 4) as u16).length(200).build(),
    };
    (0..20).map(|n| at(n * MICROSECOND, n % 4, frame(n))).collect()
}

/// GRE without a key, with key 0 and key 7, and IP in IP; the other end answers.
fn tunnels() -> Vec<Packet> {
    let frame = |n: u64| {
        let (client, server) = ([10, 6, 0, 1], [10, 6, 1, 1]);
        let inner = match n % 2 {
            0 => datagram(client, server, 4000, 53),
            _ => datagram(server, client, 53, 4000),
        };
        let (protocol, header): (_, &[u8]) = match n / 2 % 4 {
            0 => (Protocol::GRE, &[0, 0, 8, 0]),
            1 => (Protocol::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 0]),
            2 => (Protocol::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 7]),
            _ => (Protocol::IPV4, &[]),
        };
        let payload = [header, &inner[14..]].concat();
        let ends = [[192, 0, 2, 1], [192, 0, 2, 2]];
        let (from, to) = if n.is_multiple_of(2) { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let network = packet::ethernet(mac(from), mac(to)).ipv4(from.into(), to.into());
        emitted(|frame| network.other(protocol, &payload).emit(frame))
    };
    (0..24).map(|n| at(n * MICROSECOND, n % 4, frame(n))).collect()
}

fn a_minute() -> Vec<Packet> {
    let frame = |n: u64| packets::udp4(n).flow((n % 3) as u16).build();
    (0..6000).map(|n| at(n * 10 * MILLISECOND, n % 4, frame(n))).collect()
}

/// Flows end during the gap.
fn gaps() -> Vec<Packet> {
    let frame = |n: u64| packets::udp4(n).flow((n % 2) as u16).build();
    (0..8).map(|n| at(n / 4 * 60 * SECOND + n * MICROSECOND, n % 4, frame(n))).collect()
}

/// Every fifth packet is earlier than those before it.
fn decreasing() -> Vec<Packet> {
    let frame = |n: u64| packets::udp4(n).flow((n % 5) as u16).build();
    let time = |n: u64| n * MILLISECOND + if n % 5 == 4 { 0 } else { 10 * MILLISECOND };
    (0..30).map(|n| at(time(n), n % 2, frame(n))).collect()
}

/// Up to the longest IPv4 packet.
fn long_frames() -> Vec<Packet> {
    let lengths = [60, 1514, 1515, 9014, 65_549];
    let frame = |(n, length): (usize, &usize)| packets::udp4(n as u64).length(*length).build();
    let frames = lengths.iter().enumerate().map(frame);
    frames.zip(0..).map(|(frame, n)| at(n * MICROSECOND, n % 2, frame)).collect()
}

/// A short frame, then longer frames that are not IP: EtherType 0x88b5, and different bytes.
fn very_long_frames() -> Vec<Packet> {
    let frame = |length: usize| {
        let mut frame = packets::raw(length as u64);
        frame.extend((frame.len()..length).map(|at| at as u8));
        frame
    };
    let frames = [131_008, 131_009, 150_014, 200_000].map(frame);
    let short = packets::udp4(0).build();
    iter::once(short)
        .chain(frames)
        .zip(0..)
        .map(|(frame, n)| at(n * MICROSECOND, n % 2, frame))
        .collect()
}

/// Ethernet on queue 0, Linux cooked on queue 1.
fn link_types() -> Vec<Packet> {
    let one = |n: u64| {
        let frame = packets::udp4(n).flow((n % 3) as u16).build();
        if n.is_multiple_of(2) {
            return at(n * MICROSECOND, 0, frame);
        }
        let mut cooked = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0].to_vec();
        cooked.extend(&frame[12..]);
        Packet { link_type: LINK_TYPE_LINUX_SLL, ..at(n * MICROSECOND, 1, cooked) }
    };
    (0..20).map(one).collect()
}

/// PPP on queue 0, 802.11 on queue 1, where every fifth frame is encrypted, and behind PPI on
/// queue 2.
fn ppp_and_wlan() -> Vec<Packet> {
    let one = |n: u64| {
        let frame = packets::udp4(n).flow((n % 3) as u16).build();
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let flags = if n % 5 == 1 { 0x41 } else { 1 };
        let wlan = [&[8, flags][..], &[0; 22], &snap].concat();
        let (link_type, queue, header) = match n % 4 {
            0 | 2 => (9, 0, [0xff, 3, 0, 0x21].to_vec()),
            1 => (105, 1, wlan),
            _ => (192, 2, [&[0, 0, 8, 0, 105, 0, 0, 0], &wlan[..]].concat()),
        };
        let data = [&header[..], &frame[14..]].concat();
        Packet { link_type, ..at(n * MICROSECOND, queue, data) }
    };
    (0..20).map(one).collect()
}

fn datagram(from: [u8; 4], to: [u8; 4], source: u16, destination: u16) -> Vec<u8> {
    let network = packet::ethernet(mac(from), mac(to)).ipv4(from.into(), to.into());
    emitted(|frame| network.udp(source, destination, b"some words of text").emit(frame))
}

fn mac(address: [u8; 4]) -> MacAddr {
    let [a, b, c, d] = address;
    MacAddr([2, 0, a, b, c, d])
}

fn emitted<E: std::fmt::Debug>(emit: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Vec<u8> {
    let mut frame = [0; 200];
    let length = emit(&mut frame).unwrap();
    frame[..length].to_vec()
}
