//! `wirelane bench qdisc`.

use serde_json::Value;

use super::bench;

#[test]
fn qdisc_in_json_is_one_object_of_the_schema() {
    let args = ["qdisc", "--quick", "--samples", "1", "--json"];
    let ended = bench(&args);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!((ended.stdout.matches('\n').count(), ended.stderr.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["schema"], "wirelane.bench/1");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["command"], format!("wirelane bench {}", args.join(" ")));
    assert!(report["machine"]["cores"].is_u64() && report["machine"]["kernel"].is_string());
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let keys = ["better", "case", "max", "median", "metric", "min", "params", "peer"];
        let more = ["samples", "source", "suite", "unit", "values"];
        let keys: Vec<_> = keys.into_iter().chain(more).collect();
        assert_eq!(row.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        assert_eq!((&row["suite"], &row["samples"]), (&"qdisc".into(), &1.into()));
        assert!(row["params"].is_object() && row["unit"].is_string(), "{row}");
        let [min, median, max] = ["min", "median", "max"].map(|key| row[key].as_f64().unwrap());
        assert!(min <= median && median <= max, "{row}");
        assert!(row["source"].is_null() || row["source"]["document"] == "004", "{row}");
    }
    let locks = |case: &str, producers: u64, round: Option<u64>| -> Vec<f64> {
        let wanted = rows.iter().filter(|row| {
            let params = &row["params"];
            (row["case"] == case && row["metric"] == "locks_per_packet")
                && (params["producers"] == producers && params["batch"] == 32)
                && params["round"].as_u64() == round
                && params["enqueue"].is_null()
        });
        wanted.map(|row| row["median"].as_f64().unwrap()).collect()
    };
    // Two sizes for each discipline. With 8 producers, the queue may have to be emptied at the end.
    assert_eq!(locks("fifo", 1, None), [6.0; 2]);
    assert_eq!(
        (locks("bulk", 1, Some(8)), locks("bulk", 1, Some(32))),
        (vec![2.5; 2], vec![2.125; 2])
    );
    for producers in [1, 2, 4, 8] {
        assert!(locks("lockless", producers, None).iter().all(|locks| *locks == 0.0));
        assert!(locks("fifo", producers, None).iter().all(|locks| (6.0..6.1).contains(locks)));
    }
    let peer = rows.iter().any(|row| row["peer"] == "rte_ring");
    let skipped = report["skipped"].as_array().unwrap();
    assert!(peer != skipped.iter().any(|skipped| skipped["case"] == "rte_ring"), "{skipped:?}");
}
