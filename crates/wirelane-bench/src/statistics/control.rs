//! How fast the machine itself was while it was measured: work that never changes, between cases.
//!
//! Two runs at different times differ by what else the machine did meanwhile, above all where CPUs
//! are shared with other programs or other virtual machines. A control that does the same work in
//! both runs tells how much: what moved no more than it did has not changed. Every CPU does the
//! work at the same time, and the slowest counts, because a packet that passes two threads waits
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

/// The readings beside a suite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// Which suite.
    pub suite: &'static str,
    /// Always `ns`: of one step on the slowest CPU.
    pub unit: &'static str,
    /// The mean of all readings of a round, for every round.
    pub values: Vec<f64>,
    /// The same in CPU time, which other programs do not take away: what they do to caches and to
    /// the clock rate is in it, and how long they made us wait is not.
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
    /// Takes a reading, which belongs to this round of this suite. About a millisecond, in which
    /// nothing else of this program may run.
    pub fn read(&mut self, suite: &'static str, round: u32) {
        let words = &self.words;
        let slowest = thread::scope(|scope| {
            let on = |cpu: u32| {
                scope.spawn(move || {
                    // Unpinned it measures another CPU, which is better than nothing.
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

    /// What was read, a control for each suite.
    pub fn finish(self) -> Vec<Control> {
        let mut controls: Vec<Control> = Vec::new();
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
                    controls.push(Control {
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

/// Nanoseconds of a step on each of these CPUs, one after the other, the best of some tries; `None`
/// where no thread may run. More than [`CPUS`] are not asked.
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

/// Any numbers do, as long as they are always the same.
fn words() -> Vec<u32> {
    (0..WORDS as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect()
}

/// Nanoseconds and CPU time of a step. Every step needs the one before, and a word from memory.
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
