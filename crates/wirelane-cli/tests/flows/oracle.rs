//! Wirelane's and the oracle's flows of a capture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::process::{output, run};

use crate::shared::{number, parse, wirelane};

/// Checks that Wirelane and the oracle have the same flows of a capture. For protocols without
/// ports, whose number tshark does not always print, compares only the sum of packets. Returns how
/// many flows were compared.
#[track_caller]
pub(crate) fn compare(file: &Path, idle_s: u64, active_s: u64) -> usize {
    let timeouts = [format!("--idle-timeout={idle_s}s"), format!("--active-timeout={active_s}s")];
    let ours = flows(file, &timeouts.each_ref().map(String::as_str));
    compare_with(&ours, file, idle_s, active_s, true)
}

/// As [`compare`], for given flows. Compares times only if both use the same clock readings.
#[track_caller]
pub(crate) fn compare_with(
    ours: &[Value],
    file: &Path,
    idle_s: u64,
    active_s: u64,
    times: bool,
) -> usize {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/oracle.py");
    let timeouts = [idle_s, active_s].map(|time| (time * 1_000_000_000).to_string());
    let theirs = run(Command::new("python3").arg(oracle).args(timeouts).arg(file));
    let theirs: Vec<Value> =
        theirs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let packets = |all: &[Value]| -> u64 {
        let of = |flow: &Value| {
            ["packets", "reverse_packets", "none"]
                .map(|name| flow[name].as_u64().unwrap_or(0))
                .iter()
                .sum::<u64>()
        };
        all.iter().map(of).sum()
    };
    assert_eq!(packets(ours) + not_in_flows(file), packets(&theirs), "{}", file.display());
    let (mut ours, mut theirs) = (told(ours), told(&theirs));
    // Ignore fields that only Wirelane has.
    for (ours, theirs) in ours.iter_mut().zip(&mut theirs) {
        let is_time = |name: &str| ["_start", "_end", "_rtt"].iter().any(|end| name.ends_with(end));
        theirs.retain(|name, _| times || !is_time(name));
        ours.retain(|name, _| theirs.contains_key(name));
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{}", file.display());
    }
    assert_eq!(ours.len(), theirs.len(), "{}", file.display());
    ours.len()
}

/// The flows of a capture.
#[track_caller]
pub(crate) fn flows(file: &Path, options: &[&str]) -> Vec<Value> {
    let ended =
        output(wirelane(["flows", "-q", "--format", "json"]).args(options).arg("-r").arg(file));
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{}", file.display());
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How many packets of a capture are in no flow, after checking that every packet is counted.
#[track_caller]
pub(crate) fn not_in_flows(file: &Path) -> u64 {
    let ended = output(wirelane(["flows", "-q", "--json", "-r"]).arg(file));
    let summary = parse(&ended.stdout);
    let flows = &summary["flows"];
    let sum = |names: &[&str]| names.iter().map(|name| number(&flows[*name])).sum::<u64>();
    let outside = sum(&["not_ip", "encrypted", "truncated", "malformed"]);
    let all = outside + sum(&["packets", "dropped_packets", "refused_packets"]);
    assert_eq!(all, number(&summary["totals"]["delivered"]), "{summary}");
    outside
}

/// The flows of the usual protocols, in an order that both tools have.
fn told(flows: &[Value]) -> Vec<BTreeMap<String, Value>> {
    let usual = |flow: &&Value| matches!(flow["protocol"].as_u64(), Some(1 | 6 | 17 | 58));
    let fields = |flow: &Value| {
        let fields = flow.as_object().unwrap().iter();
        let fields = fields.map(|(name, value)| match (name.as_str(), value.as_str()) {
            // The reason depends on the moment when a silent flow is checked.
            ("end_reason", Some("idle" | "active" | "forced")) => (name.clone(), "silent".into()),
            _ => (name.clone(), value.clone()),
        });
        fields.collect()
    };
    let mut told: Vec<BTreeMap<_, _>> = flows.iter().filter(usual).map(fields).collect();
    let order = ["source", "destination", "source_port", "destination_port", "protocol", "vlan"];
    told.sort_by_cached_key(|flow| {
        let name = |name: &&str| flow.get(*name).map(Value::to_string);
        let start = ["forward_start", "reverse_start"].iter().filter_map(name).min();
        let place: Vec<_> = order.iter().map(name).collect();
        (place, start, flow.get("octets").map(Value::to_string))
    });
    told
}
