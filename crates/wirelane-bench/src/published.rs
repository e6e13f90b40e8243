//! The figures of the five papers, digit for digit. No other file has them.
//!
//! A *printed* figure appears in a paper. A *derived* figure is computed from printed ones, and is
//! marked wherever it is shown. The tests compare printed figures with excerpts of the papers.

use crate::row::PublishedFigure;

/// A figure of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    document: &'static str,
    /// The digits in the paper; empty if the figure is derived.
    printed: &'static str,
    value: f64,
    unit: &'static str,
}

impl Published {
    fn printed(document: &'static str, printed: &'static str, unit: &'static str) -> Self {
        let digits: String = printed.chars().filter(|c| *c != ',').collect();
        Self { document, printed, value: digits.parse().unwrap_or(f64::NAN), unit }
    }

    /// A figure computed from figures of the paper.
    fn derived(document: &'static str, value: f64, unit: &'static str) -> Self {
        Self { document, printed: "", value, unit }
    }

    /// The figure, in the unit of the paper.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Whether it is computed from figures of the paper.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        self.printed.is_empty()
    }

    /// Its digits in the paper, without thousands separators, rounded to two decimals. `None` if it
    /// is derived.
    #[must_use]
    pub fn digits(&self) -> Option<String> {
        if self.is_derived() {
            return None;
        }
        let decimals = self.printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some(format!("{:.*}", decimals.min(2), self.value))
    }

    /// The figure as the source of a row, in the unit of the row.
    #[must_use]
    pub fn source(&self) -> PublishedFigure {
        let (scale, unit) = match self.unit {
            "Mbit/s" => (1e6, "bit/s"),
            "Mpps" => (1e6, "1/s"),
            unit => (1.0, unit),
        };
        let value = self.value * scale;
        // A scaled rate is a whole number of bits or packets.
        let value = if scale > 1.0 { value.round() } else { value };
        PublishedFigure { document: self.document, value, unit, derived: self.is_derived() }
    }
}

/// "Multiqueue support for bpf" (2011), Mbit/s in each condition: with all queues and with one
/// thread, on the 10 Gbit/s card (ixgbe), then on the 1 Gbit/s card (igb).
const CAPTURE: [[&str; 4]; 6] = [
    ["5303.09007533333", "3959.83021733333", "916.752133333333", "917.597079"],
    ["1061.24890333333", "204.779881", "916.656664666667", "914.378636"],
    ["119.912253333333", "101.195918", "228.910355333333", "199.639093666667"],
    ["4772.924974", "3173.19967133333", "931.217345", "925.965270666667"],
    ["306.902822333333", "317.605016666667", "729.075349666667", "708.987822666667"],
    ["174.016136666667", "138.068732666667", "228.794880333333", "229.367386333333"],
];

/// Condition `number`, from 1: all queues and one thread on 10 Gbit/s, the same on 1 Gbit/s.
#[must_use]
pub fn capture(number: usize) -> Option<[Published; 4]> {
    let line = CAPTURE.get(number.checked_sub(1)?)?;
    Some(line.map(|printed| Published::printed("000", printed, "Mbit/s")))
}

/// "AF_XDP, zero-copy support" (2018), Mpps: generic, native, zero copy; empty where there is none.
const SOCKETS: [(&str, usize, [&str; 3]); 7] = [
    ("rxdrop", 64, ["2.9", "9.6", "21.5"]),
    ("txpush", 64, ["2.6", "", "21.6"]),
    ("l2fwd", 64, ["1.9", "2.5", "15.0"]),
    ("xdp-drop", 64, ["", "32.3", ""]),
    ("rxdrop", 1500, ["2.1", "3.3", "3.3"]),
    ("l2fwd", 1500, ["1.4", "1.8", "3.1"]),
    ("xdp-drop", 1500, ["", "3.3", ""]),
];

/// The rate of a case in generic and native mode and with zero copy, in Mpps.
#[must_use]
pub fn sockets(case: &str, size: usize) -> [Option<Published>; 3] {
    let line = SOCKETS.iter().find(|line| (line.0, line.1) == (case, size));
    let figure = |printed: &'static str| {
        (!printed.is_empty()).then(|| Published::printed("001", printed, "Mpps"))
    };
    line.map_or([None; 3], |line| line.2.map(figure))
}

/// The time per packet computed from a rate in Mpps.
#[must_use]
pub fn ns_per_packet(rate: Published) -> Published {
    Published::derived(rate.document, 1e3 / rate.value, "ns")
}

/// "Kernel interfaces for multiqueue aware socket" (2010), Mpps: one queue, and one per core; of
/// six cores (L5640) and of eight (two E5530).
const SCALING: [[&str; 2]; 2] = [["0.73", "4.20"], ["0.80", "4.6"]];

/// The rates of one queue and of one queue per core, in Mpps, and their ratio to linear scaling, in
/// percent: for the machine with six cores and for the machine with eight.
#[must_use]
pub fn scaling() -> [[Published; 3]; 2] {
    let mut cores = [6.0, 8.0].into_iter();
    SCALING.map(|line| {
        let [one, all] = line.map(|printed| Published::printed("002", printed, "Mpps"));
        let linear = one.value * cores.next().unwrap_or(f64::NAN);
        [one, all, Published::derived("002", (1e3 * all.value / linear).round() / 10.0, "%")]
    })
}

/// "GSO for FreeBSD" (2014): Mbit/s with TSO, with GSO and without either, and how much faster GSO
/// is than none in percent, at six clock frequencies. UDP has no TSO.
const SEGMENTATION: [(&str, [[&str; 4]; 6]); 4] = [
    (
        "tcp4",
        [
            ["9347", "9298", "8308", "12"],
            ["9266", "9401", "6771", "39"],
            ["9408", "9294", "5499", "69"],
            ["9408", "8087", "4075", "98"],
            ["9408", "5673", "2884", "97"],
            ["6760", "2206", "1244", "77"],
        ],
    ),
    (
        "tcp6",
        [
            ["7530", "6939", "4966", "40"],
            ["5133", "7145", "4008", "78"],
            ["5965", "6331", "3152", "101"],
            ["5565", "5180", "2348", "121"],
            ["8501", "3607", "1732", "108"],
            ["3665", "1505", "651", "131"],
        ],
    ),
    (
        "udp4",
        [
            ["", "9440", "8084", "17"],
            ["", "7772", "6649", "17"],
            ["", "6336", "5338", "19"],
            ["", "4748", "4014", "18"],
            ["", "3359", "2831", "19"],
            ["", "1312", "1120", "17"],
        ],
    ),
    (
        "udp6",
        [
            ["", "7281", "6197", "18"],
            ["", "5953", "5020", "19"],
            ["", "4804", "4048", "19"],
            ["", "3582", "3004", "19"],
            ["", "2512", "2092", "20"],
            ["", "998", "826", "21"],
        ],
    ),
];

/// The figures of the GSO paper at one clock frequency.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    /// The card segments; not for UDP. In Mbit/s, like the next two.
    pub tso: Option<Published>,
    /// The paper's software segments.
    pub gso: Published,
    /// TCP makes every packet itself; UDP is fragmented by the stack.
    pub none: Published,
    /// GSO over none, in percent as printed: 12 is 1.12 times as fast.
    pub percent: Published,
}

impl Segmentation {
    /// GSO over none as a factor.
    #[must_use]
    pub fn speedup(&self) -> Published {
        let factor = self.gso.value / self.none.value;
        Published::derived("003", (factor * 1000.0).round() / 1000.0, "1")
    }
}

/// The lines of the table of `case` (`tcp4`, `tcp6`, `udp4`, `udp6`), from 2.93 GHz down to 0.45.
#[must_use]
pub fn segmentation(case: &str) -> Option<[Segmentation; 6]> {
    let (_, lines) = SEGMENTATION.iter().find(|(name, _)| *name == case)?;
    Some(lines.map(|[tso, gso, none, percent]| Segmentation {
        tso: (!tso.is_empty()).then(|| Published::printed("003", tso, "Mbit/s")),
        gso: Published::printed("003", gso, "Mbit/s"),
        none: Published::printed("003", none, "Mbit/s"),
        percent: Published::printed("003", percent, "%"),
    }))
}

/// "Qdisc layer: Fast enough for 10G wirespeed?" (2014): a path to the driver, its packets per
/// second and, if printed, its ns per packet.
const QUEUEING: [(&str, &str, &str); 6] = [
    ("qdisc path", "1566918", "638.20"),
    ("NULL hack", "1731000", "577.70"),
    ("pfifo", "1,570,083", ""),
    ("bulk dequeue", "1,565,117", ""),
    ("lockless", "1726467", "579.22"),
    ("lockless, no bypass", "1703221", "587.12"),
];

/// Packets per second of a path, and its time per packet.
#[must_use]
pub fn queueing(way: &str) -> Option<[Published; 2]> {
    let (_, rate, ns) = QUEUEING.iter().find(|(name, ..)| *name == way)?;
    let rate = Published::printed("004", rate, "1/s");
    let ns = if ns.is_empty() {
        Published::derived("004", 1e9 / rate.value, "ns")
    } else {
        Published::printed("004", ns, "ns")
    };
    Some([rate, ns])
}

/// Differences of the 2014 qdisc paper, in ns per packet of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The qdisc path over the NULL hack.
    FifoOverNone,
    /// Lockless over the NULL hack.
    LocklessOverNone,
    /// Lockless without bypass over the NULL hack: 587.12 - 577.70.
    RingOverNone,
    /// Lockless, less than the qdisc path.
    LocklessUnderFifo,
    /// Lockless without bypass, less than the qdisc path: 638.20 - 587.12.
    RingUnderFifo,
    /// Lockless without bypass over lockless with it.
    RingOverBypass,
}

/// The figure.
#[must_use]
pub fn difference(of: Difference) -> Published {
    let printed = |text| Published::printed("004", text, "ns");
    let derived = |value| Published::derived("004", value, "ns");
    match of {
        Difference::FifoOverNone => printed("60.50"),
        Difference::LocklessOverNone => printed("1.52"),
        Difference::RingOverNone => derived(9.42),
        Difference::LocklessUnderFifo => printed("58.98"),
        Difference::RingUnderFifo => derived(51.08),
        Difference::RingOverBypass => printed("7.90"),
    }
}

/// Lock operations per packet on the qdisc path.
#[must_use]
pub fn lock_operations() -> Published {
    Published::printed("004", "6", "1")
}

/// One lock operation.
#[must_use]
pub fn lock_operation() -> Published {
    Published::printed("004", "8", "ns")
}

/// Taking and releasing a lock: two operations.
#[must_use]
pub fn lock_pair() -> Published {
    Published::derived("004", 16.0, "ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Lines of the papers that hold figures.
    const EXCERPTS: [(&str, &str); 5] = [
        ("000", include_str!("published/000.txt")),
        ("001", include_str!("published/001.txt")),
        ("002", include_str!("published/002.txt")),
        ("003", include_str!("published/003.txt")),
        ("004", include_str!("published/004.txt")),
    ];

    fn excerpt(document: &str) -> &'static str {
        EXCERPTS.iter().find(|(number, _)| *number == document).unwrap().1
    }

    /// Every number of a text, as printed.
    fn numbers(text: &'static str) -> Vec<&'static str> {
        let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect()
    }

    #[test]
    fn the_figures_of_2011_are_printed_so() {
        let printed: Vec<_> = CAPTURE.iter().flatten().copied().collect();
        assert_eq!(printed, numbers(excerpt("000")));
        let five = capture(5).unwrap();
        assert_eq!(five[1].digits().unwrap(), "317.61");
        assert_eq!(five[1].source().value, 317_605_017.0);
        assert!(capture(0).is_none() && capture(7).is_none());
    }

    #[test]
    fn the_figures_of_2018_are_printed_so() {
        // The paper lists 64-byte cases, 1500-byte cases, and then XDP_DROP for both sizes.
        let of = |size, is_drop: bool| {
            let lines = SOCKETS.iter().filter(move |line| line.1 == size);
            let lines = lines.filter(move |line| (line.0 == "xdp-drop") == is_drop);
            lines.flat_map(|line| line.2).filter(|figure| !figure.is_empty())
        };
        let printed: Vec<_> = of(64, false)
            .chain(of(1500, false))
            .chain(of(64, true))
            .chain(of(1500, true))
            .collect();
        let lines = excerpt("001").lines();
        // "XDP-RX CPU 16 32.3M 0": the CPU, the rate, and the packets with issues.
        let figures = lines.flat_map(|line| match line.strip_prefix("XDP-RX CPU 16 ") {
            Some(rest) => numbers(rest)[..1].to_vec(),
            None => numbers(line.split_once(' ').unwrap().1),
        });
        assert_eq!(printed, figures.collect::<Vec<_>>());
        let [_, native, zero_copy] = sockets("rxdrop", 64);
        assert_eq!(native.unwrap().source().value, 9.6e6);
        let ns = ns_per_packet(zero_copy.unwrap());
        assert!(ns.is_derived() && (ns.value() - 46.51).abs() < 0.01);
    }

    #[test]
    fn the_figures_of_2010_are_printed_so() {
        let printed: Vec<_> = SCALING.iter().flatten().copied().collect();
        assert_eq!(printed, numbers(excerpt("002")));
        let parts = scaling().map(|[.., part]| (part.value(), part.is_derived()));
        assert_eq!(parts, [(95.9, true), (71.9, true)]);
    }

    #[test]
    fn the_figures_of_the_segmentation_paper_are_printed_so() {
        let mut lines = excerpt("003").lines();
        for (case, table) in SEGMENTATION {
            for (line, ghz) in table.iter().zip(["2.93", "2.53", "2.00", "1.46", "1.05", "0.45"]) {
                let figures = line.iter().filter(|figure| !figure.is_empty());
                let expected: Vec<_> = std::iter::once(&ghz).chain(figures).copied().collect();
                assert_eq!(numbers(lines.next().unwrap()), expected, "{case}");
            }
            for line in segmentation(case).unwrap() {
                // The percentages follow from the rates, rounded or truncated.
                let percent = (line.speedup().value() - 1.0) * 100.0;
                assert!((percent - line.percent.value()).abs() < 1.0, "{case}: {line:?}");
            }
        }
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn the_figures_of_the_queueing_paper_are_printed_so() {
        let text = excerpt("004");
        for (way, rate, ns) in QUEUEING {
            let line = text.lines().find(|line| line.contains(&format!("{rate} pps"))).unwrap();
            assert_eq!(line.contains(" ns"), !ns.is_empty(), "{way}");
            assert!(line.ends_with(&format!("{ns} ns")) || ns.is_empty(), "{way}");
            let [rate, ns] = queueing(way).unwrap();
            assert!((1e9 / rate.value() - ns.value()).abs() < 0.005, "{way}");
        }
        let all = numbers(text);
        use Difference::*;
        for of in [FifoOverNone, LocklessOverNone, LocklessUnderFifo, RingOverBypass] {
            assert!(all.contains(&difference(of).printed), "{of:?}");
        }
        assert!(
            all.contains(&lock_operations().printed) && all.contains(&lock_operation().printed)
        );
        let ns = |way| queueing(way).unwrap()[1].value();
        let near = |a: f64, b: f64| (a - b).abs() < 0.005;
        assert!(near(
            difference(RingOverNone).value(),
            ns("lockless, no bypass") - ns("NULL hack")
        ));
        assert!(near(
            difference(RingUnderFifo).value(),
            ns("qdisc path") - ns("lockless, no bypass")
        ));
        assert!(difference(RingUnderFifo).is_derived() && lock_pair().is_derived());
    }

    /// Compares the excerpts with the papers, if the papers are stored beside the project.
    #[test]
    fn the_excerpts_are_of_the_papers() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sources");
        let Ok(files) = fs::read_dir(papers) else { return };
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        for (document, excerpt) in EXCERPTS {
            let is_it = |path: &&PathBuf| {
                path.file_name().unwrap().to_string_lossy().starts_with(&format!("{document}_"))
            };
            let Some(path) = files.iter().find(is_it) else { continue };
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let paper = words(&fs::read_to_string(path).unwrap());
            for line in excerpt.lines() {
                assert!(paper.contains(&words(line)), "{document}: {line}");
            }
        }
    }
}
