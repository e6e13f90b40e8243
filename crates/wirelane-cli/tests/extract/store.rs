//! A store of two lanes and several segments, and running the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use wirelane::Class;
use wirelane::pcap::{CaptureReader, CompressionOptions, Direction, Record, Source};
use wirelane_store::{StoreOptions, StoreWriter};
use wirelane_testkit::packets;
use wirelane_testkit::process::{Output, output};

/// 2026-11-23T02:41:44Z.
pub(crate) const START: u64 = 1_795_401_704_000_000_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
/// Packets of a store, one each millisecond.
pub(crate) const PACKETS: u64 = 12_000;
/// This many packets have equal addresses: packet `i` is from 10.0.0.(i / 1000) to 10.1.0.1.
pub(crate) const PER_HOST: u64 = 1000;

pub(crate) struct Store(TempDir);

impl Store {
    /// Even packets on one lane, odd ones on another.
    pub(crate) fn new(compression: Option<&str>) -> Self {
        let store = Self(tempfile::tempdir().unwrap());
        let compression = compression.and_then(|how| CompressionOptions::parse(how).unwrap());
        let options = StoreOptions::default().segment_bytes(4 << 20).compression(compression);
        let mut writer = StoreWriter::create(store.path(), options).unwrap();
        let source = |queue| Source::new("eth0", Class::Rx, Some(queue));
        let mut lanes = [0, 1].map(|queue| writer.lane(&[source(queue)], None).unwrap());
        for number in 0..PACKETS {
            let data = packet(number);
            let lane = &mut lanes[(number % 2) as usize];
            let record = Record {
                interface: 0,
                timestamp: START + number * MILLISECOND,
                original_len: data.len() as u32,
                direction: Direction::Unknown,
                data: &data,
            };
            let comment = (number == 42).then_some("the answer");
            assert!(lane.wait_for_room(data.len(), Duration::from_secs(60)));
            assert!(lane.push(&record, comment));
        }
        drop(lanes);
        assert_eq!(writer.finish().total().written.packets, PACKETS);
        store
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Files whose names end with `suffix`, in order.
    pub(crate) fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect();
        files.sort();
        files
    }
}

/// Packet number `number`.
fn packet(number: u64) -> Vec<u8> {
    let packet = match number % 10 {
        9 => packets::tcp4(number),
        _ => packets::udp4(number),
    };
    let source = [10, 0, 0, (number / PER_HOST) as u8];
    packet.addresses(source, [10, 1, 0, 1]).length(1000).build()
}

/// Runs `wirelane` with these words, and then the others, which are separated by spaces.
pub(crate) fn wirelane<A: AsRef<OsStr>>(first: impl IntoIterator<Item = A>, more: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    output(command.args(first).args(more.split_ascii_whitespace()))
}

/// As [`wirelane`], of `extract` and the store.
pub(crate) fn extract(store: &Store, more: &str) -> Output {
    wirelane([OsStr::new("extract"), store.path().as_os_str()], more)
}

/// The numbers of the packets of a capture file, after checking their times.
pub(crate) fn numbers(path: &Path) -> Vec<u64> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut numbers = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let number = packets::sequence(record.data).unwrap();
        assert_eq!(record.timestamp, START + number * MILLISECOND);
        numbers.push(number);
    }
    numbers
}
