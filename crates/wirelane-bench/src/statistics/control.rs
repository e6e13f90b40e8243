//! The control: fixed work that shows how fast the machine was, measured between cases.
//!
//! The load of the machine differs between two runs, above all if CPUs are shared with other
//! programs or other virtual machines. The control does the same work in both runs and shows the
//! difference: a figure that changed no more than the control has not changed. All CPUs do the work
//! at the same time. The slowest one counts, because a packet that passes through two threads waits
//! for the slower one.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

use serde::Serialize;
use wirelane_os::{affinity, clock};

/// Steps of one reading: half a millisecond to two.
const STEPS: u32 = 1 << 18;
/// Words that the steps wander through: more than the first cache has, less than the second.
const WORDS: usize = 1 << 15;
/// CPUs that take part, at most.
const CPUS: usize = 16;

/// The readings during a suite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlReadings {
    /// Which suite.
    pub suite: &'static str,
    /// Always `ns`: the time of one step on the slowest CPU.
    pub unit: &'static str,
    /// The mean of all readings of a round, for every round.
    pub values: Vec<f64>,
    /// The same in CPU time. It includes the effect of other programs on caches and clock rate, and
    /// excludes the time spent waiting for a CPU.
    pub cpu: Vec<f64>,
}

/// Takes readings.
#[derive(Debug)]
pub struct Controller {
    cpus: Vec<u32>,
    words: Vec<u32>,
    readings: BTreeMap<(&'static str, u32), Vec<[f64; 2]>>,
}

impl Default for Controller {
    fn default() -> Self {
        let mut cpus = affinity::allowed_cpus().unwrap_or_default();
        cpus.truncate(CPUS);
        Self { cpus, words: words(), readings: BTreeMap::new() }
    }
}

impl Controller {
    /// Takes a reading for this round of this suite. It takes about a millisecond. No other thread
    /// of this program may work at the same time.
    pub fn read(&mut self, suite: &'static str, round: u32) {
        let words = &self.words;
        let slowest = thread::scope(|scope| {
            let on = |cpu: u32| {
                scope.spawn(move || {
                    // An unpinned thread may measure another CPU, but still gives a reading.
                    let _ = affinity::pin(cpu);
                    step_ns(words)
                })
            };
            let threads: Vec<_> = self.cpus.iter().map(|cpu| on(*cpu)).collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .reduce(|[wall, cpu], [more, own]| [wall.max(more), cpu.max(own)])
        });
        if let Some(slowest) = slowest {
            self.readings.entry((suite, round)).or_default().push(slowest);
        }
    }

    /// The readings, one control per suite.
    pub fn finish(self) -> Vec<ControlReadings> {
        let mut controls: Vec<ControlReadings> = Vec::new();
        for ((suite, _), readings) in self.readings {
            let mean = |of: fn(&[f64; 2]) -> f64| {
                readings.iter().map(of).sum::<f64>() / readings.len().max(1) as f64
            };
            let (wall, cpu) = (mean(|[wall, _]| *wall), mean(|[_, cpu]| *cpu));
            match controls.last_mut().filter(|control| control.suite == suite) {
                Some(control) => {
                    control.values.push(wall);
                    control.cpu.push(cpu);
                }
                None => {
                    controls.push(ControlReadings {
                        suite,
                        unit: "ns",
                        values: vec![wall],
                        cpu: vec![cpu],
                    });
                }
            }
        }
        controls
    }
}

/// Nanoseconds of a step on each of these CPUs, measured one after the other: the best of several
/// tries. `None` if no thread can be pinned to the CPU, and for CPUs beyond the first [`CPUS`].
pub(super) fn paces(cpus: &[u32]) -> Vec<(u32, Option<f64>)> {
    const TRIES: usize = 5;
    let words = &words();
    let on = |cpu: u32| {
        affinity::pin(cpu).ok()?;
        (0..TRIES).map(|_| step_ns(words)[0]).reduce(f64::min)
    };
    let pace = |(position, cpu): (usize, &u32)| {
        let pace = || thread::scope(|scope| scope.spawn(|| on(*cpu)).join().ok().flatten());
        (*cpu, (position < CPUS).then(pace).flatten())
    };
    cpus.iter().enumerate().map(pace).collect()
}

/// The values do not matter, but must never change.
fn words() -> Vec<u32> {
    (0..WORDS as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect()
}

/// Nanoseconds and CPU time of a step. Every step depends on the previous one and on a word from
/// memory.
fn step_ns(words: &[u32]) -> [f64; 2] {
    let (used, begin) = (clock::thread_cpu_ns(), Instant::now());
    let mut state = 1_u32;
    for _ in 0..STEPS {
        let word = words.get(state as usize % WORDS).copied().unwrap_or(0);
        state = state.wrapping_mul(1_664_525).wrapping_add(word | 1);
    }
    black_box(state);
    let times = [begin.elapsed().as_nanos() as u64, clock::thread_cpu_ns() - used];
    times.map(|time| time as f64 / f64::from(STEPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_one_value() {
        let mut controller = Controller::default();
        for (suite, round) in [("qdisc", 1), ("qdisc", 1), ("qdisc", 2), ("filter", 1)] {
            controller.read(suite, round);
        }
        let controls = controller.finish();
        let of = |suite| controls.iter().find(|control| control.suite == suite).unwrap();
        assert_eq!((of("qdisc").values.len(), of("filter").values.len()), (2, 1));
        for control in &controls {
            assert_eq!(control.values.len(), control.cpu.len());
            // No CPU is faster than the clock on the wall; both are of the slowest CPU.
            assert!(control.cpu.iter().all(|cpu| *cpu > 0.0), "{control:?}");
        }
    }
}
