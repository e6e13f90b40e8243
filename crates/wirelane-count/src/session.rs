//! A running count: a receiving thread per queue, with tables of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use wirelane::pipeline::{Consumer, Outcome, Running, Spread, Threads, Work, by_thread};
use wirelane::placement::Placement;
use wirelane::port::{Control, FrameCounts, Port, PortInfo, Rx};
use wirelane::session::capture::needs_merge;
use wirelane::session::interfaces::{Interface, Placing, interfaces};
use wirelane::session::monitor::Monitor;
use wirelane::session::receiving::Receiving;
use wirelane::stats::QueueStats;
use wirelane::{Batch, Error, Frame, Result};

use crate::by::By;
use crate::in_order::InOrder;
use crate::key::Key;
use crate::sum::{Load, Sum};
use crate::tables::{Counts, Row, Tables};
use crate::teller::Teller;

/// Threads look after this time at the latest whether their tables are asked for.
const ANSWER: Duration = Duration::from_millis(300);

/// How to count.
#[derive(Clone, Debug)]
pub struct CountConfig {
    /// By what.
    pub by: Vec<By>,
    /// How many keys each table has room for. Twice as many are in memory at times, of at most 100
    /// bytes each.
    pub keys: usize,
    /// What tunnels carry counts, by the innermost IP header, and not the outermost one.
    pub inner: bool,
    /// All queues on one thread, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this many packets: the first ones of all queues, in order of time.
    pub packets: Option<u64>,
}

impl Default for CountConfig {
    fn default() -> Self {
        Self {
            by: vec![By::Proto],
            keys: 1 << 20,
            inner: false,
            single: false,
            placement: Placement::default(),
            packets: None,
        }
    }
}

/// The outcome of a count.
#[derive(Debug)]
#[non_exhaustive]
pub struct CountOutcome {
    /// What was counted, in the order of [`CountConfig::by`].
    pub tables: Vec<Counts>,
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// Where the frames of all ports were when all threads had ended.
    pub frames: FrameCounts,
    /// Errors, the first one first. What was counted is valid nevertheless.
    pub errors: Vec<Error>,
}

/// A running count. Dropping it stops it; [`Counting::join`] also returns the outcome.
pub struct Counting {
    receiving: Receiving<Worker>,
    monitor: Monitor,
    by: Vec<By>,
    /// What the threads have handed over.
    tables: Mutex<Tables>,
    handed_over: mpsc::Receiver<Tables>,
    /// How often they were asked to.
    asked: Arc<AtomicU64>,
    /// How many threads are not at an end.
    threads: Arc<AtomicUsize>,
    /// Each interface that is known from the start, with the position of its port.
    interfaces: Vec<(usize, Interface)>,
    /// Finds the interfaces that appear later, with the position of the port.
    placings: Vec<(usize, Placing)>,
}

impl Counting {
    /// Starts the threads, and lets packets in when all of them are ready.
    ///
    /// # Errors
    /// A CPU cannot be used, or a port refuses to start.
    pub fn start(mut ports: Vec<Port>, config: &CountConfig) -> Result<Self> {
        let inputs = ports.iter_mut().map(Port::rx).collect::<Result<Vec<Vec<Rx>>>>()?;
        let monitor = Monitor::of_receivers(ports.iter().zip(&inputs));
        let room = Tables::new(&config.by, config.keys, config.inner);
        let (hand_over, handed_over) = mpsc::channel();
        let asked = Arc::new(AtomicU64::new(0));
        let threads = Arc::new(AtomicUsize::new(0));
        let (mut known, mut placings) = (Vec::new(), Vec::new());
        for (position, (port, inputs)) in ports.iter().zip(&inputs).enumerate() {
            let growing =
                |rx: &Rx| interfaces(port.info(), rx).into_iter().map(|one| (position, one));
            known.extend(inputs.iter().flat_map(growing));
            // All receiving ends of a port share the interfaces that it finds later.
            placings.extend(inputs.first().map(|rx| (position, Placing::of(rx))));
        }
        let teller = || Teller::new(room.next(), &asked, &hand_over, &threads);
        let receiving = if needs_merge(config.packets, &inputs) {
            threads.store(1, Ordering::Release);
            let CountConfig { packets, single, ref placement, .. } = *config;
            let view = Box::new(InOrder::new(teller()));
            let placement = placement.clone();
            Receiving::start_in_order(ports, inputs, packets, single, placement, view)?
        } else {
            Receiving::Queues(Self::start_queues(ports, inputs, config, teller, &threads)?)
        };
        Ok(Self {
            receiving,
            monitor,
            by: config.by.clone(),
            tables: Mutex::new(Tables::new(&config.by, config.keys, config.inner)),
            handed_over,
            asked,
            threads,
            interfaces: known,
            placings,
        })
    }

    /// A thread per queue.
    fn start_queues(
        ports: Vec<Port>,
        inputs: Vec<Vec<Rx>>,
        config: &CountConfig,
        teller: impl Fn() -> Teller,
        threads: &AtomicUsize,
    ) -> Result<Running<Worker>> {
        let of_port = |(port, inputs): (&Port, Vec<Rx>)| {
            let end = |rx| (Links::of(port.info(), &rx), rx);
            inputs.into_iter().map(end).collect::<Vec<_>>()
        };
        let ends = ports.iter().zip(inputs).map(of_port).collect();
        let work = |(port, ends): (usize, Vec<(Links, Rx)>)| {
            let (links, rx) = ends.into_iter().unzip();
            Work { port, rx, consumer: Worker { links, teller: teller() } }
        };
        let spread = if config.single { Spread::One } else { Spread::Queue };
        let work: Vec<_> = by_thread(ends, spread, |(_, rx)| rx).into_iter().map(work).collect();
        threads.store(work.len(), Ordering::Release);
        let threads = Threads::default().placed(config.placement.clone()).packets(config.packets);
        threads.each_alone().start(ports, work)
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.receiving.ports()
    }

    /// Masks, filter and stop of each port, for any thread.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        self.receiving.controls()
    }

    /// Reads all counters, from any thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Waits until the count has ended by itself (enough packets, the end of every source, an
    /// error), or `timeout` has passed; true if it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.receiving.wait(timeout)
    }

    /// What was counted so far, but for packets of the last moment.
    pub fn counts(&self) -> Vec<Counts> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        self.handed_over.try_iter().for_each(|before| tables.join(before));
        self.asked.fetch_add(1, Ordering::Release);
        let deadline = Instant::now() + ANSWER;
        for _ in 0..self.threads.load(Ordering::Acquire) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(answer) = self.handed_over.recv_timeout(left) else { break };
            tables.join(answer);
        }
        let ports: Vec<_> = self.ports().cloned().collect();
        counts(&self.by, &tables, &all(&self.interfaces, &self.placings), &ports)
    }

    /// Lets no more packets in, counts those on their way, and reports.
    pub fn join(self) -> CountOutcome {
        let Self { receiving, monitor, tables, handed_over, by, interfaces, placings, .. } = self;
        let Outcome { ports, frames: each, errors, .. } = receiving.join();
        let queues = monitor.queues();
        let mut frames = FrameCounts::default();
        each.into_iter().for_each(|of_port| frames += of_port);
        let mut tables = tables.into_inner().unwrap_or_else(PoisonError::into_inner);
        handed_over.try_iter().for_each(|last| tables.join(last));
        let tables = counts(&by, &tables, &all(&interfaces, &placings), &ports);
        CountOutcome { tables, ports, queues, frames, errors }
    }
}

/// The interfaces known from the start, then the interfaces that appeared later.
fn all(first: &[(usize, Interface)], placings: &[(usize, Placing)]) -> Vec<(usize, Interface)> {
    let later = placings.iter().flat_map(|(port, placing)| {
        placing.later().into_iter().map(|interface| (*port, interface))
    });
    first.iter().cloned().chain(later).collect()
}

fn counts(
    by: &[By],
    tables: &Tables,
    interfaces: &[(usize, Interface)],
    ports: &[PortInfo],
) -> Vec<Counts> {
    let of = |by: &By| match by {
        By::Queue => Some(by_queue(interfaces, ports)),
        by => tables.counts(*by),
    };
    by.iter().filter_map(of).collect()
}

/// The counters of the ports. Queues without packets are left out.
fn by_queue(interfaces: &[(usize, Interface)], ports: &[PortInfo]) -> Counts {
    let mut sums: BTreeMap<String, Load> = BTreeMap::new();
    let mut add = |port: &str, interface: &str, class: &str, queue: Option<u16>, load| {
        let number = queue.map(|queue| format!(" {queue}")).unwrap_or_default();
        // Interfaces of the same name in several files differ by the file.
        let name = match (ports.len() > 1, interface) {
            (true, "") => format!("{port}: "),
            (true, interface) => format!("{port}: {interface} "),
            (false, "") => String::new(),
            (false, interface) => format!("{interface} "),
        };
        let name = format!("{name}{class}{number}").trim_end().to_owned();
        *sums.entry(name).or_default() += load;
    };
    let spec = |port: usize| ports.get(port).map_or("", |info| info.spec.as_str());
    for (port, Interface { source, counters }) in interfaces {
        let QueueStats { class, queue, packets, bytes, .. } = counters.snapshot(*port);
        let load = Load { packets, bytes: bytes.unwrap_or(0) };
        // In a file of another program, the number of an interface is not the number of a queue.
        let is_foreign = source.class.is_none() && !source.name.is_empty();
        let (class, queue) = if is_foreign { ("", None) } else { (class, queue) };
        add(spec(*port), &source.name, class, queue, load);
    }
    let rows = sums.into_iter().filter(|(_, load)| load.packets > 0).map(|(name, load)| Row {
        key: Key::Queue(name),
        sum: Sum { sent: load, ..Sum::default() },
    });
    Counts { by: By::Queue, rows: rows.collect(), without: Vec::new(), unplaced: Sum::default() }
}

/// The link types of the packets of a receiving end.
struct Links {
    /// Of all, or of those whose interface is not known.
    whole: u16,
    placing: Placing,
    /// Of the interfaces, as far as they had packets.
    found: Vec<u16>,
}

impl Links {
    fn of(info: &PortInfo, rx: &Rx) -> Self {
        Self { whole: info.link_type, placing: Placing::of(rx), found: Vec::new() }
    }

    #[inline]
    fn of_frame(&mut self, frame: &Frame) -> u16 {
        if self.placing.is_one() {
            return self.whole;
        }
        let place = self.placing.position(frame);
        while self.found.len() <= place as usize {
            let source = self.placing.found(self.found.len() as u32);
            self.found.push(source.map_or(self.whole, |source| source.link_type));
        }
        self.found.get(place as usize).copied().unwrap_or(self.whole)
    }
}

/// What a receiving thread does with its frames.
struct Worker {
    /// One per receiving end.
    links: Vec<Links>,
    teller: Teller,
}

impl Consumer for Worker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        let Some(links) = self.links.get_mut(input) else { return Ok(()) };
        let tables = self.teller.tables();
        for frame in batch.iter() {
            let link_type = links.of_frame(frame);
            tables.count(link_type, frame.data(), frame.original_len(), frame.timestamp());
        }
        Ok(())
    }

    fn round(&mut self, _: &[Rx], _: bool) -> Result<()> {
        self.teller.answer_if_asked();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.teller.finish();
        Ok(())
    }
}
