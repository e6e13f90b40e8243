use super::*;
use serde_json::json;

fn report(rows: &[(&str, Option<&str>, &str, &[f64])]) -> EarlierReport {
    let rows: Vec<_> = rows
        .iter()
        .map(|(case, peer, metric, values)| {
            json!({
                "suite": "qdisc", "case": case, "peer": peer, "params": { "size": 64 },
                "metric": metric, "unit": "ns", "values": values,
            })
        })
        .collect();
    let text = json!({ "schema": "wirelane.bench/1", "rows": rows }).to_string();
    parse("test", &text).unwrap()
}

fn verdict(metric: &str, old: &[f64], new: &[f64]) -> ChangeVerdict {
    let one = |values| [report(&[("fifo", None, metric, values)])];
    compare(&one(old), &one(new), 0.1).changes[0].verdict
}

fn with_control(values: &[f64], control: &[f64]) -> [EarlierReport; 1] {
    let mut report = report(&[("fifo", None, "ns_per_packet", values)]);
    let (values, cpu) = (control.to_vec(), vec![5.0; 5]);
    report.control = vec![RecordedControl { suite: "qdisc".into(), values, cpu }];
    [report]
}

#[test]
fn what_the_machine_did_is_no_regression() {
    let (fast, slow) = ([10.0, 10.1, 9.9, 10.0, 10.2], [15.0, 15.1, 14.9, 15.0, 15.2]);
    let (steady, slower) = ([5.0, 5.1, 4.9, 5.0, 5.0], [5.0, 5.1, 6.9, 5.0, 7.0]);
    let verdict = |old: [EarlierReport; 1], new: [EarlierReport; 1]| {
        compare(&old, &new, 0.1).changes[0].verdict
    };
    let quiet = || with_control(&fast, &steady);
    assert_eq!(verdict(quiet(), with_control(&slow, &steady)), ChangeVerdict::Regression);
    assert_eq!(verdict(quiet(), with_control(&slow, &slower)), ChangeVerdict::Unclear);
    assert_eq!(verdict(with_control(&slow, &slower), quiet()), ChangeVerdict::Unclear);
    // The figure is three times slower, which exceeds the change of the control.
    let slowest = slow.map(|value| 2.0 * value);
    assert_eq!(verdict(quiet(), with_control(&slowest, &slower)), ChangeVerdict::Regression);
    // CPU time is compared with the CPU time of the control, which has not changed.
    let [mut old] = quiet();
    let [mut new] = with_control(&slow, &slower);
    for report in [&mut old, &mut new] {
        report.rows[0].metric = "cpu_ns_per_packet".into();
    }
    assert_eq!(verdict([old], [new]), ChangeVerdict::Regression);
    // Counts do not depend on the machine's speed.
    let [mut old] = with_control(&[6.0; 5], &steady);
    let [mut new] = with_control(&[8.0; 5], &slower);
    for report in [&mut old, &mut new] {
        report.rows[0].metric = "locks_per_packet".into();
    }
    assert_eq!(verdict([old], [new]), ChangeVerdict::Regression);
}

#[test]
fn few_samples_prove_little() {
    // All new samples are worse by more than the threshold, which happens by chance one time in
    // twenty.
    assert_eq!(
        verdict("ns_per_packet", &[10.0, 11.0, 12.0], &[14.0, 15.0, 16.0]),
        ChangeVerdict::Unclear
    );
    assert_eq!(
        verdict("ns_per_packet", &[10.0, 10.1, 10.2], &[14.0, 14.1, 14.2]),
        ChangeVerdict::Regression
    );
    assert_eq!(verdict("ns_per_packet", &[10.0], &[1000.0]), ChangeVerdict::Unclear);
    assert_eq!(verdict("ns_per_packet", &[10.0], &[10.0]), ChangeVerdict::Unclear);
    assert_eq!(verdict("ns_per_packet", &[10.0], &[30.0, 30.1, 30.2]), ChangeVerdict::Regression);
}

#[test]
fn losses_are_compared_by_what_is_left() {
    assert_eq!(verdict("lost_share", &[0.0; 5], &[0.001; 5]), ChangeVerdict::Same);
    assert_eq!(verdict("lost_share", &[0.0; 5], &[0.5; 5]), ChangeVerdict::Regression);
    assert_eq!(verdict("lost_share", &[0.0; 5], &[1.0; 5]), ChangeVerdict::Regression);
    assert_eq!(verdict("cas_retries_per_packet", &[0.0; 5], &[0.01; 5]), ChangeVerdict::Same);
}

#[test]
fn a_shift_of_all_samples_is_a_regression() {
    let (fast, slow) = ([9.9, 10.0, 10.1, 10.0, 10.2], [14.0, 15.0, 13.0, 14.5, 99.0]);
    assert_eq!(verdict("ns_per_packet", &fast, &slow), ChangeVerdict::Regression);
    assert_eq!(verdict("ns_per_packet", &slow, &fast), ChangeVerdict::Improvement);
    assert_eq!(verdict("packets_per_s", &fast, &slow), ChangeVerdict::Improvement);
    assert_eq!(verdict("packets_per_s", &slow, &fast), ChangeVerdict::Regression);
}

#[test]
fn noise_is_no_regression() {
    let quiet = [10.0, 10.1, 10.2, 9.9, 10.0];
    assert_eq!(
        verdict("ns_per_packet", &quiet, &[10.1, 10.3, 10.2, 10.0, 9.8]),
        ChangeVerdict::Same
    );
    // One unchanged sample is enough to doubt the others.
    assert_eq!(
        verdict("ns_per_packet", &quiet, &[20.0, 30.0, 25.0, 40.0, 10.0]),
        ChangeVerdict::Unclear
    );
    // Worse, but by less than the threshold.
    assert_eq!(verdict("ns_per_packet", &quiet, &[10.6; 5]), ChangeVerdict::Same);
}

#[test]
fn more_samples_forgive_outliers() {
    let old = [10.0, 10.1, 10.2, 9.9, 10.0].repeat(4);
    let mut new: Vec<f64> = old.iter().map(|value| value * 1.5).collect();
    new[3] = 9.0;
    assert_eq!(verdict("ns_per_packet", &old, &new), ChangeVerdict::Regression);
    assert_eq!((outside(5, 5), outside(1, 1)), (0, 0));
    assert!(outside(20, 20) > 90 && outside(20, 20) < 200);
}

#[test]
fn counts_may_be_zero() {
    assert_eq!(verdict("locks_per_packet", &[0.0; 5], &[0.0; 5]), ChangeVerdict::Same);
    assert_eq!(verdict("locks_per_packet", &[0.0; 5], &[1.0; 5]), ChangeVerdict::Regression);
    assert_eq!(verdict("locks_per_packet", &[1.0; 5], &[0.0; 5]), ChangeVerdict::Improvement);
}

#[test]
fn what_cannot_be_compared_is_counted() {
    let old = [report(&[
        ("fifo", None, "system_ns_per_packet", &[1.0, 2.0]),
        ("fifo", None, "ns_over_noqueue", &[-1.0, 2.0]),
        ("fifo", None, "bypassed_share", &[0.5]),
        ("bulk", None, "ns_per_packet", &[5.0]),
        ("mpmc", Some("rte_ring"), "cycles_per_element", &[5.0, 5.0]),
    ])];
    let new = [report(&[
        ("fifo", None, "system_ns_per_packet", &[1.0, 2.0]),
        ("fifo", None, "ns_over_noqueue", &[-1.0, 2.0]),
        ("fifo", None, "bypassed_share", &[0.5]),
        ("lockless", None, "ns_per_packet", &[5.0]),
        ("mpmc", Some("rte_ring"), "cycles_per_element", &[10.0, 10.0]),
    ])];
    let comparison = compare(&old, &new, 0.1);
    assert_eq!(comparison.not_compared, 3);
    assert_eq!(comparison.only_old, ["qdisc bulk size=64: ns_per_packet"]);
    assert_eq!(comparison.only_new, ["qdisc lockless size=64: ns_per_packet"]);
    assert_eq!((comparison.peers, comparison.regressions().count()), (Some(2.0), 0));
}

#[test]
fn what_is_no_report_is_refused() {
    for text in ["", "{}", "[]", r#"{"schema":"other/1","rows":[]}"#] {
        assert!(parse("x.json", text).unwrap_err().to_string().contains("x.json"), "{text}");
    }
}
