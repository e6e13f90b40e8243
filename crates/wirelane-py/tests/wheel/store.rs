//! Writes a store of known packets, with two lanes and several segments. The Python tests read it.

use std::path::Path;
use std::time::Duration;

use wirelane::Class;
use wirelane::pcap::{Direction, Record, Source};
use wirelane_store::{StoreOptions, StoreWriter};
use wirelane_testkit::packets;

/// 2026-11-23T02:41:44Z.
const START: u64 = 1_795_401_704_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const PACKETS: u64 = 6000;
/// The number of consecutive packets with the same addresses.
const PER_HOST: u64 = 1000;

/// Writes the store to `path`, and returns `path`.
pub(crate) fn write(path: &Path) -> &Path {
    let options = StoreOptions::default().segment_bytes(4 << 20);
    let mut writer = StoreWriter::create(path, options).unwrap();
    let source = |queue| Source::new("eth0", Class::Rx, Some(queue));
    let mut lanes = [0, 1].map(|queue| writer.lane(&[source(queue)], None).unwrap());
    for number in 0..PACKETS {
        let packet = match number % 10 {
            9 => packets::tcp4(number),
            _ => packets::udp4(number),
        };
        let from = [10, 0, 0, (number / PER_HOST) as u8];
        let data = packet.addresses(from, [10, 1, 0, 1]).length(1000).build();
        let record = Record {
            interface: 0,
            timestamp: START + number * MILLISECOND,
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data: &data,
        };
        let lane = &mut lanes[(number % 2) as usize];
        assert!(lane.wait_for_room(data.len(), Duration::from_secs(60)));
        assert!(lane.push(&record, None));
    }
    drop(lanes);
    assert_eq!(writer.finish().total().written.packets, PACKETS);
    path
}
