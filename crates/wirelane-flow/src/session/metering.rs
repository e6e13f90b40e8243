//! A running metering.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane::Result;
use wirelane::internal::pipeline::{Work, by_queue};
use wirelane::internal::session::Receiving;
use wirelane::internal::session::needs_merge;
use wirelane::pipeline::{Outcome, Threads};
use wirelane::port::{Port, Rx};
use wirelane::session::Session;
use wirelane::session::monitor::Monitor;

use super::collector::{Collector, FlowCounts, UNWANTED};
use super::config::{FlowConfig, FlowOutcome};
use super::in_order::OrderedMetering;
use super::worker::MeteringWorker;
use crate::fitting;
use crate::meter::{Meter, MeterCounts};
use crate::sink::Sink;
use crate::table::Room;

/// The threads that meter, and the thread that joins their flows for the sinks.
pub struct Metering {
    receiving: Receiving<MeteringWorker>,
    collector: Arc<Collector>,
    counts: Vec<Arc<Mutex<MeterCounts>>>,
    /// A sentence if memory does not suffice for the requested number of flows.
    note: Option<String>,
}

impl Metering {
    /// Starts the threads. Reception begins when all of them are ready.
    ///
    /// # Errors
    /// A CPU cannot be used, a thread or port cannot be started, or the memory does not suffice for
    /// 1,000 flows.
    pub fn start(
        mut ports: Vec<Port>,
        sinks: Vec<Box<dyn Sink>>,
        config: &FlowConfig,
    ) -> Result<Session<Self>> {
        let inputs = ports.iter_mut().map(Port::rx).collect::<Result<Vec<Vec<Rx>>>>()?;
        let monitor = Monitor::of_receivers(ports.iter().zip(&inputs));
        if needs_merge(config.packets, &inputs) {
            let metering = Self::start_in_order(ports, inputs, sinks, config)?;
            return Ok(metering.into_session(monitor));
        }
        let groups = |(port, inputs): (usize, Vec<Rx>)| {
            let groups = match config.single && !inputs.is_empty() {
                true => vec![inputs],
                false => by_queue(inputs, |rx| rx),
            };
            groups.into_iter().map(move |group| (port, group))
        };
        let groups: Vec<_> = inputs.into_iter().enumerate().flat_map(groups).collect();
        let lossless = ports.iter().all(|port| port.info().lossless);
        let tables = groups.len();
        let (most, note) = fitting::flows(config.max_flows, tables)?;
        let collector = Collector::joining(sinks, tables, config.meter, most, lossless)?;
        let room = Arc::new(Room::new(most));
        let mut counts = Vec::new();
        let mut work = Vec::new();
        for (port, rx) in groups {
            let Some(info) = ports.get(port).map(Port::info) else { continue };
            let table = counts.len();
            let seed = config.seed.wrapping_add(table as u64);
            let mut meter = Meter::new(config.meter, Arc::clone(&room), seed);
            if tables > 1 {
                meter.track(config.seed);
            }
            let own = Arc::new(Mutex::new(MeterCounts::default()));
            counts.push(Arc::clone(&own));
            let consumer = MeteringWorker::new(info, &rx, meter, &collector, table, own);
            work.push(Work { port, rx, consumer });
        }
        let threads = Threads::default().placed(config.placement.clone()).packets(config.packets);
        let receiving = Receiving::Queues(threads.each_alone().start(ports, work)?);
        let metering = Self { receiving, collector: Arc::new(collector), counts, note };
        Ok(metering.into_session(monitor))
    }

    fn into_session(self, monitor: Monitor) -> Session<Self> {
        let handle = self.receiving.handle();
        Session::new(self, monitor, handle)
    }

    /// One table for the packets of all queues, in order of time.
    fn start_in_order(
        ports: Vec<Port>,
        inputs: Vec<Vec<Rx>>,
        sinks: Vec<Box<dyn Sink>>,
        config: &FlowConfig,
    ) -> Result<Self> {
        let lossless = ports.iter().all(|port| port.info().lossless);
        let collector = Arc::new(Collector::start(sinks, lossless)?);
        let (room, note) = Room::fitting(config.max_flows)?;
        let meter = Meter::new(config.meter, Arc::new(room), config.seed);
        let counts = Arc::new(Mutex::new(MeterCounts::default()));
        let view =
            Box::new(OrderedMetering::new(meter, Arc::clone(&collector), Arc::clone(&counts)));
        let FlowConfig { packets, single, ref placement, .. } = *config;
        let placement = placement.clone();
        let receiving = Receiving::start_in_order(ports, inputs, packets, single, placement, view)?;
        Ok(Self { receiving, collector, counts: vec![counts], note })
    }

    /// The counts of packets, updated about every 200 ms of packet time.
    pub fn metered(&self) -> MeterCounts {
        sum(&self.counts)
    }

    /// The counts of flows so far.
    pub fn flows(&self) -> FlowCounts {
        self.collector.counts()
    }
}

impl wirelane::session::Worker for Metering {
    type Outcome = FlowOutcome;

    fn wait(&self, timeout: Duration) -> bool {
        self.receiving.wait(timeout)
    }

    /// Ends all flows and gives them away.
    fn join(self, monitor: &Monitor) -> FlowOutcome {
        let Self { receiving, collector, counts, note } = self;
        collector.hurry();
        let Outcome { mut ports, frames, mut errors, .. } = receiving.join();
        if let Some(first) = ports.first_mut() {
            first.notes.extend(note);
        }
        // All threads that meter have ended.
        let (flows, failure) = Arc::into_inner(collector).map(Collector::join).unwrap_or_default();
        // A failed sink stops every thread with the error `UNWANTED`, which is redundant.
        errors.retain(|error| failure.is_none() || error.cause() != UNWANTED);
        let errors = failure.into_iter().chain(errors).collect();
        FlowOutcome {
            ports,
            queues: monitor.queues(),
            frames,
            metered: sum(&counts),
            flows,
            errors,
        }
    }
}

fn sum(counts: &[Arc<Mutex<MeterCounts>>]) -> MeterCounts {
    let of = |one: &Arc<Mutex<MeterCounts>>| one.lock().map(|counts| *counts).unwrap_or_default();
    counts.iter().map(of).fold(MeterCounts::default(), MeterCounts::plus)
}
