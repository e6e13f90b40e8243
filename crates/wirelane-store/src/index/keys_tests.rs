use super::*;

fn of(data: &[u8]) -> Vec<(Field, u128)> {
    let mut all = Vec::new();
    keys(1, data, |field, value| all.push((field, value)));
    all.retain(|(field, _)| *field != Field::Flow);
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn udp_in_two_tags() {
    let mut frame = vec![0; 12];
    frame.extend([0x88, 0xA8, 0xF0, 5, 0x81, 0, 0, 6, 8, 0]);
    frame.extend([0x46, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 0, 0, 0, 0, 53, 0x10, 0]);
    let expected = [
        (Field::EtherType, 0x800),
        (Field::EtherType, 0x8100),
        (Field::EtherType, 0x88A8),
        (Field::Vlan, 5),
        (Field::Vlan, 6),
        (Field::Protocol, 17),
        (Field::Ipv4, 0x0A00_0001),
        (Field::Ipv4, 0x0A00_0002),
        (Field::Port, 53),
        (Field::Port, 0x1000),
    ];
    assert_eq!(of(&frame), expected);
    // A later fragment has no ports.
    frame[29] = 1;
    assert_eq!(of(&frame), expected[..8]);
}

#[test]
fn a_cut_address_has_zeros() {
    let mut frame = [0xFF; 54];
    frame[12..14].copy_from_slice(&[0x86, 0xDD]);
    frame[20] = 44;
    let address = |len: usize| {
        of(&frame[..len]).iter().filter(|it| it.0 == Field::Ipv6).map(|it| it.1).collect::<Vec<_>>()
    };
    assert_eq!(address(25), []);
    assert_eq!(address(26), [0xFFFF_FFFF << 96]);
    assert_eq!(address(41), [u128::MAX]);
    assert_eq!(address(46), [u128::MAX << 64, u128::MAX]);
}
