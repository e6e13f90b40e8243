//! The auditor: every rule broken on purpose is named with its packet, and what is right is not.

use proptest::prelude::*;
use wirelane::segment::{Gso, Offload};
use wirelane::verify::{Auditor, Finding, Kind, Options, Packet, Rule, Summary};
use wirelane_wire::checksum::{Sum, pseudo_v4};
use wirelane_wire::{EtherType, Protocol, TcpFlags};

use super::audit;
use super::frames::{Around, Checksum, DESTINATION_V4, Frame, SOURCE_V4, cut, cut_for};
use super::oracle::{Random, random_frame};

/// Packets as they are seen on interfaces.
struct Capture {
    packets: Vec<(u32, Vec<u8>)>,
    options: Options,
    snaplen: usize,
}

impl Capture {
    fn of(packets: Vec<Vec<u8>>) -> Self {
        Self::on(packets.into_iter().map(|packet| (0, packet)).collect())
    }

    fn on(packets: Vec<(u32, Vec<u8>)>) -> Self {
        Self { packets, options: Options::default(), snaplen: usize::MAX }
    }

    fn strict(mut self) -> Self {
        self.options.strict = true;
        self
    }

    fn audit(&self) -> (Vec<Finding>, Summary) {
        let mut auditor = Auditor::new(self.options);
        let mut findings = Vec::new();
        for (index, (interface, data)) in self.packets.iter().enumerate() {
            let packet = Packet {
                interface: *interface,
                link_type: 1,
                timestamp: 1_000_000_000 + index as u64 * 1000,
                original_len: data.len() as u32,
                data: &data[..data.len().min(self.snaplen)],
            };
            auditor.packet(&packet, &mut |finding| findings.push(finding.clone()));
        }
        auditor.finish(&mut |finding| findings.push(finding.clone()));
        (findings, auditor.summary().clone())
    }

    /// Number and rule of all violations.
    fn violations(&self) -> Vec<(u64, Rule)> {
        self.kind(Kind::Violation)
    }

    fn notes(&self) -> Vec<(u64, Rule)> {
        self.kind(Kind::Note)
    }

    fn kind(&self, kind: Kind) -> Vec<(u64, Rule)> {
        let (findings, summary) = self.audit();
        let of = |kind| findings.iter().filter(move |it| it.kind == kind);
        assert_eq!(summary.violations(), of(Kind::Violation).count() as u64);
        assert_eq!(summary.notes(), of(Kind::Note).count() as u64);
        of(kind).map(|it| (it.packet, it.rule)).collect()
    }

    #[track_caller]
    fn assert_clean(&self) {
        let (findings, _) = self.audit();
        let bad: Vec<_> = findings.iter().filter(|it| it.kind == Kind::Violation).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

fn segments(frame: &Frame) -> Vec<Vec<u8>> {
    let (bytes, offload) = frame.build();
    cut(&bytes, &offload)
}

/// Three whole segments and a shorter one.
fn tcp4() -> Vec<Vec<u8>> {
    segments(&Frame::tcp4(5000, 1460))
}

/// Makes the checksums of an untagged IPv4 packet without options right again.
fn fix(packet: &mut [u8]) {
    packet[24..26].fill(0);
    let header = Sum::of(&packet[14..34]).checksum();
    packet[24..26].copy_from_slice(&header.to_be_bytes());
    if packet[20] & 0x3f != 0 || packet[21] != 0 {
        return;
    }
    let (at, protocol) = match packet[23] {
        6 => (50, Protocol::TCP),
        17 => (40, Protocol::UDP),
        _ => return,
    };
    packet[at..at + 2].fill(0);
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, protocol, packet.len() as u32 - 34);
    let sum = pseudo.plus(Sum::of(&packet[34..])).checksum_nonzero();
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The segments with packet `number` (from 1) changed, and its checksums right.
fn with(number: usize, mut packets: Vec<Vec<u8>>, change: impl Fn(&mut Vec<u8>)) -> Capture {
    change(&mut packets[number - 1]);
    fix(&mut packets[number - 1]);
    Capture::of(packets)
}

#[test]
fn segments_are_clean() {
    Capture::of(tcp4()).strict().assert_clean();
    assert!(Capture::of(tcp4()).notes().is_empty());
    let (_, summary) = Capture::of(tcp4()).audit();
    for rule in [Rule::Ipv4Checksum, Rule::TcpChecksum, Rule::IpLength, Rule::TcpOptions] {
        assert_eq!((summary.rule(rule).checked, summary.rule(rule).cut), (4, 0), "{rule}");
    }
    // Its packets have no DF: each is compared with the one before.
    assert_eq!(summary.rule(Rule::Ipv4Id).checked, 3);
}

#[test]
fn wrong_checksums_are_named() {
    let damaged = |at: usize| {
        let mut packets = tcp4();
        packets[2][at] ^= 0x40;
        Capture::of(packets)
    };
    assert_eq!(damaged(22).violations(), [(3, Rule::Ipv4Checksum)]);
    assert_eq!(damaged(1000).violations(), [(3, Rule::TcpChecksum)]);
    let (findings, _) = damaged(1000).audit();
    let text = findings[0].to_string();
    for part in ["packet 3: tcp-checksum: expected 0x", ", found 0x", "[RFC 9293"] {
        assert!(text.contains(part), "{text}");
    }
    for v6 in [false, true] {
        let mut packets = segments(&Frame::new(Gso::Udp, v6, 5000, 1000));
        *packets[1].last_mut().unwrap() ^= 1;
        assert_eq!(Capture::of(packets).violations(), [(2, Rule::UdpChecksum)]);
    }
}

#[test]
fn impossible_headers_are_named() {
    let header = |at: usize, byte: u8| with(2, tcp4(), |packet| packet[at] = byte).violations();
    assert_eq!(header(14, 0x55)[0], (2, Rule::Ipv4Header));
    assert_eq!(header(14, 0x44)[0], (2, Rule::Ipv4Header));
    assert_eq!(header(46, 0x40), [(2, Rule::TcpHeader)]);
    // The total length is one more than the frame has; one less is a trailer, and a wrong checksum.
    let length = |difference: i16| {
        let mut packets = tcp4();
        let length = u16::from_be_bytes([packets[1][16], packets[1][17]]);
        let length = length.wrapping_add_signed(difference).to_be_bytes();
        packets[1][16..18].copy_from_slice(&length);
        packets[1][24..26].fill(0);
        let sum = Sum::of(&packets[1][14..34]).checksum();
        packets[1][24..26].copy_from_slice(&sum.to_be_bytes());
        Capture::of(packets)
    };
    assert_eq!(length(1).violations(), [(2, Rule::IpLength)]);
    assert_eq!(length(-1).violations(), [(2, Rule::TcpChecksum)]);
    assert_eq!(length(-1).audit().1.trailers, 1);

    let mut six = segments(&Frame::tcp6(5000, 1440));
    six[1][14] = 0x45;
    assert_eq!(Capture::of(six).violations(), [(2, Rule::Ipv6Header)]);
    let mut six = segments(&Frame::tcp6(5000, 1440));
    six[1].pop();
    assert_eq!(Capture::of(six).violations(), [(2, Rule::IpLength)]);
    let mut frame = Frame::tcp6(3000, 1400);
    frame.extensions = vec![(Protocol::HOP_BY_HOP, vec![0; 8])];
    let mut six = segments(&frame);
    six[0][55] = 0xff;
    assert_eq!(Capture::of(six).violations(), [(1, Rule::Ipv6Header)]);
    // The frame ends in the TCP header, and says so.
    let mut short = tcp4();
    short[0].truncate(44);
    short[0][16..18].copy_from_slice(&30_u16.to_be_bytes());
    fix_header(&mut short[0]);
    assert_eq!(Capture::of(short).violations(), [(1, Rule::TcpHeader)]);
}

fn fix_header(packet: &mut [u8]) {
    packet[24..26].fill(0);
    let sum = Sum::of(&packet[14..34]).checksum();
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn tcp_options_end_within_the_header() {
    let mut frame = Frame::tcp4(5000, 1400);
    frame.tcp_options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    Capture::of(segments(&frame)).assert_clean();
    for length in [0, 1, 11, 255] {
        let capture = with(2, segments(&frame), |packet| packet[57] = length);
        assert_eq!(capture.violations(), [(2, Rule::TcpOptions)], "{length}");
    }
}

#[test]
fn udp_lengths_are_within_the_packet() {
    let datagrams = || segments(&Frame::new(Gso::Udp, false, 3000, 1000));
    for length in [0, 7, 1009] {
        let capture = with(2, datagrams(), |packet| {
            packet[38..40].copy_from_slice(&u16::to_be_bytes(length));
        });
        assert_eq!(capture.violations(), [(2, Rule::UdpLength)], "{length}");
    }
    // What follows may be options (RFC 9868). The checksum is that of the rest.
    let mut packets = datagrams();
    let packet = &mut packets[1];
    packet[38..40].copy_from_slice(&1000_u16.to_be_bytes());
    packet[40..42].fill(0);
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, Protocol::UDP, 1000);
    let sum = pseudo.plus(Sum::of(&packet[34..1034])).checksum_nonzero();
    packet[40..42].copy_from_slice(&sum.to_be_bytes());
    Capture::of(packets).assert_clean();
}

#[test]
fn identifications_differ_without_df() {
    let mut frame = Frame::tcp4(5000, 1460);
    let same = |mut packets: Vec<Vec<u8>>| {
        for packet in &mut packets {
            packet[18..20].copy_from_slice(&[0x12, 0x34]);
            fix_header(packet);
        }
        Capture::of(packets)
    };
    let (second, third) = ((2, Rule::Ipv4Id), (3, Rule::Ipv4Id));
    assert_eq!(same(segments(&frame)).violations(), [second, third, (4, Rule::Ipv4Id)]);
    frame.dont_fragment = true;
    same(segments(&frame)).assert_clean();
    frame.fixed_id = true;
    Capture::of(segments(&frame)).assert_clean();
    // The same packet once more is one that the network made two of.
    let packets = tcp4();
    Capture::of(vec![packets[0].clone(), packets[0].clone(), packets[1].clone()]).assert_clean();
}

#[test]
fn nothing_is_behind_fin() {
    let mut frame = Frame::tcp4(5000, 1460);
    frame.flags = TcpFlags::ACK.with(TcpFlags::FIN).with(TcpFlags::PSH);
    Capture::of(segments(&frame)).assert_clean();
    let mut packets = segments(&frame);
    // As if the flags were copied to all.
    for packet in &mut packets[..3] {
        packet[47] |= 0x01;
        fix(packet);
    }
    let fin = Rule::TcpFin;
    assert_eq!(Capture::of(packets).violations(), [(1, fin), (2, fin), (3, fin)]);
    // What was lost comes once more.
    let mut again = segments(&frame);
    again.push(again[1].clone());
    Capture::of(again).assert_clean();
}

/// SYN and SYN/ACK with these flags, as packets of the connection of [`Frame`].
fn handshake(syn: u16, answer: u16) -> Vec<Vec<u8>> {
    let mut frame = Frame::tcp4(0, 0);
    frame.checksum = Checksum::Complete;
    frame.flags = TcpFlags::SYN.with(TcpFlags::from_bits(syn));
    let ask = frame.build().0;
    frame.flags = TcpFlags::SYN.with(TcpFlags::ACK).with(TcpFlags::from_bits(answer));
    let mut reply = frame.build().0;
    let (source, destination) = (reply[26..30].to_vec(), reply[30..34].to_vec());
    reply[26..30].copy_from_slice(&destination);
    reply[30..34].copy_from_slice(&source);
    let (source, destination) = (reply[34..36].to_vec(), reply[36..38].to_vec());
    reply[34..36].copy_from_slice(&destination);
    reply[36..38].copy_from_slice(&source);
    vec![ask, reply]
}

#[test]
fn cwr_is_a_signal_once_or_a_counter() {
    let mut frame = Frame::tcp4(5000, 1460);
    frame.flags = TcpFlags::ACK.with(TcpFlags::CWR);
    frame.accurate_ecn = true;
    let (bytes, offload) = frame.build();
    let counter = cut(&bytes, &Offload { ecn: false, ..offload });
    frame.accurate_ecn = false;
    let signal = segments(&frame);
    let audit = |handshake: Vec<Vec<u8>>, segments: &[Vec<u8>]| {
        Capture::of([handshake, segments.to_vec()].concat())
    };
    let (classic, accurate) = (handshake(0xc0, 0x40), handshake(0x1c0, 0x080));
    audit(classic.clone(), &signal).assert_clean();
    let cwr = Rule::TcpCwr;
    let wrong = audit(classic.clone(), &counter).violations();
    assert_eq!(wrong, [(4, cwr), (5, cwr), (6, cwr)]);
    audit(accurate, &counter).assert_clean();
    // Without the handshake nobody knows.
    let unknown = Capture::of(counter.clone());
    unknown.assert_clean();
    assert_eq!(unknown.audit().1.rule(cwr).undecided, 3);
    // An answer between them may be a reason to reduce the window again.
    let mut answered = [classic.clone(), counter].concat();
    let mut answer = classic[1].clone();
    answer[47] = 0x50;
    fix(&mut answer);
    for at in [3, 5, 7] {
        answered.insert(at, answer.clone());
    }
    Capture::of(answered).assert_clean();
}

#[test]
fn zero_is_sent_as_ones() {
    let mut frame = Frame::new(Gso::Udp, false, 3000, 1000);
    let mut packets = segments(&frame);
    // A payload that makes the sum come to zero.
    let packet = &mut packets[1];
    packet[40..42].fill(0);
    packet[42..44].fill(0);
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, Protocol::UDP, 1008);
    let rest = pseudo.plus(Sum::of(&packet[34..])).checksum();
    packet[42..44].copy_from_slice(&rest.to_be_bytes());
    assert_eq!(Capture::of(packets.clone()).violations(), [(2, Rule::UdpZero)]);
    packets[1][40..42].fill(0xff);
    Capture::of(packets.clone()).assert_clean();
    // A flow without checksums has none.
    frame.checksum = Checksum::None;
    let without = segments(&frame);
    packets[1][40..42].fill(0);
    packets[0] = without[0].clone();
    packets[2] = without[2].clone();
    Capture::of(packets).assert_clean();
}

#[test]
fn checksums_are_a_must_over_ipv6() {
    let mut packets = segments(&Frame::new(Gso::Udp, true, 3000, 1000));
    packets[2][60..62].fill(0);
    assert_eq!(Capture::of(packets).violations(), [(3, Rule::Udp6Zero)]);
    // Tunnels may go without (RFC 6935).
    let mut frame = Frame::tcp4(3000, 1000);
    (frame.around, frame.outer_v6) = (Around::Vxlan, true);
    Capture::of(segments(&frame)).assert_clean();
}

#[test]
fn tunnels_are_checked_inside_and_outside() {
    for around in [Around::Vxlan, Around::Geneve, Around::Gre, Around::GreEthernet] {
        let mut frame = Frame::tcp4(4000, 1300);
        (frame.around, frame.outer_checksum) = (around, true);
        let packets = segments(&frame);
        Capture::of(packets.clone()).strict().assert_clean();
        let at = packets[1].len() - 1;
        let damaged = |at: usize| {
            let mut packets = packets.clone();
            packets[1][at] ^= 1;
            Capture::of(packets)
        };
        let outer = match around {
            Around::Vxlan | Around::Geneve => Rule::UdpChecksum,
            _ => Rule::GreChecksum,
        };
        assert_eq!(damaged(at).violations(), [(2, Rule::TcpChecksum), (2, outer)], "{around:?}");
        let (findings, _) = damaged(at).audit();
        assert!(findings[0].place.starts_with("in "), "{findings:?}");
        assert_eq!(damaged(22).violations()[0], (2, Rule::Ipv4Checksum), "{around:?}");
    }
}

fn fragments(v6: bool) -> Vec<Vec<u8>> {
    let mut frame = Frame::new(Gso::UdpFragment, v6, 6000, if v6 { 1448 } else { 1480 });
    frame.ip_options = vec![];
    segments(&frame)
}

/// Sets a field and makes the header checksum of IPv4 right.
fn field(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
    if packet[12] == 8 {
        fix_header(packet);
    }
}

#[test]
fn fragments_are_clean_in_any_order() {
    for v6 in [false, true] {
        let mut packets = fragments(v6);
        assert_eq!(packets.len(), 5);
        Capture::of(packets.clone()).strict().assert_clean();
        packets.reverse();
        Capture::of(packets.clone()).strict().assert_clean();
        packets.insert(2, packets[1].clone());
        Capture::of(packets).assert_clean();
    }
}

#[test]
fn fragments_make_a_packet_with_a_checksum() {
    for v6 in [false, true] {
        let mut packets = fragments(v6);
        packets[3][500] ^= 1;
        // The header is in the first.
        assert_eq!(Capture::of(packets).violations(), [(1, Rule::UdpChecksum)]);
        let mut packets = fragments(v6);
        let length = if v6 { 66 } else { 38 };
        field(&mut packets[0], length, 6009);
        assert_eq!(Capture::of(packets).violations(), [(1, Rule::UdpLength)]);
    }
}

#[test]
fn wrong_fragments_are_named() {
    // Place of the field with the offset, its unit, and its flag of more.
    for (v6, at, more) in [(false, 20, 0x2000), (true, 56, 1)] {
        let place = |offset: u16| if v6 { offset } else { offset / 8 };
        let changed = |number: usize, value: u16| {
            let mut packets = fragments(v6);
            field(&mut packets[number - 1], at, value);
            Capture::of(packets)
        };
        let unit = if v6 { 1448 } else { 1480 };
        // The third overlaps the second.
        let overlap = changed(3, place(2 * unit - 8) | more).violations();
        assert_eq!(overlap, [(3, Rule::FragmentOverlap)], "{v6}");
        // The third says that it is the last, before and after more comes.
        let mut packets = changed(3, place(2 * unit)).packets;
        packets.swap(2, 3);
        assert_eq!(Capture::on(packets.clone()).violations(), [(4, Rule::FragmentEnd)]);
        packets.swap(0, 3);
        assert_eq!(Capture::on(packets).violations(), [(3, Rule::FragmentEnd)]);
        // The three make a packet that is too short.
        let short = changed(3, place(2 * unit));
        assert_eq!(short.violations(), [(1, Rule::UdpLength)]);
        // Beyond what an IP packet can hold.
        let oversize = changed(5, place(65_528)).violations();
        assert_eq!(oversize, [(5, Rule::FragmentOversize)]);
        // The last one says that there are more, and has an odd length.
        let mut packets = fragments(v6);
        packets[4].pop();
        let (length, bytes) =
            if v6 { (18, packets[4].len() - 54) } else { (16, packets[4].len() - 14) };
        field(&mut packets[4], length, bytes as u16);
        let value = u16::from_be_bytes([packets[4][at], packets[4][at + 1]]) | more;
        field(&mut packets[4], at, value);
        assert_eq!(Capture::of(packets).violations(), [(5, Rule::FragmentSize)]);
        // One is missing: it may have been lost.
        let mut packets = fragments(v6);
        packets.remove(2);
        let missing = Capture::of(packets);
        missing.assert_clean();
        assert_eq!(missing.notes(), [(1, Rule::FragmentMissing)]);
        let text = missing.audit().0[0].to_string();
        assert!(text.contains(&format!("not bytes {} to {}", 2 * unit, 3 * unit)), "{text}");
        assert_eq!(missing.strict().violations(), [(1, Rule::FragmentMissing)]);
    }
}

#[test]
fn options_that_are_not_copied_are_in_the_first_fragment() {
    let mut frame = Frame::new(Gso::UdpFragment, false, 4000, 1400);
    frame.ip_options = vec![68, 4, 5, 0];
    let mut packets = segments(&frame);
    Capture::of(packets.clone()).assert_clean();
    packets[1][34..38].copy_from_slice(&[68, 4, 5, 0]);
    packets[1][24..26].fill(0);
    let sum = Sum::of(&packets[1][14..38]).checksum();
    packets[1][24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(Capture::of(packets).violations(), [(2, Rule::FragmentOptions)]);
}

#[test]
fn first_fragments_of_ipv6_have_all_headers() {
    let mut packets = fragments(true);
    packets[0].truncate(14 + 40 + 8);
    field(&mut packets[0], 18, 8);
    // No byte at all, and then one that ends within the UDP header is not possible: 8 are the least.
    assert_eq!(Capture::of(packets).violations(), [(1, Rule::FragmentSize)]);
    let mut packets = fragments(true);
    packets[0].truncate(14 + 40 + 8 + 8);
    field(&mut packets[0], 18, 16);
    packets[0][54] = Protocol::TCP.0;
    assert_eq!(Capture::of(packets.clone()).violations(), [(1, Rule::Fragment6Chain)]);
    packets[0][54] = Protocol::DESTINATION_OPTIONS.0;
    packets[0][62..64].copy_from_slice(&[17, 4]);
    assert_eq!(Capture::of(packets).violations(), [(1, Rule::Fragment6Chain)]);
}

#[test]
fn small_and_atomic_fragments_of_ipv6_are_noted() {
    let packets = segments(&Frame::new(Gso::UdpFragment, true, 3000, 1000));
    let small = Rule::Fragment6Small;
    assert_eq!(Capture::of(packets.clone()).notes(), [(1, small), (2, small), (3, small)]);
    // A whole packet with a fragment header.
    let mut frame = Frame::new(Gso::Udp, true, 500, 1000);
    frame.checksum = Checksum::Complete;
    let mut packet = frame.build().0;
    packet.splice(54..54, [17, 0, 0, 0, 1, 2, 3, 4]);
    packet[20] = Protocol::FRAGMENT.0;
    let length = packet.len() as u16 - 54;
    field(&mut packet, 18, length);
    let atomic = Capture::of(vec![packet.clone()]);
    atomic.assert_clean();
    assert_eq!(atomic.notes(), [(1, Rule::Fragment6Atomic)]);
    assert_eq!(atomic.audit().1.rule(Rule::UdpChecksum).checked, 1);
    *packet.last_mut().unwrap() ^= 1;
    assert_eq!(Capture::of(vec![packet]).violations(), [(1, Rule::UdpChecksum)]);
}

#[test]
fn long_frames_are_violations_where_the_mtu_is_known() {
    let mut frame = Frame::tcp4(5000, 1460);
    frame.checksum = Checksum::Complete;
    let long = vec![frame.build().0];
    let mut capture = Capture::of(long.clone());
    capture.assert_clean();
    assert_eq!(capture.notes(), [(1, Rule::SuperFrame)]);
    assert_eq!(Capture::of(long).strict().violations(), [(1, Rule::SuperFrame)]);
    capture.options.mtu = Some(1500);
    assert_eq!(capture.violations(), [(1, Rule::Mtu)]);
    capture.options.mtu = Some(5040);
    capture.assert_clean();
    assert_eq!(capture.audit().1.rule(Rule::Mtu).checked, 1);
}

#[test]
fn what_was_left_to_the_hardware_is_no_violation() {
    for (gso, v6) in [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false), (Gso::Udp, true)] {
        let rule = if gso == Gso::Udp { Rule::UdpChecksum } else { Rule::TcpChecksum };
        for around in [Around::Nothing, Around::Vxlan, Around::Gre] {
            let mut frame = Frame::new(gso, v6, 800, 1000);
            frame.checksum = Checksum::Partial;
            frame.around = around;
            let (mut bytes, _) = frame.build();
            let capture = Capture::of(vec![bytes.clone()]);
            capture.assert_clean();
            let counts = *capture.audit().1.rule(rule);
            assert_eq!((counts.left, counts.checked), (1, 0), "{gso:?} {around:?}");
            assert_eq!(Capture::of(vec![bytes.clone()]).strict().violations(), [(1, rule)]);
            // Damaged after the sum was left: nobody can tell. Another value in the field: a violation.
            let at = bytes.len() - 800 - if gso == Gso::Udp { 2 } else { 4 };
            bytes[at] ^= 0x10;
            assert_eq!(Capture::of(vec![bytes]).violations(), [(1, rule)], "{gso:?} {around:?}");
        }
    }
    let mut packets = tcp4();
    packets[1][24..26].fill(0);
    let (_, summary) = Capture::of(packets.clone()).audit();
    assert_eq!(summary.rule(Rule::Ipv4Checksum).left, 1);
    assert_eq!(Capture::of(packets).strict().violations(), [(2, Rule::Ipv4Checksum)]);
}

#[test]
fn outer_checksums_count_on_what_the_hardware_does_inside() {
    // Local checksum offload: the outer one is right once the inner one is.
    let mut frame = Frame::tcp4(1600, 800);
    (frame.around, frame.outer_checksum) = (Around::Vxlan, true);
    let mut packet = segments(&frame).remove(0);
    let at = packet.len() - 800 - 4;
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, Protocol::TCP, 820).partial();
    packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let capture = Capture::of(vec![packet.clone()]);
    capture.assert_clean();
    assert_eq!(capture.audit().1.rule(Rule::UdpChecksum).checked, 1);
    // Whatever the segment holds, the outer sum is the same: only what is before it can be wrong.
    packet[at - 12] ^= 1;
    Capture::of(vec![packet.clone()]).assert_clean();
    packet[at - 16 - 20 - 14] ^= 2;
    assert_eq!(Capture::of(vec![packet]).violations(), [(1, Rule::UdpChecksum)]);
}

#[test]
fn what_is_cut_off_is_counted() {
    let mut capture = Capture::of([tcp4(), segments(&Frame::tcp6(3000, 1400))].concat());
    let rules = |capture: &Capture, rule: Rule| {
        let counts = *capture.audit().1.rule(rule);
        (counts.checked, counts.cut)
    };
    capture.snaplen = 96;
    capture.assert_clean();
    assert_eq!(rules(&capture, Rule::TcpChecksum), (0, 7));
    assert_eq!(rules(&capture, Rule::Ipv4Checksum), (4, 0));
    capture.snaplen = 40;
    assert_eq!(rules(&capture, Rule::TcpHeader), (0, 4));
    assert_eq!(rules(&capture, Rule::Ipv6Header), (0, 3));
    assert_eq!(capture.audit().1.cut, 7);
    for snaplen in 0..120 {
        capture.snaplen = snaplen;
        capture.assert_clean();
    }
}

/// A super-frame on one interface, and what came of it on another.
fn both_sides(frame: &Frame) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    (bytes, packets)
}

fn seen(long: &[u8], packets: &[Vec<u8>]) -> Capture {
    let packets = packets.iter().map(|packet| (7, packet.clone()));
    Capture::on([(3, long.to_vec())].into_iter().chain(packets).collect())
}

fn burst() -> Frame {
    let mut frame = Frame::tcp4(5000, 1400);
    frame.flags = TcpFlags::ACK.with(TcpFlags::PSH).with(TcpFlags::CWR).with(TcpFlags::URG);
    frame.urgent = 2000;
    frame.tcp_options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    frame
}

#[test]
fn segments_of_a_super_frame_are_clean() {
    let (long, packets) = both_sides(&burst());
    let capture = seen(&long, &packets);
    capture.assert_clean();
    let (_, summary) = capture.audit();
    for rule in [Rule::SegmentSequence, Rule::SegmentFlags, Rule::SegmentOptions] {
        assert_eq!(summary.rule(rule).checked, 4, "{rule}");
    }
    assert_eq!(summary.rule(Rule::SegmentUrgent).checked, 2);
    // Nothing is known of segments alone, or where the super-frame came later (GRO).
    let mut later: Vec<_> = packets.iter().map(|packet| (7, packet.clone())).collect();
    later.push((3, long));
    let (_, summary) = Capture::on(later).audit();
    assert_eq!(summary.rule(Rule::SegmentSequence).checked, 0);
}

#[test]
fn wrong_segments_of_a_super_frame_are_named() {
    let (long, good) = both_sides(&burst());
    let changed = |number: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut packets = good.clone();
        change(&mut packets[number - 1]);
        fix(&mut packets[number - 1]);
        seen(&long, &packets).violations()
    };
    // PSH and FIN; ECE, which it has not. The super-frame is packet 1.
    assert_eq!(changed(2, &|packet| packet[47] |= 0x08), [(3, Rule::SegmentFlags)]);
    assert_eq!(changed(4, &|packet| packet[47] &= !0x08), [(5, Rule::SegmentFlags)]);
    assert_eq!(changed(1, &|packet| packet[47] |= 0x40), [(2, Rule::SegmentFlags)]);
    // The urgent pointer as it was, and the flag where nothing urgent follows.
    let same = changed(2, &|packet| packet[52..54].copy_from_slice(&2000_u16.to_be_bytes()));
    assert_eq!(same, [(3, Rule::SegmentUrgent)]);
    assert_eq!(changed(3, &|packet| packet[47] |= 0x20), [(4, Rule::SegmentFlags)]);
    // Options that are another time.
    assert_eq!(changed(2, &|packet| packet[61] ^= 1), [(3, Rule::SegmentOptions)]);
    // Sequence numbers off by one.
    let sequence = |packet: &mut Vec<u8>| {
        let number = u32::from_be_bytes(packet[38..42].try_into().unwrap()).wrapping_add(1);
        packet[38..42].copy_from_slice(&number.to_be_bytes());
    };
    assert_eq!(changed(2, &sequence)[0], (3, Rule::SegmentSequence));
    // Sizes: the second is cut short, so that the third does not follow it, either.
    let short = |packet: &mut Vec<u8>| {
        let length = packet.len() - 100;
        packet.truncate(length);
        packet[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    };
    let violations = changed(2, &short);
    assert_eq!(violations[0], (3, Rule::SegmentSize));
}

#[test]
fn cwr_of_a_super_frame_is_known_by_the_handshake() {
    let mut frame = Frame::tcp4(5000, 1400);
    frame.flags = TcpFlags::ACK.with(TcpFlags::CWR);
    let (long, good) = both_sides(&frame);
    let mut all = good.clone();
    for packet in &mut all {
        packet[47] |= 0x80;
        fix(packet);
    }
    let audit = |handshake: Vec<Vec<u8>>, packets: &[Vec<u8>]| {
        let mut capture = seen(&long, packets);
        let first = handshake.into_iter().flat_map(|packet| [(3, packet.clone()), (7, packet)]);
        capture.packets.splice(0..0, first);
        capture
    };
    let (classic, accurate) = (handshake(0xc0, 0x40), handshake(0x1c0, 0x080));
    audit(classic.clone(), &good).assert_clean();
    audit(accurate.clone(), &all).assert_clean();
    assert!(audit(classic, &all).violations().contains(&(7, Rule::SegmentCwr)));
    assert_eq!(audit(accurate, &good).violations()[0], (7, Rule::SegmentCwr));
    audit(vec![], &good).assert_clean();
    audit(vec![], &all).assert_clean();
}

#[test]
fn losses_and_retransmissions_are_no_violations() {
    let frame = burst();
    let (long, packets) = both_sides(&frame);
    let mut lost = packets.clone();
    lost.remove(1);
    let capture = seen(&long, &lost);
    capture.assert_clean();
    assert_eq!(capture.notes(), [(1, Rule::SuperFrame), (3, Rule::SegmentMissing)]);
    let mut twice = packets.clone();
    twice.insert(2, packets[1].clone());
    seen(&long, &twice).assert_clean();
    // Sent again by the stack, cut elsewhere and with other flags.
    let mut again = frame.clone();
    again.payload = frame.payload[700..2100].to_vec();
    again.sequence = frame.sequence.wrapping_add(700);
    (again.checksum, again.id) = (Checksum::Complete, 77);
    again.flags = TcpFlags::ACK.with(TcpFlags::PSH);
    let again = again.build().0;
    let mut capture = seen(&long, &packets[..2]);
    capture.packets.extend([(3, again.clone()), (7, again)]);
    capture.assert_clean();
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_is_counted() {
    let mut packets = Vec::new();
    for id in 0..300 {
        let mut frame = Frame::new(Gso::UdpFragment, false, 3000, 1480);
        (frame.id, frame.port) = (id, id);
        packets.push(segments(&frame).remove(0));
    }
    let mut capture = Capture::of(packets);
    (capture.options.fragments, capture.options.flows) = (20, 20);
    let (findings, summary) = capture.audit();
    assert!(summary.evicted_fragments >= 280, "{summary:?}");
    let missing = |it: &&Finding| it.rule == Rule::FragmentMissing;
    assert_eq!(findings.iter().filter(missing).count(), 300);
}

#[test]
fn links_of_every_kind_lead_to_the_packet() {
    let packets = tcp4();
    let ip = &packets[0][14..];
    let cooked = [&[0_u8; 14][..], &[8, 0], ip].concat();
    let cooked2 = [&[8_u8, 0][..], &[0; 18], ip].concat();
    let null = [&[2_u8, 0, 0, 0][..], ip].concat();
    for (link_type, data) in
        [(101, ip.to_vec()), (228, ip.to_vec()), (113, cooked), (276, cooked2), (0, null)]
    {
        let mut auditor = Auditor::new(Options::default());
        let (interface, timestamp, original_len) = (0, 0, data.len() as u32);
        let packet = Packet { interface, link_type, timestamp, original_len, data: &data };
        auditor.packet(&packet, &mut |finding| panic!("{link_type}: {finding}"));
        assert_eq!(auditor.summary().rule(Rule::TcpChecksum).checked, 1, "{link_type}");
    }
    let mut auditor = Auditor::new(Options::default());
    let packet = Packet { interface: 0, link_type: 147, timestamp: 0, original_len: 9, data: ip };
    auditor.packet(&packet, &mut |finding| panic!("{finding}"));
    assert_eq!(auditor.summary().unknown_link, 1);
}

/// Several frames of one random kind each, cut, and seen on both sides.
fn random_capture(seed: u64) -> Capture {
    let mut random = Random(seed);
    let mut packets = Vec::new();
    for index in 0..1 + random.below(4) {
        let mut frame = random_frame(&mut random);
        frame.payload.truncate(30_000);
        frame.port = 3000 + index as u16;
        frame.id = 1000 * index as u16;
        if frame.gso != Gso::UdpFragment && frame.ip_options.is_empty() {
            frame.mss = frame.mss.min(1200);
            frame.around =
                random.of(&[Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre]);
            frame.outer_v6 = random.chance(2);
            frame.outer_checksum = random.chance(2);
        }
        let (bytes, offload) = frame.build();
        // The checksum outside of a super-frame is made up.
        if frame.around == Around::Nothing || !frame.outer_checksum {
            packets.push((0, bytes.clone()));
        }
        packets.extend(cut(&bytes, &offload).into_iter().map(|packet| (1, packet)));
    }
    Capture::on(packets)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the segmenter makes of any super-frame is right.
    #[test]
    fn what_the_segmenter_makes_is_clean(seed: u64) {
        let capture = random_capture(seed);
        let (findings, summary) = capture.audit();
        let bad: Vec<_> = findings.iter().filter(|it| it.kind == Kind::Violation).collect();
        prop_assert!(bad.is_empty(), "{seed}: {bad:#?}");
        prop_assert_eq!(summary.packets, capture.packets.len() as u64);
    }

    /// Bytes of the wire that are changed: it does not panic, and a changed payload is noticed.
    #[test]
    fn damaged_packets_are_harmless(seed: u64, flips in proptest::collection::vec((any::<u16>(), any::<u16>(), 0..8_u8), 1..20), snaplen in 0..2000_usize) {
        let mut capture = random_capture(seed);
        capture.options.strict = true;
        for (index, at, bit) in flips {
            let index = usize::from(index) % capture.packets.len();
            let packet = &mut capture.packets[index].1;
            let at = usize::from(at) % packet.len().min(200);
            packet[at] ^= 1 << bit;
        }
        capture.audit();
        capture.snaplen = snaplen;
        let (_, summary) = capture.audit();
        prop_assert_eq!(summary.packets, capture.packets.len() as u64);
    }

    #[test]
    fn arbitrary_bytes_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        audit::run(&bytes);
    }

    #[test]
    fn what_is_said_of_damaged_packets_adds_up(seed: u64, flips in proptest::collection::vec(any::<(u16, u8)>(), 1..40)) {
        let mut capture = random_capture(seed);
        capture.packets.truncate(30);
        let mut bytes = audit::input([seed as u8 & 2, 94, 16, 16], &capture.packets);
        for (at, with) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= with;
        }
        audit::run(&bytes);
    }
}

#[test]
fn a_sink_that_cuts_again_gets_what_is_right() {
    use wirelane::segment::{Sink, SinkGso};
    let gso = SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false };
    let sink = Sink { mtu: 1500, checksum: true, gso_max: Some(16_000), gso };
    let (bytes, offload) = Frame::tcp4(50_000, 1400).build();
    let larger = cut_for(sink, &bytes, &offload).into_iter().map(|(packet, _)| packet);
    seen(&bytes, &larger.collect::<Vec<_>>()).assert_clean();
    // Tags do not matter.
    let mut frame = Frame::tcp6(5000, 1400);
    frame.tags = vec![EtherType::QINQ, EtherType::VLAN];
    let (long, packets) = both_sides(&frame);
    seen(&long, &packets).assert_clean();
}

/// Run by hand to make the seeds of the fuzzer anew.
#[test]
#[ignore = "writes files"]
fn write_seeds() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/verify");
    std::fs::create_dir_all(directory).unwrap();
    let write = |name: &str, capture: Capture| {
        let bytes = audit::input([0, 94, 16, 16], &capture.packets);
        std::fs::write(format!("{directory}/{name}"), bytes).unwrap();
    };
    let small = |mut frame: Frame| {
        frame.payload.truncate(700);
        frame.mss = 256;
        frame
    };
    let (long, packets) = both_sides(&Frame { mss: 1000, ..burst() });
    write("burst", seen(&long, &packets[..3]));
    write("tcp6", Capture::of(segments(&small(Frame::tcp6(700, 256)))));
    write("udp4", Capture::of(segments(&small(Frame::new(Gso::Udp, false, 700, 256)))));
    for (name, around) in
        [("vxlan", Around::Vxlan), ("geneve", Around::Geneve), ("gre", Around::Gre)]
    {
        let mut frame = small(Frame::tcp4(700, 256));
        (frame.around, frame.outer_checksum) = (around, true);
        write(name, Capture::of(segments(&frame)));
    }
    for (name, v6) in [("frag4", false), ("frag6", true)] {
        write(name, Capture::of(segments(&small(Frame::new(Gso::UdpFragment, v6, 700, 256)))));
    }
    write("handshake", Capture::of(handshake(0xc0, 0x40)));
}
