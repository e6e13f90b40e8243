//! Fragments and the packets reassembled from them.

use super::*;

fn fragments(v6: bool) -> Vec<Vec<u8>> {
    let mut frame = Frame::new(Gso::UdpFragment, v6, 6000, if v6 { 1448 } else { 1480 });
    frame.ip_options = vec![];
    segments(&frame)
}

/// Sets a field and updates the header checksum of IPv4.
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
        // The header is in the first fragment.
        assert_eq!(Capture::of(packets).violations(), [(1, Rule::UdpChecksum)]);
        let mut packets = fragments(v6);
        let length = if v6 { 66 } else { 38 };
        field(&mut packets[0], length, 6009);
        assert_eq!(Capture::of(packets).violations(), [(1, Rule::UdpLength)]);
    }
}

#[test]
fn wrong_fragments_are_named() {
    // The position of the offset field and its flag for more fragments.
    for (v6, at, more) in [(false, 20, 0x2000), (true, 56, 1)] {
        let place = |offset: u16| if v6 { offset } else { offset / 8 };
        let changed = |number: usize, value: u16| {
            let mut packets = fragments(v6);
            field(&mut packets[number - 1], at, value);
            Capture::of(packets)
        };
        let unit = if v6 { 1448 } else { 1480 };
        // The third fragment overlaps the second.
        let overlap = changed(3, place(2 * unit - 8) | more).violations();
        assert_eq!(overlap, [(3, Rule::FragmentOverlap)], "{v6}");
        // The third fragment claims to be the last, after a later one and before it.
        let mut packets = changed(3, place(2 * unit)).packets;
        packets.swap(2, 3);
        assert_eq!(Capture::on(packets.clone()).violations(), [(4, Rule::FragmentEnd)]);
        packets.swap(0, 3);
        assert_eq!(Capture::on(packets).violations(), [(3, Rule::FragmentEnd)]);
        // The three fragments make a packet that is too short.
        let short = changed(3, place(2 * unit));
        assert_eq!(short.violations(), [(1, Rule::UdpLength)]);
        // A fragment beyond the maximum length of an IP packet.
        let oversize = changed(5, place(65_528)).violations();
        assert_eq!(oversize, [(5, Rule::FragmentOversize)]);
        // The last fragment claims that more follow, and has an odd length.
        let mut packets = fragments(v6);
        packets[4].pop();
        let (length, bytes) =
            if v6 { (18, packets[4].len() - 54) } else { (16, packets[4].len() - 14) };
        field(&mut packets[4], length, bytes as u16);
        let value = u16::from_be_bytes([packets[4][at], packets[4][at + 1]]) | more;
        field(&mut packets[4], at, value);
        assert_eq!(Capture::of(packets).violations(), [(5, Rule::FragmentSize)]);
        // One fragment is missing; it may have been lost.
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
    // A first fragment without payload. A fragment cannot end within the UDP header: its payload
    // has at least 8 bytes.
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
