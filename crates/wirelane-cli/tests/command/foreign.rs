//! Files of other programs: forms that the formats allow and Wirelane never writes.

use std::fs::File;
use std::io::Write;

use super::*;
use tempfile::{TempDir, tempdir};
use wirelane_testkit::files::below;
use wirelane_testkit::process;

/// A UDP packet from port 1000 + `number`, of 62 bytes.
fn udp(number: u8) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    packet.extend([0x45, 0, 0, 48, 0, number, 0, 0, 64, 17, 0, 0]);
    packet.extend([192, 0, 2, 1, 198, 51, 100, 2]);
    packet.extend((1000 + u16::from(number)).to_be_bytes());
    packet.extend([0, 9, 0, 28, 0, 0]);
    packet.extend([number; 20]);
    packet
}

/// Words of this machine.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A pcapng block.
pub(super) fn block(kind: u32, body: &[&[u8]]) -> Vec<u8> {
    let mut body = body.concat();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = body.len() as u32 + 12;
    [words(&[kind, len]), body, words(&[len])].concat()
}

pub(super) fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [code.to_ne_bytes(), (value.len() as u16).to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn section() -> Vec<u8> {
    block(0x0A0D_0D0A, &[&words(&[0x1A2B_3C4D]), &words(&[1, u32::MAX, u32::MAX])])
}

fn interface(link_type: u16, name: &str) -> Vec<u8> {
    block(1, &[&words(&[link_type.into(), 0]), &option(2, name.as_bytes())])
}

/// A packet with options, `time` microseconds after 1970.
fn packet(interface: u32, time: u32, data: &[u8], options: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let mut padded = data.to_vec();
    padded.resize(data.len().next_multiple_of(4), 0);
    block(6, &[&words(&[interface, 0, time, len, len]), &padded, options])
}

/// Counters of an interface: 1 packet received.
fn statistics(interface: u32) -> Vec<u8> {
    block(5, &[&words(&[interface, 0, 9]), &option(4, &1_u64.to_ne_bytes())])
}

/// A directory, and a file in it of these parts.
fn file(name: &str, parts: &[Vec<u8>]) -> (TempDir, String) {
    let directory = tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, parts.concat()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// The output and the errors of a command, which must succeed.
#[track_caller]
fn said(args: &[&str]) -> (String, String) {
    let ended = output(&mut wirelane(args));
    assert_eq!(ended.status.code(), Some(0), "{args:?}: {}", ended.stderr);
    (ended.stdout, ended.stderr)
}

/// All packets appear; a note reports the skipped blocks.
#[test]
fn statistics_of_unknown_interfaces_end_nothing() {
    let parts = [
        section(),
        statistics(0),
        interface(1, "if0"),
        packet(0, 5, &udp(0), &[]),
        statistics(7),
        packet(0, 7, &udp(1), &[]),
    ];
    let (directory, path) = file("a.pcapng", &parts);
    let note = "2 blocks of counters skipped";
    let (lines, notes) = said(&["capture", "-n", "-r", &path]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(notes.contains(note), "{notes}");
    let copy = directory.path().join("b.pcapng");
    let copy = copy.to_str().unwrap();
    let (out, notes) = said(&["convert", &path, copy]);
    assert!((out + &notes).contains(note), "{notes}");
    assert_eq!(packets(copy).len(), 2);
    let (out, notes) = said(&["verify", &path]);
    assert!((out + &notes).contains(note), "{notes}");
}

/// As FRITZ!Box writes it.
#[test]
fn modified_pcap_is_read() {
    let head = words(&[0xA1B2_CD34, u32::from_ne_bytes([2, 0, 4, 0]), 0, 0, 262_144, 1]);
    let mut parts = vec![head];
    for number in 0..3 {
        parts.push(words(&[7, u32::from(number), 62, 62, 2, 8]));
        parts.push(udp(number));
    }
    let (_directory, path) = file("a.pcap", &parts);
    let found = packets(&path);
    let data: Vec<_> = found.into_iter().map(|packet| packet.data).collect();
    assert_eq!(data, [udp(0), udp(1), udp(2)]);
    let (lines, _) = said(&["capture", "-n", "-r", &path]);
    assert!(lines.contains("192.0.2.1.1002 > 198.51.100.2.9"), "{lines}");
}

/// Zero bytes behind gzip are padding, for gzip(1), too.
#[test]
fn gzip_with_zeros_behind_it_is_whole() {
    let parts = [section(), interface(1, "if0"), packet(0, 5, &udp(0), &[])];
    let (directory, path) = file("a.pcapng", &parts);
    let packed = directory.path().join("b.pcapng.gz");
    said(&["convert", &path, packed.to_str().unwrap()]);
    let mut end = File::options().append(true).open(&packed).unwrap();
    end.write_all(&[0; 700]).unwrap();
    let (lines, notes) = said(&["capture", "-n", "-r", packed.to_str().unwrap()]);
    assert_eq!(lines.lines().count(), 1, "{notes}");
}

/// As tcpdump does; `verify` counts in this order, too.
#[test]
fn a_file_keeps_its_order() {
    let times = [30, 10, 20, 10];
    let mut parts = vec![section(), interface(1, "if0")];
    parts.extend((0..).zip(times).map(|(number, time)| packet(0, time, &udp(number), &[])));
    let (directory, path) = file("a.pcapng", &parts);
    let ports = |lines: &str| -> Vec<u32> {
        let port = |line: &str| line.split("192.0.2.1.").nth(1)?.split(' ').next()?.parse().ok();
        lines.lines().filter_map(port).collect()
    };
    let of = |args: &[&str]| ports(&said(&[&["capture", "-n", "-r", &path], args].concat()).0);
    assert_eq!(of(&[]), [1000, 1001, 1002, 1003]);
    assert_eq!(of(&["-c", "2"]), [1000, 1001]);
    assert_eq!(of(&["--sort"]), [1001, 1003, 1002, 1000]);
    for (index, name) in ["b.pcapng", "b.pcap", "b.pcapng.gz"].into_iter().enumerate() {
        let copy = directory.path().join(name);
        let copy = copy.to_str().unwrap();
        said(&["capture", "-q", "-r", &path, "-w", copy]);
        let found: Vec<_> = packets(copy).iter().map(|packet| packet.timestamp / 1000).collect();
        assert_eq!(found, times.map(u64::from), "{index}");
        said(&["capture", "-q", "-r", &path, "--sort", "-w", copy]);
        assert!(packets(copy).is_sorted_by_key(|packet| packet.timestamp));
    }
}

#[test]
fn convert_says_how_many_packets_it_omitted() {
    let mut parts = vec![section(), interface(1, "if0")];
    parts.extend((0..14).map(|number| packet(0, number.into(), &udp(number), &[])));
    let (directory, path) = file("a.pcapng", &parts);
    let copy = directory.path().join("b.pcapng");
    let copy = copy.to_str().unwrap();
    for (count, text, omitted) in [("10", "4 behind them omitted", 4), ("14", "", 0)] {
        let notes = said(&["convert", "-c", count, &path, copy]).1;
        assert!(notes.contains(text), "{notes}");
        assert_eq!(notes.contains("omitted"), omitted > 0, "{notes}");
        assert_eq!(packets(copy).len().to_string(), count);
        let json = said(&["convert", "--json", "-c", count, &path, copy]).0;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["inputs"][0]["omitted"], omitted, "{json}");
    }
    // The command must not wait for the end of an endless pipe.
    let mut command = Command::new("sh");
    let script = "exec \"$0\" convert -c 10 - \"$2\" < \"$1\"";
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    let mut pipe = File::options().read(true).write(true).open(&fifo).unwrap();
    pipe.write_all(&fs::read(&path).unwrap()).unwrap();
    command.args(["-c", script, WIRELANE]).arg(&fifo).arg(copy);
    let ended = ChildGuard::spawn(&mut command).wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the rest omitted"), "{}", ended.stderr);
    assert_eq!(packets(copy).len(), 10);
}

/// Files that describe an interface behind the first packets: in one section, and as `cat` makes.
fn with_late_interfaces() -> [Vec<Vec<u8>>; 2] {
    let one = vec![
        section(),
        interface(1, "if0"),
        packet(0, 1, &udp(0), &[]),
        interface(1, "if1"),
        packet(1, 2, &udp(1), &[]),
        packet(0, 3, &udp(2), &[]),
        interface(1, "if2"),
        packet(2, 4, &udp(3), &[]),
    ];
    let several = vec![
        section(),
        interface(1, "if0"),
        packet(0, 1, &udp(0), &[]),
        section(),
        interface(1, "if1"),
        packet(0, 2, &udp(1), &[]),
        section(),
        interface(1, "if0"),
        interface(1, "if2"),
        packet(0, 3, &udp(2), &[]),
        packet(1, 4, &udp(3), &[]),
    ];
    [one, several]
}

#[test]
fn late_interfaces_have_their_rows() {
    for parts in with_late_interfaces() {
        let (_directory, path) = file("a.pcapng", &parts);
        let (table, _) = said(&["count", "-q", "--by", "queue", &path]);
        let rows: Vec<Vec<_>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let found: Vec<_> =
            rows.iter().map(|row| (row[0], row[row.len() - 3], row[row.len() - 1])).collect();
        // The shares are relative to all packets.
        let expected = [("if0", "2", "50.0"), ("if1", "1", "25.0"), ("if2", "1", "25.0")];
        assert_eq!(found.len(), 3, "{table}");
        for (name, packets, share) in expected {
            let row = rows.iter().find(|row| row[0] == name).unwrap();
            assert!(row.contains(&packets) && row.contains(&share), "{table}");
        }
        let (json, _) = said(&["count", "--json", "-q", "--by", "queue", &path]);
        let queues = parse(&json)["queues"].as_array().unwrap().len();
        assert_eq!(queues, 3, "{json}");
    }
}

/// The names of the interfaces of a file's packets.
fn names(path: &Path) -> Vec<String> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut names = Vec::new();
    while let Some(record) = reader.next_record().unwrap().map(|record| record.interface) {
        names.push(reader.interfaces()[record as usize].name.clone());
    }
    names
}

#[test]
fn late_interfaces_have_files_of_their_own() {
    for parts in with_late_interfaces() {
        let (directory, path) = file("a.pcapng", &parts);
        let split = directory.path().join("split");
        fs::create_dir(&split).unwrap();
        for name in ["s.pcapng", "s.pcap"] {
            let output = split.join(name);
            said(&["capture", "-q", "-r", &path, "--split", "-w", output.to_str().unwrap()]);
        }
        let mut found = Vec::new();
        let mut of_pcap = Vec::new();
        for path in below(&split) {
            match path.extension().is_some_and(|suffix| suffix == "pcap") {
                true => of_pcap.push(packets(&path).len()),
                false => found.push(names(&path)),
            }
        }
        found.sort();
        of_pcap.sort();
        assert_eq!(found, [vec!["if0"; 2], vec!["if1"], vec!["if2"]]);
        assert_eq!(of_pcap, [1, 1, 2]);
    }
}

#[test]
fn late_interfaces_are_recorded() {
    for parts in with_late_interfaces() {
        let (directory, path) = file("a.pcapng", &parts);
        let path_of = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let port = format!("file:{path}");
        let (_, notes) = said(&["record", &port, &path_of("store")]);
        assert!(!notes.contains("behind the first packets"), "{notes}");
        said(&["extract", &path_of("store"), "-w", &path_of("b.pcapng")]);
        let original = names(Path::new(&path));
        assert_eq!(names(Path::new(&path_of("b.pcapng"))), original);
    }
}

/// Classic pcap has one link type: no output is begun that cannot be finished.
#[test]
fn late_link_types_are_split_or_refused_at_once() {
    let cooked = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &udp(1)[14..]].concat();
    let parts = [
        section(),
        interface(1, "ifA"),
        packet(0, 1, &udp(0), &[]),
        interface(113, "ifB"),
        packet(1, 2, &cooked, &[]),
    ];
    let (directory, path) = file("a.pcapng", &parts);
    let output_of = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let ended = output(&mut wirelane(["capture", "-r", &path, "-w", &output_of("t.pcap")]));
    assert_refused(&ended, 1, &["one link type", "pcapng"]);
    said(&["capture", "-q", "-r", &path, "--split", "-w", &output_of("s.pcap")]);
    let files = below(directory.path()).into_iter();
    let files: Vec<_> = files.filter(|path| path.to_str().unwrap().contains("/s.")).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|path| packets(path).len() == 1));
}

/// In a file of `capture any`, the first interface carries the losses of all interfaces. No packet
/// of another interface is assigned to it.
#[test]
fn packets_of_any_keep_their_interface_and_direction() {
    let described = |name: &str, text: &str| {
        block(1, &[&words(&[1, 0]), &option(2, name.as_bytes()), &option(3, text.as_bytes())])
    };
    let parts = [
        section(),
        described("any", "packets lost before their interface was known"),
        described("eth0", "tx queue 0"),
        packet(1, 1, &udp(0), &[]),
        described("eth0", "rx queue 0"),
        packet(2, 2, &udp(1), &[]),
        packet(1, 3, &udp(2), &[]),
    ];
    let (directory, path) = file("a.pcapng", &parts);
    let (lines, _) = said(&["capture", "-n", "-r", &path]);
    let labels = lines.lines().map(|line| line.split_whitespace().skip(1).take(2));
    let labels: Vec<String> = labels.map(|words| words.collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(labels, ["eth0 tx0", "eth0 rx0", "eth0 tx0"], "{lines}");
    let (flows, _) = said(&["flows", "-q", "--format", "json", &path]);
    assert_eq!(flows.matches("\"interface\":\"eth0\"").count(), 3, "{flows}");
    let copy = directory.path().join("b.pcapng");
    said(&["capture", "-q", "-r", &path, "-w", copy.to_str().unwrap()]);
    assert_eq!(names(&copy), ["eth0"; 3]);
    let (table, _) = said(&["count", "-q", "--by", "queue", &path]);
    assert!(table.contains("eth0 tx 0") && !table.contains("any"), "{table}");
}

/// Interfaces of other programs are no queues, in masks and in the summary.
#[test]
fn interfaces_are_no_queues() {
    let parts = [
        section(),
        interface(1, "if0"),
        interface(1, "if1"),
        packet(0, 5, &udp(0), &[]),
        packet(1, 6, &udp(1), &[]),
        interface(1, "if2"),
        packet(2, 7, &udp(2), &[]),
    ];
    let (_directory, path) = file("a.pcapng", &parts);
    let piped = |args: &str| {
        let line = format!("cat '{path}' | '{WIRELANE}' capture -q --json -r - {args}");
        output(Command::new("sh").args(["-c", &line]))
    };
    for (summary, is_piped) in [(capture(&["-r", &path]), false), (parse(&piped("").stdout), true)]
    {
        let rows = summary["queues"].as_array().unwrap();
        let told = rows.iter().map(|row| (row["interface"].as_str(), row["queue"].as_u64()));
        let expected = [Some("if0"), Some("if1"), Some("if2")].map(|name| (name, None));
        assert!(told.eq(expected), "piped: {is_piped}: {summary}");
        assert_eq!(summary["ports"][0]["queues"], Value::Array(Vec::new()));
    }
    for args in ["--rx-queues 0", "--tx-queues 1"] {
        let ended = piped(args);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("the file records no "), "{}", ended.stderr);
    }
    for (args, count) in [("-Q in", 3), ("-Q out", 0), ("--rx-queues none", 0)] {
        let summary = parse(&piped(args).stdout);
        assert_eq!(number(&summary["totals"]["delivered"]), count, "{args}");
    }
}

/// A pipe gives the same result as the file: each interface has a separate file, and is an
/// interface of a store.
#[test]
fn late_interfaces_in_a_pipe_are_told_apart() {
    let mut parts = vec![section(), interface(1, "if0"), packet(0, 1, &udp(0), &[])];
    for number in 1..5 {
        parts.push(interface(1, &format!("if{number}")));
        for of in 0..=number {
            let time = u32::from(10 * number + of);
            parts.push(packet(of.into(), time, &udp(10 * number + of), &[]));
        }
    }
    let (directory, path) = file("a.pcapng", &parts);
    let splits = [format!("cat '{path}'"), format!("cat '{path}'; sleep 0.3")].map(|cat| {
        let to = tempdir().unwrap();
        let name = to.path().join("x.pcapng");
        let line =
            format!("({cat}) | '{WIRELANE}' capture -q -r - --split -w '{}'", name.display());
        let ended = output(Command::new("sh").args(["-c", &line]));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
        contents(to.path())
    });
    let to = directory.path().join("split");
    fs::create_dir(&to).unwrap();
    let name = to.join("x.pcapng");
    said(&["capture", "-q", "-r", &path, "--split", "-w", name.to_str().unwrap()]);
    let expected = contents(&to);
    assert_eq!(expected.len(), 5, "{expected:?}");
    assert!(splits.iter().all(|split| *split == expected), "{splits:?}, not {expected:?}");

    let stores = [format!("file:{path}"), "file:/dev/stdin".into(), "file:-".into()].map(|port| {
        let store = tempdir().unwrap();
        let line = format!("cat '{path}' | '{WIRELANE}' record -q {port} \"$0\"");
        let ended = output(Command::new("sh").args(["-c", &line]).arg(store.path()));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{port}");
        let extracted = store.path().join("x.pcapng");
        said(&["extract", store.path().to_str().unwrap(), "-w", extracted.to_str().unwrap()]);
        named(&extracted)
    });
    let expected = named(Path::new(&path));
    assert_eq!(expected.len(), 15);
    assert!(stores.iter().all(|store| *store == expected), "{stores:?}, not {expected:?}");
}

/// The interface and the time of each packet.
fn named(file: &Path) -> Vec<(String, u64)> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut found = Vec::new();
    while reader.advance().unwrap() {
        let record = reader.current();
        let source = &reader.interfaces()[record.interface as usize];
        found.push((source.name.clone(), record.timestamp));
    }
    found
}

/// The names of files, and their packets.
fn contents(directory: &Path) -> Vec<(String, Vec<(String, u64)>)> {
    let files = below(directory).into_iter();
    files.map(|file| (file.file_name().unwrap().display().to_string(), named(&file))).collect()
}
