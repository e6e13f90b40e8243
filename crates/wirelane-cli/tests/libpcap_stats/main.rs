//! `wirelane stats` shows programs over Wirelane's libpcap, with exact counters.
#![allow(clippy::unwrap_used)]

#[path = "../shared/mod.rs"]
#[allow(dead_code)]
mod shared;

use std::path::{Path, PathBuf};

use serde_json::Value;
use shared::{PATIENCE, number, wirelane};
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{c, packets, privileged, tools};

/// The statistics of a process.
#[track_caller]
fn stats(pid: u32) -> Value {
    let output = output(&mut wirelane(["stats", "--json", &pid.to_string()]));
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    serde_json::from_str(&output.stdout).unwrap()
}

/// Waits until `holds` accepts the statistics.
#[track_caller]
fn wait_until(child: &mut ChildGuard, pid: u32, holds: impl Fn(&Value) -> bool) -> Value {
    child.wait_until(PATIENCE, |_| holds(&stats(pid)));
    stats(pid)
}

/// Delivered packets by port, queue and class, without zeros.
fn delivered(stats: &Value) -> Vec<(u64, u64, String, u64)> {
    let queues = stats["queues"].as_array().unwrap().iter();
    let row = |queue: &Value| {
        let class = queue["class"].as_str().unwrap().to_owned();
        (
            number(&queue["port"]),
            queue["queue"].as_u64().unwrap_or(0),
            class,
            number(&queue["packets"]),
        )
    };
    queues.map(row).filter(|row| row.3 > 0).collect()
}

/// A program over Wirelane's libpcap, in a namespace.
fn start(ns: &Namespace, program: impl AsRef<Path>, args: &[&str]) -> ChildGuard {
    let mut command = ns.command(program.as_ref());
    ChildGuard::spawn(Library::Ours.of(command.args(args)))
}

/// The program of this test.
fn handles() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stats-handles");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libpcap_stats/handles.c");
    let program = program.with_extension(std::process::id().to_string());
    c::compile("gcc", &program, [source.as_os_str(), "-lpcap".as_ref()]);
    program
}

/// Sends this many frames to each queue.
fn send(tap: &MultiQueueTap, counts: &[u64]) {
    for (queue, count) in counts.iter().enumerate() {
        (0..*count).for_each(|k| tap.write(queue, &packets::udp4(k).length(100).build()));
    }
}

#[test]
fn privileged_every_packet_of_tcpdump_is_counted_once() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "tap0", 3);
    let mut tcpdump = start(&ns, "tcpdump", &["-i", "tap0", "-w", "/dev/null"]);
    tcpdump.wait_until(PATIENCE, |child| child.stderr().contains("listening on"));
    let pid = tcpdump.id();
    let at_first = stats(pid);
    assert_eq!(at_first["totals"]["received"], 0, "{at_first}");
    assert_eq!(at_first["handles"][0]["ps_recv"], Value::Null, "it has not asked yet");
    send(&tap, &[70, 300, 2000]);
    let all = |stats: &Value| number(&stats["totals"]["delivered"]) >= 2370;
    let now = wait_until(&mut tcpdump, pid, all);
    let rows = [(0, 70), (1, 300), (2, 2000)].map(|(queue, n)| (0, queue, "rx".to_owned(), n));
    assert_eq!(delivered(&now), rows);
    assert_eq!(now["queues"][2]["bytes"], 200_000);
    assert_eq!((&now["schema"], &now["library"]), (&"wirelane.stats/1".into(), &"libpcap".into()));
    assert_eq!((&now["command"], &now["pid"]), (&"tcpdump".into(), &pid.into()));
    assert_eq!((&now["totals"]["received"], &now["totals"]["dropped"]), (&2370.into(), &0.into()));
    assert_eq!(now["ports"][0]["interface"], "tap0");
    assert!(now["cpu"]["user_s"].is_f64());

    // On this signal it calls pcap_stats(3), whose results the statistics show, too.
    tcpdump.signal(rustix::process::Signal::USR1);
    let asked = |stats: &Value| stats["handles"][0]["ps_recv"] == 2370;
    let now = wait_until(&mut tcpdump, pid, asked);
    assert_eq!(
        (&now["handles"][0]["ps_drop"], &now["handles"][0]["device"]),
        (&0.into(), &"tap0".into())
    );

    // For people, as rates, in the list; and the refused requests.
    let text = output(&mut wirelane(["stats", &pid.to_string()])).stdout;
    let head = format!("process {pid}: tcpdump over Wirelane's libpcap ");
    assert!(text.starts_with(&head), "{text}");
    assert!(text.contains("2,370 received, 2,370 delivered, 0 dropped, 0 sent\n"), "{text}");
    assert!(text.contains("\npcap_stats (what each handle"), "{text}");
    assert!(text.contains("\nhandle  ps_recv  ps_drop  ps_ifdrop\ntap0      2,370 "), "{text}");
    let list: Value = serde_json::from_str(&sessions()).unwrap();
    let list = list["sessions"].as_array().cloned().unwrap_or(vec![list]);
    assert!(list.iter().any(|row| row["pid"] == pid && row["command"] == "tcpdump"), "{list:?}");
    let refused = output(&mut wirelane(["mask", &pid.to_string(), "--rx-queues", "0"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("its counters can be read"), "{}", refused.stderr);

    tcpdump.interrupt();
    let ended = tcpdump.wait(PATIENCE);
    assert!(ended.stderr.contains("2370 packets received by filter"), "{}", ended.stderr);
    let gone = output(&mut wirelane(["stats", &pid.to_string()]));
    assert_eq!((gone.status.code(), gone.stdout.as_str()), (Some(1), ""), "{}", gone.stderr);
}

/// `wirelane stats` without a process: a list, or the counters of the only one.
fn sessions() -> String {
    let output = output(&mut wirelane(["stats", "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    output.stdout
}

#[test]
fn privileged_packets_that_are_lost_are_counted_as_lost() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "tap0", 2);
    let mut tcpdump = start(&ns, "tcpdump", &["-i", "tap0", "-B", "256", "-w", "/dev/null"]);
    tcpdump.wait_until(PATIENCE, |child| child.stderr().contains("listening on"));
    let pid = tcpdump.id();
    tcpdump.signal(rustix::process::Signal::STOP);
    // More than any ring holds: the smallest is 8 MiB.
    let sent = [120_000, 100_000];
    send(&tap, &sent);
    tcpdump.signal(rustix::process::Signal::CONT);
    let all = |stats: &Value| number(&stats["totals"]["received"]) >= 220_000;
    let now = wait_until(&mut tcpdump, pid, all);
    let totals = &now["totals"];
    assert_eq!(number(&totals["delivered"]) + number(&totals["dropped"]), 220_000, "{totals}");
    assert!(number(&totals["dropped"]) > 0 && number(&totals["delivered"]) > 0, "{totals}");
    assert_eq!(
        (&now["queues"][0]["received"], &now["queues"][1]["received"]),
        (&sent[0].into(), &sent[1].into())
    );
    tcpdump.interrupt();
    let ended = tcpdump.wait(PATIENCE).stderr;
    let counted = format!(
        "{} packets captured\n220000 packets received by filter\n{} packets dropped by kernel",
        totals["delivered"], totals["dropped"]
    );
    assert!(ended.contains(&counted), "{ended}\n{counted}");
}

#[test]
fn privileged_handles_of_one_program_are_shown_together() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let taps = ["tap0", "tap1"].map(|name| MultiQueueTap::new(&ns, name, 2));
    let program = handles();
    let mut child = start(&ns, &program, &["tap0", "wirelane:packet:tap1@1", "-", "tap1"]);
    child.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    let pid = child.id();
    send(&taps[0], &[10, 20]);
    send(&taps[1], &[5, 40]);
    let now = wait_until(&mut child, pid, |stats| number(&stats["totals"]["delivered"]) >= 70);
    let rows = [(0, 0, 10), (0, 1, 20), (1, 1, 40)]
        .map(|(port, queue, n)| (port, queue, "rx".to_owned(), n));
    assert_eq!(delivered(&now), rows, "the third handle is not read");
    let devices: Vec<_> =
        now["handles"].as_array().unwrap().iter().map(|row| row["device"].clone()).collect();
    assert_eq!(devices, ["tap0", "wirelane:packet:tap1@1", "tap1"]);
    assert_eq!(now["ports"].as_array().unwrap().len(), 3);
    std::fs::remove_file(program).unwrap();
}

/// A program that becomes a daemon: packets that the child reads count for the child.
#[test]
fn privileged_a_child_shows_its_own() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "tap0", 2);
    let program = handles();
    let mut parent = start(&ns, &program, &["30", "fork", "tap0"]);
    parent.wait_until(PATIENCE, |parent| parent.stdout().contains("ready"));
    send(&tap, &[20, 10]);
    parent.wait_until(PATIENCE, |parent| parent.stdout().contains("child "));
    let said = parent.stdout();
    let child: u32 = said.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let total = |pid: String| {
        let output = output(&mut wirelane(["stats", "--json", &pid]));
        let stats: Value = serde_json::from_str(&output.stdout).ok()?;
        stats["totals"]["delivered"].as_u64()
    };
    send(&tap, &[50, 50]);
    // The child's counters start with the values at the fork.
    parent.wait_until(PATIENCE, |_| total(child.to_string()) == Some(130));
    assert_eq!(total(parent.id().to_string()), Some(30));
    let pid = rustix::process::Pid::from_raw(child as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(parent.wait(PATIENCE).status.code(), Some(0));
    std::fs::remove_file(program).unwrap();
}
