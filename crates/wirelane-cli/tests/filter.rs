//! `wirelane filter` as a user meets it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;
use wirelane_testkit::process::{Output, output};

fn wirelane() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    // The user who runs the tests may be logged in through SSH.
    command.env_remove("SSH_CONNECTION");
    command
}

fn filter(args: &[&str]) -> Output {
    output(wirelane().arg("filter").args(args))
}

/// Standard output of a run that succeeds.
fn shown(args: &[&str]) -> String {
    let ended = filter(args);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn every_stage_is_shown() {
    let page = shown(&["tcp", "port", "443", "--machine-code"]);
    assert!(page.starts_with("classic BPF, 20 instructions:\n(000) ldh      [12]\n"), "{page}");
    for part in
        ["\n(014) ldh      [x + 14]\n", "\neBPF for XDP, ", "   1: (61) r2 = *(u32 *)(r6 +0)\n"]
    {
        assert!(page.contains(part), "{page}");
    }
    let machine_code = match std::env::consts::ARCH {
        known @ ("x86_64" | "aarch64") => format!("\nmachine code for {known}: "),
        _ => "\nno machine code, packets are interpreted: ".to_owned(),
    };
    assert!(page.contains(&machine_code), "{page}");
}

#[test]
fn dumps_are_those_of_tcpdump_and_are_read_back() {
    let decimal = shown(&["-ddd", "ip"]);
    assert_eq!(decimal, "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n");
    assert_eq!(shown(&["-d", &decimal]), shown(&["-d", "ip"]));
    assert!(shown(&["-dd", "ip"]).starts_with("{ 0x28, 0, 0, 0x0000000c },\n"));
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("program", decimal.as_str()), ("expression", "ip\n")] {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        assert_eq!(shown(&["-ddd", "-F", file.to_str().unwrap()]), decimal, "{name}");
        let file = std::fs::File::open(&file).unwrap();
        let mut command = wirelane();
        let ended = command.args(["filter", "-ddd", "-F", "-"]).stdin(file).output().unwrap();
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), decimal, "{name}");
    }
    // Plain IP has no Ethernet header to skip.
    assert!(shown(&["-d", "--link-type", "101", "ip"]).contains("ldb      [0]"));
}

#[test]
fn a_wrong_expression_is_marked() {
    let ended = filter(&["tcp prot 80"]);
    assert_eq!(ended.status.code(), Some(2));
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines[..2], ["tcp prot 80", "    ^~~~"], "{}", ended.stderr);
    assert!(lines[2].starts_with("wirelane: filter \"tcp prot 80\": syntax error"), "{lines:?}");
    assert_eq!(lines.len(), 3);
    let ended = filter(&["2,6 0 0 1"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("it declares 2 instructions and has 1"), "{}", ended.stderr);
}

#[test]
fn engines_agree_on_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sim.pcapng");
    let file = file.to_str().unwrap();
    let captured =
        output(wirelane().args(["capture", "sim:2?count=300&size=imix", "-q", "-w", file]));
    assert!(captured.status.success(), "{}", captured.stderr);
    let report: Value =
        serde_json::from_str(&shown(&["udp and less 400", "--on", file, "--json"])).unwrap();
    assert_eq!(report["schema"], "wirelane.filter/1");
    assert_eq!(
        (&report["link_type"], &report["expression"]),
        (&1.into(), &"udp and less 400".into())
    );
    let on = &report["on"];
    assert_eq!(
        (&on["packets"], &on["agree"], &on["disagreements"]),
        (&300.into(), &true.into(), &0.into())
    );
    let engines = on["engines"].as_array().unwrap();
    let names: Vec<_> = engines.iter().map(|engine| engine["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["interpreter", "jit", "libpcap", "kernel"]);
    let matching = engines[0]["matching"].as_u64().unwrap();
    assert!((1..300).contains(&matching), "{on}");
    for engine in engines.iter().filter(|engine| engine["missing"].is_null()) {
        assert_eq!(engine["matching"], matching, "{engine}");
    }
    let page = shown(&["udp", "and", "less", "400", "--on", file]);
    assert!(page.starts_with(&format!("interpreter  {matching} of 300 packets match\n")), "{page}");
    // The packets are Ethernet; the program is for another link type.
    let other = ["ip", "--link-type", "101", "--on", file];
    let page = shown(&other);
    assert!(page.contains("\nskipped: 300 packets of other link types\n"), "{page}");
    let report: Value = serde_json::from_str(&shown(&[&other[..], &["--json"]].concat())).unwrap();
    let on = &report["on"];
    assert_eq!((&on["packets"], &on["other_link_types"]), (&0.into(), &300.into()), "{on}");
    let ended = filter(&["udp", "--on", "/no/such/file"]);
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn what_the_host_would_miss_is_said() {
    let page = shown(&["tcp dst port 22", "--explain"]);
    assert!(page.contains("SSH to this host (port 22)     taken\n"), "{page}");
    assert!(page.contains("ARP                            stays\n"), "{page}");
    assert!(page.contains("\nWARNING: SSH"), "{page}");
    let page = shown(&["udp port 9", "--explain", "--interface", "lo"]);
    assert!(page.contains("given the addresses of lo"), "{page}");
    assert!(!page.contains("WARNING") && !page.contains("taken\n"), "{page}");
    let mut session = wirelane();
    session.env("SSH_CONNECTION", "198.51.100.7 50022 192.0.2.10 2222");
    let ended = output(session.args(["filter", "port 2222", "--explain", "--json"]));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["explain"]["takes_ssh"], true, "{report}");
    let taken = &report["explain"]["classes"][0];
    assert_eq!((&taken["class"], &taken["matching"]), (&"ssh-session".into(), &2.into()));
}
