//! Ratios of Wirelane's figures to the figures of other programs under the same conditions.
//!
//! A ratio is computed within a round, before the median: a slow moment of the machine affects both
//! sides. [`crate::targets`] has the ratios that Wirelane must reach.

use serde::Serialize;

use crate::row::{Better, FigureRow, Params, median};

/// A figure of Wirelane divided by the same figure of another program.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Of both figures.
    pub suite: &'static str,
    /// Of both figures.
    pub case: &'static str,
    /// Of both figures.
    pub params: Params,
    /// Of both figures.
    pub metric: &'static str,
    /// Of both figures.
    pub unit: &'static str,
    /// The other program.
    pub peer: &'static str,
    /// Median of Wirelane.
    pub ours: f64,
    /// Median of the other program.
    pub theirs: f64,
    /// Wirelane's figure divided by the other program's, for each round.
    pub ratios: Vec<f64>,
    /// The median of these.
    pub median: f64,
    /// Whether a lower or a higher ratio is better for Wirelane.
    pub better: Better,
    /// The shares of packets that each side lost, Wirelane's first. `None` if losses were not
    /// counted.
    pub lost: Option<[f64; 2]>,
}

/// All ratios that `rows` allow: each row of another program with Wirelane's row of the same case,
/// conditions and metric.
pub fn ratios(rows: &[FigureRow]) -> Vec<Ratio> {
    let of = |row: &FigureRow| -> Option<Ratio> {
        let peer = row.peer?;
        let better = Better::of(row.metric)?;
        // In `sockets`, the time per packet is the inverse of the rate. Losses are shown with the
        // other figures.
        if row.metric.starts_with("lost_")
            || row.suite == "sockets" && row.metric == "ns_per_packet"
        {
            return None;
        }
        let ours = twin(rows, row, row.metric, None)?;
        let bound = |peer| twin(rows, row, SENDER_BOUND, peer).map_or(&[][..], |row| &row.samples);
        let ratios = unless_sent(&ours.samples, &row.samples, [bound(None), bound(Some(peer))]);
        let middle = median(&ratios).filter(|ratio| ratio.is_finite())?;
        let lost = |peer| median(&twin(rows, row, "lost_share", peer)?.samples);
        Some(Ratio {
            suite: row.suite,
            case: row.case,
            params: row.params.clone(),
            metric: row.metric,
            unit: row.unit,
            peer,
            ours: median(&ours.samples)?,
            theirs: median(&row.samples)?,
            ratios,
            median: middle,
            better,
            lost: lost(None).zip(lost(Some(peer))).map(|(ours, theirs)| [ours, theirs]),
        })
    };
    rows.iter().filter_map(of).collect()
}

/// The metric that marks the rounds in which the sender was the limit: the receiver lost nothing.
pub(super) const SENDER_BOUND: &str = "sender_bound_share";

/// Wirelane's figure divided by the other program's, round by round. A round in which both sides
/// were limited by the sender is left out: it would compare the sender with itself. `bound` marks
/// the rounds in which each side was limited, if that is known.
pub(super) fn unless_sent(ours: &[f64], theirs: &[f64], bound: [&[f64]; 2]) -> Vec<f64> {
    let is_bound = |round: usize| bound.iter().all(|of| of.get(round).is_some_and(|of| *of > 0.0));
    let rounds = ours.iter().zip(theirs).enumerate().filter(|(round, _)| !is_bound(*round));
    rounds.map(|(_, (ours, theirs))| ours / theirs).collect()
}

/// The row of this program and metric under the conditions of `row`.
fn twin<'a>(
    rows: &'a [FigureRow],
    row: &FigureRow,
    metric: &str,
    peer: Option<&str>,
) -> Option<&'a FigureRow> {
    rows.iter().find(|other| {
        (other.suite, other.case, &other.params) == (row.suite, row.case, &row.params)
            && other.metric == metric
            && other.peer == peer
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Param;

    fn row(
        peer: Option<&'static str>,
        size: u64,
        metric: &'static str,
        samples: &[f64],
    ) -> FigureRow {
        FigureRow {
            suite: "sockets",
            case: "rxdrop",
            peer,
            params: Params(vec![("size", Param::Number(size))]),
            metric,
            unit: "1/s",
            samples: samples.to_vec(),
            source: None,
        }
    }

    #[test]
    fn ratios_are_those_of_a_round() {
        let peer = Some("dpdk-testpmd");
        let rows = [
            row(None, 64, "packets_per_s", &[10.0, 30.0, 20.0]),
            row(None, 64, "lost_share", &[0.25; 3]),
            row(None, 1500, "packets_per_s", &[1.0; 3]),
            row(peer, 64, "packets_per_s", &[10.0, 20.0, 10.0]),
            row(peer, 64, "lost_share", &[0.5; 3]),
            row(peer, 9000, "packets_per_s", &[1.0; 3]),
            row(peer, 64, "packets_per_batch", &[1.0; 3]),
        ];
        let ratios = ratios(&rows);
        let [ratio] = ratios.as_slice() else { panic!("{ratios:?}") };
        assert_eq!((ratio.ours, ratio.theirs, ratio.median), (20.0, 10.0, 1.5));
        assert_eq!(ratio.ratios, [1.0, 1.5, 2.0]);
        assert_eq!(ratio.lost, Some([0.25, 0.5]));
    }

    #[test]
    fn a_sender_is_not_compared_with_itself() {
        let peer = Some("tcpdump");
        let rows = |ours: &[f64], theirs: &[f64]| {
            [
                row(None, 64, "packets_per_s", &[4.0, 3.0, 2.0]),
                row(None, 64, SENDER_BOUND, ours),
                row(peer, 64, "packets_per_s", &[1.0; 3]),
                row(peer, 64, SENDER_BOUND, theirs),
            ]
        };
        // One of them was at its limit in the last two rounds.
        let one = ratios(&rows(&[1.0, 1.0, 0.0], &[1.0, 0.0, 0.0]));
        assert_eq!(one[0].ratios, [3.0, 2.0]);
        assert!(ratios(&rows(&[1.0; 3], &[1.0; 3])).is_empty());
    }

    #[test]
    fn what_is_not_both_there_has_no_ratio() {
        let peer = Some("dpdk-testpmd");
        assert!(ratios(&[row(peer, 64, "packets_per_s", &[1.0])]).is_empty());
        let rows = [row(None, 64, "packets_per_s", &[]), row(peer, 64, "packets_per_s", &[1.0])];
        assert!(ratios(&rows).is_empty());
        let rows = [
            row(None, 64, "cpu_ns_per_packet", &[1.0]),
            row(peer, 64, "cpu_ns_per_packet", &[0.0]),
        ];
        assert!(ratios(&rows).is_empty());
    }
}
