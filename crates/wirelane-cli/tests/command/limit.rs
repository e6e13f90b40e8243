//! `-c N` delivers the first N packets of all queues, in order of time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};

use tempfile::tempdir;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_testkit::files::below;
use wirelane_testkit::packets::udp4;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use super::any::{send, tunnel};
use super::*;

/// Two ports or one, with requests and answers on different queues.
const SOURCE: &str = "sim:4?count=6000&rate=200kpps&tx=3&other=5&flows=40&seed=7";
const FIRST: u64 = 777;

/// Exactly `packets` packets were received, and all of them delivered.
#[track_caller]
fn assert_exact(summary: &Value, packets: u64) {
    let totals = &summary["totals"];
    let keys = ["received", "delivered", "dropped"];
    assert_eq!(keys.map(|key| number(&totals[key])), [packets, packets, 0], "{totals}");
}

/// These files contain the first packets, and each file is in order.
#[track_caller]
fn assert_first(files: &[PathBuf]) {
    let stream = stream(SOURCE);
    let mut all = Vec::new();
    for file in files {
        let numbers = predicted_numbers(&stream, &packets(file));
        assert!(numbers.is_sorted(), "{}", file.display());
        all.extend(numbers);
    }
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..FIRST), "{all:?}");
}

#[test]
fn the_first_packets_are_written() {
    for options in [&[][..], &["--single"], &["--split"], &["--rotate-packets", "100"]] {
        let directory = tempdir().unwrap();
        let file = directory.path().join("x.pcapng");
        let limit = FIRST.to_string();
        let args = [&[SOURCE, "-c", &limit, "-w", file.to_str().unwrap()], options].concat();
        let summary = capture(&args);
        assert_exact(&summary, FIRST);
        assert_eq!(number(&summary["totals"]["written"]), FIRST, "{options:?}");
        let files = below(directory.path());
        assert_first(&files);
        match options {
            [] | ["--single"] => {
                assert!(is_in_order(&packets(&file)));
                assert_counters(&summary, &file);
            }
            ["--split"] => assert!(files.len() > 4, "{files:?}"),
            _ => assert_eq!(files.len(), 8, "{files:?}"),
        }
    }
}

#[test]
fn the_first_packets_are_printed_counted_and_metered() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let (path, limit) = (file.to_str().unwrap(), FIRST.to_string());
    // A file is one stream of packets, so its first packets are unambiguous.
    let whole = directory.path().join("whole.pcapng");
    capture(&[SOURCE, "-w", whole.to_str().unwrap()]);
    capture(&["-r", whole.to_str().unwrap(), "-c", &limit, "-w", path]);
    assert_first(std::slice::from_ref(&file));
    let printed = |source: &[&str]| {
        let mut command = wirelane(["capture", "-q", "-t", "-n"]);
        output(command.args(source)).stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = printed(&["-r", path]);
    assert_eq!(expected.len() as u64, FIRST);
    for options in [&[][..], &["--single"]] {
        assert!(printed(&[&[SOURCE, "-c", &limit], options].concat()) == expected, "{options:?}");
        let count = |source: &[&str]| {
            let mut command = wirelane(["count", "-q", "--json", "--by", "proto,flow,queue"]);
            let mut summary = summary(&output(command.args(source).args(options)));
            assert_exact(&summary, FIRST);
            let tables = summary["tables"].as_array_mut().unwrap();
            let rows = |table: &mut Value| -> BTreeMap<String, [u64; 2]> {
                let row = |row: &Value| {
                    (row["key"].to_string(), ["packets", "bytes"].map(|what| number(&row[what])))
                };
                table["rows"].as_array().unwrap().iter().map(row).collect()
            };
            tables.iter_mut().map(rows).collect::<Vec<_>>()
        };
        assert_eq!(count(&[SOURCE, "-c", &limit]), count(&[path]), "{options:?}");
        let flows = |source: &[&str]| {
            let mut command = wirelane(["flows", "-q", "--format=json"]);
            command.args(source).args(options);
            let said = output(&mut command);
            assert_eq!((said.status.code(), said.stderr.as_str()), (Some(0), ""));
            let flow = |line: &str| {
                let flow: Value = serde_json::from_str(line).unwrap();
                let keys = ["source", "destination", "source_port", "destination_port"];
                let place: Vec<_> = keys.iter().map(|key| flow[key].to_string()).collect();
                (place, ["packets", "reverse_packets"].map(|what| number(&flow[what])))
            };
            let mut flows: Vec<_> = said.stdout.lines().map(flow).collect();
            flows.sort();
            flows
        };
        assert_eq!(flows(&[SOURCE, "-c", &limit]), flows(&[path]), "{options:?}");
    }
}

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Writes packets of a few flows, one at each of these seconds.
fn write(file: &str, seconds: impl Iterator<Item = u64>) {
    let (path, source) = (Path::new(file), Source::new("x", Class::Rx, Some(0)));
    let mut writer =
        CaptureWriter::create(path, &[source], WriterOptions::of_path(path), 0).unwrap();
    let frames: Vec<_> = (0..7).map(|flow| udp4(0).flow(flow).build()).collect();
    for second in seconds {
        let data = &frames[(second / 1000 % 7) as usize];
        let record = Record {
            interface: 0,
            timestamp: START + second * SECOND,
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// The seconds of the packets in a file, in its order.
fn seconds(file: &str) -> Vec<u64> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut seconds = Vec::new();
    while reader.advance().unwrap() {
        seconds.push((reader.current().timestamp - START) / SECOND);
    }
    seconds
}

/// This many packets, a second apart, use more than half of the memory while one file waits for the
/// other.
#[test]
fn the_first_packets_of_two_files_are_the_oldest() {
    const ALL: u64 = 140_000;
    const LIMIT: u64 = 75_000;
    let directory = tempdir().unwrap();
    let names = ["a.pcapng", "b.pcapng", "all.pcapng", "head.pcapng"];
    let files = names.map(|name| directory.path().join(name).display().to_string());
    let [first, second, all, head] = &files;
    let [a, b] = [first, second].map(|name| format!("file:{name}"));
    let limit = LIMIT.to_string();
    write(first, (0..ALL).step_by(2));
    write(second, (1..ALL).step_by(2));
    for is_interleaved in [true, false] {
        if !is_interleaved {
            write(first, ALL / 2..ALL);
            write(second, 0..ALL / 2);
        }
        capture(&[&a, &b, "-w", all]);
        assert!(seconds(all).into_iter().eq(0..ALL), "{is_interleaved}");
        let summary = capture(&[&a, &b, "-c", &limit, "-w", head]);
        assert_exact(&summary, LIMIT);
        assert!(seconds(head).into_iter().eq(0..LIMIT), "{is_interleaved}");
    }
    let count = |source: &[&str]| {
        let mut command = wirelane(["count", "-q", "--json", "--by=flow"]);
        let summary = summary(&output(command.args(source)));
        let rows = summary["tables"][0]["rows"].as_array().unwrap().iter();
        let mut rows: Vec<_> =
            rows.map(|row| (row["key"].to_string(), number(&row["packets"]))).collect();
        rows.sort();
        rows
    };
    assert_eq!(count(&[&a, &b, "-c", &limit]), count(&[head]));
    let flows = |source: &[&str]| {
        let mut command = wirelane(["flows", "-q", "--format=json"]);
        let said = output(command.args(source));
        assert_eq!((said.status.code(), said.stderr.as_str()), (Some(0), ""));
        let flow = |line: &str| {
            let flow: Value = serde_json::from_str(line).unwrap();
            (flow["source_port"].to_string(), number(&flow["packets"]))
        };
        let mut packets: BTreeMap<String, u64> = BTreeMap::new();
        for (port, more) in said.stdout.lines().map(flow) {
            *packets.entry(port).or_default() += more;
        }
        packets
    };
    assert_eq!(flows(&[&a, &b, "-c", &limit]), flows(&[head]));
}

#[test]
fn each_file_of_several_has_its_part_of_the_first_packets() {
    let directory = tempdir().unwrap();
    let to = directory.path().join("to");
    fs::create_dir(&to).unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (first, second, x) = (path("a.pcapng"), path("b.pcapng"), path("to/x.pcapng"));
    let [a, b] = [&first, &second].map(|name| format!("file:{name}"));
    write(&first, (0..100).step_by(3));
    write(&second, (0..100).filter(|second| second % 3 > 0));
    for options in [&[][..], &["--single"]] {
        let args = [&[&a, &b, "--split", "-c", "7", "-w", &x], options].concat();
        assert_exact(&capture(&args), 7);
        let files = below(&to);
        let parts: Vec<_> = files.iter().map(|file| seconds(file.to_str().unwrap())).collect();
        assert_eq!(parts, [vec![0, 3, 6], vec![1, 2, 4, 5]], "{options:?} {files:?}");
        files.iter().for_each(|file| fs::remove_file(file).unwrap());
    }
}

/// A file of pcap has one link type; packets of another link type do not count.
#[test]
fn privileged_packets_that_a_file_refuses_do_not_use_up_its_limit() {
    if !privileged::require() || !tools::require("python3") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let _tunnel = tunnel(&far);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcap").display().to_string();
    let args = ["any", "-f", "udp port 4711", "-c", "10", "-w", &file];
    let mut running = Running::spawn(Some(&far), &args);
    running.wait_until_statistics(|_| true);
    send(&far, pair.a.address, 4);
    send(&far, Ipv4Addr::new(10, 78, 0, 2), 30);
    send(&far, pair.a.address, 8);
    let ended = running.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let text = |packet: &Packet| String::from_utf8_lossy(&packet.data[42..]).into_owned();
    let expected = (0..4).chain(0..6).map(|number| format!("{} {number}", pair.a.address));
    assert!(packets(&file).iter().map(text).eq(expected));
}

/// A request and its answer, microseconds apart, on different queues: no command may take the
/// answer and omit the earlier request.
#[test]
fn privileged_requests_and_answers_of_different_queues_stay_together() {
    if !privileged::require() {
        return;
    }
    const ROUNDS: u32 = 60;
    const LIMIT: usize = 31;
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    pair.a.steering(4).select(1);
    pair.b.steering(4).select(3);
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let spec = format!("packet:{}{QUICK}", pair.a.interface);
    let limit = LIMIT.to_string();
    let written = [path("limit"), path("single"), path("any"), path("whole")];
    let limited = ["-c", &limit, "-w"];
    let any = format!("any{QUICK}");
    let start = |args: &[&str]| {
        let mut command = near.command(WIRELANE);
        let mut running = Running { child: ChildGuard::spawn(command.args(args)) };
        running.wait_until_ready();
        running
    };
    let common = |name: &'static str| vec![name, spec.as_str(), "-q"];
    let captures = [
        start(&[&common("capture")[..], &["--json"], &limited, &[&written[0]]].concat()),
        start(
            &[&common("capture")[..], &["--json", "--single"], &limited, &[&written[1]]].concat(),
        ),
    ];
    let any = start(&[&["capture", &any, "-q", "--json"][..], &limited, &[&written[2]]].concat());
    let whole = start(&[&common("capture")[..], &["--json", "-w", &written[3]]].concat());
    let lines = start(&[&common("capture")[..], &["-n", "-t", "-c", &limit]].concat());
    let count = start(&[&common("count")[..], &["--json", "--by=flow", "-c", &limit]].concat());
    let flows = start(&[&common("flows")[..], &["--format=json", "-c", &limit]].concat());
    let socket = |end: &wirelane_testkit::veth::End, ns: &Namespace| {
        ns.inside(|| UdpSocket::bind((end.address, 4000)).unwrap())
    };
    let (server, client) = (socket(&pair.a, &near), socket(&pair.b, &far));
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut bytes = [0; 4];
    for round in 0..ROUNDS {
        client.send_to(&(2 * round).to_be_bytes(), (pair.a.address, 4000)).unwrap();
        server.recv_from(&mut bytes).unwrap();
        server.send_to(&(2 * round + 1).to_be_bytes(), (pair.b.address, 4000)).unwrap();
        client.recv_from(&mut bytes).unwrap();
    }
    let outputs = captures.map(|running| summary(&running.child.wait(PATIENCE)));
    outputs.iter().for_each(|summary| assert_exact(summary, LIMIT as u64));
    // The rings of `any` have separate counters, so its rows do not balance one by one.
    let ended = any.child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    assert_exact(&serde_json::from_str(&ended.stdout).unwrap(), LIMIT as u64);
    let lines = lines.child.wait(PATIENCE).stdout;
    let count = summary(&count.child.wait(PATIENCE));
    let flows = flows.child.wait(PATIENCE).stdout;
    let mut whole = whole;
    whole.wait_for(u64::from(2 * ROUNDS));
    whole.finish();
    let whole = packets(&written[3]);
    let number = |packet: &Packet| packet.data.get(42..46).map(<[u8]>::to_vec);
    let numbers = |packets: &[Packet]| packets.iter().map(number).collect::<Vec<_>>();
    assert!(whole.iter().any(|packet| packet.queue == Some(1)));
    assert!(whole.iter().any(|packet| packet.queue == Some(3)));
    for file in &written[..3] {
        assert_eq!(numbers(&packets(file)), numbers(&whole[..LIMIT]), "{file}");
    }
    assert_exact(&count, LIMIT as u64);
    let row = &count["tables"][0]["rows"][0];
    let of = |direction: &str| super::number(&row[direction]["packets"]);
    let mut both = [of("sent"), of("received")];
    both.sort_unstable();
    let half = LIMIT as u64 / 2;
    assert_eq!(both, [half, half + 1], "{row}");
    let client = format!("{}.4000 > ", pair.b.address);
    let requests = lines.lines().filter(|line| line.contains(&client)).count() as u64;
    assert_eq!((lines.lines().count(), requests), (LIMIT, half + 1), "{lines}");
    assert_eq!(flows.lines().count(), 1, "{flows}");
    let flow: Value = serde_json::from_str(&flows).unwrap();
    assert_eq!(flow["source"], pair.b.address.to_string(), "{flow}");
    let of = |what: &str| super::number(&flow[what]);
    assert_eq!([of("packets"), of("reverse_packets")], [half + 1, half], "{flow}");
}
