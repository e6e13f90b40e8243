//! Streams that no stack sends. After merging and segmenting, each flow has the same packets in the
//! same order.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use wirelane::frame::{Gso, Offload, PartialChecksum};
use wirelane::internal::segment::{Alone, Coalescer, Limits, MAX_DATAGRAMS};
use wirelane_testkit::privileged;
use wirelane_wire::Layers;
use wirelane_wire::checksum::Sum;
use wirelane_wire::flow::Network;

use super::frames::{Frame, cut};
use super::oracle::{Merger, Oracle, Random};

const ACK: u16 = 0x010;

/// The state of a flow, which determines its next packet.
#[derive(Clone)]
struct Odd {
    flow: u8,
    address: u8,
    v6: bool,
    tcp: bool,
    port: u16,
    mac: u8,
    /// The EtherType and the contents of each tag.
    tags: Vec<[u16; 2]>,
    tos: u8,
    ttl: u8,
    label: u16,
    id: u16,
    id_step: u16,
    dont_fragment: bool,
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    options: usize,
    form: Form,
    size: usize,
    /// The number of packets so far.
    count: u32,
}

/// The state of the checksum.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Complete,
    Partial,
    /// No checksum, which is valid for UDP over IPv4.
    None,
}

/// The peculiarities of one packet.
#[derive(Default)]
struct Quirk {
    flags: u16,
    urgent: u16,
    /// The payload size, if it differs from the flow's.
    size: Option<usize>,
    /// A protocol that differs from the flow, with the same addresses.
    protocol: Option<u8>,
    /// Whether it has an extension header or IP options.
    extension: bool,
    fragment: Option<u16>,
}

impl Odd {
    fn new(random: &mut Random, flow: u8) -> Self {
        let tcp = random.chance(2);
        let tags = [vec![], vec![], vec![[0x8100, 7]], vec![[0x88a8, 5], [0x8100, 0x6007]]];
        Self {
            flow,
            address: random.below(2) as u8,
            v6: random.chance(2),
            tcp,
            // 4789 is VXLAN.
            port: random.of(&[4000, 4789]),
            mac: 1,
            tags: random.of(&tags),
            tos: 0,
            ttl: 64,
            label: 9,
            id: random.next() as u16,
            id_step: random.of(&[0, 1, 1, 1, 7]),
            dont_fragment: random.chance(2),
            sequence: random.of(&[5, 0xffff_ff00]),
            acknowledgment: 1,
            window: 500,
            options: random.of(&[0, 3]),
            form: random.of(&[Form::Complete, Form::Complete, Form::Partial, Form::None]),
            size: random.of(&[1, 5, 17, 18, 100, 101, 536, 1200, 1400]),
            count: 0,
        }
    }

    /// Changes a field of all further packets.
    fn change(&mut self, random: &mut Random) {
        match random.below(14) {
            0 => self.ttl -= 1,
            1 => self.tos ^= 1 << random.below(8),
            2 => self.dont_fragment ^= true,
            3 => self.id = self.id.wrapping_add(100),
            4 => self.id_step = random.of(&[0, 1]),
            5 => self.mac += 1,
            // The priority of a tag, or a tag with only a priority.
            6 => match self.tags.first_mut() {
                Some([_, tag]) => *tag ^= 0xa000,
                None => self.tags.push([0x8100, 0x6000]),
            },
            7 => self.tags.retain(|[_, tag]| tag & 0xfff != 0),
            8 => self.acknowledgment += 1,
            9 => self.window ^= 3,
            10 => self.options = random.below(4),
            11 => self.label ^= 1,
            12 => self.size = 1 + random.below(1400),
            _ => self.form = random.of(&[Form::Complete, Form::Partial, Form::None]),
        }
    }

    /// The next packet and its offload request.
    fn packet(&mut self, quirk: &Quirk) -> (Vec<u8>, Offload) {
        let size = quirk.size.unwrap_or(self.size);
        let mut payload = vec![self.flow; size];
        for (byte, stamp) in payload.iter_mut().skip(1).zip(self.count.to_be_bytes()) {
            *byte = stamp;
        }
        let mut upper = Vec::new();
        upper.extend((3000 + u16::from(self.flow)).to_be_bytes());
        upper.extend(self.port.to_be_bytes());
        let field = if self.tcp { 16 } else { 6 };
        if self.tcp {
            upper.extend(self.sequence.to_be_bytes());
            upper.extend(self.acknowledgment.to_be_bytes());
            let flags = (5 + self.options as u16) << 12 | (ACK ^ quirk.flags);
            for value in [flags, self.window, 0, quirk.urgent] {
                upper.extend(value.to_be_bytes());
            }
            upper.extend(vec![1; 4 * self.options]);
        } else {
            upper.extend((8 + size as u16).to_be_bytes());
            upper.extend([0; 2]);
        }
        upper.extend(payload);
        let protocol = if self.tcp { 6 } else { 17 };
        let mut frame = vec![2, 0, 0, 0, 0, self.mac, 2, 0, 0, 0, 1, 0];
        self.tags.iter().flatten().for_each(|half| frame.extend(half.to_be_bytes()));
        frame.extend(if self.v6 { [0x86, 0xdd] } else { [8, 0] });
        let network = frame.len();
        let kind = quirk.protocol.unwrap_or(protocol);
        let addresses = if self.v6 {
            self.ipv6(&mut frame, kind, upper.len(), quirk)
        } else {
            self.ipv4(&mut frame, kind, upper.len(), quirk)
        };
        let transport = frame.len();
        let pseudo = Sum::of(&frame[addresses])
            .plus(Sum::of_field(protocol.into()))
            .plus(Sum::of_field(upper.len() as u16));
        let mut left = Offload::default();
        let partial = self.form == Form::Partial && quirk.protocol.is_none();
        let value = match self.form {
            Form::Partial if partial && quirk.fragment.is_none() && !quirk.extension => {
                let place = PartialChecksum { start: transport as u16, offset: field };
                left.checksum = Some(place);
                pseudo.partial()
            }
            Form::None if !self.tcp && !self.v6 => 0,
            _ => match pseudo.plus(Sum::of(&upper)).checksum() {
                0 if !self.tcp => 0xffff,
                sum => sum,
            },
        };
        frame.extend(upper);
        let at = transport + usize::from(field);
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        debug_assert!(network < transport);
        self.count += 1;
        self.id = self.id.wrapping_add(self.id_step);
        self.sequence = self.sequence.wrapping_add(size as u32);
        (frame, left)
    }

    /// Appends the header, and returns the range of the addresses.
    fn ipv4(
        &self,
        frame: &mut Vec<u8>,
        kind: u8,
        upper: usize,
        quirk: &Quirk,
    ) -> std::ops::Range<usize> {
        let at = frame.len();
        let options: &[u8] = if quirk.extension { &[1, 1, 1, 0] } else { &[] };
        let words = 5 + options.len() / 4;
        frame.extend([0x40 | words as u8, self.tos]);
        let dont = u16::from(self.dont_fragment) << 14;
        for field in [(4 * words + upper) as u16, self.id, quirk.fragment.unwrap_or(dont)] {
            frame.extend(field.to_be_bytes());
        }
        frame.extend([self.ttl, kind, 0, 0, 10, 0, 0, 1, 10, 0, 0, 20 + self.address]);
        frame.extend(options);
        let sum = Sum::of(&frame[at..]).checksum();
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        at + 12..at + 20
    }

    fn ipv6(
        &self,
        frame: &mut Vec<u8>,
        kind: u8,
        upper: usize,
        quirk: &Quirk,
    ) -> std::ops::Range<usize> {
        let at = frame.len();
        let extension = match (quirk.extension, quirk.fragment) {
            (_, Some(fragment)) => {
                let [high, low] = fragment.to_be_bytes();
                Some((44, [kind, 0, high, low, 0, 0, 0, 1]))
            }
            (true, None) => Some((60, [kind, 0, 1, 4, 0, 0, 0, 0])),
            (false, None) => None,
        };
        let length = upper + if extension.is_some() { 8 } else { 0 };
        frame.extend([0x60 | self.tos >> 4, self.tos << 4]);
        frame.extend(self.label.to_be_bytes());
        frame.extend((length as u16).to_be_bytes());
        frame.extend([extension.map_or(kind, |(first, _)| first), self.ttl]);
        for last in [1, 20 + self.address] {
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        frame.extend(extension.iter().flat_map(|(_, bytes)| bytes));
        at + 8..at + 40
    }

    /// The next packet, with one peculiarity.
    fn strange(&mut self, random: &mut Random) -> (Vec<u8>, Offload) {
        let mut quirk = Quirk::default();
        match random.below(9) {
            0 => quirk.size = Some(0),
            1 => quirk.size = Some(1 + random.below(self.size)),
            2 => quirk.size = Some(self.size + 1 + random.below(3)),
            // The first fragment of a packet, or a later one.
            3 => quirk.fragment = Some(random.of(&[0x2000, 1, 0x2001])),
            4 => quirk.extension = true,
            5 => quirk.flags = 1 << random.below(12),
            6 => quirk.urgent = 5,
            7 => quirk.protocol = Some(random.of(&[1, 4, 41, 47, 50, 132])),
            _ => {}
        }
        if quirk.fragment.is_some() || quirk.protocol.is_some() {
            // Only the payload shows the flow of this packet.
            quirk.size = Some(8 + self.size);
        }
        let header = if self.v6 { 40 } else { 20 };
        let network = 14 + 4 * self.tags.len();
        let field = network + header + if self.tcp { 16 } else { 6 };
        let (mut frame, left) = self.packet(&quirk);
        let mut set = |at: usize, value: u16| {
            if let Some(place) = frame.get_mut(at..at + 2) {
                place.copy_from_slice(&value.to_be_bytes());
            }
        };
        match random.below(14) {
            0..6 => {}
            6 => frame.extend(vec![random.next() as u8; 1 + random.below(8)]),
            7 => frame.resize(frame.len().max(60), 0),
            8 => set(field, 0),
            9 => set(field, 0xffff),
            10 => *frame.last_mut().unwrap() ^= 1,
            // The checksum or the version of the IP header, and its length.
            11 if !self.v6 => set(network + 10, random.of(&[0, 0xffff])),
            11 => frame[network] ^= 0x10,
            12 if !self.v6 => set(network + 2, random.of(&[20, 30, 5000])),
            12 => set(network + 4, random.of(&[0, 4, 5000])),
            // The length of UDP, or the header length of TCP.
            _ if !self.tcp => set(network + header + 4, 9),
            _ => frame[network + header + 12] = 0x30,
        }
        (frame, left)
    }
}

/// A packet, its offload request, and its flow.
type Of = (Vec<u8>, Offload, u8);

/// A stream of interleaved flows, some of them out of order.
fn stream(random: &mut Random) -> Vec<Of> {
    let mut packets = Vec::<Of>::new();
    for flow in 0..1 + random.below(4) as u8 {
        let mut odd = Odd::new(random, flow);
        let count = if random.chance(4) { 1 + random.below(300) } else { 1 + random.below(30) };
        // In some flows nothing is odd.
        let rare = random.of(&[6, 20, 1000]);
        let mut at = random.below(packets.len() + 1);
        for _ in 0..count {
            if random.chance(rare) {
                odd.change(random);
            }
            let (frame, left) = if random.chance(rare) {
                odd.strange(random)
            } else {
                odd.packet(&Quirk::default())
            };
            at = (at + random.of(&[0, 0, 0, 1, 2])).min(packets.len());
            packets.insert(at, (frame, left, flow));
            at += 1;
        }
    }
    for _ in 0..random.below(4).min(packets.len()) {
        let (at, other) = (random.below(packets.len()), random.below(packets.len()));
        match random.below(3) {
            0 if packets.len() > 1 => drop(packets.remove(at)),
            1 => packets.swap(at, other),
            _ => packets.insert(other, packets[at].clone()),
        }
    }
    packets
}

/// The frame on the wire, with its checksum completed.
fn completed(frame: &[u8], left: &Offload) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(place) = left.checksum {
        assert!(place.complete(&mut frame));
    }
    frame
}

/// The output of a coalescer that sometimes flushes because of its limits or the time.
fn merged(random: &mut Random, packets: &[Of]) -> (Vec<(Vec<u8>, Offload)>, Coalescer) {
    let limits = Limits {
        flows: 1 + random.below(8),
        age: random.of(&[3, 1000]),
        size: random.of(&[65_535, 65_535, 9000]),
        ..Limits::default()
    };
    let mut coalescer = Coalescer::new(limits);
    let mut out = Vec::new();
    let mut send = |frame: &[u8], offload: Offload| out.push((frame.to_vec(), offload));
    for (now, (frame, left, _)) in packets.iter().enumerate() {
        coalescer.push(frame, *left, now as u64 / 16, &mut send);
        if random.chance(16) {
            coalescer.expire(now as u64 / 16, &mut send);
        }
    }
    coalescer.flush(&mut send);
    (out, coalescer)
}

/// Segments a frame, and checks the number of its packets.
fn split(frame: &[u8], left: &Offload) -> Vec<Vec<u8>> {
    if left.gso == Gso::None {
        return vec![completed(frame, left)];
    }
    let packets = cut(frame, left);
    assert!(packets.len() > 1);
    assert!(left.gso != Gso::Udp || packets.len() <= MAX_DATAGRAMS as usize);
    packets
}

/// The packets of each flow, in order.
fn by_flow(packets: impl Iterator<Item = (Vec<u8>, u8)>) -> HashMap<u8, Vec<Vec<u8>>> {
    let mut flows = HashMap::<_, Vec<_>>::new();
    packets.for_each(|(packet, flow)| flows.entry(flow).or_default().push(packet));
    flows
}

fn is_the_identity(seed: u64) -> Coalescer {
    let mut random = Random(seed);
    let packets = stream(&mut random);
    let (frames, coalescer) = merged(&mut random, &packets);
    let wire = |(frame, left, flow): &Of| (completed(frame, left), *flow);
    let flows: HashMap<_, _> = packets.iter().map(wire).collect();
    let again = frames.iter().flat_map(|(frame, left)| split(frame, left));
    let again = by_flow(again.map(|packet| {
        let flow = flows.get(&packet).copied();
        let flow = flow.unwrap_or_else(|| panic!("stream {seed}: nobody sent {packet:02x?}"));
        (packet, flow)
    }));
    assert!(again == by_flow(packets.iter().map(wire)), "stream {seed}");
    coalescer
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_odd_stream_comes_back_as_it_was(seed: u64) {
        is_the_identity(seed);
    }
}

/// Checks that the property is not vacuous: odd streams are merged and contain every peculiarity.
#[test]
fn odd_streams_are_merged_and_everything_odd_is_in_them() {
    let (mut packets, mut merged, mut partial) = (0, 0, 0);
    let mut reasons = BTreeSet::new();
    for seed in 0..200 {
        let stats = is_the_identity(seed).counters().snapshot();
        (packets, merged) = (packets + stats.packets, merged + stats.merged);
        partial += stats.partial;
        reasons.extend(stats.alone.iter().chain(&stats.flushed).map(|reason| reason.reason));
    }
    assert!(merged > packets / 2 && partial > packets / 20, "{merged} of {packets}, {partial}");
    for reason in Alone::ALL {
        // These reasons need offload requests of a port, a switch, or the MTU of a sink.
        let is_here = !matches!(reason, Alone::Offload | Alone::Cut | Alone::AboveMtu);
        assert!(!is_here || reasons.contains(reason.as_str()), "{reason} is not in {reasons:?}");
    }
}

/// The number of datagrams in a frame is at most the number that the kernel segments and that its
/// GRO merges, even in a long flow.
#[test]
fn no_frame_has_more_datagrams_than_the_kernel_takes() {
    for (count, frames) in [(64, vec![64]), (65, vec![64, 1]), (300, vec![64, 64, 64, 64, 44])] {
        for v6 in [false, true] {
            let mut odd = Odd::new(&mut Random(1), 1);
            (odd.v6, odd.tcp, odd.form, odd.id_step, odd.size) = (v6, false, Form::Complete, 1, 50);
            let packets: Vec<_> = (0..count).map(|_| odd.packet(&Quirk::default())).collect();
            let mut coalescer = Coalescer::new(Limits::default());
            let mut got = Vec::new();
            let mut send = |frame: &[u8], left: Offload| got.push(split(frame, &left).len());
            packets.iter().for_each(|(frame, left)| coalescer.push(frame, *left, 0, &mut send));
            coalescer.flush(&mut send);
            assert_eq!(got, frames, "{count} over IPv{}", if v6 { 6 } else { 4 });
        }
    }
}

/// A datagram that is too long for the sink must be fragmented, which is impossible for a frame of
/// several datagrams.
#[test]
fn packets_longer_than_the_sink_takes_stay_alone() {
    let mut odd = Odd::new(&mut Random(1), 1);
    (odd.v6, odd.tags, odd.form, odd.id_step) = (false, vec![[0x8100, 7]], Form::Complete, 1);
    for tcp in [false, true] {
        let header = if tcp { 20 + 4 * odd.options } else { 8 };
        for (more, alone) in [(0, 0), (1, 10)] {
            (odd.tcp, odd.size) = (tcp, 576 - 20 - header + more);
            let mut coalescer = Coalescer::new(Limits { packet: 576, ..Limits::default() });
            for _ in 0..10 {
                let (frame, left) = odd.packet(&Quirk::default());
                coalescer.push(&frame, left, 0, &mut |_, _| {});
            }
            assert_eq!(coalescer.counters().alone(Alone::AboveMtu).value(), alone);
        }
    }
}

/// `UDP_MAX_SEGMENTS` of the running kernel is 64 or 128.
#[test]
fn privileged_linux_takes_as_many_datagrams_as_are_merged() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    for (count, takes) in [(MAX_DATAGRAMS as usize, true), (129, false)] {
        let frame = Frame::new(Gso::Udp, false, count * 50, 50);
        let (bytes, offload) = frame.build();
        let taken = oracle.write(&bytes, &offload, frame.header_len());
        assert_eq!(taken.is_ok(), takes, "{count}: {taken:?}");
    }
}

/// The kernel may change or drop other packets in flight: it loses padding, an urgent pointer
/// without the URG flag, and the IPv4 identification of UDP, which it does not check.
fn survives_linux(packet: &[u8]) -> bool {
    let mut coalescer = Coalescer::new(Limits::default());
    coalescer.push(packet, Offload::default(), 0, &mut |_, _| {});
    let stats = coalescer.counters().snapshot();
    let is_v6 = Layers::parse(packet).is_ok_and(|layers| matches!(layers.network, Network::V6(_)));
    is_v6 && stats.alone.iter().all(|row| row.reason == Alone::Single.as_str())
}

/// The coalescer merges packets into the same frames as the kernel's GRO, with the same offload
/// requests.
#[test]
fn privileged_linux_merges_odd_streams_into_the_same_frames() {
    if !privileged::require() {
        return;
    }
    let linux = Merger::new();
    let mut long = 0;
    for seed in 0.. {
        let mut random = Random(seed);
        let packets = stream(&mut random);
        let mut packets: Vec<_> =
            packets.iter().map(|(frame, left, _)| completed(frame, left)).collect();
        packets.retain(|packet| survives_linux(packet));
        let mut sent = HashMap::<_, i64>::new();
        packets.iter().for_each(|packet| *sent.entry(packet.clone()).or_default() += 1);
        for (frame, left) in linux.merge(&packets) {
            let again = split(&frame, &left);
            again.iter().for_each(|packet| *sent.entry(packet.clone()).or_default() -= 1);
            if left.gso == Gso::None {
                continue;
            }
            let mut ours = Vec::new();
            let mut coalescer = Coalescer::new(Limits::default());
            let mut send = |frame: &[u8], left: Offload| ours.push((frame.to_vec(), left));
            again.iter().for_each(|it| coalescer.push(it, Offload::default(), 0, &mut send));
            coalescer.flush(&mut send);
            let fixed_id = ours.first().is_some_and(|(_, left)| left.fixed_id);
            assert!(ours == [(frame, Offload { fixed_id, ..left })], "stream {seed}: {ours:02x?}");
            long += 1;
        }
        assert!(sent.values().all(|count| *count == 0), "stream {seed}");
        if long >= 400 {
            return;
        }
    }
}

/// The kernel segments merged frames into the same packets, too, if `virtio_net_hdr` can describe
/// the frames.
#[test]
fn privileged_linux_cuts_what_was_merged_of_odd_streams_into_the_same_packets() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    let mut frames = 0;
    for seed in 0.. {
        let mut random = Random(seed);
        let packets = stream(&mut random);
        for (frame, left) in merged(&mut random, &packets).0 {
            let has_place = left.checksum.is_some() && !left.fixed_id && !left.accurate_ecn;
            if left.gso != Gso::None && has_place {
                let header = frame.len() - frame.len() % usize::from(left.size);
                let theirs = oracle.cut(&frame, &left, header.min(128));
                assert!(theirs == split(&frame, &left), "stream {seed}: {left:?}");
                frames += 1;
            }
        }
        if frames >= 1000 {
            return;
        }
    }
}
