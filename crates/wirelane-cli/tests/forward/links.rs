//! Packets while their output link is down or removed, and the messages about them.

use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

/// A wire, and a forwarder from a simulated source into its end A.
struct Bed {
    near: Namespace,
    _far: Namespace,
    pair: VethPair,
    child: ChildGuard,
}

impl Bed {
    #[track_caller]
    fn new(source: &str, sink: impl Fn(&str) -> String) -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, 2, 1500);
        let mut command = near.command(WIRELANE);
        let sink = sink(&pair.a.interface);
        command.args(["forward", "--json", "--one-way", source, &sink]);
        let child = ChildGuard::spawn(&mut command);
        let bed = Self { near, _far: far, pair, child };
        bed.wait_for(1000);
        bed
    }

    #[track_caller]
    fn set(&self, state: &str) {
        self.near.run("ip", ["link", "set", &self.pair.a.interface, state]);
    }

    /// Takes the link down, and waits until packets wait for it.
    #[track_caller]
    fn take_down(&mut self) {
        self.set("down");
        self.child.wait_until(PATIENCE, |child| {
            let said = output(&mut wirelane(["stats", "--json", &child.id().to_string()]));
            let stats: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
            let rows = stats["tx"].as_array().map(Vec::as_slice).unwrap_or_default();
            rows.iter().any(|row| row["held_errno"] == "ENETDOWN")
        });
    }

    /// Waits until `more` packets have arrived.
    #[track_caller]
    fn wait_for(&self, more: u64) {
        let count = || self.pair.b.statistic("rx_packets");
        let (before, deadline) = (count(), Instant::now() + PATIENCE);
        while count() < before + more {
            assert!(Instant::now() < deadline, "{more} more packets do not come");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Every accepted packet is sent or an error, and every error has a reason.
#[track_caller]
fn assert_told(summary: &Value) {
    assert_balanced(summary);
    let of = |key| of_port(summary, "tx", 1, key);
    let reasons = ["unfinished", "wrong_length", "refused", "unsent"].map(of);
    assert_eq!(of("errors"), reasons.iter().sum::<u64>(), "{summary}");
    assert_eq!(number(&summary["totals"]["delivered"]), of("packets") + of("errors"), "{summary}");
}

const SOURCE: &str = "sim:2?rate=20kpps";

#[test]
fn privileged_forwarding_goes_on_when_the_link_of_its_sink_comes_back() {
    if !privileged::require() {
        return;
    }
    let mut bed = Bed::new(SOURCE, |name| format!("packet:{name}"));
    for _ in 0..3 {
        bed.take_down();
        bed.set("up");
        bed.wait_for(1000);
    }
    bed.child.interrupt();
    let ended = bed.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let summary = parse(&ended.stdout);
    assert_told(&summary);
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    assert!(!ended.stderr.contains("could not be sent through"), "{}", ended.stderr);
}

/// A source that waits loses no packet to a link that is down.
#[test]
fn privileged_a_source_that_waits_loses_nothing_to_a_flapping_link() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 1_000_000;
    let mut bed =
        Bed::new(&format!("sim:2?rate=max&count={SENT}"), |name| format!("packet:{name}"));
    bed.take_down();
    bed.set("up");
    let ended = bed.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let summary = forwarded(&parse(&ended.stdout));
    assert_told(&summary);
    assert_eq!(of_port(&summary, "tx", 1, "packets"), SENT, "{summary}");
}

#[test]
fn privileged_what_waits_for_a_link_that_stays_down_is_told_as_such() {
    if !privileged::require() {
        return;
    }
    let mut bed = Bed::new(SOURCE, |name| format!("packet:{name}"));
    bed.take_down();
    bed.child.interrupt();
    let ended = bed.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let summary = parse(&ended.stdout);
    assert_told(&summary);
    let unsent = of_port(&summary, "tx", 1, "unsent");
    assert!(unsent > 0, "{summary}");
    let note = format!("{unsent} were waiting for the interface, which is down");
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    assert!(!ended.stderr.contains("exceed its MTU"), "{}", ended.stderr);
}

/// Packets of 64 bytes exceed no limit.
#[test]
fn privileged_what_an_interface_that_was_removed_did_not_send_is_told_as_such() {
    if !privileged::require() {
        return;
    }
    let sinks: [fn(&str) -> String; 3] = [
        |name| format!("packet:{name}"),
        |name| format!("packet:{name}?bypass=on"),
        |name| format!("xdp:{name}?mode=native"),
    ];
    for sink in sinks {
        let bed = Bed::new(SOURCE, sink);
        let name = bed.pair.a.interface.clone();
        bed.near.run("ip", ["link", "del", &name]);
        let ended = bed.child.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        let summary = parse(&ended.stdout);
        assert_eq!(summary["errors"].as_array().unwrap().len(), 1, "{summary}");
        let removed = format!("wirelane: {name}: the interface was removed");
        assert!(ended.stderr.contains(&removed), "{}", ended.stderr);
        assert!(!ended.stderr.contains("exceed its MTU"), "{}", ended.stderr);
        let errors = of_port(&summary, "tx", 1, "errors");
        assert_eq!(errors, of_port(&summary, "tx", 1, "unsent"), "{summary}");
        if errors > 0 {
            let note = format!("{errors} were queued when the interface was removed");
            assert!(ended.stderr.contains(&note), "{}", ended.stderr);
        }
    }
}
