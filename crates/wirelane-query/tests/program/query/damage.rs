//! Damaged Parquet files: for any wrong bytes, the answer is rows or an error that names the file.

use std::fs;
use std::path::Path;

use wirelane_pcap::{CaptureWriter, Direction, LINK_TYPE_ETHERNET, Record, Source, WriterOptions};
use wirelane_testkit::{files, packets, process};

use super::{query, three_hours};
use crate::flows::wirelane;
use crate::made::{START, write};

/// Seeds of damage, including some that make readers of Parquet 59 panic.
const SEEDS: [u64; 29] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 85, 108, 145, 255, 295,
    307, 400, 403, 474,
];

/// Marsaglia's xorshift: the same damage every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Changes a few bytes, most of them in the footer, where every byte matters.
fn damage(bytes: &mut [u8], seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let length = bytes.len();
    let footer = u32::from_le_bytes(bytes[length - 8..][..4].try_into().unwrap()) as usize;
    for _ in 0..[1, 1, 2, 4, 16][random.below(5)] {
        let at = match random.below(5) {
            0 | 1 => random.below(length),
            _ => length - 8 - footer + random.below(footer),
        };
        bytes[at] = match random.below(3) {
            0 => bytes[at] ^ 1 << random.below(8),
            1 => [0, 127, 128, 255][random.below(4)],
            _ => random.below(256) as u8,
        };
    }
}

fn survives(file: &Path, questions: &[&str]) {
    let whole = fs::read(file).unwrap();
    let name = file.to_str().unwrap();
    let mut failures = 0;
    for seed in SEEDS {
        let mut bytes = whole.clone();
        damage(&mut bytes, seed);
        fs::write(file, bytes).unwrap();
        let question = questions[seed as usize % questions.len()];
        let ended = process::output(&mut query(&[question, "--format", "csv"], &[file]));
        match ended.status.code() {
            Some(0) => assert_eq!(ended.stderr, "", "{seed}"),
            Some(1) => {
                failures += 1;
                let said = &ended.stderr;
                assert!(said.lines().count() == 1 && said.contains(name), "{seed}: {said}");
            }
            other => panic!("{seed}: {other:?} {}", ended.stderr),
        }
    }
    assert!(failures > SEEDS.len() / 4, "{failures}");
    fs::write(file, whole).unwrap();
}

#[test]
fn damaged_flows_are_an_error_that_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let file = files::below(directory.path())[0].clone();
    let sum = "SELECT sum(octets) FROM flows WHERE source = '10.0.0.7'";
    survives(&file, &["SELECT * FROM flows", sum]);
}

#[test]
fn damaged_packets_are_an_error_that_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (capture, rows) = (directory.path().join("a.pcapng"), directory.path().join("rows"));
    let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
    let options = WriterOptions::of_path(&capture);
    let mut writer = CaptureWriter::create(&capture, &[source], options, 0).unwrap();
    for number in 0..500 {
        let data = packets::udp4(number).flow(number as u16 % 9).build();
        let (original_len, direction) = (data.len() as u32, Direction::Unknown);
        let timestamp = START + number;
        let record = Record { interface: 0, timestamp, original_len, direction, data: &data };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    let mut command = wirelane();
    command.arg("flows").arg(&capture).args(["--packets", "--data", "-q", "-w"]);
    process::run(command.arg(rows.join("")));
    let file = files::below(&rows)[0].clone();
    let count = "SELECT count(*) FROM packets WHERE source_port > 5";
    survives(&file, &["SELECT * FROM packets", count]);
}
