//! The targets of making flows.

use super::book::{Book, TargetLimit, lowest, ratios};
use crate::suites::flows::readings::ENOUGH;

const SUITE: &str = "flows";
const CPU: &str = "cpu_ns_per_packet";

pub(super) fn targets(book: &mut Book<'_>) {
    const PEERS: [&str; 3] = ["nfpcapd", "softflowd", "argus"];
    let rows = book.rows;
    let of = |peer| rows.samples([SUITE, "file"], peer, &[], CPU);
    let best = lowest(&PEERS.map(|peer| of(Some(peer))));
    let what = format!("Flows of a file per core beside the best of {}", PEERS.join(", "));
    book.ratio(SUITE, what, TargetLimit::AtLeast(2.0), [&best, of(None)], &["file", "nfpcapd"]);
    let of = |at: &[(&str, &str)]| rows.samples([SUITE, "many"], None, at, CPU);
    let enough = ENOUGH.to_string();
    let million = [("flows", "1000000"), ("readings", enough.as_str())];
    let values = ratios(of(&[("flows", "10000")]), of(&million));
    let is_short = values.is_empty() && !of(&million[..1]).is_empty();
    let what = "A million flows at one time beside ten thousand, rate of packets";
    book.add(SUITE, what, "×", TargetLimit::AtLeast(0.7), values, &["many"]);
    book.unclear_if(is_short, "too few packets: the begin of a million flows is a large part");
    let of =
        |command| rows.samples([SUITE, "live"], None, &[("command", command)], "packets_per_s");
    let what = "Highest rate of flows that loses nothing, beside a capture without a file";
    book.ratio(SUITE, what, TargetLimit::AtLeast(0.9), [of("flows"), of("capture")], &["live"]);
}
