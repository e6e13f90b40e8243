//! Wirelane's Parquet files in other engines: their answers equal answers from `--format json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::{process, tools};

use crate::s3::{S3, program};

const SCRIPT: &str = include_str!("readers.py");
/// Every `STEP`th capture of tcpdump's tests is used.
const STEP: usize = 12;

/// Captures of real protocols that contain flows.
fn captures() -> Vec<PathBuf> {
    let has_flows = |path: &PathBuf| {
        let ended =
            process::output(program("wirelane").args(["flows", "--format", "json"]).arg(path));
        ended.status.success() && !ended.stdout.is_empty()
    };
    let found: Vec<_> =
        tools::tcpdump_captures().into_iter().step_by(STEP).filter(has_flows).collect();
    assert!(found.len() >= 20, "{found:?}");
    found
}

/// Compares answers of these engines, from Parquet files, with answers from lines of JSON.
fn compare(python: &Path, engines: &[&str]) {
    let server = S3::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.json");
    let mut lines = String::new();
    let many = directory.path().join("many.pcapng");
    let port = "sim:1?count=5000&flows=500&seed=3";
    process::run(program("wirelane").args(["capture", port, "-w"]).arg(&many));
    for capture in captures().iter().chain([&many]) {
        let mut flows = program("wirelane");
        flows.arg("flows").arg(capture).args(["--quiet", "-w", "s3://flows/real"]);
        process::run(flows.envs(server.environment()));
        lines +=
            &process::run(program("wirelane").args(["flows", "--format", "json"]).arg(capture));
    }
    fs::write(&path, &lines).unwrap();
    let endpoint = server.environment()[3].1.replace("http://", "");
    let mut script = Command::new(python);
    script.args(["-c", SCRIPT]).arg(&path).arg(server.bucket("flows").join("real"));
    script.args([&endpoint, "flows/real"]).args(engines).envs(server.environment());
    // Otherwise clients ask a cloud for keys.
    let said = process::run(script.env("AWS_EC2_METADATA_DISABLED", "true"));
    let answers: Vec<(String, Value)> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = &answers[0].1;
    assert!(expected["flows"].as_u64() > Some(520), "{expected}");
    assert_eq!(answers.len(), 1 + engines.len());
    for (name, found) in &answers[1..] {
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn other_engines_find_the_same_in_our_files() {
    if let Some(python) = tools::python("readers", "pyarrow, duckdb") {
        compare(&python, &["pyarrow", "pyarrow over S3", "DuckDB"]);
    }
}

#[test]
#[ignore = "needs Java, and pyspark in target/spark: 450 MB"]
fn spark_finds_the_same_in_our_files() {
    let python = tools::python("spark", "pyspark").expect("pyspark");
    compare(&python, &["Spark"]);
}
