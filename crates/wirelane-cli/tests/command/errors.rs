//! Every error names its object and the remedy, in two lines of 80 columns at most. `errors.txt`
//! has the command lines.

use std::process::{Output, Stdio};

use tempfile::{TempDir, tempdir};
use wirelane_testkit::{packets, privileged};

use super::*;

/// The most columns of a line, and the most lines of an error.
const COLUMNS: usize = 80;
const LINES: usize = 2;

/// A command line, and what it must lead to.
struct Row {
    status: i32,
    object: &'static str,
    line: &'static str,
}

/// The rows of a section; those before the first section have the name "".
fn rows(section: &str) -> Vec<Row> {
    let mut current = "";
    let mut rows = Vec::new();
    for line in include_str!("errors.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            current = name.trim_end_matches(']');
        } else if current == section && !line.is_empty() && !line.starts_with('#') {
            let mut parts = line.splitn(3, " | ");
            let mut part = || parts.next().unwrap_or_else(|| panic!("{line}"));
            rows.push(Row { status: part().parse().unwrap(), object: part(), line: part() });
        }
    }
    rows
}

/// The words of a line. Apostrophes enclose a word with spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_quoted, mut is_word) = (String::new(), false, false);
    for c in line.chars().chain([' ']) {
        match c {
            '\'' => (is_quoted, is_word) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    words
}

/// A directory with the files that the rows name.
fn bed() -> TempDir {
    let bed = tempdir().unwrap();
    let at = |name: &str| bed.path().join(name);
    let run = |line: &str| {
        let ended = wirelane(line.split(' ')).current_dir(bed.path()).output().unwrap();
        assert!(ended.status.success(), "{line}: {ended:?}");
    };
    run("capture -q sim:2?count=200 -w a.pcapng");
    run("capture -q sim:2?count=200 -w a.pcapng.gz");
    run("record -q sim:2?count=200 s");
    run("record -q sim:2?count=200 broken");
    for (whole, short) in [("a.pcapng", "short.pcapng"), ("a.pcapng.gz", "short.pcapng.gz")] {
        let bytes = fs::read(at(whole)).unwrap();
        fs::write(at(short), &bytes[..bytes.len() - 7]).unwrap();
    }
    for entry in fs::read_dir(at("broken")).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            Some(suffix) if suffix == "pcapng" => {
                fs::File::options().write(true).open(path).unwrap().set_len(600).unwrap();
            }
            _ => fs::remove_file(path).unwrap(),
        }
    }
    fs::write(at("junk.pcap"), "this is no capture file, but it is long enough").unwrap();
    fs::write(at("empty.pcap"), "").unwrap();
    fs::write(at("f.txt"), "udp\n").unwrap();
    fs::write(at("y.yaml"), "ports: [{name: a}]\nflows: []\n").unwrap();
    for (name, link_type) in [("raw.pcap", 101), ("wifi.pcap", 105)] {
        fs::write(at(name), pcap(link_type)).unwrap();
    }
    fs::create_dir(at("dir")).unwrap();
    bed
}

/// A pcap file with one packet of this link type.
fn pcap(link_type: u32) -> Vec<u8> {
    let packet = &packets::udp4(0).build()[14..];
    let len = packet.len() as u32;
    let head = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, link_type, 1, 0, len, len];
    let head = head.iter().flat_map(|word: &u32| word.to_le_bytes());
    head.chain(packet.iter().copied()).collect()
}

/// The first error on standard error: its first line, and the lines that continue it.
fn first_error(text: &str) -> Vec<&str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("wirelane: "));
    let first = lines.next();
    first.into_iter().chain(lines.take_while(|line| line.starts_with("  "))).collect()
}

/// The faults of an error.
fn faults(row: &Row, ended: &Output) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(&ended.stderr);
    let error = first_error(&text);
    let whole = error.join(" ");
    // A word of the user cannot be folded.
    let is_long = |line: &&str| {
        let words = line.trim_start().trim_start_matches("wirelane: ");
        line.chars().count() > COLUMNS && words.contains(' ')
    };
    let checks = [
        (ended.status.code() != Some(row.status), "another exit status"),
        (error.is_empty(), "no error"),
        (!whole.contains(row.object), "the object is not named"),
        (!whole.contains("; "), "no remedy"),
        (error.len() > LINES, "too many lines"),
        (error.iter().any(is_long), "a long line"),
    ];
    checks.into_iter().filter_map(|(is_fault, name)| is_fault.then_some(name)).collect()
}

#[track_caller]
fn check(section: &str, least: usize, command: impl Fn() -> Command) {
    let rows = rows(section);
    assert!(rows.len() >= least, "{section}: {} rows", rows.len());
    let bed = bed();
    let mut failed = Vec::new();
    for row in &rows {
        let mut command = command();
        command.args(words(row.line)).current_dir(bed.path()).stdin(Stdio::null());
        let ended = command.output().unwrap();
        let faults = faults(row, &ended);
        if !faults.is_empty() {
            let text = String::from_utf8_lossy(&ended.stderr);
            failed.push(format!("{}: {}\n{text}", row.line, faults.join(", ")));
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), rows.len(), failed.join("\n"));
}

#[test]
fn every_error_has_a_remedy_in_two_lines() {
    check("", 290, || Command::new(WIRELANE));
}

/// Two interfaces that are up, and one that is down.
fn interfaces() -> Namespace {
    let ns = Namespace::new();
    let queues = ["numrxqueues", "2", "numtxqueues", "2"];
    for (name, peer) in [("wl-a", "wl-b"), ("wl-d", "wl-e")] {
        let link = [&["link", "add", name][..], &queues, &["type", "veth", "peer", peer]].concat();
        ns.run("ip", link);
    }
    for name in ["wl-a", "wl-b"] {
        ns.run("ip", ["link", "set", name, "up"]);
    }
    ns
}

#[test]
fn privileged_errors_of_interfaces_have_a_remedy_in_two_lines() {
    if !privileged::require() {
        return;
    }
    let ns = interfaces();
    check("namespace", 12, || ns.command(WIRELANE));
}

#[test]
fn privileged_errors_without_capabilities_have_a_remedy_in_two_lines() {
    if !privileged::require() {
        return;
    }
    let ns = interfaces();
    check("no capabilities", 10, || {
        let mut command = ns.command("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", WIRELANE]);
        command
    });
}
