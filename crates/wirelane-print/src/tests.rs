//! Tests of whole lines, and of arbitrary bytes.

use proptest::prelude::*;

use super::*;

const LINK_TYPES: [u16; 11] = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276, 127];

fn lines(style: Style, link_type: u16, packets: &[&[u8]]) -> String {
    let mut printer = Printer::new(style);
    let mut text = String::new();
    for data in packets {
        let packet = Packet {
            timestamp: 0,
            place: "",
            link_type,
            original_len: data.len() as u32,
            data,
            comment: None,
        };
        printer.print(&packet, &mut text);
    }
    text
}

fn without_time() -> Style {
    Style { time: Time::None, ..Style::default() }
}

/// A TCP segment over IPv4 without options.
fn tcp(
    source: (u8, u16),
    destination: (u8, u16),
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let total = 40 + payload.len() as u8;
    let mut bytes = vec![0x45, 0, 0, total, 0, 1, 0x40, 0, 64, 6, 0, 0];
    bytes.extend([10, 0, 0, source.0, 10, 0, 0, destination.0]);
    bytes.extend(source.1.to_be_bytes());
    bytes.extend(destination.1.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgment.to_be_bytes());
    bytes.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

#[test]
fn sequence_numbers_are_relative_once_the_start_is_known() {
    let (client, server) = ((1, 1234), (2, 80));
    let text = lines(
        without_time(),
        101,
        &[
            &tcp(client, server, 999, 0, 0x02, b""),
            &tcp(server, client, 5000, 1000, 0x12, b""),
            &tcp(client, server, 1000, 5001, 0x10, b""),
            &tcp(client, server, 1000, 5001, 0x18, b"GET / HTTP/1.1\r\n\r\n"),
        ],
    );
    assert_eq!(
        text,
        "IP 10.0.0.1.1234 > 10.0.0.2.80: Flags [S], seq 999, win 256, length 0\n\
         IP 10.0.0.2.80 > 10.0.0.1.1234: Flags [S.], seq 5000, ack 1000, win 256, length 0\n\
         IP 10.0.0.1.1234 > 10.0.0.2.80: Flags [.], ack 1, win 256, length 0\n\
         IP 10.0.0.1.1234 > 10.0.0.2.80: Flags [P.], seq 1:19, ack 1, win 256, length 18: HTTP: GET / HTTP/1.1\n"
    );
}

#[test]
fn packets_may_be_numbered_and_sequence_numbers_as_they_are() {
    let (client, server) = ((1, 1234), (2, 80));
    let packets =
        [tcp(client, server, 1000, 5001, 0x18, b"x"), tcp(server, client, 5001, 1001, 0x10, b"")];
    let packets: Vec<_> = packets.iter().cycle().take(2000).map(Vec::as_slice).collect();
    let style = Style { numbered: true, absolute: true, ..without_time() };
    let text = lines(style, 101, &packets);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "    1  IP 10.0.0.1.1234 > 10.0.0.2.80: Flags [P.], seq 1000:1001, ack 5001, win 256, length 1"
    );
    assert_eq!(
        lines[1999],
        " 2000  IP 10.0.0.2.80 > 10.0.0.1.1234: Flags [.], ack 1001, win 256, length 0"
    );
}

#[test]
fn what_a_snap_length_took_away_is_told() {
    let whole = tcp((1, 1), (2, 2), 1, 1, 0x10, b"");
    let cut = |len: usize| {
        let mut text = String::new();
        let data = &whole[..len];
        let packet = Packet {
            timestamp: 0,
            place: "eth0 rx2",
            link_type: 101,
            original_len: 40,
            data,
            comment: None,
        };
        Printer::new(without_time()).print(&packet, &mut text);
        text
    };
    assert_eq!(cut(10), "eth0 rx2 IP  [|ip]\n");
    assert_eq!(cut(22), "eth0 rx2 IP 10.0.0.1 > 10.0.0.2:  [|tcp]\n");
    assert_eq!(cut(30), "eth0 rx2 IP 10.0.0.1.1 > 10.0.0.2.2:  [|tcp]\n");
}

#[test]
fn times_are_those_of_the_style() {
    let text = |time, precision| {
        let mut printer = Printer::new(Style { time, precision, ..Style::default() });
        let mut text = String::new();
        for timestamp in
            [1_700_000_000_123_456_789, 1_700_000_001_123_456_789, 1_700_000_000_000_000_000]
        {
            let packet = Packet {
                timestamp,
                place: "",
                link_type: 147,
                original_len: 0,
                data: &[],
                comment: None,
            };
            printer.print(&packet, &mut text);
        }
        text.replace("link-type 147, length 0", "")
    };
    assert_eq!(
        text(Time::Epoch, Precision::Nano),
        "1700000000.123456789 \n1700000001.123456789 \n1700000000.000000000 \n"
    );
    assert_eq!(
        text(Time::Relative, Precision::Micro),
        " 00:00:00.000000 \n 00:00:01.000000 \n-00:00:00.123456 \n"
    );
    assert_eq!(
        text(Time::Delta, Precision::Micro),
        " 00:00:00.000000 \n 00:00:01.000000 \n-00:00:01.123456 \n"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_printed_and_end_with_a_line_feed(
        data in prop::collection::vec(any::<u8>(), 0..200),
        link_type in prop::sample::select(LINK_TYPES.to_vec()),
        starts in prop::sample::select(vec![vec![], vec![0x45, 0], vec![0x60], vec![0; 12]]),
        kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8100, 0x8847, 0x8864, 0x6558]),
        verbose in 0u8..3,
        link: bool,
        original_len: u32,
    ) {
        let mut bytes = starts;
        if bytes.len() == 12 {
            bytes.extend(kind.to_be_bytes());
        }
        bytes.extend(&data);
        let style = Style { link, verbose, dump: Dump::Both { link: false }, ..Style::default() };
        let packet = Packet { timestamp: 1, place: "p", link_type, original_len, data: &bytes, comment: Some("c") };
        let mut text = String::new();
        Printer::new(style).print(&packet, &mut text);
        prop_assert!(text.ends_with('\n'));
        prop_assert!(text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')));
    }
}
