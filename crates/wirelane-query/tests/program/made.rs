//! Flows for tests, as input and output of the sink.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use wirelane_flow::ipfix::Pipe;
use wirelane_flow::{Flow, Half};

/// 2026-11-23, 02:41:44.
pub(crate) const START: u64 = 1_795_401_704_123_456_789;
pub(crate) const HOUR: u64 = 3_600_000_000_000;

/// Flows that begin in three different hours.
pub(crate) fn flows(count: u64) -> Vec<Flow> {
    let flow = |number: u64| {
        let start = START + number % 3 * HOUR;
        let forward =
            Half { packets: number, octets: number * 100, start, end: start, ..Half::default() };
        Flow { forward, interface: "eth0".into(), ..Flow::default() }
    };
    (1..=count).map(flow).collect()
}

pub(crate) fn messages(flows: &[Flow]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut pipe = Pipe::new(&mut bytes);
    flows.iter().for_each(|flow| pipe.add(flow).unwrap());
    pipe.flush().unwrap();
    bytes
}

/// Runs the sink on these messages.
pub(crate) fn sink(to: &Path, more: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    command.arg("sink").arg(to).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Writes these flows as files, in directories by date, hour and host.
pub(crate) fn write(to: &Path, flows: &[Flow]) {
    fs::create_dir_all(to).unwrap();
    let ended = sink(to, &["--quiet", "--host", "probe"], &messages(flows));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
