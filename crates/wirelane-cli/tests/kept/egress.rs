//! Frames that a firewall rule drops on egress: each is counted, and the others are sent.

use std::thread;
use std::time::Duration;

use wirelane_testkit::process::{output, run};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use super::*;

const PACKETS: u64 = 2000;
/// Half of the packets have the port that the rule drops.
const HALF: u64 = PACKETS / 2;
/// The port that the rule drops, and the other one.
const PORTS: [u16; 2] = [7008, 7007];
const FILTER: &str = "udp port 7007 or udp port 7008";

/// Drops frames that leave through the interface to the first of [`PORTS`].
#[track_caller]
fn drop_leaving(ns: &Namespace, interface: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules");
    let rule = format!(
        "table netdev kept {{\n chain leaving {{\n type filter hook egress device \"{interface}\" \
         priority 0\n udp dport {} counter drop\n }}\n}}\n",
        PORTS[0]
    );
    std::fs::write(&path, rule).unwrap();
    run(ns.command("nft").arg("-f").arg(&path));
}

/// Ends a command; returns its summary.
#[track_caller]
fn summary_of(child: ChildGuard) -> Value {
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The sum of a field of the TX queues of a summary.
fn tx(summary: &Value, field: &str) -> u64 {
    summary["tx"].as_array().unwrap().iter().map(|queue| number(&queue[field])).sum()
}

/// Starts a count of received and sent packets.
fn capture(ns: &Namespace, interface: &str) -> ChildGuard {
    let args = ["count", "--json", "--by", "proto"].map(str::to_owned);
    start(ns, &format!("packet:{interface}"), &args, FILTER)
}

/// Ends a count, which must have seen each sent packet once.
#[track_caller]
fn seen(child: ChildGuard, sent: u64, at: &str) {
    let totals = &summary_of(child)["totals"];
    let [delivered, dropped] = ["delivered", "dropped"].map(|name| number(&totals[name]));
    assert_eq!(delivered + dropped, sent, "{at}: {totals}");
}

/// A command that sends all packets.
fn sender(ns: &Namespace, target: &str, pair: &VethPair, rate: &str) -> Command {
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let packet = format!(
        "eth src={} dst={} ipv4 src=10.9.9.9 dst={} udp src=9 dst={},{}",
        mac(pair.a.mac),
        mac(pair.b.mac),
        pair.b.address,
        PORTS[0],
        PORTS[1]
    );
    let mut command = ns.command(WIRELANE);
    command.args(["send", target, "--engine", "sockets", "--packet", &packet, "--json"]);
    command.args(["-c", &PACKETS.to_string(), "--rate", rate]);
    command
}

/// Every frame was sent, refused with the reason, or is counted in `rest`. Returns how many were
/// sent.
#[track_caller]
fn balances(summary: &Value, port: usize, rest: u64, context: &str) -> u64 {
    let [sent, refused] = ["packets", "refused"].map(|field| tx(summary, field));
    assert_eq!(sent + refused + rest, PACKETS, "{context}: {summary}");
    assert!(refused > 0 && sent <= HALF, "{context}: {summary}");
    // A refused frame delays the others, but does not stop them.
    assert!(sent > HALF / 2, "{context}: {summary}");
    let notes = summary["ports"][port]["notes"].to_string();
    let told = ["packets", "were"].map(|word| format!("{refused} {word} refused by the kernel"));
    assert!(told.iter().any(|told| notes.contains(told)), "{context}: {notes}");
    assert!(notes.contains("(at first with ENOBUFS)"), "{context}: {notes}");
    sent
}

#[test]
fn privileged_send_counts_what_an_egress_rule_drops() {
    if !privileged::require() || !tools::require("nft") {
        return;
    }
    for (options, queues, rate) in
        [("", 1, "2kpps"), ("", 1, "max"), ("", 2, "2kpps"), ("?bypass=on", 1, "max")]
    {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, queues, 1500);
        drop_leaving(&near, &pair.a.interface);
        let beside = capture(&near, &pair.a.interface);
        let away = capture(&far, &pair.b.interface);
        let target = format!("packet:{}{options}", pair.a.interface);
        let context = format!("{target} with {queues} at {rate}");
        let sent = output(&mut sender(&near, &target, &pair, rate));
        // A queue may have sent no packet, which is an error.
        assert!(sent.status.success() || queues > 1, "{context}: {}", sent.stderr);
        let summary: Value = serde_json::from_str(&sent.stdout).unwrap();
        let unsent = summary["ports"][0]["notes"].to_string();
        let unsent = unsent.split(" packets not sent before the end").next().filter(|_| queues > 1);
        let unsent = unsent.and_then(|text| text.rsplit([' ', '"']).next()?.parse().ok());
        let sent = balances(&summary, 0, unsent.unwrap_or(0), &context);
        assert_eq!(sent, HALF, "{context}: {summary}");
        seen(away, sent, &context);
        // Frames that bypass the queueing discipline are not shown to packet sockets
        // (packet_direct_xmit()).
        if options.is_empty() {
            seen(beside, sent, &context);
        }
    }
}

#[test]
fn privileged_forward_counts_what_an_egress_rule_drops() {
    if !privileged::require() || !tools::require("nft") {
        return;
    }
    for (options, queues) in [("", 1), ("", 2), ("?bypass=on", 1)] {
        let (left, middle, right) = (Namespace::new(), Namespace::new(), Namespace::new());
        let [into, out] =
            [(&left, &middle), (&middle, &right)].map(|(a, b)| VethPair::new(a, b, queues, 1500));
        drop_leaving(&middle, &out.a.interface);
        let from = format!("packet:{}", into.b.interface);
        let to = format!("packet:{}{options}", out.a.interface);
        let mut command = middle.command(WIRELANE);
        command.args(["forward", &from, &to, "--one-way", "--json", "-f", FILTER]);
        let mut forward = ChildGuard::spawn(&mut command);
        forward.wait_until(PATIENCE, |child| child.stderr().contains("\nto "));
        let beside = capture(&middle, &out.a.interface);
        let away = capture(&right, &out.b.interface);
        let target = format!("packet:{}", into.a.interface);
        let sent = output(&mut sender(&left, &target, &into, "4kpps"));
        assert!(sent.status.success(), "{}", sent.stderr);
        thread::sleep(Duration::from_millis(500));
        let summary = summary_of(forward);
        let context = format!("{to} with {queues}");
        let totals = &summary["totals"];
        assert_eq!(number(&totals["received"]), PACKETS, "{context}: {summary}");
        let sent = balances(&summary, 1, number(&totals["dropped"]), &context);
        seen(away, sent, &context);
        if options.is_empty() {
            seen(beside, sent, &context);
        }
    }
}
