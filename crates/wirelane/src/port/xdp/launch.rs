//! When the device sends a packet, on its own clock.

use std::sync::Arc;

use wirelane_os::clock::DeviceClock;
use wirelane_os::ethtool::Ethtool;

use super::plan::XdpPlan;
use crate::error::{Error, Result};

/// Time between two comparisons of the clocks, in nanoseconds.
const COMPARED: u64 = 100_000_000;

/// Converts the times of frames to times of the device.
#[derive(Clone)]
pub(super) struct LaunchClock {
    clock: Arc<DeviceClock>,
    /// Difference between the device's clock and the time of frames, in nanoseconds.
    ahead: i64,
    /// Time of the last comparison, on the monotonic clock.
    looked: u64,
}

impl LaunchClock {
    /// Compares the clocks again, if it is due; `now` is the time on the monotonic clock.
    pub(super) fn keep(&mut self, now: u64) {
        if now.saturating_sub(self.looked) >= COMPARED {
            self.looked = now;
            // If the device does not answer, the last value is the best estimate.
            self.ahead = self.clock.ahead().unwrap_or(self.ahead);
        }
    }

    /// The device time at which to send a frame with this time; `None` without a time.
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
