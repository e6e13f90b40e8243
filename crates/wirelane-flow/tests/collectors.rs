//! Other collectors (nfdump, pmacct, …) decode the exported messages to the same flows and sums.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use wirelane_flow::ipfix::{Collector, Exporter, Limits, Pipe, Sent};
use wirelane_flow::{EndReason, Flow, Half, Key, Sink, Tunnel, TunnelKind};
use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::{ChildGuard, run};
use wirelane_testkit::tools;
use wirelane_wire::{Protocol, TcpFlags};

/// Addresses, ports, protocol, TCP flags, and packets and bytes of both directions.
type Row = ([String; 2], [u16; 2], u8, u8, [u64; 4]);

#[test]
fn nfcapd_reads_two_way_flows() {
    if !Program::require(&["nfcapd", "nfdump"]) {
        return;
    }
    let flows = flows(200);
    let directory = tempfile::tempdir().unwrap();
    let port = free();
    let mut command = program("nfcapd");
    command.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"]).arg(directory.path());
    let said =
        collect(command, &["Startup nfcapd"], &format!("udp://127.0.0.1:{port}"), &flows, |_| {
            waiting(port) == Some(0)
        });
    let packets = both(&flows, |it| it.packets);
    let octets = both(&flows, |it| it.octets);
    let counted = format!(
        "Flows: {}, Packets: {packets}, Bytes: {octets}, Sequence Errors: 0, Bad Packets: 0",
        flows.len()
    );
    assert!(said.contains(&counted), "{counted} in {said}");

    let mut command = program("nfdump");
    command.arg("-R").arg(directory.path());
    command.args(["-q", "-6", "-N", "-o", "fmt:%sa %sp %da %dp %pr %flg %ipkt %ibyt %opkt %obyt"]);
    let text = run(&mut command);
    assert_same(text.lines().filter(|it| !it.trim().is_empty()).map(of_nfdump), &flows);
}

fn of_nfdump(line: &str) -> Row {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [source, source_port, destination, destination_port, protocol, flags, counts @ ..] =
        &words[..]
    else {
        panic!("{line}")
    };
    let bits = flags.bytes().rev().enumerate().filter(|(_, it)| *it != b'.');
    // nfdump prints ICMP type and code as a decimal fraction.
    let (source_port, destination_port) = match destination_port.split_once('.') {
        Some((kind, code)) => (kind, code),
        None => (*source_port, *destination_port),
    };
    (
        [(*source).to_owned(), (*destination).to_owned()],
        [source_port, destination_port].map(|it| it.parse().unwrap()),
        protocol.parse().unwrap(),
        bits.map(|(place, _)| 1 << place).sum(),
        numbers(counts),
    )
}

#[test]
fn pmacct_reads_flows_of_one_direction_each() {
    if !Program::require(&["nfacctd"]) {
        return;
    }
    let flows = flows(200);
    let mut halves: Vec<Flow> = flows.iter().flat_map(halves).collect();
    for flow in &mut halves {
        if is_icmp(flow) {
            // pmacct has no fields for type and code.
            (flow.key.source_port, flow.key.destination_port) = (0, 0);
        }
    }
    let port = free();
    let mut command = program("nfacctd");
    let file = tempfile::NamedTempFile::new().unwrap();
    // With a larger buffer, it does not print the last flows.
    let settings = format!(
        "nfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nplugins: print\nprint_refresh_time: 1\n\
         print_output: csv\nplugin_buffer_size: 512\nplugin_pipe_size: 1024000\n\
         aggregate: src_host,dst_host,src_port,dst_port,proto,tcpflags\n"
    );
    fs::write(file.path(), settings).unwrap();
    command.arg("-f").arg(file.path());
    let said = collect(
        command,
        &["waiting for NetFlow", "no print_output_file"],
        &format!("udp://127.0.0.1:{port}?oneway"),
        &flows,
        |it| rows_of_pmacct(&it.stdout()).count() >= halves.len(),
    );
    assert_same(rows_of_pmacct(&said).map(of_pmacct), &halves);
}

fn rows_of_pmacct(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|it| it.contains(',') && !it.starts_with("SRC_IP") && !it.contains('('))
}

fn of_pmacct(line: &str) -> Row {
    let words: Vec<&str> = line.split(',').collect();
    let [source, destination, source_port, destination_port, flags, protocol, counts @ ..] =
        &words[..]
    else {
        panic!("{line}")
    };
    let protocol = match *protocol {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "ipv6-icmp" => 58,
        other => panic!("{other} in {line}"),
    };
    let [packets, octets, ..] = numbers(counts);
    (
        [(*source).to_owned(), (*destination).to_owned()],
        [source_port, destination_port].map(|it| it.parse().unwrap()),
        protocol,
        flags.parse().unwrap(),
        [packets, octets, 0, 0],
    )
}

#[test]
fn wireshark_reads_the_stream() {
    if !tools::require("tshark") {
        return;
    }
    let flows = flows(200);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.ipfix");
    let mut pipe = Pipe::new(File::create(&path).unwrap());
    flows.iter().for_each(|it| pipe.add(it).unwrap());
    pipe.flush().unwrap();
    let fields = ["cflow.packets", "cflow.octets", "cflow.if_name", "_ws.malformed"];
    let mut command = Command::new(tools::find("tshark").unwrap());
    command.arg("-r").arg(&path).args(["-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let text = run(&mut command);
    let (mut packets, mut octets, mut names) = (0, 0, 0);
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let sum = |column: &str| -> u64 {
            column.split(',').filter(|it| !it.is_empty()).map(|it| it.parse::<u64>().unwrap()).sum()
        };
        packets += sum(columns[0]);
        octets += sum(columns[1]);
        names += columns[2].split(',').filter(|it| *it == "eth0").count();
        assert_eq!(columns[3], "");
    }
    let expected = (both(&flows, |it| it.packets), both(&flows, |it| it.octets), 200);
    assert_eq!((packets, octets, names), expected);
}

/// Runs a collector until it has received all flows. Returns its output.
fn collect(
    mut command: Command,
    ready: &[&str],
    to: &str,
    flows: &[Flow],
    has_them: impl Fn(&ChildGuard) -> bool,
) -> String {
    let mut collector = ChildGuard::spawn(&mut command);
    // Some collectors discard messages that arrive before they report to be ready.
    let said = |it: &ChildGuard| format!("{}{}", it.stdout(), it.stderr());
    collector.wait_until(PATIENCE, |it| ready.iter().all(|word| said(it).contains(word)));
    let to: Collector = to.parse().unwrap();
    let limits = Limits::default().patience(PATIENCE);
    let mut exporter = Exporter::start(&to, limits).unwrap();
    add(&mut exporter, flows);
    let sent = finish(exporter);
    assert_eq!((sent.lost, sent.failures), (0, 0), "{sent:?}");
    collector.wait_until(PATIENCE, has_them);
    collector.interrupt();
    let said = collector.wait(PATIENCE);
    format!("{}{}", said.stdout, said.stderr)
}

const PATIENCE: Duration = Duration::from_secs(20);

fn program(name: &str) -> Command {
    Program::find(name).unwrap().command(Library::Stock, None)
}

fn free() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The bytes queued in the socket of this port, if it exists: `rx_queue` of `/proc/net/udp`.
fn waiting(port: u16) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/udp").unwrap();
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words[1].ends_with(&format!(":{port:04X}"));
        is_it.then(|| u64::from_str_radix(words[4].split_once(':').unwrap().1, 16).unwrap())
    })
}

#[track_caller]
fn assert_same(rows: impl Iterator<Item = Row>, flows: &[Flow]) {
    let mut rows: Vec<Row> = rows.collect();
    let mut expected: Vec<Row> = flows.iter().map(row).collect();
    rows.sort();
    expected.sort();
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row, expected);
    }
}

fn row(flow: &Flow) -> Row {
    let (key, forward, reverse) = (&flow.key, &flow.forward, &flow.reverse);
    (
        [key.source.to_string(), key.destination.to_string()],
        [key.source_port, key.destination_port],
        key.protocol.0,
        forward.tcp_flags.bits() as u8,
        [forward.packets, forward.octets, reverse.packets, reverse.octets],
    )
}

fn halves(flow: &Flow) -> Vec<Flow> {
    let forward = Flow { reverse: Half::default(), ..flow.clone() };
    let mut reverse = Flow { forward: flow.reverse.clone(), ..forward.clone() };
    let key = &mut reverse.key;
    std::mem::swap(&mut key.source, &mut key.destination);
    std::mem::swap(&mut key.source_port, &mut key.destination_port);
    [forward, reverse].into_iter().filter(|it| it.forward.packets > 0).collect()
}

/// A sum over both directions.
fn both(flows: &[Flow], of: fn(&Half) -> u64) -> u64 {
    flows.iter().map(|it| of(&it.forward) + of(&it.reverse)).sum()
}

fn numbers(words: &[&str]) -> [u64; 4] {
    let mut numbers = words.iter().map(|it| it.parse().unwrap());
    [(); 4].map(|()| numbers.next().unwrap_or(0))
}

fn is_icmp(flow: &Flow) -> bool {
    matches!(flow.key.protocol, Protocol::ICMP | Protocol::ICMPV6)
}

/// Flows of all kinds: both address families, TCP, UDP and ICMP, one-way and two-way, VLAN tags,
/// tunnels.
fn flows(count: u64) -> Vec<Flow> {
    (0..count).map(flow).collect()
}

fn flow(number: u64) -> Flow {
    let start = 1_795_440_000_000_000_000 + number * 1_234_567_891;
    let half = |packets: u64| Half {
        packets,
        octets: packets * (60 + number),
        payload: packets * (20 + number),
        start: start + packets,
        end: start + packets * 3_000_000,
        tcp_flags: if number % 5 > 2 {
            TcpFlags::SYN.with(TcpFlags::ACK)
        } else {
            TcpFlags::default()
        },
        dscp: 46,
        min_ttl: 63,
        max_ttl: 64,
        ..Half::default()
    };
    let (source, destination): (IpAddr, IpAddr) = if number.is_multiple_of(3) {
        let of = |low: u64| Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(low)).into();
        (of(number + 1), of(number + 2))
    } else {
        let of = |low: u64| Ipv4Addr::from(0x0a00_0000 | low as u32).into();
        (of(number + 1), of(number + 2))
    };
    let is_v6 = source.is_ipv6();
    let (protocol, source_port, destination_port) = match number % 5 {
        0 => (if is_v6 { Protocol::ICMPV6 } else { Protocol::ICMP }, 8, 0),
        1 | 2 => (Protocol::UDP, 40_000 + number as u16, 53),
        _ => (Protocol::TCP, 40_000 + number as u16, 443),
    };
    let tunnel = (number.is_multiple_of(7)).then_some(Tunnel {
        kind: TunnelKind::Vxlan,
        source,
        destination,
        id: Some(99),
    });
    Flow {
        key: Key {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            vlan: (number.is_multiple_of(4)).then_some(100 + number as u16),
            inner_vlan: None,
            tunnel,
        },
        forward: half(number + 1),
        reverse: if number.is_multiple_of(2) { half(number + 2) } else { Half::default() },
        handshake_rtt: None,
        end: EndReason::Ended,
        interface: "eth0".into(),
        community: [7; 20],
    }
}

fn add(exporter: &mut Exporter, flows: &[Flow]) {
    flows.iter().for_each(|flow| exporter.add(flow).unwrap());
}

/// Finishes the exporter and returns its counts. [`Sink::finish`] fails if flows were lost.
fn finish(mut exporter: Exporter) -> Sent {
    let outcome = exporter.finish();
    let sent = exporter.watch().sent();
    assert_eq!(outcome.is_err(), sent.lost > 0);
    sent
}
