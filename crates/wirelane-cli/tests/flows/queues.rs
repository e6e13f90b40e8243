//! Both directions of a conversation on different queues.

use serde_json::Value;
use tempfile::tempdir;
use wirelane_testkit::process::{output, run};

use wirelane::pcap::{CaptureWriter, Direction, LINK_TYPE_ETHERNET, Record, Source, WriterOptions};
use wirelane::wire::{MacAddr, packet};

use crate::oracle;
use crate::shared::{number, summary, wirelane};

#[test]
fn every_packet_of_every_queue_is_in_a_flow() {
    let source = "sim:4?count=20000&flows=500&other=3&seed=3";
    let summary = summary(&output(&mut wirelane(["flows", source, "-q", "--json"])));
    let flows = &summary["flows"];
    let sum: u64 = ["packets", "not_ip", "truncated", "malformed"]
        .map(|name| number(&flows[name]))
        .iter()
        .sum();
    assert_eq!((sum, number(&flows["dropped_packets"])), (20_000, 0), "{summary}");
}

#[test]
fn a_file_a_store_and_a_port_have_the_same_flows() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("all.pcapng");
    let store = directory.path().join("store");
    let csv = directory.path().join("flows.csv");
    run(wirelane(["capture", "-q", "sim:4?count=5000&flows=99&seed=8", "-w"]).arg(&file));
    let port = format!("file:{}", file.display());
    run(wirelane(["record", "-q", &port]).arg(&store));
    let of_file = oracle::flows(&file, &[]);
    assert!(of_file.len() >= 99, "{}", of_file.len());
    let of_store = output(wirelane(["flows", "-q", "--format=json"]).arg(&store));
    let of_store: Vec<Value> =
        of_store.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sorted(&of_file), sorted(&of_store));
    // A filter, and a file to write to.
    let filtered =
        wirelane(["flows", "-q", "--json"]).arg(&store).args(["udp", "-w"]).arg(&csv).output();
    assert!(filtered.unwrap().status.success());
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(rows.lines().count(), of_file.len() + 1);
}

/// As in a capture of `any`: one interface is there from the start, one comes later.
#[test]
fn interfaces_of_a_file_tell_flows_apart() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("two.pcapng");
    let source =
        |name: &str, link_type| Source { name: name.into(), link_type, ..Source::default() };
    let options = WriterOptions::of_path(&file);
    let first = [source("eth0", LINK_TYPE_ETHERNET)];
    let mut writer = CaptureWriter::create(&file, &first, options, 0).unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let packet = packet::ethernet(mac, mac).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = [0; 100];
    let len = packet.udp(1, 2, b"").emit(&mut frame).unwrap();
    let write = |writer: &mut CaptureWriter, interface, data: &[u8]| {
        let original_len = data.len() as u32;
        let direction = Direction::Unknown;
        writer.write(&Record { interface, timestamp: 5, original_len, direction, data }).unwrap();
    };
    write(&mut writer, 0, &frame[..len]);
    writer.add_source(source("eth1", LINK_TYPE_ETHERNET)).unwrap();
    write(&mut writer, 1, &frame[..len]);
    write(&mut writer, 0, &frame[..len]);
    writer.finish(&[]).unwrap();
    let flows = oracle::flows(&file, &[]);
    let mut told: Vec<_> = flows
        .iter()
        .map(|flow| (flow["interface"].as_str().unwrap(), number(&flow["packets"])))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [("eth0", 2), ("eth1", 1)]);
}

fn sorted(flows: &[Value]) -> Vec<String> {
    let mut all: Vec<_> = flows.iter().map(Value::to_string).collect();
    all.sort();
    all
}

#[test]
fn room_for_few_flows_loses_no_packet() {
    let source = "sim:2?count=20000&flows=5000&seed=3";
    let mut command = wirelane(["flows", source, "-q", "--json", "--max-flows", "100"]);
    let summary = summary(&output(&mut command));
    let flows = &summary["flows"];
    assert!(number(&flows["evicted"]) > 10_000, "{summary}");
    assert_eq!((number(&flows["packets"]), number(&flows["dropped"])), (20_000, 0), "{summary}");
}
