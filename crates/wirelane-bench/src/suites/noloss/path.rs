//! The paths of packets: a sender, and a receiver of Wirelane.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::job::go_on;
use crate::suites::noloss::receiver::{self, PortReceiver, Stamp};
use crate::suites::senders;
use wirelane::error::{Error, Result};
use wirelane::placement::Placement;
use wirelane::port::{Spec, Take};
use wirelane_lab::Site;
use wirelane_send::kernel::{LivePace, LiveSender, LiveSent};
use wirelane_send::ndr::Shot;

/// Trials that a rate must pass.
pub(super) const TRIALS: usize = 3;
/// Flows of the frames that are sent.
const FLOWS: u64 = 64;
/// Shares of the rate found at which latencies are measured, in percent.
pub(super) const LOADS: [u64; 2] = [100, 50];

/// Backend, mode, and number of queues.
pub(super) type Nature = (&'static str, String, u64);

/// The result of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct NolossTrial {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) elapsed: Duration,
}

impl NolossTrial {
    /// The rate of the sender, in packets per second.
    pub(super) fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The result as the bound of the sender.
    pub(super) fn bound(&self, duration: Duration) -> Bound {
        let shot = self.shot(duration);
        Bound { rate: self.rate(), failed: (shot.loss_ratio() > 0.0).then_some(shot) }
    }

    /// The result for the search. Received packets in excess of the sent ones are ignored.
    pub(super) fn shot(&self, duration: Duration) -> Shot {
        let lost = self.sent.saturating_sub(self.received);
        Shot { duration, sent: self.sent, lost, rate: self.rate() }
    }
}

/// The highest rate of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Packets per second.
    pub(super) rate: f64,
    /// A trial at that rate, if it lost packets: one failed trial shows that the rate does not
    /// pass.
    pub(super) failed: Option<Shot>,
}

/// A sender and a receiver.
pub(super) trait Path {
    /// The highest rate of the sender, and its losses.
    fn bound(&mut self, window: Duration) -> Result<Bound>;

    /// The result of [`TRIALS`] at `rate`, one after the other.
    fn trials(&mut self, rate: f64, window: Duration, stop: &AtomicBool) -> Result<Shot>;

    /// Receives at `rate` and adds ages to this histogram, if the path has ages. False if no packet
    /// arrived.
    fn look(&mut self, _rate: f64, _window: Duration, _ages: u8) -> Result<bool> {
        Ok(true)
    }

    /// The backend, mode and queues, and the ages.
    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)>;
}

/// Makes trials of a receiver of Wirelane, until one loses a packet.
fn try_often(
    stop: &AtomicBool,
    window: Duration,
    mut trial: impl FnMut() -> Result<NolossTrial>,
) -> Result<Shot> {
    let mut shots = 1;
    loop {
        go_on(stop)?;
        let shot = trial()?.shot(window);
        if shots == TRIALS || shot.loss_ratio() > 0.0 {
            return Ok(shot);
        }
        shots += 1;
    }
}

/// A sender in the kernel, at one end of the cable.
pub(super) struct NolossLoad<'a> {
    near: &'a Site,
    frames: Vec<Vec<u8>>,
    cpu: Option<u32>,
}

impl<'a> NolossLoad<'a> {
    /// A sender of packets of `size` bytes, on this CPU.
    pub(super) fn new(near: &'a Site, size: usize, cpu: Option<u32>) -> Result<Self> {
        Ok(Self { near, frames: senders::frames(FLOWS, size)?, cpu })
    }

    /// Sends for this time at `rate`; as fast as possible with `None`.
    pub(super) fn send(&self, rate: Option<f64>, window: Duration) -> Result<LiveSent> {
        let rate = rate.map(|rate| rate.max(1.0) as u64);
        let count = rate.map(|rate| (rate as f64 * window.as_secs_f64()).ceil() as u64);
        let pace = LivePace { count, rate, cpu: self.cpu };
        let start = || {
            LiveSender::stamping(self.near.interface(), &self.frames)
                .and_then(|sender| sender.start(pace))
        };
        let sending = self.near.inside(start)??;
        // The limit for a sender that does not keep up.
        let end = Instant::now() + window + window / 2;
        if rate.is_none() {
            thread::sleep(window);
        }
        while rate.is_some() && !sending.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        sending.stop()
    }
}

/// A port of Wirelane at the other end.
pub(super) struct CablePath<'a> {
    load: NolossLoad<'a>,
    receiver: PortReceiver,
}

impl<'a> CablePath<'a> {
    /// Opens the port `spec` at a site. In a lab it may take all packets away from the host.
    pub(super) fn new(
        load: NolossLoad<'a>,
        spec: &Spec,
        at: Option<(&Site, Option<Take>)>,
        placement: &Placement,
    ) -> Result<Self> {
        let receiver = PortReceiver::start(spec, at, placement, Stamp::InPacket, LOADS.len())?;
        Ok(Self { load, receiver })
    }

    /// Sends at `rate`, or as fast as possible with `None`. Ages are added to a histogram, if there
    /// is one.
    fn trial(
        &mut self,
        rate: Option<f64>,
        window: Duration,
        ages: Option<u8>,
    ) -> Result<NolossTrial> {
        let before = self.receiver.received();
        self.receiver.record(ages);
        let sent = self.load.send(rate, window)?;
        self.receiver.drain(before + sent.frames);
        let received = self.receiver.received() - before;
        self.receiver.record(None);
        if !self.receiver.is_alive() {
            return Ok(NolossTrial { sent: sent.frames, received: 0, elapsed: window });
        }
        Ok(NolossTrial { sent: sent.frames, received, elapsed: sent.elapsed })
    }
}

impl Path for CablePath<'_> {
    fn bound(&mut self, window: Duration) -> Result<Bound> {
        Ok(self.trial(None, window, None)?.bound(window))
    }

    fn trials(&mut self, rate: f64, window: Duration, stop: &AtomicBool) -> Result<Shot> {
        try_often(stop, window, || self.trial(Some(rate), window, None))
    }

    fn look(&mut self, rate: f64, window: Duration, ages: u8) -> Result<bool> {
        self.trial(Some(rate), window, Some(ages)).map(|trial| trial.received > 0)
    }

    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)> {
        let nature = self.receiver.nature();
        Ok((nature, self.receiver.finish()?))
    }
}

/// The simulated interface. Every rate needs a new one.
pub(super) struct Simulated<'a> {
    size: usize,
    placement: &'a Placement,
    nature: Option<Nature>,
    ages: Vec<Histogram<u64>>,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(size: usize, placement: &'a Placement) -> Self {
        Self { size, placement, nature: None, ages: Vec::new() }
    }

    /// A trial at `rate`. Ages are added to a histogram, if there is one.
    fn trial(&mut self, rate: f64, window: Duration, ages: Option<u8>) -> Result<NolossTrial> {
        let rate = rate.max(1.0) as u64;
        let text = format!("sim:1?flows={FLOWS}&size={}&rate={rate}", self.size);
        let spec: Spec = text.parse()?;
        let receiver =
            PortReceiver::start(&spec, None, self.placement, Stamp::OfPort, LOADS.len())?;
        receiver.record(ages);
        let begin = Instant::now();
        thread::sleep(window);
        let (received, elapsed) = (receiver.received(), begin.elapsed());
        let lost = receiver.ring_full();
        self.nature = Some(receiver.nature());
        receiver::add(&mut self.ages, receiver.finish()?);
        // The interface counts a loss when the receiver polls. A receiver that polls too rarely
        // loses packets as well, so at least 90 % of the due packets count as sent. The rest may
        // still be in the ring at the end.
        let due = (rate as f64 * elapsed.as_secs_f64() * 0.9) as u64;
        let sent = (received + lost).max(due);
        // The interface generates packets at the requested rate, so the time follows from the
        // count.
        let elapsed = Duration::from_secs_f64(sent as f64 / rate as f64);
        Ok(NolossTrial { sent, received, elapsed })
    }
}

impl Path for Simulated<'_> {
    fn bound(&mut self, _window: Duration) -> Result<Bound> {
        // The interface has no highest rate. No processor receives a packet in five nanoseconds.
        Ok(Bound { rate: 200e6, failed: None })
    }

    fn trials(&mut self, rate: f64, window: Duration, stop: &AtomicBool) -> Result<Shot> {
        try_often(stop, window, || self.trial(rate, window, None))
    }

    fn look(&mut self, rate: f64, window: Duration, ages: u8) -> Result<bool> {
        self.trial(rate, window, Some(ages)).map(|trial| trial.received > 0)
    }

    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)> {
        let nature = self.nature.ok_or_else(|| Error::failed("sim:1", "was not measured"))?;
        Ok((nature, self.ages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_passes_with_all_or_not_at_all() {
        let second = Duration::from_secs(1);
        let trial = |sent, received| {
            NolossTrial { sent, received, elapsed: Duration::from_secs(2) }.shot(second)
        };
        assert_eq!((trial(10, 10).loss_ratio(), trial(10, 10).rate), (0.0, 5.0));
        assert_eq!(trial(10, 9).loss_ratio(), 0.1);
        assert_eq!(trial(10, 11).loss_ratio(), 0.0);
        assert_eq!(trial(0, 0).loss_ratio(), 1.0);
        let bound = |received| NolossTrial { sent: 10, received, elapsed: second }.bound(second);
        assert_eq!((bound(10).rate, bound(10).failed.is_some()), (10.0, false));
        assert!(bound(9).failed.is_some());
    }
}
