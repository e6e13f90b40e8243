//! `wirelane-query sink` as `wirelane flows -w` starts it.

use std::fs;
use std::path::Path;
use std::process::Output;

use arrow_ipc::reader::StreamReader;
use serde_json::Value;

use crate::made::{flows, messages, sink};
use crate::rows::{packets, packets_of};
use wirelane_testkit::files;

fn told(ended: &Output) -> Value {
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[test]
fn every_flow_is_in_the_file_of_its_hour() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("flows");
    let ended = sink(&to, &["--json", "--host", "probe/1"], &messages(&flows(1000)));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let told = told(&ended);
    assert_eq!(
        (&told["flows"], &told["files"], &told["lost"]),
        (&1000.into(), &3.into(), &0.into())
    );
    let paths = files::below(&to);
    let size: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(told["bytes"], size);
    let mut all = Vec::new();
    for (path, hour) in paths.iter().zip(["02", "03", "04"]) {
        let place = format!("date=2026-11-23/hour={hour}/host=probe_1/flows-{hour}4144-");
        assert!(path.strip_prefix(&to).unwrap().to_str().unwrap().starts_with(&place), "{path:?}");
        all.extend(packets_of(path));
    }
    all.sort_unstable();
    assert_eq!(all, (1..=1000).collect::<Vec<_>>());
}

#[test]
fn what_came_before_a_broken_message_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let whole = messages(&flows(2000));
    let ended = sink(directory.path(), &["--json"], &whole[..whole.len() - 10]);
    assert_eq!(ended.status.code(), Some(1));
    let written: usize =
        files::below(directory.path()).iter().map(|path| packets_of(path).len()).sum();
    assert!(written > 0 && written < 2000);
    assert_eq!(told(&ended)["flows"], written);
}

#[test]
fn a_store_that_takes_nothing_is_named_and_flows_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    // A file where a directory would have to be.
    fs::write(directory.path().join("date=2026-11-23"), "").unwrap();
    let ended = sink(directory.path(), &["--json", "--patience", "0s"], &messages(&flows(10)));
    assert_eq!(ended.status.code(), Some(1));
    let told = told(&ended);
    assert_eq!((&told["flows"], &told["lost"]), (&0.into(), &10.into()), "{told}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("10 of 10 flows were not written"), "{said}");
    assert_eq!(files::below(directory.path()).len(), 1);
}

#[test]
fn standard_output_takes_a_stream_of_arrow() {
    let ended = sink(Path::new("-"), &[], &messages(&flows(9000)));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let stream = StreamReader::try_new(&ended.stdout[..], None).unwrap();
    let all: Vec<u64> = stream.flat_map(|batch| packets(&batch.unwrap())).collect();
    assert_eq!(all, (1..=9000).collect::<Vec<_>>());
}
