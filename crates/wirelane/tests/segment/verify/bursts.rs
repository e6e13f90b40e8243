//! Compares segments with the super-frames from which they were made.

use super::flows::handshake;
use super::*;

/// A super-frame as on one interface, and its segments as on another.
pub(super) fn both_sides(frame: &Frame) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    (bytes, packets)
}

pub(super) fn seen(long: &[u8], packets: &[Vec<u8>]) -> Capture {
    let packets = packets.iter().map(|packet| (7, packet.clone()));
    Capture::on([(3, long.to_vec())].into_iter().chain(packets).collect())
}

pub(super) fn burst() -> Frame {
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
    // Nothing can be checked without the super-frame, or if it follows the segments (GRO).
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
    // PSH before the last segment, a missing PSH on the last, and ECE, which the super-frame does
    // not have. The super-frame is packet 1.
    assert_eq!(changed(2, &|packet| packet[47] |= 0x08), [(3, Rule::SegmentFlags)]);
    assert_eq!(changed(4, &|packet| packet[47] &= !0x08), [(5, Rule::SegmentFlags)]);
    assert_eq!(changed(1, &|packet| packet[47] |= 0x40), [(2, Rule::SegmentFlags)]);
    // An unchanged urgent pointer, and the flag in a segment without urgent data.
    let same = changed(2, &|packet| packet[52..54].copy_from_slice(&2000_u16.to_be_bytes()));
    assert_eq!(same, [(3, Rule::SegmentUrgent)]);
    assert_eq!(changed(3, &|packet| packet[47] |= 0x20), [(4, Rule::SegmentFlags)]);
    // Options with a different timestamp.
    assert_eq!(changed(2, &|packet| packet[61] ^= 1), [(3, Rule::SegmentOptions)]);
    // Sequence numbers off by one.
    let sequence = |packet: &mut Vec<u8>| {
        let number = u32::from_be_bytes(packet[38..42].try_into().unwrap()).wrapping_add(1);
        packet[38..42].copy_from_slice(&number.to_be_bytes());
    };
    assert_eq!(changed(2, &sequence)[0], (3, Rule::SegmentSequence));
    // Sizes: the second segment is shortened, so that the third does not follow it, either.
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
    // A retransmission of the stack with different boundaries and flags.
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
