//! Both directions of a conversation on different queues.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output, run};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use wirelane::pcap::{CaptureWriter, Direction, LINK_TYPE_ETHERNET, Record, Source, WriterOptions};
use wirelane::wire::{MacAddr, packet};

use crate::shared::{PATIENCE, WIRELANE, number, parse, summary, wirelane};
use crate::{oracle, start, with_companion};

#[test]
fn every_packet_of_every_queue_is_in_a_flow() {
    let source = "sim:4?count=20000&flows=500&other=3&seed=3";
    let summary = summary(&output(&mut wirelane(["flows", source, "-q", "--json"])));
    let flows = &summary["flows"];
    let sum: u64 = ["packets", "not_ip", "encrypted", "truncated", "malformed"]
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
    // With a filter, into a file.
    let filtered =
        wirelane(["flows", "-q", "--json"]).arg(&store).args(["udp", "-w"]).arg(&csv).output();
    assert!(filtered.unwrap().status.success());
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(rows.lines().count(), of_file.len() + 1);
}

/// As in a capture of `any`: one interface is described at the start, one later.
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

/// Every field except the times that each socket reads from the clock.
fn timeless(flows: &[Value]) -> Vec<String> {
    let of = |flow: &Value| {
        let mut flow = flow.clone();
        let is_time = |name: &str| ["_start", "_end", "_rtt"].iter().any(|end| name.ends_with(end));
        flow.as_object_mut().unwrap().retain(|name, _| !is_time(name));
        flow
    };
    sorted(&flows.iter().map(of).collect::<Vec<_>>())
}

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 7))
print('ready', flush=True)
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
";

const ASK: &str = "
import socket, sys
for n in range(20):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((sys.argv[1], 7))
    for _ in range(3):
        s.send(b'question')
        s.recv(2000)
";

/// Requests and answers, and packets of one direction on all queues; then silence.
#[test]
fn privileged_live_flows_are_those_of_the_capture_and_come_on_time() {
    if !privileged::require() || !["python3", "ping"].into_iter().all(tools::require) {
        return;
    }
    let directory = tempdir().unwrap();
    let (client, server) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&client, &server, 4, 1500);
    let file = directory.path().join("all.pcapng");
    let port = pair.b.interface.as_str();
    let start = |args: &[&str], ready: &str| start(&server, args, ready);
    let write = ["capture", port, "-w", file.to_str().unwrap(), "--keep-privileges", "ip"];
    let capture = start(&write, "capturing on");
    let idle = "--idle-timeout=6s";
    let live = start(&["flows", port, "--format", "json", idle, "ip"], "flows of");
    let single = start(&["flows", port, "--format", "json", idle, "--single", "ip"], "flows of");
    let mut echo = ChildGuard::spawn(server.command("python3").args(["-c", ECHO]));
    echo.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    let address = pair.b.address.to_string();
    client.run("python3", ["-c", ASK, &address]);
    client.run("ping", ["-q", "-c", "3", "-i", "0.2", &address]);
    let packet = "ipv4 src=10.99.0.1-10.99.0.20 udp";
    for queue in 0..4 {
        let to = format!("packet:{}@{queue}", pair.a.interface);
        client.run(WIRELANE, ["send", &to, "-q", "--packet", packet, "-c", "20"]);
    }
    let quiet = Instant::now();
    // 20 flows of each kind and one of ping, while the port is quiet.
    while live.stdout().lines().count() < 41 {
        assert!(quiet.elapsed() < Duration::from_secs(40), "{}", live.stdout());
        std::thread::sleep(Duration::from_millis(50));
    }
    // An earlier version took twice the timeout; the margin over one timeout is for a busy machine.
    assert!(quiet.elapsed() < Duration::from_secs(12), "{:?}", quiet.elapsed());
    let told = [live, single].map(|flows| {
        flows.interrupt();
        let ended = flows.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    });
    capture.interrupt();
    assert_eq!(capture.wait(PATIENCE).status.code(), Some(0));
    let of_file = oracle::flows(&file, &[idle]);
    for flows in told {
        for flow in &flows {
            let begins = |name: &str| flow[name].as_str().map(str::to_owned);
            let is_answered = flow["reverse_packets"] != 0;
            assert!(!is_answered || begins("forward_start") <= begins("reverse_start"), "{flow}");
            assert_ne!(flow["source"], address.as_str(), "{flow}");
        }
        assert_eq!(flows.len(), 41);
        // The last flows end with the file.
        let ends = |all: &[String]| {
            all.iter().map(|flow| flow.replace("\"forced\"", "\"idle\"")).collect::<Vec<_>>()
        };
        assert_eq!(ends(&timeless(&flows)), ends(&timeless(&of_file)));
    }
}

/// A program in place of `wirelane-query` that reads for a while, then is killed.
#[test]
fn a_sink_that_dies_ends_the_command_and_every_packet_is_counted() {
    let directory = tempdir().unwrap();
    let script = "#!/bin/sh\nhead -c 200000 >/dev/null\nkill -9 $$\n";
    let program = with_companion(directory.path(), script);
    for idle in ["--idle-timeout=200ms", "--idle-timeout=15s"] {
        let mut command = std::process::Command::new(&program);
        command.args(["flows", "sim:2?rate=50kpps&flows=5000", idle, "--active-timeout=1s"]);
        command.args(["-q", "--json", "--duration=20s", "-w"]).arg(directory.path().join("out/"));
        let begun = Instant::now();
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        assert!(ended.stderr.contains("wirelane-query: "), "{}", ended.stderr);
        let summary = parse(&ended.stdout);
        let flows = &summary["flows"];
        let names = ["packets", "not_ip", "truncated", "malformed", "dropped_packets"];
        let counted: u64 = names.map(|name| number(&flows[name])).iter().sum();
        let refused = number(&flows["refused_packets"]);
        let delivered = number(&summary["totals"]["delivered"]);
        assert!(refused > 0 && counted + refused == delivered, "{summary}");
    }
}
