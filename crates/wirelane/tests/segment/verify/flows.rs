//! Rules between packets of a flow.

use super::*;

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
    // An identical packet is a duplicate that the network made.
    let packets = tcp4();
    Capture::of(vec![packets[0].clone(), packets[0].clone(), packets[1].clone()]).assert_clean();
}

#[test]
fn nothing_is_behind_fin() {
    let mut frame = Frame::tcp4(5000, 1460);
    frame.flags = TcpFlags::ACK.with(TcpFlags::FIN).with(TcpFlags::PSH);
    Capture::of(segments(&frame)).assert_clean();
    let mut packets = segments(&frame);
    // As if the flags were copied to all segments.
    for packet in &mut packets[..3] {
        packet[47] |= 0x01;
        fix(packet);
    }
    let fin = Rule::TcpFin;
    assert_eq!(Capture::of(packets).violations(), [(1, fin), (2, fin), (3, fin)]);
    // A retransmission of a lost segment.
    let mut again = segments(&frame);
    again.push(again[1].clone());
    Capture::of(again).assert_clean();
}

/// SYN and SYN/ACK with these additional flags, for the connection of [`Frame`].
pub(super) fn handshake(syn: u16, answer: u16) -> Vec<Vec<u8>> {
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
    // Without the handshake this cannot be decided.
    let unknown = Capture::of(counter.clone());
    unknown.assert_clean();
    assert_eq!(unknown.audit().1.rule(cwr).undecided, 3);
    // A packet in the other direction may be a reason to reduce the window again.
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
    // A payload for which the checksum is zero.
    let packet = &mut packets[1];
    packet[40..42].fill(0);
    packet[42..44].fill(0);
    let pseudo = pseudo_v4(SOURCE_V4, DESTINATION_V4, Protocol::UDP, 1008);
    let rest = pseudo.plus(Sum::of(&packet[34..])).checksum();
    packet[42..44].copy_from_slice(&rest.to_be_bytes());
    assert_eq!(Capture::of(packets.clone()).violations(), [(2, Rule::UdpZero)]);
    packets[1][40..42].fill(0xff);
    Capture::of(packets.clone()).assert_clean();
    // A flow without checksums has no violation.
    frame.checksum = Checksum::None;
    let without = segments(&frame);
    packets[1][40..42].fill(0);
    packets[0] = without[0].clone();
    packets[2] = without[2].clone();
    Capture::of(packets).assert_clean();
}
