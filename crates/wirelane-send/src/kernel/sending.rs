//! Starting and ending a session in which the kernel sends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane::port::{Control, Port, PortInfo};
use wirelane::session::monitor::Monitor;
use wirelane::stats::TxCounters;
use wirelane::threads::Crew;
use wirelane::{Error, Result};
use wirelane_gen::signature::{self, Key};
use wirelane_gen::stream::Stream;
use wirelane_gen::{Lane, Rate};
use wirelane_os::{clock, iface};

use super::field::FieldError;
use super::lane::{KernelLane, LaneEnd, Share, Shared};
use super::live::refused;
use super::probe::can;
use super::program::{Parts, Sender};
use crate::engine::Engine;
use crate::session::{Progress, SendConfig, SendOutcome, Sending, wait_for_link};
use crate::timing::Departures;

/// From the last preparation to the first departure, in nanoseconds: threads wake meanwhile.
const LEAD: u64 = 2_000_000;

/// The kernel at work.
pub struct Kernel {
    crew: Crew<LaneEnd>,
    /// Says what the interface is; nothing is sent through it.
    port: Port,
    monitor: Monitor,
    shared: Arc<Shared>,
}

/// Has the kernel send `streams` out of the interface of `port`, with a thread for each TX queue of
/// the port, or as many as `config` says. With a `key`, packets of templates that reserve bytes are
/// signed.
///
/// # Errors
/// What [`can`] says; a field that a program cannot compute; the kernel refuses; a thread cannot be
/// started.
pub fn start(
    port: Port,
    streams: &[Stream],
    key: Option<Key>,
    config: &SendConfig,
) -> Result<Kernel> {
    let info = port.info();
    let named = |error: &dyn std::fmt::Display| {
        Error::failed(info.spec.as_str(), format!("the kernel cannot send this: {error}"))
    };
    can(info, streams).map_err(|refusal| named(&refusal))?;
    let interface = info.interface.clone().unwrap_or_default();
    let ifindex = iface::index(&interface).map_err(|error| Error::os(interface.as_str(), error))?;
    let queues = info.queues.len().max(1);
    let lanes = config.threads.unwrap_or(queues).clamp(1, queues);
    let of = u32::try_from(lanes).unwrap_or(1);
    let shared = Arc::new(Shared::new(&interface, lanes, config)?);
    let paced = streams.iter().any(|stream| stream.rate != Rate::Max);
    let (mut jobs, mut counters) = (Vec::new(), Vec::new());
    let counts = counts(streams, config.packets);
    for index in 0..of {
        let lane = Lane { index, of };
        let mut shares = Vec::new();
        for ((position, stream), count) in (0..).zip(streams).zip(&counts) {
            let flow = signature::flow(position, lane);
            let key = key.filter(|_| stream.template.reserved() == signature::LEN);
            let signature = key.zip(flow);
            let parts = Parts { ifindex, stream, lane, signature, paced };
            let sender = Sender::new(&parts).map_err(|error| match error {
                FieldError::Refused(refusal) => named(&refusal),
                FieldError::Os(error) => refused(&interface, error),
            })?;
            shares.push(Share::new(sender, stream, lane, *count));
        }
        let queue = info.queues.get(index as usize).copied().unwrap_or(index as u16);
        let own = Arc::new(TxCounters::new(queue));
        counters.push(Arc::clone(&own));
        let job = KernelLane::new(lane, shares, own, &shared);
        jobs.push((format!("wl-kernel{index}"), move || job.run()));
    }
    let monitor = Monitor::of_sender(&port, counters, []);
    wait_for_link(&interface, &config.halt);
    if config.halt.is_asked() {
        shared.stop();
    }
    let crew = Crew::start(jobs, &config.placement, || {
        shared.start.store(clock::monotonic_ns() + LEAD, Ordering::Release);
        Ok(())
    })?;
    Ok(Kernel { crew, port, monitor, shared })
}

/// The number of packets that each stream sends, `most` in total; every packet if `None`. The
/// streams have equal parts. So each thread knows its packet numbers, however fast the other
/// threads are.
fn counts(streams: &[Stream], most: Option<u64>) -> Vec<Option<u64>> {
    let mut counts: Vec<_> = streams.iter().map(|stream| stream.count).collect();
    let Some(mut left) = most else { return counts };
    // The streams with the fewest packets first: the others share the rest.
    let mut order: Vec<_> = (0..counts.len()).collect();
    order.sort_by_key(|position| {
        counts.get(*position).copied().flatten().map_or((u64::MAX, *position), |n| (n, *position))
    });
    for (rank, position) in order.iter().enumerate() {
        let others = (order.len() - rank) as u64;
        if let Some(count) = counts.get_mut(*position) {
            let part = count.unwrap_or(u64::MAX).min(left.div_ceil(others));
            *count = Some(part);
            left -= part;
        }
    }
    counts
}

impl Sending for Kernel {
    fn engine(&self) -> Engine {
        Engine::Kernel
    }

    fn port(&self) -> &PortInfo {
        self.port.info()
    }

    fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    fn control(&self) -> Arc<dyn Control> {
        self.port.control()
    }

    fn progress(&self) -> Progress {
        let lanes = || self.shared.lanes.iter();
        let packets = lanes().map(|lane| lane.packets.load(Ordering::Relaxed)).sum();
        let at = lanes().map(|lane| lane.at.load(Ordering::Relaxed)).max().unwrap_or(0);
        Progress::new(packets, Duration::from_nanos(at))
    }

    fn wait(&self, timeout: Duration) -> bool {
        self.crew.wait(timeout)
    }

    fn stop(&self) {
        self.shared.stop();
    }

    fn join(mut self: Box<Self>) -> SendOutcome {
        let (mut ends, mut errors) = (Vec::new(), Vec::new());
        self.crew.join(&mut ends, &mut errors);
        let mut outcome = SendOutcome::new(Engine::Kernel, self.port.info().clone());
        let mut departures = Departures::new();
        for mut end in ends {
            departures.add(&end.departures);
            errors.append(&mut end.errors);
        }
        Error::each_once(&mut errors);
        outcome.tx = self.monitor.read().tx;
        outcome.timing = departures.timing();
        let dropped: u64 = outcome.tx.iter().map(|tx| tx.refused).sum();
        if dropped > 0 {
            outcome.port.notes.push(format!(
                "{dropped} packets were dropped by the interface: its ring was full, or the other \
                 end does not receive"
            ));
        }
        outcome.errors = errors;
        outcome.frames = self.port.frames();
        outcome
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
#[path = "sending_tests.rs"]
mod tests;
