//! Real traffic: TCP between two namespaces, captured on every queue of one end.

use std::collections::{HashMap, HashSet};
use std::net::TcpListener;

use tempfile::tempdir;
use wirelane_testkit::packets as frames;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::{capinfos, check_clean, filtered_fields};
use wirelane_testkit::veth::{End, VethPair};
use wirelane_testkit::{kernel, privileged, tools};

use super::*;

const TOOLS: [&str; 4] = ["iperf3", "tshark", "capinfos", "ethtool"];

/// Packets that the interface has received and sent.
fn counted(end: &End) -> u64 {
    end.statistic("rx_packets") + end.statistic("tx_packets")
}

/// Captures a transfer by iperf3 on the receiving end. Returns the summary and the packets that the
/// device counted during it.
fn transfer(offloads: bool, port_options: &str, client: &[&str], file: &Path) -> (Value, u64) {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    pair.set_offloads(offloads);
    let mut server = far.spawn("iperf3", ["-s", "-1", "--forceflush"]);
    server.wait_until(PATIENCE, |server| server.stdout().contains("listening"));

    let before = counted(&pair.b);
    let port = format!("packet:{}{port_options}", pair.b.interface);
    let capture = Running::start(Some(&far), &[&port, "-w", file.to_str().unwrap()]);
    let address = pair.b.address.to_string();
    near.run("iperf3", [&["-c", &address, "-P", "4"], client].concat());
    assert!(server.wait(PATIENCE).status.success());
    let summary = capture.finish();
    (summary, counted(&pair.b) - before)
}

/// captured + dropped (by reason) = what the device counts, and Wireshark reads the file.
#[track_caller]
fn assert_accounted(summary: &Value, device: u64, file: &Path) {
    let totals = &summary["totals"];
    let reasons = ["kernel", "ring_full", "writer", "bad_header"];
    let lost: u64 = reasons.iter().map(|reason| dropped(summary, reason)).sum();
    assert_eq!(number(&totals["written"]) + lost, device, "{summary}");
    assert_eq!(number(&totals["received"]), device);
    let infos = capinfos(file);
    assert_eq!(infos.packets, number(&totals["written"]));
    assert!(infos.in_order, "{infos:?}");
    assert_eq!(summary["order"]["violations"], 0);
    assert_eq!(check_clean(file), infos.packets);
    assert_counters(summary, file);
    let used = infos.interfaces.iter().filter(|interface| interface.packets > 0).count();
    assert!(used > 2, "queues of both directions: {infos:?}");
}

#[test]
fn privileged_tcp_at_a_bounded_rate_is_captured_whole() {
    if !privileged::require() || !TOOLS.iter().all(|tool| tools::require(tool)) {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    // Each of the four connections at 40 Mbit/s, in packets as on a wire.
    let (summary, device) = transfer(false, "", &["-t", "2", "-b", "40M"], &file);
    assert_accounted(&summary, device, &file);
    assert_eq!(summary["totals"]["dropped"], 0);
    // 2 s of 160 Mbit/s are 27 k segments of 1448 bytes; a busy machine may send fewer.
    assert!(device > 10_000, "{device} packets");
    let large = filtered_fields(&file, "frame.len > 1514", &["frame.number"]);
    assert_eq!(large.len(), 0, "packets over the MTU");
    assert_no_byte_is_missing(&file);
}

/// Every byte of each direction of each connection is in the file, according to TCP's sequence
/// numbers. Their order is up to the kernel: packets of a sender that moves to another CPU overtake
/// each other.
#[track_caller]
fn assert_no_byte_is_missing(file: &Path) {
    let fields = ["tcp.stream", "tcp.srcport", "tcp.seq", "tcp.len"];
    let mut sent: HashMap<(u64, u64), Vec<(u64, u64)>> = HashMap::new();
    for row in filtered_fields(file, "tcp.len > 0", &fields) {
        let [stream, source, first, length] = [0, 1, 2, 3].map(|k| row[k].parse::<u64>().unwrap());
        sent.entry((stream, source)).or_default().push((first, first + length));
    }
    assert!(sent.len() > 4, "four connections and the one that controls them: {:?}", sent.keys());
    for ((stream, source), mut pieces) in sent {
        pieces.sort_unstable();
        // Relative numbers: the first byte of payload is 1.
        pieces.into_iter().fold(1, |end, (first, after)| {
            assert!(first <= end, "stream {stream} from port {source}: {end}..{first} is missing");
            end.max(after)
        });
    }
}

#[test]
fn privileged_tcp_at_full_rate_is_accounted_for() {
    if !privileged::require() || !TOOLS.iter().all(|tool| tools::require(tool)) {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    // Rings for a few offloaded packets each: some packets must be lost.
    let options = "?ring=512Ki&block=128Ki";
    // The sender's speed depends on the machine: every run must balance, and one must have losses.
    let lossy = (0..6).any(|_| {
        let (summary, device) = transfer(true, options, &["-n", "60M"], &file);
        assert_accounted(&summary, device, &file);
        dropped(&summary, "kernel") > 0
    });
    assert!(lossy, "nothing was lost");
    let large = filtered_fields(&file, "frame.len > 1514", &["frame.number"]);
    assert!(!large.is_empty(), "segmentation offload was off");
}

/// The kernel removes VLAN tags from packets; the file has them in their original place.
#[test]
fn privileged_vlan_tags_are_in_the_file() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-vlan", 2);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let port = format!("packet:wl-vlan{QUICK}");
    let capture = Running::start(Some(&ns), &[&port, "-w", file.to_str().unwrap()]);
    let frames: Vec<_> = (0..50)
        .map(|k| frames::udp4(k).vlan(k as u16 + 1).length(60 + k as usize).build())
        .collect();
    frames.iter().for_each(|frame| tap.write(1, frame));
    capture.finish();
    let captured = packets(&file);
    assert!(captured.iter().map(|packet| &packet.data).eq(&frames));
    assert!(captured.iter().all(|packet| packet.original_len as usize == packet.data.len()));
    if tools::require("tshark") {
        let ids = filtered_fields(&file, "vlan", &["vlan.id"]);
        assert!(ids.iter().map(|row| row[0].parse::<u16>().unwrap()).eq(1..=50), "{ids:?}");
    }
}

/// A packet's comment has the values that the driver reports.
#[test]
fn privileged_hashes_of_the_driver_are_in_the_file() {
    if !privileged::require()
        || !tools::require("tshark")
        || !kernel::require(6, 3, "drivers tell XDP programs of hashes")
    {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let bytes =
        |file: &Path| packets(file).into_iter().map(|packet| packet.data).collect::<Vec<_>>();
    let directory = tempdir().unwrap();
    let (flows, file) = (directory.path().join("flows.pcapng"), directory.path().join("x.pcapng"));
    let made =
        output(wirelane(["capture", "-q", "sim:1?count=200&flows=40&size=301", "-w"]).arg(&flows));
    assert!(made.status.success(), "{}", made.stderr);
    let port = format!("xdp:{}?mode=native&rx_hash=on&rx_timestamps=auto", pair.b.interface);
    let capture = Running::start(Some(&far), &[&port, "--all", "-w", file.to_str().unwrap()]);
    let (from, to) = (format!("file:{}", flows.display()), format!("packet:{}", pair.a.interface));
    // Fewer than the ring of a veth holds.
    let sent = output(near.command(WIRELANE).args(["forward", "-q", &from, &to]));
    assert!(sent.status.success(), "{}", sent.stderr);
    let summary = capture.finish();
    assert_eq!(summary["totals"]["written"], 200, "{summary}");
    assert_eq!(bytes(&file), bytes(&flows));
    check_clean(&file);
    let mut hashes: HashMap<Vec<String>, String> = HashMap::new();
    let fields = ["ip.src", "ip.dst", "udp.srcport", "udp.dstport", "frame.comment"];
    let rows = filtered_fields(&file, "frame", &fields);
    assert_eq!(rows.len(), 200);
    for row in rows {
        let [flow @ .., comment] = row.as_slice() else { panic!("{row:?}") };
        let hash = comment.strip_prefix("rx_hash=0x").and_then(|rest| rest.strip_suffix(" (L4)"));
        let hash = hash.unwrap_or_else(|| panic!("{row:?}"));
        assert_eq!(hashes.entry(flow.to_vec()).or_insert_with(|| hash.to_owned()), hash);
    }
    // Each flow has a different hash.
    assert_eq!(hashes.len(), 40);
    assert_eq!(hashes.values().collect::<HashSet<_>>().len(), 40);
    // Classic pcap cannot hold them.
    let classic = directory.path().join("x.pcap");
    let capture = Running::start(Some(&far), &[&port, "--all", "-w", classic.to_str().unwrap()]);
    assert!(output(near.command(WIRELANE).args(["forward", "-q", &from, &to])).status.success());
    capture.finish();
    assert_eq!(bytes(&classic), bytes(&flows));
}

/// Packets of other namespaces are not captured.
#[test]
fn privileged_loopback_stays_in_its_namespace() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let capture = Running::start(Some(&ns), &["packet:lo"]);
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(outside.local_addr().unwrap()).unwrap();
    drop((stream, outside));
    assert_eq!(capture.finish()["totals"]["received"], 0);
}
