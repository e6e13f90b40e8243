//! A running capture: a receiving thread per queue, a writing thread per file.
//!
//! ```text
//!  Rx of queue 0 ─▶ worker 0 ─ chunks of blocks ─▶┐
//!  Rx of queue 1 ─▶ worker 1 ─ chunks of blocks ─▶├─▶ writer: merge by time ─▶ file, rotation
//!  Rx of OTHER   ─▶ worker 0 ─ chunks of blocks ─▶┘
//!                      ▲                          │
//!                      └────── empty chunks ──────┘
//! ```
//!
//! A `View` receives copies of the packets that the writer has merged, if there is room.
//!
//! `-c N` takes the first packets in order of time, so the limit is applied behind the merge
//! (`limit.rs`).
//!
//! A worker copies each packet once, encoded, into the current chunk of its lane and returns the
//! frame. When the writer falls behind there is no empty chunk, and the packet is counted as a
//! `writer` drop, so a slow disk does not look like a slow network stack. A port that waits for its
//! consumer (a simulated source at full rate, a file) waits instead.
//!
//! **Order of time.** Packets of one queue are nearly in order: if several CPUs feed a queue, the
//! kernel takes the time before it takes the queue's lock
//! ([`tpacket_rcv`](https://github.com/torvalds/linux/blob/v6.18/net/packet/af_packet.c)). The
//! writer sorts a chunk if necessary. It then waits until the watermark of every queue promises no
//! older packet. A queue whose thread gets no CPU may promise nothing for longer than the stated
//! bound: the port's lateness plus 200 ms (`order.lateness_ms` in the summary). The writer waits
//! for it while half of the buffer is free, at most 10 s. A later packet is written at once and
//! counted as a violation. `wirelane merge` orders files exactly.
//!
//! Chunks pass between threads, and frames do not. So a slow disk never holds ring memory, and its
//! losses count as `writer`, and not as `kernel` drops. A capture that ends after a few packets
//! receives from all queues of a port on one thread ([`CaptureConfig::is_short`]).

mod calm;
mod chunk;
mod config;
mod credit;
mod file_interfaces;
mod lane;
pub(crate) mod limit;
mod merge;
mod names;
mod opener;
mod promise;
#[cfg(test)]
mod tests;
pub(crate) mod view;
mod worker;
mod writer;
mod writers;
mod writing;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

pub use self::config::{CaptureConfig, CaptureOutcome, OutputConfig};
pub(crate) use self::limit::needs_merge;
use self::promise::Promise;
pub(crate) use self::view::View;
use self::worker::{CaptureWorker, Route};
use self::writers::{CapturePorts, Writers};
use crate::error::{Error, Result};
use crate::pcap::Written;
use crate::pipeline::{Job, Running, Spread, Threads, by_thread, thread_name};
use crate::placement::Placement;
use crate::port::{FrameCounts, Port, Rx};
use crate::session::Session;
use crate::session::monitor::Monitor;

/// The threads of a capture.
pub struct Capture {
    running: Running<CaptureWorker>,
    writers: Writers,
}

/// A receiving end, and its route to the files.
type End = (Rx, Route);

impl Capture {
    /// Opens the outputs, starts the threads, and starts the ports when all threads are ready.
    ///
    /// # Errors
    /// An output cannot be created or is read by a port, a CPU cannot be used, or a port refuses to
    /// start.
    pub fn start(ports: Vec<Port>, config: &CaptureConfig) -> Result<Session<Self>> {
        Self::launch(ports, None, config, None)
    }

    /// As [`Capture::start`]; `view` also receives the packets.
    ///
    /// # Errors
    /// The errors of [`Capture::start`]; or each queue has a separate file, so the packets have no
    /// common order.
    #[doc(hidden)]
    pub fn start_with_view(
        ports: Vec<Port>,
        config: &CaptureConfig,
        view: Box<dyn View>,
    ) -> Result<Session<Self>> {
        Self::launch(ports, None, config, Some(view))
    }

    /// As [`Capture::start_with_view`], with receiving ends that were already taken from each port.
    pub(crate) fn start_with_ends(
        ports: Vec<Port>,
        ends: Vec<Vec<Rx>>,
        config: &CaptureConfig,
        view: Box<dyn View>,
    ) -> Result<Session<Self>> {
        Self::launch(ports, Some(ends), config, Some(view))
    }

    fn launch(
        mut ports: Vec<Port>,
        ends: Option<Vec<Vec<Rx>>>,
        config: &CaptureConfig,
        view: Option<Box<dyn View>>,
    ) -> Result<Session<Self>> {
        let all = || ports.iter_mut().map(Port::rx).collect::<Result<_>>();
        let inputs: Vec<Vec<Rx>> = ends.map_or_else(all, Ok)?;
        let mut monitor = Monitor::of_receivers(ports.iter().zip(&inputs));
        let mut writers = Writers::new(&ports, config)?;
        let (spread, placement) = spread(config, ports.len());
        let is_merged = needs_merge(config.packets, &inputs);
        let routes = if config.output.is_some() || view.is_some() || is_merged {
            let each: Vec<Vec<&Rx>> = inputs.iter().map(|ends| ends.iter().collect()).collect();
            let ends = each.iter().flatten().count();
            let is_alone = by_thread(each, spread, |rx| rx).len() == ends;
            writers
                .start(CapturePorts { ports: &ports, inputs: &inputs, config, is_alone }, view)?
        } else {
            let none = |inputs: &Vec<Rx>| inputs.iter().map(|_| Route::default()).collect();
            inputs.iter().map(none).collect()
        };
        let jobs = jobs(inputs, routes, spread, &writers, config);
        let packets = config.packets.filter(|_| !is_merged);
        let threads = Threads::default().placed(placement).packets(packets).each_alone();
        let running = threads.launch(ports, jobs)?;
        if let Some(opener) = writers.opener.clone().filter(|opener| opener.writes()) {
            monitor = monitor.writing(move || opener.written());
        }
        if let Some(view) = &writers.view {
            monitor = monitor.showing(view.counts());
        }
        let halt = writers.halt.clone();
        let handle = running.handle().stopping(move || halt.ask());
        Ok(Session::new(Self { running, writers }, monitor, handle))
    }

    /// Packets that are safely in files now.
    pub fn written(&self) -> u64 {
        self.writers.opener.as_ref().map_or(0, |opener| opener.written().packets)
    }
}

/// How receiving ends are distributed over threads, and the CPUs of these.
fn spread(config: &CaptureConfig, ports: usize) -> (Spread, Placement) {
    let placement = config.placement.clone();
    match (config.single || config.immediate, config.is_short()) {
        (true, _) => (Spread::One, placement),
        (false, true) if ports == 1 => (Spread::Port, placement.on_one()),
        (false, true) => (Spread::Port, placement),
        (false, false) => (Spread::Queue, placement),
    }
}

/// The jobs of the receiving threads.
fn jobs(
    inputs: Vec<Vec<Rx>>,
    routes: Vec<Vec<Route>>,
    spread: Spread,
    writers: &Writers,
    config: &CaptureConfig,
) -> impl Iterator<Item = Job<impl FnOnce(&[Rx]) -> CaptureWorker + Send + use<>>> {
    let writing = writers.opener.as_ref().and_then(|opener| opener.helped());
    let (limit, lateness) = (writers.limit.clone(), writers.lateness_of_ports);
    let immediate = config.immediate;
    let job = move |(port, ends): (usize, Vec<End>)| {
        let (rx, routes): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let (limit, writing) = (limit.clone(), writing.clone());
        let promise = immediate.then(|| Promise::new(lateness));
        let make = move |_: &[Rx]| CaptureWorker { routes, limit, promise, writing };
        Job { name: rx.first().map_or("wl-rx".into(), thread_name), port, rx, make }
    };
    let zip = |(inputs, routes): (Vec<Rx>, Vec<Route>)| inputs.into_iter().zip(routes).collect();
    let ends = inputs.into_iter().zip(routes).map(zip).collect();
    by_thread(ends, spread, |(rx, _): &End| rx).into_iter().map(job)
}

impl super::Worker for Capture {
    type Outcome = CaptureOutcome;

    /// Also waits until all packets are written.
    fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let failed = &self.writers.failed;
        let left = || deadline.saturating_duration_since(Instant::now());
        let received = self.running.wait_or(Some(left()), &[failed.as_fd()]);
        failed.wait(Duration::ZERO) || received && self.writers.running.wait(left())
    }

    /// It does not wait for a stalled reader ([`Halt`](crate::halt::Halt)), but counts the packets
    /// that the reader did not take.
    fn join(mut self, monitor: &Monitor) -> CaptureOutcome {
        let (_, mut errors) = self.running.end();
        Error::each_once(&mut errors);
        let mut outcome = CaptureOutcome {
            ports: monitor.ports().to_vec(),
            queues: Vec::new(),
            frames: FrameCounts::default(),
            written: self.writers.writes().then(Written::default),
            viewed: None,
            violations: 0,
            lateness: self.writers.lateness(),
            errors,
        };
        self.writers.end(&mut outcome);
        for (info, port) in outcome.ports.iter_mut().zip(self.running.open_ports()) {
            // The notes of the writers apply to all ports.
            info.notes.append(&mut self.writers.notes);
            info.notes.extend(port.diagnostics());
            outcome.frames += port.frames();
        }
        outcome.queues = monitor.queues();
        outcome
    }
}
