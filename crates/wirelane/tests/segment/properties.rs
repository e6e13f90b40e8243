//! Cutting and merging are each other's inverse, and nobody finds a wrong checksum.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wirelane::capture::{CaptureWriter, Record, Source, WriterOptions};
use wirelane::mask::Class;
use wirelane::segment::{Alone, Coalescer, Flush, Gso, Limits, Offload, Sink};
use wirelane_testkit::{tools, tshark};
use wirelane_wire::{FlowKey, Layers, TcpFlags};

use super::frames::{Around, Checksum, Frame, cut, cut_for};
use super::harness;
use super::oracle::{Random, random_frame};

/// What comes out when all packets come at once.
fn merge(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Offload)> {
    merge_with(packets, Limits::default()).0
}

fn merge_with(packets: &[Vec<u8>], limits: Limits) -> (Vec<(Vec<u8>, Offload)>, Coalescer) {
    let mut coalescer = Coalescer::new(limits);
    let mut out = Vec::new();
    let mut send = |frame: &[u8], offload: Offload| out.push((frame.to_vec(), offload));
    packets.iter().for_each(|packet| coalescer.push(packet, 0, &mut send));
    coalescer.flush(&mut send);
    (out, coalescer)
}

/// What is merged, cut again.
fn split(frames: &[(Vec<u8>, Offload)]) -> Vec<Vec<u8>> {
    frames.iter().flat_map(|(frame, offload)| cut(frame, offload)).collect()
}

/// A frame that merging can make: no IP options, extension headers or fragments.
fn mergeable(random: &mut Random) -> Frame {
    let mut frame = random_frame(random);
    if frame.gso == Gso::UdpFragment {
        frame.gso = Gso::Udp;
    }
    (frame.ip_options, frame.extensions) = (vec![], vec![]);
    frame.fixed_id = !frame.v6 && frame.dont_fragment && random.chance(2);
    frame.accurate_ecn = frame.flags.contains(TcpFlags::CWR)
        && matches!(frame.gso, Gso::Tcp4 | Gso::Tcp6)
        && random.chance(2);
    // Of a frame that is merged, PSH and FIN ended it or nothing did: its segments are all full.
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// gro(gso(x)) == x.
    #[test]
    fn merging_what_was_cut_gives_it_back(seed: u64) {
        let frame = mergeable(&mut Random(seed));
        let (bytes, mut offload) = frame.build();
        offload.ecn &= !frame.accurate_ecn;
        let merged = merge(&cut(&bytes, &offload));
        prop_assert_eq!(merged.len(), 1, "{:?}", frame);
        prop_assert_eq!(merged[0].1, offload);
        prop_assert!(merged[0].0 == bytes, "{frame:?}");
    }

    /// gso(gro(x)) == x, whatever is lost, reordered, damaged or padded on the way.
    #[test]
    fn cutting_what_was_merged_gives_the_packets_back(seed: u64) {
        let mut random = Random(seed);
        let mut packets = Vec::new();
        for flow in 0..1 + random.below(12) {
            let mut frame = mergeable(&mut random);
            frame.port = 5000 + flow as u16 % 5;
            frame.payload.truncate(usize::from(frame.mss) * (1 + random.below(9)) + random.below(2));
            let (bytes, offload) = frame.build();
            for packet in cut(&bytes, &offload) {
                // Flows take turns.
                let at = packets.len() - random.below(packets.len().min(4) + 1);
                packets.insert(at, packet);
            }
        }
        for _ in 0..random.below(4) {
            let index = random.below(packets.len());
            match random.below(4) {
                0 => drop(packets.remove(index)),
                1 => packets.swap(index, 0),
                2 => *packets[index].last_mut().unwrap() ^= 1,
                _ => {
                    let copy = packets[index].clone();
                    packets.insert(index, copy);
                }
            }
            if packets.is_empty() {
                return Ok(());
            }
        }
        let limits = Limits { flows: 1 + random.below(8), segments: 1 + random.below(50) as u32, ..Limits::default() };
        let (merged, coalescer) = merge_with(&packets, limits);
        let counters = coalescer.counters();
        prop_assert_eq!(counters.packets.value(), packets.len() as u64);
        prop_assert_eq!(
            counters.merged.value() + merged.iter().filter(|(_, left)| left.is_none()).count() as u64,
            packets.len() as u64
        );
        let by_flow = |packets: Vec<Vec<u8>>| {
            let mut flows = BTreeMap::<String, Vec<Vec<u8>>>::new();
            for packet in packets {
                // The same addresses behind other tags are another flow.
                let flow = FlowKey::parse(&packet).unwrap().unwrap();
                let link = Layers::parse(&packet).unwrap().network_offset;
                flows.entry(format!("{flow} {:?}", &packet[..link])).or_default().push(packet);
            }
            flows
        };
        prop_assert!(by_flow(split(&merged)) == by_flow(packets));
    }

    #[test]
    fn arbitrary_frames_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        harness::run(&bytes);
    }

    /// Real frames with a few bytes changed, and any metadata.
    #[test]
    fn damaged_frames_are_harmless(seed: u64) {
        let mut random = Random(seed);
        let mut frame = random_frame(&mut random);
        frame.payload.truncate(1 + random.below(4000));
        frame.around = random.of(&[Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre]);
        let kind = match frame.gso {
            Gso::None => 0,
            Gso::Tcp4 => 1,
            Gso::Tcp6 => 2,
            Gso::Udp => 3,
            Gso::UdpFragment => 4,
        };
        let around = [Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre];
        let tunnel = around.iter().position(|it| *it == frame.around).unwrap() as u8;
        let mut head = [0; 16];
        head.iter_mut().for_each(|byte| *byte = random.next() as u8);
        (head[0], head[1]) = (kind, head[1] & 0x0e | tunnel << 4);
        (head[2], head[8]) = (random.below(8) as u8, 1 + random.below(6) as u8);
        let mut bytes = [head.to_vec(), frame.build().0].concat();
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len().min(130));
            bytes[at] ^= 1 << random.below(8);
        }
        harness::run(&bytes);
    }
}

#[test]
fn tshark_finds_no_wrong_checksum() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segments.pcapng");
    let sources = [Source::new("segments", Class::Tx, Some(0))];
    let mut writer =
        CaptureWriter::create(&path, &sources, WriterOptions::of_path(&path), 0).unwrap();
    let mut random = Random(3);
    let mut count = 0;
    for index in 0..400_u16 {
        let mut frame = random_frame(&mut random);
        frame.payload.truncate(6000);
        frame.port = 2000 + index;
        frame.id = index.wrapping_mul(100);
        if frame.gso != Gso::UdpFragment && frame.ip_options.is_empty() {
            frame.mss = frame.mss.min(1200);
            frame.around =
                random.of(&[Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre]);
            frame.outer_v6 = random.chance(2);
            // Over IPv6 tshark wants one, though tunnels may go without (RFC 6935).
            frame.outer_checksum = frame.outer_v6 || random.chance(2);
        }
        let (bytes, offload) = frame.build();
        for packet in cut(&bytes, &offload) {
            let original_len = packet.len() as u32;
            let record = Record {
                interface: 0,
                timestamp: count,
                original_len,
                direction: Default::default(),
                data: &packet,
            };
            writer.write(&record).unwrap();
            count += 1;
        }
    }
    writer.finish(&[]).unwrap();
    assert_eq!(tshark::check_clean_with_checksums(&path), count);
    // Wireshark's own verdict, packet by packet: 0 is bad.
    for field in ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status"] {
        let filter = format!("{field} == 0");
        assert!(tshark::filtered_fields(&path, &filter, &["frame.number"]).is_empty(), "{field}");
    }
}

fn packets(frame: &Frame) -> Vec<Vec<u8>> {
    let (bytes, offload) = frame.build();
    cut(&bytes, &offload)
}

/// DPDK b8a55871: padding of a short frame is not payload.
#[test]
fn ethernet_padding_is_not_payload() {
    let mut frame = Frame::tcp4(1461, 1460);
    frame.checksum = Checksum::Complete;
    let mut padded = packets(&frame);
    assert_eq!(padded[1].len(), 55);
    padded[1].resize(60, 0xee);
    let merged = merge(&padded);
    assert_eq!(merged.len(), 1);
    assert_eq!(split(&merged), packets(&frame));
    // By itself it passes as it is.
    assert_eq!(merge(&padded[1..]), [(padded[1].clone(), Offload::default())]);
}

/// opte PR#805: the size of the segments is that of the sender.
#[test]
fn segment_size_is_kept() {
    let merged = merge(&packets(&Frame::tcp4(5000, 777)));
    assert_eq!((merged.len(), merged[0].1.size), (1, 777));
}

#[test]
fn frames_end_where_they_must() {
    let counted = |packets: &[Vec<u8>], limits, reason| {
        let (merged, coalescer) = merge_with(packets, limits);
        assert_eq!(coalescer.counters().flushed(reason).value(), 1, "{reason}");
        merged.len()
    };
    let mut frame = Frame::tcp4(5000, 1000);
    let plain = packets(&frame);
    let all = Limits::default();
    assert_eq!(counted(&plain, all, Flush::Asked), 1);
    assert_eq!(counted(&plain[..5], Limits { segments: 4, ..all }, Flush::Full), 2);
    assert_eq!(counted(&plain[..5], Limits { size: 4500, ..all }, Flush::Full), 2);
    assert_eq!(counted(&[plain[0].clone(), plain[2].clone()], all, Flush::Order), 2);
    frame.payload.truncate(4500);
    assert_eq!(counted(&packets(&frame), all, Flush::Short), 1);
    frame.flags = frame.flags.with(TcpFlags::PSH);
    assert_eq!(counted(&packets(&frame), all, Flush::Push), 1);
    frame.tcp_options = vec![1; 4];
    let other = packets(&frame);
    assert_eq!(counted(&[plain[0].clone(), other[1].clone()], all, Flush::Differs), 2);

    let mut damaged = plain.clone();
    damaged[1][100] ^= 1;
    let (merged, coalescer) = merge_with(&damaged[..3], all);
    assert_eq!(merged.len(), 3);
    assert_eq!(coalescer.counters().alone(Alone::Checksum).value(), 1);
    assert_eq!(split(&merged), damaged[..3]);
}

/// Found by fuzzing: tags with nothing behind them do not count against the MTU.
#[test]
fn a_frame_of_tags_alone_is_harmless() {
    harness::run(include_bytes!("../../../../fuzz/seeds/segment/tags_only"));
}

#[test]
fn age_is_time_passed_in() {
    let mut coalescer = Coalescer::new(Limits { age: 10, ..Limits::default() });
    let plain = packets(&Frame::tcp4(3000, 1000));
    let mut sent = 0;
    let mut send = |_: &[u8], _| sent += 1;
    coalescer.push(&plain[0], 100, &mut send);
    coalescer.push(&plain[1], 105, &mut send);
    coalescer.expire(109, &mut send);
    assert_eq!(coalescer.held(), 1);
    coalescer.expire(110, &mut send);
    assert_eq!((coalescer.held(), sent), (0, 1));
}

#[test]
fn what_was_merged_can_go_to_a_sink_that_segments() {
    let merged = merge(&packets(&Frame::tcp6(9000, 1400)));
    let sink = Sink { checksum: true, gso_max: Some(65_535), ..Sink::ethernet() };
    let sink = Sink { gso: wirelane::segment::SinkGso { tcp6: true, ..sink.gso }, ..sink };
    assert_eq!(cut_for(sink, &merged[0].0, &merged[0].1), merged);
}
