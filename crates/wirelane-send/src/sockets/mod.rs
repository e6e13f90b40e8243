//! Sending through the ends of a port: a thread for each of its TX queues.
//!
//! ```text
//!   Source of lane 0 ─▶ Pacer ─▶ Tx 0 ─┐
//!   Source of lane 1 ─▶ Pacer ─▶ Tx 1 ─┼─▶ interface
//! ```
//!
//! A thread shares nothing with the others: each has its part of the packets, and the schedule says
//! when each packet leaves. Packets are written in place, into the slot of a ring or into a frame.

mod lane;
mod outlet;
mod quota;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane::port::{Control, Port, PortInfo, XpsBinding, XpsBindings, XpsWatch, tx_queue_notes};
use wirelane::session::monitor::{Monitor, Reading};
use wirelane::threads::Crew;
use wirelane::{Error, Result};
use wirelane_gen::{Lane, Source};
use wirelane_os::clock;

pub(crate) use self::lane::LaneEnd;
use self::lane::{LaneSender, Shared};
use self::outlet::Outlet;
use self::quota::Portion;
use crate::engine::Engine;
use crate::session::{
    MakeSource, Progress, SendConfig, SendOutcome, Sending, on_interface, wait_for_link,
};
use crate::timing::Departures;

/// From the last preparation to the first departure, in nanoseconds: threads wake meanwhile.
const LEAD: u64 = 2_000_000;

/// Threads that send through a port.
pub struct Sockets {
    /// Ends before the port whose frames it holds.
    crew: Crew<LaneEnd>,
    port: Port,
    monitor: Monitor,
    shared: Arc<Shared>,
    cut: bool,
    /// Of who sends by which TX queue.
    watch: XpsWatch,
}

/// Starts a thread for each TX queue of `port`, or fewer. Each has a part of the packets: `sources`
/// makes it for a [`Lane`].
///
/// # Errors
/// The port was not opened for transmitting, a source cannot be made, there is not enough memory,
/// or a thread cannot be started.
pub fn start(mut port: Port, sources: &mut MakeSource<'_>, config: &SendConfig) -> Result<Sockets> {
    let mut ends = if config.cut { port.tx_cutting()? } else { port.tx()? };
    if ends.is_empty() {
        let object = format!("port '{}'", port.info().spec);
        return Err(Error::usage(object, "it was not opened for transmitting"));
    }
    ends.truncate(config.threads.unwrap_or(ends.len()).max(1));
    let counters: Vec<_> = ends.iter().map(|tx| Arc::clone(tx.counters())).collect();
    let segments = ends.iter().filter_map(|tx| Some((tx.queue(), Arc::clone(tx.segments()?))));
    let segments: Vec<_> = segments.collect();
    let shared = Arc::new(Shared::new(ends.len(), config));
    let of = u32::try_from(ends.len()).unwrap_or(u32::MAX);
    let mut jobs = Vec::new();
    let portions = quota::portions(config.packets, ends.len());
    let mut places = XpsBindings::new(&config.placement);
    for ((index, tx), portion) in (0..).zip(ends).zip(portions) {
        let packets = (sources(Lane { index, of })?, portion);
        let outlet = Outlet::new(tx, port.info(), config)?;
        let place = places.next(&mut port, outlet.queue());
        let job = job(index, (outlet, place), packets, &shared, config);
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
    Ok(Sockets { crew, port, monitor, shared, cut: config.cut, watch })
}

/// What the thread of an end does, from its place.
fn job(
    index: u32,
    (mut outlet, place): (Outlet, Option<XpsBinding>),
    packets: (Box<dyn Source>, Portion),
    shared: &Arc<Shared>,
    config: &SendConfig,
) -> impl FnOnce() -> LaneEnd + Send + use<> {
    let (shared, pacing) = (Arc::clone(shared), config.pacing);
    move || {
        if let Some(place) = place {
            outlet.bind(place);
        }
        LaneSender::new(index as usize, outlet, packets, &shared, pacing).run()
    }
}

impl Sending for Sockets {
    fn engine(&self) -> Engine {
        Engine::Sockets
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
        self.watch.while_waiting(timeout, |slice| self.crew.wait(slice))
    }

    fn stop(&self) {
        self.shared.stop();
    }

    fn join(mut self: Box<Self>) -> SendOutcome {
        let (mut ends, mut errors) = (Vec::new(), Vec::new());
        self.crew.join(&mut ends, &mut errors);
        let mut outcome = SendOutcome::new(Engine::Sockets, self.port.info().clone());
        let mut departures = Departures::new();
        for mut end in ends {
            departures.add(&end.departures);
            outcome.skipped.too_long += end.too_long;
            outcome.skipped.unsent += end.unsent;
            errors.append(&mut end.errors);
        }
        // An interface that goes away fails at each of its queues.
        Error::each_once(&mut errors);
        let Reading { tx, gso, .. } = self.monitor.read();
        outcome.tx = tx;
        outcome.gso = gso.into_iter().map(|(_, queue, stats)| (queue, stats)).collect();
        outcome.timing = departures.timing();
        outcome.port.notes.extend(self.port.diagnostics());
        outcome.port.notes.extend(losses(&outcome, self.cut));
        let strayed = outcome.tx.iter().map(|tx| (tx.queue, tx.strayed));
        let queue_notes = tx_queue_notes(&outcome.port, strayed);
        outcome.port.notes.extend(queue_notes);
        outcome.port.notes.extend(self.watch.notes(&outcome.port));
        outcome.errors = errors;
        outcome.frames = self.port.frames();
        outcome
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What was not sent, in words.
fn losses(outcome: &SendOutcome, cut: bool) -> Vec<String> {
    let sum = |of: fn(&wirelane::stats::TxStats) -> u64| outcome.tx.iter().map(of).sum::<u64>();
    let too_long = outcome.skipped.too_long + sum(|tx| tx.wrong_length);
    let (refused, unsent) = (sum(|tx| tx.refused), sum(|tx| tx.unsent) + outcome.skipped.unsent);
    let mut notes = Vec::new();
    let packets = |count: u64| format!("{count} packet{}", if count == 1 { "" } else { "s" });
    if too_long > 0 {
        let help = if cut { "" } else { "; those of TCP and UDP can be cut" };
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
