//! Several ports at once, every interface at once, and interfaces of another network namespace.

use std::net::{Ipv4Addr, UdpSocket};

use tempfile::tempdir;
use wirelane::pcap::{CaptureWriter, Source, WriterOptions};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, Output};
use wirelane_testkit::tshark::tshark_fields;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use super::*;

const PORT: u16 = 4711;

/// Sends `count` numbered packets to `address`, where a socket receives them.
fn send(from: &Namespace, to: &Namespace, address: Ipv4Addr, count: u32, mark: &str) {
    let taker = to.inside(|| UdpSocket::bind((address, PORT)).unwrap());
    let sender = from.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    for i in 0..count {
        sender.send_to(format!("{mark} {i:04}").as_bytes(), (address, PORT)).unwrap();
    }
    drop(taker);
}

/// Another program that captures. Waits until it prints `ready` on standard error.
fn other(ns: &Namespace, program: &str, args: &[&str], ready: &str) -> ChildGuard {
    let mut child = ChildGuard::spawn(ns.command(program).args(args));
    child.wait_until(PATIENCE, |child| child.stderr().contains(ready));
    child
}

/// Starts `wirelane capture` with these ports and waits until it answers.
fn capture(ns: Option<&Namespace>, args: &[&str]) -> Running {
    let mut running = Running::spawn(ns, args);
    running.wait_until_statistics(|_| true);
    running
}

/// Ends the capture. Returns its summary, which may have unknown counters.
fn end(running: Running, status: i32) -> (Value, Output) {
    running.child.interrupt();
    let output = running.child.wait(PATIENCE);
    assert_eq!(output.status.code(), Some(status), "{}", output.stderr);
    (serde_json::from_str(&output.stdout).unwrap(), output)
}

/// The packets of a file, sorted, as these fields.
fn packets(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut all = tshark_fields(path, fields);
    all.retain(|fields| fields.iter().all(|field| !field.is_empty()));
    all.sort();
    all
}

#[test]
fn privileged_three_interfaces_at_once_are_one_file() {
    if !privileged::require() || !tools::require("dumpcap") || !tools::require("tshark") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pairs = [(); 3].map(|()| VethPair::new(&near, &far, 2, 1500));
    let names = [0, 1, 2].map(|i: usize| pairs[i].b.interface.clone());
    let directory = tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("w.pcapng"), directory.path().join("d.pcapng"));
    let [a, b, c] = &names;
    let args = ["-q", "-i", a, "-i", b, "-i", c, "-w", theirs.to_str().unwrap()];
    // It prints this at its start; -q only hides the count of packets.
    let dumpcap = other(&far, "dumpcap", &args, "File:");
    let (b, c) = (format!("packet:{b}@0-1"), format!("packet:{c}"));
    let mut running = capture(Some(&far), &[a, &b, &c, "-w", ours.to_str().unwrap()]);
    for (i, pair) in pairs.iter().enumerate() {
        send(&near, &far, pair.b.address, 50 + i as u32, &format!("pair {i}"));
    }
    running.wait_for(153);
    let (summary, _) = end(running, 0);
    assert_balanced(&summary);
    dumpcap.interrupt();
    dumpcap.wait(PATIENCE);
    for (port, count) in [(0, 50), (1, 51), (2, 52)] {
        let of_port = |queue: &&Value| queue["port"] == port;
        let queues = summary["queues"].as_array().unwrap().iter().filter(of_port);
        assert_eq!(queues.map(|queue| number(&queue["packets"])).sum::<u64>(), count, "{summary}");
    }
    let fields = ["frame.interface_name", "ip.src", "ip.dst", "udp.payload"];
    let (found, expected) = (packets(&ours, &fields), packets(&theirs, &fields));
    assert_eq!(found.len(), 153);
    assert_eq!(found, expected);
    let mut times = CaptureReader::open(&ours).unwrap();
    let mut last = 0;
    while times.advance().unwrap() {
        let time = times.current().timestamp;
        assert!(time >= last, "in order of time");
        last = time;
    }
}

#[test]
fn privileged_a_port_that_fails_leaves_the_others_alone() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pairs = [(); 2].map(|()| VethPair::new(&near, &far, 1, 1500));
    let [gone, stays] = [0, 1].map(|i: usize| pairs[i].b.interface.as_str());
    let mut running = capture(Some(&far), &[gone, &format!("packet:{stays}")]);
    send(&near, &far, pairs[0].b.address, 10, "before");
    running.wait_for(10);
    far.run("ip", ["link", "del", gone]);
    // Whether the removal was noticed already or not.
    for round in 1..=3 {
        send(&near, &far, pairs[1].b.address, 10, "after");
        running.wait_for(10 + round * 10);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (summary, output) = end(running, 1);
    assert_eq!(summary["totals"]["delivered"], 40, "{summary}");
    assert_eq!(summary["errors"].as_array().unwrap().len(), 1, "{summary}");
    assert!(output.stderr.contains(gone) && output.stderr.contains("removed"), "{}", output.stderr);
}

#[test]
fn privileged_any_is_every_interface_and_those_that_come() {
    if !privileged::require() || !tools::require("tcpdump") || !tools::require("tshark") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let first = VethPair::new(&near, &far, 2, 1500);
    let directory = tempdir().unwrap();
    let other_directory = tempdir().unwrap();
    let theirs = other_directory.path().join("t.pcap");
    let ours = directory.path().join("w.pcapng");
    // A new file every 30 packets: each describes the interfaces of its packets.
    let path = ours.to_str().unwrap();
    let args = ["any", "-f", "udp", "-w", path, "--rotate-packets", "30"];
    let mut running = capture(Some(&far), &args);
    // Without a filter, which tcpdump sets only after it reports that it is ready, and with a
    // larger buffer.
    let args = ["-Z", "root", "-B", "65536", "-s", "2000", "-i", "any", "-U", "-w"];
    let args = [&args[..], &[theirs.to_str().unwrap()]].concat();
    let mut tcpdump = other(&far, "tcpdump", &args, "listening on");
    let mut expected = vec![(first.b.interface.clone(), 40), ("lo".to_owned(), 20)];
    send(&near, &far, first.b.address, 40, "first");
    // Once per packet, although it is sent and received.
    send(&far, &far, Ipv4Addr::LOCALHOST, 20, "loopback");
    running.wait_for(60);
    for round in 0..2_u32 {
        let pair = VethPair::new(&near, &far, 1, 1500);
        send(&near, &far, pair.b.address, 15, &format!("round {round}"));
        // The interface is removed at once, and its packets must not be lost.
        far.run("ip", ["link", "del", &pair.b.interface]);
        expected.push((pair.b.interface.clone(), 15));
    }
    send(&near, &far, first.b.address, 5, "last");
    expected[0].1 += 5;
    running.wait_for(95);
    tcpdump.wait_until(PATIENCE, |_| packets_of(&theirs) >= 95);
    tcpdump.interrupt();
    tcpdump.wait(PATIENCE);
    let (summary, _) = end(running, 0);
    assert_eq!(summary["totals"]["delivered"], 95, "{summary}");
    assert_eq!(summary["totals"]["dropped"], 0, "{summary}");
    let count = |name: &str| {
        let queues = summary["queues"].as_array().unwrap().iter();
        let of = queues.filter(|queue| queue["interface"] == name);
        of.map(|queue| number(&queue["packets"])).sum::<u64>()
    };
    let mut names: Vec<_> = expected.iter().map(|(name, _)| name.clone()).collect();
    names.dedup();
    for (name, packets) in &expected {
        let all: u64 = expected.iter().filter(|(other, _)| other == name).map(|(_, n)| n).sum();
        assert_eq!(count(name), all, "{name} {packets}: {summary}");
    }
    assert_eq!(count("any"), 0, "what cannot be told for an interface");
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.collect();
    assert_eq!(files.len(), 4, "{files:?}");
    let of_files = |fields: &[&str]| {
        let mut all: Vec<_> = files.iter().flat_map(|path| packets(path, fields)).collect();
        all.sort();
        all
    };
    let mut payloads = of_files(&["udp.payload"]);
    payloads.dedup();
    assert_eq!(payloads.len(), 95, "each once");
    let fields = ["ip.src", "ip.dst", "udp.payload"];
    assert_eq!(of_files(&fields), packets(&theirs, &fields));
    let named = of_files(&["frame.interface_name", "udp.payload"]);
    for (name, _) in &expected {
        let found = named.iter().filter(|fields| fields[0] == *name).count() as u64;
        assert_eq!(found, count(name), "{name}");
    }
}

#[test]
fn privileged_masks_and_filters_of_any_change_while_it_runs() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let mut running = capture(Some(&far), &["any", "--tx-queues", "none"]);
    send(&near, &far, pair.b.address, 10, "both");
    // Packets sent through the pair, which must not be captured.
    send(&far, &near, pair.a.address, 10, "sent");
    running.wait_for(10);
    running.mask(&["--rx-queues", "none", "--tx-queues", "all", "--other", "off"]);
    send(&near, &far, pair.b.address, 10, "received");
    send(&far, &near, pair.a.address, 7, "sent");
    running.wait_for(17);
    running.mask(&["--rx-queues", "all", "--filter", "udp dst port 1"]);
    send(&near, &far, pair.b.address, 10, "filtered");
    running.mask(&["--no-filter"]);
    send(&near, &far, pair.b.address, 3, "last");
    running.wait_for(20);
    let (summary, _) = end(running, 0);
    assert_eq!(summary["totals"]["delivered"], 20, "{summary}");
}

#[test]
fn privileged_a_container_is_captured_from_outside() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    let container = ChildGuard::spawn(far.command("sleep").arg("1000"));
    let directory = tempdir().unwrap();
    let path = directory.path().join("c.pcapng");
    let pid = container.id().to_string();
    for namespace in [far.name(), &pid, far.path().to_str().unwrap()] {
        let args = ["--netns", namespace, &pair.b.interface, "-w", path.to_str().unwrap()];
        let mut running = capture(None, &args);
        send(&near, &far, pair.b.address, 10, "in");
        running.wait_for(10);
        let (summary, _) = end(running, 0);
        // As seen inside: four queues, unknown outside.
        assert_eq!(summary["ports"][0]["queues"], serde_json::json!([0, 1, 2, 3]), "{namespace}");
        assert_eq!(packets_of(&path), 10, "{namespace}");
    }
    let refused = |namespace: &str, words: &str| {
        let output = output(&mut wirelane(["capture", "any", "-q", "--netns", namespace]));
        assert_eq!(output.status.code(), Some(2), "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    };
    refused("wl-no-such", "there is none of this name");
    refused("4000000000", "no process with this number");
    refused("/proc/self/ns/uts", "no network namespace");
}

fn packets_of(path: &Path) -> usize {
    // The file may still be written.
    let Ok(mut reader) = CaptureReader::open(path) else { return 0 };
    std::iter::from_fn(|| reader.advance().unwrap_or(false).then_some(())).count()
}

/// A pcap file cannot hold two link types, but it can hold several interfaces of one link type.
#[test]
fn a_pcap_file_says_what_it_cannot_hold() {
    let directory = tempdir().unwrap();
    let [raw, path] = ["raw.pcapng", "both.pcap"].map(|name| directory.path().join(name));
    let source = |link_type| Source { link_type, ..Source::new("x", Class::Rx, Some(0)) };
    let options = WriterOptions::of_path(&raw);
    let writer = CaptureWriter::create(&raw, &[source(101)], options, 0).unwrap();
    writer.finish(&[]).unwrap();
    let (raw, written) = (format!("file:{}", raw.display()), path.to_str().unwrap());
    let said = output(&mut wirelane(["capture", "-q", "sim:1?count=10", &raw, "-w", written]));
    assert!(!said.status.success());
    assert!(said.stderr.contains("one link type"), "{}", said.stderr);
    let options = WriterOptions::of_path(&path);
    let mut writer = CaptureWriter::create(&path, &[source(1)], options, 0).unwrap();
    assert_eq!(writer.add_source(source(1)).unwrap(), 1);
    assert!(writer.add_source(source(101)).unwrap_err().to_string().contains("one link type"));
}

/// In the summary, in files and their names, and where packets are printed.
#[test]
fn ports_that_are_alike_are_told_apart() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let ports = ["sim:2?count=100", "sim:2?count=300"];
    let words = ["capture", "sim:2?count=100", "sim:2?count=100", "-w", &path("x.pcapng")];
    let said = output(&mut wirelane(words));
    assert!(said.status.success(), "{}", said.stderr);
    for row in ["#1 rx 0 ", "#1 rx 1 ", "#2 rx 0 ", "#2 rx 1 "] {
        let row = format!("sim:2?count=100{row}");
        assert_eq!(said.stderr.matches(&row).count(), 1, "{row}: {}", said.stderr);
    }
    let names: Vec<_> = {
        let reader = CaptureReader::open(path("x.pcapng")).unwrap();
        reader.interfaces().iter().map(|source| source.name.clone()).collect()
    };
    assert_eq!(names, ["sim#1", "sim#1", "sim#2", "sim#2"]);
    let words = ["capture", "-q", "-t", "sim:2?count=100", "sim:2?count=100"];
    let printed = output(&mut wirelane(words)).stdout;
    let read = output(&mut wirelane(["capture", "-q", "-t", "-r", &path("x.pcapng")])).stdout;
    assert_eq!(read.lines().count(), 200);
    for place in ["sim#1 rx0 ", "sim#1 rx1 ", "sim#2 rx0 ", "sim#2 rx1 "] {
        for text in [&printed, &read] {
            assert!(text.lines().any(|line| line.starts_with(place)), "{place}: {text}");
        }
    }
    let split = super::capture(&[&ports[..], &["--split", "-w", &path("y.pcapng")]].concat());
    assert_eq!(split["totals"]["written"], 400);
    let mut counts = [0, 0];
    for (port, count) in counts.iter_mut().enumerate() {
        for queue in 0..2 {
            let file = path(&format!("y.sim#{}.rx{queue}.pcapng", port + 1));
            let packets = super::packets(&file);
            assert!(packets.iter().all(|packet| packet.queue == Some(queue)), "{file}");
            *count += packets.len();
        }
    }
    assert_eq!(counts, [100, 300]);
    // Interfaces of a file have distinct names.
    let input = format!("file:{}", path("y.sim#2.rx1.pcapng"));
    let words = [input.as_str(), "sim:1?count=5", "--split", "-w", &path("z.pcapng")];
    super::capture(&words);
    for name in ["z.sim#2.rx1.pcapng", "z.sim.rx0.pcapng"] {
        assert!(!super::packets(path(name)).is_empty(), "{name}");
    }
}

#[test]
fn privileged_what_any_cannot_do_is_said() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng").display().to_string();
    for (args, words) in [
        (vec!["capture", "any", "--split", "-w", &file], "name the interfaces"),
        (vec!["capture", "any", "--wait"], "leave --wait out"),
        (vec!["capture", "packet:any?share=flow"], "cannot be shared"),
    ] {
        let output = output(ns.command(WIRELANE).args(&args));
        assert!(!output.status.success(), "{args:?}");
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
    }
}
