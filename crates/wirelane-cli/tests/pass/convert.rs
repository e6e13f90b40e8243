//! `convert`: formats, compressions and parts.

use std::fs::{self, File};
use std::process::Stdio;

use super::*;

/// Through every format and compression and back: tshark reads the same packets from each.
#[test]
fn packets_are_the_same_after_any_chain() {
    if !has_wireshark() {
        return;
    }
    let files = Files::new();
    let first = files.capture("x.pcapng");
    let expected = seen(&first);
    assert_eq!(expected.len(), 5000);
    let mut last = first.clone();
    for suffix in [
        "pcap",
        "pcap.gz",
        "pcapng.zst",
        "pcapng.lz4",
        "pcap.zst",
        "pcap.lz4",
        "pcapng.gz",
        "pcapng",
    ] {
        let next = files.path(&format!("y.{suffix}"));
        let said = ours(["convert"], &[&last, &next]);
        let is_lacking = said.contains("note: not in the output, which pcapng could hold: ");
        assert_eq!(is_lacking, last == first, "{said}");
        // Read directly, and unpacked by the usual tools: Wireshark before 4.2 reads only the first
        // frame.
        let plain = files.path("plain");
        let unpack = match suffix.rsplit('.').next() {
            Some("gz") => Some("gzip"),
            Some("zst") => Some("zstd"),
            Some("lz4") => Some("lz4"),
            _ => None,
        };
        match unpack {
            Some(tool) if tools::require(tool) => {
                let mut unpack = Command::new(tool);
                unpack.arg("-dc").stdin(File::open(&next).unwrap());
                let unpacked = unpack.stderr(Stdio::inherit()).output().unwrap();
                fs::write(&plain, unpacked.stdout).unwrap();
            }
            Some(_) => return,
            None => drop(fs::copy(&next, &plain).unwrap()),
        }
        assert_eq!(seen(&plain), expected, "{suffix}");
        last = next;
    }
}

/// Comments, interfaces, secrets and custom blocks are kept. For pcap, a note counts the lost ones.
#[test]
fn what_is_beside_packets_stays_or_is_told() {
    if !has_wireshark() {
        return;
    }
    let files = Files::new();
    let (x, y, z) = (files.capture("x.pcapng"), files.path("y.pcapng"), files.path("z.pcapng"));
    let keys = files.path("keys");
    let random = "11".repeat(32);
    fs::write(&keys, format!("CLIENT_RANDOM {random} {}\n", "22".repeat(48))).unwrap();
    let mut editcap = Command::new("editcap");
    editcap.args([
        "-a",
        "3:third",
        "-a",
        "5:fifth",
        "--capture-comment",
        "of all",
        "--inject-secrets",
    ]);
    run(editcap.arg(format!("tls,{}", keys.display())).args([&x, &y]));
    let said = ours(["convert", "--comment", "of mine"], &[&y, &z]);
    assert!(!said.contains("note"), "{said}");
    assert_eq!(packet_comments(&z), [["3", "third"], ["5", "fifth"]]);
    assert_eq!(seen(&z), seen(&x));
    let interfaces = |file| tshark_fields(file, &["frame.interface_description"]);
    assert_eq!(interfaces(&z), interfaces(&x));
    let comments = about_its("Capture comment", &z);
    assert!(comments.contains(&"of all".into()) && comments.contains(&"of mine".into()));
    // Some versions of Wireshark's tools cannot extract secrets.
    let text = fs::read(&keys).unwrap();
    let plain = fs::read(&z).unwrap();
    assert_eq!(plain.windows(text.len()).filter(|part| *part == text).count(), 1);
    let said = ours(["convert"], &[&z, &files.path("z.pcap")]);
    for part in
        ["2 comments of packets", "3 comments and options of the file", "1 block of secrets"]
    {
        assert!(said.contains(part), "{said}");
    }
}

/// A part has the packets that tcpdump selects with the same expression.
#[test]
fn parts_are_those_of_tcpdump_and_editcap() {
    if !has_wireshark() || !tools::require("tcpdump") {
        return;
    }
    let files = Files::new();
    let (x, part, theirs) =
        (files.capture("x.pcapng"), files.path("p.pcapng"), files.path("t.pcap"));
    run(Command::new("tcpdump")
        .args(["-w"])
        .arg(&theirs)
        .arg("-r")
        .arg(&x)
        .arg("udp and ip[19] & 1 = 1"));
    ours(["convert", "-f", "udp and ip[19] & 1 = 1"], &[&x, &part]);
    let found = seen(&part);
    assert!(!found.is_empty() && found.len() < 5000);
    // tcpdump writes no nanoseconds here.
    let untimed = |lines: &[String]| {
        lines.iter().map(|line| line.split_once('\t').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(untimed(&found), untimed(&seen(&theirs)));
    let said = ours(["convert", "-c", "10", "-s", "20"], &[&x, &part]);
    assert!(said.contains("x.pcapng: 10 packets"), "{said}");
    run(Command::new("editcap").args(["-s", "20", "-r"]).args([&x, &theirs]).arg("1-10"));
    assert_eq!(seen(&part), seen(&theirs));
    // By time: from the hundredth packet to the one before the two hundredth.
    let all = seen(&x);
    let time = |at: usize| {
        let seconds = all[at].split_once('\t').unwrap().0;
        let (seconds, nanos) = seconds.split_once('.').unwrap();
        let text = run(Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%FT%T"]));
        format!("{}.{nanos}Z", text.trim())
    };
    ours(["convert", "--from", &time(99), "--to", &time(199)], &[&x, &part]);
    let is_between = |line: &&String| {
        let (first, end) = (&all[99], &all[199]);
        let of = |line: &str| line.split_once('\t').unwrap().0.to_owned();
        of(line) >= of(first) && of(line) < of(end)
    };
    assert_eq!(seen(&part), all.iter().filter(is_between).cloned().collect::<Vec<_>>());
}

/// Standard input and output, damaged files, and refusals.
#[test]
fn pipes_damage_and_refusals() {
    let files = Files::new();
    let (x, y) = (files.capture("x.pcapng"), files.path("y.pcapng"));
    let mut pipe = wirelane(["convert", "-q", "-", "-"]);
    pipe.stdin(File::open(&x).unwrap()).stdout(File::create(&y).unwrap());
    assert!(pipe.status().unwrap().success());
    let data = |path: &Path| packets(path);
    assert_eq!(data(&y), data(&x));
    let whole = fs::read(&x).unwrap();
    fs::write(&y, &whole[..whole.len() / 2]).unwrap();
    let ended = output(wirelane(["convert"]).args([&y, &files.path("z.pcap")]));
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("y.pcapng: cut short"), "{}", ended.stderr);
    let count = data(&files.path("z.pcap")).len();
    assert!(count > 1000 && count < 5000, "{count}");
    for (words, cause) in [
        (&["convert", "x", "-", "--json"][..], "standard output already takes the packets"),
        (&["convert", "x", "y", "-f", "udp or"], "syntax error"),
        (&["convert", "x", "y", "--from", "14:03", "--comment", ""], "write some text"),
    ] {
        let ended = output(&mut wirelane(words));
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(cause), "{}", ended.stderr);
    }
    let ended = output(wirelane(["convert"]).args([&x, &x]));
    assert!(ended.stderr.contains("it is the input file"), "{}", ended.stderr);
    assert_eq!(fs::read(&x).unwrap(), whole);
}
