//! The longest frames, up to the longest snap length.

use wirelane_testkit::process::output;

use super::*;

/// A capture file with nanoseconds, a snap length of 262,144 bytes and a packet of each length.
fn file_of(lengths: &[usize]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
    for (second, length) in (1..).zip(lengths) {
        let long = u32::try_from(*length).unwrap();
        bytes.extend(words(&[second, 0, long, long]));
        bytes.extend((0..*length).map(|at| if at < 12 { 2 } else { (at % 251) as u8 }));
    }
    bytes
}

#[test]
fn frames_of_the_longest_snap_length_are_kept_whole() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let lengths = [60, 131_008, 131_009, 150_000, 262_144];
    std::fs::write(place("long.pcap"), file_of(&lengths)).unwrap();
    let port = format!("file:{}", place("long.pcap"));
    let run = |args: &[&str]| {
        let ended = output(&mut wirelane(args));
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("were cut"), "{args:?}: {}", ended.stderr);
    };
    run(&["capture", &port, "-w", &place("captured.pcapng")]);
    run(&["record", &port, &place("store")]);
    run(&["extract", &place("store"), "-w", &place("extracted.pcapng")]);
    let expected = packets(place("long.pcap"));
    for file in ["captured.pcapng", "extracted.pcapng"] {
        let kept = packets(place(file));
        let sizes = kept.iter().map(|packet| packet.data.len()).collect::<Vec<_>>();
        assert_eq!(sizes, lengths, "{file}");
        assert!(kept.iter().zip(&expected).all(|(one, other)| one.data == other.data), "{file}");
    }
}
