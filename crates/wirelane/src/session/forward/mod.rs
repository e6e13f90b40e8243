//! Forwarding: one port sends the packets that another receives, or returns its own with swapped
//! addresses.
//!
//! ```text
//!   port 0                 thread per queue pair                port 1
//!   Rx 0 ─┐                                                    ┌─ Tx 0
//!   Rx 2 ─┴─▶ receive ─▶ transmit, in the order received ─────▶┘
//!   Rx 1 ───▶ receive ─▶ transmit ────────────────────────────▶── Tx 1
//!   Tx 0 ◀──── … the same the other way, on threads of its own …─ Rx 0
//! ```
//!
//! RX queue i forwards to TX queue i modulo the number of TX queues; packets without a queue go to
//! the first. One thread serves each TX queue, so no state is shared, no lock is taken, and the
//! order within a flow is preserved. Frames are moved: a TX port sends them in place if it can, and
//! otherwise copies them once (see [`Transmit::transmit`](crate::port::Transmit)).
//!
//! When a TX queue is full, packets of a source that can wait
//! ([`PortInfo::lossless`](crate::port::PortInfo)) wait. Others are dropped, as in a switch, and
//! counted as `tx_full` of their RX queue.
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
//!
//! Whether a frame is copied depends on the TX port: `sim:` and `file:` take any frame, `packet:`
//! copies it once into its ring, and `xdp:` sends it in place if it is in its region. Packets that
//! the host itself sends (class TX) have already left, so they are not forwarded, and no packet
//! returns.
//!
//! With a [discipline](crate::qdisc), one thread per RX queue has a handle to the disciplines of
//! all TX queues, and queue selection decides: `explicit` by position, `flow` by hash, or `cpu`.
//!
//! Each received packet is delivered (the TX end took it, and counts it as sent or as an error),
//! `filtered` (truncated, or sent to a group although addresses are swapped), or dropped as
//! `tx_full`. A lossless source waits instead. Before a discipline it waits, too, as long as the
//! discipline's limit holds a batch of every thread.
//!
//! If the sending CPU decides the TX queue, each thread is pinned to a CPU of its queue. With
//! disciplines, this requires `explicit` queue selection, where a thread serves one queue only.

mod config;
mod control;
mod directions;
mod losses;
mod offload;
mod routes;
mod signals;
pub(crate) mod switches;
mod tx_path;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane_os::clock;

pub use self::config::{ForwardConfig, ForwardOutcome};
use self::control::ReceiverControl;
use self::directions::Directions;
use self::losses::{InterfaceLosses, refusals};
use self::routes::routes;
use self::signals::Signals;
use self::switches::{FrameSource, PortSwitches};
use self::worker::ForwardWorker;
use crate::error::{Error, Result};
use crate::pipeline::{Handle, Running, Threads};
use crate::port::{Control, Port, PortInfo, XpsWatch, tx_queue_notes};
use crate::qdisc::Egresses;
use crate::session::Session;
use crate::session::monitor::{Monitor, Reading};

/// The threads that forward.
pub struct Forward {
    running: Running<ForwardWorker>,
    egresses: Vec<Egresses>,
    /// One per port.
    switches: Vec<Option<PortSwitches>>,
    /// One per port; `None` for a port that only receives.
    losses: Vec<Option<InterfaceLosses>>,
    signals: Arc<Signals>,
    /// Notices changes of the CPUs that send through each TX queue.
    watch: XpsWatch,
}

/// How long frames may take to leave when forwarding is stopped from outside: a slow interface can
/// have minutes of packets in its queue. Forwarding that ends by itself has no limit.
const FAREWELL: Duration = Duration::from_secs(2);

impl Forward {
    /// Starts the threads, and starts the ports when all threads are ready. With one port, packets
    /// return through their queue with swapped addresses; with two they pass unchanged.
    ///
    /// Open the source of a direction for receiving and its destination for transmitting.
    ///
    /// # Errors
    /// The ports cannot be joined (there is none or more than two, they have different link types
    /// or lack the ends), a CPU cannot be used, or a port refuses to start.
    pub fn start(mut ports: Vec<Port>, config: &ForwardConfig) -> Result<Session<Self>> {
        let routes = routes(&ports, config)?;
        let mut received: Vec<_> = ports.iter_mut().map(Port::rx).collect::<Result<_>>()?;
        let signals = Arc::<Signals>::default();
        let switches = switches(&ports, config, &routes);
        let sends = |position| routes.iter().any(|(_, to)| *to == position);
        let losses = ports
            .iter()
            .enumerate()
            .map(|(position, port)| InterfaceLosses::of(port.info()).filter(|_| sends(position)))
            .collect();
        let mut directions = Directions::new(&ports, config, &signals);
        for (from, to) in routes {
            directions.add(&mut ports, std::mem::take(&mut received[from]), (from, to))?;
        }
        // No direction uses the other ends.
        drop(received);
        ports.iter_mut().for_each(|port| drop(port.tx_if_any(false)));
        let Directions { mut monitor, egresses, mut places, jobs, .. } = directions;
        // Includes the bindings of their ends to queues.
        monitor.ports = ports.iter().map(|port| port.info().clone()).collect();
        let watch = places.watch();
        let threads = Threads::default().placed(places.placement()).packets(config.packets);
        let running = threads.launch(ports, jobs)?;
        let handle = handle(&running, &monitor, &signals);
        let forward = Self { running, egresses, switches, losses, signals, watch };
        Ok(Session::new(forward, monitor, handle))
    }

    /// The switches of each port while it runs; `None` for a port started without switches.
    #[doc(hidden)]
    pub fn switches(&self) -> Vec<Option<PortSwitches>> {
        self.switches.clone()
    }

    /// The port at this index, with notes on unsent packets, and an error if its interface has no
    /// link.
    fn report(&mut self, position: usize, reading: &Reading) -> (PortInfo, Option<Error>) {
        let port = &self.running.open_ports()[position];
        let mut info = port.info().clone();
        info.notes.extend(port.diagnostics());
        let losses = self.losses[position].as_mut().map(InterfaceLosses::report);
        let (note, error) = losses.unwrap_or_default();
        info.notes.extend(note);
        let of_port: Vec<_> = reading.tx.iter().filter(|tx| tx.port == position).collect();
        let of_segmenters = reading.gso.iter().filter(|(port, ..)| *port == position);
        let of_segmenters: Vec<_> = of_segmenters.map(|(.., stats)| stats).collect();
        info.notes.extend(refusals(&info, &of_port, &of_segmenters));
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
        (info, error)
    }

    /// A note for the user if packets were merged for a port that accepts no long frames.
    fn merged_in_vain(&self, from: usize, reading: &Reading) -> Option<String> {
        let merged =
            reading.gro.iter().any(|(port, _, stats)| *port == from && stats.super_frames > 0);
        let ports = self.running.open_ports();
        let to = ports.get(ports.len() - 1 - from).filter(|_| merged)?;
        to.sink().gso_max.is_none().then(|| {
            let name = &to.info().spec;
            format!(
                "merged packets were segmented again for '{name}', which cannot send long frames"
            )
        })
    }
}

/// The switches of each port, by index.
fn switches(
    ports: &[Port],
    config: &ForwardConfig,
    routes: &[(usize, usize)],
) -> Vec<Option<PortSwitches>> {
    let of_config = |position: usize| Some(Arc::clone(config.switches.get(position)?.as_ref()?));
    let source_of = |(from, to): &(usize, usize)| {
        let ends = [of_config(*from)?, of_config(*to)?];
        Some(FrameSource { control: ports[*from].control(), ends })
    };
    let of_port = |position: usize| {
        let switches = of_config(position)?;
        let source = routes.iter().find(|(_, to)| *to == position).and_then(source_of);
        let itself = routes.iter().find(|(from, _)| *from == position).and_then(source_of);
        let sends_long = ports[position].sink().gso_max.is_some();
        Some(PortSwitches { switches, source, sends_long, itself })
    };
    (0..ports.len()).map(of_port).collect()
}

/// The controls select only received packets: no packets that the host itself sends, and none at a
/// port that only sends. Stopping limits the time in which frames may leave, unless the session has
/// ended by itself.
fn handle(running: &Running<ForwardWorker>, monitor: &Monitor, signals: &Arc<Signals>) -> Handle {
    let receives = |position| monitor.rx.iter().any(|(of, _)| *of == position);
    let control = |(position, port): (usize, &Port)| {
        let control = ReceiverControl::new(port.control(), port.info(), receives(position));
        Arc::new(control) as Arc<dyn Control>
    };
    let controls = running.open_ports().iter().enumerate().map(control).collect();
    let (threads, signals) = (running.handle(), Arc::clone(signals));
    let is_stopped = running.stopped();
    let watched = threads.clone();
    let stop = move || {
        if !is_stopped() && !signals.done.load(Ordering::Acquire) {
            let deadline = clock::monotonic_ns() + FAREWELL.as_nanos() as u64;
            signals.deadline.store(deadline, Ordering::Release);
        }
        threads.stop();
        signals.stopping.store(true, Ordering::Release);
    };
    Handle::new(controls, stop).watching(&watched)
}

impl super::Worker for Forward {
    type Outcome = ForwardOutcome;

    /// Once per second it also checks which CPUs send through which TX queue. The threads follow a
    /// change.
    fn wait(&self, timeout: Duration) -> bool {
        let is_stopped = self.running.stopped();
        let is_over = |slice| {
            self.running.wait(Some(slice))
                || is_stopped()
                || self.signals.done.load(Ordering::Acquire)
        };
        self.watch.while_waiting(timeout, is_over)
    }

    /// Unless forwarding has ended by itself, packets that have not left after two seconds are
    /// counted as errors.
    fn join(mut self, monitor: &Monitor) -> ForwardOutcome {
        let (mut workers, mut errors) = self.running.end();
        let mut truncated = 0;
        for worker in &mut workers {
            errors.append(&mut worker.errors);
            truncated += worker.truncated;
        }
        drop(workers);
        self.egresses.iter().for_each(Egresses::close);
        // A removed interface fails at each of its queues.
        Error::each_once(&mut errors);
        let reading = monitor.read();
        // Frames that wait in a discipline return to their owners.
        self.egresses.clear();
        let mut ports = Vec::new();
        for position in 0..self.losses.len() {
            let (mut info, error) = self.report(position, &reading);
            if errors.is_empty() {
                errors.extend(error);
            }
            if truncated > 0 && position == 0 {
                info.notes.push(format!(
                    "{truncated} packets are truncated (snap length) and were not sent"
                ));
            }
            info.notes.extend(self.merged_in_vain(position, &reading));
            ports.push(info);
        }
        let frames = monitor.frames().into_iter().sum();
        let Reading { queues, tx, qdiscs, gso, gro, .. } = reading;
        ForwardOutcome { ports, queues, tx, qdiscs, gso, gro, frames, errors }
    }
}

#[cfg(test)]
mod tests;
