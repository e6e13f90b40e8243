//! Tests of the formats, the reader and the writer against each other and against tshark.

mod damage;
mod files;
mod foreign;
mod memory;
mod pass;
mod tools;

use std::io::Read;
use std::path::Path;

use proptest::prelude::*;

use super::class::Class;
use super::compress::Compressor;
use super::decompress::decompress;
use super::pcap::{PcapReader, Resolution};
use super::pcapng::PcapngReader;
use super::*;

/// A record that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    interface: u32,
    timestamp: u64,
    original_len: u32,
    direction: Direction,
    data: Vec<u8>,
}

impl Owned {
    fn new(interface: u32, timestamp: u64, data: &[u8]) -> Self {
        let original_len = data.len() as u32;
        Self {
            interface,
            timestamp,
            original_len,
            direction: Direction::Unknown,
            data: data.into(),
        }
    }

    fn of(record: &Record<'_>) -> Self {
        Self {
            interface: record.interface,
            timestamp: record.timestamp,
            original_len: record.original_len,
            direction: record.direction,
            data: record.data.into(),
        }
    }

    fn record(&self) -> Record<'_> {
        Record {
            interface: self.interface,
            timestamp: self.timestamp,
            original_len: self.original_len,
            direction: self.direction,
            data: &self.data,
        }
    }
}

/// Three sources: an RX queue with everything known, a TX queue, and OTHER.
fn sources() -> Vec<Source> {
    let mut first = Source::new("eth0", Class::Rx, Some(3));
    first.snaplen = 65_535;
    first.hardware = Some("sim".into());
    first.os = Some("Linux 6.18".into());
    first.filter = Some("udp port 53".into());
    first.speed = Some(25_000_000_000);
    first.fcs_len = Some(4);
    vec![first, Source::new("eth0", Class::Tx, Some(0)), Source::new("eth0", Class::Other, None)]
}

fn counters(interface: u32) -> Statistics {
    Statistics {
        interface,
        timestamp: 1_700_000_009_000_000_001,
        start: Some(1_700_000_000_000_000_002),
        end: Some(1_700_000_009_000_000_003),
        received: Some(u64::MAX - 1),
        dropped: Some(1 << 40),
        filter_accepted: None,
        os_dropped: Some(7),
        delivered: Some(0),
    }
}

fn records() -> impl Strategy<Value = Vec<Owned>> {
    let direction = prop_oneof![
        4 => Just(Direction::Unknown),
        1 => Just(Direction::Inbound),
        1 => Just(Direction::Outbound)
    ];
    let size = prop_oneof![4 => 0..200usize, 1 => 1_400..1_600usize, 1 => 8_900..9_300usize];
    let data = size.prop_flat_map(|size| proptest::collection::vec(any::<u8>(), size));
    let record = (0..3u32, 1..u64::MAX, any::<u32>(), direction, data).prop_map(
        |(interface, timestamp, original_len, direction, data)| Owned {
            interface,
            timestamp,
            original_len,
            direction,
            data,
        },
    );
    proptest::collection::vec(record, 0..40)
}

/// Everything a file holds, and the error at its end.
fn read_all(path: &Path) -> (Vec<Owned>, Option<CaptureError>) {
    match CaptureReader::open(path) {
        Ok(mut reader) => {
            drain(|| reader.next_record().map(|record| record.map(|record| Owned::of(&record))))
        }
        Err(error) => (Vec::new(), Some(error)),
    }
}

fn drain(
    mut next: impl FnMut() -> Result<Option<Owned>, CaptureError>,
) -> (Vec<Owned>, Option<CaptureError>) {
    let mut all = Vec::new();
    loop {
        match next() {
            Ok(Some(record)) => all.push(record),
            Ok(None) => return (all, None),
            Err(error) => {
                assert!(next().is_ok_and(|record| record.is_none()), "an error ends the file");
                return (all, Some(error));
            }
        }
    }
}

fn read_pcapng(bytes: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    let mut reader = PcapngReader::new(bytes, "test");
    drain(|| reader.next_record().map(|record| record.map(|record| Owned::of(&record))))
}

fn read_pcap(bytes: &[u8]) -> (Vec<Owned>, Option<CaptureError>) {
    let mut reader = PcapReader::new(bytes, "test");
    drain(|| reader.next_record().map(|record| record.map(|record| Owned::of(&record))))
}

/// Compresses bytes into one frame, at the fastest level.
fn compressed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compressor = Compressor::new(CompressionOptions::fastest(compression)).unwrap();
    compressor.compress(bytes, &mut out).unwrap();
    out
}

fn write(path: &Path, records: &[Owned]) -> Written {
    write_with(path, records, WriterOptions::of_path(path))
}

fn write_as(path: &Path, records: &[Owned], compression: CompressionOptions) -> Written {
    let compression = Some(compression);
    write_with(path, records, WriterOptions { compression, ..WriterOptions::of_path(path) })
}

fn write_with(path: &Path, records: &[Owned], options: WriterOptions) -> Written {
    let mut writer = CaptureWriter::create(path, &sources(), options, 0).unwrap();
    for record in records {
        writer.write(&record.record()).unwrap();
    }
    writer.finish(&[counters(0), counters(2)]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Compressing and decompressing any chunk is the identity, and so is the same for two chunks
    /// in sequence.
    #[test]
    fn chunks_come_back(
        first in proptest::collection::vec(any::<u8>(), 0..3000),
        second in proptest::collection::vec(0..3u8, 0..3000),
        kind in 0..3usize,
        level in 1..10u8,
    ) {
        let compression = Compression::ALL[kind];
        let level = level.min(*compression.levels().end());
        let mut compressor =
            Compressor::new(CompressionOptions { compression, level, threads: 1 }).unwrap();
        let (mut file, mut out) = (Vec::new(), Vec::new());
        for data in [&first, &second] {
            compressor.compress(data, &mut out).unwrap();
            file.extend_from_slice(&out);
        }
        let mut read = Vec::new();
        let source = std::io::Cursor::new(file);
        decompress(compression, source).unwrap().read_to_end(&mut read).unwrap();
        prop_assert_eq!(read, [first, second].concat());
    }

    #[test]
    fn write_then_read_is_the_identity(records in records()) {
        let directory = tempfile::tempdir().unwrap();
        for suffix in ["pcapng", "pcapng.gz", "pcapng.lz4", "pcapng.zst"] {
            let path = directory.path().join("a").with_extension(suffix);
            let written = write(&path, &records);
            prop_assert_eq!(written.packets, records.len() as u64);
            prop_assert_eq!(written.bytes, path.metadata().unwrap().len());

            let mut reader = CaptureReader::open(&path).unwrap();
            prop_assert_eq!(reader.interfaces(), sources(), "known before the first packet");
            let (read, error) = drain(|| {
                reader.next_record().map(|record| record.map(|record| Owned::of(&record)))
            });
            prop_assert!(error.is_none(), "{suffix}: {error:?}");
            prop_assert_eq!(&read, &records, "{}", suffix);
            prop_assert_eq!(reader.statistics(), [counters(0), counters(2)]);
            prop_assert!(reader.section().unwrap().application.starts_with("wirelane "));
        }
        // Classic pcap holds neither interface nor direction, and 32-bit seconds.
        for (suffix, resolution, unit) in [
            ("pcap", Resolution::Nanoseconds, 1),
            ("pcap.gz", Resolution::Microseconds, 1000),
        ] {
            let path = directory.path().join("a").with_extension(suffix);
            let mut options = WriterOptions::of_path(&path);
            prop_assert_eq!(options.format, FileFormat::Pcap(Resolution::Nanoseconds));
            options.format = FileFormat::Pcap(resolution);
            let mut writer = CaptureWriter::create(&path, &sources(), options, 0).unwrap();
            let mut expected = records.clone();
            for record in &mut expected {
                record.interface = 0;
                record.direction = Direction::Unknown;
                record.timestamp %= (1 << 32) * 1_000_000_000;
                record.timestamp -= record.timestamp % unit;
                writer.write(&record.record()).unwrap();
            }
            writer.finish(&[]).unwrap();
            let (read, error) = read_all(&path);
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert_eq!(&read, &expected);
        }
    }
}
