//! Defines targets, and judges them from rows.

use serde::Serialize;

use crate::row::{FigureRow, SkippedCase, median, told};

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetLimit {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl TargetLimit {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// A target, and its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct FigureTarget {
    /// The suite that measures it.
    pub suite: &'static str,
    /// The figure, in words.
    pub what: String,
    /// The unit; `×` for a ratio.
    pub unit: &'static str,
    /// The limit of the median.
    pub limit: TargetLimit,
    /// One value per round.
    pub values: Vec<f64>,
    /// Their median; `None` if it was not measured.
    pub median: Option<f64>,
    /// Whether the limit is met. `None` if it was not measured, or if there are too few samples to
    /// tell.
    pub met: Option<bool>,
    /// Why the verdict is unknown.
    pub reason: Option<String>,
    /// Background of the figure, independent of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<&'static str>,
}

impl FigureTarget {
    /// Whether it was measured, but with too few samples for a verdict.
    pub fn is_unclear(&self) -> bool {
        self.median.is_some() && self.met.is_none()
    }
}

/// Whether these samples meet the limit.
fn verdict(limit: TargetLimit, values: &[f64]) -> Option<bool> {
    told(values, |value| limit.is_met(value))
}

/// The rows of a report.
#[derive(Clone, Copy)]
pub(super) struct ReportRows<'a>(pub(super) &'a [FigureRow]);

impl<'a> ReportRows<'a> {
    /// A figure under these conditions: parameters and their values as text. `None` if it was not
    /// measured.
    pub(super) fn row(
        self,
        [suite, case]: [&str; 2],
        peer: Option<&str>,
        conditions: &[(&str, &str)],
        metric: &str,
    ) -> Option<&'a FigureRow> {
        self.0.iter().find(|row| {
            (row.suite, row.case, row.peer, row.metric) == (suite, case, peer, metric)
                && conditions.iter().all(|condition| row.params.has(*condition))
        })
    }

    /// Its samples; none if it was not measured.
    pub(super) fn samples(
        self,
        of: [&str; 2],
        peer: Option<&str>,
        conditions: &[(&str, &str)],
        metric: &str,
    ) -> &'a [f64] {
        self.row(of, peer, conditions, metric).map_or(&[], |row| row.samples.as_slice())
    }
}

/// The rows, and the targets judged so far.
pub(super) struct Book<'a> {
    pub(super) rows: ReportRows<'a>,
    pub(super) skipped: &'a [SkippedCase],
    pub(super) targets: Vec<FigureTarget>,
}

impl Book<'_> {
    /// Adds a target for the ratio of two figures; `needs` as below.
    pub(super) fn ratio(
        &mut self,
        suite: &'static str,
        what: impl Into<String>,
        limit: TargetLimit,
        [ours, theirs]: [&[f64]; 2],
        needs: &[&str],
    ) {
        self.add(suite, what, "×", limit, ratios(ours, theirs), needs);
    }

    /// Adds a target. `needs` are the names of cases and programs that it depends on.
    pub(super) fn add(
        &mut self,
        suite: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        limit: TargetLimit,
        values: Vec<f64>,
        needs: &[&str],
    ) {
        let what = what.into();
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let median = median(&values);
        let met = verdict(limit, &values);
        let reason = match (median, met) {
            (None, _) => Some(self.reason(suite, needs)),
            (Some(_), None) if values.len() == 1 => Some("one sample cannot tell".to_owned()),
            (Some(_), None) => Some(format!("{} samples cannot tell", values.len())),
            (Some(_), Some(_)) => None,
        };
        let background = None;
        let target =
            FigureTarget { suite, what, unit, limit, values, median, met, reason, background };
        self.targets.push(target);
    }

    /// Adds the background of the last target.
    pub(super) fn explain(&mut self, background: &'static str) {
        if let Some(last) = self.targets.last_mut() {
            last.background = Some(background);
        }
    }

    /// Gives the last target a reason why it is not judged.
    pub(super) fn unclear_if(&mut self, is_unclear: bool, reason: &str) {
        if let (true, Some(last)) = (is_unclear, self.targets.last_mut()) {
            last.reason = Some(reason.to_owned());
        }
    }

    /// Adds a target that another command measures.
    pub(super) fn elsewhere(
        &mut self,
        suite: &'static str,
        what: &str,
        limit: TargetLimit,
        command: &str,
    ) {
        self.add(suite, what, "", limit, Vec::new(), &[]);
        if let Some(last) = self.targets.last_mut() {
            last.reason = Some(format!("it is a library, no program: {command}"));
        }
    }

    fn reason(&self, suite: &str, needs: &[&str]) -> String {
        let of_suite = || self.skipped.iter().filter(|skipped| skipped.suite == suite);
        let named = of_suite().find(|skipped| needs.contains(&skipped.case));
        match named.or_else(|| of_suite().find(|skipped| skipped.case == "all")) {
            Some(skipped) => skipped.reason.clone(),
            None if self.rows.0.iter().any(|row| row.suite == suite) => {
                "this run has no such figure; a report leaves some out that the suite alone has"
                    .to_owned()
            }
            None => format!("the suite {suite} was not run"),
        }
    }
}

/// Wirelane's figure divided by the other program's, for each round.
pub(super) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// The lowest value of each round, over the measured figures.
pub(super) fn lowest(figures: &[&[f64]]) -> Vec<f64> {
    of_rounds(figures, f64::min)
}

/// The highest value of each round, likewise.
pub(super) fn highest(figures: &[&[f64]]) -> Vec<f64> {
    of_rounds(figures, f64::max)
}

fn of_rounds(figures: &[&[f64]], choose: fn(f64, f64) -> f64) -> Vec<f64> {
    let figures = || figures.iter().filter(|samples| !samples.is_empty());
    let rounds = figures().map(|samples| samples.len()).min().unwrap_or(0);
    let of = |round: usize| figures().filter_map(move |samples| samples.get(round)).copied();
    (0..rounds).filter_map(|round| of(round).reduce(choose)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_tell_only_what_is_beyond_doubt() {
        let least = |values: &[f64]| verdict(TargetLimit::AtLeast(1.9), values);
        // Far enough on either side.
        assert_eq!(least(&[2.2, 2.3, 2.25]), Some(true));
        assert_eq!(least(&[1.5, 1.6, 1.55]), Some(false));
        // On both sides, and on one that is not far enough for how they scatter.
        assert_eq!(least(&[1.8, 2.0, 1.85]), None);
        assert_eq!(least(&[1.7, 1.89, 1.85]), None);
        assert_eq!(least(&[1.95, 2.2, 2.1]), None);
        // One sample has no known spread.
        assert_eq!(least(&[5.0]), None);
        assert_eq!(least(&[]), None);
        // Five are judged by the median.
        assert_eq!(least(&[1.7, 1.8, 1.89, 2.0, 2.1]), Some(false));
        let none = TargetLimit::AtMost(0.0);
        assert_eq!(verdict(none, &[0.0; 3]), Some(true));
        assert_eq!(verdict(none, &[0.0, 0.0, 0.01]), None);
    }
}
