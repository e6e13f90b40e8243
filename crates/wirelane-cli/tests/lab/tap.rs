//! Labs with TAP devices, and a forwarder between the stack and the cable.

use std::time::Instant;

use serde_json::Value;
use wirelane_testkit::privileged;
use wirelane_testkit::process::ChildGuard;

use super::bed::{Bed, exchange, host};
use super::shared::PATIENCE;

#[test]
fn privileged_a_forwarder_joins_the_stacks_behind_tap_devices() {
    if !privileged::require() {
        return;
    }
    let before = host();
    let bed = Bed::new();
    bed.up(&["--tap", "both", "--queues", "2"]);
    // The kernel needs up to a second to notice that no process has opened a TAP device.
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let status = bed.status();
        if status.to_string().matches("\"running\":false").count() == 2 {
            break status;
        }
        assert!(Instant::now() < deadline, "{status}");
    };
    for (site, letter) in status["sites"].as_array().unwrap().iter().zip(["a", "b"]) {
        let interfaces = site["interfaces"].as_array().unwrap();
        let named = |name: &str| {
            let name = format!("{name}-{letter}");
            interfaces.iter().find(|interface| interface["name"] == name).unwrap()
        };
        let (tap, wire) = (named("tap"), named("wl"));
        assert_eq!(wire["addresses"].as_array().unwrap().len(), 0, "the bare end of a cable");
        assert_eq!(tap["addresses"].as_array().unwrap().len(), 2);
        assert_eq!((&tap["kind"], &tap["running"]), (&"tun".into(), &false.into()));
        assert!(wire["offloads"].as_object().unwrap().values().all(|on| on == false), "{wire}");
    }
    let mut forwarders = ["a", "b"].map(|side| {
        let ports = [format!("tap:tap-{side}?queues=2"), format!("packet:wl-{side}")];
        let program = [env!("CARGO_BIN_EXE_wirelane"), "forward", &ports[0], &ports[1]];
        ChildGuard::spawn(bed.exec(side, program).args(["--gso", "--json"]))
    });
    for forwarder in &mut forwarders {
        forwarder.wait_until(PATIENCE, |child| child.stderr().contains("forwarding between"));
    }
    // A frame that is sent before the other forwarder is ready is lost, as on any wire.
    for (from, to) in [("10.87.0.1", "10.87.0.2"), ("fd57:6972:656c::1", "fd57:6972:656c::2")] {
        exchange(&bed, from.parse().unwrap(), to.parse().unwrap(), b"through two forwarders");
        // Longer than the MTU: fragments.
        exchange(&bed, from.parse().unwrap(), to.parse().unwrap(), &[9; 20_000]);
    }
    for forwarder in forwarders {
        forwarder.interrupt();
        let ended = forwarder.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(summary["totals"]["sent"].as_u64().unwrap() >= 4, "{summary}");
    }
    super::bed::take_down(&bed);
    assert!(bed.is_gone());
    assert_eq!(host(), before);
}

#[test]
fn privileged_one_queue_of_a_tap_device_with_several_can_be_had() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&["--tap", "a"]);
    let program = [env!("CARGO_BIN_EXE_wirelane"), "forward", "tap:tap-a", "packet:wl-a"];
    let mut forwarder = ChildGuard::spawn(bed.exec("a", program).args(["--gso", "--json"]));
    forwarder.wait_until(PATIENCE, |child| child.stderr().contains("forwarding between"));
    exchange(&bed, "10.87.0.1".parse().unwrap(), "10.87.0.2".parse().unwrap(), b"through one");
    forwarder.interrupt();
    forwarder.wait(PATIENCE);
}
