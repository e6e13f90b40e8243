//! Random packets, in random portions and at random times, are in the store.

use std::time::Duration;

use proptest::prelude::*;
use wirelane_pcap::{Compression, CompressionOptions, Statistics};
use wirelane_store::{StoreOptions, StoreWriter};

use crate::scratch::{Read, Scratch, packet, sources};

/// A step of a receiving thread.
#[derive(Clone, Debug)]
enum Step {
    /// Pushes this number of packets of this length; the clock is at this time.
    Push(u16, usize, u64),
    /// This number of milliseconds passes.
    Tick(u64),
    Statistics,
}

fn step() -> impl Strategy<Value = Step> {
    let times = prop_oneof![
        Just(0),
        1_700_000_000_000_000_000..1_700_000_001_000_000_000_u64,
        Just(u64::MAX - 1_000_000)
    ];
    let lengths = prop_oneof![0_usize..100, 0..2000_usize, 60_000..70_000_usize, Just(256 << 10)];
    prop_oneof![
        8 => (1_u16..20, lengths, times).prop_map(|(count, len, at)| Step::Push(count, len, at)),
        2 => (0_u64..2000).prop_map(Step::Tick),
        1 => Just(Step::Statistics),
    ]
}

fn compression() -> impl Strategy<Value = Option<CompressionOptions>> {
    let lz4 = CompressionOptions::fastest(Compression::Lz4);
    let zstd = CompressionOptions::fastest(Compression::Zstd).threads(2);
    prop_oneof![Just(None), Just(Some(lz4)), Just(Some(zstd))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn everything_is_there(steps in prop::collection::vec(step(), 1..60), compression in compression()) {
        let scratch = Scratch::in_memory();
        let options = StoreOptions::default().segment_bytes(4 << 20).buffer(4 << 20).compression(compression);
        let mut store = StoreWriter::create(scratch.path(), options).unwrap();
        let mut lane = store.lane(&sources(), None).unwrap();
        let (mut pushed, mut now) = (Vec::new(), 1);
        for step in steps {
            match step {
                Step::Push(count, len, at) => for number in 0..u64::from(count) {
                    let sample = packet(pushed.len() as u64);
                    let data = sample.data.iter().copied().cycle().take(len).collect();
                    let packet = Read { timestamp: at + number, data, ..sample };
                    prop_assert!(lane.wait_for_room(len, Duration::from_secs(60)));
                    prop_assert!(lane.push(&packet.record(), None));
                    pushed.push(packet);
                },
                Step::Tick(milliseconds) => {
                    now += milliseconds * 1_000_000;
                    lane.tick(now);
                }
                Step::Statistics => {
                    let one = Statistics { received: Some(now), ..Statistics::default() };
                    prop_assert!(lane.wait_for_room(200, Duration::from_secs(60)));
                    prop_assert!(lane.statistics(&[one; 2]));
                }
            }
        }
        lane.finish();
        let report = store.finish();
        prop_assert_eq!(report.troubles, 0, "{:?}", report);
        prop_assert_eq!(report.total().written.packets, pushed.len() as u64);
        prop_assert!(scratch.packets(0) == pushed, "packets differ");
        scratch.is_sound();
    }
}
