//! Rotation: each file is complete, and together they hold the capture.

use std::fs;
use std::path::PathBuf;

use tempfile::tempdir;
use wirelane_testkit::files::below;
use wirelane_testkit::tools;
use wirelane_testkit::tshark::{capinfos, check_clean};

use super::*;

// Block types of pcapng.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// The files that a rotation of `x.pcapng` has left in `directory`, by number.
pub(crate) fn rotated(directory: &Path) -> Vec<PathBuf> {
    let files = below(directory);
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        // x_00001_20261120213000.pcapng
        let shape: String =
            name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "x_00000_00000000000000.pcapng", "{name}");
    }
    files
}

/// The types of a file's blocks, whose lengths must be consistent to its last byte.
fn blocks(file: &Path) -> Vec<u32> {
    let bytes = fs::read(file).unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut types) = (0, Vec::new());
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length, "{} at {at}", file.display());
        types.push(word(at));
        at += length;
    }
    types
}

/// The file begins with the section and all interfaces, then has packets, and ends with the
/// counters of all interfaces.
#[track_caller]
pub(crate) fn assert_complete(file: &Path, interfaces: usize) {
    let types = blocks(file);
    let head = [vec![SECTION], vec![INTERFACE; interfaces]].concat();
    assert_eq!(types[..1 + interfaces], head, "{}", file.display());
    let end = &types[types.len() - interfaces..];
    assert_eq!(end, vec![STATISTICS; interfaces], "{}", file.display());
    let between = &types[head.len()..types.len() - interfaces];
    assert!(between.iter().all(|kind| [PACKET, STATISTICS].contains(kind)), "{between:?}");
}

/// A rotation and its content.
struct Rotated {
    summary: Value,
    /// Size of each file in bytes.
    sizes: Vec<u64>,
    /// Packets of each file.
    packets: Vec<Vec<Packet>>,
    /// Number of each file, from its name.
    numbers: Vec<usize>,
}

/// Runs a rotating capture into an empty directory, and checks that every file is complete.
#[track_caller]
fn rotate(spec: &str, options: &[&str]) -> Rotated {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let summary = capture(&[&[spec, "-w", path.to_str().unwrap()], options].concat());
    let files = rotated(directory.path());
    let interfaces = summary["queues"].as_array().unwrap().len();
    files.iter().for_each(|file| assert_complete(file, interfaces));
    if tools::require("tshark") {
        for file in [files.first(), files.last()].into_iter().flatten() {
            assert_eq!(check_clean(file), capinfos(file).packets);
        }
    }
    let number = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.split('_').nth(1).unwrap().parse().unwrap()
    };
    Rotated {
        sizes: files.iter().map(|file| file.metadata().unwrap().len()).collect(),
        packets: files.iter().map(packets).collect(),
        numbers: files.iter().map(number).collect(),
        summary,
    }
}

impl Rotated {
    /// Checks that the files together hold the packets `range` of the stream, in their order.
    #[track_caller]
    fn assert_holds(&self, spec: &str, range: std::ops::Range<u64>) {
        let all = self.packets.concat();
        assert!(is_in_order(&all));
        let numbers = predicted_numbers(&stream(spec), &all);
        assert!(numbers.into_iter().eq(range), "{spec}");
    }
}

/// Paced, so that the order of time is the order of numbers.
const SPEC: &str = "sim:4?rate=100kpps&count=20000&size=imix&other=9";

#[test]
fn by_size() {
    let rotated = rotate(SPEC, &["-C", "256k"]);
    rotated.assert_holds(SPEC, 0..20_000);
    let (last, others) = rotated.sizes.split_last().unwrap();
    assert!(others.len() > 10 && *last <= 256 << 10);
    // Full except for a packet and the counters of the five interfaces.
    assert!(others.iter().all(|size| (258_000..=256 << 10).contains(size)), "{others:?}");
    assert!(rotated.numbers.iter().copied().eq(1..=rotated.sizes.len()));
    let totals = &rotated.summary["totals"];
    assert_eq!(totals["files"], rotated.sizes.len());
    assert_eq!(totals["written_bytes"], rotated.sizes.iter().sum::<u64>());
}

#[test]
fn by_count() {
    let rotated = rotate(SPEC, &["--rotate-packets", "3k"]);
    rotated.assert_holds(SPEC, 0..20_000);
    let counts: Vec<_> = rotated.packets.iter().map(Vec::len).collect();
    assert_eq!(counts, [3000, 3000, 3000, 3000, 3000, 3000, 2000]);
}

#[test]
fn by_time() {
    let spec = "sim:2?rate=20kpps&count=20000";
    let rotated = rotate(spec, &["-G", "250ms"]);
    rotated.assert_holds(spec, 0..20_000);
    assert!((4..=6).contains(&rotated.packets.len()), "{}", rotated.packets.len());
    for packets in &rotated.packets {
        let span = packets.last().unwrap().timestamp - packets[0].timestamp;
        assert!(span < 250_000_000, "{span} ns in one file");
    }
    // The intervals follow each other without gaps, so files in the middle are full.
    let middle = &rotated.packets[1..rotated.packets.len() - 1];
    assert!(middle.iter().all(|packets| packets.len() == 5000));
}

#[test]
fn only_the_newest_files_are_kept() {
    for (options, least) in [(["--rotate-packets", "1k"], 2000), (["-C", "256k"], 1000)] {
        let rotated = rotate(SPEC, &[&options[..], &["-W", "3"]].concat());
        let files = number(&rotated.summary["totals"]["files"]) as usize;
        assert!(files > 10);
        assert_eq!(rotated.numbers, [files - 2, files - 1, files]);
        let kept = rotated.packets.concat().len() as u64;
        assert!(kept > least, "{kept}");
        rotated.assert_holds(SPEC, 20_000 - kept..20_000);
        // Deleted files count as written.
        assert_eq!(rotated.summary["totals"]["written"], 20_000);
    }
}

#[test]
fn limits_combine_with_split_and_compression() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng.gz");
    let spec = "sim:2?rate=100kpps&count=10000";
    let options = ["--split", "-C", "64k", "--rotate-packets", "500", "-G", "10s"];
    let summary = capture(&[&[spec, "-w", path.to_str().unwrap()], &options[..]].concat());
    let files = below(directory.path());
    assert_eq!(summary["totals"]["files"], files.len());
    let mut all = Vec::new();
    for file in &files {
        let packets = packets(file);
        assert!(packets.len() <= 500, "{}", file.display());
        let queue = packets[0].queue.unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("x.rx{queue}_0")), "{name}");
        assert!(packets.iter().all(|packet| packet.queue == Some(queue)), "{name}");
        all.extend(predicted_numbers(&stream(spec), &packets));
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..10_000));
}

/// Names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    below(directory).iter().map(name).collect()
}

/// A file of 50 packets, ten in each second from 2023-11-14 22:13:20 on.
fn write_old(path: &Path) {
    let words = [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 262_144, 1];
    let mut file: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    for number in 0..50 {
        for word in [1_700_000_000 + number / 10, number % 10 * 100_000, 60, 60] {
            file.extend_from_slice(&u32::to_le_bytes(word));
        }
        file.extend_from_slice(&[number as u8; 60]);
    }
    fs::write(path, file).unwrap();
}

/// Names come from the times of packets alone, and a second run replaces no file of the first.
#[test]
fn a_second_run_keeps_the_files_of_the_first() {
    let files = |suffix: &str| {
        let of = |at: u32| format!("x_{:05}_2023111422{}{suffix}.pcapng", at + 1, 1320 + at);
        (0..5).map(of).collect::<Vec<_>>()
    };
    for options in [["--rotate-packets", "10"], ["-G", "1s"]] {
        let directory = tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let source = directory.path().join("old");
        write_old(&source);
        let run = || {
            let args = ["-r", &path("old"), "-w", &path("x.pcapng")];
            capture(&[&args[..], &options].concat())
        };
        run();
        let mut expected = [vec!["old".to_owned()], files("")].concat();
        assert_eq!(names(directory.path()), expected, "{options:?}");
        let again = run();
        expected.extend(files("-1"));
        expected.sort();
        assert_eq!(names(directory.path()), expected, "{options:?}");
        let notes = again["ports"][0]["notes"].to_string();
        assert!(notes.contains("5 names were taken"), "{notes}");
        let all = expected.iter().filter(|name| *name != "old");
        assert_eq!(all.map(|name| packets(path(name)).len()).sum::<usize>(), 100);
    }
}

/// A ring deletes only files that its own run has made.
#[test]
fn a_ring_deletes_only_its_own_files() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    write_old(&directory.path().join("old"));
    let old = path("old");
    let run = |file: &str| {
        let options = ["--rotate-packets", "10", "-W", "2"];
        capture(&[&["-r", &old, "-w", &path(file)], &options[..]].concat())
    };
    run("x.pcapng");
    run("x.pcapng");
    let kept = ["old", "x_00004_20231114221323-1.pcapng", "x_00004_20231114221323.pcapng"];
    let last = ["x_00005_20231114221324-1.pcapng", "x_00005_20231114221324.pcapng"];
    assert_eq!(names(directory.path()), [&kept[..], &last].concat());
}

#[test]
fn the_files_of_queues_replace_none() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng.zst");
    let args = ["sim:2?count=100", "--split", "-w", path.to_str().unwrap()];
    capture(&args);
    let before: Vec<_> =
        below(directory.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    let again = capture(&args);
    let expected = ["rx0-1", "rx0", "rx1-1", "rx1"].map(|part| format!("x.{part}.pcapng.zst"));
    assert_eq!(names(directory.path()), expected);
    for (name, bytes) in ["rx0", "rx1"].iter().zip(before) {
        let file = directory.path().join(format!("x.{name}.pcapng.zst"));
        assert!(fs::read(file).unwrap() == bytes, "{name}");
    }
    let notes = again["ports"][0]["notes"].to_string();
    assert!(notes.contains("was there already"), "{notes}");
}

/// The size is that on disk: compressed files are as large as others, and hold more packets.
#[test]
fn by_size_of_compressed_files() {
    const LIMIT: u64 = 256 << 10;
    let limit = LIMIT.to_string();
    for (suffix, compress) in
        [("zst", None), ("gz", None), ("lz4", None), ("zst", Some("zstd:3,threads=3"))]
    {
        let directory = tempdir().unwrap();
        let path = directory.path().join(format!("x.pcapng.{suffix}"));
        let mut args =
            vec!["sim:2?count=60000&size=imix", "-w", path.to_str().unwrap(), "-C", &limit];
        args.extend(compress.into_iter().flat_map(|how| ["--compress", how]));
        let summary = capture(&args);
        let files = below(directory.path());
        let sizes: Vec<_> = files.iter().map(|file| file.metadata().unwrap().len()).collect();
        let (last, others) = sizes.split_last().unwrap();
        assert!(others.len() > 2 && *last <= LIMIT, "{args:?}: {sizes:?}");
        let full = LIMIT - LIMIT / 32 - 2000..=LIMIT;
        assert!(others.iter().all(|size| full.contains(size)), "{args:?}: {sizes:?}");
        let found: usize = files.iter().map(|file| packets(file).len()).sum();
        assert_eq!(found as u64, number(&summary["totals"]["written"]), "{args:?}");
        assert_eq!(found, 60_000, "{args:?}");
    }
}
