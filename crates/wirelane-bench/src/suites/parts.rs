//! The parts of a suite, one after the other, and the time of each.

use std::time::{Duration, Instant};

use crate::estimate::Estimate;

/// The seconds of all parts, with `--quick` and in full.
pub(in crate::suites) const fn sums<const N: usize>(parts: &[[u64; N]; 2]) -> [u64; 2] {
    let (mut sums, mut part) = ([0; 2], 0);
    while part < N {
        sums = [sums[0] + parts[0][part], sums[1] + parts[1][part]];
        part += 1;
    }
    sums
}

/// Divides the time of a suite among its parts, in proportion to their usual times. Later parts get
/// the time that earlier ones did not use.
pub(in crate::suites) struct TimeShares(Estimate);

impl TimeShares {
    /// `usual` are the usual seconds of each part; 0 if a part is not wanted.
    pub(in crate::suites) fn new(usual: &[u64], limit: Option<Duration>) -> Self {
        let usual: Vec<_> = usual.iter().map(|seconds| Duration::from_secs(*seconds)).collect();
        Self(Estimate::new(&usual, limit))
    }

    /// Like [`TimeShares::new`], for the wanted parts only.
    pub(in crate::suites) fn of<const N: usize>(
        usual: &[u64; N],
        wanted: [bool; N],
        limit: Option<Duration>,
    ) -> Self {
        let wanted =
            usual.iter().zip(wanted).map(|(seconds, is_wanted)| seconds * u64::from(is_wanted));
        Self::new(&wanted.collect::<Vec<_>>(), limit)
    }

    /// The time of this part, which begins now; `None` if there is no limit.
    pub(in crate::suites) fn limit(&mut self, part: usize) -> Option<Duration> {
        self.0.begin(part, Instant::now());
        self.0.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_part_leaves_is_there_for_the_next() {
        assert_eq!(sums(&[[1, 2, 3], [10, 0, 5]]), [6, 15]);
        let mut parts = TimeShares::new(&[10, 0, 30], Some(Duration::from_secs(20)));
        assert_eq!(parts.limit(0), Some(Duration::from_secs(5)));
        // Unwanted parts get no time.
        assert!(parts.limit(2).is_some_and(|limit| limit > Duration::from_secs(19)));
        assert_eq!(TimeShares::new(&[1], None).limit(0), None);
    }
}
