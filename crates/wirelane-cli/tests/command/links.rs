//! Captures while their interface is set down, renamed, or removed.

use wirelane_testkit::privileged;
use wirelane_testkit::process;

use super::*;

/// Packets that are sent at a time.
const SENT: u64 = 100;

/// A veth pair that can be created again under the same names: `wl-near`, to send through, and
/// `wl-far`.
struct Pair {
    near: Namespace,
    far: Namespace,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { near: Namespace::new(), far: Namespace::new() };
        pair.make();
        pair
    }

    #[track_caller]
    fn make(&self) {
        let queues = ["numrxqueues", "2", "numtxqueues", "2"];
        let near = ["link", "add", "wl-near"].into_iter().chain(queues);
        let far = ["type", "veth", "peer", "wl-far", "netns", self.far.name()];
        self.near.run("ip", near.chain(far).chain(queues));
        self.near.run("ip", ["link", "set", "wl-near", "up"]);
        self.set(["wl-far", "up"]);
    }

    /// `ip link set` at the far end.
    #[track_caller]
    fn set<const N: usize>(&self, what: [&str; N]) {
        self.far.run("ip", ["link", "set"].into_iter().chain(what));
    }

    /// Sends [`SENT`] packets to the far end, which must be up and able to receive.
    #[track_caller]
    fn send(&self) {
        wait_until("the link is up", || {
            let said = self.near.run("ip", ["-br", "link", "show", "dev", "wl-near"]);
            said.contains("LOWER_UP")
        });
        let source = format!("sim:1?count={SENT}");
        // Bypass the queueing discipline, which the kernel restores some time after the link
        // (linkwatch_do_dev).
        let args = ["forward", "-q", "--one-way", &source, "packet:wl-near?bypass=on"];
        self.near.run(WIRELANE, args);
    }

    /// Starts a capture of received packets at the far end.
    #[track_caller]
    fn capture(&self, args: &[&str]) -> Running {
        Running::start(Some(&self.far), &[&["--tx-queues", "none"], args].concat())
    }
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn notes(summary: &Value) -> String {
    summary["ports"][0]["notes"].to_string()
}

#[test]
fn privileged_a_capture_goes_on_when_its_link_goes_down_and_comes_back() {
    if !privileged::require() {
        return;
    }
    for (port, options) in
        [(format!("packet:wl-far{QUICK}"), &[][..]), ("xdp:wl-far".into(), &["--all"])]
    {
        let pair = Pair::new();
        let mut capture = pair.capture(&[&[&port[..]], options].concat());
        for round in 1..=3 {
            pair.send();
            capture.wait_for(round * SENT);
            pair.set(["wl-far", "down"]);
            // Mostly longer than a receiver's interval between link checks.
            std::thread::sleep(Duration::from_millis(100));
            pair.set(["wl-far", "up"]);
        }
        pair.send();
        capture.wait_for(4 * SENT);
        let summary = capture.finish();
        assert_eq!(summary["totals"]["delivered"], 4 * SENT, "{port}: {summary}");
        if port.starts_with("packet:") {
            assert!(notes(&summary).contains("wl-far went down"), "{summary}");
        }
    }
}

#[test]
fn privileged_a_capture_goes_on_when_its_interface_is_renamed() {
    if !privileged::require() {
        return;
    }
    let pair = Pair::new();
    let mut capture = pair.capture(&[&format!("packet:wl-far{QUICK}")]);
    pair.send();
    capture.wait_for(SENT);
    // Many kernels rename only interfaces that are down.
    pair.set(["wl-far", "down"]);
    pair.set(["wl-far", "name", "wl-other"]);
    pair.set(["wl-other", "up"]);
    pair.send();
    capture.wait_for(2 * SENT);
    let summary = capture.finish();
    assert_eq!(summary["totals"]["delivered"], 2 * SENT, "{summary}");
}

/// One error for all queues, and the file holds all earlier packets.
#[test]
fn privileged_an_interface_that_is_removed_ends_a_capture_with_one_error() {
    if !privileged::require() {
        return;
    }
    for (port, options) in
        [(format!("packet:wl-far{QUICK}"), &[][..]), ("xdp:wl-far".into(), &["--all"])]
    {
        let pair = Pair::new();
        let mut capture = pair.capture(&[&[&port[..]], options].concat());
        pair.send();
        capture.wait_for(SENT);
        pair.far.run("ip", ["link", "del", "wl-far"]);
        let ended = capture.child.wait(PATIENCE);
        assert_refused(&ended, 1, &["wl-far: the interface was removed", "are valid"]);
        let summary = parse(&ended.stdout);
        assert_eq!(summary["errors"].as_array().unwrap().len(), 1, "{port}: {summary}");
        assert_eq!(summary["totals"]["delivered"], SENT, "{port}: {summary}");
        let notes = notes(&summary);
        for untrue in ["detached", "went down"] {
            assert!(!notes.contains(untrue), "{port}: {notes}");
        }
    }
}

/// The process has no privileges at that time, and needs none.
#[test]
fn privileged_with_wait_a_capture_goes_on_when_its_interface_comes_back() {
    if !privileged::require() {
        return;
    }
    let pair = Pair::new();
    let port = format!("packet:wl-far{QUICK}");
    let mut capture = pair.capture(&[&port, "--wait", "-Z", "65534:65534"]);
    for round in 1..=3 {
        pair.send();
        capture.wait_for(round * SENT);
        pair.far.run("ip", ["link", "del", "wl-far"]);
        pair.make();
        // Each ring (two RX and two TX queues, and OTHER) requests promiscuous mode once it is at
        // the interface again.
        wait_until("all rings have come back", || {
            let far = pair.far.run("ip", ["-d", "link", "show", "dev", "wl-far"]);
            far.contains("promiscuity 5")
        });
    }
    pair.send();
    capture.wait_for(4 * SENT);
    let summary = capture.finish();
    assert_eq!(summary["totals"]["delivered"], 4 * SENT, "{summary}");
    assert!(notes(&summary).contains("was removed and came back 3 times"), "{summary}");
}

/// A capture that waits for an interface can be ended.
#[test]
fn privileged_a_capture_that_waits_ends_when_it_is_told_to() {
    if !privileged::require() {
        return;
    }
    let pair = Pair::new();
    let port = format!("packet:wl-far{QUICK}");
    let mut capture = pair.capture(&[&port, "--wait"]);
    pair.send();
    capture.wait_for(SENT);
    pair.far.run("ip", ["link", "del", "wl-far"]);
    wait_until("it is gone", || {
        !process::run(pair.far.command("ip").arg("link")).contains("wl-far")
    });
    let summary = capture.finish();
    assert_eq!(summary["totals"]["delivered"], SENT, "{summary}");
}

#[test]
fn only_packet_ports_wait() {
    for port in ["xdp:lo", "sim:1", "tap:wl-none"] {
        refused(
            &["capture", "--wait", port],
            2,
            &["cannot wait for a removed interface", "packet: can"],
        );
    }
}
