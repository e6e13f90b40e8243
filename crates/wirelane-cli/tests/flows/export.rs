//! Exports of flows.

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::{ChildGuard, output};

use crate::with_companion;

const PATIENCE: Duration = Duration::from_secs(60);
/// 500 flows of 20 packets each.
const SOURCE: &str = "sim:2?rate=100kpps&flows=500";

fn flows(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.args(["flows", SOURCE, "-c", "10000", "--json", "-q"]).args(args);
    command
}

#[test]
fn nfcapd_gets_the_flows_that_the_summary_counts() {
    if !Program::require(&["nfcapd"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Program::find("nfcapd").unwrap().command(Library::Stock, None);
    command.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"]).arg(directory.path());
    let mut collector = ChildGuard::spawn(&mut command);
    collector.wait_until(PATIENCE, |it| it.stderr().contains("Startup nfcapd"));
    let ended = output(&mut flows(&["--ipfix", &format!("udp://127.0.0.1:{port}")]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    let export = &summary["flows"]["exports"][0];
    assert_eq!((&export["lost"], &export["failures"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(export["flows"], summary["flows"]["exported"]);
    let expected = format!("Flows: {}, Packets: {},", export["flows"], summary["flows"]["packets"]);
    // The collector reads until its socket is empty, even after an interrupt.
    collector.wait_until(PATIENCE, |_| waiting(port) == 0);
    collector.interrupt();
    let said = collector.wait(PATIENCE);
    assert!(said.stderr.contains(&expected), "{expected} in {}", said.stderr);
    assert!(said.stderr.contains("Sequence Errors: 0, Bad Packets: 0"), "{}", said.stderr);
}

/// The bytes that wait in the socket of this port.
fn waiting(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let line = table.lines().find(|line| line.contains(&format!(":{port:04X} "))).unwrap();
    let queues = line.split_whitespace().nth(4).unwrap();
    u64::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

#[test]
fn a_collector_that_is_away_is_a_failure_with_counts() {
    let ended = output(&mut flows(&["--ipfix", "tcp://127.0.0.1:1"]));
    assert_eq!(ended.status.code(), Some(1));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    let export = &summary["flows"]["exports"][0];
    assert_eq!(export["lost"], summary["flows"]["exported"], "{summary}");
    assert!(ended.stderr.contains("flows were not sent: Connection refused"), "{}", ended.stderr);
}

#[test]
fn what_is_no_collector_and_what_has_no_program_is_said() {
    let ended = output(&mut flows(&["--ipfix", "nms:4739"]));
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("udp://HOST:PORT"), "{}", ended.stderr);
    let file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
    for option in [["--size", "1M"], ["--rotate", "1m"], ["--host", "a"]] {
        let ended = output(flows(&["-w"]).arg(file.path()).args(option));
        assert_eq!(ended.status.code(), Some(2));
        let said = format!("{}: only files of Parquet have it", option[0]);
        assert!(ended.stderr.contains(&said), "{}", ended.stderr);
    }
    // The command alone in a directory, without its companion.
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("wirelane");
    wirelane_testkit::process::copy_program(env!("CARGO_BIN_EXE_wirelane").as_ref(), &alone);
    let to = format!("{}/", directory.path().display());
    for more in
        [&["-w", &to][..], &["-w", &to, "--packets"], &["--packets"], &["--format", "arrow"]]
    {
        let mut command = Command::new(&alone);
        command.args(["flows", SOURCE, "-c", "10"]).args(more).env("PATH", directory.path());
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(1));
        let help = "cargo install --path crates/wirelane-query";
        assert!(ended.stderr.contains(help) && ended.stdout.is_empty(), "{}", ended.stderr);
    }
}

/// Only the owner, or the users that `--mode` names, can read the files of the program, whatever
/// the umask.
#[test]
fn files_of_parquet_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let script = "#!/bin/sh\nfor to; do :; done\nmkdir -p \"$to/hour\"\ncat >/dev/null\n\
                  : >\"$to/hour/x.parquet\"\necho '{}'\n";
    let program = with_companion(directory.path(), script);
    let run = |to: &str, more: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 002; exec \"$@\"", "sh"]).arg(&program);
        command.args(["flows", "-q", SOURCE, "-c", "10", "-w"]).arg(path(to)).args(more);
        output(&mut command)
    };
    for (number, (more, file, folder)) in [
        (&[][..], 0o600, 0o700),
        (&["--packets", "--data"], 0o600, 0o700),
        (&["--mode", "0640"], 0o640, 0o750),
        (&["--packets", "--data", "--mode", "0644"], 0o644, 0o755),
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("{number}/");
        let ended = run(&to, more);
        assert_eq!(ended.status.code(), Some(0), "{more:?}: {}", ended.stderr);
        let mode = |name: &str| path(&to).join(name).metadata().unwrap().permissions().mode();
        let modes = [mode("hour/x.parquet") & 0o777, mode("hour") & 0o777];
        assert_eq!(modes, [file, folder], "{more:?}");
    }
    let group = run("x/", &["--group", "0"]);
    assert_eq!(group.status.code(), Some(2), "{}", group.stderr);
    assert!(group.stderr.contains("the group of their directory"), "{}", group.stderr);
    assert!(!path("x").exists());
}

/// The peer is connected but does not read: the kernel's buffers fill.
#[test]
fn a_collector_that_never_reads_is_given_up_after_five_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.args(["flows", "sim:4?rate=max&size=64&flows=65536", "--json"]);
    let mut metering =
        ChildGuard::spawn(command.args(["--ipfix", &format!("tcp://127.0.0.1:{port}")]));
    metering.wait_until(PATIENCE, |it| it.stderr().contains("flows of"));
    std::thread::sleep(Duration::from_millis(500));
    let asked = Instant::now();
    metering.interrupt();
    let ended = metering.wait(PATIENCE);
    let time = asked.elapsed();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&time), "{time:?}");
    assert!(ended.stderr.contains(" flows were not sent: it reads nothing"), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    let export = &summary["flows"]["exports"][0];
    let [flows, lost] = ["flows", "lost"].map(|key| export[key].as_u64().unwrap());
    assert!(lost > 0, "{summary}");
    assert_eq!(Some(flows + lost), summary["flows"]["exported"].as_u64(), "{summary}");
    drop(listener);
}
