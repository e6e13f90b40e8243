//! A simulated port: every packet is in its place, and none is missing.

use tempfile::tempdir;
use wirelane::Class;
use wirelane::internal::sim::Stream;
use wirelane_testkit::process::run;
use wirelane_testkit::tools;

use super::*;

/// The numbers of the packets of a simulated port. Each packet must be as its stream predicts.
#[track_caller]
fn numbers(spec: &str, packets: &[Packet]) -> Vec<u64> {
    let stream = Stream::new(&spec.parse().unwrap()).unwrap();
    let number = |packet: &Packet| {
        let number = stream.number(&packet.data).expect("an intact packet");
        let predicted = stream.packet(number);
        assert_eq!(predicted.bytes, packet.data, "packet {number}");
        let queue = (predicted.class != Class::Other).then_some(u32::from(predicted.queue));
        assert_eq!((packet.class, packet.queue), (Some(predicted.class), queue));
        number
    };
    let mut numbers: Vec<_> = packets.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn every_packet_of_every_queue_is_recorded_once() {
    let directory = tempdir().unwrap();
    for (i, options) in
        [&[][..], &["--single"], &["--compress", "lz4"], &["--compress", "zstd:3,threads=2"]]
            .iter()
            .enumerate()
    {
        let store = directory.path().join(i.to_string());
        let spec = "sim:3?count=20000&size=imix&tx=2";
        let args = [&[spec, store.to_str().unwrap()], *options].concat();
        let summary = record(&args);
        assert_eq!(summary["totals"]["written"], 20_000, "{options:?}");
        assert_eq!(summary["store"]["packets"], 20_000);
        assert_eq!(summary["store"]["trouble"], Value::Null);
        assert_eq!(summary["store"]["lag_bytes"], 0);
        assert!(numbers(spec, &stored(&store)).into_iter().eq(0..20_000));
        assert_counters(&summary, &store);
        let bytes: u64 = segments(&store).iter().map(|path| path.metadata().unwrap().len()).sum();
        // The description at the start of each segment is not counted.
        let starts = 4096 * segments(&store).len() as u64;
        assert_eq!(number(&summary["totals"]["written_bytes"]) + starts, bytes);
        assert_eq!(summary["totals"]["files"], segments(&store).len());
    }
}

#[test]
fn a_recording_goes_on_where_the_last_one_ended() {
    let directory = tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    for count in 1..=3_u64 {
        let summary = record(&["sim:1?count=100", store]);
        assert_eq!(summary["store"]["stored"]["segments"], count);
        assert_eq!(stored(directory.path()).len() as u64, count * 100);
    }
}

#[test]
fn exactly_as_many_as_asked_for() {
    let directory = tempdir().unwrap();
    let summary = record(&["sim:4?rate=max", directory.path().to_str().unwrap(), "-c", "12345"]);
    assert_eq!(summary["totals"]["written"], 12_345);
    assert_eq!(stored(directory.path()).len(), 12_345);
}

/// The oldest segments are deleted first, and the limit is exceeded by one segment at most.
#[test]
fn a_limit_of_bytes_is_kept() {
    let directory = tempdir().unwrap();
    let (spec, limit) = ("sim:1?count=60000&size=1500", 24 << 20);
    let args = [spec, directory.path().to_str().unwrap(), "--segment", "4M", "--max-bytes", "24M"];
    let summary = record(&args);
    assert_eq!(summary["totals"]["written"], 60_000);
    let stored_bytes = number(&summary["store"]["stored"]["bytes"]);
    assert!(stored_bytes <= limit && stored_bytes > limit / 2, "{stored_bytes}");
    let deleted = number(&summary["store"]["stored"]["deleted_segments"]);
    assert!(deleted > 10, "{deleted}");
    let left = numbers(spec, &stored(directory.path()));
    assert!(left.iter().copied().eq(left[0]..60_000), "the newest are there, without a gap");
}

/// tcpdump, tshark and the decompressors read segments as any other file.
#[test]
fn other_programs_read_the_segments() {
    if !tools::require("tcpdump") || !tools::require("lz4") || !tools::require("zstd") {
        return;
    }
    let directory = tempdir().unwrap();
    for (compress, unpack) in [("none", "cat"), ("lz4", "lz4 -dc"), ("zstd", "zstd -dc")] {
        let store = directory.path().join(compress);
        record(&["sim:2?count=3000", store.to_str().unwrap(), "--compress", compress]);
        let mut lines = 0;
        for segment in segments(&store) {
            let script = format!("{unpack} '{}' | tcpdump -nr - 2>/dev/null", segment.display());
            lines += run(Command::new("sh").args(["-c", &script])).lines().count();
        }
        assert_eq!(lines, 3000, "{compress}");
    }
}

#[test]
fn a_file_is_recorded_with_its_interfaces() {
    let directory = tempdir().unwrap();
    let (file, store) = (directory.path().join("x.pcapng"), directory.path().join("store"));
    let file = file.to_str().unwrap();
    let made = output(&mut wirelane(["capture", "-q", "sim:3?count=5000&tx=3", "-w", file]));
    assert!(made.status.success(), "{}", made.stderr);
    record(&[&format!("file:{file}"), store.to_str().unwrap()]);
    assert_eq!(stored(&store), packets(file));
}

/// The first packets of all queues, in order of time.
#[test]
fn the_first_packets_are_recorded() {
    const FIRST: u64 = 777;
    let spec = "sim:4?count=6000&rate=200kpps&tx=3&other=5&flows=40&seed=7";
    for options in [&[][..], &["--single"], &["--compress", "zstd"]] {
        let directory = tempdir().unwrap();
        let limit = FIRST.to_string();
        let args = [&[spec, directory.path().to_str().unwrap(), "-c", &limit], options].concat();
        let summary = record(&args);
        assert_eq!(summary["totals"]["written"], FIRST, "{options:?}");
        assert_eq!(summary["totals"]["delivered"], FIRST, "{options:?}");
        let found = stored(directory.path());
        assert!(found.is_sorted_by_key(|packet| packet.timestamp), "{options:?}");
        assert!(numbers(spec, &found).into_iter().eq(0..FIRST), "{options:?}");
        assert_counters(&summary, directory.path());
    }
}
