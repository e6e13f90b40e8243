//! The auditor reports every deliberate violation with its packet and rule. It reports nothing for
//! correct packets.

use wirelane::frame::{Gso, Offload};
use wirelane_verify::{Auditor, Finding, Options, Packet, Rule, Severity, Summary};
use wirelane_wire::checksum::{Sum, pseudo_v4};
use wirelane_wire::{EtherType, Protocol, TcpFlags};

use super::frames::{Around, Checksum, DESTINATION_V4, Frame, SOURCE_V4, cut, cut_for};

mod bursts;
mod flows;
mod fragments;
mod hostile;

/// Packets captured on interfaces.
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

    /// The packet number and the rule of every violation.
    fn violations(&self) -> Vec<(u64, Rule)> {
        self.of_severity(Severity::Violation)
    }

    fn notes(&self) -> Vec<(u64, Rule)> {
        self.of_severity(Severity::Note)
    }

    fn of_severity(&self, severity: Severity) -> Vec<(u64, Rule)> {
        let (findings, summary) = self.audit();
        let of = |kind| findings.iter().filter(move |it| it.severity == kind);
        assert_eq!(summary.violations(), of(Severity::Violation).count() as u64);
        assert_eq!(summary.notes(), of(Severity::Note).count() as u64);
        of(severity).map(|it| (it.packet, it.rule)).collect()
    }

    #[track_caller]
    fn assert_clean(&self) {
        let (findings, _) = self.audit();
        let bad: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Violation).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

fn segments(frame: &Frame) -> Vec<Vec<u8>> {
    let (bytes, offload) = frame.build();
    cut(&bytes, &offload)
}

/// Three full segments and a shorter one.
fn tcp4() -> Vec<Vec<u8>> {
    segments(&Frame::tcp4(5000, 1460))
}

/// Updates the checksums of an untagged IPv4 packet without options.
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

/// The segments with a change in packet `number` (from 1), and valid checksums.
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
    // The packets have no DF flag, so each is compared with the previous one.
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
    // A total length one byte above the frame is a violation. One byte below, the last byte is a
    // trailer, and the checksum is wrong.
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
    // The frame ends within the TCP header, and its total length agrees.
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
    // Bytes after the datagram may be options (RFC 9868). The checksum covers only the datagram.
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
fn checksums_are_a_must_over_ipv6() {
    let mut packets = segments(&Frame::new(Gso::Udp, true, 3000, 1000));
    packets[2][60..62].fill(0);
    assert_eq!(Capture::of(packets).violations(), [(3, Rule::Udp6Zero)]);
    // Tunnels may omit the checksum (RFC 6935).
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
            // Damage to the data cannot be detected. A different value in the checksum field is a
            // violation.
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
    // Local checksum offload: the outer checksum is correct once the inner one is completed.
    let mut frame = Frame::tcp4(1600, 800);
    (frame.around, frame.outer_checksum) = (Around::Vxlan, true);
    let mut packet = segments(&frame).remove(0);
    let at = packet.len() - 800 - 4;
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, Protocol::TCP, 820).partial();
    packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let capture = Capture::of(vec![packet.clone()]);
    capture.assert_clean();
    assert_eq!(capture.audit().1.rule(Rule::UdpChecksum).checked, 1);
    // The outer sum does not depend on the contents of the inner segment; only a change before the
    // segment makes it wrong.
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

/// Hardware that merges segments (LRO) may leave any checksum.
#[test]
fn wrong_checksums_of_super_frames_are_left_undecided() {
    let mut frame = Frame::tcp4(5000, 1460);
    frame.checksum = Checksum::Complete;
    let mut long = frame.build().0;
    *long.last_mut().unwrap() ^= 1;
    let mut capture = Capture::of(vec![long]);
    capture.assert_clean();
    assert_eq!(capture.audit().1.rule(Rule::TcpChecksum).left, 1);
    // With a large MTU it is an ordinary packet.
    capture.options.mtu = Some(9000);
    assert_eq!(capture.violations(), [(1, Rule::TcpChecksum)]);
    capture.options.mtu = None;
    let checksum = (1, Rule::TcpChecksum);
    assert!(capture.strict().violations().contains(&checksum));
}

/// RFC 1122 section 4.2.3.8: the pseudo-header contains the last address of a source route.
#[test]
fn source_routes_hide_the_receiver() {
    let mut frame = Frame::tcp4(3000, 1400);
    frame.ip_options = vec![1, 131, 7, 4, 192, 0, 2, 9];
    let mut packets = segments(&frame);
    packets[0][1000] ^= 1;
    let capture = Capture::of(packets);
    capture.assert_clean();
    assert_eq!(capture.audit().1.rule(Rule::TcpChecksum).undecided, 3);
}
