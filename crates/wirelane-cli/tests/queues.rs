//! `wirelane queues` as a user meets it.

use std::process::Command;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::process::output;

const WIRELANE: &str = env!("CARGO_BIN_EXE_wirelane");

#[test]
fn loopback_for_people_and_for_programs() {
    let out = output(Command::new(WIRELANE).args(["queues", "lo"]));
    assert!(out.status.success(), "{}", out.stderr);
    assert!(out.stdout.starts_with("interface  lo (index 1)\n"), "{}", out.stdout);
    assert_eq!(out.stderr, "");

    let out = output(Command::new(WIRELANE).args(["queues", "lo", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(document["schema"], "wirelane.queues/1");
    assert_eq!(document["interfaces"][0]["rx"]["count"], 1);
}

#[test]
fn without_an_interface_all_are_listed() {
    let out = output(Command::new(WIRELANE).arg("queues"));
    assert!(out.status.success(), "{}", out.stderr);
    assert!(out.stdout.lines().any(|line| line.starts_with("lo ")), "{}", out.stdout);
}

#[test]
fn an_unknown_interface_is_one_line_and_status_1() {
    let out = output(Command::new(WIRELANE).args(["queues", "foo"]));
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(out.stdout, "");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
    for part in ["foo", "does not exist", "`wirelane queues` lists"] {
        assert!(out.stderr.contains(part), "{}", out.stderr);
    }
}

#[test]
fn a_wrong_option_is_status_2() {
    let out = output(Command::new(WIRELANE).args(["queues", "--no-such-option"]));
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(out.stdout, "");
}

#[test]
fn privileged_queues_of_a_namespace() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let veth = "link add va numrxqueues 4 numtxqueues 4 type veth peer name vb";
    ns.run("ip", veth.split(' '));
    let steering = "echo 1 > /sys/class/net/va/queues/rx-3/rps_cpus";
    ns.run("sh", ["-c", steering]);
    let shown = || output(ns.command(WIRELANE).args(["queues", "va"])).stdout;
    let line = "packet tx  assigned by a program, or chosen by flow; with bypass=on 0:0";
    assert!(shown().contains(line), "{}", shown());
    ns.run("sh", ["-c", "echo 1 > /sys/class/net/va/queues/tx-2/xps_cpus"]);
    assert!(shown().contains("packet tx  0:- 1:- 2:0 3:- (XPS)"), "{}", shown());

    let out = output(ns.command(WIRELANE).args(["queues", "va", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    let va = &document["interfaces"][0];
    assert_eq!((&va["rx"]["count"], &va["tx"]["count"]), (&4.into(), &4.into()));
    assert_eq!(va["rx"]["queues"][3]["rps_cpus"], serde_json::json!([0]));
    assert_eq!(va["rx"]["queues"][3]["irq"], serde_json::Value::Null);
    let binding = &va["packet_tx"]["bypass"][2];
    assert_eq!((&binding["by"], &binding["cpus"]), (&"xps".into(), &serde_json::json!([0])));

    // The same if /sys still shows another namespace, as with `nsenter --net`.
    let namespace = format!("--net={}", ns.path().display());
    let outside =
        output(Command::new("nsenter").args([&namespace, WIRELANE, "queues", "va", "--json"]));
    assert_eq!(outside.stdout, out.stdout, "{}", outside.stderr);
}
