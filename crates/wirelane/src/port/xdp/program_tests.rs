//! Which packets a socket gets, by test runs; and programs on real interfaces.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wirelane_os::privilege::{self, Capability, Set};
use wirelane_testkit::{packets, privileged};

use super::*;
use crate::frame;

/// Programs are tried on queue 0 of `lo`, for which there is a socket.
struct Trial {
    program: Program,
    _sockets: Map,
    _socket: OwnedFd,
}

impl Trial {
    fn new(plan: &Verdicts) -> Trial {
        Self::reading(FieldReading::default(), plan)
    }

    /// As kernels before 5.18 load it.
    fn of_old(plan: &Verdicts) -> Trial {
        Self::reading(FieldReading::Pointer, plan)
    }

    fn reading(reading: FieldReading, plan: &Verdicts) -> Trial {
        let sockets = Map::create(MapKind::Xsk, "sockets", 4, 1).unwrap();
        let socket = xdp_socket();
        sockets.set_socket(0, socket.as_fd()).unwrap();
        let recipe = ProgramProperties { reading, ..ProgramProperties::default() };
        let program = load("trial", &sockets, plan, recipe).unwrap();
        Trial { program, _sockets: sockets, _socket: socket }
    }

    /// Whether the socket gets the frame.
    fn takes(&self, frame: &[u8]) -> bool {
        let outcome = self.program.test_run(frame, None, 1).unwrap();
        assert_eq!(outcome.output, frame, "the packet was changed");
        match outcome.result {
            result if result == XdpAction::Redirect as u32 => true,
            result if result == XdpAction::Pass as u32 => false,
            result => panic!("result {result} for {frame:02x?}"),
        }
    }
}

fn xdp_socket() -> OwnedFd {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap()
}

fn management() -> Verdicts {
    Verdicts { keep_management: true, filter: None }
}

/// Accepts IPv6, as `tcpdump -ddd ip6` writes it.
fn ip6_only() -> Arc<filter::Program> {
    let text = "4\n40 0 0 12\n21 0 1 34525\n6 0 0 262144\n6 0 0 0\n";
    Arc::new(filter::Program::parse(1, text).unwrap())
}

/// Tags as pairs of EtherType and id, then the EtherType, then the payload.
fn ethernet(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in tags {
        frame.extend([tag.to_be_bytes(), 5_u16.to_be_bytes()].concat());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `words` of options, and the flags and offset of the third half-word.
fn ipv4(protocol: u8, words: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0_u8; 20 + usize::from(words) * 4];
    packet[0] = 0x45 + words;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[20..].fill(1); // no operation
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet.extend([7; 32]);
    packet.extend(payload);
    packet
}

/// An extension header of 8 × (1 + `beyond`) bytes in front of `payload`.
fn extension(next: u8, beyond: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 8 * (1 + usize::from(beyond))];
    packet[..2].copy_from_slice(&[next, beyond]);
    packet.extend(payload);
    packet
}

/// A fragment header with this offset and flag.
fn fragment(next: u8, offset: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = offset.to_be_bytes();
    [&[next, 0xff, high, low, 1, 2, 3, 4], payload].concat()
}

/// The beginning of a TCP or UDP header.
fn ports(source: u16, destination: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0; 16]].concat()
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const V4: u16 = 0x0800;
const V6: u16 = 0x86dd;

/// Packets for the host, with any tags.
fn kept() -> Vec<(String, u16, Vec<u8>)> {
    let mut cases = vec![("ARP".to_owned(), 0x0806, vec![0; 28])];
    let mut add = |name: String, ethertype, packet| cases.push((name, ethertype, packet));
    for (protocol, port) in
        [(TCP, 22), (TCP, 53), (UDP, 53), (UDP, 67), (UDP, 68), (UDP, 546), (UDP, 547)]
    {
        for ports in [ports(port, 40_000), ports(40_000, port)] {
            add(format!("IPv4 {protocol} {port}"), V4, ipv4(protocol, 0, 0x4000, &ports));
            add(format!("options {protocol} {port}"), V4, ipv4(protocol, 10, 0, &ports));
            add(format!("first fragment {protocol} {port}"), V4, ipv4(protocol, 1, 0x2000, &ports));
            add(format!("IPv6 {protocol} {port}"), V6, ipv6(protocol, &ports));
            let behind = extension(43, 2, &extension(44, 0, &fragment(protocol, 1, &ports)));
            add(format!("extensions {protocol} {port}"), V6, ipv6(0, &behind));
        }
    }
    for kind in 130..=137 {
        add(format!("ICMPv6 {kind}"), V6, ipv6(ICMP6, &[kind; 24]));
        let behind = extension(ICMP6, 0, &[kind; 24]);
        add(format!("hop-by-hop ICMPv6 {kind}"), V6, ipv6(0, &behind));
    }
    for protocol in [TCP, UDP] {
        let payload = ports(9, 9);
        for offset in [1, 0x1fff, 0x2001] {
            add(format!("later {protocol}"), V4, ipv4(protocol, 0, offset, &payload));
        }
        for offset in [8, 9, 0xfff8] {
            let packet = ipv6(44, &fragment(protocol, offset, &payload));
            add(format!("later {protocol}"), V6, packet);
        }
        let nested = |n| {
            (0..n).fold(payload.clone(), |inner, i| {
                extension(if i == 0 { protocol } else { 60 }, 0, &inner)
            })
        };
        add("too many extension headers".into(), V6, ipv6(60, &nested(management::EXTENSIONS + 1)));
    }
    for protocol in [50, 51] {
        add(format!("IPsec {protocol}"), V4, ipv4(protocol, 0, 0, &[0; 24]));
        add(format!("IPsec {protocol}"), V6, ipv6(protocol, &[0; 24]));
        add(format!("IPsec {protocol}"), V6, ipv6(60, &extension(protocol, 0, &[0; 24])));
    }
    for first in [0x05, 0x44, 0x55, 0x65] {
        let mut packet = ipv4(UDP, 0, 0, &ports(9, 9));
        packet[0] = first;
        add(format!("IPv4 that begins with {first:#x}"), V4, packet);
    }
    let mut packet = ipv6(UDP, &ports(9, 9));
    packet[0] = 0x40;
    add("IPv6 of version 4".into(), V6, packet);
    cases
}

/// Packets for the sockets, with any tags.
fn taken() -> Vec<(String, u16, Vec<u8>)> {
    let mut cases = vec![
        ("experimental".to_owned(), 0x88b5, vec![0; 46]),
        ("length of 802.3".to_owned(), 46, vec![0x42; 46]),
        ("ICMP".to_owned(), V4, ipv4(1, 0, 0, &[0; 8])),
        ("later fragment of ICMP".to_owned(), V4, ipv4(1, 0, 7, &[0; 8])),
        ("GRE".to_owned(), V4, ipv4(47, 0, 0, &ports(22, 53))),
        ("no next header".to_owned(), V6, ipv6(59, &[])),
    ];
    let mut add = |name: String, ethertype, packet| cases.push((name, ethertype, packet));
    for (protocol, port) in [
        (TCP, 21),
        (TCP, 23),
        (TCP, 67),
        (TCP, 547),
        (UDP, 22),
        (UDP, 66),
        (UDP, 69),
        (UDP, 545),
        (UDP, 548),
        (UDP, 5353),
        (UDP, 22 << 8),
        (UDP, 53 << 8),
    ] {
        for ports in [ports(port, 40_000), ports(40_000, port)] {
            add(format!("IPv4 {protocol} {port}"), V4, ipv4(protocol, 0, 0x4000, &ports));
            add(format!("options {protocol} {port}"), V4, ipv4(protocol, 10, 0x2000, &ports));
            add(format!("IPv6 {protocol} {port}"), V6, ipv6(protocol, &ports));
            let behind = extension(43, 200, &extension(44, 0, &fragment(protocol, 1, &ports)));
            add(format!("extensions {protocol} {port}"), V6, ipv6(0, &behind));
        }
    }
    for kind in [1, 128, 129, 138, 143] {
        add(format!("ICMPv6 {kind}"), V6, ipv6(ICMP6, &[kind; 8]));
        add(format!("hop-by-hop {kind}"), V6, ipv6(0, &extension(ICMP6, 0, &[kind; 8])));
    }
    let most = (0..management::EXTENSIONS)
        .fold(ports(9, 9), |inner, i| extension(if i == 0 { TCP } else { 60 }, 0, &inner));
    add("most extension headers".into(), V6, ipv6(60, &most));
    cases
}

const TAGS: [&[u16]; 6] = [&[], &[0x8100], &[0x88a8], &[0x88a8, 0x8100], &[0x8100; 2], &[0x9100]];

#[test]
fn privileged_management_is_left_to_the_host() {
    if !privileged::require() {
        return;
    }
    let (keeping, all) = (Trial::new(&management()), Trial::new(&Verdicts::default()));
    let old = Trial::of_old(&management());
    for tags in TAGS {
        for (name, ethertype, packet) in kept() {
            let frame = ethernet(tags, ethertype, &packet);
            assert!(!keeping.takes(&frame), "{name}, tags {tags:x?}");
            assert!(!old.takes(&frame), "{name}, tags {tags:x?}, without the helper");
            assert!(all.takes(&frame), "{name}, tags {tags:x?}");
        }
    }
}

#[test]
fn privileged_everything_else_is_taken() {
    if !privileged::require() {
        return;
    }
    for trial in [Trial::new(&management()), Trial::of_old(&management())] {
        everything_else_is_taken(&trial);
    }
}

fn everything_else_is_taken(trial: &Trial) {
    for tags in TAGS {
        for (name, ethertype, packet) in taken() {
            let frame = ethernet(tags, ethertype, &packet);
            assert!(trial.takes(&frame), "{name}, tags {tags:x?}");
        }
    }
    for (name, ethertype, packet) in taken() {
        let frame = ethernet(&[0x88a8, 0x8100, 0x8100], ethertype, &packet);
        assert!(!trial.takes(&frame), "{name} behind three tags");
    }
}

#[test]
fn privileged_what_is_cut_off_is_left_to_the_host() {
    if !privileged::require() {
        return;
    }
    for trial in [Trial::new(&management()), Trial::of_old(&management())] {
        what_is_cut_off_is_left(&trial);
    }
}

fn what_is_cut_off_is_left(trial: &Trial) {
    for tags in TAGS {
        for (name, ethertype, packet) in kept() {
            let frame = ethernet(tags, ethertype, &packet);
            for length in 14..frame.len() {
                assert!(!trial.takes(&frame[..length]), "{length} bytes of {name}, tags {tags:x?}");
            }
        }
        // Of these, the sockets get whatever holds the ports.
        let behind = extension(44, 2, &fragment(UDP, 1, &ports(9, 9)));
        for (packet, ethertype, whole) in [
            (ipv4(UDP, 0, 0, &ports(9, 9)), V4, 24),
            (ipv4(UDP, 3, 0, &ports(9, 9)), V4, 36),
            (ipv6(UDP, &ports(9, 9)), V6, 44),
            (ipv6(0, &behind), V6, 40 + 24 + 8 + 4),
        ] {
            let frame = ethernet(tags, ethertype, &packet);
            let whole = frame.len() - packet.len() + whole;
            for length in 14..frame.len() {
                let taken = trial.takes(&frame[..length]);
                assert_eq!(taken, length >= whole, "{length} bytes, tags {tags:x?}");
            }
        }
    }
}

#[test]
fn privileged_a_filter_decides_about_the_rest() {
    if !privileged::require() {
        return;
    }
    let filter = Some(ip6_only());
    let filtering = Trial::new(&Verdicts { keep_management: false, filter: filter.clone() });
    let both = Trial::new(&Verdicts { keep_management: true, filter });
    let (v4, v6) = (packets::udp4(1).build(), packets::udp6(1).build());
    let ssh = ethernet(&[], V6, &ipv6(TCP, &ports(22, 40_000)));
    for (trial, expected) in [(filtering, [false, true, true]), (both, [false, true, false])] {
        assert_eq!([&v4, &v6, &ssh].map(|frame| trial.takes(frame)), expected);
    }
}

#[test]
fn privileged_a_queue_without_a_socket_is_the_hosts() {
    if !privileged::require() {
        return;
    }
    for plan in
        [Verdicts::default(), management(), Verdicts { filter: Some(ip6_only()), ..management() }]
    {
        let sockets = Map::create(MapKind::Xsk, "sockets", 4, 2).unwrap();
        let socket = xdp_socket();
        let program = load("trial", &sockets, &plan, ProgramProperties::default()).unwrap();
        let run = || program.test_run(&packets::udp6(1).build(), None, 1).unwrap().result;
        assert_eq!(run(), XdpAction::Pass as u32);
        sockets.set_socket(1, socket.as_fd()).unwrap();
        assert_eq!(run(), XdpAction::Pass as u32);
        sockets.set_socket(0, socket.as_fd()).unwrap();
        assert_eq!(run(), XdpAction::Redirect as u32);
        sockets.delete(0).unwrap();
        assert_eq!(run(), XdpAction::Pass as u32);
    }
}

/// The hints and the packet that the program outputs when a driver provides `hints`.
fn handed_on(plan: &Verdicts, hints: HintRequest, frame: &[u8]) -> (u32, Vec<u8>) {
    let sockets = Map::create(MapKind::Xsk, "sockets", 4, 1).unwrap();
    let socket = xdp_socket();
    sockets.set_socket(0, socket.as_fd()).unwrap();
    let recipe = ProgramProperties { hints, ..ProgramProperties::default() };
    let outcome = load("trial", &sockets, plan, recipe).unwrap().test_run(frame, None, 1).unwrap();
    (outcome.result, outcome.output)
}

#[test]
fn privileged_what_the_driver_answers_lies_before_the_packet() {
    if !privileged::require() {
        return;
    }
    const NO_DATA: i32 = -61;
    let frame = packets::tcp4(1).build();
    let time = 1_712_345_678_123_456_789_u64;
    let (hash, l4) = (0xdead_beef_u32, 1 << 3);
    let present = frame::Hints::PRESENT;
    let hashed = present | frame::Hints::HASHED;
    for (returns, kind, expected) in [
        ([0, 0], l4, (time, hash, hashed | l4)),
        ([NO_DATA, 0], l4, (0, hash, hashed | l4)),
        ([0, 0], 0x1_8010, (time, hash, hashed | 0x10)),
    ] {
        let hints = HintRequest::answered(returns, time, (hash, kind));
        let (result, output) = handed_on(&management(), hints, &frame);
        assert_eq!(result, XdpAction::Redirect as u32);
        let (time, hash, marks) = expected;
        let words = [&time.to_ne_bytes()[..], &hash.to_ne_bytes(), &marks.to_ne_bytes()].concat();
        assert_eq!(output, [&words[..], &frame].concat(), "{returns:?}");
    }
    // A driver that knows nothing leaves no number that could be taken for one.
    for returns in [[0, NO_DATA], [NO_DATA; 2]] {
        let (_, output) =
            handed_on(&management(), HintRequest::answered(returns, 0, (0, l4)), &frame);
        assert_eq!(output[..12], [0; 12]);
        assert_eq!(output[12..16], present.to_ne_bytes(), "{returns:?}");
    }
    // A packet for the host has no hints before it.
    let hints = HintRequest::answered([0, 0], time, (hash, l4));
    let ssh = ethernet(&[], V6, &ipv6(TCP, &ports(22, 40_000)));
    assert_eq!(handed_on(&management(), hints, &ssh), (XdpAction::Pass as u32, ssh));
}

/// The verifier permits less without CAP_PERFMON.
#[test]
fn privileged_the_program_needs_no_more_than_two_capabilities() {
    if !privileged::require() {
        return;
    }
    std::thread::spawn(|| {
        let keep = [Capability::Bpf, Capability::NetAdmin, Capability::NetRaw];
        privilege::drop_all(keep.into_iter().collect::<Set>()).unwrap();
        let plan = Verdicts { keep_management: true, filter: Some(ip6_only()) };
        assert!(!Trial::new(&plan).takes(&packets::udp4(1).build()));
    })
    .join()
    .unwrap();
}
