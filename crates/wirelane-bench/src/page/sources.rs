//! The tables of the five papers, each cell with the figure of this machine.

use crate::published::{self, Difference, Published, Segmentation};

/// A table as its source printed it.
pub(super) struct PrintedTable {
    /// Number of the source document.
    pub(super) document: &'static str,
    pub(super) title: &'static str,
    /// The hardware that the source measured on, and the differences here.
    pub(super) setting: &'static str,
    /// Unit of all figures, of the source and of this machine.
    pub(super) unit: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) lines: Vec<PrintedLine>,
}

pub(super) struct PrintedLine {
    pub(super) label: &'static str,
    /// One per column.
    pub(super) cells: Vec<Cell>,
}

/// The published figure and the figure to measure here.
pub(super) struct Cell {
    pub(super) published: Option<Published>,
    pub(super) ours: Option<FigureName>,
    /// Why this figure can never be measured here.
    pub(super) without: Option<&'static str>,
}

impl Cell {
    fn both(published: Option<Published>, ours: FigureName) -> Self {
        Self { published, ours: Some(ours), without: None }
    }

    fn ours(ours: FigureName) -> Self {
        Self::both(None, ours)
    }

    fn published(published: Published) -> Self {
        Self { published: Some(published), ours: None, without: None }
    }
}

/// Names one figure of a report.
#[derive(Clone)]
pub(super) struct FigureName {
    pub(super) suite: &'static str,
    pub(super) case: &'static str,
    /// Conditions that the figure must have, as text.
    pub(super) params: Vec<(&'static str, &'static str)>,
    pub(super) metric: &'static str,
    /// Factor that converts the report's unit to the table's unit.
    pub(super) scale: f64,
    /// Added after `scale`.
    pub(super) offset: f64,
}

/// All tables, in the order of the sources.
pub(super) fn tables() -> Vec<PrintedTable> {
    let mut tables = vec![capture(), sockets("64"), sockets("1500"), scaling()];
    tables.extend(["tcp4", "tcp6", "udp4", "udp6"].map(segmentation));
    tables.extend([queueing(), queueing_costs()]);
    tables
}

/// A figure under no conditions.
fn figure(suite: &'static str, case: &'static str, metric: &'static str, scale: f64) -> FigureName {
    FigureName { suite, case, params: Vec::new(), metric, scale, offset: 0.0 }
}

fn line(label: &'static str, cells: Vec<Cell>) -> PrintedLine {
    PrintedLine { label, cells }
}

/// The 2011 multiqueue BPF paper: six conditions, one thread against all queues.
fn capture() -> PrintedTable {
    let ours = |case, port, target| FigureName {
        params: vec![("port", port), ("target", target), ("size", "1500")],
        ..figure("capture", case, "bits_per_s", 1e-6)
    };
    let condition = |label, number, port, target| {
        let published = published::capture(number);
        let figure = |card: usize| published.and_then(|figures| figures.get(card).copied());
        let only = |published| Cell { published, ours: None, without: Some("no second card") };
        let [multi, single] = ["multi", "single"].map(|case| ours(case, port, target));
        let cells = vec![
            Cell::both(figure(0), multi),
            Cell::both(figure(1), single),
            only(figure(2)),
            only(figure(3)),
        ];
        line(label, cells)
    };
    // Additional rows for AF_PACKET rings, which the source does not have.
    let ring = |label, target| {
        let [multi, single] =
            ["multi", "single"].map(|case| Cell::ours(ours(case, "packet", target)));
        let none = || Cell { published: None, ours: None, without: None };
        line(label, vec![multi, single, none(), none()])
    };
    PrintedTable {
        document: "000",
        title: "Capture in six conditions",
        setting: "Source: FreeBSD, Core i7 X980 with 12 threads, iperf over TCP, 10 GbE (ixgbe) \
                  and 1 GbE (igb) cards. Here: packets of 1500 bytes inside one machine. \
                  Conditions 1 to 3 copy each packet by read(2), from a TAP device. Conditions 4 \
                  to 6 are the AF_XDP port, in the mode that stands below the figure: only \
                  \"zerocopy\" copies nothing, and a veth pair has none. Between them is a ring of \
                  AF_PACKET: memory that is shared with the kernel, which copies into it. The \
                  senders have the CPUs of the capture, one for each queue: how much more a thread \
                  for each queue takes than one depends on them, too. There is no card, so the \
                  columns of the second card have no counterpart.",
        unit: "Mbit/s",
        columns: &["all queues, 10G", "one thread, 10G", "all queues, 1G", "one thread, 1G"],
        lines: vec![
            condition("1: read only", 1, "tap", "none"),
            condition("2: write to memory", 2, "tap", "memory"),
            condition("3: write to disk", 3, "tap", "disk"),
            ring("read only, shared ring", "none"),
            ring("write to memory, shared ring", "memory"),
            ring("write to disk, shared ring", "disk"),
            condition("4: read only, zero copy", 4, "xdp", "none"),
            condition("5: write to memory, zero copy", 5, "xdp", "memory"),
            condition("6: write to disk, zero copy", 6, "xdp", "disk"),
        ],
    }
}

/// The 2018 AF_XDP zero-copy paper: rxdrop, txpush, l2fwd in three modes, and XDP_DROP.
fn sockets(size: &'static str) -> PrintedTable {
    let cell = |case, mode, published| {
        // Transmission uses no XDP program, so there is one copy mode.
        let mode = if case == "txpush" && mode != "zerocopy" { "copy" } else { mode };
        let params = vec![("port", "xdp"), ("mode", mode), ("size", size), ("queues", "1")];
        Cell::both(
            published,
            FigureName { params, ..figure("sockets", case, "packets_per_s", 1e-6) },
        )
    };
    let case = |label| {
        let published = published::sockets(label, if size == "64" { 64 } else { 1500 });
        let modes = ["generic", "native", "zerocopy"].into_iter().zip(published);
        line(label, modes.map(|(mode, published)| cell(label, mode, published)).collect())
    };
    let small = size == "64";
    PrintedTable {
        document: "001",
        title: if small { "AF_XDP, packets of 64 bytes" } else { "AF_XDP, packets of 1500 bytes" },
        setting: "Source: two Broadwell E5-2660 at 2.0 GHz, Intel i40e with 40 Gbit/s, a hardware \
                  generator. Here: one queue of a veth pair, whose driver has no zero copy. \
                  Sending with a copy does not depend on the mode of the program, so the first two \
                  figures of txpush are one.",
        unit: "Mpps",
        columns: &["SKB (generic)", "driver (native)", "zero copy"],
        lines: vec![case("rxdrop"), case("txpush"), case("l2fwd"), case("xdp-drop")],
    }
}

/// The 2010 multiqueue socket paper: one queue against one per core, each with a socket.
fn scaling() -> PrintedTable {
    let ours = |port| {
        [
            ("one", "packets_per_s", 1e-6),
            ("all", "packets_per_s", 1e-6),
            ("all", "efficiency", 100.0),
        ]
        .map(|(cpus, metric, scale)| {
            let params = vec![("port", port), ("cpus", cpus)];
            Cell::ours(FigureName { params, ..figure("scaling", "rx", metric, scale) })
        })
    };
    let [six, eight] = published::scaling();
    PrintedTable {
        document: "002",
        title: "Receiving by one queue and by all, each with a socket and a core",
        setting: "Source: Xeon L5640 (6 cores) and two E5530 (2 × 4 cores), 10 GbE (ixgbe), \
                  AF_PACKET; the network sends. Here: a veth pair with a queue for each CPU, \
                  packets of 64 bytes. The CPU of a queue also sends what comes by it, by a packet \
                  socket to AF_PACKET and from inside the kernel to AF_XDP.",
        unit: "Mpps",
        columns: &["one queue", "one per core", "that of linear, %"],
        lines: vec![
            line("L5640, 6 cores, AF_PACKET", six.map(Cell::published).into()),
            line("2 × E5530, 8 cores, AF_PACKET", eight.map(Cell::published).into()),
            line("here, AF_PACKET", ours("packet").into()),
            line("here, AF_XDP", ours("xdp").into()),
        ],
    }
}

/// The 2014 FreeBSD GSO paper: TSO, GSO and none at six clock frequencies.
fn segmentation(case: &'static str) -> PrintedTable {
    // The source's clock frequencies, and the CPU share that represents each of them here.
    let speeds = [
        ("2.93 GHz: whole CPU", "100"),
        ("2.53 GHz: 86\u{a0}%", "86"),
        ("2.00 GHz: 68\u{a0}%", "68"),
        ("1.46 GHz: 50\u{a0}%", "50"),
        ("1.05 GHz: 36\u{a0}%", "36"),
        ("0.45 GHz: 15\u{a0}%", "15"),
    ];
    let of = |offload, share| FigureName {
        params: vec![("offload", offload), ("cpu", share)],
        ..figure("gso", case, "bits_per_s", 1e-6)
    };
    let cell = |offload, share, published| Cell::both(published, of(offload, share));
    // In percent, as the source prints it.
    let speedup = |metric, share, published| {
        let figure = FigureName { offset: -100.0, metric, scale: 100.0, ..of("wirelane", share) };
        Cell::both(published, figure)
    };
    // With TCP, "none" means that TCP makes every packet; UDP packets are always fragmented by the
    // stack.
    let is_tcp = case.starts_with("tcp");
    let published = published::segmentation(case).into_iter().flatten();
    let lines = speeds.into_iter().zip(published).map(|((label, share), published)| {
        let Segmentation { tso, gso, none, percent } = published;
        let mut cells = vec![cell("kernel", share, tso), cell("wirelane", share, Some(gso))];
        if is_tcp {
            cells.extend([
                cell("stack", share, Some(none)),
                speedup("speedup_over_stack", share, Some(percent)),
                cell("none", share, None),
                speedup("speedup", share, None),
            ]);
        } else {
            let none = cell("none", share, Some(none));
            cells.extend([none, speedup("speedup", share, Some(percent))]);
        }
        line(label, cells)
    });
    PrintedTable {
        document: "003",
        title: match case {
            "tcp4" => "Segmentation, TCP over IPv4",
            "tcp6" => "Segmentation, TCP over IPv6",
            "udp4" => "Fragmentation, UDP over IPv4 in 9 KB datagrams",
            _ => "Fragmentation, UDP over IPv6 in 9 KB datagrams",
        },
        setting: if is_tcp { OF_TCP } else { OF_UDP },
        unit: "Mbit/s",
        columns: match is_tcp {
            true => &[
                "kernel (TSO)",
                "GSO",
                "none",
                "GSO over none, %",
                "kernel's software",
                "GSO over that, %",
            ],
            false => &["kernel (TSO)", "GSO", "none", "GSO over none, %"],
        },
        lines: lines.collect(),
    }
}

const OF_TCP: &str = "Source: FreeBSD 11, Core i7-870, 10 GbE, netperf, at six clock \
                      frequencies. Here: between two network namespaces, with a share of a CPU in \
                      place of a frequency. \"None\" is the source's: TCP makes every packet itself \
                      (\"stack\" in bench gso). The last two columns are beside a stronger one, \
                      which the source does not have: the kernel's own software cuts, just before \
                      the TAP device. Wirelane cuts although the device would take long frames, as \
                      a wire does not.";
const OF_UDP: &str = "Source: FreeBSD 11, Core i7-870, 10 GbE, netperf, at six clock \
                      frequencies. Here: between two network namespaces, with a share of a CPU in \
                      place of a frequency. \"None\": the stack fragments, before the TAP device.";

/// The 2014 qdisc paper: packets with one CPU, as rates and as times.
fn queueing() -> PrintedTable {
    const METRICS: [&str; 2] = ["packets_per_s", "ns_per_packet"];
    let cells = |case, more: &[(&'static str, &'static str)], way| {
        let published = published::queueing(way);
        let cell = |(i, metric): (usize, _)| {
            let published = published.and_then(|both| both.get(i).copied());
            Cell::both(published, queueing_figure(case, more, metric))
        };
        METRICS.into_iter().enumerate().map(cell).collect()
    };
    let bypass = |value| [("bypass", value)];
    let kernel = |path| METRICS.map(|metric| Cell::ours(kernel_figure(path, metric))).into();
    PrintedTable {
        document: "004",
        title: "The queueing layer, one producer: packets",
        setting: QUEUEING,
        unit: "",
        columns: &["packets per s", "ns per packet"],
        lines: vec![
            line("fifo (qdisc path, clean kernel)", cells("fifo", &[], "qdisc path")),
            line("no queueing layer (NULL hack)", cells("noqueue", &[], "NULL hack")),
            line("fifo (pfifo, baseline of the next two)", cells("fifo", &[], "pfifo")),
            line("bulk dequeue", cells("bulk", &[("round", "8")], "bulk dequeue")),
            line("lockless", cells("lockless", &bypass("yes"), "lockless")),
            line(
                "lockless, forced through the ring",
                cells("lockless", &bypass("no"), "lockless, no bypass"),
            ),
            line("the kernel here, through its discipline", kernel("qdisc")),
            line("the kernel here, around it", kernel("bypass")),
        ],
    }
}

const QUEUEING: &str = "Source: Xeon E5-2695, Linux 3.15, trafgen on one CPU; whole transmit path. \
                        Here: Wirelane's disciplines, packet by packet, into a simulated \
                        interface, so compare the differences and not the absolute times; and, as \
                        root, the kernel's own, by a packet socket on a veth pair.";

/// The cost of the kernel's own queueing layer, for a packet socket.
fn kernel_figure(path: &'static str, metric: &'static str) -> FigureName {
    let params = vec![("path", path)];
    FigureName { params, ..figure("qdisc", "kernel", metric, 1.0) }
}

/// The 2014 qdisc paper: the differences between these figures, and the locks.
fn queueing_costs() -> PrintedTable {
    let figure = queueing_figure;
    let single = |label, published, ours| line(label, vec![Cell::both(Some(published), ours)]);
    let six = figure("fifo", &[], "locks_per_packet");
    PrintedTable {
        document: "004",
        title: "The queueing layer, one producer: what it costs",
        setting: QUEUEING,
        unit: "ns",
        columns: &["per packet"],
        lines: vec![
            single("lock operations, in number", published::lock_operations(), six),
            single(
                "one lock operation",
                published::lock_operation(),
                FigureName { params: vec![], ..figure("lock", &[], "ns_per_operation") },
            ),
            single(
                "fifo over no queueing layer",
                published::difference(Difference::FifoOverNone),
                figure("fifo", &[], "ns_over_noqueue"),
            ),
            single(
                "the kernel's discipline over bypassing it",
                published::difference(Difference::FifoOverNone),
                kernel_figure("qdisc", "ns_over_bypass"),
            ),
            single(
                "lockless over no queueing layer",
                published::difference(Difference::LocklessOverNone),
                figure("lockless", &[("bypass", "yes")], "ns_over_noqueue"),
            ),
            single(
                "lockless saves over fifo",
                published::difference(Difference::LocklessUnderFifo),
                figure("lockless", &[("bypass", "yes")], "ns_under_fifo"),
            ),
            single(
                "forced through the ring, over bypassing it",
                published::difference(Difference::RingOverBypass),
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
) -> FigureName {
    let mut params = more.to_vec();
    params.extend([("producers", "1"), ("size", "64"), ("batch", "1"), ("build", "no")]);
    FigureName { params, ..figure("qdisc", case, metric, 1.0) }
}
