//! The machine that produced the figures.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use wirelane_os::{affinity, clock, machine};

/// The machine that produced the figures. An unknown value is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name.
    pub cpu: Option<String>,
    /// CPUs online.
    pub cores: u32,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Ticks of the time stamp counter per nanosecond, measured: the "cycles" of the rows.
    pub cycles_per_ns: Option<f64>,
}

impl Machine {
    /// Reads and measures; takes 20 ms.
    pub fn read() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            cpu: machine::cpu_model(),
            cores: affinity::online_cpus(),
            kernel: kernel.map(|text| text.trim().to_owned()),
            cycles_per_ns: ticks_per_ns(),
        }
    }
}

/// Ticks of the time stamp counter per nanosecond, measured for 20 ms; `None` without one.
pub fn ticks_per_ns() -> Option<f64> {
    let (ticks, begin) = (clock::ticks()?, Instant::now());
    while begin.elapsed() < Duration::from_millis(20) {}
    let (after, passed) = (clock::ticks()?, begin.elapsed());
    Some(after.wrapping_sub(ticks) as f64 / passed.as_nanos() as f64)
}
