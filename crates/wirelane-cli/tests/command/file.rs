//! Capture files as the port: what is in them comes out, as it is, and as soon as it is there.

use std::fs::{self, File};
use std::io::Write;

use tempfile::tempdir;
use wirelane_testkit::process;

use super::*;

/// A few packets in a pipe reach the output although nothing more comes and nothing ends.
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
