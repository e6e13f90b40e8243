//! How far two CPUs are from each other, by what a cache line takes from one to the other and back.
//!
//! A ring between two CPUs has a pace for each place where they can lie: as threads of a core it is
//! several times as fast as on two sockets. The CPUs of a virtual machine move, so the way is
//! measured before and after a ring is.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use wirelane_os::affinity;

/// Parts of a measurement, of which the median counts: one in which a thread was preempted does
/// not.
const PARTS: usize = 33;
/// Ways there and back of a part.
const TRIPS: u32 = 256;

/// Where two CPUs lie, as far as the way between them tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Threads of one core.
    Core,
    /// Cores that share a cache.
    Cache,
    /// Cores of one socket.
    Socket,
    /// Further away.
    Far,
}

impl Distance {
    pub(crate) const ALL: [Self; 4] = [Self::Core, Self::Cache, Self::Socket, Self::Far];

    /// By the nanoseconds of a way there and back. The bounds lie where processors of the last ten
    /// years have gaps: 10 to 25 ns within a core, 40 to 90 within a cache, 110 to 250 within a
    /// socket.
    pub(crate) fn of(round_trip_ns: f64) -> Self {
        match round_trip_ns {
            ..32.0 => Self::Core,
            ..100.0 => Self::Cache,
            ..300.0 => Self::Socket,
            _ => Self::Far,
        }
    }

    /// As in rows.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cache => "cache",
            Self::Socket => "socket",
            Self::Far => "far",
        }
    }
}

/// A line of its own, and none of its neighbours, which are fetched with it.
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds of a way between these CPUs, there and back; a millisecond or two.
pub(crate) fn round_trip_ns([here, there]: [u32; 2]) -> f64 {
    let line = Line(AtomicU32::new(0));
    let start = Barrier::new(2);
    let wait_for = |value: u32| {
        while line.0.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let all = PARTS as u32 * TRIPS;
    thread::scope(|scope| {
        scope.spawn(|| {
            // A machine that does not let us choose has its scheduler's choice.
            let _ = affinity::pin(there);
            start.wait();
            for trip in 0..all {
                wait_for(2 * trip + 1);
                line.0.store(2 * trip + 2, Ordering::Release);
            }
        });
        let measure = || {
            let _ = affinity::pin(here);
            start.wait();
            let mut trips = 0..all;
            let mut parts = [(); PARTS].map(|()| {
                let begin = Instant::now();
                for trip in trips.by_ref().take(TRIPS as usize) {
                    line.0.store(2 * trip + 1, Ordering::Release);
                    wait_for(2 * trip + 2);
                }
                begin.elapsed().as_nanos() as f64 / f64::from(TRIPS)
            });
            parts.sort_by(f64::total_cmp);
            parts[PARTS / 2]
        };
        scope.spawn(measure).join().unwrap_or(f64::NAN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_there_and_back_takes_its_time() {
        let cpus = affinity::allowed_cpus().unwrap();
        let [here, there, ..] = cpus[..] else { return };
        let ns = round_trip_ns([here, there]);
        // No two threads exchange anything in a cycle or two. On a busy machine they wait for each
        // other.
        assert!(ns > 2.0 && ns.is_finite(), "{ns}");
    }

    #[test]
    fn each_way_has_its_place() {
        let names = [15.0, 60.0, 180.0, 500.0].map(|ns| Distance::of(ns).as_str());
        assert_eq!(names, Distance::ALL.map(Distance::as_str));
        assert_eq!(names, ["core", "cache", "socket", "far"]);
    }
}
