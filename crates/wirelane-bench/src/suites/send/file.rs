//! Capture files to send: classic pcap in microseconds, which every program can read.

use std::fs;
use std::path::Path;

use wirelane::error::{Error, Result};
use wirelane_pcap::pcap::{self, Resolution};
use wirelane_pcap::{Direction, LINK_TYPE_ETHERNET, Record, Source};

use crate::suites::senders;

/// Flows of the packets.
const FLOWS: u64 = 64;
/// The first time of the files. Any time after 1970 would do.
const BEGIN: u64 = 1_700_000_000_000_000_000;

/// Packets, one of each flow.
pub(super) fn packets(size: usize) -> Result<Vec<Vec<u8>>> {
    senders::frames(FLOWS, size)
}

/// Writes a file of these packets in turn, one at each of the times. Times are nanoseconds after
/// the start, truncated to microseconds.
pub(super) fn write(path: &Path, packets: &[Vec<u8>], times: &[u64]) -> Result<()> {
    let mut bytes = Vec::new();
    let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
    pcap::file_header(&mut bytes, Resolution::Microseconds, &source);
    for (time, data) in times.iter().zip(packets.iter().cycle()) {
        let record = Record {
            interface: 0,
            timestamp: BEGIN + time,
            original_len: data.len() as u32,
            direction: Direction::default(),
            data,
        };
        pcap::packet(&mut bytes, Resolution::Microseconds, &record);
    }
    fs::write(path, bytes).map_err(|error| Error::io(path.display().to_string(), "write", error))
}

/// Times in whole microseconds. The gaps vary from half of the mean to one and a half of it, so
/// that the traffic has no rhythm that a pacer could match by chance.
pub(super) fn uneven(packets: u64, mean_us: u64) -> Vec<u64> {
    let (mut at, mut state) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    let next = |_| {
        let now = at;
        // xorshift64 (Marsaglia, 2003)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        at += (mean_us / 2 + state % (mean_us + 1)) * 1000;
        now
    };
    (0..packets).map(next).collect()
}

/// Times at equal distances.
pub(super) fn even(packets: u64, gap_us: u64) -> Vec<u64> {
    (0..packets).map(|number| number * gap_us * 1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_pcap::CaptureReader;

    #[test]
    fn a_file_has_its_packets_at_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let (packets, times) = (packets(64).unwrap(), uneven(1000, 100));
        write(&path, &packets, &times).unwrap();
        let mut reader = CaptureReader::open(&path).unwrap();
        for (number, time) in times.iter().enumerate() {
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!((record.timestamp - BEGIN, record.data.len()), (*time, 64));
            assert_eq!(record.data, packets[number % packets.len()]);
        }
        assert!(reader.next_record().unwrap().is_none());
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (50_000..=150_000).contains(gap)));
        let mean = times.last().unwrap() / 999;
        assert!((95_000..105_000).contains(&mean), "{mean}");
        assert_eq!(even(3, 7), [0, 7000, 14_000]);
    }
}
