//! Memory limits, link types, and arbitrary bytes.

use proptest::prelude::*;

use super::bursts::{both_sides, burst, seen};
use super::flows::handshake;
use super::*;
use crate::audit;
use crate::oracle::{Random, random_frame};

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

/// Several random frames and their segments, as captured before and after segmenting.
fn random_capture(seed: u64) -> Capture {
    let mut random = Random(seed);
    let mut packets = Vec::new();
    for index in 0..1 + random.below(4) {
        let mut frame = random_frame(&mut random);
        frame.payload.truncate(30_000);
        frame.port = 3000 + index as u16;
        frame.id = 1000 * index as u16;
        if frame.v6 && index > 0 && frame.gso == Gso::UdpFragment {
            // Each frame has a new segmenter, which begins with the same identification.
            frame.gso = Gso::Udp;
        }
        if frame.gso != Gso::UdpFragment && frame.ip_options.is_empty() {
            frame.mss = frame.mss.min(1200);
            frame.around =
                random.of(&[Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre]);
            frame.outer_v6 = random.chance(2);
            frame.outer_checksum = random.chance(2);
        }
        let (bytes, offload) = frame.build();
        // The outer checksum of a super-frame is not valid here.
        if frame.around == Around::Nothing || !frame.outer_checksum {
            packets.push((0, bytes.clone()));
        }
        packets.extend(cut(&bytes, &offload).into_iter().map(|packet| (1, packet)));
    }
    Capture::on(packets)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// The segments of any super-frame have no violations.
    #[test]
    fn what_the_segmenter_makes_is_clean(seed: u64) {
        let capture = random_capture(seed);
        let (findings, summary) = capture.audit();
        let bad: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Violation).collect();
        prop_assert!(bad.is_empty(), "{seed}: {bad:#?}");
        prop_assert_eq!(summary.packets, capture.packets.len() as u64);
    }

    /// Losses, duplicates and reordering in the network are no violations.
    #[test]
    fn losses_copies_and_reordering_are_no_violations(seed: u64) {
        let mut random = Random(!seed);
        let mut capture = random_capture(seed);
        for _ in 0..1 + random.below(12) {
            // Only packets on the wire; the super-frames stay.
            let wire: Vec<_> = (0..capture.packets.len()).filter(|at| capture.packets[*at].0 == 1).collect();
            let Some(at) = wire.get(random.below(wire.len().max(1))).copied() else { break };
            let packet = capture.packets.remove(at);
            match random.below(3) {
                0 => {}
                1 => {
                    capture.packets.insert(at, packet.clone());
                    let later = at + random.below((capture.packets.len() - at).min(8));
                    capture.packets.insert(later, packet);
                }
                _ => {
                    let later = at + random.below((capture.packets.len() - at).clamp(1, 8));
                    capture.packets.insert(later, packet);
                }
            }
        }
        let (findings, _) = capture.audit();
        let bad: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Violation).collect();
        prop_assert!(bad.is_empty(), "{seed}: {bad:#?}");
    }

    /// The auditor does not panic on packets with changed bits, and counts all of them.
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
    use wirelane::internal::frame::{Sink, SinkGso};
    let gso = SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false };
    let sink = Sink { mtu: 1500, checksum: true, gso_max: Some(16_000), gso };
    let (bytes, offload) = Frame::tcp4(50_000, 1400).build();
    let larger = cut_for(sink, &bytes, &offload).into_iter().map(|(packet, _)| packet);
    seen(&bytes, &larger.collect::<Vec<_>>()).assert_clean();
    // Tags make no difference.
    let mut frame = Frame::tcp6(5000, 1400);
    frame.tags = vec![EtherType::QINQ, EtherType::VLAN];
    let (long, packets) = both_sides(&frame);
    seen(&long, &packets).assert_clean();
}

/// Run this by hand to write the seeds of the fuzzer again.
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
