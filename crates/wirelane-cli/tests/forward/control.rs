//! Requests to a running `wirelane forward`, and changes of its settings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirelane_testkit::privileged;

use super::wire::{LEFT, RIGHT, Wire, content, of_class, summary_of};
use super::*;

/// Starts the command outside a namespace, and waits until it answers.
#[track_caller]
fn start(args: &[&str]) -> ChildGuard {
    let mut child = ChildGuard::spawn(wirelane(["forward", "-q", "--json"]).args(args));
    let pid = child.id().to_string();
    child.wait_until(PATIENCE, |_| output(&mut wirelane(["stats", &pid])).status.success());
    child
}

/// The output of `wirelane COMMAND PID ARGS`.
#[track_caller]
pub(crate) fn ask(child: &ChildGuard, command: &str, args: &[&str]) -> String {
    let asked = output(wirelane([command, &child.id().to_string()]).args(args));
    assert!(asked.status.success(), "{args:?}: {}", asked.stderr);
    assert_eq!(asked.stderr, "");
    asked.stdout
}

#[track_caller]
pub(crate) fn refused(
    child: &ChildGuard,
    command: &str,
    args: &[&str],
    status: i32,
    parts: &[&str],
) {
    let asked = output(wirelane([command, &child.id().to_string()]).args(args));
    assert_refused(&asked, status, parts);
    assert_eq!(asked.stdout, "");
}

#[track_caller]
fn stats(child: &ChildGuard) -> Value {
    serde_json::from_str(&ask(child, "stats", &["--json"])).unwrap()
}

/// Waits until `key` of the rows of a port has grown by `more`.
#[track_caller]
fn wait_for_growth(child: &ChildGuard, table: &str, port: u64, key: &str, more: u64) {
    let before = of_port(&stats(child), table, port, key);
    let deadline = std::time::Instant::now() + PATIENCE;
    while of_port(&stats(child), table, port, key) < before + more {
        assert!(std::time::Instant::now() < deadline, "{table} {key} of port {port} stands still");
    }
}

#[test]
fn masks_and_filters_of_both_ports() {
    let child = start(&["sim:2?rate=20kpps", "sim:2?rate=20kpps&proto=mix"]);
    let which = "choose with --port: 0 is sim:2?rate=20kpps, 1 is sim:2?rate=20kpps&proto=mix";
    let both = "port 0 sim:2?rate=20kpps: rx all tx none other on\n\
                port 1 sim:2?rate=20kpps&proto=mix: rx all tx none other on\n";
    assert_eq!(ask(&child, "mask", &[]), both);
    let both: Value = serde_json::from_str(&ask(&child, "mask", &["--json"])).unwrap();
    assert_eq!(
        (&both["schema"], &both["ports"][1]["port"]),
        (&"wirelane.mask/1".into(), &1.into())
    );
    let change = ["--rx-queues", "0"];
    refused(&child, "mask", &change, 2, &["the command has several ports", which]);
    refused(&child, "mask", &["--port", "2"], 2, &["port 2: no such port", which]);
    assert_eq!(ask(&child, "mask", &["--port", "0"]), "rx all tx none other on\n");
    assert_eq!(
        ask(&child, "mask", &["--port", "1", "--rx-queues", "-0"]),
        "rx 1 tx none other on\n"
    );
    // The other port is not affected.
    assert_eq!(ask(&child, "mask", &["--port", "0"]), "rx all tx none other on\n");
    wait_for_growth(&child, "queues", 1, "packets", 100);
    wait_for_growth(&child, "queues", 0, "packets", 100);
    assert_eq!(
        ask(&child, "mask", &["--port", "0", "--rx-queues", "none"]),
        "rx none tx none other on\n"
    );
    let settled = || {
        let mut before = of_port(&stats(&child), "queues", 0, "packets");
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            wait_for_growth(&child, "queues", 1, "packets", 200);
            let now = of_port(&stats(&child), "queues", 0, "packets");
            if now == before {
                return now;
            }
            assert!(std::time::Instant::now() < deadline, "packets still come");
            before = now;
        }
    };
    let none = settled();
    assert_eq!(
        ask(&child, "mask", &["--port", "0", "--rx-queues", "all"]),
        "rx all tx none other on\n"
    );
    wait_for_growth(&child, "queues", 0, "packets", 100);
    assert!(of_port(&stats(&child), "queues", 0, "packets") > none);

    // Packets that the host sends are not received and cannot be selected.
    for args in [&["--tx-queues", "0"][..], &["--disable"]] {
        let args = [&["--port", "0"], args].concat();
        refused(
            &child,
            "mask",
            &args,
            2,
            &["port 'sim:2?rate=20kpps'", "packets that the host sends"],
        );
    }
    refused(&child, "mask", &["--port", "0", "--rx-queues", "2"], 2, &["queue 2"]);

    // A wrong filter changes nothing, the masks of the same request included.
    let wrong = ["--port", "1", "--other", "off", "-f", "udp and"];
    refused(&child, "mask", &wrong, 2, &["filter"]);
    assert_eq!(ask(&child, "mask", &["--port", "1"]), "rx 1 tx none other on\n");
    let filtered = ask(&child, "mask", &["--port", "1", "-f", "udp port 1"]);
    assert_eq!(filtered, "rx 1 tx none other on filter udp port 1\n");
    wait_for_growth(&child, "queues", 1, "filtered", 100);
    let json: Value =
        serde_json::from_str(&ask(&child, "mask", &["--port", "1", "--json"])).unwrap();
    assert_eq!(
        (&json["schema"], &json["filter"]),
        (&"wirelane.mask/1".into(), &"udp port 1".into())
    );
    assert_eq!(ask(&child, "mask", &["--port", "1", "--no-filter"]), "rx 1 tx none other on\n");
    wait_for_growth(&child, "queues", 1, "packets", 100);
    child.interrupt();
    forwarded(&summary(&child.wait(PATIENCE)));
}

#[test]
fn a_port_that_only_sends_has_no_masks() {
    let child = start(&["sim:1?rate=20kpps", "sim:1", "--one-way"]);
    for args in [&["--rx-queues", "none"][..], &["-f", "udp"]] {
        let args = [&["--port", "1"], args].concat();
        refused(
            &child,
            "mask",
            &args,
            2,
            &["port 'sim:1'", "only leave through it", "; choose the other"],
        );
    }
    assert_eq!(stats(&child)["ports"][1]["selected"], Value::Null);
    // Without --gso no switch can be changed, and the error names the option.
    for args in [&[][..], &["--gso", "tcp"]] {
        let args = [&["--port", "1"], args].concat();
        refused(
            &child,
            "offload",
            &args,
            1,
            &["opened without GSO and GRO", "start `wirelane forward` with --gso"],
        );
    }
    child.interrupt();
    forwarded(&summary(&child.wait(PATIENCE)));
}

#[test]
fn switches_are_read_and_changed() {
    let child =
        start(&["sim:1?rate=20kpps&gso=udp&gso_max=9000", "sim:1?rate=20kpps", "--gso=off"]);
    assert_eq!(ask(&child, "offload", &["--port", "0"]), "gso udp gro off gso_max 9000\n");
    assert_eq!(ask(&child, "offload", &["--port", "1"]), "gso off gro off gso_max 65535\n");
    let changed = ask(&child, "offload", &["--port", "1", "--gso", "tcp,udp", "--gso-max", "576"]);
    assert_eq!(changed, "gso tcp,udp gro off gso_max 576\n");
    assert_eq!(ask(&child, "offload", &["--port", "0"]), "gso udp gro off gso_max 9000\n");
    let json: Value =
        serde_json::from_str(&ask(&child, "offload", &["--port", "0", "--json"])).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "schema": "wirelane.offload/1", "port": 0, "gso": "udp", "gro": "off",
        "gso_max": 9000 })
    );
    assert_eq!(stats(&child)["ports"][1]["offload"]["gso"], "tcp,udp");
    let both = ask(&child, "offload", &[]);
    let ports: Vec<_> = both.lines().map(|line| line.split_once(": gso ").is_some()).collect();
    assert_eq!(ports, [true, true], "{both}");
    refused(&child, "offload", &["--gro", "tcp"], 2, &["the command has several ports"]);
    let without = ["--port", "1", "--gso", "off", "--gro", "tcp"];
    let parts = ["gro: the port was started without it; start it with gro=off"];
    refused(&child, "offload", &without, 2, &parts);
    let unchanged = ask(&child, "offload", &["--port", "1"]);
    assert_eq!(unchanged, "gso tcp,udp gro off gso_max 576\n");
    refused(
        &child,
        "offload",
        &["--gso", "sctp"],
        2,
        &["--gso", "write tcp, udp, tcp,udp, on or off"],
    );
    for bytes in ["575", "65536", "x"] {
        refused(&child, "offload", &["--port", "0", "--gso-max", bytes], 2, &["--gso-max"]);
    }
    child.interrupt();
    forwarded(&summary(&child.wait(PATIENCE)));
}

/// Many clients read and change settings under load: no packet is lost, and the last reading equals
/// the summary.
#[test]
fn many_clients_at_once_under_load() {
    let child = start(&["sim:4?rate=200kpps", "sim:4?rate=200kpps", "--gso", "--qdisc", "fifo"]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut received = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let now = stats(&child);
                        let sum = number(&now["totals"]["received"]);
                        assert!(sum >= received, "{sum} after {received}");
                        received = sum;
                        assert_eq!(now["queues"].as_array().unwrap().len(), 8);
                        assert_eq!(now["qdiscs"].as_array().unwrap().len(), 8);
                        assert_eq!(now["gso"].as_array().unwrap().len(), 8);
                    }
                })
            })
            .collect();
        // One client per queue clears and sets it: no client reverts another's change.
        let changers: Vec<_> = (0..4)
            .map(|queue| {
                let child = &child;
                scope.spawn(move || {
                    for round in 0..10 {
                        let list = format!("{}{queue}", if round % 2 == 0 { '-' } else { '+' });
                        ask(child, "mask", &["--port", "0", "--rx-queues", &list]);
                        let gso = ["tcp", "udp", "on", "off"][(round + queue) % 4];
                        ask(child, "offload", &["--port", "1", "--gso", gso]);
                    }
                })
            })
            .collect();
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(ask(&child, "mask", &["--port", "0"]), "rx 0-3 tx none other on\n");
    let deadline = std::time::Instant::now() + PATIENCE;
    for queue in 0..8 {
        while number(&stats(&child)["queues"][queue]["packets"]) == 0 {
            assert!(std::time::Instant::now() < deadline, "nothing comes from queue {queue}");
        }
    }
    child.interrupt();
    forwarded(&summary(&child.wait(PATIENCE)));
}

/// Offloads and masks change while the kernel's stack sends long frames: every byte arrives
/// unchanged, and the statistics count the segmented frames.
#[test]
fn privileged_switches_under_traffic() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    // A TAP device changes its longest frame only with privileges.
    let child = wire.forward(&["--gso", "--gro", "--keep-privileges"], "tap:wl-tap", "packet");
    let (content, stop) = (content(4 << 20), AtomicBool::new(false));
    let turned = thread::scope(|scope| {
        let turner = scope.spawn(|| {
            let mut turned = 0;
            while !stop.load(Ordering::Relaxed) {
                let word = |shift: usize| ["tcp", "off", "udp", "on"][(turned >> shift) % 4];
                let (gso, gro, max) = (word(0), word(1), ["65535", "1500", "9000"][turned % 3]);
                let change = ["--port", "1", "--gso", gso, "--gro", gro, "--gso-max", max];
                let [gso, gro] = [gso, gro].map(|word| if word == "on" { "tcp,udp" } else { word });
                let now = ask(&child, "offload", &change);
                assert_eq!(now, format!("gso {gso} gro {gro} gso_max {max}\n"));
                turned += 1;
            }
            turned
        });
        for (left, right) in LEFT.into_iter().zip(RIGHT) {
            for _ in 0..3 {
                Wire::transfer(&wire.left, &wire.right, right, &content);
                Wire::transfer(&wire.right, &wire.left, left, &content);
            }
        }
        stop.store(true, Ordering::Relaxed);
        turner.join().unwrap()
    });
    assert!(turned > 0);
    // Traffic that must not be segmented, traffic to segment, and traffic to merge.
    for (gso, gro) in [("off", "off"), ("on", "on")] {
        let change = ["--port", "1", "--gso", gso, "--gro", gro, "--gso-max", "65535"];
        ask(&child, "offload", &change);
        for (left, right) in LEFT.into_iter().zip(RIGHT) {
            Wire::transfer(&wire.left, &wire.right, right, &content);
            Wire::transfer(&wire.right, &wire.left, left, &content);
        }
    }
    let last = stats(&child);
    for class in ["tcp4", "tcp6"] {
        let cut = |key: &str| of_class(&last, "gso", class, key);
        assert!(cut("super_frames") > 0 && cut("segments") > cut("super_frames"), "{last}");
        assert!(cut("largest_frame") <= 1514 && cut("smallest_frame") > 0, "{last}");
        assert!((1..=1460).contains(&cut("largest_mss")) && cut("smallest_mss") > 0, "{last}");
    }
    assert!(of_class(&last, "gro", "tcp4", "super_frames") > 0, "{last}");
    let text = ask(&child, "stats", &[]);
    for part in
        ["\ncut (", " tcp4 ", " tcp6 ", "\nnot cut (", " not_asked ", "\nmerged (", "\nhanded on ("]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let summary = summary_of(child);
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    for class in ["tcp4", "tcp6"] {
        let segments = |of: &Value| of_class(of, "gso", class, "segments");
        assert!(segments(&summary) >= segments(&last), "{summary}");
    }
}

/// Masks of a real port take effect while forwarding.
#[test]
fn privileged_a_filter_keeps_a_transfer_out() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    let (from, to, content) = (&wire.left, &wire.right, content(1 << 20));
    let child = wire.forward(&["--gso"], "tap:wl-tap", "packet");
    Wire::transfer(from, to, RIGHT[0], &content);
    let before = of_port(&stats(&child), "queues", 0, "packets");
    let selected = ask(&child, "mask", &["--port", "0", "-f", "ip6"]);
    assert!(selected.ends_with(" filter ip6\n"), "{selected}");
    Wire::transfer(from, to, RIGHT[1], &content);
    let now = stats(&child);
    assert!(of_port(&now, "queues", 0, "packets") > before);
    assert_eq!(now["ports"][0]["selected"]["filter"], "ip6");
    ask(&child, "mask", &["--port", "0", "--no-filter"]);
    Wire::transfer(from, to, RIGHT[0], &content);
    summary_of(child);
}
