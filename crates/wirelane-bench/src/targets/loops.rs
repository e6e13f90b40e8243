//! The targets of loops inside the process: disciplines and rings, filters, segmentation.

use super::book::{Book, TargetLimit, lowest, ratios};
use crate::suites::qdisc::distance::Distance;

pub(super) fn targets(book: &mut Book<'_>) {
    disciplines(book);
    rings(book);
    filter(book);
    gso(book);
}

fn disciplines(book: &mut Book<'_>) {
    let rows = book.rows;
    let of = |case, more: &[(&'static str, &'static str)], producers, build, metric| {
        let at = [("producers", producers), ("size", "64"), ("batch", "32"), ("build", build)];
        rows.samples(["qdisc", case], None, &[&at[..], more].concat(), metric)
    };
    let (bulk, lockless) = (&[("round", "32")][..], &[("bypass", "yes")][..]);
    let ring = &[("bypass", "no")][..];
    let locks = |case, more| of(case, more, "1", "no", "locks_per_packet").to_vec();
    let over = |more| of("lockless", more, "1", "no", "ns_over_noqueue").to_vec();
    let two = |case, more| of(case, more, "2", "no", "ns_per_packet");
    let crowd = |more| {
        let rate = |producers| of("lockless", more, producers, "no", "packets_per_s");
        ratios(rate("8"), rate("2"))
    };
    let built = of("lockless", lockless, "2", "yes", "ns_per_packet").to_vec();
    let (most, least) = (TargetLimit::AtMost, TargetLimit::AtLeast);
    for (what, unit, limit, values) in [
        ("Lock operations per packet, fifo", "", most(6.0), locks("fifo", &[])),
        ("Lock operations per packet, bulk of 32: 2 + 4/32", "", most(2.125), locks("bulk", bulk)),
        ("Lock operations per packet, lockless", "", most(0.0), locks("lockless", lockless)),
        ("Lockless, past an empty queue, over no queueing layer", "ns", most(2.0), over(lockless)),
        ("Lockless, forced through the ring, over no queueing layer", "ns", most(8.0), over(ring)),
        (
            "Time of a packet, two producers: bulk of 32 beside fifo",
            "×",
            most(1.0),
            ratios(two("bulk", bulk), two("fifo", &[])),
        ),
        (
            "Time of a packet, two producers: lockless beside bulk of 32",
            "×",
            most(1.0),
            ratios(two("lockless", lockless), two("bulk", bulk)),
        ),
        ("Eight producers beside two, lockless", "×", least(0.7), crowd(lockless)),
        (
            "Eight producers beside two, lockless, forced through the ring",
            "×",
            least(0.7),
            crowd(ring),
        ),
        (
            "Two applications that write their packets, lockless, whole way to the sink",
            "ns",
            most(15.0),
            built,
        ),
    ] {
        book.add("qdisc", what, unit, limit, values, &[]);
    }
}

fn rings(book: &mut Book<'_>) {
    const RING: &str = "rte_ring";
    let rows = book.rows;
    for (what, case, cores, bulk, metric) in [
        ("many to many, 32 at a time, two cores", "mpmc", "2", "32", "cycles_per_element"),
        ("many to many, in and out on one core", "mpmc", "1", "1", "cycles_per_pair"),
        ("one to one, 32 at a time, two cores", "spsc", "2", "32", "cycles_per_element"),
    ] {
        let beside = |apart: Option<Distance>| {
            let mut at = vec![("cores", cores), ("bulk", bulk)];
            at.extend(apart.map(|apart| ("apart", apart.as_str())));
            let of = |peer| rows.samples(["qdisc", case], peer, &at, metric);
            ratios(of(None), of(Some(RING)))
        };
        let values = match cores {
            "1" => beside(None),
            // Any distance of the CPUs, if it was the same for both.
            _ => Distance::ALL.into_iter().flat_map(|apart| beside(Some(apart))).collect(),
        };
        let what = format!("Ring, {what}: cycles beside DPDK's {RING}");
        book.add("qdisc", what, "×", TargetLimit::AtMost(1.0), values, &[RING, "cpus", "mpmc"]);
    }
    let what = "Ring, many to many, 32 at a time, beside crossbeam's ArrayQueue";
    let command = "cargo bench -p wirelane-bench --bench ring";
    book.elsewhere("qdisc", what, TargetLimit::AtLeast(5.0), command);
}

fn filter(book: &mut Book<'_>) {
    let rows = book.rows;
    for expression in ["tcp port 443 and host 10.0.0.1", "50 hosts"] {
        let of = |matching| {
            let at = [("expression", expression), ("matching", matching)];
            rows.samples(["filter", "jit"], None, &at, "speedup")
        };
        // The lowest speedup of the three shares of matching packets.
        let values = lowest(&["all", "quarter", "none"].map(of));
        let what = format!("Filter '{expression}' as machine code beside libpcap's interpreter");
        book.add("filter", what, "×", TargetLimit::AtLeast(5.0), values, &["jit", "libpcap"]);
    }
}

fn gso(book: &mut Book<'_>) {
    const SUITE: &str = "gso";
    let rows = book.rows;
    for (form, words, limit) in [("copy", "copied", 40.0), ("slices", "as header and slices", 12.0)]
    {
        let at = [("protocol", "tcp4"), ("form", form)];
        let values = rows.samples([SUITE, "segment"], None, &at, "ns_per_segment").to_vec();
        let what = format!("A segment of 1460 bytes, {words}");
        book.add(SUITE, what, "ns", TargetLimit::AtMost(limit), values, &[]);
    }
    for (what, limit) in [
        ("Cutting a frame beside the crate tun-rs", TargetLimit::AtLeast(1.8)),
        ("Checksum of 1500 bytes, GB/s", TargetLimit::AtLeast(50.0)),
    ] {
        book.elsewhere(SUITE, what, limit, "cargo bench -p wirelane-bench --bench segment");
    }
    for (case, what, limit) in [
        ("tcp4", "TCP over IPv4, cut late, beside none", 2.0),
        ("tcp6", "TCP over IPv6, cut late, beside none", 2.0),
        ("gro-tcp4", "TCP over IPv4, merged on the way in, beside none", 1.5),
        ("gro-tcp6", "TCP over IPv6, merged on the way in, beside none", 1.5),
        ("udp4", "UDP over IPv4, fragmented late, beside none", 1.2),
        ("udp6", "UDP over IPv6, fragmented late, beside none", 1.2),
    ] {
        let at = [("offload", "wirelane"), ("cpu", "100"), ("flows", "1")];
        let values = rows.samples([SUITE, case], None, &at, "speedup").to_vec();
        let what = format!("{what}: Gbit/s of one CPU");
        book.add(SUITE, what, "×", TargetLimit::AtLeast(limit), values, &[case]);
    }
}
