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
    for (path, cause) in [(empty.path(), "no file ending in .json"), (Path::new("/none"), "ENOENT")]
    {
        let ended = bench(&["compare", &old, path.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.lines().count() == 1 && ended.stderr.contains(cause), "{ended:?}");
    }
}
