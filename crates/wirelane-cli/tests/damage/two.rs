//! Two processes at one store.

use super::*;

#[test]
fn a_store_has_one_recorder() {
    let directory = tempdir().unwrap();
    let store = directory.path().join("store");
    let spec = "sim:1?rate=1kpps";
    let recorder = Recorder::start(spec, &store, &["--json"]);
    let ended = output(wirelane(["record", spec]).arg(&store));
    let process = format!("process {} records into it", recorder.child.id());
    assert_refused(&ended, 1, &[&store.display().to_string(), &process]);
    // A check reads it without changes.
    let report = check(&store, 0);
    assert!(report["only_looked"].as_str().unwrap().contains(&process), "{report}");
    let ended = recorder.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let written = number(&parse(&ended.stdout)["totals"]["written"]);
    assert_eq!(extract(&store, 0).0.len() as u64, written);
    assert_eq!(check(&store, 0)["only_looked"], Value::Null);
}
