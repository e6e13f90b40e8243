//! Packets of real protocols as rows in other engines: their answers equal answers from lines of
//! JSON.

use std::fs;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::{process, tools};

use crate::s3::program;

const SCRIPT: &str = include_str!("packets.py");
/// Every `STEP`th capture of tcpdump's tests is used.
const STEP: usize = 60;

#[test]
fn other_engines_find_the_same_packets_in_our_files() {
    let Some(python) = tools::python("readers", "pyarrow, duckdb") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (path, many) = (directory.path().join("rows.json"), directory.path().join("many.pcapng"));
    let to = directory.path().join("rows/");
    let port = "sim:2?count=5000&flows=500&seed=3";
    process::run(program("wirelane").args(["capture", port, "-w"]).arg(&many));
    let mut lines = String::new();
    for capture in tools::tcpdump_captures().iter().step_by(STEP).chain([&many]) {
        let flows = |args: &[&str]| {
            let mut command = program("wirelane");
            command.arg("flows").arg(capture).args(["--packets", "--quiet"]).args(args);
            process::output(&mut command)
        };
        // Some captures are damaged. Packets before the damage become rows all the same.
        flows(&["-w", to.to_str().unwrap()]);
        lines += &flows(&["--format", "json"]).stdout;
    }
    fs::write(&path, &lines).unwrap();
    let mut script = Command::new(python);
    script.args(["-c", SCRIPT]).arg(&path).arg(&to);
    let said = process::run(&mut script);
    let answers: Vec<(String, Value)> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = &answers[0].1;
    assert!(expected["packets"].as_u64() > Some(5000), "{expected}");
    for (name, found) in &answers[1..] {
        assert_eq!(found, expected, "{name}");
    }
}
