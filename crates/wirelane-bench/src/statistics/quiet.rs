//! The CPU for work that is measured on a single thread.
//!
//! A thread that is migrated or interrupted is slower by a third or more, and CPUs differ: a core
//! may share its caches with a neighbour, or have a lower clock rate. So the work runs on a
//! separate thread, pinned to the fastest CPU. Among equally fast CPUs, it is the CPU with the
//! fewest device interrupts. The calling thread sleeps and is not pinned.

use std::fs;
use std::panic::resume_unwind;
use std::thread;

use serde::Serialize;
use wirelane_os::affinity;

use super::control;
use wirelane::error::{Error, Result};

/// CPUs are equally fast if their pace differs by less than this factor.
const ALIKE: f64 = 1.03;

/// A CPU, and the reasons to choose it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quiet {
    /// Its number.
    pub cpu: u32,
    /// Nanoseconds of a step of work that never changes, when it was chosen; `None` if that could
    /// not be measured.
    pub step_ns: Option<f64>,
    /// Device interrupts that it has served since boot; `None` if the kernel does not report them.
    pub interrupts: Option<u64>,
}

impl Quiet {
    /// Chooses the fastest of the CPUs that this thread may use. They are measured one after the
    /// other, for some milliseconds each. Among equally fast CPUs it takes the CPU with the fewest
    /// device interrupts (`/proc/interrupts`), and among those the last, because most work starts
    /// on the first CPU. `None` if the system lists no CPU.
    pub fn choose() -> Option<Self> {
        let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let allowed = affinity::allowed_cpus().ok()?;
        Self::among(&control::paces(&allowed), &text)
    }

    fn among(paces: &[(u32, Option<f64>)], interrupts: &str) -> Option<Self> {
        let served = served(interrupts);
        let of = |cpu: u32| served.iter().find(|(other, _)| *other == cpu).map(|(_, count)| *count);
        let all = paces.iter().map(|(cpu, step_ns)| Self {
            cpu: *cpu,
            step_ns: *step_ns,
            interrupts: of(*cpu),
        });
        let best = paces.iter().filter_map(|(_, pace)| *pace).reduce(f64::min);
        let is_fast = |quiet: &Self| match (best, quiet.step_ns) {
            (Some(best), Some(own)) => own <= best * ALIKE,
            (best, _) => best.is_none(),
        };
        // `min_by_key` takes the first of several minima. A CPU without a count is the last choice.
        all.rev().filter(is_fast).min_by_key(|quiet| quiet.interrupts.unwrap_or(u64::MAX))
    }

    /// Runs `work` on this CPU, in a new thread.
    ///
    /// # Errors
    /// The thread cannot be pinned to the CPU, for example because it is offline.
    pub fn run<T: Send>(self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let pinned = || {
                let cpu = self.cpu;
                affinity::pin(cpu).map_err(|error| Error::os(format!("CPU {cpu}"), error))?;
                Ok(work())
            };
            scope.spawn(pinned).join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// How many device interrupts each CPU has served. Device interrupts have numbers.
fn served(text: &str) -> Vec<(u32, u64)> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split_whitespace();
    let mut sums: Vec<(u32, u64)> =
        names.filter_map(|name| Some((name.strip_prefix("CPU")?.parse().ok()?, 0))).collect();
    for line in lines {
        let Some((number, counts)) = line.split_once(':') else { continue };
        if number.trim().parse::<u32>().is_err() {
            continue;
        }
        for ((_, sum), count) in sums.iter_mut().zip(counts.split_whitespace()) {
            *sum = sum.saturating_add(count.parse().unwrap_or(0));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "           CPU0       CPU1       CPU3\n\
        \x2024:          1          7          0  IO-APIC   5-edge      ACPI:Ged\n\
        \x2038:       9000       3165          4 PCI-MSIX-0000:00:03.0   1-edge  virtio2-input.0\n\
        \x2040:          0          0          0\n\
        NMI:          0          0      99999   Non-maskable interrupts\n\
        ERR:          0\n";

    #[test]
    fn the_cpu_with_the_fewest_interrupts_of_devices_is_taken() {
        assert_eq!(served(RECORDED), [(0, 9001), (1, 3172), (3, 4)]);
        let alike = |cpus: &[u32]| cpus.iter().map(|cpu| (*cpu, Some(1.0))).collect::<Vec<_>>();
        let quiet = |cpu, interrupts| Some(Quiet { cpu, step_ns: Some(1.0), interrupts });
        let among = |allowed: &[u32]| Quiet::among(&alike(allowed), RECORDED);
        assert_eq!(among(&[0, 1, 3]), quiet(3, Some(4)));
        assert_eq!(among(&[0, 1]), quiet(1, Some(3172)));
        assert_eq!(among(&[0, 2]), quiet(0, Some(9001)));
        assert_eq!(among(&[]), None);
        // The last CPU, if there are no counts or all counts are equal.
        assert_eq!(Quiet::among(&alike(&[0, 1]), ""), quiet(1, None));
        let same = "CPU0 CPU1 CPU2\n1: 5 5 6 x\n";
        assert_eq!(Quiet::among(&alike(&[0, 1, 2]), same), quiet(1, Some(5)));
    }

    #[test]
    fn the_fastest_cpu_is_taken_whoever_serves_interrupts() {
        let among = |paces: &[(u32, Option<f64>)]| Quiet::among(paces, RECORDED).unwrap().cpu;
        assert_eq!(among(&[(0, Some(1.0)), (1, Some(1.3)), (3, Some(1.1))]), 0);
        assert_eq!(among(&[(0, Some(1.0)), (1, Some(1.02)), (3, Some(1.1))]), 1);
        assert_eq!(among(&[(0, None), (1, Some(2.0))]), 1);
        // Nothing is known of any.
        assert_eq!(among(&[(0, None), (1, None)]), 1);
        let chosen = Quiet::choose().unwrap();
        assert!(chosen.step_ns.is_some_and(|ns| ns > 0.0), "{chosen:?}");
    }

    #[test]
    fn work_is_pinned_and_whoever_waits_is_not() {
        let before = affinity::allowed_cpus().unwrap();
        let quiet = Quiet::choose().unwrap();
        let during = quiet.run(|| affinity::allowed_cpus().unwrap()).unwrap();
        assert_eq!(during, [quiet.cpu]);
        assert_eq!(affinity::allowed_cpus().unwrap(), before);
        let gone = Quiet { cpu: 1023, step_ns: None, interrupts: None };
        assert!(gone.run(|| ()).unwrap_err().to_string().contains("CPU 1023"));
    }
}
