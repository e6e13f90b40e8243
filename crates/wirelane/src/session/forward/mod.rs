//! Forwarding: what one port receives another one sends, or the same one with swapped addresses.
//!
//! ```text
//!   port 0                 thread per queue pair                port 1
//!   Rx 0 ─┐                                                    ┌─ Tx 0
//!   Rx 2 ─┴─▶ receive ─▶ transmit, in the order received ─────▶┘
//!   Rx 1 ───▶ receive ─▶ transmit ────────────────────────────▶── Tx 1
//!   Tx 0 ◀──── … the same the other way, on threads of its own …─ Rx 0
//! ```
//!
//! RX queue i goes to TX queue i modulo their number; packets tied to no queue go to the first. One
//! thread serves each TX queue, so nothing is shared, no lock is taken, and the order within a flow
//! holds. Frames are moved: a TX port sends them in place if it can, and otherwise copies them once
//! (see [`Transmit::transmit`](crate::port::Transmit)).
//!
//! When a TX queue is full, packets of a source that can wait
//! ([`PortInfo::lossless`](crate::port::PortInfo)) wait. Others are dropped at the tail, as a
//! switch does, and counted as `tx_full` of their RX queue.
//!
//! ```
//! use std::time::Duration;
//! use wirelane::session::forward::{Forward, ForwardConfig};
//! use wirelane::port::{self, OpenOptions};
//!
//! # fn main() -> wirelane::Result<()> {
//! let options = OpenOptions::default().transmit(true);
//! let open = |spec: &str| port::open(&spec.parse()?, &options);
//! let ports = vec![open("sim:2?count=1000")?, open("sim:4?count=500")?];
//! let forward = Forward::start(ports, &ForwardConfig::default())?;
//! while !forward.wait(Duration::from_secs(1)) {}
//! let outcome = forward.join();
//! assert_eq!(outcome.tx.iter().map(|tx| tx.packets).sum::<u64>(), 1500);
//! # Ok(())
//! # }
//! ```

mod config;
mod control;
mod losses;
mod offload;
mod routes;
mod signals;
mod switches;
mod tx_path;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane_os::clock;

pub use self::config::{ForwardConfig, ForwardOutcome};
use self::control::ReceiverControl;
use self::losses::{Losses, refusals};
use self::routes::routes;
use self::signals::Signals;
pub use self::switches::PortSwitches;
use self::tx_path::TxPaths;
use self::worker::{Direction, Worker};
use crate::error::{Error, Result};
use crate::pipeline::{Job, Running, Threads};
use crate::port::steering::pairing;
use crate::port::{
    Control, FrameCounts, Port, PortInfo, Rx, XpsBindings, XpsWatch, tx_queue_notes,
};
use crate::qdisc::{Egress, Egresses};
use crate::segment::CoalesceStats;
use crate::session::monitor::{Monitor, Reading};
use crate::stats::QueueStats;

/// Running threads that forward. Dropping it stops them; [`Forward::join`] also returns the
/// outcome.
pub struct Forward {
    running: Running<Worker>,
    monitor: Monitor,
    egresses: Vec<Egresses>,
    /// By port.
    switches: Vec<Option<PortSwitches>>,
    /// By port, for those that send.
    losses: Vec<Option<Losses>>,
    signals: Arc<Signals>,
    /// Of who sends by which TX queue.
    watch: XpsWatch,
}

/// How long frames may take to leave when forwarding is stopped from outside: a slow interface can
/// have minutes of packets in its queue. Forwarding that ends by itself has no limit.
const FAREWELL: Duration = Duration::from_secs(2);

impl Forward {
    /// Starts the threads and lets packets in when all are ready. With one port packets go back
    /// through their own queue with swapped addresses; with two they pass unchanged.
    ///
    /// Open the source of a direction for receiving and its destination for transmitting.
    ///
    /// # Errors
    /// The ports cannot be joined (there is none or more than two, they have different link types
    /// or lack the ends), a CPU cannot be used, or a port refuses to start.
    pub fn start(mut ports: Vec<Port>, config: &ForwardConfig) -> Result<Self> {
        let routes = routes(&ports, config)?;
        let mut received: Vec<_> = ports.iter_mut().map(Port::rx).collect::<Result<_>>()?;
        let mut monitor = Monitor {
            accounting: ports.iter().map(|port| port.accounting()).collect(),
            ..Monitor::default()
        };
        let (mut all_egresses, signals) = (Vec::new(), Arc::<Signals>::default());
        let switches = |position: usize| config.switches.get(position).and_then(Option::as_ref);
        let (mut jobs, mut places) = (Vec::new(), XpsBindings::new(&config.placement));
        let all_switches = (0..ports.len())
            .map(|position| {
                let switches = Arc::clone(switches(position)?);
                let route = routes.iter().find(|(_, to)| *to == position);
                let source = route.map(|(from, _)| ports[*from].control());
                Some(PortSwitches { switches, source })
            })
            .collect();
        let sends = |position| routes.iter().any(|(_, to)| *to == position);
        let senders = ports.iter().enumerate();
        let losses = senders
            .map(|(position, port)| Losses::of(port.info()).filter(|_| sends(position)))
            .collect();
        for (from, to) in routes {
            let mut inputs = pairing::received(std::mem::take(&mut received[from]));
            let merges = switches(from).filter(|switches| switches.can_merge());
            let sink = ports[to].sink();
            if let Some(switches) = merges {
                inputs = offload::merge(&mut monitor, from, inputs, &sink, switches, config)?;
            }
            // What was merged, here or by the kernel, has to be cut again.
            let comes_long = merges.is_some() || ports[from].leaves_cutting();
            let cuts = switches(to).cloned().or_else(|| comes_long.then(Arc::default));
            let outputs = match cuts {
                Some(switches) => offload::cut(&mut monitor, to, &mut ports[to], &switches)?,
                None => ports[to].tx()?,
            };
            let (source, sink) = (ports[from].info(), ports[to].info());
            pairing::check_ends(source, &inputs, sink, &outputs)?;
            monitor.rx.extend(inputs.iter().map(|rx| (from, Arc::clone(rx.counters()))));
            monitor.tx.extend(tx_path::counters(&outputs).map(|counters| (to, counters)));
            let endless = ports[from].is_endless();
            let count = outputs.len();
            let mut paths = match &config.qdisc {
                None => TxPaths::Direct(outputs.into_iter().map(Some).collect()),
                Some(spec) => {
                    let ends = outputs
                        .into_iter()
                        .map(|tx| tx_path::watched(tx, &ports[to], config.choice, &mut places));
                    let queues = ends.map(|tx| Egress::new(spec, tx));
                    let egresses = Egresses::new(queues, config.choice);
                    let gauges = egresses.queues().iter().map(|egress| (to, egress.gauge()));
                    monitor.qdiscs.extend(gauges);
                    all_egresses.push(egresses.clone());
                    TxPaths::Queued(egresses, config.choice)
                }
            };
            // Any number of threads may send through a discipline.
            let threads = if config.qdisc.is_some() { usize::MAX } else { count };
            let groups = pairing::by_tx_queue(inputs, threads);
            let infos = (source.clone(), sink.clone());
            for (position, rx) in groups {
                let path = paths.builder(position % count, &mut places, &mut ports[to]);
                let Some(path) = path else { continue };
                if !endless {
                    signals.finite.fetch_add(1, Ordering::Relaxed);
                }
                let direction = Direction {
                    source: infos.0.clone(),
                    sink: infos.1.clone(),
                    endless,
                    swap: config.swap || from == to,
                };
                let signals = Arc::clone(&signals);
                let make = move |inputs: &[Rx]| Worker::new(inputs, path, direction, signals);
                jobs.push(Job { name: format!("wl-fwd{from}-{position}"), port: from, rx, make });
            }
        }
        // What no direction uses.
        drop(received);
        let unused = ports.iter_mut().filter(|port| port.transmits());
        unused.for_each(|port| drop(port.tx()));
        // With how their ends are bound to queues.
        monitor.ports = ports.iter().map(|port| port.info().clone()).collect();
        let watch = places.watch();
        let threads = Threads::default().placed(places.placement()).packets(config.packets);
        let running = threads.launch(ports, jobs)?;
        Ok(Self {
            running,
            monitor,
            egresses: all_egresses,
            switches: all_switches,
            losses,
            signals,
            watch,
        })
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.running.ports()
    }

    /// Masks, filter and stop of each port, for any thread. Only received packets can be selected:
    /// none that the host itself sends, and none at a port that only sends.
    pub fn controls(&self) -> Vec<Arc<dyn Control>> {
        let receives = |position| self.monitor.rx.iter().any(|(of, _)| *of == position);
        let ports = self.running.open_ports().iter().enumerate();
        let controls = ports.map(|(position, port)| {
            Arc::new(ReceiverControl::new(port.control(), port.info(), receives(position)))
        });
        controls.map(|control| control as Arc<dyn Control>).collect()
    }

    /// The switches of each port while it runs; `None` for one started without switches.
    pub fn switches(&self) -> Vec<Option<PortSwitches>> {
        self.switches.clone()
    }

    /// Reads all counters, from any thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The counters of every receiving end now.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.monitor.queues()
    }

    /// Waits until it has ended by itself (enough packets, every finite source exhausted, an error)
    /// or `timeout` has passed; true if it has ended.
    ///
    /// Meanwhile it notices once per second if somebody changes which CPUs send by which TX queue,
    /// and the threads follow.
    pub fn wait(&self, timeout: Duration) -> bool {
        let is_over = |slice| {
            self.running.wait(Some(slice))
                || self.running.is_stopped()
                || self.signals.done.load(Ordering::Acquire)
        };
        self.watch.while_waiting(timeout, is_over)
    }

    /// Lets no more packets in, forwards those on their way, and reports. Unless it had ended by
    /// itself, packets that have not left after two seconds are counted as errors.
    pub fn join(mut self) -> ForwardOutcome {
        if !self.wait(Duration::ZERO) {
            let deadline = clock::monotonic_ns() + FAREWELL.as_nanos() as u64;
            self.signals.deadline.store(deadline, Ordering::Release);
        }
        self.stop();
        let (mut workers, mut errors) = self.running.end();
        let mut cut = 0;
        for worker in &mut workers {
            errors.append(&mut worker.errors);
            cut += worker.cut;
        }
        drop(workers);
        self.egresses.iter().for_each(Egresses::close);
        // An interface that goes away fails at each of its queues.
        Error::each_once(&mut errors);
        let Reading { queues, tx, qdiscs, gso, gro, .. } = self.monitor.read();
        let frames = FrameCounts::default();
        let mut outcome =
            ForwardOutcome { ports: Vec::new(), queues, tx, qdiscs, gso, gro, frames, errors };
        // What still waits in a discipline goes back to its owner.
        self.egresses.clear();
        for (position, port) in self.running.open_ports().iter().enumerate() {
            let mut info = port.info().clone();
            info.notes.extend(port.diagnostics());
            let losses = self.losses[position].as_mut().map(Losses::report);
            let (note, error) = losses.unwrap_or_default();
            info.notes.extend(note);
            if outcome.errors.is_empty() {
                outcome.errors.extend(error);
            }
            let of_port: Vec<_> = outcome.tx.iter().filter(|tx| tx.port == position).collect();
            let cut_here = outcome.gso.iter().filter(|(port, ..)| *port == position);
            let cut_here: Vec<_> = cut_here.map(|(.., stats)| stats).collect();
            info.notes.extend(refusals(&info, &of_port, &cut_here));
            let strayed = of_port.iter().map(|tx| (tx.queue, tx.strayed));
            let queue_notes = tx_queue_notes(&info, strayed);
            info.notes.extend(queue_notes);
            info.notes.extend(self.watch.notes(&info));
            let unfinished: u64 = of_port.iter().map(|tx| tx.unfinished).sum();
            if unfinished > 0 {
                info.notes.push(format!(
                    "{unfinished} packets were not sent: their sender left segmentation, or a \
                     checksum other than TCP's and UDP's, to its hardware; `ethtool -K IF tx \
                     off` on the sending interface avoids this"
                ));
            }
            if cut > 0 && position == 0 {
                info.notes
                    .push(format!("{cut} packets are truncated (snap length) and were not sent"));
            }
            info.notes.extend(self.merged_in_vain(position, &outcome.gro));
            outcome.ports.push(info);
        }
        self.monitor.frames().into_iter().for_each(|frames| outcome.frames += frames);
        outcome
    }

    /// Notes for the user if packets were merged for a port that takes no long frames.
    fn merged_in_vain(
        &self,
        from: usize,
        gro: &[(usize, Option<u16>, CoalesceStats)],
    ) -> Option<String> {
        let merged = gro.iter().any(|(port, _, stats)| *port == from && stats.super_frames > 0);
        let ports = self.running.open_ports();
        let to = ports.get(ports.len() - 1 - from).filter(|_| merged)?;
        to.sink().gso_max.is_none().then(|| {
            let name = &to.info().spec;
            format!(
                "merged packets were segmented again for '{name}', which cannot send long frames"
            )
        })
    }

    fn stop(&self) {
        self.running.stop();
        self.signals.stopping.store(true, Ordering::Release);
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        // The threads end when their handle, the first field, is dropped.
        self.stop();
    }
}

#[cfg(test)]
mod tests;
