//! The targets: the limit of each figure, and whether a run met it.
//!
//! A target limits a ratio of two figures, a difference, or a figure itself. Ratios and differences
//! are computed within a round, before the median: a slow moment of the machine affects both sides.

mod book;
mod capture;
mod flows;
mod libpcap;
mod loops;
mod record;
mod scaling;
mod send;
mod sockets;

use self::book::{Book, ReportRows};
pub use self::book::{FigureTarget, TargetLimit};
use crate::row::{FigureRow, SkippedCase};

/// All targets, judged from these rows.
pub fn targets(rows: &[FigureRow], skipped: &[SkippedCase]) -> Vec<FigureTarget> {
    let mut book = Book { rows: ReportRows(rows), skipped, targets: Vec::new() };
    capture::targets(&mut book);
    record::targets(&mut book);
    libpcap::targets(&mut book);
    flows::targets(&mut book);
    sockets::targets(&mut book);
    send::targets(&mut book);
    scaling::targets(&mut book);
    loops::targets(&mut book);
    book.targets
}

#[cfg(test)]
mod tests {
    use super::book::{highest, lowest};
    use super::*;
    use crate::comparison::SENDER_BOUND;
    use crate::peers::testpmd::{self, NOWHERE};
    use crate::row::params;

    fn row(case: &'static str, peer: Option<&'static str>, samples: &[f64]) -> FigureRow {
        let mode = if case == "txpush" { "copy" } else { "native" };
        let params = params![port = "xdp", mode = mode, size = 64_usize, queues = 1_usize];
        FigureRow {
            suite: "sockets",
            case,
            peer,
            params,
            metric: "packets_per_s",
            unit: "1/s",
            samples: samples.to_vec(),
            source: None,
        }
    }

    fn find<'a>(targets: &'a [FigureTarget], what: &str) -> &'a FigureTarget {
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
        let skipped = [SkippedCase { suite: "sockets", case: NOWHERE, reason }];
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
        let of = |peer, metric, sample| FigureRow {
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
