//! A running count: a receiving thread per queue, with separate tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::pipeline::{Consumer, Outcome, Running, Spread, Threads, Work, by_thread};
use crate::placement::Placement;
use crate::port::{FrameCounts, Port, PortInfo, Rx};
use crate::session::Session;
use crate::session::capture::needs_merge;
use crate::session::interfaces::{Interface, Placing, interfaces};
use crate::session::monitor::Monitor;
use crate::session::receiving::Receiving;
use crate::stats::QueueStats;

use super::by::By;
use super::in_order::InOrder;
use super::key::Key;
use super::sum::{Load, Sum};
use super::tables::{Counts, Row, Tables};
use super::teller::Teller;

/// How long to wait for the tables of the threads.
const ANSWER: Duration = Duration::from_millis(300);

/// How to count. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CountConfig {
    /// The kinds of keys to count by.
    pub by: Vec<By>,
    /// The maximum number of keys of each table. At times, twice as many are in memory, of at most
    /// 100 bytes each.
    pub keys: usize,
    /// Count tunnelled packets by the innermost IP header instead of the outermost one.
    pub inner: bool,
    /// All queues on one thread, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this many packets: the first ones of all queues, in order of time.
    pub packets: Option<u64>,
}

wirelane_wire::setters!(CountConfig:
    by: Vec<By>,
    inner: bool,
    single: bool,
    placement: Placement,
    packets: Option<u64>;
    keys: usize,
);

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
    /// The counts, in the order of [`CountConfig::by`].
    pub tables: Vec<Counts>,
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// The frames of all ports by place, after all threads had ended.
    pub frames: FrameCounts,
    /// Errors, in order. The counts are valid nevertheless.
    pub errors: Vec<Error>,
}

/// The sources of the counted packets, and the kinds of keys.
struct CountSources {
    by: Vec<By>,
    specs: Vec<String>,
    /// Each interface that is known from the start, with the index of its port.
    interfaces: Vec<(usize, Interface)>,
    /// Finds the interfaces that appear later, with the index of the port.
    placings: Vec<(usize, Placing)>,
}

/// The threads of a count, and their tables.
pub struct Counting {
    receiving: Receiving<CountWorker>,
    sources: CountSources,
    /// The counts that the threads have handed over.
    tables: Mutex<Tables>,
    handed_over: mpsc::Receiver<Tables>,
    /// The number of requests to the threads.
    asked: Arc<AtomicU64>,
    /// The number of threads that have not ended.
    threads: Arc<AtomicUsize>,
}

impl Counting {
    /// Starts the threads, and starts the ports when all threads are ready.
    ///
    /// # Errors
    /// A CPU cannot be used, or a port refuses to start.
    pub fn start(mut ports: Vec<Port>, config: &CountConfig) -> Result<Session<Self>> {
        let inputs = ports.iter_mut().map(Port::rx).collect::<Result<Vec<Vec<Rx>>>>()?;
        let monitor = Monitor::of_receivers(ports.iter().zip(&inputs));
        let room = Tables::new(&config.by, config.keys, config.inner);
        let (hand_over, handed_over) = mpsc::channel();
        let asked = Arc::new(AtomicU64::new(0));
        let threads = Arc::new(AtomicUsize::new(0));
        let sources = CountSources::new(&ports, &inputs, &config.by);
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
        let handle = receiving.handle();
        let counting = Self {
            receiving,
            sources,
            tables: Mutex::new(Tables::new(&config.by, config.keys, config.inner)),
            handed_over,
            asked,
            threads,
        };
        Ok(Session::new(counting, monitor, handle))
    }

    fn start_queues(
        ports: Vec<Port>,
        inputs: Vec<Vec<Rx>>,
        config: &CountConfig,
        teller: impl Fn() -> Teller,
        threads: &AtomicUsize,
    ) -> Result<Running<CountWorker>> {
        let of_port = |(port, inputs): (&Port, Vec<Rx>)| {
            let end = |rx| (Links::of(port.info(), &rx), rx);
            inputs.into_iter().map(end).collect::<Vec<_>>()
        };
        let ends = ports.iter().zip(inputs).map(of_port).collect();
        let work = |(port, ends): (usize, Vec<(Links, Rx)>)| {
            let (links, rx) = ends.into_iter().unzip();
            Work { port, rx, consumer: CountWorker { links, teller: teller() } }
        };
        let spread = if config.single { Spread::One } else { Spread::Queue };
        let work: Vec<_> = by_thread(ends, spread, |(_, rx)| rx).into_iter().map(work).collect();
        threads.store(work.len(), Ordering::Release);
        let threads = Threads::default().placed(config.placement.clone()).packets(config.packets);
        threads.each_alone().start(ports, work)
    }

    /// The counts so far, without the latest packets.
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
        self.sources.counts(&tables)
    }
}

impl CountSources {
    fn new(ports: &[Port], inputs: &[Vec<Rx>], by: &[By]) -> Self {
        let (mut known, mut placings) = (Vec::new(), Vec::new());
        for (position, (port, inputs)) in ports.iter().zip(inputs).enumerate() {
            let of_end =
                |rx: &Rx| interfaces(port.info(), rx).into_iter().map(|one| (position, one));
            known.extend(inputs.iter().flat_map(of_end));
            // All receiving ends of a port share the interfaces that it finds later.
            placings.extend(inputs.first().map(|rx| (position, Placing::of(rx))));
        }
        let specs = ports.iter().map(|port| port.info().spec.clone()).collect();
        Self { by: by.to_vec(), specs, interfaces: known, placings }
    }

    /// The counts of `tables` and of the ports.
    fn counts(&self, tables: &Tables) -> Vec<Counts> {
        let of = |by: &By| match by {
            By::Queue => Some(by_queue(&self.all(), &self.specs)),
            by => tables.counts(*by),
        };
        self.by.iter().filter_map(of).collect()
    }

    /// The interfaces known from the start, then the interfaces that appeared later.
    fn all(&self) -> Vec<(usize, Interface)> {
        let later = self.placings.iter().flat_map(|(port, placing)| {
            placing.later().into_iter().map(|interface| (*port, interface))
        });
        self.interfaces.iter().cloned().chain(later).collect()
    }
}

impl crate::session::Worker for Counting {
    type Outcome = CountOutcome;

    fn wait(&self, timeout: Duration) -> bool {
        self.receiving.wait(timeout)
    }

    fn join(self, monitor: &Monitor) -> CountOutcome {
        let Outcome { ports, frames: each, errors, .. } = self.receiving.join();
        let frames = each.into_iter().sum();
        let mut tables = self.tables.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.handed_over.try_iter().for_each(|last| tables.join(last));
        let tables = self.sources.counts(&tables);
        CountOutcome { tables, ports, queues: monitor.queues(), frames, errors }
    }
}

/// The counters of the ports. Queues without packets are left out.
fn by_queue(interfaces: &[(usize, Interface)], specs: &[String]) -> Counts {
    let mut sums: BTreeMap<String, Load> = BTreeMap::new();
    let mut add = |port: &str, interface: &str, class: &str, queue: Option<u16>, load| {
        let number = queue.map(|queue| format!(" {queue}")).unwrap_or_default();
        // Interfaces of the same name in several files differ by the file.
        let name = match (specs.len() > 1, interface) {
            (true, "") => format!("{port}: "),
            (true, interface) => format!("{port}: {interface} "),
            (false, "") => String::new(),
            (false, interface) => format!("{interface} "),
        };
        let name = format!("{name}{class}{number}").trim_end().to_owned();
        *sums.entry(name).or_default() += load;
    };
    let spec = |port: usize| specs.get(port).map_or("", String::as_str);
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
    /// The link type of all packets, or of packets whose interface is not known.
    whole: u16,
    placing: Placing,
    /// The link types of interfaces, up to the highest one with packets.
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

/// The consumer of a receiving thread.
struct CountWorker {
    /// One per receiving end.
    links: Vec<Links>,
    teller: Teller,
}

impl Consumer for CountWorker {
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
