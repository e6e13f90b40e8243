//! Broken programs: each is listed as not measured, with its reason, and the run continues.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::privileged;
use wirelane_testkit::process::{Output, output};

use super::BENCH;

/// An environment variable of every program that the benchmark starts.
const MARK: &str = "WIRELANE_TEST_BROKEN";

/// Programs in place of the real ones, each with its defect.
const BROKEN: [(&str, &str); 4] = [
    ("tcpreplay", "echo 'no such\ndevice' >&2; exit 3"),
    // Prints nothing, sends nothing, and does not end.
    ("trafgen", "exec sleep 600"),
    ("xdp-trafficgen", "exit 0"),
    ("dpdk-testpmd", "echo 'EAL: Cannot init memory'; exit 1"),
];

/// A program that is only asked for its version does not hold up the run, either.
const MUTE: &str = "netsniff-ng";

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BENCH);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.args(arguments).env("PATH", path);
    output(command.env(MARK, std::process::id().to_string()))
}

/// Processes that the benchmarks of this test have left.
fn left() -> Vec<String> {
    let mark = format!("{MARK}={}", std::process::id());
    let has_mark = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let left = processes.filter(|process| has_mark(process));
    left.map(|process| fs::read_to_string(process.join("cmdline")).unwrap_or_default()).collect()
}

#[test]
fn privileged_broken_programs_are_listed_with_their_last_words() {
    if !privileged::require() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in BROKEN.into_iter().chain([(MUTE, "exec sleep 600")]) {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |arguments: &[&str]| -> Value {
        let effort = ["--quick", "--samples", "1", "--seconds", "50ms", "--size", "64", "--json"];
        let ended = bench(folder.path(), &[arguments, &effort].concat());
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!((ended.stderr.as_str(), left()), ("", Vec::new()));
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let reason = |report: &Value, case: &str| -> String {
        let skipped = report["skipped"].as_array().unwrap();
        let of_case: Vec<_> = skipped.iter().filter(|skipped| skipped["case"] == case).collect();
        assert_eq!(of_case.len(), 1, "{case}: {skipped:?}");
        of_case[0]["reason"].as_str().unwrap().to_owned()
    };
    let ours = |report: &Value, case: &str| {
        let rows = report["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["peer"].is_null()), "{rows:?}");
        let of_case = rows.iter().filter(|row| row["case"] == case);
        of_case.filter(|row| row["metric"] == "packets_per_s").count()
    };

    let report = run(&["send", "--case", "generate"]);
    assert_eq!(ours(&report, "generate"), 1);
    let broken = reason(&report, "tcpreplay");
    assert_eq!(broken, "tcpreplay: ended before it was ready; it said: no such; device");
    assert_eq!(
        reason(&report, "xdp-trafficgen"),
        "xdp-trafficgen: ended before it was ready; it says nothing"
    );
    let hung = reason(&report, "trafgen");
    assert!(hung.starts_with("trafgen: was not ready after "), "{hung}");
    assert!(hung.ends_with(" s; it says nothing"), "{hung}");
    let died = "dpdk-testpmd: ended before it was ready; it said: EAL: Cannot init memory";
    assert_eq!(reason(&report, "dpdk-testpmd"), died);
    let programs = report["environment"]["programs"].as_array().unwrap();
    let mute = programs.iter().find(|program| program["name"] == MUTE).unwrap();
    assert!(mute["installed"] == true && mute["version"].is_null(), "{mute}");

    // This suite also measures a program without an interface.
    let report = run(&["sockets", "--case", "l2fwd"]);
    assert!(ours(&report, "l2fwd") >= 3, "{report}");
    assert_eq!(reason(&report, "dpdk-testpmd"), died);
    assert_eq!(reason(&report, "dpdk-testpmd over net_null"), died);
}
