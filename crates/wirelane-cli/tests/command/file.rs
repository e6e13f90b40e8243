//! Capture files as the port: packets pass unchanged, and without delay.

use std::fs::{self, File};
use std::io::Write;

use tempfile::tempdir;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_testkit::process::{self, run};

use super::*;

/// A few packets in a pipe reach the output while the pipe is silent but open.
#[test]
fn packets_of_a_live_pipe_are_written_before_more_come() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    capture(&["sim:2?count=5", "-w", path("x.pcapng").to_str().unwrap()]);
    let bytes = fs::read(path("x.pcapng")).unwrap();
    process::run(Command::new("mkfifo").arg(path("fifo")));
    let mut pipe = File::options().read(true).write(true).open(path("fifo")).unwrap();
    let file = path("y.pcapng");
    let mut command = Command::new("sh");
    let script = "exec \"$0\" capture -q --json file:- -w \"$1\" < \"$2\"";
    command.args(["-c", script, WIRELANE]).arg(&file).arg(path("fifo"));
    let child = ChildGuard::spawn(&mut command);
    pipe.write_all(&bytes).unwrap();
    let mut capture = Running { child };
    let are_written =
        |_: &ChildGuard| CaptureReader::open(&file).is_ok() && readable(&file).0.len() == 5;
    capture.child.wait_until(PATIENCE, are_written);
    assert!(capture.child.is_running());
    drop(pipe);
    let summary = summary(&capture.child.wait(PATIENCE));
    assert_eq!(summary["totals"]["written"], 5);
    let data = |path| packets(path).into_iter().map(|packet| packet.data).collect::<Vec<_>>();
    assert_eq!(data(file), data(path("x.pcapng")));
}

/// A packet with its interface, all of it.
type Whole = (u32, u64, u32, Direction, Vec<u8>);

/// The content of a capture file, without its statistics.
fn content(path: &Path) -> (Vec<Source>, Vec<Whole>) {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(r) = reader.next_record().unwrap() {
        packets.push((r.interface, r.timestamp, r.original_len, r.direction, r.data.to_vec()));
    }
    (reader.interfaces().to_vec(), packets)
}

#[test]
fn a_copy_says_the_same_as_the_file() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    capture(&["sim:4?count=5000&other=7&tx=5&flows=99", "-w", &text("x.pcapng")]);
    let x = content(&path("x.pcapng"));
    assert!(x.0.len() > 8);
    let port = format!("file:{}", text("x.pcapng"));
    let copied = capture(&[&port, "-w", &text("y.pcapng")]);
    assert!(content(&path("y.pcapng")) == x);
    assert_counters(&copied, &path("y.pcapng"));
    // For each queue, as the original capture recorded it.
    let expected = |packets: &[Whole], number: usize| {
        packets.iter().filter(|packet| packet.0 as usize == number).count()
    };
    for (number, queue) in copied["queues"].as_array().unwrap().iter().enumerate() {
        assert_eq!(queue["packets"], expected(&x.1, number), "{queue}");
    }
    // With -c, the first packets of the file.
    capture(&[&port, "-c", "1000", "-w", &text("y.pcapng")]);
    assert!(content(&path("y.pcapng")).1 == x.1[..1000]);
    // Each interface has a file, even without packets.
    capture(&[&port, "--split", "-w", &text("z.pcapng")]);
    for (number, source) in x.0.iter().enumerate() {
        let name = match source.queue {
            Some(queue) => format!("z.{}{queue}.pcapng", source.class.unwrap()),
            None => "z.other.pcapng".into(),
        };
        let (sources, packets) = content(&path(&name));
        assert_eq!(sources, std::slice::from_ref(source), "{name}");
        let number = number as u32;
        let of_it =
            x.1.iter().filter(|one| one.0 == number).map(|one| (0, one.1, one.2, one.3, &one.4));
        assert!(packets.iter().map(|one| (one.0, one.1, one.2, one.3, &one.4)).eq(of_it), "{name}");
    }
}

#[test]
fn masks_and_filters_select_of_a_file_by_queue() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    capture(&[
        "sim:4?count=5000&tx=5&proto=mix&flows=99",
        "-w",
        path("x.pcapng").to_str().unwrap(),
    ]);
    let (sources, all) = content(&path("x.pcapng"));
    let port = format!("file:{}", path("x.pcapng").display());
    let y = path("y.pcapng");
    let summary = capture(&[
        &port,
        "--rx-queues",
        "1,3",
        "--tx-queues",
        "2",
        "--other",
        "off",
        "-f",
        "tcp",
        "-w",
        y.to_str().unwrap(),
    ]);
    let place = |number: u32| (sources[number as usize].class, sources[number as usize].queue);
    let selected = |number: u32| {
        let wanted = [(Class::Rx, 1), (Class::Rx, 3), (Class::Tx, 2)];
        wanted.iter().any(|(class, queue)| place(number) == (Some(*class), Some(*queue)))
    };
    // TCP over IPv4 without options.
    let is_tcp = |data: &[u8]| data[12..14] == [8, 0] && data[23] == 6;
    let expected: Vec<_> =
        all.iter().filter(|one| selected(one.0) && is_tcp(&one.4)).cloned().collect();
    assert!(!expected.is_empty());
    let (interfaces, packets) = content(&y);
    assert!(interfaces == sources && packets == expected);
    for (number, queue) in summary["queues"].as_array().unwrap().iter().enumerate() {
        let number = number as u32;
        let received = all.iter().filter(|one| one.0 == number && selected(number)).count();
        let left = expected.iter().filter(|one| one.0 == number).count();
        assert_eq!(
            (&queue["received"], &queue["packets"]),
            (&received.into(), &left.into()),
            "{queue}"
        );
        assert_eq!(queue["filtered"], received - left, "{queue}");
    }
    assert_counters(&summary, &y);
}

/// Interface descriptions and packet directions of other programs are kept.
#[test]
fn a_copy_of_a_file_of_others_says_the_same() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let source = |name: &str, description: &str| Source {
        class: None,
        description: description.into(),
        filter: Some("udp".into()),
        hardware: Some("tester".into()),
        speed: Some(1_000_000_000),
        fcs_len: Some(4),
        snaplen: 9000,
        ..Source::new(name, Class::Rx, None)
    };
    let sources = [source("lan", "the inner side"), source("wan", ""), source("lan", "again")];
    let options = WriterOptions::of_path(&path("x.pcapng"));
    let mut writer = CaptureWriter::create(path("x.pcapng"), &sources, options, 0).unwrap();
    for k in 0..300_u32 {
        let direction = if k % 7 == 0 { Direction::Outbound } else { Direction::Unknown };
        let (interface, timestamp) = (k % 3, 1_700_000_000_000_000_000 + u64::from(k / 2));
        let data = &vec![k as u8; 60 + k as usize][..];
        let record = Record { interface, timestamp, original_len: 2000, direction, data };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    let port = format!("file:{}", path("x.pcapng").display());
    let copied = capture(&[&port, "-w", path("y.pcapng").to_str().unwrap()]);
    assert!(content(&path("y.pcapng")) == content(&path("x.pcapng")));
    let counted: Vec<_> =
        copied["queues"].as_array().unwrap().iter().map(|q| &q["packets"]).collect();
    assert_eq!(counted, [100, 100, 100]);
    // Packets that are marked as sent are selected with all TX queues.
    capture(&[&port, "--rx-queues", "none", "-w", path("y.pcapng").to_str().unwrap()]);
    let sent = |one: &&Whole| one.3 == Direction::Outbound;
    let expected: Vec<_> = content(&path("x.pcapng")).1.iter().filter(sent).cloned().collect();
    assert!(!expected.is_empty() && content(&path("y.pcapng")).1 == expected);
}

/// Interfaces of other programs have neither queue nor class, but each has a file.
#[test]
fn interfaces_of_a_file_of_others_are_split() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let sources = [(); 3].map(|()| Source { class: None, ..Source::new("lan", Class::Rx, None) });
    let options = WriterOptions::of_path(&path("x.pcapng"));
    let mut writer = CaptureWriter::create(path("x.pcapng"), &sources, options, 0).unwrap();
    for timestamp in 1..=300_u64 {
        let interface = timestamp as u32 % 3;
        let (original_len, direction) = (60, Direction::Unknown);
        let data = &[timestamp as u8; 60][..];
        let record = Record { interface, timestamp, original_len, direction, data };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    let port = format!("file:{}", path("x.pcapng").display());
    capture(&[&port, "--split", "-w", path("y.pcapng").to_str().unwrap()]);
    for (interface, first) in [(0, 3), (1, 1), (2, 2)] {
        let packets = packets(path(&format!("y.queue{interface}.pcapng")));
        let times = packets.iter().map(|packet| packet.timestamp);
        assert!(times.eq((first..=300).step_by(3)), "interface {interface}");
    }
}

/// Two interfaces with the same queue stay separate. An interface that is described after packets
/// is a new one, unless an earlier description is equal. This holds for captures to one file or
/// several, for printed lines and for forwarding.
#[test]
fn interfaces_stay_apart_wherever_they_are_described() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let sources = ["eth0", "eth1"].map(|name| Source::new(name, Class::Rx, Some(0)));
    let options = WriterOptions::of_path(&path("x.pcapng"));
    let mut writer = CaptureWriter::create(path("x.pcapng"), &sources, options, 0).unwrap();
    let write = |writer: &mut CaptureWriter, interface, timestamp| {
        let (original_len, direction) = (60, Direction::Unknown);
        let data = &[interface as u8; 60][..];
        writer.write(&Record { interface, timestamp, original_len, direction, data }).unwrap();
    };
    write(&mut writer, 0, 1);
    write(&mut writer, 1, 2);
    let snaplen = 262_144;
    for (name, queue, times) in [("eth2", 5, [3, 4]), ("eth0", 0, [5, 6]), ("eth2", 5, [7, 8])] {
        let source = Source { snaplen, ..Source::new(name, Class::Rx, Some(queue)) };
        let late = writer.add_source(source).unwrap();
        times.into_iter().for_each(|time| write(&mut writer, late, time));
    }
    writer.finish(&[]).unwrap();
    let port = format!("file:{}", path("x.pcapng").display());
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let summary = capture(&[&port, "-w", &text("y.pcapng")]);
    assert_eq!(summary["ports"][0]["notes"], serde_json::json!([]));
    run(&mut wirelane(["forward", "-q", &port, &format!("file:{}", text("z.pcapng"))]));
    let expected = ["eth0", "eth1", "eth2", "eth2", "eth0", "eth0", "eth2", "eth2"];
    for file in ["y.pcapng", "z.pcapng"] {
        let (sources, packets) = content(&path(file));
        assert_eq!(sources.len(), 3, "{file}");
        let names = packets.iter().map(|packet| sources[packet.0 as usize].name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{file}");
    }
    let of = |row: usize| {
        let row = &summary["queues"][row];
        (row["interface"].as_str(), row["queue"].as_u64(), row["packets"].as_u64())
    };
    assert_eq!(of(0), (None, Some(0), Some(3)));
    assert_eq!(of(1), (Some("eth1"), Some(0), Some(1)));
    assert_eq!(of(2), (Some("eth2"), Some(5), Some(4)));
    let lines = output(&mut wirelane(["capture", "-q", "--print", &port])).stdout;
    let names = lines.lines().map(|line| line.split_whitespace().nth(1).unwrap());
    assert_eq!(names.collect::<Vec<_>>(), expected, "{lines}");
    // Packets that a filter rejects are counted for their interface.
    let summary = capture(&[&port, "-f", "ether[0] = 2"]);
    let filtered: Vec<_> = (0..3).map(|row| summary["queues"][row]["filtered"].as_u64()).collect();
    assert_eq!(filtered, [Some(3), Some(1), Some(2)], "{summary}");
    // Each has a file.
    capture(&[&port, "--split", "-w", &text("s.pcapng")]);
    let names = ["s.rx0.pcapng", "s.rx0.rx0.pcapng", "s.rx5.pcapng"].map(|name| {
        let (sources, packets) = content(&path(name));
        packets.iter().map(|packet| sources[packet.0 as usize].name.clone()).collect::<Vec<_>>()
    });
    assert_eq!(names, [vec!["eth0"; 3], vec!["eth1"], vec!["eth2"; 4]]);
}

/// The work per packet in a capture and a forwarder does not grow with the number of interfaces
/// described earlier.
#[test]
fn a_file_with_an_interface_before_each_packet_takes_linear_work() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    capture(&["sim:1?count=1", "-w", &text("one.pcapng")]);
    let one = fs::read(path("one.pcapng")).unwrap();
    let port = format!("file:{}", text("x.pcapng"));
    let cpu = |count: usize, args: &[&str]| {
        fs::write(path("x.pcapng"), one.repeat(count)).unwrap();
        let summary = summary(&output(&mut wirelane(args)));
        assert_eq!(summary["totals"]["delivered"], count);
        let part = |name: &str| summary["cpu"][name].as_f64().unwrap();
        part("user_s") + part("system_s")
    };
    let capture = ["capture", "-q", "--json", &port, "-w", &text("y.pcapng")];
    let forward = ["forward", "-q", "--json", &port, &format!("file:{}", text("y.pcapng"))];
    for args in [&capture[..], &forward] {
        let (few, many) = (cpu(3000, args), cpu(12_000, args));
        // Quadratic work would take sixteen times as long.
        assert!(many < 8.0 * few + 0.1, "{args:?}: {few} s, and {many} s for four times as many");
    }
}

/// IPv4 and IPv6, TCP, UDP and something else, behind headers that begin with an address family.
fn loopback_packets(link_type: u32, number: fn(u32) -> [u8; 4]) -> Vec<Vec<u8>> {
    let header = |family: u32| match link_type {
        108 => family.to_be_bytes().to_vec(),
        109 => [number(family), 7_u32.to_be_bytes(), number(1)].concat(),
        _ => number(family).to_vec(),
    };
    let ip4 = |protocol: u8| {
        let start = [0x45, 0, 0, 40, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&start[..], &[3, 232, 0, 53], &[0x50; 16]].concat()
    };
    let ip6 = |protocol: u8| {
        let start = [0x60, 0, 0, 0, 0, 20, protocol, 64];
        [&start[..], &[0xfd; 16], &[0xfe; 16], &[3, 232, 0, 53], &[0x50; 16]].concat()
    };
    let mut packets = vec![[header(2), ip4(6)].concat(), [header(2), ip4(17)].concat()];
    for family in [24, 28, 30, 10] {
        packets.extend([6, 17].map(|protocol| [header(family), ip6(protocol)].concat()));
    }
    packets.push([header(7), vec![1; 40]].concat());
    packets
}

/// In a file of a BSD's loopback interface, in either byte order, a filter finds the same packets
/// as tcpdump. tcpdump finds them in the output, too.
#[test]
fn loopback_files_of_both_byte_orders_mean_the_same_as_to_tcpdump() {
    if !wirelane_testkit::tools::require("tcpdump") {
        return;
    }
    let directory = tempdir().unwrap();
    let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let count = |file: &str, expression: &str| {
        let output =
            output(Command::new("tcpdump").args(["-n", "-r", file, "--count", expression]));
        assert!(output.status.success(), "{}", output.stderr);
        let words = output.stdout + &output.stderr;
        let line = words.lines().find(|line| line.ends_with("packets") || line.ends_with("packet"));
        line.unwrap().split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let orders = [("le", u32::to_le_bytes as fn(u32) -> [u8; 4]), ("be", u32::to_be_bytes)];
    for (order, number) in orders {
        for link_type in [0, 108, 109] {
            let version = if order == "be" { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            let head =
                [number(0xa1b2_c3d4), version, [0; 4], [0; 4], number(65_535), number(link_type)];
            let mut bytes = head.concat();
            for (time, packet) in (1_700_000_000..).zip(loopback_packets(link_type, number)) {
                let len = number(packet.len() as u32);
                bytes.extend([number(time), number(5), len, len].concat());
                bytes.extend(packet);
            }
            let (x, y, merged) = (text("x.pcap"), text("y.pcapng"), text("merged.pcapng"));
            fs::write(&x, bytes).unwrap();
            assert!(output(wirelane(["merge", &x, "-w", &merged]).args([""; 0])).status.success());
            let port = format!("file:{x}");
            for expression in ["ip", "ip6", "tcp", "udp", "ip6 and port 53", "not ip"] {
                let expected = count(&x, expression);
                assert!(expected > 0, "{expression}");
                let summary = capture(&[&port, "-f", expression, "-w", &y]);
                let found = [&summary["totals"]["written"], &count(&y, expression).into()]
                    .map(|n| n.as_u64());
                assert_eq!(found, [Some(expected); 2], "{order} {link_type} {expression}");
                assert_eq!(
                    count(&merged, expression),
                    expected,
                    "{order} {link_type} {expression}"
                );
            }
        }
    }
}

/// Output of pzstd begins with a skippable frame.
#[test]
fn files_of_pzstd_are_read() {
    if !wirelane_testkit::tools::require("pzstd") {
        return;
    }
    let directory = tempdir().unwrap();
    let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    capture(&["sim:1?count=20000", "-w", &text("x.pcapng")]);
    process::run(Command::new("pzstd").args(["-q", &text("x.pcapng"), "-o", &text("y.zst")]));
    assert_eq!(fs::read(text("y.zst")).unwrap()[..4], [0x50, 0x2a, 0x4d, 0x18]);
    capture(&[&format!("file:{}", text("y.zst")), "-w", &text("z.pcapng")]);
    assert!(content(Path::new(&text("z.pcapng"))) == content(Path::new(&text("x.pcapng"))));
}

/// Names are bytes.
#[test]
fn files_need_no_name_in_utf8() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    let directory = tempdir().unwrap();
    let name = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
    let port = |path: &Path| {
        let mut port = OsString::from("file:");
        port.push(path);
        port
    };
    let (x, y, z) = (name(b"x\xff.pcapng"), name(b"y\xfe.pcapng.gz"), name(b"z\xe4.pcap"));
    let run = |command: &mut Command| {
        let output = output(command);
        assert!(output.status.success(), "{}", output.stderr);
    };
    run(wirelane(["capture", "-q", "sim:1?count=100", "-w"]).arg(&x));
    run(wirelane(["capture", "-q"]).arg(port(&x)).arg("-w").arg(&y));
    run(wirelane(["forward", "-q"]).args([port(&y), port(&z)]));
    run(wirelane(["verify"]).arg(&z));
    assert_eq!(
        CaptureReader::open(&z)
            .map(|mut file| (0..).take_while(|_| file.advance().unwrap()).count())
            .unwrap(),
        100
    );
    // An input is not overwritten, under any of its names.
    let refused = output(wirelane(["capture", "-q"]).arg(port(&x)).arg("-w").arg(&x));
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert_eq!(content(&x).1.len(), 100);
}

/// Packets from before 1970 and after 2554 are kept, and a note reports their changed times.
#[test]
fn times_that_change_are_told() {
    let directory = tempdir().unwrap();
    let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = Vec::new();
    let mut block = |kind: u32, body: &[u32]| {
        let len = body.len() as u32 * 4 + 12;
        let words = [kind, len].into_iter().chain(body.iter().copied()).chain([len]);
        bytes.extend(words.flat_map(u32::to_ne_bytes));
    };
    let halves = |one: u16, other: u16| {
        let ([a, b], [c, d]) = (one.to_ne_bytes(), other.to_ne_bytes());
        u32::from_ne_bytes([a, b, c, d])
    };
    let [a, b, c, d, e, f, g, h] = (-10_i64).to_ne_bytes();
    let [offset, upper] = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
    block(0x0a0d_0d0a, &[0x1a2b_3c4d, halves(1, 0), u32::MAX, u32::MAX]);
    // Ethernet, in microseconds since 10 s before 1970.
    block(1, &[halves(1, 0), 0, halves(14, 8), offset, upper, 0]);
    for (high, low) in [(0, 9_999_999), (0, 10_000_000), (u32::MAX, 0), (1000, 0)] {
        let head = [0, high, low, 60, 60];
        block(6, &[&head[..], &[0x0200_0002; 15]].concat());
    }
    fs::write(text("x.pcapng"), bytes).unwrap();
    let port = format!("file:{}", text("x.pcapng"));
    let told = |words: &str| {
        assert!(words.contains("1 packet is earlier than 1970"), "{words}");
        assert!(words.contains("1 packet is later than 2554"), "{words}");
    };
    let times =
        |name: &str| content(Path::new(&text(name))).1.iter().map(|one| one.1).collect::<Vec<_>>();
    let last = 1000 * (1 << 32) * 1000 - 10_000_000_000;
    told(&capture(&[&port, "-w", &text("y.pcapng")])["ports"][0]["notes"].to_string());
    assert_eq!(times("y.pcapng"), [0, 0, u64::MAX, last]);
    capture(&[&port, "--sort", "-w", &text("y.pcapng")]);
    assert_eq!(times("y.pcapng"), [0, 0, last, u64::MAX]);
    let forwarded =
        output(&mut wirelane(["forward", "--json", &port, &format!("file:{}", text("z.pcapng"))]));
    told(&forwarded.stderr);
    told(&forwarded.stdout);
    assert_eq!(times("z.pcapng"), [0, 0, u64::MAX, last]);
    let merged = output(&mut wirelane(["merge", &text("x.pcapng"), "-w", &text("m.pcapng")]));
    told(&merged.stderr);
    let json =
        output(&mut wirelane(["merge", "--json", &text("x.pcapng"), "-w", &text("m.pcapng")]));
    told(&json.stdout);
    assert_eq!(times("m.pcapng"), [0, 0, u64::MAX, last]);
    told(&output(&mut wirelane(["verify", &text("x.pcapng")])).stdout);
    // Rotation by time does not create a file for each packet at the end of time.
    let rotated = capture(&[&port, "-G", "1h", "-w", &text("r.pcapng")]);
    assert!(rotated["totals"]["files"].as_u64().unwrap() <= 3, "{rotated}");
    // Classic pcap ends in 2106. After sorting, the last packet of the file is before that.
    let (pcap, sink) = (text("c.pcap"), format!("file:{}", text("c.pcap")));
    let runs = [
        (&["capture", "--sort", &port, "-w", &pcap][..], &[0, 0, last][..]),
        (&["forward", "-q", &port, &sink], &[0, 0]),
    ];
    for (args, expected) in runs {
        let refused = output(&mut wirelane(args));
        assert_eq!(refused.status.code(), Some(1));
        let words = refused.stderr;
        assert!(words.contains("2106") && words.contains("write pcapng"), "{words}");
        assert_eq!(times("c.pcap"), expected);
    }
}

/// Interfaces of other programs have no queue for the file's name. Each still has a separate file.
#[test]
fn interfaces_of_others_have_a_file_each() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let other = |name: &str| Source { class: None, ..Source::new(name, Class::Rx, None) };
    let sources = [Source::new("ours", Class::Rx, Some(2)), other("lan"), other("wan")];
    let options = WriterOptions::of_path(&path("x.pcapng"));
    let mut writer = CaptureWriter::create(path("x.pcapng"), &sources, options, 0).unwrap();
    for k in 0..30_u32 {
        let (interface, timestamp) = (k % 3, 1_700_000_000_000_000_000 + u64::from(k));
        let (direction, data) = (Direction::Outbound, &[k as u8; 60]);
        let record = Record { interface, timestamp, original_len: 60, direction, data };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    let port = format!("file:{}", path("x.pcapng").display());
    let summary = capture(&[&port, "--split", "-w", path("y.pcapng").to_str().unwrap()]);
    assert_eq!(
        (&summary["totals"]["written"], &summary["totals"]["files"]),
        (&30.into(), &3.into())
    );
    for (name, source) in
        ["y.rx2.pcapng", "y.queue1.pcapng", "y.queue2.pcapng"].iter().zip(&sources)
    {
        let (interfaces, packets) = content(&path(name));
        assert_eq!((interfaces.len(), &interfaces[0].name), (1, &source.name), "{name}");
        assert_eq!(packets.len(), 10, "{name}");
    }
}
