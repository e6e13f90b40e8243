//! Starts and ends a session of the kernel engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wirelane::internal::port::XpsWatch;
use wirelane::internal::stats::TxCounters;
use wirelane::internal::threads::Crew;
use wirelane::port::Port;
use wirelane::session::Session;
use wirelane::session::monitor::Monitor;
use wirelane::{Error, Result};
use wirelane_gen::signature::{self, SignatureKey};
use wirelane_gen::stream::Stream;
use wirelane_gen::{Rate, ThreadShare};
use wirelane_os::{clock, iface};

use super::field::FieldError;
use super::lane::{KernelLane, KernelRun, StreamShare};
use super::live::refused;
use super::probe::can;
use super::program::{ProgramParameters, SenderProgram};
use crate::engine::SendEngine;
use crate::session::{SendConfig, SendOutcome, Sending, wait_for_link};

/// From the start to the first departure, in nanoseconds: the threads need this time to wake up.
const LEAD: u64 = 2_000_000;

/// Has the kernel send `streams` out of the interface of `port`, with a thread for each TX queue of
/// the port, or as many as `config` says. With a `key`, packets of templates that reserve bytes are
/// signed.
///
/// # Errors
/// The refusals of [`can`]; a program cannot compute a field; the kernel rejects a program or map;
/// a thread cannot be started.
pub fn start(
    port: Port,
    streams: &[Stream],
    key: Option<SignatureKey>,
    config: &SendConfig,
) -> Result<Session<Sending>> {
    let info = port.info();
    let named = |error: &dyn std::fmt::Display| {
        Error::failed(info.spec.as_str(), format!("the kernel cannot send this: {error}"))
            .help("let sockets send")
    };
    can(info, streams).map_err(|refusal| named(&refusal))?;
    let interface = info.interface.clone().unwrap_or_default();
    let ifindex = iface::index(&interface).map_err(|error| Error::os(interface.as_str(), error))?;
    let queues = info.queues.len().max(1);
    let lanes = config.threads.unwrap_or(queues).clamp(1, queues);
    let of = u32::try_from(lanes).unwrap_or(1);
    let shared = Arc::new(KernelRun::new(&interface, lanes, config)?);
    let paced = streams.iter().any(|stream| stream.rate != Rate::Max);
    let (mut jobs, mut counters) = (Vec::new(), Vec::new());
    let counts = counts(streams, config.packets);
    for index in 0..of {
        let lane = ThreadShare { index, of };
        let mut shares = Vec::new();
        for ((position, stream), count) in (0..).zip(streams).zip(&counts) {
            let flow = signature::flow(position, lane);
            let key = key.filter(|_| stream.template.reserved() == signature::LEN);
            let signature = key.zip(flow);
            let parts = ProgramParameters { ifindex, stream, lane, signature, paced };
            let sender = SenderProgram::new(&parts).map_err(|error| match error {
                FieldError::Refused(refusal) => named(&refusal),
                FieldError::Os(error) => refused(&interface, error),
            })?;
            shares.push(StreamShare::new(sender, stream, lane, *count));
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
    let sending = Sending {
        engine: SendEngine::Kernel,
        crew,
        port,
        lanes: Arc::clone(&shared.lanes),
        watch: XpsWatch::default(),
        notes: Box::new(|_, outcome| notes(outcome)),
    };
    Ok(sending.into_session(monitor, move || shared.stop()))
}

/// The number of packets that each stream sends, at most `most` in total. The streams have equal
/// parts, up to their own counts. So the packet numbers of a thread do not depend on the speed of
/// the other threads.
fn counts(streams: &[Stream], most: Option<u64>) -> Vec<Option<u64>> {
    let mut counts: Vec<_> = streams.iter().map(|stream| stream.count).collect();
    let Some(mut left) = most else { return counts };
    // Starts with the streams that have the fewest packets: the others share the rest.
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

/// What was not sent.
fn notes(outcome: &SendOutcome) -> Vec<String> {
    let dropped: u64 = outcome.tx.iter().map(|tx| tx.refused).sum();
    let note = || {
        format!(
            "{dropped} packets were dropped by the interface: its ring was full, or the other end \
             does not receive"
        )
    };
    (dropped > 0).then(note).into_iter().collect()
}

#[cfg(test)]
#[path = "sending_tests.rs"]
mod tests;
