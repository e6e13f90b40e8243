//! Captures of the simulated interface hold exactly the packets that its stream predicts.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};

use tempfile::tempdir;
use wirelane_testkit::tools;
use wirelane_testkit::tshark::{capinfos, check_clean_with_checksums, tshark_fields};

use super::*;

/// The file holds every packet of the stream once, in order of time, and the summary agrees.
#[track_caller]
fn assert_whole(spec: &str, summary: &Value, packets: &[Packet]) {
    let stream = stream(spec);
    let count = stream.count().unwrap();
    let mut numbers = predicted_numbers(&stream, packets);
    assert!(is_in_order(packets), "{spec}");
    if spec.contains("rate=") {
        assert!(numbers.is_sorted(), "{spec}: packets are due one after the other");
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..count), "{spec}: each packet once");

    let mut expected = BTreeMap::new();
    for predicted in (0..count).map(|k| stream.packet(k)) {
        let place = (predicted.class.as_str().to_owned(), predicted.queue);
        *expected.entry(place).or_insert(0) += 1;
    }
    let counted: BTreeMap<_, _> = summary["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| {
            let class = queue["class"].as_str().unwrap().to_owned();
            ((class, queue["queue"].as_u64().unwrap_or(0) as u16), number(&queue["packets"]))
        })
        .filter(|(_, packets)| *packets > 0)
        .collect();
    assert_eq!(counted, expected, "{spec}");
    assert_eq!(summary["totals"]["written"], count);
    assert_eq!(summary["totals"]["dropped"], 0);
    assert_eq!(summary["order"]["violations"], 0);
}

#[test]
fn one_file_holds_the_predicted_packets() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let path = file.to_str().unwrap();
    for spec in [
        "sim:1?count=3000",
        "sim:4?count=20000&size=imix&flows=99&other=7&tx=5",
        "sim:3?count=3000&proto=mix&ip=mix&vlan=9&size=1500",
        "sim:64?count=5000&flows=1000",
        "sim:200?count=5000&flows=1000",
        "sim:4?rate=50kpps&count=10000&other=10",
    ] {
        for mode in [&[][..], &["--single"], &["--cpus", "0"]] {
            let summary = capture(&[&[spec, "-w", path], mode].concat());
            assert_whole(spec, &summary, &packets(path));
        }
        if tools::require("tshark") && !(spec.contains("sim:64") || spec.contains("sim:200")) {
            let count = stream(spec).count().unwrap();
            assert_eq!(check_clean_with_checksums(&file), count, "{spec}");
            let infos = capinfos(&file);
            assert!(infos.in_order && infos.packets == count, "{infos:?}");
            assert!(infos.interfaces.iter().all(|interface| {
                interface.ticks_per_second == 1_000_000_000 && interface.statistics >= 1
            }));
        }
    }
}

/// A file per queue, merged, equals one file for all queues.
#[test]
fn split_and_merged_is_the_single_file() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let spec = "sim:4?rate=100kpps&count=20000&other=10&tx=3&flows=250";
    let single = capture(&[spec, "-w", &path("single.pcapng")]);
    let single_packets = packets(path("single.pcapng"));
    assert_whole(spec, &single, &single_packets);

    capture(&[spec, "--split", "-w", &path("split.pcapng")]);
    let mut parts = vec!["split.other.pcapng".to_owned()];
    for queue in 0..4 {
        parts.extend(["rx", "tx"].map(|class| format!("split.{class}{queue}.pcapng")));
    }
    for part in &parts {
        let packets = packets(path(part));
        assert!(!packets.is_empty(), "{part}");
        let place = (packets[0].class, packets[0].queue);
        assert!(packets.iter().all(|packet| (packet.class, packet.queue) == place), "{part}");
    }
    // In no particular order: the time decides.
    parts.rotate_left(3);
    let merged = path("merged.pcapng");
    let merge = wirelane(["merge", "-w", &merged, "--json"])
        .args(parts.iter().map(|part| path(part)))
        .output()
        .unwrap();
    assert!(merge.status.success());
    let report: Value = serde_json::from_slice(&merge.stdout).unwrap();
    assert_eq!(report["output"]["packets"], 20_000);
    assert_eq!(report["output"]["out_of_order"], 0);

    let merged_packets = packets(&merged);
    let relative = |packets: &[Packet]| {
        let begin = packets[0].timestamp;
        packets
            .iter()
            .map(|packet| Packet { timestamp: packet.timestamp - begin, ..packet.clone() })
            .collect::<Vec<_>>()
    };
    assert!(relative(&merged_packets) == relative(&single_packets), "the files differ");
    if tools::require("tshark") {
        assert_eq!(check_clean_with_checksums(Path::new(&merged)), 20_000);
    }
}

#[test]
fn compressed_files_hold_the_same() {
    let directory = tempdir().unwrap();
    let spec = "sim:4?count=5000&size=imix";
    for (suffix, tool) in [("gz", "gzip"), ("zst", "zstd")] {
        let file = directory.path().join(format!("x.pcapng.{suffix}"));
        let summary = capture(&[spec, "-w", file.to_str().unwrap()]);
        assert_whole(spec, &summary, &packets(&file));
        assert_eq!(summary["totals"]["written_bytes"], file.metadata().unwrap().len());
        if !tools::require(tool) {
            continue;
        }
        let plain = directory.path().join("plain.pcapng");
        let out = File::create(&plain).unwrap();
        let status = Command::new(tool).arg("-dc").arg(&file).stdout(out).status().unwrap();
        assert!(status.success(), "{tool}: {status}");
        assert!(packets(&plain) == packets(&file), "{tool} finds something else");
    }
}

#[test]
fn pcap_holds_the_same_without_queues() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap");
    let spec = "sim:4?rate=100kpps&count=5000&size=imix";
    let summary = capture(&[spec, "-w", file.to_str().unwrap()]);
    assert_eq!(summary["totals"]["written"], 5000);
    let (stream, packets) = (stream(spec), packets(&file));
    assert!(is_in_order(&packets));
    let numbers = packets.iter().map(|packet| {
        let number = stream.number(&packet.data).unwrap();
        assert_eq!(stream.packet(number).bytes, packet.data);
        assert_eq!((packet.class, packet.queue), (None, None));
        number
    });
    assert!(numbers.eq(0..5000));
    if tools::require("tshark") {
        let infos = capinfos(&file);
        assert!(infos.file_type == "nsecpcap", "{infos:?}");
        assert_eq!(check_clean_with_checksums(&file), 5000);
    }
}

#[test]
fn the_count_is_exact() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let path = file.to_str().unwrap();
    for count in ["1", "63", "64", "65", "1k", "4097"] {
        for (spec, mode) in
            [("sim:1", None), ("sim:3", None), ("sim:8?other=9", None), ("sim:8", Some("--single"))]
        {
            let mut args = vec![spec, "-c", count, "-w", path];
            args.extend(mode);
            let summary = capture(&args);
            let expected: u64 = count.replace('k', "000").parse().unwrap();
            assert_eq!(summary["totals"]["received"], expected, "{spec} -c {count}");
            assert_eq!(summary["totals"]["written"], expected, "{spec} -c {count}");
            let (stream, packets) = (stream(spec), packets(path));
            let numbers = predicted_numbers(&stream, &packets);
            assert_eq!(numbers.len() as u64, expected);
            // The first packets of each queue.
            let mut by_queue: BTreeMap<_, Vec<u64>> = BTreeMap::new();
            for (packet, number) in packets.iter().zip(numbers) {
                by_queue.entry((packet.class, packet.queue)).or_default().push(number);
            }
            for ((class, queue), numbers) in by_queue {
                let last = *numbers.last().unwrap();
                let first = (0..=last).filter(|k| {
                    let predicted = stream.packet(*k);
                    let number = Some(u32::from(predicted.queue));
                    (Some(predicted.class), number.filter(|_| queue.is_some())) == (class, queue)
                });
                assert!(numbers.into_iter().eq(first), "{spec} -c {count} {class:?} {queue:?}");
            }
        }
    }
}

#[test]
fn the_snap_length_cuts() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    for snaplen in [1usize, 60, 100, 65_535] {
        let spec = "sim:2?rate=50kpps&count=1000&size=imix";
        let path = file.to_str().unwrap();
        let summary = capture(&[spec, "-s", &snaplen.to_string(), "-w", path]);
        let (stream, packets) = (stream(spec), packets(&file));
        assert_eq!(packets.len(), 1000);
        let mut bytes = 0;
        for (k, packet) in (0..).zip(&packets) {
            let predicted = stream.packet(k).bytes;
            assert_eq!(packet.original_len as usize, predicted.len(), "{k}");
            assert_eq!(packet.data, predicted[..predicted.len().min(snaplen)], "{k}");
            bytes += predicted.len() as u64;
        }
        let queues = summary["queues"].as_array().unwrap();
        assert_eq!(queues.iter().map(|queue| number(&queue["bytes"])).sum::<u64>(), bytes);
        if tools::require("tshark") {
            let rows = tshark_fields(&file, &["frame.cap_len", "frame.len"]);
            assert!(rows.iter().zip(&packets).all(|(row, packet)| {
                *row == [packet.data.len().to_string(), packet.original_len.to_string()]
            }));
        }
    }
}

#[test]
fn the_duration_ends_it() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let spec = "sim:2?rate=20kpps&frames=131072";
    let summary = capture(&[spec, "--duration", "400ms", "-w", file.to_str().unwrap()]);
    let seconds = summary["elapsed_s"].as_f64().unwrap();
    assert!(seconds >= 0.4, "{seconds}");
    let packets = packets(&file);
    // All packets that were due before the end, and at least the packets due in that time.
    let numbers = predicted_numbers(&stream(spec), &packets);
    assert!(numbers.len() >= 7_900, "{}", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
}

#[test]
fn standard_output_feeds_other_programs() {
    for reader in [&["tshark", "-n", "-r", "-"][..], &["tcpdump", "-n", "-r", "-"]] {
        if !tools::require(reader[0]) {
            continue;
        }
        let args = ["capture", "-q", "sim:4?rate=100kpps&count=5000", "-w", "-"];
        let mut source = wirelane(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut command = Command::new(tools::find(reader[0]).unwrap());
        command.args(&reader[1..]).stdin(source.stdout.take().unwrap()).stderr(Stdio::null());
        let read = command.output().unwrap();
        assert!(source.wait().unwrap().success());
        assert!(read.status.success(), "{reader:?}");
        let lines = String::from_utf8_lossy(&read.stdout).lines().count();
        assert_eq!(lines, 5000, "{reader:?}");
    }
}

#[test]
fn a_file_is_captured_again_as_it_is() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    capture(&["sim:4?rate=100kpps&count=3000&size=imix&other=5", "-w", &path("a.pcapng.gz")]);
    let first = packets(path("a.pcapng.gz"));
    let summary = capture(&[&format!("file:{}", path("a.pcapng.gz")), "-w", &path("b.pcapng")]);
    assert_eq!(summary["totals"]["written"], 3000);
    let again = packets(path("b.pcapng"));
    let essence = |packet: &Packet| (packet.timestamp, packet.original_len, packet.data.clone());
    assert!(first.iter().map(essence).eq(again.iter().map(essence)));
}
