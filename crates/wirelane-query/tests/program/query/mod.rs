//! `wirelane-query query`, over files that the sink wrote.

mod answers;
mod commands;
mod damage;
mod errors;
mod packets;
mod ready;

use std::path::Path;
use std::process::Command;

use wirelane_flow::{Flow, Half};
use wirelane_testkit::process::{self, Output};
use wirelane_wire::Protocol;

use crate::made::{HOUR, START};

/// The command with these arguments, and then sources.
fn query(arguments: &[&str], sources: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    command.arg("query").args(arguments).args(sources);
    command
}

/// The output of a successful query.
fn answer(arguments: &[&str], sources: &[&Path]) -> String {
    let ended = process::output(&mut query(arguments, sources));
    assert!(ended.status.success(), "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

/// The exit status and the error of a failed query. The error is one line.
fn refusal(arguments: &[&str], sources: &[&Path]) -> (i32, String) {
    let Output { status, stderr, .. } = process::output(&mut query(arguments, sources));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("wirelane-query: "), "{stderr}");
    (status.code().unwrap(), stderr)
}

/// TCP flows of three hours, 100 per hour, a second apart. Hour n has flows from 10.n.0.x to port
/// 80 of 192.0.2.1, with 3 packets there and 2 back. In every tenth flow, x is 0.
fn three_hours() -> Vec<Flow> {
    let flow = |number: u64| {
        let (hour, index) = (number / 100, number % 100);
        let start = START - START % HOUR + hour * HOUR + index * 1_000_000_000;
        let half = |packets, octets| Half {
            packets,
            octets,
            start,
            end: start + 1000,
            retransmissions: u32::from(index == 7),
            ..Half::default()
        };
        let mut flow = Flow {
            forward: half(3, 300 + index),
            reverse: half(2, 100),
            interface: "eth0".into(),
            ..Flow::default()
        };
        let last = if index % 10 == 0 { 0 } else { index as u8 };
        flow.key.source = [10, hour as u8, 0, last].into();
        flow.key.destination = [192, 0, 2, 1].into();
        (flow.key.source_port, flow.key.destination_port) = (40_000, 80);
        flow.key.protocol = Protocol::TCP;
        flow
    };
    (0..300).map(flow).collect()
}
