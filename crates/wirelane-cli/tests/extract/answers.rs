//! Search results, and how they are reported.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;
use wirelane::pcap::CaptureReader;

use crate::store::{PACKETS, Store, extract, numbers, wirelane};

fn host(number: u64) -> Vec<u64> {
    (number * 1000..(number + 1) * 1000).collect()
}

#[test]
fn packets_come_back_in_order_of_time_in_every_format() {
    for compression in [None, Some("lz4"), Some("zstd")] {
        let store = Store::new(compression);
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.pcapng", "a.pcap", "a.pcapng.zst", "a.pcap.lz4"] {
            let path = folder.path().join(name);
            let out = extract(&store, &format!("host 10.0.0.3 -w {}", path.display()));
            assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
            assert_eq!(numbers(&path), host(3), "{name}");
            assert_eq!(out.stdout, "");
            assert!(out.stderr.contains("1,000 packets"), "{}", out.stderr);
        }
        let path = folder.path().join("all.pcapng");
        let out = extract(&store, &format!("-q -w {}", path.display()));
        assert_eq!(out.stderr, "");
        assert_eq!(numbers(&path), (0..PACKETS).collect::<Vec<_>>());
    }
}

#[test]
fn the_index_spares_reading() {
    let store = Store::new(None);
    let out = extract(&store, "host 10.0.0.3 and tcp --count --json");
    assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
    let document: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(document["schema"], "wirelane.extract/1");
    assert_eq!(document["packets"], 100);
    assert_eq!(document["filter"], "host 10.0.0.3 and tcp");
    assert_eq!(document["damage"], serde_json::json!([]));
    assert!(document["output"].is_null());
    let extents = &document["extents"];
    let (read, stored) = (extents["read"].as_u64().unwrap(), extents["stored"].as_u64().unwrap());
    assert!(0 < read && read < stored, "{document}");
}

#[test]
fn times_select() {
    let store = Store::new(None);
    for (times, count) in [
        ("--from 2026-11-23T02:41:45Z --to 2026-11-23T02:41:46Z", 1000),
        ("--from 2026-11-23T02:41:45.5Z --to 2026-11-23T03:41:46+01:00", 500),
        ("--to 2026-11-23T02:41:44.010Z", 10),
        ("--from 2026-11-23T02:41:55.999Z", 1),
        ("--from 2027-01-01T00:00:00Z", 0),
        ("--to now", PACKETS),
        ("", PACKETS),
    ] {
        // The clock of this machine may be earlier than the store's.
        if times == "--to now" && wirelane::internal::clock::realtime_ns() < crate::store::START * 2
        {
            continue;
        }
        let out = extract(&store, &format!("--count -q {times}"));
        assert_eq!(out.stdout, format!("{count}\n"), "{times}: {}", out.stderr);
        assert_eq!(out.status.code(), Some(0));
    }
}

#[test]
fn several_stores_give_one_answer() {
    let (one, two) = (Store::new(None), Store::new(Some("lz4")));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let first = [OsStr::new("extract"), one.path().as_os_str(), two.path().as_os_str()];
    let out = wirelane(first, &format!("src host 10.0.0.7 -w {}", path.display()));
    assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
    let twice: Vec<_> = host(7).into_iter().flat_map(|number| [number, number]).collect();
    assert_eq!(numbers(&path), twice);
}

#[test]
fn standard_output_takes_packets() {
    let store = Store::new(None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let file = fs::File::create(&path).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.arg("extract").arg(store.path()).args(["net 10.0.0.4/31", "-w", "-", "-c", "1500"]);
    assert!(command.stdout(file).stderr(std::process::Stdio::null()).status().unwrap().success());
    assert_eq!(numbers(&path), (4000..5500).collect::<Vec<_>>());
}

#[test]
fn an_answer_without_packets_is_a_file() {
    let store = Store::new(None);
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pcapng", "a.pcap"] {
        let path = folder.path().join(name);
        let out = extract(&store, &format!("arp -w {}", path.display()));
        assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
        assert!(CaptureReader::open(&path).unwrap().next_record().unwrap().is_none());
    }
}

#[test]
fn comments_stay() {
    let store = Store::new(None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let out = extract(&store, &format!("host 10.0.0.0 -w {}", path.display()));
    assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.windows(10).filter(|window| window == b"the answer").count(), 1);
}

/// The builders' flows are the same for all packets of a pair of hosts and a protocol.
#[test]
fn whole_conversations() {
    let store = Store::new(None);
    let question = "tcp and host 10.0.0.2 --to 2026-11-23T02:41:46.020Z --count -q";
    assert_eq!(extract(&store, question).stdout, "2\n");
    let out = extract(&store, &format!("{question} --flow"));
    assert_eq!(out.stdout, "100\n", "{}", out.stderr);
}

#[test]
fn lists_and_explanations() {
    let store = Store::new(None);
    let all = extract(&store, "--list");
    assert_eq!(all.status.code(), Some(0), "{}", all.stderr);
    assert_eq!(all.stdout.lines().count(), 1 + store.files(".pcapng").len(), "{}", all.stdout);
    let some = extract(&store, "host 10.0.0.3 --list");
    assert!(some.stdout.lines().count() < all.stdout.lines().count(), "{}", some.stdout);
    assert!(some.stdout.contains(" of "), "{}", some.stdout);
    let out = extract(&store, "host 10.0.0.3 --list --json");
    let document: Value = serde_json::from_str(&out.stdout).unwrap();
    let first = &document["list"][0];
    assert!(first["path"].as_str().unwrap().ends_with(".pcapng"), "{document}");
    assert_eq!(first["pinned"], false);

    let out = extract(&store, "tcp port 443 and host 10.0.0.1 --explain");
    let asked = "type 0x0800 and protocol 6 and port 443 and address 10.0.0.1";
    assert_eq!(out.stdout, format!("extents with: {asked}\n"));
    assert_eq!(extract(&store, "--explain").stdout, "extents with: all\n");
}

#[test]
fn damage_is_named_and_the_rest_is_found() {
    let store = Store::new(None);
    let damaged = store.files(".pcapng").into_iter().next_back().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[20_000] ^= 4;
    fs::write(&damaged, bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let out = extract(&store, &format!("-w {}", path.display()));
    assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(out.stderr.contains(name) && out.stderr.contains(" at byte "), "{}", out.stderr);
    let found = numbers(&path);
    let missing = PACKETS - found.len() as u64;
    // At most one extent of 1 MiB.
    assert!(0 < missing && missing <= 1048, "{missing}");
    assert!(found.is_sorted());
    // Packets outside the damage are all found.
    let out = extract(&store, "host 10.0.0.0 --count -q");
    assert_eq!((out.stdout.as_str(), out.status.code()), ("1000\n", Some(0)), "{}", out.stderr);
}
