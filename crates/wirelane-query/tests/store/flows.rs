//! `wirelane flows -w s3://…`: the stored rows, and the errors when the store fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use wirelane_flow::Flow;
use wirelane_flow::ipfix::Pipe;
use wirelane_testkit::process::{self, ChildGuard, Output};

use crate::s3::{LIMIT, S3, program};
use wirelane_testkit::files;

/// A capture of 50 conversations.
fn capture(directory: &Path) -> PathBuf {
    let path = directory.join("capture.pcapng");
    let port = "sim:1?count=5000&flows=50&seed=3";
    process::run(program("wirelane").args(["capture", port, "-w"]).arg(&path));
    path
}

fn flows(source: &Path, to: &str, server: &S3) -> Command {
    let mut command = program("wirelane");
    command.arg("flows").arg(source).args(["--json", "-w", to]).envs(server.environment());
    command
}

fn summary(ended: &Output) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
}

/// The rows of all files, by their directories.
fn rows(root: &Path) -> BTreeMap<PathBuf, Vec<RecordBatch>> {
    let mut rows: BTreeMap<PathBuf, Vec<RecordBatch>> = BTreeMap::new();
    for path in files::below(root) {
        let file = File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let directory = path.parent().unwrap().strip_prefix(root).unwrap().to_owned();
        rows.entry(directory).or_default().extend(reader.map(Result::unwrap));
    }
    rows
}

#[test]
fn a_store_gets_the_rows_that_a_directory_gets() {
    let directory = tempfile::tempdir().unwrap();
    let (server, source) = (S3::start(), capture(directory.path()));
    let local = directory.path().join("flows/");
    process::run(&mut flows(&source, local.to_str().unwrap(), &server));
    process::run(&mut flows(&source, "s3://flows/of/probes", &server));
    let expected = rows(&local);
    assert_eq!(expected.values().flatten().map(RecordBatch::num_rows).sum::<usize>(), 50);
    assert_eq!(rows(&server.bucket("flows").join("of/probes")), expected);
}

#[test]
fn a_store_that_refuses_is_named_and_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let (server, source) = (S3::start(), capture(directory.path()));
    let cases = [
        ("s3://missing/flows", ("", ""), "there is no such bucket (NoSuchBucket"),
        ("s3://fixed/flows", ("", ""), "it refuses (AccessDenied"),
        ("s3://flows/a", ("AWS_SECRET_ACCESS_KEY", "wrong"), "it refuses (SignatureDoesNotMatch"),
        ("s3://flows/a", ("AWS_ACCESS_KEY_ID", "other"), "it refuses (NotSignedUp"),
    ];
    for (to, (name, value), expected) in cases {
        let mut command = flows(&source, to, &server);
        if !name.is_empty() {
            command.env(name, value);
        }
        // The default patience for an unreachable store is a minute.
        let ended = ChildGuard::spawn(&mut command).wait(LIMIT / 2);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{to}: {}", ended.stderr);
        assert!(ended.stderr.contains("50 of 50 flows were not written"), "{}", ended.stderr);
        let export = &summary(&ended)["flows"]["exports"][0];
        assert_eq!((&export["flows"], &export["lost"]), (&0.into(), &50.into()), "{export}");
    }
    for bucket in ["flows", "fixed"] {
        assert!(files::below(&server.bucket(bucket)).is_empty());
    }
    assert!(!server.bucket("missing").exists());
}

#[test]
fn files_wait_for_a_store_that_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, source) = (S3::start(), capture(directory.path()));
    server.be_there(false);
    let mut command = ChildGuard::spawn(&mut flows(&source, "s3://flows", &server));
    command.wait_until(LIMIT, |command| command.stderr().contains("files wait"));
    server.be_there(true);
    let ended = command.wait(LIMIT);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stderr.contains("s3://flows: takes files again"), "{}", ended.stderr);
    let export = &summary(&ended)["flows"]["exports"][0];
    assert_eq!((&export["flows"], &export["lost"]), (&50.into(), &0.into()), "{export}");
    assert!(export["failures"].as_u64() > Some(0), "{export}");
    let rows = rows(&server.bucket("flows"));
    assert_eq!(rows.values().flatten().map(RecordBatch::num_rows).sum::<usize>(), 50);
}

#[test]
fn flows_for_a_store_that_stays_away_are_counted() {
    let mut server = S3::start();
    server.be_there(false);
    let mut messages = Vec::new();
    let mut pipe = Pipe::new(&mut messages);
    (0..50).for_each(|_| pipe.add(&Flow::default()).unwrap());
    pipe.flush().unwrap();
    let mut sink = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    sink.args(["sink", "s3://flows", "--json", "--patience", "1s"]).envs(server.environment());
    sink.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sink = sink.spawn().unwrap();
    sink.stdin.take().unwrap().write_all(&messages).unwrap();
    let ended = sink.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("50 of 50 flows were not written: "), "{said}");
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&told["flows"], &told["lost"]), (&0.into(), &50.into()), "{told}");
}
