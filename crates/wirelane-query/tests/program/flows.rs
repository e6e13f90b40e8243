//! `wirelane flows -w DIRECTORY/`: from packets to Parquet.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use wirelane_testkit::process::{self, ChildGuard};

use crate::rows::packets_of;
use wirelane_testkit::files;

const LIMIT: Duration = Duration::from_secs(60);

/// The command, next to `wirelane-query`.
pub(crate) fn wirelane() -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_wirelane-query")).with_file_name("wirelane");
    assert!(path.is_file(), "no {}: cargo build -p wirelane-cli", path.display());
    Command::new(path)
}

/// The packets in all rows of all files, and the number of rows.
fn written(directory: &Path) -> (u64, u64) {
    let rows: Vec<u64> = files::below(directory).iter().flat_map(|path| packets_of(path)).collect();
    (rows.iter().sum(), rows.len() as u64)
}

#[test]
fn the_packets_of_a_port_are_in_the_rows_of_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("new/");
    let port = "sim:2?count=5000&flows=50&seed=3";
    let options = ["--size", "1M", "--rotate", "90s", "--host", "probe"];
    let mut command = wirelane();
    let ended =
        process::output(command.args(["flows", port, "--json", "-w"]).arg(&to).args(options));
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["totals"]["received"], 5000);
    let is_of_probe = |path: &PathBuf| path.iter().any(|part| part == "host=probe");
    assert!(files::below(&to).iter().all(is_of_probe), "{:?}", files::below(&to));
    let (packets, rows) = written(&to);
    assert_eq!(packets, 5000);
    let export = &summary["flows"]["exports"][0];
    assert_eq!((&export["flows"], &export["lost"]), (&rows.into(), &0.into()), "{export}");
    assert_eq!(summary["flows"]["exported"], rows);
}

/// A terminal interrupts every process of the command.
#[test]
fn an_interrupt_loses_no_flow() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("flows/");
    let port = "sim:2?rate=20kpps&flows=500";
    let mut command = ChildGuard::spawn(wirelane().args(["flows", port, "--json", "-w"]).arg(&to));
    command.wait_until(LIMIT, |command| command.stderr().contains("flows of sim:2"));
    std::thread::sleep(Duration::from_secs(1));
    let group = Pid::from_raw(i32::try_from(command.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    let ended = command.wait(LIMIT);
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    let received = summary["totals"]["received"].as_u64().unwrap();
    assert!(received > 0, "{summary}");
    assert_eq!(written(&to).0, received);
}
