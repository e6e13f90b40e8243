//! The deviation of arrivals from the times in a file.

/// Figures in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DepartureErrors {
    /// The deviation of gaps between packets from the gaps in the file: median, 99th percentile and
    /// maximum.
    pub(super) gaps: [f64; 3],
    /// The same for times, relative to the median lateness.
    pub(super) times: [f64; 3],
    /// By how much the last packets are later than the first ones, compared with the file; negative
    /// if they are earlier.
    pub(super) drift: f64,
    /// The drift divided by the duration of the file.
    pub(super) stretch: f64,
}

/// Compares arrivals with a file. `None` unless there are at least two packets, and as many as in
/// the file.
pub(super) fn errors(arrivals: &[u64], file: &[u64]) -> Option<DepartureErrors> {
    if arrivals.len() != file.len() || file.len() < 2 {
        return None;
    }
    let late = |(arrival, time): (&u64, &u64)| *arrival as i64 - *time as i64;
    let lateness: Vec<i64> = arrivals.iter().zip(file).map(late).collect();
    let gaps = lateness.windows(2).filter_map(|pair| Some(pair.last()?.abs_diff(*pair.first()?)));
    let usual = median(&lateness)?;
    let times = lateness.iter().map(|late| late.abs_diff(usual));
    // Medians of several packets, because the delay of a single packet is no drift.
    let few = (lateness.len() / 20).clamp(1, 1000);
    let begin = median(lateness.get(..few)?)?;
    let end = median(lateness.get(lateness.len() - few..)?)?;
    let drift = end as f64 - begin as f64;
    let whole = file.last()?.saturating_sub(*file.first()?);
    Some(DepartureErrors {
        gaps: percentiles(gaps.collect())?,
        times: percentiles(times.collect())?,
        drift,
        stretch: drift / (whole.max(1) as f64),
    })
}

fn percentiles(mut values: Vec<u64>) -> Option<[f64; 3]> {
    values.sort_unstable();
    let at = |share: f64| values.get(((values.len() - 1) as f64 * share).round() as usize);
    Some([*at(0.5)? as f64, *at(0.99)? as f64, *values.last()? as f64])
}

fn median(values: &[i64]) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_packets_and_drift_are_told_apart() {
        let file: Vec<u64> = (0..1000).map(|number| number * 1000).collect();
        let exact: Vec<u64> = file.iter().map(|time| time + 77).collect();
        assert_eq!(errors(&exact, &file), Some(DepartureErrors::default()));
        let mut one = exact.clone();
        one[500] += 40;
        let found = errors(&one, &file).unwrap();
        assert_eq!(
            (found.times, found.gaps, found.drift),
            ([0.0, 0.0, 40.0], [0.0, 0.0, 40.0], 0.0)
        );
        // 1 % too slow.
        let slow: Vec<u64> = file.iter().map(|time| 5 + time * 101 / 100).collect();
        let found = errors(&slow, &file).unwrap();
        assert_eq!((found.gaps, found.times[2]), ([10.0; 3], 5000.0));
        assert!((9_000.0..10_000.0).contains(&found.drift) && found.stretch > 0.009, "{found:?}");
        assert_eq!(errors(&exact[1..], &file), None);
        assert_eq!(errors(&[], &[]), None);
    }
}
