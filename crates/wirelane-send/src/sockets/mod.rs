//! Sending through a port: one thread for each TX queue.
//!
//! ```text
//!   PacketSource of lane 0 ─▶ Pacer ─▶ Tx 0 ─┐
//!   PacketSource of lane 1 ─▶ Pacer ─▶ Tx 1 ─┼─▶ interface
//! ```
//!
//! The threads share nothing on the hot path: each has its part of the packets, and the schedule
//! determines when each packet leaves. Packets are written in place, into a ring slot or a frame.

mod lane;
mod quota;
mod tx_queue;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wirelane::internal::port::{XpsBinding, XpsBindings, tx_queue_notes};
use wirelane::internal::threads::Crew;
use wirelane::port::Port;
use wirelane::session::Session;
use wirelane::session::monitor::Monitor;
use wirelane::{Error, Result};
use wirelane_gen::{PacketSource, ThreadShare};
use wirelane_os::clock;

use self::lane::{LaneSender, SocketRun};
use self::quota::QuotaPortion;
use self::tx_queue::TxQueue;
use crate::engine::SendEngine;
use crate::session::{
    LaneEnd, MakeSource, SendConfig, SendOutcome, Sending, on_interface, wait_for_link,
};

/// From the start to the first departure, in nanoseconds: the threads need this time to wake up.
const LEAD: u64 = 2_000_000;

/// Starts a thread for each TX queue of `port`, or fewer. Each has a part of the packets: `sources`
/// makes it for a [`ThreadShare`].
///
/// # Errors
/// The port was not opened for transmitting, a source cannot be made, there is not enough memory,
/// or a thread cannot be started.
pub fn start(
    mut port: Port,
    sources: &mut MakeSource<'_>,
    config: &SendConfig,
) -> Result<Session<Sending>> {
    let mut ends = if config.cut { port.tx_segmenting()? } else { port.tx()? };
    if ends.is_empty() {
        let object = format!("port '{}'", port.info().spec);
        return Err(Error::usage(object, "it was not opened for transmitting"));
    }
    ends.truncate(config.threads.unwrap_or(ends.len()).max(1));
    let counters: Vec<_> = ends.iter().map(|tx| Arc::clone(tx.counters())).collect();
    let segments = ends.iter().filter_map(|tx| Some((tx.queue(), Arc::clone(tx.segments()?))));
    let segments: Vec<_> = segments.collect();
    let shared = Arc::new(SocketRun::new(ends.len(), config));
    let of = u32::try_from(ends.len()).unwrap_or(u32::MAX);
    let mut jobs = Vec::new();
    let portions = quota::portions(config.packets, ends.len());
    let mut places = XpsBindings::new(&config.placement);
    for ((index, tx), portion) in (0..).zip(ends).zip(portions) {
        let packets = (sources(ThreadShare { index, of })?, portion);
        let tx_queue = TxQueue::new(tx, port.info(), config)?;
        let place = places.next(&mut port, tx_queue.queue());
        let job = job(index, (tx_queue, place), packets, &shared, config);
        jobs.push((format!("wl-send{index}"), job));
    }
    if let Some(interface) = on_interface(port.info()) {
        wait_for_link(interface, &config.halt);
    }
    if config.halt.is_asked() {
        shared.stop();
    }
    let monitor = Monitor::of_sender(&port, counters, segments);
    let watch = places.watch();
    let crew = Crew::start(jobs, &places.placement(), || {
        port.start()?;
        shared.start.store(clock::monotonic_ns() + LEAD, Ordering::Release);
        Ok(())
    })?;
    let cut = config.cut;
    let sending = Sending {
        engine: SendEngine::Sockets,
        crew,
        port,
        lanes: Arc::clone(&shared.lanes),
        watch,
        notes: Box::new(move |port, outcome| notes(port, outcome, cut)),
    };
    Ok(sending.into_session(monitor, move || shared.stop()))
}

/// The job of one sending thread.
fn job(
    index: u32,
    (mut tx_queue, place): (TxQueue, Option<XpsBinding>),
    packets: (Box<dyn PacketSource>, QuotaPortion),
    shared: &Arc<SocketRun>,
    config: &SendConfig,
) -> impl FnOnce() -> LaneEnd + Send + use<> {
    let (shared, pacing) = (Arc::clone(shared), config.pacing);
    move || {
        if let Some(place) = place {
            tx_queue.bind(place);
        }
        LaneSender::new(index as usize, tx_queue, packets, &shared, pacing).run()
    }
}

/// What the port says at the end, and what was not sent.
fn notes(port: &Port, outcome: &SendOutcome, cut: bool) -> Vec<String> {
    let mut notes = port.diagnostics();
    notes.extend(losses(outcome, cut));
    let strayed = outcome.tx.iter().map(|tx| (tx.queue, tx.strayed));
    notes.extend(tx_queue_notes(&outcome.port, strayed));
    notes
}

/// Notes about packets that were not sent.
fn losses(outcome: &SendOutcome, cut: bool) -> Vec<String> {
    let sum = |of: fn(&wirelane::stats::TxStats) -> u64| outcome.tx.iter().map(of).sum::<u64>();
    let too_long = outcome.skipped.too_long + sum(|tx| tx.wrong_length);
    let (refused, unsent) = (sum(|tx| tx.refused), sum(|tx| tx.unsent) + outcome.skipped.unsent);
    let mut notes = Vec::new();
    let packets = |count: u64| format!("{count} packet{}", if count == 1 { "" } else { "s" });
    if too_long > 0 {
        let help = if cut { "" } else { "; gso=on segments TCP and UDP packets" };
        notes.push(format!("{} not sent because of the MTU{help}", packets(too_long)));
    }
    if refused > 0 {
        let errno = outcome.tx.iter().find_map(|tx| tx.refused_errno);
        let why = errno.map(|errno| format!(" (at first with {errno})")).unwrap_or_default();
        notes.push(format!("{} refused by the kernel{why}", packets(refused)));
    }
    if unsent > 0 {
        let held = |errno| outcome.tx.iter().any(|tx| tx.held_errno == Some(errno));
        let when = match (held("ENXIO"), held("ENETDOWN")) {
            (true, _) => "queued when the interface was removed",
            (false, true) => "waiting for the interface, which is down",
            (false, false) => "not sent before the end",
        };
        notes.push(format!("{} {when}", packets(unsent)));
    }
    notes
}
