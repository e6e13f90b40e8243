//! The distance of two CPUs: the time that a cache line takes from one to the other and back.
//!
//! The speed of a ring depends on the places of its two CPUs: between threads of one core it is
//! several times as fast as between two sockets. A hypervisor may move virtual CPUs, so the
//! distance is measured before and after each ring.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use wirelane_os::affinity;

/// Parts of a measurement. The median of the parts is used, so that a part with a preempted thread
/// has no effect.
const PARTS: usize = 33;
/// Round trips of a part.
const TRIPS: u32 = 256;

/// The places of two CPUs, as far as the round trip shows them.
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

    /// Classifies the nanoseconds of a round trip. Processors of the last ten years have gaps at
    /// the bounds: 10 to 25 ns within a core, 40 to 90 within a cache, 110 to 250 within a socket.
    pub(crate) fn of(round_trip_ns: f64) -> Self {
        match round_trip_ns {
            ..32.0 => Self::Core,
            ..100.0 => Self::Cache,
            ..300.0 => Self::Socket,
            _ => Self::Far,
        }
    }

    /// The name in rows.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cache => "cache",
            Self::Socket => "socket",
            Self::Far => "far",
        }
    }
}

/// A separate cache line, together with the neighbouring line that processors prefetch.
#[repr(align(128))]
struct PaddedCacheLine(AtomicU32);

/// Nanoseconds of a round trip between these CPUs. The measurement takes a millisecond or two.
pub(crate) fn round_trip_ns([here, there]: [u32; 2]) -> f64 {
    let line = PaddedCacheLine(AtomicU32::new(0));
    let start = Barrier::new(2);
    let wait_for = |value: u32| {
        while line.0.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let all = PARTS as u32 * TRIPS;
    thread::scope(|scope| {
        scope.spawn(|| {
            // If pinning fails, the scheduler chooses the CPU.
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
