//! The targets of recording.

use super::book::{Book, TargetLimit, highest, lowest, ratios};
use crate::comparison::{SENDER_BOUND, unless_sent};

const SUITE: &str = "record";
const PEERS: [&str; 4] = ["tcpdump", "dumpcap", "netsniff-ng", "stenotype"];

pub(super) fn targets(book: &mut Book<'_>) {
    rates(book);
    costs(book);
    parts(book);
    queries(book);
}

fn rates(book: &mut Book<'_>) {
    let rows = book.rows;
    for size in ["1500", "9216"] {
        let at = [("size", size), ("queues", "1"), ("compress", "none")];
        let of = |peer| rows.samples([SUITE, "sim"], peer, &at, "bytes_per_s");
        let what = format!("Recording {size} bytes from `sim:` beside dd past the page cache");
        book.ratio(
            SUITE,
            what,
            TargetLimit::AtLeast(0.9),
            [of(None), of(Some("dd"))],
            &["sim", "dd"],
        );
    }
    for size in ["64", "imix", "1500", "65549"] {
        let at = [("size", size)];
        let of = |peer, metric| rows.samples([SUITE, "veth"], peer, &at, metric);
        let best = highest(&PEERS.map(|peer| of(Some(peer), "bytes_per_s")));
        let ours = of(None, "bytes_per_s");
        let bound = of(None, SENDER_BOUND);
        // Rounds in which the sender was the limit show nothing about either program.
        let values = unless_sent(ours, &best, [bound, bound]);
        let is_of_sender = values.is_empty() && !ours.is_empty() && !best.is_empty();
        let what =
            format!("Recording {size} bytes from a veth, nothing lost, beside the best other");
        book.add(SUITE, what, "×", TargetLimit::AtLeast(1.0), values, &["veth", "wirelane"]);
        book.unclear_if(is_of_sender, "nothing was lost of all that could be sent");
    }
}

fn costs(book: &mut Book<'_>) {
    let rows = book.rows;
    for size in ["64", "imix", "1500", "65549"] {
        let at = [("size", size)];
        let of = |peer| {
            let of = |metric| rows.samples([SUITE, "cost"], peer, &at, metric);
            // A program that loses packets has less work.
            let is_lossless = of("lost_share").iter().all(|lost| *lost == 0.0);
            if is_lossless { of("cpu_ns_per_byte") } else { &[] }
        };
        let best = lowest(&PEERS.map(|peer| of(Some(peer))));
        let what = format!("CPU time of a recorded byte, {size} bytes, beside the best other");
        book.ratio(SUITE, what, TargetLimit::AtMost(0.5), [of(None), &best], &["cost", "wirelane"]);
    }
}

fn parts(book: &mut Book<'_>) {
    let rows = book.rows;
    let of = |case, peer, metric| rows.samples([SUITE, case], peer, &[], metric);
    let core = of("index", None, "cpu_share_per_gbit").to_vec();
    let size = of("index", None, "cost_index_share").to_vec();
    let speed = "bytes_per_s";
    let lz4 = ratios(of("compress", None, speed), of("compress", Some("lz4"), speed));
    for (what, unit, limit, values) in [
        ("Index of a Gbit/s of IMIX, share of a core", "", TargetLimit::AtMost(0.1), core),
        ("Index of IMIX with 10,000 flows, share of the data", "", TargetLimit::AtMost(0.01), size),
        ("Compressing on one core beside `lz4 -1`", "×", TargetLimit::AtLeast(0.8), lz4),
    ] {
        book.add(SUITE, what, unit, limit, values, &["index", "compress", "lz4"]);
    }
}

fn queries(book: &mut Book<'_>) {
    let rows = book.rows;
    /// The targets apply to stores of at least this size.
    const LARGE_MB: u64 = 20_000;
    for (asked, limit) in [("an address, five minutes", 1000.0), ("a flow", 3000.0)] {
        let row = rows.row([SUITE, "query"], None, &[("asked", asked)], "latency_ms");
        let size = row.and_then(|row| {
            row.params.get("store_mb").and_then(|size| size.to_string().parse::<u64>().ok())
        });
        let is_small = size.is_some_and(|size| size < LARGE_MB);
        let values = row.map_or(Vec::new(), |row| row.samples.clone());
        let values = if is_small { Vec::new() } else { values };
        let what = format!("Query of {asked}, in a store of 20 GB");
        book.add(SUITE, what, "ms", TargetLimit::AtMost(limit), values, &["query"]);
        book.unclear_if(is_small, "the store is smaller: --store 20G");
    }
}
