//! The targets of capturing.

use super::book::{Book, TargetLimit, lowest, ratios};

const SUITE: &str = "capture";
/// The destinations of packets, in rows and in words.
pub(super) const PLACES: [(&str, &str); 2] = [("none", "reading"), ("memory", "writing to memory")];

pub(super) fn targets(book: &mut Book<'_>) {
    cpu(book);
    let rows = book.rows;
    let of =
        |peer| rows.samples([SUITE, "short"], peer, &[("packets", "100")], "cpu_ns_of_process");
    let what = "CPU time of a whole capture of 100 packets beside tcpdump";
    let both = [of(None), of(Some("tcpdump"))];
    book.ratio(SUITE, what, TargetLimit::AtMost(1.0), both, &["short", "tcpdump"]);
    for (target, words) in PLACES {
        for size in ["64", "1500"] {
            let at = [("port", "sim"), ("target", target), ("size", size)];
            let of = |case| rows.samples([SUITE, case], None, &at, "packets_per_s");
            let what =
                format!("Two queues on two threads beside one thread, {words}, {size} bytes");
            let both = [of("multi"), of("single")];
            book.ratio(SUITE, what, TargetLimit::AtLeast(1.9), both, &["sim", target]);
        }
    }
    for (target, words) in PLACES {
        let of = |processes| {
            let at = [("target", target), ("processes", processes)];
            rows.samples([SUITE, "several"], None, &at, "cpu_ns_per_packet_under_load")
        };
        let what =
            format!("CPU time of a packet, one capture of three interfaces beside three, {words}");
        book.ratio(SUITE, what, TargetLimit::AtMost(1.1), [of("1"), of("3")], &["several"]);
    }
    const RECEIVING: &str = "receiving_cpu_ns_per_packet";
    let of = |how| rows.samples([SUITE, "print"], None, &[("printed", how)], RECEIVING);
    let what = "Receiving while packets are written and printed, beside only written";
    book.ratio(SUITE, what, TargetLimit::AtMost(1.1), [of("yes"), of("no")], &["print"]);
    for program in ["zstd", "lz4", "gzip"] {
        let at = [("compression", program), ("size", "imix")];
        for (metric, word, limit) in [
            ("bits_per_s", "rate", TargetLimit::AtLeast(0.9)),
            ("bytes_of_file", "size", TargetLimit::AtMost(1.05)),
        ] {
            let of = |peer| rows.samples([SUITE, "compress"], peer, &at, metric);
            let what = format!("Compression during a capture, {word} beside {program} -1");
            book.ratio(SUITE, what, limit, [of(None), of(Some(program))], &["compress", program]);
        }
    }
    let at = [("target", "memory"), ("size", "1500")];
    let of = |peer| rows.samples([SUITE, "write"], peer, &at, "bits_per_s");
    let what = "Writing packets of 1500 bytes to a file in memory beside dd";
    book.ratio(
        SUITE,
        what,
        TargetLimit::AtLeast(0.8),
        [of(None), of(Some("dd"))],
        &["write", "dd"],
    );
}

fn cpu(book: &mut Book<'_>) {
    const PEERS: [&str; 3] = ["tcpdump", "dumpcap", "netsniff-ng"];
    /// With this number of packets, the start and the end of a process are a small part.
    const ENOUGH: f64 = 500_000.0;
    let rows = book.rows;
    for (target, words) in PLACES {
        for (metric, part, is_whole) in [
            ("cpu_ns_per_packet_under_load", "under load", false),
            ("cpu_ns_per_packet", "start and end of the process included", true),
        ] {
            let of =
                |peer, metric| rows.samples([SUITE, "cpu"], peer, &[("target", target)], metric);
            // A program that loses packets has less work.
            let of_lossless = |peer| {
                let is_lossless = of(peer, "lost_share").iter().all(|lost| *lost == 0.0);
                if is_lossless { of(peer, metric) } else { &[] }
            };
            let ours = of_lossless(None);
            let best = lowest(&PEERS.map(|peer| of_lossless(Some(peer))));
            let are_measured = PEERS.map(|peer| !of(Some(peer), metric).is_empty());
            let is_lossy = !of(None, metric).is_empty()
                && are_measured.contains(&true)
                && (ours.is_empty() || best.is_empty());
            let packets = of(None, "packets_received").iter().copied().reduce(f64::min);
            let is_short = packets.is_some_and(|packets| packets < ENOUGH) && is_whole;
            let values = if is_short { Vec::new() } else { ratios(ours, &best) };
            let others = PEERS.join(", ");
            let what = format!(
                "CPU time of a captured packet, {words}, {part}; beside the best of {others}"
            );
            let needs = ["cpu", "tcpdump", "dumpcap", "netsniff-ng"];
            book.add(SUITE, what, "×", TargetLimit::AtMost(0.7), values, &needs);
            book.unclear_if(is_lossy, "wirelane or all others lost packets");
            book.unclear_if(is_short, "too few packets: nearly all of it is the start");
        }
    }
}
