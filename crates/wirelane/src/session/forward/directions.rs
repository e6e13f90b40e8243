//! Prepares each direction of forwarding: its ends, its disciplines, a job for each thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::config::ForwardConfig;
use super::offload;
use super::signals::Signals;
use super::tx_path::{self, TxPaths};
use super::worker::{Direction, ForwardWorker};
use crate::error::Result;
use crate::pipeline::Job;
use crate::port::steering::pairing;
use crate::port::{Port, Rx, Switches, Tx, XpsBindings};
use crate::qdisc::{Egress, Egresses};
use crate::session::monitor::Monitor;

/// Creates the worker of the calling thread.
pub(super) type MakeWorker = Box<dyn FnOnce(&[Rx]) -> ForwardWorker + Send>;

/// The directions prepared so far.
pub(super) struct Directions<'a> {
    config: &'a ForwardConfig,
    signals: &'a Arc<Signals>,
    pub(super) monitor: Monitor,
    pub(super) egresses: Vec<Egresses>,
    pub(super) places: XpsBindings,
    pub(super) jobs: Vec<Job<MakeWorker>>,
}

impl<'a> Directions<'a> {
    /// No directions yet.
    pub(super) fn new(
        ports: &[Port],
        config: &'a ForwardConfig,
        signals: &'a Arc<Signals>,
    ) -> Self {
        let accounting = ports.iter().map(Port::accounting).collect();
        Self {
            config,
            signals,
            monitor: Monitor { accounting, ..Monitor::default() },
            egresses: Vec::new(),
            places: XpsBindings::new(&config.placement),
            jobs: Vec::new(),
        }
    }

    /// Adds the direction from one port to another, by index, with the receiving ends of the first.
    ///
    /// # Errors
    /// One of the ports lacks ends, or there is no memory for long frames.
    pub(super) fn add(
        &mut self,
        ports: &mut [Port],
        received: Vec<Rx>,
        (from, to): (usize, usize),
    ) -> Result<()> {
        let (inputs, outputs) = self.ends(ports, received, (from, to))?;
        let (source, sink) = (ports[from].info().clone(), ports[to].info().clone());
        let endless = ports[from].is_endless();
        let count = outputs.len();
        let mut paths = self.paths(&ports[to], outputs, to);
        // Any number of threads may send through a discipline.
        let threads = if self.config.qdisc.is_some() { usize::MAX } else { count };
        for (position, rx) in pairing::by_tx_queue(inputs, threads) {
            let path = paths.builder(position % count, &mut self.places, &mut ports[to]);
            let Some(path) = path else { continue };
            if !endless {
                self.signals.finite.fetch_add(1, Ordering::Relaxed);
            }
            let swap = self.config.swap || from == to;
            let direction = Direction { source: source.clone(), sink: sink.clone(), endless, swap };
            let signals = Arc::clone(self.signals);
            let make = move |inputs: &[Rx]| ForwardWorker::new(inputs, path, direction, signals);
            let name = format!("wl-fwd{from}-{position}");
            self.jobs.push(Job { name, port: from, rx, make: Box::new(make) });
        }
        Ok(())
    }

    /// The ends of a direction, with coalescers and segmenters if the switches need them.
    fn ends(
        &mut self,
        ports: &mut [Port],
        received: Vec<Rx>,
        (from, to): (usize, usize),
    ) -> Result<(Vec<Rx>, Vec<Tx>)> {
        let config = self.config;
        let switches = |position: usize| config.switches.get(position).and_then(Option::as_ref);
        let mut inputs = pairing::received(received);
        let merges = switches(from).filter(|switches| switches.can_merge());
        let sink = ports[to].sink();
        if let Some(switches) = merges {
            inputs = offload::merge(&mut self.monitor, from, inputs, &sink, switches, config)?;
        }
        // Packets merged here or by the kernel need segmentation again.
        let comes_long = merges.is_some() || ports[from].leaves_segmentation();
        let segmenting =
            switches(to).cloned().or_else(|| comes_long.then(Arc::<Switches>::default));
        let outputs = match segmenting {
            Some(switches) => offload::segment(&mut self.monitor, to, &mut ports[to], &switches)?,
            None => ports[to].tx()?,
        };
        pairing::check_ends(ports[from].info(), &inputs, ports[to].info(), &outputs)?;
        self.monitor.rx.extend(inputs.iter().map(|rx| (from, Arc::clone(rx.counters()))));
        self.monitor.tx.extend(tx_path::counters(&outputs).map(|counters| (to, counters)));
        Ok((inputs, outputs))
    }

    /// The paths to the transmitting ends of the port at index `to`: direct, or through
    /// disciplines.
    fn paths(&mut self, port: &Port, outputs: Vec<Tx>, to: usize) -> TxPaths {
        let choice = self.config.choice;
        let Some(spec) = &self.config.qdisc else {
            return TxPaths::Direct(outputs.into_iter().map(Some).collect());
        };
        let places = &mut self.places;
        let ends = outputs.into_iter().map(|tx| tx_path::watched(tx, port, choice, places));
        let egresses = Egresses::new(ends.map(|tx| Egress::new(spec, tx)), choice);
        let gauges = egresses.queues().iter().map(|egress| (to, egress.gauge()));
        self.monitor.qdiscs.extend(gauges);
        self.egresses.push(egresses.clone());
        TxPaths::Queued(egresses, choice)
    }
}
