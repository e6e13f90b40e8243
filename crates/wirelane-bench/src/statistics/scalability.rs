//! The Universal Scalability Law, fitted to measured rates: predicts the gain of more cores.
//!
//! Gunther's law (*Guerrilla Capacity Planning*, 2007) says of `n` workers
//!
//! ```text
//!                 rate · n
//!   X(n) = ─────────────────────────     contention: the share that only one can do at a time
//!          1 + c·(n−1) + k·n·(n−1)       coherence: what any two of them cost each other
//! ```
//!
//! `n / X(n)` is linear in `1/rate`, `c/rate` and `k/rate`, so least squares find them. Neither `c`
//! nor `k` can be negative: the fit is repeated without either and without both, and the best valid
//! fit is used. Two points determine only one of them; then contention is fitted.

/// A law that fits some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalability {
    /// Rate of one worker alone.
    pub rate: f64,
    /// Contention, as a share of the work.
    pub contention: f64,
    /// Coherence, as a share of the work per pair of workers.
    pub coherence: f64,
}

impl Scalability {
    /// Fits the law to points of (workers, rate); `None` with fewer than two numbers of workers, or
    /// with a rate that is not positive.
    pub fn fit(points: &[(u32, f64)]) -> Option<Self> {
        let valid = |(n, rate): &(u32, f64)| *n > 0 && rate.is_finite() && *rate > 0.0;
        let mut counts: Vec<u32> = points.iter().map(|(n, _)| *n).collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.len() < 2 || !points.iter().all(valid) {
            return None;
        }
        let subsets: &[&[usize]] = if counts.len() == 2 {
            &[&[0, 1], &[0]]
        } else {
            &[&[0, 1, 2], &[0, 1], &[0, 2], &[0]]
        };
        let fits = subsets.iter().filter_map(|terms| solve(points, terms));
        let best = fits.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (_, [slowness, contention, coherence]) = best?;
        Some(Self {
            rate: 1.0 / slowness,
            contention: contention / slowness,
            coherence: coherence / slowness,
        })
    }

    /// The rate of `workers`.
    pub fn rate_of(&self, workers: u32) -> f64 {
        let n = f64::from(workers);
        let lost = self.contention * (n - 1.0) + self.coherence * n * (n - 1.0);
        self.rate * n / (1.0 + lost)
    }

    /// The share of the time that `workers` spend waiting for each other.
    pub fn lost_share(&self, workers: u32) -> f64 {
        1.0 - self.rate_of(workers) / (self.rate * f64::from(workers))
    }
}

/// The regressors of `n / X(n)`.
fn terms_of(n: u32) -> [f64; 3] {
    let n = f64::from(n);
    [1.0, n - 1.0, n * (n - 1.0)]
}

/// Least squares with some of the terms: the sum of squared relative errors, and the coefficients.
/// `None` if one of them is negative or the terms are dependent.
fn solve(points: &[(u32, f64)], terms: &[usize]) -> Option<(f64, [f64; 3])> {
    let size = terms.len();
    // Normal equations, weighted so that errors are relative to each point's own time.
    let mut matrix = [[0.0; 4]; 3];
    for (n, rate) in points {
        let time = f64::from(*n) / rate;
        let all = terms_of(*n);
        for (i, a) in terms.iter().enumerate() {
            for (j, b) in terms.iter().enumerate() {
                matrix[i][j] += all[*a] * all[*b] / (time * time);
            }
            matrix[i][size] += all[*a] / time;
        }
    }
    // Gauss and Jordan; the matrix is positive definite unless the terms are dependent.
    for pivot in 0..size {
        let value = matrix[pivot][pivot];
        if value.abs() < f64::EPSILON {
            return None;
        }
        matrix[pivot].iter_mut().for_each(|cell| *cell /= value);
        let row = matrix[pivot];
        for other in (0..size).filter(|other| *other != pivot) {
            let factor = matrix[other][pivot];
            for (cell, own) in matrix[other].iter_mut().zip(row) {
                *cell -= factor * own;
            }
        }
    }
    let mut coefficients = [0.0; 3];
    for (i, term) in terms.iter().enumerate() {
        coefficients[*term] = matrix[i][size];
    }
    if coefficients[0] <= 0.0 || coefficients.iter().any(|value| *value < 0.0) {
        return None;
    }
    let error = points.iter().map(|(n, rate)| {
        let time = f64::from(*n) / rate;
        let fitted: f64 = terms_of(*n).iter().zip(coefficients).map(|(a, b)| a * b).sum();
        ((fitted - time) / time).powi(2)
    });
    Some((error.sum(), coefficients))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: Scalability, counts: &[u32]) -> Vec<(u32, f64)> {
        counts.iter().map(|n| (*n, law.rate_of(*n))).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1e-3)
    }

    #[test]
    fn the_law_is_found_again() {
        for (contention, coherence) in [(0.0, 0.0), (0.05, 0.0), (0.0, 0.01), (0.03, 0.002)] {
            let law = Scalability { rate: 7e6, contention, coherence };
            let found = Scalability::fit(&points(law, &[1, 2, 4, 8])).unwrap();
            assert!(close(found.rate, 7e6), "{found:?}");
            assert!(
                close(found.contention, contention) && close(found.coherence, coherence),
                "{found:?}"
            );
        }
    }

    #[test]
    fn two_points_tell_contention_only() {
        let law = Scalability { rate: 1.0, contention: 0.1, coherence: 0.0 };
        let found = Scalability::fit(&points(law, &[1, 2])).unwrap();
        assert!(close(found.contention, 0.1) && found.coherence == 0.0, "{found:?}");
        // Amdahl: never more than 1 / contention.
        assert!(found.rate_of(1000) < 10.0 && found.rate_of(1000) > 9.8);
        assert!(close(found.lost_share(2), 1.0 - 1.0 / 1.1));
    }

    #[test]
    fn more_than_linear_is_taken_as_linear() {
        let found = Scalability::fit(&[(1, 1.0), (2, 2.2)]).unwrap();
        assert_eq!((found.contention, found.coherence), (0.0, 0.0));
        assert!(found.rate_of(4) > 3.9 && found.rate_of(4) < 4.5);
    }

    #[test]
    fn too_little_is_no_law() {
        for points in [&[][..], &[(1, 5.0)], &[(2, 5.0), (2, 5.1)], &[(1, 0.0), (2, 1.0)]] {
            assert_eq!(Scalability::fit(points), None, "{points:?}");
        }
    }
}
