//! Segmenting and merging are inverse to each other, and all checksums are right.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wirelane::frame::{Gso, Offload, PartialChecksum};
use wirelane::internal::frame::Sink;
use wirelane::internal::segment::{Alone, Coalescer, Flush, Limits};
use wirelane::mask::Class;
use wirelane::pcap::{CaptureWriter, Record, Source, WriterOptions};
use wirelane_testkit::{tools, tshark};
use wirelane_wire::{FlowKey, Layers, TcpFlags};

use super::frames::{Around, Checksum, Frame, cut, cut_for};
use super::harness;
use super::oracle::{Random, random_frame};

/// Merges packets that all arrive at once.
fn merge(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Offload)> {
    merge_with(packets, Limits::default()).0
}

fn merge_with(packets: &[Vec<u8>], limits: Limits) -> (Vec<Left>, Coalescer) {
    let whole: Vec<_> = packets.iter().map(|packet| (packet.clone(), Offload::default())).collect();
    merge_left(&whole, limits)
}

/// A packet and its offload request.
type Left = (Vec<u8>, Offload);

fn merge_left(packets: &[Left], limits: Limits) -> (Vec<Left>, Coalescer) {
    let mut coalescer = Coalescer::new(limits);
    let mut out = Vec::new();
    let mut send = |frame: &[u8], offload: Offload| out.push((frame.to_vec(), offload));
    packets.iter().for_each(|(packet, left)| coalescer.push(packet, *left, 0, &mut send));
    coalescer.flush(&mut send);
    (out, coalescer)
}

/// An MTU of 1500 bytes and a device that completes checksums.
fn completing() -> Sink {
    Sink { checksum: true, ..Sink::ethernet() }
}

/// The packet on the wire, with its checksum completed.
fn completed((packet, left): &Left) -> Vec<u8> {
    let mut packet = packet.clone();
    if let Some(place) = left.checksum {
        assert!(place.complete(&mut packet));
    }
    packet
}

/// The packets by flow, in their order.
fn by_flow<P>(packets: Vec<P>, bytes: impl Fn(&P) -> &[u8]) -> BTreeMap<String, Vec<P>> {
    let mut flows = BTreeMap::<String, Vec<P>>::new();
    for packet in packets {
        // Packets with the same addresses but different tags belong to different flows.
        let flow = FlowKey::parse(bytes(&packet)).unwrap().unwrap();
        let link = Layers::parse(bytes(&packet)).unwrap().network_offset;
        let name = format!("{flow} {:?}", &bytes(&packet)[..link]);
        flows.entry(name).or_default().push(packet);
    }
    flows
}

/// Packets of interleaved flows. `form` chooses the state of the checksums of each flow.
fn flows(random: &mut Random, form: impl Fn(&mut Random) -> Form) -> Vec<Left> {
    let mut packets = Vec::new();
    for flow in 0..1 + random.below(12) {
        let mut frame = mergeable(random);
        frame.port = 5000 + flow as u16 % 5;
        frame.payload.truncate(usize::from(frame.mss) * (1 + random.below(9)) + random.below(2));
        let (bytes, offload) = frame.build();
        let form = form(random);
        let whole = cut_for(Sink::ethernet(), &bytes, &offload);
        let partial = cut_for(completing(), &bytes, &offload);
        assert_eq!(whole.len(), partial.len());
        for (whole, partial) in whole.into_iter().zip(partial) {
            let is_partial = match form {
                Form::Complete => false,
                Form::Partial => true,
                Form::Mixed => random.chance(2),
            };
            let at = packets.len() - random.below(packets.len().min(4) + 1);
            packets.insert(at, if is_partial { partial } else { whole });
        }
    }
    packets
}

/// The state of the checksums of a flow.
#[derive(Clone, Copy)]
enum Form {
    Complete,
    Partial,
    Mixed,
}

/// Loses, swaps, damages or duplicates some packets.
fn disturb(random: &mut Random, packets: &mut Vec<Left>) {
    for _ in 0..random.below(4).min(packets.len()) {
        let index = random.below(packets.len());
        match random.below(4) {
            0 if packets.len() > 1 => drop(packets.remove(index)),
            1 => packets.swap(index, 0),
            2 => *packets[index].0.last_mut().unwrap() ^= 1,
            _ => {
                let copy = packets[index].clone();
                packets.insert(index, copy);
            }
        }
    }
}

fn some_limits(random: &mut Random) -> Limits {
    let segments = 1 + random.below(50) as u32;
    Limits { flows: 1 + random.below(8), segments, ..Limits::default() }
}

/// Segments the merged frames.
fn split(frames: &[(Vec<u8>, Offload)]) -> Vec<Vec<u8>> {
    frames.iter().flat_map(|(frame, offload)| cut(frame, offload)).collect()
}

/// A frame that merging can produce, without IP options, extension headers and fragments.
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
    // PSH and FIN may be set: segmenting leaves them on the last segment, which ends a merged
    // frame.
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

    /// gso(gro(x)) == x, even if packets are lost, reordered or damaged, and for complete and
    /// partial checksums: the packets on the wire are the same as without merging.
    #[test]
    fn cutting_what_was_merged_gives_the_packets_back(seed: u64) {
        let mut random = Random(seed);
        let mut packets = flows(&mut random, |random| {
            random.of(&[Form::Complete, Form::Partial, Form::Mixed])
        });
        disturb(&mut random, &mut packets);
        let (merged, coalescer) = merge_left(&packets, some_limits(&mut random));
        let counters = coalescer.counters();
        prop_assert_eq!(counters.packets.value(), packets.len() as u64);
        let alone = merged.iter().filter(|(_, left)| left.gso == Gso::None);
        prop_assert_eq!(counters.merged.value() + alone.count() as u64, packets.len() as u64);
        let expected = packets.iter().map(completed).collect();
        prop_assert!(by_flow(split(&merged), Vec::as_slice) == by_flow(expected, Vec::as_slice));
    }

    /// gso(gro(x)) == x for a device that completes checksums: partial checksums remain partial, at
    /// the same offset.
    #[test]
    fn checksums_left_to_do_are_left_to_a_device_that_completes(seed: u64) {
        let mut random = Random(seed);
        let mut packets = flows(&mut random, |_| Form::Partial);
        disturb(&mut random, &mut packets);
        let (merged, coalescer) = merge_left(&packets, some_limits(&mut random));
        let in_merged = |(_, left): &&Left| left.gso != Gso::None && left.checksum.is_some();
        let split: Vec<_> = merged.iter().map(|(frame, left)| cut_for(completing(), frame, left)).collect();
        let partial: usize =
            merged.iter().zip(&split).filter(|(merged, _)| in_merged(merged)).map(|(_, cut)| cut.len()).sum();
        prop_assert_eq!(coalescer.counters().partial.value(), partial as u64);
        prop_assert!(by_flow(split.concat(), |left| &left.0) == by_flow(packets, |left| &left.0));
    }

    #[test]
    fn arbitrary_frames_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        harness::run(&bytes);
    }

    /// Valid frames with a few bits changed, and random metadata.
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
            // Over IPv6 tshark expects a checksum, although tunnels may omit it (RFC 6935).
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
    // Wireshark's status of each checksum: 0 is bad.
    for field in ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status"] {
        let filter = format!("{field} == 0");
        assert!(tshark::filtered_fields(&path, &filter, &["frame.number"]).is_empty(), "{field}");
    }
}

fn packets(frame: &Frame) -> Vec<Vec<u8>> {
    let (bytes, offload) = frame.build();
    cut(&bytes, &offload)
}

/// DPDK b8a55871: the padding of a short frame is not payload. Merging would lose it, so a padded
/// packet is not merged.
#[test]
fn what_is_behind_a_packet_is_neither_payload_nor_lost() {
    let mut frame = Frame::tcp4(2001, 1000);
    frame.checksum = Checksum::Complete;
    let plain = packets(&frame);
    assert_eq!(plain[2].len(), 55);
    for (at, more) in [(2, 5), (2, 1), (1, 4), (0, 30)] {
        let mut packets = plain.clone();
        let length = packets[at].len() + more;
        packets[at].resize(length, 0xee);
        let (merged, coalescer) = merge_with(&packets, Limits::default());
        assert_eq!(split(&merged), packets, "{more} bytes behind packet {at}");
        assert_eq!(coalescer.counters().alone(Alone::Trailer).value(), 1);
        assert_eq!(coalescer.counters().merged.value(), if at == 1 { 0 } else { 2 });
    }
}

/// opte PR#805: the sender's segment size is kept.
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

/// The packets of a frame with partial checksums.
fn partial_packets(frame: &Frame) -> Vec<Left> {
    let (bytes, offload) = frame.build();
    let packets = cut_for(completing(), &bytes, &offload);
    assert!(packets.iter().all(|(_, left)| left.checksum.is_some()));
    packets
}

/// The same as in the kernel, which requires an equal `ip_summed` only for packets that remain a
/// list (`tcp_gro_receive()`, `udp_gro_receive_segment()`).
#[test]
fn complete_and_partial_checksums_merge_and_all_are_partial_then() {
    for frame in [
        Frame::tcp4(5000, 1000),
        Frame::tcp6(5000, 1000),
        Frame::new(Gso::Udp, false, 5000, 1000),
        Frame::new(Gso::Udp, true, 5000, 1000),
    ] {
        let (partial, complete) = (partial_packets(&frame), packets(&frame));
        let mut mixed = partial.clone();
        for index in [1, 2] {
            mixed[index] = (complete[index].clone(), Offload::default());
        }
        for (packets, count) in [(partial, 5), (mixed, 3)] {
            let (merged, coalescer) = merge_left(&packets, Limits::default());
            let (bytes, offload) = frame.build();
            assert_eq!(merged, [(bytes, offload)], "{frame:?}");
            assert_eq!(coalescer.counters().partial.value(), count);
        }
    }
}

/// A partial checksum cannot be verified. A complete checksum is verified even if the packet would
/// be merged with partial ones.
#[test]
fn a_damaged_packet_is_not_merged_with_partial_ones() {
    let frame = Frame::tcp4(4000, 1000);
    let mut packets = partial_packets(&frame);
    let mut damaged = self::packets(&frame)[2].clone();
    *damaged.last_mut().unwrap() ^= 1;
    packets[2] = (damaged.clone(), Offload::default());
    let (merged, coalescer) = merge_left(&packets, Limits::default());
    assert_eq!(coalescer.counters().alone(Alone::Checksum).value(), 1);
    assert_eq!(merged.len(), 3);
    assert_eq!(merged[1], (damaged, Offload::default()));
    // The last packet remains alone and unchanged.
    assert_eq!(merged[2], packets[3]);
}

#[test]
fn a_checksum_left_to_do_must_be_its_own_and_begun_right() {
    let left = |change: &dyn Fn(&mut Left)| {
        let mut packets = partial_packets(&Frame::new(Gso::Udp, false, 3000, 1000));
        change(&mut packets[1]);
        let (merged, coalescer) = merge_left(&packets, Limits::default());
        assert_eq!(merged, packets);
        let reasons = Alone::ALL.into_iter();
        let counted: Vec<_> =
            reasons.filter(|reason| coalescer.counters().alone(*reason).value() == 1).collect();
        counted
    };
    let place = PartialChecksum { start: 14, offset: 10 };
    assert_eq!(left(&|packet| packet.1.checksum = Some(place)), [Alone::Offload]);
    assert_eq!(
        left(&|packet| packet.1.checksum = Some(PartialChecksum::UNKNOWN)),
        [Alone::Offload]
    );
    // A sum that differs from that over the pseudo-header.
    assert_eq!(left(&|packet| packet.0[14 + 20 + 6] ^= 1), [Alone::Checksum]);
    // The checksum would cover the padding.
    assert_eq!(left(&|packet| packet.0.push(1)), [Alone::Trailer]);
    // A missing checksum differs from a partial one.
    let none = Frame { checksum: Checksum::None, ..Frame::new(Gso::Udp, false, 3000, 1000) };
    let mut packets = partial_packets(&Frame::new(Gso::Udp, false, 3000, 1000));
    packets[1] = (self::packets(&none)[1].clone(), Offload::default());
    let (merged, coalescer) = merge_left(&packets, Limits::default());
    assert_eq!(merged, packets);
    assert_eq!(coalescer.counters().flushed(Flush::Differs).value(), 2);
}

/// Found by fuzzing: tags without a packet after them do not count against the MTU.
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
    coalescer.push(&plain[0], Offload::default(), 100, &mut send);
    coalescer.push(&plain[1], Offload::default(), 105, &mut send);
    coalescer.expire(109, &mut send);
    assert_eq!(coalescer.held(), 1);
    coalescer.expire(110, &mut send);
    assert_eq!((coalescer.held(), sent), (0, 1));
}

#[test]
fn what_was_merged_can_go_to_a_sink_that_segments() {
    let merged = merge(&packets(&Frame::tcp6(9000, 1400)));
    let sink = Sink { checksum: true, gso_max: Some(65_535), ..Sink::ethernet() };
    let sink = Sink { gso: wirelane::internal::frame::SinkGso { tcp6: true, ..sink.gso }, ..sink };
    assert_eq!(cut_for(sink, &merged[0].0, &merged[0].1), merged);
}
