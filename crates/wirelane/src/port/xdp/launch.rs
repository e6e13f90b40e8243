//! When the device is to send a packet, on its own clock.

use std::sync::Arc;

use wirelane_os::clock::DeviceClock;
use wirelane_os::ethtool::Ethtool;

use super::plan::XdpPlan;
use crate::error::{Error, Result};

/// How far the clocks may drift apart before they are compared again, as time in nanoseconds.
const COMPARED: u64 = 100_000_000;

/// Turns the times of frames into those of the device.
#[derive(Clone)]
pub(super) struct LaunchClock {
    clock: Arc<DeviceClock>,
    /// How far the device is ahead of the time of frames.
    ahead: i64,
    /// When that was seen, on the monotonic clock.
    looked: u64,
}

impl LaunchClock {
    /// Compares the clocks again, if it is time; `now` is the time on the monotonic clock.
    pub(super) fn keep(&mut self, now: u64) {
        if now.saturating_sub(self.looked) >= COMPARED {
            self.looked = now;
            // Should the device not answer, what was is the best guess.
            self.ahead = self.clock.ahead().unwrap_or(self.ahead);
        }
    }

    /// The time of the device when a frame with this time is to leave; `None` for one without.
    pub(super) fn launch(&self, timestamp: u64) -> Option<u64> {
        (timestamp != 0).then(|| timestamp.saturating_add_signed(self.ahead))
    }
}

impl XdpPlan {
    /// The clock by which the device sends.
    ///
    /// # Errors
    /// It has none, or it cannot be read.
    pub(super) fn launch_clock(&self) -> Result<LaunchClock> {
        let name = self.device.name.as_str();
        let failed = |error| Error::os(name, error).help("leave launch_time=on out");
        let number = Ethtool::open(name).and_then(|ethtool| ethtool.clock()).map_err(failed)?;
        let missing = || {
            Error::failed(name, "launch_time=on not available: the device has no clock to read")
                .help("leave it out")
        };
        let clock = DeviceClock::open(number.ok_or_else(missing)?).map_err(failed)?;
        let ahead = clock.ahead().ok_or_else(missing)?;
        Ok(LaunchClock { clock: Arc::new(clock), ahead, looked: 0 })
    }
}
