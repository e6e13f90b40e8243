//! `wirelane lab` as a user meets it.
#![allow(clippy::unwrap_used)]

mod bed;
mod errors;
mod exec;
mod leftovers;
#[path = "../shared/mod.rs"]
#[allow(dead_code)]
mod shared;
mod tap;

use std::process::Command;

use serde_json::{Value, json};
use wirelane_testkit::process::{ChildGuard, output, run};
use wirelane_testkit::{privileged, tools};

use self::bed::{Bed, exchange};
use self::shared::{PATIENCE, packets, refused, wirelane};

#[test]
fn privileged_a_lab_carries_packets_and_leaves_nothing() {
    if !privileged::require() {
        return;
    }
    let before = bed::host();
    let bed = Bed::new();
    bed.up(&["--queues", "3", "--mtu", "9000"]);
    let status = bed.status();
    assert_eq!(status["state"], "up");
    for (site, letter) in status["sites"].as_array().unwrap().iter().zip(["a", "b"]) {
        assert_eq!((&site["site"], &site["state"]), (&letter.into(), &"up".into()));
        assert_eq!(site["processes"], json!([]));
        let [interface] = &site["interfaces"].as_array().unwrap()[..] else { panic!("{site}") };
        assert_eq!(interface["name"], format!("wl-{letter}"));
        assert_eq!((&interface["up"], &interface["running"]), (&true.into(), &true.into()));
        assert_eq!((&interface["rx_queues"], &interface["tx_queues"]), (&3.into(), &3.into()));
        assert_eq!(interface["mtu"], 9000);
        let number = if letter == "a" { 1 } else { 2 };
        let addresses = [format!("10.87.0.{number}"), format!("fd57:6972:656c::{number}")];
        assert_eq!(interface["addresses"], json!(addresses));
    }
    for (from, to) in [("10.87.0.1", "10.87.0.2"), ("fd57:6972:656c::1", "fd57:6972:656c::2")] {
        exchange(&bed, from.parse().unwrap(), to.parse().unwrap(), &[7; 8000]);
    }
    let ended = output(&mut bed.lab(&["down"]));
    assert!(ended.stderr.ends_with(&format!("lab {} removed\n", bed.name())), "{}", ended.stderr);
    assert!(bed.is_gone());
    assert_eq!(bed::host(), before);
}

#[test]
fn privileged_addresses_offloads_and_silence_are_as_asked() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let options = ["--ipv4", "192.0.2.4/30", "--ipv6", "off", "--offloads", "tx,uso,gro"];
    bed.up(&options);
    let status = bed.status();
    assert_eq!(
        (&status["shape"]["ipv4"], &status["shape"]["ipv6"]),
        (&"192.0.2.4/30".into(), &Value::Null)
    );
    for (site, address) in
        status["sites"].as_array().unwrap().iter().zip(["192.0.2.5", "192.0.2.6"])
    {
        let interface = &site["interfaces"][0];
        assert_eq!(interface["addresses"], json!([address]));
        let offloads = json!({"tx": true, "tso": false, "uso": true, "gso": false, "gro": true});
        assert_eq!(interface["offloads"], offloads);
    }
    // The wire carries only packets that the test sends.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let mut capture = ChildGuard::spawn(&mut bed.exec(
        "b",
        [
            env!("CARGO_BIN_EXE_wirelane"),
            "capture",
            "packet:wl-b",
            "--tx-queues",
            "none",
            "--json",
            "-Z",
            "0:0",
            "-w",
            file.to_str().unwrap(),
        ],
    ));
    capture.wait_until(PATIENCE, |capture| capture.stderr().contains("capturing"));
    for _ in 0..50 {
        exchange(&bed, "192.0.2.5".parse().unwrap(), "192.0.2.6".parse().unwrap(), b"one of fifty");
    }
    // `lab exec` became the capture: ^C reaches it.
    capture.interrupt();
    let ended = capture.wait(PATIENCE);
    let summary: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!((ended.status.code(), &summary["totals"]["written"]), (Some(0), &50.into()));
    let packets = packets(file);
    assert!(packets.iter().all(|packet| packet.data.ends_with(b"one of fifty")), "{packets:?}");
    assert_eq!(packets.len(), 50);
}

#[test]
fn privileged_up_and_down_can_be_said_twice() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let first = bed.identity();
    let mut sleeper = ChildGuard::spawn(&mut bed.exec("a", ["sleep", "600"]));
    sleeper.wait_until(PATIENCE, |_| {
        bed.status()["sites"][0]["processes"][0]["command"][0] == "sleep"
    });
    let ended = output(&mut bed.lab(&["up"]));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, format!("lab {} is up already\n", bed.name()));
    assert_eq!(bed.identity(), first, "the same namespaces");

    let ended = output(&mut bed.lab(&["up", "--queues", "2"]));
    shared::assert_refused(
        &ended,
        1,
        &["it is already up, in another shape: queues=4", "lab down --name"],
    );
    assert_eq!(bed.identity(), first);
    let processes = &bed.status()["sites"][0]["processes"];
    assert_eq!(processes[0]["pid"], sleeper.id());
    assert_eq!((&processes[0]["user"], &processes[0]["uid"]), (&"root".into(), &0.into()));
    assert_eq!(processes[0]["command"], json!(["sleep", "600"]));

    let document: Value = serde_json::from_str(&run(&mut bed.lab(&["down", "--json"]))).unwrap();
    assert_eq!(
        (&document["schema"], &document["name"]),
        (&"wirelane.lab/1".into(), &bed.name().into())
    );
    assert_eq!(document["removed"], json!([bed.namespace("a"), bed.namespace("b")]));
    assert_eq!(document["ended"][0]["pid"], sleeper.id());
    assert_eq!(document["remaining"], json!([]));
    assert!(!sleeper.wait(PATIENCE).status.success());
    assert!(bed.is_gone());
    let ended = output(&mut bed.lab(&["down"]));
    assert!(ended.stderr.ends_with(&format!("lab {} does not exist\n", bed.name())));
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn privileged_labs_do_not_know_each_other() {
    if !privileged::require() {
        return;
    }
    // All labs have the same addresses.
    let beds = [Bed::new(), Bed::new(), Bed::new()];
    let starting: Vec<_> =
        beds.iter().map(|bed| ChildGuard::spawn(&mut bed.lab(&["up"]))).collect();
    for up in starting {
        let ended = up.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
    let listed: Value =
        serde_json::from_str(&run(&mut wirelane(["lab", "status", "--json"]))).unwrap();
    let listed = listed["labs"].as_array().unwrap();
    for (number, bed) in beds.iter().enumerate() {
        assert!(
            listed.iter().any(|lab| lab["name"] == bed.name() && lab["state"] == "up"),
            "{listed:?}"
        );
        exchange(
            bed,
            "10.87.0.1".parse().unwrap(),
            "10.87.0.2".parse().unwrap(),
            &[number as u8; 9],
        );
    }
    bed::take_down(&beds[0]);
    assert!(beds[0].is_gone());
    assert_eq!(
        (&beds[1].status()["state"], &beds[2].status()["state"]),
        (&"up".into(), &"up".into())
    );
}

#[test]
fn privileged_of_many_who_make_the_same_lab_one_does() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let starting: Vec<_> = (0..4).map(|_| ChildGuard::spawn(&mut bed.lab(&["up"]))).collect();
    let ended: Vec<_> = starting.into_iter().map(|up| up.wait(PATIENCE)).collect();
    assert!(ended.iter().all(|ended| ended.status.code() == Some(0)), "{ended:?}");
    let made = ended.iter().filter(|ended| ended.stderr.ends_with(" is up\n")).count();
    assert_eq!(made, 1, "{ended:?}");
    assert_eq!(bed.status()["state"], "up");
}

#[test]
fn privileged_what_ip_netns_knows() {
    if !privileged::require() || !tools::require("ip") {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let listed = run(Command::new("ip").arg("netns"));
    for side in ["a", "b"] {
        let namespace = bed.namespace(side);
        assert!(listed.lines().any(|line| line.split(' ').next() == Some(&*namespace)), "{listed}");
        let links =
            run(Command::new("ip").args(["netns", "exec", &namespace, "ip", "-br", "link"]));
        assert!(links.contains(&format!("wl-{side}@")), "{links}");
    }
}

#[test]
fn privileged_down_asks_before_it_kills_and_spares_threads() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let polite = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut children = [("a", polite), ("b", deaf)]
        .map(|(side, script)| ChildGuard::spawn(&mut bed.exec(side, ["sh", "-c", script])));
    for child in &mut children {
        child.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    }
    // This process, which has only a thread inside.
    let document = bed.inside("a", || {
        let ended = run(Command::new(env!("CARGO_BIN_EXE_wirelane")).arg("--version"));
        assert!(ended.starts_with("wirelane "));
        // Enough time for a shell to handle SIGTERM.
        bed.down_from_outside(&["--grace", "10s", "--json"])
    });
    let pids = |key: &str| -> Vec<u64> {
        document[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|process| process["pid"].as_u64().unwrap())
            .collect()
    };
    let ended = pids("ended");
    assert!(children.iter().all(|child| ended.contains(&u64::from(child.id()))), "{document}");
    assert_eq!(pids("remaining"), [u64::from(std::process::id())], "{document}");
    let [polite, deaf] = children.map(|child| child.wait(PATIENCE));
    assert_eq!((polite.status.code(), polite.stdout.as_str()), (Some(3), "ready\nasked\n"));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&deaf.status), Some(9));
    assert!(bed.is_gone());
}

#[test]
fn privileged_who_is_inside_cannot_remove_the_floor() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let program = env!("CARGO_BIN_EXE_wirelane");
    let ended = output(&mut bed.exec("b", [program, "lab", "down", "--name", bed.name()]));
    shared::assert_refused(&ended, 1, &["this command runs inside", &bed.namespace("b")]);
    assert_eq!(bed.status()["state"], "up");
}

#[test]
fn privileged_without_a_lab_status_says_so() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    assert_eq!(bed.status()["state"], "absent");
    let ended = output(&mut bed.lab(&["status"]));
    assert_eq!(ended.stdout, format!("lab {}: absent\n", bed.name()));
    let ended = output(&mut bed.exec("a", ["true"]));
    shared::assert_refused(&ended, 125, &["it is not up", "lab up --name"]);
}

#[test]
fn what_a_lab_cannot_be_is_wrong_usage() {
    for (args, part) in [
        (&["up", "--queues", "0"][..], "choose 1 to 4096"),
        (&["up", "--queues", "5000"], "choose 1 to 4096"),
        (&["up", "--queues", "300", "--tap", "a"], "choose 1 to 256"),
        (&["up", "--mtu", "1279"], "1280"),
        (&["up", "--mtu", "70000"], "choose 1280 to 65535"),
        (&["up", "--mtu", "67", "--ipv6", "off"], "choose 68 to 65535"),
        (&["up", "--ipv4", "10.0.0.0/31"], "no room for two hosts"),
        (&["up", "--ipv4", "fd57::/64"], "not an IPv4 network"),
        (&["up", "--ipv6", "10.0.0.0/8"], "not an IPv6 network"),
        (&["up", "--offloads", "lro"], "a list of tx, tso"),
        (&["up", "--offloads", "tso"], "need tx"),
        (&["up", "--tap", "c"], "write a, b or both"),
        (&["up", "--name", "a/b"], "invalid name"),
        (&["down", "--name", ".."], "invalid name"),
        (&["exec", "c", "--", "true"], "a lab has the ends a and b"),
        (&["exec", "a"], "COMMAND"),
    ] {
        refused(&[&["lab"], args].concat(), 2, &[part]);
    }
}
