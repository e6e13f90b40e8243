//! `wirelane bench compare`.

use std::path::Path;

use serde_json::Value;

use super::bench;

#[test]
fn compare_finds_what_became_worse() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, factor: f64| {
        let values: Vec<f64> = [10.0, 10.1, 9.9, 10.2, 10.0].map(|value| value * factor).to_vec();
        let row = serde_json::json!({
            "suite": "qdisc", "case": "fifo", "peer": null, "params": { "producers": 2 },
            "metric": "ns_per_packet", "unit": "ns", "values": values,
        });
        let report = serde_json::json!({ "schema": "wirelane.bench/1", "rows": [row] });
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, report.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, same, slow) =
        (write("old.json", 1.0), write("same.json", 1.01), write("slow.json", 2.0));
    let ended = bench(&["compare", &old, &same]);
    assert!(ended.status.success() && ended.stdout.contains("1 the same within 10 %"), "{ended:?}");
    let ended = bench(&["compare", &old, &slow]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.stderr, "wirelane: comparison: 1 figure became worse\n");
    assert!(ended.stdout.starts_with("worse   qdisc fifo producers=2: ns_per_packet"), "{ended:?}");
    assert!(bench(&["compare", &old, &slow, "--threshold", "200"]).status.success());
    let ended = bench(&["compare", &slow, &old, "--json"]);
    let comparison: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(comparison["schema"], "wirelane.compare/1");
    assert_eq!(comparison["changes"][0]["verdict"], "improvement");
    // Folders hold runs made in turns.
    write("new/1.json", 1.5);
    write("new/2.json", 1.6);
    let new = folder.path().join("new");
    assert_eq!(bench(&["compare", &old, new.to_str().unwrap()]).status.code(), Some(1));
    let empty = tempfile::tempdir().unwrap();
    for (path, cause) in [(empty.path(), "has no .json file"), (Path::new("/none"), "ENOENT")] {
        let ended = bench(&["compare", &old, path.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.lines().count() == 1 && ended.stderr.contains(cause), "{ended:?}");
    }
}

/// Compares real reports, made in turns. The figure is a rate that a simulated interface keeps on
/// any machine that is not overloaded. The slow rate is lower than the control can ever become, so
/// noise does not decide. `cargo xtask bench compare`, which must build the program twice, checks
/// that a lock in the hot path is found.
#[test]
fn a_run_is_not_worse_than_itself_and_a_slower_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let runs = [("old", "400k"), ("same", "400k"), ("slow", "1k")];
    for (name, _) in runs {
        std::fs::create_dir(path(name)).unwrap();
    }
    for round in 0..2 {
        for turn in 0..runs.len() {
            let (name, rate) = runs[(round + turn) % runs.len()];
            let port = format!("sim:1?rate={rate}pps");
            let args = ["sockets", "--port", &port, "--case", "rxdrop", "--size", "64", "--json"];
            let ended = bench(&[&args[..], &["--samples", "5", "--seconds", "60ms"]].concat());
            assert!(ended.status.success(), "{ended:?}");
            std::fs::write(path(name).join(format!("{round}.json")), ended.stdout).unwrap();
        }
    }
    let compare = |new: &str| {
        let (old, new) = (path("old"), path(new));
        // A busy machine may double the CPU time of some samples, never of all.
        let args = ["compare", old.to_str().unwrap(), new.to_str().unwrap(), "--threshold", "100"];
        bench(&args)
    };
    let same = compare("same");
    assert!(same.status.success() && !same.stdout.starts_with("worse"), "{same:?}");
    let slow = compare("slow");
    assert_eq!(slow.status.code(), Some(1), "{slow:?}");
    // The load of the machine decides which of its figures are certain.
    assert!(slow.stdout.starts_with("worse   sockets rxdrop mode=sim port=sim"), "{slow:?}");
}
