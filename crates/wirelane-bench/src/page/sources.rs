//! The tables of the five papers, each cell with our figure.

/// A table as its source printed it.
pub(super) struct Table {
    /// Number of the source document.
    pub(super) document: &'static str,
    pub(super) title: &'static str,
    /// What the source measured on, and what differs here.
    pub(super) setting: &'static str,
    /// Unit of all figures, the source's and ours.
    pub(super) unit: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) label: &'static str,
    /// One per column.
    pub(super) cells: Vec<Cell>,
}

/// What the source has and what would be measured here.
pub(super) struct Cell {
    pub(super) published: Option<f64>,
    pub(super) ours: Option<Figure>,
    /// Why there is no figure of ours, whatever is measured.
    pub(super) without: Option<&'static str>,
}

/// Names one figure of a report.
pub(super) struct Figure {
    pub(super) suite: &'static str,
    pub(super) case: &'static str,
    /// Conditions that the figure must have, as text.
    pub(super) params: Vec<(&'static str, &'static str)>,
    pub(super) metric: &'static str,
    /// From the unit of the report to that of the table: times this,
    pub(super) scale: f64,
    /// and then more by this.
    pub(super) offset: f64,
}

/// All tables, in the order of the sources.
pub(super) fn tables() -> Vec<Table> {
    let mut tables = vec![capture(), sockets("64"), sockets("1500"), scaling()];
    tables.extend(["tcp4", "tcp6", "udp4", "udp6"].map(segmentation));
    tables.extend([queueing(), queueing_costs()]);
    tables
}

fn line(label: &'static str, cells: Vec<Cell>) -> Line {
    Line { label, cells }
}

/// The 2011 multiqueue BPF paper: six conditions, one thread against all queues.
fn capture() -> Table {
    let condition = |label, port, target, published: [f64; 4]| {
        let [multi_10g, single_10g, multi_1g, single_1g] = published;
        let ours = |case| Figure {
            suite: "capture",
            case,
            params: vec![("port", port), ("target", target), ("size", "1500")],
            metric: "bits_per_s",
            scale: 1e-6,
            offset: 0.0,
        };
        let only = |published| Cell {
            published: Some(published),
            ours: None,
            without: Some("no second card"),
        };
        line(
            label,
            vec![
                Cell { published: Some(multi_10g), ours: Some(ours("multi")), without: None },
                Cell { published: Some(single_10g), ours: Some(ours("single")), without: None },
                only(multi_1g),
                only(single_1g),
            ],
        )
    };
    Table {
        document: "000",
        title: "Capture in six conditions",
        setting: "Source: FreeBSD, Core i7 X980 with 12 threads, iperf over TCP, 10 GbE (ixgbe) and 1 GbE (igb) \
                  cards. Here: packets of 1500 bytes between two network namespaces; \"copying\" is an AF_PACKET \
                  ring, \"zero copy\" the AF_XDP port. There is no card, so the columns of the second card have \
                  no counterpart.",
        unit: "Mbit/s",
        columns: &["all queues, 10G", "one thread, 10G", "all queues, 1G", "one thread, 1G"],
        lines: vec![
            condition("1: read only", "packet", "none", [5303.09, 3959.83, 916.75, 917.60]),
            condition("2: write to memory", "packet", "memory", [1061.25, 204.78, 916.66, 914.38]),
            condition("3: write to disk", "packet", "disk", [119.91, 101.20, 228.91, 199.64]),
            condition("4: read only, zero copy", "xdp", "none", [4772.92, 3173.20, 931.22, 925.97]),
            condition(
                "5: write to memory, zero copy",
                "xdp",
                "memory",
                [306.90, 317.81, 729.08, 708.99],
            ),
            condition(
                "6: write to disk, zero copy",
                "xdp",
                "disk",
                [174.02, 138.07, 228.79, 229.37],
            ),
        ],
    }
}

/// The 2018 AF_XDP zero-copy paper: rxdrop, txpush, l2fwd in three modes, and XDP_DROP.
fn sockets(size: &'static str) -> Table {
    let cell = |case, mode, published| Cell {
        published,
        ours: Some(Figure {
            suite: "sockets",
            case,
            // No program has a part in sending, so there is one copy mode.
            params: vec![
                ("port", "xdp"),
                ("mode", if case == "txpush" && mode != "zerocopy" { "copy" } else { mode }),
                ("size", size),
                ("queues", "1"),
            ],
            metric: "packets_per_s",
            scale: 1e-6,
            offset: 0.0,
        }),
        without: None,
    };
    let case = |label, [generic, native, zero_copy]: [Option<f64>; 3]| {
        line(
            label,
            vec![
                cell(label, "generic", generic),
                cell(label, "native", native),
                cell(label, "zerocopy", zero_copy),
            ],
        )
    };
    let small = size == "64";
    let either = |a, b| if small { a } else { b };
    Table {
        document: "001",
        title: if small { "AF_XDP, packets of 64 bytes" } else { "AF_XDP, packets of 1500 bytes" },
        setting: "Source: two Broadwell E5-2660 at 2.0 GHz, Intel i40e with 40 Gbit/s, a hardware generator. Here: \
                  one queue of a veth pair, whose driver has no zero copy. Sending with a copy does not depend on the mode \
                  of the program, so the first two figures of txpush are one.",
        unit: "Mpps",
        columns: &["SKB (generic)", "driver (native)", "zero copy"],
        lines: vec![
            case(
                "rxdrop",
                either([Some(2.9), Some(9.6), Some(21.5)], [Some(2.1), Some(3.3), Some(3.3)]),
            ),
            case("txpush", either([Some(2.6), None, Some(21.6)], [None, None, None])),
            case(
                "l2fwd",
                either([Some(1.9), Some(2.5), Some(15.0)], [Some(1.4), Some(1.8), Some(3.1)]),
            ),
            case("xdp-drop", either([None, Some(32.3), None], [None, Some(3.3), None])),
        ],
    }
}

/// The 2010 multiqueue socket paper: one thread against one per queue.
fn scaling() -> Table {
    let cell = |cpus, published| Cell {
        published: Some(published),
        ours: Some(Figure {
            suite: "scaling",
            case: "rx",
            params: vec![("cpus", cpus)],
            metric: "packets_per_s",
            scale: 1e-6,
            offset: 0.0,
        }),
        without: None,
    };
    Table {
        document: "002",
        title: "Receiving with one queue and with all",
        setting: "Source: Xeon L5640 (6 cores) and two E5530 (2 × 4 cores), 10 GbE (ixgbe), AF_PACKET. Here: the \
                  simulated interface, with one queue and with one per CPU of this machine.",
        unit: "Mpps",
        columns: &["one queue", "one per core"],
        lines: vec![
            line("L5640, 6 cores", vec![cell("one", 0.73), cell("all", 4.20)]),
            line("2 × E5530, 8 cores", vec![cell("one", 0.80), cell("all", 4.60)]),
        ],
    }
}

/// The 2014 FreeBSD GSO paper: TSO, GSO and none at six clock frequencies.
fn segmentation(case: &'static str) -> Table {
    type Published = [Option<f64>; 3];
    let tcp = |tso, gso, none| [Some(tso), Some(gso), Some(none)];
    let udp = |gso, none| [None, Some(gso), Some(none)];
    let published: [Published; 6] = match case {
        "tcp4" => [
            tcp(9347.0, 9298.0, 8308.0),
            tcp(9266.0, 9401.0, 6771.0),
            tcp(9408.0, 9294.0, 5499.0),
            tcp(9408.0, 8087.0, 4075.0),
            tcp(9408.0, 5673.0, 2884.0),
            tcp(6760.0, 2206.0, 1244.0),
        ],
        "tcp6" => [
            tcp(7530.0, 6939.0, 4966.0),
            tcp(5133.0, 7145.0, 4008.0),
            tcp(5965.0, 6331.0, 3152.0),
            tcp(5565.0, 5180.0, 2348.0),
            tcp(8501.0, 3607.0, 1732.0),
            tcp(3665.0, 1505.0, 651.0),
        ],
        "udp4" => [
            udp(9440.0, 8084.0),
            udp(7772.0, 6649.0),
            udp(6336.0, 5338.0),
            udp(4748.0, 4014.0),
            udp(3359.0, 2831.0),
            udp(1312.0, 1120.0),
        ],
        _ => [
            udp(7281.0, 6197.0),
            udp(5953.0, 5020.0),
            udp(4804.0, 4048.0),
            udp(3582.0, 3004.0),
            udp(2512.0, 2092.0),
            udp(998.0, 826.0),
        ],
    };
    // The source's clock frequencies, and the share of a CPU that stands for each here.
    let speeds = [
        ("2.93 GHz: whole CPU", "100"),
        ("2.53 GHz: 86\u{a0}%", "86"),
        ("2.00 GHz: 68\u{a0}%", "68"),
        ("1.46 GHz: 50\u{a0}%", "50"),
        ("1.05 GHz: 36\u{a0}%", "36"),
        ("0.45 GHz: 15\u{a0}%", "15"),
    ];
    let figure = |offload, share| Figure {
        suite: "gso",
        case,
        params: vec![("offload", offload), ("cpu", share)],
        metric: "bits_per_s",
        scale: 1e-6,
        offset: 0.0,
    };
    let cell = |offload, share, published| Cell {
        published,
        ours: Some(figure(offload, share)),
        without: None,
    };
    // In percent, as the source prints it.
    let speedup = |share, [_, gso, none]: Published| Cell {
        published: gso.zip(none).map(|(gso, none)| 100.0 * (gso / none - 1.0)),
        ours: Some(Figure {
            offset: -100.0,
            metric: "speedup",
            scale: 100.0,
            ..figure("wirelane", share)
        }),
        without: None,
    };
    let lines = speeds.into_iter().zip(published).map(|((label, share), published)| {
        let [tso, gso, none] = published;
        let cells = vec![
            cell("kernel", share, tso),
            cell("wirelane", share, gso),
            cell("none", share, none),
            speedup(share, published),
        ];
        line(label, cells)
    });
    Table {
        document: "003",
        title: match case {
            "tcp4" => "Segmentation, TCP over IPv4",
            "tcp6" => "Segmentation, TCP over IPv6",
            "udp4" => "Fragmentation, UDP over IPv4 in 9 KB datagrams",
            _ => "Fragmentation, UDP over IPv6 in 9 KB datagrams",
        },
        setting: "Source: FreeBSD 11, Core i7-870, 10 GbE, netperf, at six clock frequencies. Here: between two network \
                  namespaces, with a share of a CPU in place of a frequency. \"none\" is stronger here: not TCP makes every \
                  packet itself, but the kernel's own software cuts, just before the TAP device (bench gso has the other \
                  as \"stack\"). Wirelane cuts although the device would take long frames, as a wire does not.",
        unit: "Mbit/s",
        columns: &["kernel (TSO)", "GSO", "none", "GSO over none, %"],
        lines: lines.collect(),
    }
}

/// The 2014 qdisc paper: packets with one CPU, as rates and as times.
fn queueing() -> Table {
    let cells = |case, more: &[(&'static str, &'static str)], published: f64| {
        let figure = |metric, scale| Figure { scale, ..queueing_figure(case, more, metric) };
        let cell = |published, figure| Cell {
            published: Some(published),
            ours: Some(figure),
            without: None,
        };
        vec![
            cell(published, figure("packets_per_s", 1.0)),
            cell(1e9 / published, figure("ns_per_packet", 1.0)),
        ]
    };
    let bypass = |value| [("bypass", value)];
    Table {
        document: "004",
        title: "The queueing layer, one producer: packets",
        setting: QUEUEING,
        unit: "",
        columns: &["packets per s", "ns per packet"],
        lines: vec![
            line("fifo (qdisc path, clean kernel)", cells("fifo", &[], 1_566_918.0)),
            line("no queueing layer (NULL hack)", cells("noqueue", &[], 1_731_000.0)),
            line("fifo (pfifo, baseline of the next two)", cells("fifo", &[], 1_570_083.0)),
            line("bulk dequeue", cells("bulk", &[("round", "8")], 1_565_117.0)),
            line("lockless", cells("lockless", &bypass("yes"), 1_726_467.0)),
            line(
                "lockless, forced through the ring",
                cells("lockless", &bypass("no"), 1_703_221.0),
            ),
        ],
    }
}

const QUEUEING: &str = "Source: Xeon E5-2695, Linux 3.15, trafgen on one CPU; whole transmit path. Here: Wirelane's \
                        disciplines, packet by packet, into a simulated interface, so compare the differences and \
                        not the absolute times.";

/// The 2014 qdisc paper: differences of these, and locks.
fn queueing_costs() -> Table {
    let figure = queueing_figure;
    let single = |label, published, ours| {
        line(label, vec![Cell { published: Some(published), ours: Some(ours), without: None }])
    };
    let six = figure("fifo", &[], "locks_per_packet");
    Table {
        document: "004",
        title: "The queueing layer, one producer: what it costs",
        setting: QUEUEING,
        unit: "ns",
        columns: &["per packet"],
        lines: vec![
            single("lock operations, in number", 6.0, six),
            single(
                "one lock operation",
                8.0,
                Figure { params: vec![], ..figure("lock", &[], "ns_per_operation") },
            ),
            single("fifo over no queueing layer", 60.5, figure("fifo", &[], "ns_over_noqueue")),
            single(
                "lockless over no queueing layer",
                1.52,
                figure("lockless", &[("bypass", "yes")], "ns_over_noqueue"),
            ),
            single(
                "lockless saves over fifo",
                58.98,
                figure("lockless", &[("bypass", "yes")], "ns_under_fifo"),
            ),
            single(
                "forced through the ring, over bypassing it",
                7.9,
                figure("lockless", &[("bypass", "no")], "ns_over_bypass"),
            ),
        ],
    }
}

/// A figure of one producer that sends packet by packet.
fn queueing_figure(
    case: &'static str,
    more: &[(&'static str, &'static str)],
    metric: &'static str,
) -> Figure {
    let mut params = more.to_vec();
    params.extend([("producers", "1"), ("size", "64"), ("batch", "1"), ("build", "no")]);
    Figure { suite: "qdisc", case, params, metric, scale: 1.0, offset: 0.0 }
}
