//! `wirelane bench flows`.

use serde_json::Value;
use wirelane_testkit::tools;

use super::{bench, wirelane};

#[test]
fn flows_of_a_file_stand_beside_those_of_other_programs() {
    let args = ["flows", "--quick", "--samples", "2", "--packets", "20000", "--json"];
    let ended = bench(&[&args[..], &["--case", "file", "--case", "parquet"]].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let (rows, skipped) = (report["rows"].as_array().unwrap(), &report["skipped"]);
    for program in [None, Some("nfpcapd"), Some("softflowd"), Some("argus")] {
        let row = rows.iter().find(|row| row["peer"].as_str() == program);
        if program.is_some_and(|program| tools::find(program).is_none()) {
            assert!(row.is_none() && skipped.to_string().contains("is not installed"));
            continue;
        }
        let row = row.unwrap_or_else(|| panic!("no row of {program:?}: {skipped}"));
        let expected = (&2.into(), &"cpu_ns_per_packet".into());
        assert_eq!((&row["samples"], &row["metric"]), expected, "{skipped}");
        assert!(row["min"].as_f64().unwrap() > 10.0, "{row}");
    }
    let parquet = rows.iter().find(|row| row["case"] == "parquet" && row["peer"].is_null());
    if wirelane().with_file_name("wirelane-query").is_file() {
        assert_eq!(parquet.map(|row| &row["samples"]), Some(&2.into()), "{skipped}");
    } else {
        assert!(skipped.to_string().contains("wirelane-query is neither beside"), "{skipped}");
    }
}
