//! Damaged files of Parquet: whatever a byte says, the answer is rows or an error that names the
//! file.

use std::fs;
use std::path::Path;

use wirelane_testkit::{files, process};

use super::{query, three_hours};
use crate::flows::wirelane;
use crate::made::write;

/// Damaged copies of each file.
const COPIES: u64 = 40;

/// The xorshift of Marsaglia: the same damage every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Changes a few bytes, most of them of the footer, where each means something.
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
    for seed in 1..=COPIES {
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
    assert!(failures > COPIES / 4, "{failures}");
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
    let mut command = wirelane();
    let port = "sim:1?count=500&flows=9";
    command.args(["flows", port, "--packets", "--data", "-q", "-w"]).arg(directory.path());
    process::run(&mut command);
    let file = files::below(directory.path())[0].clone();
    let count = "SELECT count(*) FROM packets WHERE source_port > 5";
    survives(&file, &["SELECT * FROM packets", count]);
}
