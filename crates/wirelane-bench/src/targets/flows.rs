//! The targets of making flows.

use super::book::{Book, Limit, lowest, ratios};

const SUITE: &str = "flows";
const CPU: &str = "cpu_ns_per_packet";

pub(super) fn targets(book: &mut Book<'_>) {
    const PEERS: [&str; 3] = ["nfpcapd", "softflowd", "argus"];
    let of = |peer| book.samples(SUITE, "file", peer, &[], CPU);
    let values = ratios(&lowest(&PEERS.map(|peer| of(Some(peer)))), of(None));
    let what = format!("Flows of a file per core beside the best of {}", PEERS.join(", "));
    book.add(SUITE, what, "×", Limit::AtLeast(2.0), values, &["file", "nfpcapd"]);
    let of = |flows| book.samples(SUITE, "many", None, &[("flows", flows)], CPU);
    let values = ratios(of("10000"), of("1000000"));
    let what = "A million flows at one time beside ten thousand, rate of packets".to_owned();
    book.add(SUITE, what, "×", Limit::AtLeast(0.7), values, &["many"]);
    let of = |command| book.samples(SUITE, "live", None, &[("command", command)], "packets_per_s");
    let values = ratios(of("flows"), of("capture"));
    let what =
        "Highest rate of flows that loses nothing, beside a capture without a file".to_owned();
    book.add(SUITE, what, "×", Limit::AtLeast(0.9), values, &["live"]);
}
