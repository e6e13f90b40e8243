//! Tests of the generator.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::sizes::Sizes;

fn stream(text: &str, rate: &str) -> Stream {
    let mut stream = Stream::new("s", &text.parse().unwrap(), None, 0).unwrap();
    stream.rate = rate.parse().unwrap();
    stream
}

fn generator(streams: &[Stream], index: u32, of: u32) -> Generator {
    Generator::new(streams.into(), ThreadShare { index, of }, None).unwrap()
}

/// The first packets of one lane, with their bytes.
fn packets(generator: &mut Generator, most: usize) -> Vec<(Departure, Vec<u8>)> {
    let mut packets = Vec::new();
    while let Some(departure) = generator.next().unwrap().filter(|_| packets.len() < most) {
        let mut packet = vec![0xa5; departure.len];
        generator.write(&mut packet, departure.at);
        packets.push((departure, packet));
    }
    packets
}

fn times(generator: &mut Generator, most: usize) -> Vec<(u64, u32)> {
    packets(generator, most).iter().map(|(departure, _)| (departure.at, departure.stream)).collect()
}

#[test]
fn equal_streams_are_staggered() {
    let streams = vec![stream("udp", "1000pps"); 4];
    let expected =
        [(0, 0), (250_000, 1), (500_000, 2), (750_000, 3), (1_000_000, 0), (1_250_000, 1)];
    assert_eq!(times(&mut generator(&streams, 0, 1), 6), expected);
}

#[test]
fn streams_with_rates_of_their_own_do_not_begin_together() {
    let streams: Vec<_> = (0..50).map(|i| stream("udp", &format!("{}pps", 1000 + i))).collect();
    let times = times(&mut generator(&streams, 0, 1), 50);
    assert_eq!(times[0], (0, 0));
    // Each stream sends once, and all gaps are close to the mean of 20 us.
    assert_eq!(times.iter().map(|(_, stream)| stream).collect::<HashSet<_>>().len(), 50);
    assert!(times.is_sorted() && times.windows(2).all(|pair| pair[1].0 - pair[0].0 < 60_000));
}

#[test]
fn sizes_that_differ_are_staggered_over_their_mean() {
    let mut one = stream("udp", "8kbit");
    one.lengths = Sizes::Imix.lengths(60).unwrap();
    let mean = 4294 * 1_000_000 / 12;
    let streams = vec![one; 3];
    let mut generator = generator(&streams, 0, 1);
    let mut first = [None; 3];
    for (at, stream) in times(&mut generator, 20) {
        first[stream as usize].get_or_insert(at);
    }
    assert_eq!(first, [0, 1, 2].map(|j| Some(j * mean / 3)));
}

#[test]
fn as_fast_as_possible_takes_turns() {
    let mut streams = vec![stream("udp", "max"); 3];
    streams[1].count = Some(2);
    let order: Vec<u32> = times(&mut generator(&streams, 0, 1), 8).iter().map(|x| x.1).collect();
    // Streams 0 and 2 are a group, stream 1 another one.
    assert_eq!(order, [0, 2, 1, 0, 2, 1, 0, 2]);
}

#[test]
fn counts_and_durations_end() {
    let mut streams = vec![stream("udp", "1000pps"); 3];
    streams[0].count = Some(5);
    streams[1].duration = Some(10_000_000);
    streams[2].duration = Some(2_000_000);
    streams[2].start = 1_000_000;
    for of in [1, 2, 3] {
        let mut sent = [0; 3];
        for index in 0..of {
            for (_, stream) in times(&mut generator(&streams, index, of), 1000) {
                sent[stream as usize] += 1;
            }
        }
        // The phases shift the last packet out: one packet per millisecond remains, including the
        // start.
        assert_eq!(sent, [5, 10, 2], "{of}");
    }
}

#[test]
fn rates_that_do_not_go_together_are_refused() {
    let refused =
        |streams: &[Stream]| Generator::new(streams.into(), ThreadShare::ALL, None).unwrap_err();
    let error = refused(&[stream("udp", "max"), stream("udp", "5pps")]).to_string();
    assert!(error.contains("give all of them a rate"), "{error}");
    let error = refused(&[stream("udp", "5%")]).to_string();
    assert_eq!(error, "stream 's': the rate 5% needs the speed of the link");
    assert_eq!(generator(&[], 0, 1).next().unwrap(), None);
}

#[test]
fn shares_are_of_the_wire() {
    let mut half = stream("udp", "50%");
    assert!(half.resolve(None).is_err());
    half.resolve(Some(10_000_000_000)).unwrap();
    assert_eq!(half.packets_per_second().map(f64::round), Some(7_440_476.0));
}

#[test]
fn flows_stay_on_their_lanes() {
    // 4 flows are spread over 2 lanes; each of 5 streams with one flow belongs to one lane; 3 flows
    // of a single stream cannot be kept together.
    let of = |streams: &[Stream]| {
        let mut seen = Vec::new();
        for index in 0..2 {
            let sent = packets(&mut generator(streams, index, 2), 40);
            seen.push(sent.into_iter().map(|packet| packet.1).collect::<HashSet<_>>());
        }
        (seen[0].len(), seen[1].len(), seen[0].intersection(&seen[1]).count())
    };
    assert_eq!(of(&[stream("udp src=1-4", "max")]), (2, 2, 0));
    assert_eq!(of(&[stream("udp src=1-3", "max")]), (3, 3, 3));
    let streams: Vec<_> = (1..6).map(|port| stream(&format!("udp src={port}"), "5kpps")).collect();
    assert_eq!(of(&streams), (3, 2, 0));
}

#[test]
fn packets_are_signed_per_lane_and_what_is_skipped_is_not_numbered() {
    let mut one = Stream::new("s", &"udp".parse().unwrap(), None, signature::LEN).unwrap();
    one.rate = Rate::Packets(10.0);
    let key = SignatureKey(7);
    let lane = ThreadShare { index: 1, of: 2 };
    let mut generator = Generator::new([one].into(), lane, Some(key)).unwrap();
    for (at, sequence) in [(100_000_000, 0), (300_000_000, 1)] {
        let departure = generator.next().unwrap().unwrap();
        assert_eq!(departure, Departure { at, len: 60, stream: 0 });
        let mut packet = vec![0; 60];
        generator.write(&mut packet, 5);
        assert_eq!(Signature::parse(key, &packet), Some(Signature { flow: 1, sequence, time: 5 }));
    }
    generator.skip();
    let mut packet = vec![0; 60];
    assert_eq!(generator.next().unwrap().unwrap().at, 700_000_000);
    generator.write(&mut packet, 6);
    assert_eq!(Signature::parse(key, &packet), Some(Signature { flow: 1, sequence: 2, time: 6 }));
}

proptest! {
    /// For any streams and lanes: each lane is in order, and all lanes together send the packets of
    /// a single lane at the scheduled times.
    #[test]
    fn lanes_add_up(
        kinds in proptest::collection::vec((1..4u32, 0..3usize, 1..30u64, 0..3usize), 1..12),
        of in 1..5u32,
    ) {
        let streams: Vec<Stream> = kinds.iter().map(|(rate, text, count, sizes)| {
            let texts = ["udp", "ipv4 dst=10.0.0.0/30 udp", "udp src=random"];
            let mut stream = stream(texts[*text], &format!("{rate}kpps"));
            if *sizes > 0 {
                stream.rate = Rate::Bits(f64::from(*rate) * 1e5);
            }
            let sizes = ["64", "imix", "80"][*sizes].parse::<Sizes>().unwrap();
            stream.lengths = sizes.lengths(60).unwrap();
            stream.count = Some(*count);
            stream
        }).collect();
        let mut all = packets(&mut generator(&streams, 0, 1), 10_000);
        prop_assert!(all.is_sorted_by_key(|(departure, _)| departure.at));
        let mut sent: Vec<_> = (0..of).flat_map(|index| {
            let sent = packets(&mut generator(&streams, index, of), 10_000);
            assert!(sent.is_sorted_by_key(|(departure, _)| departure.at));
            sent
        }).collect();
        // With several lanes, the groups and so the phases may differ.
        let key = |(departure, packet): &(Departure, Vec<u8>)| (departure.stream, packet.clone());
        all.sort_by_key(key);
        sent.sort_by_key(key);
        prop_assert_eq!(all.iter().map(key).collect::<Vec<_>>(), sent.iter().map(key).collect::<Vec<_>>());
        for (position, stream) in streams.iter().enumerate() {
            let count = all.iter().filter(|(departure, _)| departure.stream as usize == position).count();
            prop_assert_eq!(count as u64, stream.count.unwrap());
        }
    }
}
