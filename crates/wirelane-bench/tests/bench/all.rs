//! `wirelane bench all`: a report and its page.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::privileged;
use wirelane_testkit::process::{copy_program, output};

use super::{BENCH, bench, page, wirelane};

/// One run serves all checks of a report, because it takes seconds.
#[test]
fn a_report_its_circumstances_and_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(folder.path());
    has_its_suites_on_one_page(&folder.path().join("deep/out"), &report);
    has_its_circumstances(&report);
    page::opens_without_an_error(&folder.path().join("deep/out"));
}

/// Runs suites that end soon on any machine and with any build.
fn report(folder: &Path) -> Value {
    let out = folder.join("deep/out");
    let args = [
        "all",
        "--quick",
        "--samples",
        "1",
        "--suite",
        "scaling",
        "--suite",
        "filter",
        "--suite",
        "noloss",
    ];
    let ended = bench(&[&args[..], &["--report", out.to_str().unwrap()]].concat());
    assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    // The first line has the expected time, the last one the result.
    let [first, last] = ended.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{ended:?}") };
    assert!(
        first.starts_with("measuring for about 0:") && last.contains(" figures, "),
        "{ended:?}"
    );
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn has_its_suites_on_one_page(out: &Path, report: &Value) {
    let rows = report["rows"].as_array().unwrap();
    let has = |suite: &str| rows.iter().any(|row| row["suite"] == suite);
    assert!(has("scaling") && has("noloss") && !has("qdisc"));
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Qdisc layer"));
    assert!(page.contains("not measured: the suite qdisc was not run"));
    let mut written: Vec<_> =
        std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, ["index.html", "report.json"]);
    // A run can be compared with itself; one sample per figure proves nothing.
    let json = out.join("report.json");
    let json = json.to_str().unwrap();
    assert!(bench(&["compare", json, json]).status.success());
    // Nothing is measured if the folder cannot be written.
    let blocked = json.to_owned() + "/out";
    let ended = bench(&["all", "--report", &blocked]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("ENOTDIR"), "{ended:?}");
}

fn has_its_circumstances(report: &Value) {
    let environment = &report["environment"];
    let text = |key: &str| environment[key].as_str().unwrap().to_owned();
    let started = text("started");
    assert!(started.len() == 20 && started.ends_with('Z'), "{started}");
    assert!(!text("governor").is_empty());
    for key in ["load_at_start", "load_at_end", "elapsed_s"] {
        assert!(environment[key].as_f64().unwrap() >= 0.0, "{key}");
    }
    assert!(environment["seed"].is_u64() && environment["mitigations"].is_object());
    // A build from an archive does not know its commit.
    let revision = environment["revision"].as_str();
    assert!(revision.is_none_or(|revision| revision.len() >= 40), "{revision:?}");
    let programs = environment["programs"].as_array().unwrap();
    for program in programs {
        assert!(program["package"].is_string() && program["installed"].is_boolean());
        assert!(program["installed"] == true || program["version"].is_null(), "{program}");
    }
    for name in ["dpdk-testpmd", "netsniff-ng", "tcpdump", "dumpcap", "tcpreplay", "iperf3"] {
        assert!(programs.iter().any(|program| program["name"] == name), "{name}");
    }
    assert!(report["command"].as_str().unwrap().starts_with("wirelane bench all --quick"));
    let control = report["control"].as_array().unwrap();
    let suites: Vec<_> = control.iter().map(|own| own["suite"].as_str().unwrap()).collect();
    assert_eq!(suites, ["filter", "noloss", "scaling"]);
    assert!(control.iter().all(|own| own["values"].as_array().unwrap().len() == 1));
}

#[test]
fn privileged_without_privileges_it_says_what_was_left_out() {
    if !privileged::require() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // All users must be able to run the program and to write the report.
    let program = folder.path().join("wirelane-bench");
    copy_program(Path::new(BENCH), &program);
    copy_program(&wirelane(), &folder.path().join("wirelane"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(folder.path(), mode(0o777)).unwrap();
    let out = folder.path().join("out");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    command.args(["all", "--quick", "--samples", "1", "--suite", "noloss"]);
    command.args(["--suite", "scaling", "--report"]).arg(&out);
    let ended = output(&mut command);
    assert!(ended.status.success(), "{ended:?}");
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let skipped = report["skipped"].as_array().unwrap();
    for case in ["xdp-native", "xdp-generic", "packet"] {
        let skipped = skipped.iter().find(|skipped| skipped["case"] == case).unwrap();
        assert!(skipped["reason"].as_str().unwrap().contains("needs root"), "{skipped}");
    }
    let ports = report["rows"].as_array().unwrap().iter().map(|row| &row["params"]["port"]);
    assert!(ports.into_iter().all(|port| port == "sim"));
}
