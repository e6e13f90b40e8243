//! Every command delivers each packet once and complete.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod conserved;
mod egress;
mod long;
mod loopback;
mod paused;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;

use self::shared::*;

/// The commands that receive, each with the place of its packets: a file, a store, or standard
/// output.
fn commands(directory: &Path) -> Vec<(&'static str, Vec<String>)> {
    let place = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut writes = words("capture --json --keep-privileges -w");
    writes.push(place("written.pcapng"));
    let mut records = words("record --json --keep-privileges");
    records.push(place("store"));
    vec![
        ("written", writes),
        ("printed", words("capture -n")),
        ("count", words("count --json --by proto")),
        ("flows", words("flows --format json")),
        ("record", records),
    ]
}

/// Starts a command on a port in a namespace, and waits until it receives packets.
#[track_caller]
fn start(ns: &Namespace, port: &str, args: &[String], filter: &str) -> ChildGuard {
    let mut command: Command = ns.command(WIRELANE);
    let (name, rest) = args.split_first().unwrap();
    command.arg(name).arg(port).args(rest).args(["-f", filter]);
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |child| child.stderr().contains("tpacket-v3"));
    child
}

/// Ends a command as ^C does; returns the number of packets that it reports as received.
#[track_caller]
fn finish(name: &str, child: ChildGuard, directory: &Path) -> usize {
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{name}: {}", ended.stderr);
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    match name {
        "written" => packets(directory.join("written.pcapng")).len(),
        "printed" => ended.stdout.lines().count(),
        "flows" => {
            let flows = ended.stdout.lines().map(json);
            let ways = |flow: Value| {
                let ways = ["packets", "reverse_packets"];
                ways.iter().filter_map(|way| flow[way].as_u64()).sum::<u64>()
            };
            flows.map(ways).sum::<u64>() as usize
        }
        _ => number(&json(&ended.stdout)["totals"]["delivered"]) as usize,
    }
}
