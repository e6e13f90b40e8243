//! The departure times of `send`: by a rate, or with the intervals of the capture.

use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use wirelane::internal::clock;
use wirelane::{Error, Result};
use wirelane_send::Pacing;
use wirelane_send::pacer::Pacer;

const SECOND: u64 = 1_000_000_000;

/// Packets per second as a number, or a rate in the syntax of `wirelane send --rate`.
pub(crate) enum RateArgument {
    Number(f64),
    Text(String),
}

impl<'py> FromPyObject<'_, 'py> for RateArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self::Text(text.to_str()?.to_owned()));
        }
        let number = value.extract().map_err(|_| {
            PyTypeError::new_err(
                "a rate is a number of packets per second, or text such as '6Gbit'",
            )
        })?;
        Ok(Self::Number(number))
    }
}

impl RateArgument {
    fn parsed(self) -> Result<wirelane_gen::Rate> {
        match self {
            Self::Number(packets) if packets > 0.0 && packets < 1e15 => {
                Ok(wirelane_gen::Rate::Packets(packets))
            }
            Self::Number(packets) => {
                let help = "write a number of packets per second above 0";
                Err(Error::usage(format!("rate={packets}"), "it is no rate").help(help))
            }
            Self::Text(text) => text
                .parse()
                .map_err(|why: wirelane_gen::Error| Error::usage("rate", why.to_string())),
        }
    }
}

/// The pace of one call of `send`.
pub(crate) struct SendPace {
    measure: DepartureRule,
    /// None until the first packet is due.
    pacer: Option<Pacer>,
    pacing: Pacing,
    /// A whole burst has left, so that others may be late.
    was_burst: bool,
}

/// How departure times are computed.
enum DepartureRule {
    Nothing,
    /// Nanoseconds per packet, and packets so far.
    Packets(f64, u64),
    /// Nanoseconds per bit, overhead bits per packet, and bits so far.
    Bits(f64, u64, u64),
    /// The times of the packets themselves.
    Times {
        speed: f64,
        newest: Option<u64>,
        elapsed: u64,
    },
}

impl SendPace {
    /// `link`: the speed of the link in bits per second, if known.
    ///
    /// # Errors
    /// The rate is invalid, `rate` and `speed` are both given, or the link speed is unknown.
    pub(crate) fn new(
        rate: Option<RateArgument>,
        speed: Option<f64>,
        link: Option<u64>,
    ) -> Result<Self> {
        let measure = match (rate, speed) {
            (None, None) => DepartureRule::Nothing,
            (Some(_), Some(_)) => {
                let cause = "only one of them can apply";
                return Err(Error::usage("rate, speed", cause).help("write one of them"));
            }
            (None, Some(speed)) if speed > 0.0 && speed.is_finite() => {
                DepartureRule::Times { speed, newest: None, elapsed: 0 }
            }
            (None, Some(speed)) => {
                let error = Error::usage(format!("speed={speed}"), "it is no speed");
                return Err(error.help("write 1 for the pace of the capture, 2 for twice as fast"));
            }
            (Some(rate), None) => DepartureRule::of(rate.parsed()?, link)?,
        };
        let pacing = Pacing::default();
        Ok(Self { measure, pacer: None, pacing, was_burst: false })
    }

    /// The departure time of the next packet, in nanoseconds after the first one.
    ///
    /// # Errors
    /// `speed` is given, and the packet has no time.
    pub(crate) fn due(&mut self, len: usize, time: Option<u64>) -> Result<u64> {
        match &mut self.measure {
            DepartureRule::Nothing => Ok(0),
            DepartureRule::Packets(each, packets) => {
                let at = *packets as f64 * *each;
                *packets += 1;
                Ok(at as u64)
            }
            DepartureRule::Bits(each, overhead, bits) => {
                let at = *bits as f64 * *each;
                *bits += len as u64 * 8 + *overhead;
                Ok(at as u64)
            }
            DepartureRule::Times { speed, newest, elapsed } => {
                let time = time.filter(|time| *time > 0).ok_or_else(|| {
                    let error = Error::usage("speed", "a packet has no time of its own");
                    error.help("send frames from `read`, or use rate= instead")
                })?;
                match *newest {
                    Some(before) if time >= before => *elapsed += time - before,
                    // It leaves with the previous packet. Its clock may have been set.
                    Some(before) if before - time <= SECOND => return Ok(scaled(*elapsed, *speed)),
                    _ => {}
                }
                *newest = Some(time);
                Ok(scaled(*elapsed, *speed))
            }
        }
    }

    /// How many packets with these departure times may leave. Waits for the first one; `None` if it
    /// is not due before `until`.
    pub(crate) fn admit(&mut self, times: &[u64], until: Instant) -> Option<usize> {
        let first = *times.first()?;
        if matches!(self.measure, DepartureRule::Nothing) {
            return Some(times.len());
        }
        let now = clock::monotonic_ns();
        let left = until.saturating_duration_since(Instant::now()).as_nanos();
        let limit = now.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
        let pacing = self.pacing;
        let pacer = self.pacer.get_or_insert_with(|| Pacer::new(now, pacing));
        if std::mem::take(&mut self.was_burst) {
            pacer.after_burst(first, now);
        }
        let due = pacer.due(first);
        let now = if due > pacer.until(now) { pacer.wait(now, due, limit) } else { now };
        let horizon = pacer.until(now);
        if due > horizon {
            return None;
        }
        let burst = times.iter().take(pacing.burst);
        let admitted = burst.take_while(|at| pacer.due(**at) <= horizon).count();
        self.was_burst = admitted == pacing.burst;
        Some(admitted)
    }
}

impl DepartureRule {
    fn of(rate: wirelane_gen::Rate, link: Option<u64>) -> Result<Self> {
        let second = SECOND as f64;
        Ok(match rate {
            wirelane_gen::Rate::Max => Self::Nothing,
            wirelane_gen::Rate::Packets(packets) => Self::Packets(second / packets, 0),
            wirelane_gen::Rate::Bits(bits) => Self::Bits(second / bits, 0, 0),
            wirelane_gen::Rate::Share(share) => {
                let link = link.filter(|link| *link > 0).ok_or_else(|| {
                    let error = Error::usage("rate", "the link speed is unknown");
                    error.help("write packets or bits per second: '10kpps', '6Gbit'")
                })?;
                let overhead = wirelane_gen::Rate::WIRE_OVERHEAD * 8;
                Self::Bits(second / (share * link as f64), overhead, 0)
            }
        })
    }
}

fn scaled(elapsed: u64, speed: f64) -> u64 {
    // At speed 1 it is exact.
    if speed == 1.0 { elapsed } else { (elapsed as f64 / speed) as u64 }
}
