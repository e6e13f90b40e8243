//! The targets of libpcap programs.

use super::book::{Book, TargetLimit, ratios};

const SUITE: &str = "libpcap";
/// The system's library, as a peer.
const STOCK: &str = "libpcap";

pub(super) fn targets(book: &mut Book<'_>) {
    let rows = book.rows;
    for (target, words) in
        [("none", "counting"), ("memory", "writing to memory"), ("text", "printing")]
    {
        let at = [("target", target)];
        let metric = "cpu_ns_per_packet_under_load";
        let of = |peer, metric| rows.samples([SUITE, "tcpdump"], peer, &at, metric);
        let [ours, theirs] = [None, Some(STOCK)].map(|peer| of(peer, metric));
        // A program that loses packets has less work, so such rounds are left out.
        let lost = |peer| of(peer, "lost_share").iter();
        let is_lossless = |(ours, theirs): (&f64, &f64)| *ours == 0.0 && *theirs == 0.0;
        let is_lossless: Vec<_> = lost(None).zip(lost(Some(STOCK))).map(is_lossless).collect();
        let values: Vec<_> = ratios(ours, theirs).into_iter().zip(is_lossless).collect();
        let is_measured = !values.is_empty();
        let values: Vec<f64> =
            values.into_iter().filter(|pair| pair.1).map(|pair| pair.0).collect();
        let is_lossy = is_measured && values.is_empty();
        let what = format!("CPU time of a packet in tcpdump, {words}, beside the system's libpcap");
        let needs = ["tcpdump", "wirelane", STOCK];
        book.add(SUITE, what, "×", TargetLimit::AtMost(1.0), values, &needs);
        book.unclear_if(is_lossy, "one of them lost packets in every round");
    }
    for example in ["count", "rxdrop"] {
        let of = |language| {
            let at = [("example", example), ("language", language)];
            rows.samples([SUITE, "batch"], None, &at, "cpu_ns_per_packet")
        };
        let what = format!("CPU time of a packet in the example {example} in C beside Rust");
        book.ratio(SUITE, what, TargetLimit::AtMost(1.1), [of("C"), of("Rust")], &["batch"]);
    }
    let of =
        |handles| rows.samples([SUITE, "handles"], None, &[("handles", handles)], "packets_per_s");
    let what = "Two handles on two queues beside one";
    book.ratio(SUITE, what, TargetLimit::AtLeast(1.8), [of("2"), of("1")], &["handles"]);
}
