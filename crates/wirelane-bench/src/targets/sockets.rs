//! The targets of receiving, sending and forwarding, and of the rate without loss.

use super::book::{Book, TargetLimit};
use crate::comparison::{SENDER_BOUND, unless_sent};
use crate::peers::testpmd::{self, NOWHERE};
use crate::task::{PACED, RATES};

const SUITE: &str = "sockets";
const PEER: &str = testpmd::PROGRAM;

pub(super) fn targets(book: &mut Book<'_>) {
    let rows = book.rows;
    let at = |port| [("port", port), ("size", "64"), ("queues", "1")];
    let of = |case, peer, port, metric| rows.samples([SUITE, case], peer, &at(port), metric);
    // The peer has only one of the modes of AF_XDP.
    let native = |case, metric| {
        let mode = if case == "txpush" { "copy" } else { "native" };
        let at = [&at("xdp")[..], &[("mode", mode)]].concat();
        rows.samples([SUITE, case], None, &at, metric)
    };
    let rate = "packets_per_s";
    let theirs = |case| of(case, Some(PEER), "xdp", rate);
    let beside = |case| [native(case, rate), theirs(case)];
    let idle = |peer| {
        let slowest = RATES[0].to_string();
        let at = [("port", "xdp"), ("size", "64"), ("offered", slowest.as_str())];
        rows.samples([SUITE, PACED], peer, &at, "cpu_ns_per_packet")
    };
    let sim = [None, Some(NOWHERE)].map(|peer| of("l2fwd", peer, "sim", rate));
    let one = TargetLimit::AtLeast(1.0);
    for (what, limit, both, needs) in [
        ("Receiving over AF_XDP beside testpmd rxonly", one, beside("rxdrop"), "xdp-native"),
        (
            "CPU time of a packet received at 0.5 Mpps over AF_XDP beside testpmd rxonly",
            TargetLimit::AtMost(0.6),
            [None, Some(PEER)].map(idle),
            "xdp-native",
        ),
        ("Sending over AF_XDP beside testpmd txonly", one, beside("txpush"), "xdp-native"),
        (
            "Sending from inside the kernel beside testpmd txonly",
            TargetLimit::AtLeast(1.5),
            [native("xdp-drop", rate), theirs("txpush")],
            "xdp-drop",
        ),
        ("Forwarding over AF_XDP beside testpmd macswap", one, beside("l2fwd"), "xdp-native"),
        (
            "Forwarding without an interface beside testpmd macswap over net_null",
            TargetLimit::AtLeast(1.5),
            sim,
            NOWHERE,
        ),
    ] {
        book.ratio(SUITE, what, limit, both, &[PEER, needs]);
        if what.starts_with("Forwarding over AF_XDP") {
            book.explain(
                "Over 90 percent of both programs' time is the kernel's, by the same calls for as \
                 many packets, and differs from run to run by more than the programs do: \"l2fwd \
                 over veth\" in docs/benchmarks.md.",
            );
        }
    }
    losses(book);
    noloss(book);
}

/// Wirelane's losses in the rounds in which the peer lost no packet.
fn losses(book: &mut Book<'_>) {
    let rows = book.rows;
    let paced = RATES.map(|rate| (PACED, Some(rate.to_string())));
    for (case, rate) in paced.into_iter().chain([("rxdrop", None)]) {
        let mut at = vec![("port", "xdp"), ("mode", "native"), ("size", "64"), ("queues", "1")];
        at.extend(rate.as_deref().map(|rate| ("offered", rate)));
        let of = |peer| rows.samples([SUITE, case], peer, &at, "lost_share");
        let rounds: Vec<_> = of(None).iter().zip(of(Some(PEER))).collect();
        let lossless = rounds.iter().filter(|(_, theirs)| **theirs == 0.0);
        let values: Vec<f64> = lossless.map(|(ours, _)| **ours).collect();
        let is_unclear = values.is_empty() && !rounds.is_empty();
        let rate = rate.map_or("all that can be sent".to_owned(), |rate| format!("{rate}/s"));
        let what = format!("Share lost over AF_XDP of {rate}, where testpmd rxonly loses none");
        book.add(SUITE, what, "", TargetLimit::AtMost(0.0), values, &[PEER, "xdp-native"]);
        book.unclear_if(is_unclear, "the peer lost packets in every round");
    }
}

fn noloss(book: &mut Book<'_>) {
    let rows = book.rows;
    let at = [("port", "xdp"), ("mode", "native"), ("size", "64")];
    let of = |peer, metric| rows.samples(["noloss", "rx"], peer, &at, metric);
    let both = |metric| [None, Some(PEER)].map(|peer| of(peer, metric));
    let [ours, theirs] = both("packets_per_s");
    let values = unless_sent(ours, theirs, both(SENDER_BOUND));
    let is_of_sender = values.is_empty() && !ours.is_empty() && !theirs.is_empty();
    let what = "Highest rate without loss over AF_XDP beside testpmd rxonly";
    book.add("noloss", what, "×", TargetLimit::AtLeast(1.0), values, &[PEER, "xdp-native"]);
    let reason = "neither lost a packet at the highest rate of the sender: the sender is the limit";
    book.unclear_if(is_of_sender, reason);
}
