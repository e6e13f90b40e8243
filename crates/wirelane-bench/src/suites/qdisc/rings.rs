//! Measures Wirelane's ring and DPDK's in turns. Figures between two CPUs are compared only if the
//! distance of the CPUs was equal.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wirelane::internal::ring::{Multi, Single};

use super::bench::SUITE;
use super::distance::{Distance, round_trip_ns};
use super::ring::{bulk_two_cores, pair_one_core};
use super::rte_ring::{self, RingFigure};
use crate::machine::Machine;
use crate::report::BenchReport;
use crate::row::{FigureRow, RowSubject, median, params};

const PEER: &str = "rte_ring";
const PAIRS: usize = 1 << 19;
/// Batches through a ring, as many as in DPDK's test.
const BATCHES: usize = 1 << 15;
/// How long DPDK's test may take; a few seconds are usual.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// The CPUs of DPDK's test, and of this one.
const CPUS: [u32; 2] = [0, 1];
/// How often a measurement is repeated because the CPUs have moved.
const ATTEMPTS: usize = 3;
/// Round trips between CPUs that do not move differ by a smaller factor from one measurement to the
/// next.
const ALIKE: f64 = 1.5;

/// A figure of a ring, and the function that measures it.
type RingCase = (RingFigure, fn() -> f64);

const RINGS: [RingCase; 6] = [
    (RingFigure::Pair { multi: false }, || pair_one_core::<Single, Single>(PAIRS)),
    (RingFigure::Pair { multi: true }, || pair_one_core::<Multi, Multi>(PAIRS)),
    (RingFigure::TwoCores { multi: false, bulk: 8 }, || {
        bulk_two_cores::<Single, Single>(BATCHES * 8, 8)
    }),
    (RingFigure::TwoCores { multi: true, bulk: 8 }, || {
        bulk_two_cores::<Multi, Multi>(BATCHES * 8, 8)
    }),
    (RingFigure::TwoCores { multi: false, bulk: 32 }, || {
        bulk_two_cores::<Single, Single>(BATCHES * 32, 32)
    }),
    (RingFigure::TwoCores { multi: true, bulk: 32 }, || {
        bulk_two_cores::<Multi, Multi>(BATCHES * 32, 32)
    }),
];

/// A figure of a round. `apart` is the distance of the CPUs, if there were two.
#[derive(Clone, Copy, Debug)]
struct RingSample {
    round: u32,
    figure: RingFigure,
    apart: Option<Distance>,
    value: f64,
}

/// Wirelane's ring and DPDK's, in cycles.
pub(super) struct RingPair {
    cycles: Option<f64>,
    ours: Vec<RingSample>,
    peers: Vec<RingSample>,
    /// Nanoseconds of each measured round trip, with the round.
    round_trips: Vec<(u32, f64)>,
    /// The first round trip of the current round. Only figures at this distance count.
    place: Option<(u32, f64)>,
    /// Why the peer is not measured, or no longer.
    missing: Option<String>,
    /// A producer and a consumer can run at the same time.
    two_cores: bool,
    /// Whether figures were left out because the CPUs moved.
    have_moved: bool,
}

impl RingPair {
    pub(super) fn new(machine: &Machine) -> Self {
        let cycles = machine.cycles_per_ns;
        let two_cores = machine.cores >= 2;
        let missing = match (cycles, two_cores) {
            (None, _) => Some("there is no cycle counter to compare by".into()),
            (_, false) => Some("it needs two CPUs".into()),
            _ => None,
        };
        Self {
            cycles,
            ours: Vec::new(),
            peers: Vec::new(),
            round_trips: Vec::new(),
            place: None,
            missing,
            two_cores,
            have_moved: false,
        }
    }

    /// The user did not ask for the peer.
    pub(super) fn leave_peer_out(&mut self) {
        self.missing = Some("not asked for".into());
    }

    pub(super) fn measure(&mut self, round: u32) {
        let cycles = self.cycles.unwrap_or(1.0);
        for (figure, measure) in RINGS {
            if let RingFigure::Pair { .. } = figure {
                let value = measure() * cycles;
                self.ours.push(RingSample { round, figure, apart: None, value });
            } else if self.two_cores {
                let found = self.in_place(round, measure);
                let sample = |(value, apart)| RingSample {
                    round,
                    figure,
                    apart: Some(apart),
                    value: value * cycles,
                };
                self.ours.extend(found.map(sample));
            }
        }
    }

    /// Once it has failed it is not tried again.
    pub(super) fn measure_peer(&mut self, round: u32, stop: &AtomicBool) {
        if self.missing.is_some() {
            return;
        }
        let before = self.apart(round);
        match rte_ring::measure(PEER_TIMEOUT, stop) {
            Ok(figures) => {
                // The distance before and after, if it is the distance of the round.
                let apart = before.filter(|_| self.apart(round).is_some());
                self.have_moved |= apart.is_none();
                for (figure, value) in figures {
                    match figure {
                        RingFigure::Pair { .. } => {
                            self.peers.push(RingSample { round, figure, apart: None, value });
                        }
                        RingFigure::TwoCores { .. } if apart.is_some() => {
                            self.peers.push(RingSample { round, figure, apart, value });
                        }
                        RingFigure::TwoCores { .. } => {}
                    }
                }
            }
            Err(reason) => self.missing = Some(reason),
        }
    }

    /// A figure, and the distance of the CPUs before and after it. `None` if the CPUs do not stay
    /// at the distance of the round's start.
    fn in_place(&mut self, round: u32, measure: fn() -> f64) -> Option<(f64, Distance)> {
        for _ in 0..ATTEMPTS {
            let before = self.apart(round);
            let value = measure();
            if let Some(apart) = before.filter(|_| self.apart(round).is_some()) {
                return Some((value, apart));
            }
        }
        self.have_moved = true;
        None
    }

    /// The distance of the CPUs, from the first round trip of the round. `None` if the CPUs have
    /// moved since.
    fn apart(&mut self, round: u32) -> Option<Distance> {
        let now = round_trip_ns(CPUS);
        self.round_trips.push((round, now));
        let first = match self.place {
            Some((of, first)) if of == round => first,
            _ => now,
        };
        self.place = Some((round, first));
        is_alike(first, now).then(|| Distance::of(first))
    }

    pub(super) fn finish(self, report: &mut BenchReport) {
        let is_in_cycles = self.cycles.is_some();
        if !self.round_trips.is_empty() {
            let params = params![cores = 2_u64];
            let cpus = RowSubject { suite: SUITE, case: "cpus", peer: None, params };
            report.rows.push(cpus.row("round_trip_ns", by_round(&self.round_trips)));
        }
        for (figure, _) in RINGS {
            for apart in [None].into_iter().chain(Distance::ALL.map(Some)) {
                let of = |from: &[RingSample]| -> Vec<RingSample> {
                    let is_it = |one: &&RingSample| one.figure == figure && one.apart == apart;
                    from.iter().filter(is_it).copied().collect()
                };
                let (mut ours, mut theirs) = (of(&self.ours), of(&self.peers));
                pair(&mut ours, &mut theirs);
                for (peer, samples) in [(None, ours), (Some(PEER), theirs)] {
                    let samples: Vec<_> = samples.iter().map(|sample| sample.value).collect();
                    if !samples.is_empty() {
                        report.rows.push(ring_row((figure, apart), peer, is_in_cycles, samples));
                    }
                }
            }
        }
        if !self.two_cores {
            let reason = "two cores: the machine has one".into();
            report.skip(SUITE, "mpmc", reason);
        }
        if self.have_moved {
            let reason = "the CPUs moved further apart or closer together meanwhile: such figures \
                          are left out";
            report.skip(SUITE, "cpus", reason.to_owned());
        }
        let too_late = || "the run was ended first".to_owned();
        let reason = self.missing.or_else(|| self.peers.is_empty().then(too_late));
        if let Some(reason) = reason {
            report.skip(SUITE, PEER, reason);
        }
    }
}

fn is_alike(one: f64, other: f64) -> bool {
    one.max(other) <= one.min(other) * ALIKE
}

/// The median of each round.
fn by_round(values: &[(u32, f64)]) -> Vec<f64> {
    let of_round = |of: &[(u32, f64)]| {
        let values: Vec<_> = of.iter().map(|(_, value)| *value).collect();
        median(&values)
    };
    values.chunk_by(|(round, _), (next, _)| round == next).filter_map(of_round).collect()
}

/// Ratios are computed within a round. Wirelane's rounds without the peer are moved to the end, and
/// the peer's rounds without Wirelane are removed.
fn pair(ours: &mut [RingSample], theirs: &mut Vec<RingSample>) {
    let has = |of: &[RingSample], round| of.iter().any(|sample| sample.round == round);
    theirs.retain(|sample| has(ours, sample.round));
    ours.sort_by_key(|sample| (!has(theirs, sample.round), sample.round));
}

fn ring_row(
    (figure, apart): (RingFigure, Option<Distance>),
    peer: Option<&'static str>,
    is_in_cycles: bool,
    samples: Vec<f64>,
) -> FigureRow {
    let (multi, cores, bulk, metrics) = match figure {
        RingFigure::Pair { multi } => (multi, 1_u64, 1, ["ns_per_pair", "cycles_per_pair"]),
        RingFigure::TwoCores { multi, bulk } => {
            (multi, 2, bulk, ["ns_per_element", "cycles_per_element"])
        }
    };
    let case = if multi { "mpmc" } else { "spsc" };
    let apart = apart.map(|apart| ("apart", apart.as_str().into()));
    let params = params![cores = cores, bulk = bulk].and(apart);
    let subject = RowSubject { suite: SUITE, case, peer, params };
    subject.row(metrics[usize::from(is_in_cycles)], samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: RingFigure = RingFigure::TwoCores { multi: true, bulk: 32 };

    fn rings(ours: &[(u32, Distance, f64)], peers: &[(u32, Distance, f64)]) -> BenchReport {
        let of = |samples: &[(u32, Distance, f64)]| {
            let sample = |(round, apart, value): &(u32, Distance, f64)| RingSample {
                round: *round,
                figure: FIGURE,
                apart: Some(*apart),
                value: *value,
            };
            samples.iter().map(sample).collect()
        };
        let rings = RingPair {
            cycles: Some(2.0),
            ours: of(ours),
            peers: of(peers),
            round_trips: vec![(1, 20.0), (1, 30.0), (1, 90.0), (2, 25.0)],
            place: None,
            missing: None,
            two_cores: true,
            have_moved: false,
        };
        let mut report = BenchReport::new("test".into());
        rings.finish(&mut report);
        report.finish();
        report
    }

    #[test]
    fn only_what_was_equally_far_apart_is_compared() {
        use Distance::{Cache, Core};
        let report = rings(
            &[(1, Cache, 40.0), (2, Core, 10.0), (3, Core, 11.0), (4, Core, 12.0)],
            &[(1, Core, 8.0), (3, Core, 22.0), (4, Core, 6.0)],
        );
        let ratios: Vec<_> = report.ratios.iter().map(|ratio| ratio.ratios.clone()).collect();
        // Ratios of rounds 3 and 4. In round 1 the distances differed, and round 2 has one side
        // only.
        assert_eq!(ratios, [[0.5, 2.0]]);
        let target = |report: &BenchReport| {
            let what = "Ring, many to many, 32 at a time, two cores";
            let mut targets = report.targets.iter();
            targets.find(|target| target.what.starts_with(what)).unwrap().values.clone()
        };
        assert_eq!(target(&report), [0.5, 2.0]);
        let apart = rings(&[(1, Cache, 40.0)], &[(1, Core, 8.0)]);
        assert!(apart.ratios.is_empty() && target(&apart).is_empty());
        let mut rows = apart.rows.iter();
        let way = rows.find(|row| row.metric == "round_trip_ns").unwrap();
        assert_eq!(way.samples, [30.0, 25.0]);
        // Values on both sides of a bound may be the same distance.
        assert!(is_alike(85.0, 105.0) && is_alike(105.0, 85.0));
        assert!(!is_alike(40.0, 160.0) && !is_alike(160.0, 40.0));
    }
}
