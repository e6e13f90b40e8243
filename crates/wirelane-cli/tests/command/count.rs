//! `wirelane count` agrees with tshark's statistics for every key, and loses no packet.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Stdio;

use rustix::process::Signal;
use tempfile::tempdir;
use wirelane_testkit::tshark::tshark_fields;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, process, tools};

use super::*;

/// Captures of tcpdump's tests over Ethernet without tunnels, fragments and headers quoted by ICMP,
/// which tshark counts twice.
const REAL: [&str; 31] = [
    "HSRP_coup",
    "IGMP_V2",
    "babel_pad1",
    "bfd-multihop",
    "bgp-4byte-asn",
    "bgp-lu-multiple-labels",
    "dcb_ets",
    "dhcp-rfc4388",
    "dhcpv6-domain-list",
    "dhcpv6-mud",
    "dns_tcp_8053",
    "EIGRP_ipv6",
    "eapon1",
    "hncp_prefix-oobr",
    "icmpv6-ni-flags",
    "kday5",
    "lisp_eid_register",
    "lmp",
    "mptcp-v0",
    "mtrace",
    "of10_7050sx_bsn",
    "ospf-nssa-bitnt",
    "otv-heapoverflow-2",
    "ptp_corrections",
    "ripv1v2",
    "rpl-14-dao",
    "sflow_multiple_counter_30_pdus",
    "vrrp",
    "zmtp1",
    "isup",
    "ntp-mode7",
];

/// Runs `wirelane count`, which must succeed. Returns the summary.
#[track_caller]
fn count(args: &[&str]) -> Value {
    let summary = summary(&output(wirelane(["count", "-q", "--json"]).args(args)));
    for table in summary["tables"].as_array().unwrap() {
        assert_whole(table, number(&summary["totals"]["delivered"]));
    }
    summary
}

/// Every packet is in a row, or counted as without one.
#[track_caller]
fn assert_whole(table: &Value, packets: u64) {
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(table["rows_total"], rows.len());
    let without = table["without"].as_array().unwrap();
    let without: u64 = without.iter().map(|reason| number(&reason["packets"])).sum();
    let directions = if table["by"] == "host" || table["by"] == "port" {
        &["sent", "received"][..]
    } else {
        &[""]
    };
    for direction in directions {
        let of = |load: &Value| match *direction {
            "" => number(&load["packets"]),
            direction => number(&load[direction]["packets"]),
        };
        let placed: u64 = rows.iter().map(of).sum();
        assert_eq!(placed + of(&table["no_room"]) + without, packets, "{direction} {table}");
    }
    assert_eq!(table["total"]["packets"], packets);
}

/// The table of this kind.
#[track_caller]
fn table<'a>(summary: &'a Value, by: &str) -> &'a Value {
    let tables = summary["tables"].as_array().unwrap();
    tables.iter().find(|table| table["by"] == by).unwrap()
}

/// Packets and bytes in all, sent, and received, as far as a row or a line of tshark has them.
type Load = Vec<u64>;

fn load(row: &Value) -> Load {
    let parts = [row, &row["sent"], &row["received"]];
    let parts = parts.into_iter().filter(|part| !part.is_null());
    parts.flat_map(|part| [number(&part["packets"]), number(&part["bytes"])]).collect()
}

/// Wirelane's loads by key.
fn rows(summary: &Value, by: &str) -> BTreeMap<String, Load> {
    let rows = table(summary, by)["rows"].as_array().unwrap();
    rows.iter().map(|row| (row["key"].as_str().unwrap().to_owned(), load(row))).collect()
}

/// tshark's statistics.
#[derive(Default)]
struct Statistics {
    protocols: BTreeMap<String, Load>,
    hosts: BTreeMap<String, Load>,
    ports: BTreeMap<String, Load>,
    /// Packets of the smaller end, and of the other one.
    flows: BTreeMap<String, [u64; 2]>,
}

/// Runs tshark's statistics: the protocol hierarchy, endpoints and conversations.
#[track_caller]
fn statistics(file: &Path) -> Statistics {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-q", "-r"]).arg(file);
    for table in ["io,phs", "endpoints,ip", "endpoints,ipv6", "conv,tcp", "conv,udp"] {
        tshark.args(["-z", table]);
    }
    for table in ["endpoints,tcp", "endpoints,udp"] {
        tshark.args(["-z", table]);
    }
    let text = process::run(&mut tshark);
    let mut all = Statistics::default();
    let (mut section, mut path) = (String::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let numbers = |from: usize| -> Option<Load> {
            words.get(from..)?.iter().map(|word| word.parse().ok()).collect()
        };
        match (section.as_str(), words.as_slice()) {
            (_, ["Protocol", "Hierarchy", "Statistics"]) => section = "Protocols".to_owned(),
            (
                _,
                [kind @ ("IPv4" | "IPv6" | "TCP" | "UDP"), what @ ("Endpoints" | "Conversations")],
            ) => {
                section = format!("{what} {}", kind.to_lowercase());
            }
            ("Protocols", [name, frames, bytes]) if frames.starts_with("frames:") => {
                let depth = (line.len() - line.trim_start().len()) / 2;
                path.truncate(depth);
                path.push((*name).to_owned());
                let figure = |text: &str| text.split(':').nth(1).unwrap().parse().unwrap();
                add(&mut all.protocols, network(&path), &[figure(frames), figure(bytes)]);
            }
            ("Endpoints ipv4" | "Endpoints ipv6", [address, _, ..]) => {
                if let Some(load) = numbers(1).filter(|load| load.len() == 6) {
                    add(&mut all.hosts, Some((*address).to_owned()), &load);
                }
            }
            ("Endpoints tcp" | "Endpoints udp", [_, port, ..]) => {
                if let Some(load) = numbers(2).filter(|load| load.len() == 6) {
                    let protocol = section.split(' ').nth(1).unwrap();
                    add(&mut all.ports, Some(format!("{port}/{protocol}")), &load);
                }
            }
            // tshark rounds bytes in this table.
            (_, [one, "<->", other, to_one, _, _, to_other, ..]) => {
                let protocol = section.split(' ').nth(1).unwrap();
                let (key, swapped) = flow_key(one, other, protocol);
                let [mut back, mut there]: [u64; 2] =
                    [to_one, to_other].map(|text| text.parse().unwrap());
                if swapped {
                    (there, back) = (back, there);
                }
                let sums: &mut [u64; 2] = all.flows.entry(key).or_default();
                *sums = [sums[0] + there, sums[1] + back];
            }
            _ => {}
        }
    }
    assert!(!all.protocols.is_empty() && !all.hosts.is_empty(), "{text}");
    all
}

fn add(to: &mut BTreeMap<String, Load>, key: Option<String>, load: &[u64]) {
    let Some(key) = key else { return };
    let sum = to.entry(key).or_insert_with(|| vec![0; load.len()]);
    sum.iter_mut().zip(load).for_each(|(sum, part)| *sum += part);
}

/// Wirelane's name for an entry of tshark's hierarchy; `None` for entries above or below.
fn network(path: &[String]) -> Option<String> {
    let is_shown = |name: &&str| !matches!(*name, "eth" | "vlan" | "ethertype");
    let path: Vec<_> = path.iter().map(String::as_str).filter(is_shown).collect();
    match path.as_slice() {
        ["ip", protocol] => Some(format!("ip/{protocol}")),
        ["ipv6", "icmpv6"] => Some("ip6/icmp6".to_owned()),
        ["ipv6", protocol] => Some(format!("ip6/{protocol}")),
        ["cfm"] => Some("0x8902".to_owned()),
        [name @ ("arp" | "lldp" | "eapol")] => Some((*name).to_owned()),
        _ => None,
    }
}

/// The flow by its smaller end, and whether that is the second one. tshark writes no brackets.
fn flow_key(one: &str, other: &str, protocol: &str) -> (String, bool) {
    let plain = |end: &str| end.replace(['[', ']'], "");
    let (one, other) = (plain(one), plain(other));
    let swapped = one > other;
    let (one, other) = if swapped { (other, one) } else { (one, other) };
    (format!("{one} {other} {protocol}"), swapped)
}

/// All of tshark's statistics of `file` equal Wirelane's.
#[track_caller]
fn assert_like_tshark(file: &Path) {
    let theirs = statistics(file);
    let ours = count(&["--by", "proto,host,port,flow", file.to_str().unwrap()]);
    assert_eq!(rows(&ours, "proto"), theirs.protocols);
    assert_eq!(rows(&ours, "host"), theirs.hosts);
    let mut ports = rows(&ours, "port");
    ports.retain(|key, _| key.ends_with("/tcp") || key.ends_with("/udp"));
    assert_eq!(ports, theirs.ports);
    let mut flows = BTreeMap::new();
    for row in table(&ours, "flow")["rows"].as_array().unwrap() {
        let key = row["key"].as_str().unwrap();
        let words: Vec<_> = key.split(' ').collect();
        let [one, "<>", other, protocol @ ("tcp" | "udp")] = words[..] else { continue };
        let (key, swapped) = flow_key(one, other, protocol);
        let [sent, received] =
            ["sent", "received"].map(|direction| number(&row[direction]["packets"]));
        flows.insert(key, if swapped { [received, sent] } else { [sent, received] });
        assert!(number(&row["first_ns"]) <= number(&row["last_ns"]), "{row}");
    }
    assert_eq!(flows, theirs.flows);
}

#[test]
fn real_protocols_are_counted_as_tshark_counts_them() {
    if !tools::require("tshark") || !tools::require("mergecap") {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("real.pcapng");
    let mut captures = tools::tcpdump_captures();
    captures.retain(|path| {
        REAL.iter().any(|name| path.file_name().unwrap().to_str() == Some(&format!("{name}.pcap")))
    });
    assert_eq!(captures.len(), REAL.len());
    process::run(Command::new("mergecap").arg("-w").arg(&file).args(captures));
    assert_like_tshark(&file);
}

#[test]
fn generated_traffic_is_counted_as_tshark_counts_it() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng.gz");
    let path = file.to_str().unwrap();
    let spec = "sim:4?count=5000&proto=mix&ip=mix&size=imix&flows=300&vlan=9&other=7&tx=5";
    let captured = capture(&[spec, "-w", path]);
    assert_like_tshark(&file);

    let ours = count(&["--by", "queue,vlan", path]);
    let tagged = tshark_fields(&file, &["vlan.id"]).iter().filter(|row| row[0] == "9").count();
    assert_eq!(rows(&ours, "vlan")["9"][0], tagged as u64);
    let mut queues = BTreeMap::new();
    for queue in captured["queues"].as_array().unwrap() {
        let place = queue["queue"].as_u64().map(|it| format!(" {it}")).unwrap_or_default();
        let name = format!("sim {}{place}", queue["class"].as_str().unwrap());
        queues.insert(name, ["packets", "bytes"].map(|figure| number(&queue[figure])).to_vec());
    }
    assert_eq!(rows(&ours, "queue"), queues);
}

#[test]
fn the_same_on_every_number_of_threads_and_from_every_source() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let file = path("x.pcapng.zst");
    let spec = "sim:4?count=20000&flows=500&proto=mix&ip=mix";
    capture(&[spec, "-w", &file]);
    let by = ["--by", "proto,host,port,vlan,flow"];
    let keys = ["proto", "host", "port", "vlan", "flow"];
    let all = |summary: &Value| keys.map(|by| rows(summary, by));
    let expected = all(&count(&[&[spec], &by[..]].concat()));
    for source in [&[spec, "--single"][..], &[&file], &["-r", &file], &["-i", spec]] {
        assert_eq!(all(&count(&[source, &by].concat())), expected, "{source:?}");
    }
    // Two files count together, and a filter applies to both.
    let twice = count(&[&[&file as &str, &file, "udp"], &by[..]].concat());
    let udp = &expected[0]["ip/udp"];
    assert_eq!(rows(&twice, "proto")["ip/udp"], udp.iter().map(|it| it * 2).collect::<Vec<_>>());
    assert!(rows(&twice, "proto").keys().all(|key| key.ends_with("/udp")));

    let mut zstd = wirelane(["capture", "-q", "-r", &file, "-w", "-"]);
    let mut zstd = zstd.stdout(Stdio::piped()).spawn().unwrap();
    let mut counting = wirelane(["count", "-q", "--json", "-"]);
    let counted = counting.args(by).stdin(zstd.stdout.take().unwrap()).output().unwrap();
    assert!(zstd.wait().unwrap().success());
    assert_eq!(all(&serde_json::from_slice(&counted.stdout).unwrap()), expected);
}

#[test]
fn what_finds_no_room_is_counted() {
    let spec = "sim:4?count=20000&flows=1000";
    for rows in [1, 7, 500] {
        let limit = rows.to_string();
        let summary = count(&[spec, "--by", "flow,host", "--max-rows", &limit]);
        for by in ["flow", "host"] {
            let table = table(&summary, by);
            assert!(table["rows"].as_array().unwrap().len() <= rows, "{table}");
            assert!(number(&table["no_room"]["packets"]) > 0, "{table}");
        }
    }
    let said = output(&mut wirelane(["count", "-q", spec, "--by", "host", "--max-rows", "7"]));
    assert!(said.stdout.contains("found no room"), "{}", said.stdout);
}

#[test]
fn what_has_no_key_is_told() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap");
    let path = file.to_str().unwrap();
    capture(&["sim:1?count=100", "-s", "20", "-w", path]);
    let summary = count(&[path, "--by", "host,proto"]);
    for by in ["host", "proto"] {
        let without = &table(&summary, by)["without"];
        assert_eq!(without[0]["reason"], "cut");
        assert_eq!(without[0]["packets"], 100);
    }
    let said = output(&mut wirelane(["count", "-q", path, "--by", "host"]));
    assert_eq!(said.stdout.lines().last(), Some("100 packets cut before their host is known"));
}

#[test]
fn tables_are_sorted_and_cut() {
    let spec = "sim:1?count=3000&flows=50&size=imix";
    let said = output(&mut wirelane(["count", "-q", spec, "--by", "flow", "-n", "3"]));
    assert_eq!(said.stdout.lines().count(), 5, "{}", said.stdout);
    assert_eq!(said.stdout.lines().last(), Some("and 47 smaller rows (--top 0 shows all)"));
    for order in ["packets", "bytes"] {
        let summary = count(&[spec, "--by", "flow", "--sort", order]);
        let rows = table(&summary, "flow")["rows"].as_array().unwrap();
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(number(&row[order]))), "{order}");
    }
    let said = output(wirelane(["count", "-q", "--json", spec]).args(["--by", "flow", "-n", "3"]));
    let summary = parse(&said.stdout);
    let table = table(&summary, "flow");
    assert_eq!((table["rows"].as_array().unwrap().len(), &table["rows_total"]), (3, &50.into()));
}

#[test]
fn signals_tell_and_end_it() {
    let mut command = wirelane(["count", "--json", "sim:4?rate=10kpps&flows=20", "--by", "flow"]);
    let mut running = Running { child: ChildGuard::spawn(&mut command) };
    running.wait_until_ready();
    for round in 1..4 {
        running.wait_for(1000 * round);
        running.child.signal(Signal::USR1);
        let told = |child: &ChildGuard| {
            let said = child.stderr();
            let tables = said.matches(" <> ").count();
            said.matches("so far: ").count() == round as usize && tables == 20 * round as usize
        };
        running.child.wait_until(PATIENCE, told);
    }
    running.child.interrupt();
    let ended = running.child.wait(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary = parse(&ended.stdout);
    assert_whole(table(&summary, "flow"), number(&summary["totals"]["delivered"]));
    assert!(number(&summary["totals"]["delivered"]) >= 3000);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    for (args, status, parts) in [
        (&["count", "nothing.pcap"][..], 1, &["nothing.pcap: there is neither"][..]),
        (&["count", "/tmp"], 1, &["/tmp: it is a directory; name a file in it"]),
        (&["count", "wl-none"], 1, &["neither a file nor an interface", "wirelane queues"]),
        (&["count", "tcp", "port", "80"], 2, &["name no port"]),
        (&["count", "sim:1", "--by", "colour"], 2, &["colour"]),
        (&["count", "sim:1", "-f", "tcp", "udp"], 2, &["there are two"]),
    ] {
        refused(args, status, parts);
    }
}

#[test]
fn privileged_a_live_interface_is_counted_by_its_whole_packets() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let mut command = near.command(WIRELANE);
    let interface = &pair.a.interface;
    command.args(["count", "-q", "--json", interface, "--by", "host,port,vlan", "udp port 4000"]);
    let mut running = Running { child: ChildGuard::spawn(&mut command) };
    running.wait_until_ready();
    let sender = near.inside(|| UdpSocket::bind((pair.a.address, 4000)).unwrap());
    // Counting needs only the headers; the bytes are counted on the wire.
    let payload = [7; 1000];
    for _ in 0..100 {
        sender.send_to(&payload, (pair.b.address, 4001)).unwrap();
    }
    running.wait_for(100);
    let summary = running.finish();
    let bytes = 100 * (14 + 20 + 8 + 1000);
    let hosts = rows(&summary, "host");
    assert_eq!(hosts[&pair.a.address.to_string()], [100, bytes, 100, bytes, 0, 0]);
    assert_eq!(hosts[&pair.b.address.to_string()], [100, bytes, 0, 0, 100, bytes]);
    assert_eq!(rows(&summary, "port")["4001/udp"], [100, bytes, 0, 0, 100, bytes]);
    assert_eq!(rows(&summary, "vlan")["untagged"], [100, bytes]);
    assert_eq!(hosts.len(), 2);
}

/// Packets in VXLAN, GRE and IP in IP, and packets outside tunnels: counted by the innermost
/// header, which tshark prints last.
#[test]
fn what_tunnels_carry_is_counted_if_that_is_asked_for() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    let outer = |protocol: u8, rest: &[u8]| {
        let len = (20 + rest.len() as u16).to_be_bytes();
        let ip =
            [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], &ip[..], rest].concat()
    };
    let inner = |number: u64| match number % 2 {
        0 => wirelane_testkit::packets::tcp4(number).build(),
        _ => wirelane_testkit::packets::udp4(number).build(),
    };
    let packet = |number: u64| {
        let inner = inner(number);
        match number % 5 {
            0 | 1 => {
                let len = (16 + inner.len() as u16).to_be_bytes();
                let headers = [0xc0, 0, 0x12, 0xb5, len[0], len[1], 0, 0, 8, 0, 0, 0, 0, 0, 7, 0];
                outer(17, &[&headers[..], &inner].concat())
            }
            2 => outer(47, &[&[0, 0, 8, 0], &inner[14..]].concat()),
            3 => outer(4, &inner[14..]),
            _ => inner,
        }
    };
    let source = wirelane::pcap::Source { link_type: 1, ..Default::default() };
    let options = wirelane::pcap::WriterOptions::of_path(&path);
    let mut writer = wirelane::pcap::CaptureWriter::create(&path, &[source], options, 0).unwrap();
    for number in 0..500 {
        let data = packet(number);
        let record = wirelane::pcap::Record {
            interface: 0,
            timestamp: 1 + number,
            original_len: data.len() as u32,
            direction: Default::default(),
            data: &data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    let file = path.to_str().unwrap();
    let rows = |args: &[&str], table: usize| -> BTreeMap<String, u64> {
        let summary = count(&[&[file, "--by", "proto,host"], args].concat());
        let rows = summary["tables"][table]["rows"].as_array().unwrap().clone();
        let packets = |row: &Value| match row["packets"].as_u64() {
            Some(packets) => packets,
            None => number(&row["sent"]["packets"]),
        };
        rows.iter().map(|row| (row["key"].to_string(), packets(row))).collect()
    };
    let of = |rows: &BTreeMap<String, u64>, part: &str| {
        rows.iter().filter(|(key, _)| key.contains(part)).map(|(_, packets)| packets).sum::<u64>()
    };
    let (outermost, innermost) = (rows(&[], 0), rows(&["--inner"], 0));
    assert_eq!(
        [of(&outermost, "udp"), of(&outermost, "tcp"), of(&outermost, "gre")],
        [250, 50, 100]
    );
    assert_eq!(
        [of(&innermost, "udp"), of(&innermost, "tcp"), of(&innermost, "gre")],
        [250, 250, 0]
    );
    assert_eq!((of(&rows(&[], 1), "10.9.0.1"), of(&rows(&["--inner"], 1), "10.9.0.1")), (400, 0));
    if tools::require("tshark") {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-T", "fields", "-E", "occurrence=l", "-e", "ip.src", "-r", file]);
        let mut theirs = BTreeMap::new();
        for address in process::run(&mut tshark).lines() {
            *theirs.entry(address.to_owned()).or_insert(0_u64) += 1;
        }
        for (address, packets) in &theirs {
            assert_eq!(
                of(&rows(&["--inner"], 1), &format!("\"{address}\"")),
                *packets,
                "{address}"
            );
        }
    }
}
