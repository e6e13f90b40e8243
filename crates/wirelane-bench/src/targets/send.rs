//! The targets of sending.

use super::book::{Book, TargetLimit, highest};
use crate::peers::senders::{TCPREPLAY, TCPREPLAY_XDP, TRAFGEN, XDP_TRAFFICGEN};
use crate::peers::testpmd;
use crate::suites::send::shape::{FLOWS, PERCENTS};

const SUITE: &str = "send";

pub(super) fn targets(book: &mut Book<'_>) {
    const PEER: &str = testpmd::PROGRAM;
    const OTHERS: [&str; 4] = [TCPREPLAY, TCPREPLAY_XDP, TRAFGEN, XDP_TRAFFICGEN];
    let (rows, rate) = (book.rows, "packets_per_s");
    for size in ["64", "1500"] {
        let of = |peer| rows.samples([SUITE, "generate"], peer, &[("size", size)], rate);
        let by = |engine| {
            rows.samples([SUITE, "engine"], None, &[("engine", engine), ("size", size)], rate)
        };
        let best = highest(&OTHERS.map(|peer| of(Some(peer))));
        let others = OTHERS.join(", ");
        let what =
            format!("Sending {size} bytes by the default engine beside the best of {others}");
        book.ratio(SUITE, what, TargetLimit::AtLeast(2.0), [of(None), &best], &["generate"]);
        for (engine, words, limit) in
            [("sockets-xdp", "over AF_XDP", 1.0), ("kernel", "by the kernel", 1.9)]
        {
            let what = format!("Sending {size} bytes {words} beside testpmd txonly");
            let both = [by(engine), of(Some(PEER))];
            book.ratio(SUITE, what, TargetLimit::AtLeast(limit), both, &[PEER, engine]);
        }
    }
    for percent in PERCENTS.map(|percent| percent.to_string()) {
        let at = [("percent", percent.as_str())];
        let values = rows.samples([SUITE, "rate"], None, &at, "error_rate_share").to_vec();
        let what = format!("Error of a rate of {percent} % of the highest");
        book.add(SUITE, what, "", TargetLimit::AtMost(0.001), values, &["rate"]);
    }
    let values = rows.samples([SUITE, "drift"], None, &[], "error_drift_ns").to_vec();
    book.add(SUITE, "Drift of a long replay", "ns", TargetLimit::AtMost(1e6), values, &["drift"]);
    for engine in ["default", "kernel", "sockets-xdp", "sockets-packet"] {
        let of = |flows: u32| {
            let flows = flows.to_string();
            let at = [("engine", engine), ("flows", flows.as_str())];
            rows.samples([SUITE, "flows"], None, &at, rate)
        };
        let what = format!("{FLOWS} flows beside one, engine {engine}");
        let needs = [if engine == "default" { "flows" } else { engine }];
        book.ratio(SUITE, what, TargetLimit::AtLeast(0.9), [of(FLOWS), of(1)], &needs);
    }
}
