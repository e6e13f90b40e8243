//! The targets: what a figure should be, and whether a run met it.
//!
//! A target limits a ratio of two figures, a difference, or a figure itself. Ratios and differences
//! are taken within a round, before the median: a slow moment of the machine hits both sides.

mod book;
mod flows;
mod libpcap;
mod record;

use self::book::{Book, highest, lowest, ratios};
pub use self::book::{Limit, Target};
use crate::comparison::{SENDER_BOUND, unless_sent};
use crate::peers::senders::{TCPREPLAY, TCPREPLAY_XDP, TRAFGEN, XDP_TRAFFICGEN};
use crate::peers::testpmd::{self, NOWHERE};
use crate::row::{Row, Skipped};
use crate::suites::qdisc::distance::Distance;
use crate::suites::send::shape::{FLOWS, PERCENTS};
use crate::task::{PACED, RATES};

/// All targets, as these rows have kept them.
pub fn targets(rows: &[Row], skipped: &[Skipped]) -> Vec<Target> {
    let mut book = Book { rows, skipped, targets: Vec::new() };
    book.capture();
    record::targets(&mut book);
    libpcap::targets(&mut book);
    flows::targets(&mut book);
    book.sockets();
    book.noloss();
    book.send();
    book.scaling();
    book.qdisc();
    book.filter();
    book.gso();
    book.targets
}

impl Book<'_> {
    fn capture(&mut self) {
        const PEERS: [&str; 3] = ["tcpdump", "dumpcap", "netsniff-ng"];
        /// Packets among which the start and the end of a process are not most of it.
        const ENOUGH: f64 = 500_000.0;
        for (target, words) in [("none", "reading"), ("memory", "writing to memory")] {
            for (metric, part, is_whole) in [
                ("cpu_ns_per_packet_under_load", "under load", false),
                ("cpu_ns_per_packet", "start and end of the process included", true),
            ] {
                let at = [("target", target)];
                let of = |peer, metric| self.samples("capture", "cpu", peer, &at, metric);
                // Who loses packets has less to do.
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
                let what = format!(
                    "CPU time of a captured packet, {words}, {part}; beside the best of {}",
                    PEERS.join(", ")
                );
                let needs = ["cpu", "tcpdump", "dumpcap", "netsniff-ng"];
                self.add("capture", what, "×", Limit::AtMost(0.7), values, &needs);
                self.unclear_if(is_lossy, "wirelane or all others lost packets");
                self.unclear_if(is_short, "too few packets: nearly all of it is the start");
            }
        }
        let of = |peer| {
            self.samples("capture", "short", peer, &[("packets", "100")], "cpu_ns_of_process")
        };
        let values = ratios(of(None), of(Some("tcpdump")));
        let what = "CPU time of a whole capture of 100 packets beside tcpdump".to_owned();
        self.add("capture", what, "×", Limit::AtMost(1.0), values, &["short", "tcpdump"]);
        for (target, words) in [("none", "reading"), ("memory", "writing to memory")] {
            for size in ["64", "1500"] {
                let conditions = [("port", "sim"), ("target", target), ("size", size)];
                let of = |case| self.samples("capture", case, None, &conditions, "packets_per_s");
                let values = ratios(of("multi"), of("single"));
                let what =
                    format!("Two queues on two threads beside one thread, {words}, {size} bytes");
                self.add("capture", what, "×", Limit::AtLeast(1.9), values, &["sim", target]);
            }
        }
        for (target, words) in [("none", "reading"), ("memory", "writing to memory")] {
            let of = |processes| {
                let at = [("target", target), ("processes", processes)];
                self.samples("capture", "several", None, &at, "cpu_ns_per_packet_under_load")
            };
            let values = ratios(of("1"), of("3"));
            let what = format!(
                "CPU time of a packet, one capture of three interfaces beside three, {words}"
            );
            self.add("capture", what, "×", Limit::AtMost(1.1), values, &["several"]);
        }
        const RECEIVING: &str = "receiving_cpu_ns_per_packet";
        let of = |how| self.samples("capture", "print", None, &[("printed", how)], RECEIVING);
        let values = ratios(of("yes"), of("no"));
        let what = "Receiving while packets are printed and written beside written".to_owned();
        self.add("capture", what, "×", Limit::AtMost(1.1), values, &["print"]);
        for program in ["zstd", "lz4", "gzip"] {
            let at = [("compression", program), ("size", "imix")];
            for (metric, word, limit) in [
                ("bits_per_s", "rate", Limit::AtLeast(0.9)),
                ("bytes_of_file", "size", Limit::AtMost(1.05)),
            ] {
                let of = |peer| self.samples("capture", "compress", peer, &at, metric);
                let values = ratios(of(None), of(Some(program)));
                let what =
                    format!("A file compressed as it is captured, {word} beside {program} -1");
                self.add("capture", what, "×", limit, values, &["compress", program]);
            }
        }
        let conditions = [("target", "memory"), ("size", "1500")];
        let of = |peer| self.samples("capture", "write", peer, &conditions, "bits_per_s");
        let values = ratios(of(None), of(Some("dd")));
        let what = "Writing packets of 1500 bytes to a file in memory beside dd".to_owned();
        self.add("capture", what, "×", Limit::AtLeast(0.8), values, &["write", "dd"]);
    }

    fn sockets(&mut self) {
        const PEER: &str = testpmd::PROGRAM;
        const FORWARDING: &str = "Forwarding over AF_XDP beside testpmd macswap";
        let at = |port| [("port", port), ("size", "64"), ("queues", "1")];
        let of = |case, peer, port, metric| self.samples("sockets", case, peer, &at(port), metric);
        // Of the modes of AF_XDP the peer has one.
        let native = |case, metric| {
            let mut conditions = at("xdp").to_vec();
            conditions.push(("mode", if case == "txpush" { "copy" } else { "native" }));
            self.samples("sockets", case, None, &conditions, metric)
        };
        let rate = "packets_per_s";
        let beside = |case| ratios(native(case, rate), of(case, Some(PEER), "xdp", rate));
        let cpu = "cpu_ns_per_packet";
        let idle = |peer| {
            let slowest = RATES[0].to_string();
            let at = [("port", "xdp"), ("size", "64"), ("offered", slowest.as_str())];
            self.samples("sockets", PACED, peer, &at, cpu)
        };
        let idle = ratios(idle(None), idle(Some(PEER)));
        let live = ratios(native("xdp-drop", rate), of("txpush", Some(PEER), "xdp", rate));
        let sim = ratios(of("l2fwd", None, "sim", rate), of("l2fwd", Some(NOWHERE), "sim", rate));
        let one = Limit::AtLeast(1.0);
        for (what, limit, values, needs) in [
            ("Receiving over AF_XDP beside testpmd rxonly", one, beside("rxdrop"), "xdp-native"),
            (
                "CPU time of a packet received at 0.5 Mpps over AF_XDP beside testpmd rxonly",
                Limit::AtMost(0.6),
                idle,
                "xdp-native",
            ),
            ("Sending over AF_XDP beside testpmd txonly", one, beside("txpush"), "xdp-native"),
            (
                "Sending from inside the kernel beside testpmd txonly",
                Limit::AtLeast(1.5),
                live,
                "xdp-drop",
            ),
            (FORWARDING, one, beside("l2fwd"), "xdp-native"),
            (
                "Forwarding without an interface beside testpmd macswap over net_null",
                Limit::AtLeast(1.5),
                sim,
                NOWHERE,
            ),
        ] {
            self.add("sockets", what.to_owned(), "×", limit, values, &[PEER, needs]);
            if what == FORWARDING {
                self.explain(
                    "Over 90 percent of both programs' time is the kernel's, by the same calls for \
                     as many packets, and differs from run to run by more than the programs do: \
                     \"l2fwd over veth\" in docs/benchmarks.md.",
                );
            }
        }
        self.losses();
    }

    /// What we lost in the rounds in which the peer lost nothing.
    fn losses(&mut self) {
        const PEER: &str = testpmd::PROGRAM;
        let paced = RATES.map(|rate| (PACED, Some(rate.to_string())));
        for (case, rate) in paced.into_iter().chain([("rxdrop", None)]) {
            let mut at = vec![("port", "xdp"), ("mode", "native"), ("size", "64"), ("queues", "1")];
            at.extend(rate.as_deref().map(|rate| ("offered", rate)));
            let of = |peer| self.samples("sockets", case, peer, &at, "lost_share");
            let rounds: Vec<_> = of(None).iter().zip(of(Some(PEER))).collect();
            let lossless = rounds.iter().filter(|(_, theirs)| **theirs == 0.0);
            let values: Vec<f64> = lossless.map(|(ours, _)| **ours).collect();
            let is_unclear = values.is_empty() && !rounds.is_empty();
            let rate = rate.map_or("all that can be sent".to_owned(), |rate| format!("{rate}/s"));
            let what = format!("Share lost over AF_XDP of {rate}, where testpmd rxonly loses none");
            self.add("sockets", what, "", Limit::AtMost(0.0), values, &[PEER, "xdp-native"]);
            self.unclear_if(is_unclear, "the peer lost packets in every round");
        }
    }

    fn noloss(&mut self) {
        let conditions = [("port", "xdp"), ("mode", "native"), ("size", "64")];
        let of = |peer, metric| self.samples("noloss", "rx", peer, &conditions, metric);
        let peer = Some(testpmd::PROGRAM);
        let bound = [None, peer].map(|peer| of(peer, SENDER_BOUND));
        let (ours, theirs) = (of(None, "packets_per_s"), of(peer, "packets_per_s"));
        let values = unless_sent(ours, theirs, bound);
        let is_of_sender = values.is_empty() && !ours.is_empty() && !theirs.is_empty();
        let what = "Highest rate without loss over AF_XDP beside testpmd rxonly".to_owned();
        let needs = [testpmd::PROGRAM, "xdp-native"];
        self.add("noloss", what, "×", Limit::AtLeast(1.0), values, &needs);
        let reason = "neither lost anything of all that could be sent: the sender is the limit";
        self.unclear_if(is_of_sender, reason);
    }

    fn send(&mut self) {
        const PEER: &str = testpmd::PROGRAM;
        const OTHERS: [&str; 4] = [TCPREPLAY, TCPREPLAY_XDP, TRAFGEN, XDP_TRAFFICGEN];
        let rate = "packets_per_s";
        for size in ["64", "1500"] {
            let of = |peer| self.samples("send", "generate", peer, &[("size", size)], rate);
            let by = |engine| {
                self.samples("send", "engine", None, &[("engine", engine), ("size", size)], rate)
            };
            let best = highest(&OTHERS.map(|peer| of(Some(peer))));
            let default = ratios(of(None), &best);
            let sockets = ratios(by("sockets-xdp"), of(Some(PEER)));
            let kernel = ratios(by("kernel"), of(Some(PEER)));
            let what = format!(
                "Sending {size} bytes by the default engine beside the best of {}",
                OTHERS.join(", ")
            );
            self.add("send", what, "×", Limit::AtLeast(2.0), default, &["generate"]);
            let what = format!("Sending {size} bytes over AF_XDP beside testpmd txonly");
            let needs = [PEER, "sockets-xdp"];
            self.add("send", what, "×", Limit::AtLeast(1.0), sockets, &needs);
            let what = format!("Sending {size} bytes by the kernel beside testpmd txonly");
            self.add("send", what, "×", Limit::AtLeast(1.9), kernel, &[PEER, "kernel"]);
        }
        for percent in PERCENTS.map(|percent| percent.to_string()) {
            let conditions = [("percent", percent.as_str())];
            let values = self.samples("send", "rate", None, &conditions, "error_rate_share");
            let what = format!("Error of a rate of {percent} % of the highest");
            self.add("send", what, "", Limit::AtMost(0.001), values.to_vec(), &["rate"]);
        }
        let values = self.samples("send", "drift", None, &[], "error_drift_ns").to_vec();
        let what = "Drift of a long replay".to_owned();
        self.add("send", what, "ns", Limit::AtMost(1e6), values, &["drift"]);
        for engine in ["default", "kernel", "sockets-xdp", "sockets-packet"] {
            let of = |flows: u32| {
                let flows = flows.to_string();
                let conditions = [("engine", engine), ("flows", flows.as_str())];
                self.samples("send", "flows", None, &conditions, rate)
            };
            let values = ratios(of(FLOWS), of(1));
            let what = format!("{FLOWS} flows beside one, engine {engine}");
            let needs = [if engine == "default" { "flows" } else { engine }];
            self.add("send", what, "×", Limit::AtLeast(0.9), values, &needs);
        }
    }

    fn scaling(&mut self) {
        for (port, words) in [("sim", "of sim:"), ("packet", "of packet:"), ("xdp", "of xdp:")] {
            let of = |queues| {
                let at = [("port", port), ("queues", queues)];
                self.samples("scaling", "rx", None, &at, "packets_per_s")
            };
            let values = ratios(of("2"), of("1"));
            let what = format!("Two queues {words}, each with a thread and a CPU, beside one");
            self.add("scaling", what, "×", Limit::AtLeast(1.9), values, &["rx-projected", port]);
        }
        for (target, words) in [("none", "reading"), ("memory", "writing to memory")] {
            for size in ["64", "1500"] {
                let of = |queues| {
                    let at = [("target", target), ("size", size), ("queues", queues)];
                    self.samples("scaling", "capture", None, &at, "packets_per_s")
                };
                let values = ratios(of("2"), of("1"));
                let what = format!(
                    "`wirelane capture` with two queues on two CPUs beside one, {words}, {size} \
                     bytes"
                );
                self.add("scaling", what, "×", Limit::AtLeast(1.9), values, &["capture", target]);
            }
        }
    }

    fn qdisc(&mut self) {
        const RING: &str = "rte_ring";
        let at = |producers, build| {
            [("producers", producers), ("size", "64"), ("batch", "32"), ("build", build)]
        };
        let of = |case, more: &[(&'static str, &'static str)], producers, build, metric| {
            let mut conditions = at(producers, build).to_vec();
            conditions.extend(more);
            self.samples("qdisc", case, None, &conditions, metric)
        };
        let locks = |case, more: &[_]| of(case, more, "1", "no", "locks_per_packet").to_vec();
        let over =
            |bypass| of("lockless", &[("bypass", bypass)], "1", "no", "ns_over_noqueue").to_vec();
        let two = |case, more: &[_]| of(case, more, "2", "no", "ns_per_packet");
        let bulk = &[("round", "32")][..];
        let lockless = &[("bypass", "yes")][..];
        let crowd = |bypass| {
            let rate =
                |producers| of("lockless", &[("bypass", bypass)], producers, "no", "packets_per_s");
            ratios(rate("8"), rate("2"))
        };
        let built = of("lockless", lockless, "2", "yes", "ns_per_packet").to_vec();
        let ring = |case, cores, bulk, metric| -> Vec<f64> {
            let beside = |apart: Option<Distance>| {
                let mut conditions = vec![("cores", cores), ("bulk", bulk)];
                conditions.extend(apart.map(|apart| ("apart", apart.as_str())));
                let of = |peer| self.samples("qdisc", case, peer, &conditions, metric);
                ratios(of(None), of(Some(RING)))
            };
            match cores {
                "1" => beside(None),
                // Wherever the CPUs lay, as long as it was the same for both.
                _ => Distance::ALL.into_iter().flat_map(|apart| beside(Some(apart))).collect(),
            }
        };
        let (pair, element) = ("cycles_per_pair", "cycles_per_element");
        let (one, none) = (Limit::AtMost(1.0), Limit::AtMost(0.0));
        let rings = [
            ("Ring, many to many, 32 at a time, two cores", ring("mpmc", "2", "32", element)),
            ("Ring, many to many, in and out on one core", ring("mpmc", "1", "1", pair)),
            ("Ring, one to one, 32 at a time, two cores", ring("spsc", "2", "32", element)),
        ];
        for (what, unit, limit, values) in [
            ("Lock operations per packet, fifo", "", Limit::AtMost(6.0), locks("fifo", &[])),
            (
                "Lock operations per packet, bulk of 32: 2 + 4/32",
                "",
                Limit::AtMost(2.125),
                locks("bulk", bulk),
            ),
            ("Lock operations per packet, lockless", "", none, locks("lockless", lockless)),
            (
                "Lockless, past an empty queue, over no queueing layer",
                "ns",
                Limit::AtMost(2.0),
                over("yes"),
            ),
            (
                "Lockless, forced through the ring, over no queueing layer",
                "ns",
                Limit::AtMost(8.0),
                over("no"),
            ),
            (
                "Time of a packet, two producers: bulk of 32 beside fifo",
                "×",
                one,
                ratios(two("bulk", bulk), two("fifo", &[])),
            ),
            (
                "Time of a packet, two producers: lockless beside bulk of 32",
                "×",
                one,
                ratios(two("lockless", lockless), two("bulk", bulk)),
            ),
            ("Eight producers beside two, lockless", "×", Limit::AtLeast(0.7), crowd("yes")),
            (
                "Eight producers beside two, lockless, forced through the ring",
                "×",
                Limit::AtLeast(0.7),
                crowd("no"),
            ),
            (
                "Two applications that write their packets, lockless, whole way to the sink",
                "ns",
                Limit::AtMost(15.0),
                built,
            ),
        ] {
            self.add("qdisc", what.to_owned(), unit, limit, values, &[]);
        }
        for (what, values) in rings {
            let what = format!("{what}: cycles beside DPDK's {RING}");
            self.add("qdisc", what, "×", one, values, &[RING, "cpus", "mpmc"]);
        }
        let what = "Ring, many to many, 32 at a time, beside crossbeam's ArrayQueue";
        self.elsewhere(
            "qdisc",
            what,
            Limit::AtLeast(5.0),
            "cargo bench -p wirelane-bench --bench ring",
        );
    }

    fn filter(&mut self) {
        for expression in ["tcp port 443 and host 10.0.0.1", "50 hosts"] {
            let of = |matching| {
                let conditions = [("expression", expression), ("matching", matching)];
                self.samples("filter", "jit", None, &conditions, "speedup")
            };
            // Whatever share of the packets matches.
            let values = lowest(&["all", "quarter", "none"].map(of));
            let what =
                format!("Filter '{expression}' as machine code beside libpcap's interpreter");
            self.add("filter", what, "×", Limit::AtLeast(5.0), values, &["jit", "libpcap"]);
        }
    }

    fn gso(&mut self) {
        for (form, words, limit) in
            [("copy", "copied", 40.0), ("slices", "as header and slices", 12.0)]
        {
            let conditions = [("protocol", "tcp4"), ("form", form)];
            let values = self.samples("gso", "segment", None, &conditions, "ns_per_segment");
            let what = format!("A segment of 1460 bytes, {words}");
            self.add("gso", what, "ns", Limit::AtMost(limit), values.to_vec(), &[]);
        }
        for (what, limit) in [
            ("Cutting a frame beside the crate tun-rs", Limit::AtLeast(1.8)),
            ("Checksum of 1500 bytes, GB/s", Limit::AtLeast(50.0)),
        ] {
            self.elsewhere("gso", what, limit, "cargo bench -p wirelane-bench --bench segment");
        }
        for (case, what, limit) in [
            ("tcp4", "TCP over IPv4, cut late, beside none", 2.0),
            ("tcp6", "TCP over IPv6, cut late, beside none", 2.0),
            ("gro-tcp4", "TCP over IPv4, merged on the way in, beside none", 1.5),
            ("gro-tcp6", "TCP over IPv6, merged on the way in, beside none", 1.5),
            ("udp4", "UDP over IPv4, fragmented late, beside none", 1.2),
            ("udp6", "UDP over IPv6, fragmented late, beside none", 1.2),
        ] {
            let conditions = [("offload", "wirelane"), ("cpu", "100"), ("flows", "1")];
            let values = self.samples("gso", case, None, &conditions, "speedup").to_vec();
            let what = format!("{what}: Gbit/s of one CPU");
            self.add("gso", what, "×", Limit::AtLeast(limit), values, &[case]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Param, Params};

    fn row(case: &'static str, peer: Option<&'static str>, samples: &[f64]) -> Row {
        let text = Param::Text;
        let params = vec![
            ("port", text("xdp")),
            ("mode", text(if case == "txpush" { "copy" } else { "native" })),
            ("size", Param::Number(64)),
            ("queues", Param::Number(1)),
        ];
        Row {
            suite: "sockets",
            case,
            peer,
            params: Params(params),
            metric: "packets_per_s",
            unit: "1/s",
            samples: samples.to_vec(),
            source: None,
        }
    }

    fn find<'a>(targets: &'a [Target], what: &str) -> &'a Target {
        targets.iter().find(|target| target.what.contains(what)).unwrap()
    }

    #[test]
    fn targets_are_met_missed_or_not_measured() {
        let peer = Some(testpmd::PROGRAM);
        let rows = [
            row("rxdrop", None, &[10.0, 30.0, 20.0, 10.0, 40.0]),
            row("rxdrop", peer, &[10.0, 20.0, 10.0, 10.0, 10.0]),
            row("txpush", None, &[7.0, 7.1]),
            row("txpush", peer, &[10.0, 10.0]),
            row("l2fwd", None, &[9.0]),
            row("l2fwd", peer, &[10.0]),
            row("xdp-drop", None, &[16.0, 16.0]),
        ];
        let reason = "dpdk-testpmd is not installed".to_owned();
        let skipped = [Skipped { suite: "sockets", case: NOWHERE, reason }];
        let targets = targets(&rows, &skipped);
        let kept = find(&targets, "Receiving over");
        assert_eq!((kept.median, kept.met, kept.values.len()), (Some(1.5), Some(true), 5));
        assert_eq!(find(&targets, "Sending over").met, Some(false));
        let unclear = find(&targets, "Forwarding over");
        assert!(unclear.is_unclear() && unclear.median == Some(0.9), "{unclear:?}");
        assert_eq!(unclear.reason.as_deref(), Some("one sample cannot tell"));
        assert_eq!(find(&targets, "inside the kernel").median, Some(1.6));
        let missing = find(&targets, "net_null");
        assert_eq!((missing.met, missing.median), (None, None));
        assert_eq!(missing.reason.as_deref(), Some("dpdk-testpmd is not installed"));
        let reason = |what| find(&targets, what).reason.clone().unwrap();
        assert_eq!(
            reason("0.5 Mpps"),
            "this run has no such figure; a report leaves some out that the suite alone has"
        );
        assert_eq!(reason("libpcap's"), "the suite filter was not run");
        assert!(reason("crossbeam").contains("cargo bench"));
        let value = serde_json::to_value(kept).unwrap();
        assert_eq!(value["limit"], serde_json::json!({ "at_least": 1.0 }));
    }

    #[test]
    fn a_target_is_judged_or_says_why_not() {
        for target in targets(&[], &[]) {
            assert!(target.met.is_none() && target.values.is_empty(), "{target:?}");
            assert!(!target.is_unclear());
            assert!(target.reason.is_some_and(|reason| !reason.is_empty()));
        }
    }

    #[test]
    fn a_rate_of_the_sender_keeps_no_target() {
        let peer = Some(testpmd::PROGRAM);
        let of = |peer, metric, sample| Row {
            suite: "noloss",
            case: "rx",
            metric,
            ..row("rx", peer, &[sample; 2])
        };
        let judged = |ours, theirs| {
            let rows = [
                of(None, "packets_per_s", 3.0),
                of(None, SENDER_BOUND, ours),
                of(peer, "packets_per_s", 2.0),
                of(peer, SENDER_BOUND, theirs),
            ];
            find(&targets(&rows, &[]), "without loss").clone()
        };
        assert_eq!(judged(1.0, 0.0).met, Some(true));
        let unknown = judged(1.0, 1.0);
        assert_eq!((unknown.met, unknown.median), (None, None));
        assert!(unknown.reason.unwrap().contains("the sender is the limit"));
    }

    #[test]
    fn the_best_of_several_is_that_of_a_round() {
        let (a, b, none) = ([3.0, 1.0], [2.0, 5.0, 7.0], []);
        assert_eq!(lowest(&[&a[..], &b[..], &none[..]]), [2.0, 1.0]);
        assert_eq!(highest(&[&a[..], &b[..], &none[..]]), [3.0, 5.0]);
        assert_eq!(lowest(&[&none[..]]), [0.0; 0]);
    }
}
