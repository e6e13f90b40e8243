//! The cost of a packet in a queueing discipline.
//!
//! Each producer repeats a loop: it takes frames from its own pool, sets their lengths, and sends
//! them in a batch. The sink is the transmitting end of a `sim:` port, which counts frames and
//! frees them. Only cases that build packets write their bytes. The cost of the pools is the same
//! for every discipline, so two figures differ by the costs of the disciplines alone. A producer
//! waits when all its frames are in flight, so no discipline ever drops a packet.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::{affinity, clock};

use wirelane::error::{Error, Result};
use wirelane::frame::Batch;
use wirelane::internal::qdisc::{Egress, EgressHandle};
use wirelane::pool::{Pool, PoolConfig};
use wirelane::port::{self, OpenOptions, Tx};
use wirelane::qdisc::{QdiscKind, QdiscSpec, QdiscStats};

pub(super) const SUITE: &str = "qdisc";

/// Most producers of a case.
pub(super) const MAX_PRODUCERS: usize = 8;
/// Most bytes of a packet.
pub(super) const MAX_SIZE: usize = (CHUNK - HEADROOM) as usize;
const CHUNK: u32 = 2048;
const HEADROOM: u32 = 64;
/// Frames of each producer: few enough to stay in the cache, and for the queue to hold the frames
/// of all producers.
const FRAMES: u32 = 256;
const LIMIT: u32 = FRAMES * MAX_PRODUCERS as u32;
/// Turns without a free frame before a producer runs the queue itself. Usually the producers that
/// have frames run it: this is for a thread that was preempted while it did.
const PATIENCE: u32 = 1 << 14;
/// A longer time without a packet is an error.
const STANDSTILL: Duration = Duration::from_secs(20);

/// One way to send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QdiscCase {
    /// Through which discipline.
    pub(super) discipline: QdiscKind,
    /// Whether it enqueues a batch under one lock.
    pub(super) batched: bool,
    /// How many threads send, pinned to the CPUs in turn; 1 to [`MAX_PRODUCERS`].
    pub(super) producers: usize,
    /// Bytes of a packet, at most [`MAX_SIZE`].
    pub(super) size: usize,
    /// Packets of one call.
    pub(super) batch: usize,
    /// Write the bytes of every packet, as an application does.
    pub(super) build: bool,
}

impl QdiscCase {
    fn spec(&self) -> Result<QdiscSpec> {
        let Self { producers, size, batch, .. } = *self;
        if !(1..=MAX_PRODUCERS).contains(&producers) || size > MAX_SIZE || batch == 0 {
            return Err(Error::usage("benchmark", format!("{self:?} is out of range")));
        }
        let spec = QdiscSpec::new(self.discipline).batched(self.batched);
        let is_queue = !matches!(self.discipline, QdiscKind::Noqueue { .. });
        Ok(spec.limit_packets(is_queue.then_some(LIMIT)))
    }
}

/// The result of one run of a [`QdiscCase`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QdiscSample {
    /// Time between two packets at the sink, from all producers.
    pub(super) ns_per_packet: f64,
    /// CPU time of all producers per packet.
    pub(super) cpu_ns_per_packet: f64,
    /// Lock acquisitions and releases, counted by the discipline.
    pub(super) locks_per_packet: f64,
    /// Compare-and-swap instructions that failed because of another thread, counted by the
    /// discipline.
    pub(super) cas_retries_per_packet: f64,
    /// Share of the packets that bypassed the empty queue.
    pub(super) bypassed: f64,
    /// Packets that arrived, the warm-up included.
    pub(super) packets: u64,
    /// Packets that the discipline dropped: a fault of the measurement if there are any.
    pub(super) dropped: u64,
}

/// Frame memory and CPUs for measurements, one after the other.
pub(super) struct QdiscBench {
    pools: Vec<Pool>,
    cpus: Vec<u32>,
}

impl QdiscBench {
    /// Takes the memory.
    ///
    /// # Errors
    /// There is none, or the CPUs are not known.
    pub(super) fn new() -> Result<Self> {
        let config = PoolConfig {
            chunks: FRAMES,
            chunk_size: CHUNK,
            headroom: HEADROOM,
            ..PoolConfig::default()
        };
        let pools = (0..MAX_PRODUCERS).map(|_| Pool::new(config.clone())).collect::<Result<_>>()?;
        let cpus = affinity::allowed_cpus().map_err(|error| Error::os("CPUs", error))?;
        Ok(Self { pools, cpus })
    }

    /// Runs `case`: a quarter of `window` to warm up, then `window` for the rate. Counts per packet
    /// refer to all packets of the run.
    ///
    /// # Errors
    /// A case out of the documented range; the simulated port cannot be opened; no packet arrives;
    /// frames were lost.
    pub(super) fn measure(&mut self, case: &QdiscCase, window: Duration) -> Result<QdiscSample> {
        let producers = case.producers;
        let egress = Egress::new(&case.spec()?, sink()?);
        let counters = egress.tx_counters();
        let (stop, start) = (AtomicBool::new(false), Barrier::new(producers + 1));
        let (cpus, start, stop) = (&self.cpus, &start, &stop);
        let (rate, cpu) = thread::scope(|scope| {
            let workers: Vec<_> = (self.pools.iter_mut().take(producers).enumerate())
                .map(|(index, pool)| {
                    let handle = egress.handle();
                    let cpu = cpus.get(index % cpus.len().max(1)).copied();
                    scope.spawn(move || {
                        // If pinning fails, the scheduler chooses the CPU.
                        let _ = cpu.map(affinity::pin);
                        start.wait();
                        produce(case, pool, handle, stop)
                    })
                })
                .collect();
            start.wait();
            thread::sleep(window / 4);
            let (begin, before) = (Instant::now(), counters.packets.value());
            let mut packets = 0;
            // On a busy machine, the producers may have had no CPU time.
            while packets == 0 && begin.elapsed() < window + STANDSTILL {
                thread::sleep(window);
                packets = counters.packets.value().saturating_sub(before);
            }
            let passed = begin.elapsed();
            stop.store(true, Ordering::Relaxed);
            let cpu = workers.into_iter().filter_map(|worker| worker.join().ok());
            let cpu: Duration = cpu.sum();
            (passed.as_nanos() as f64 / packets as f64, cpu)
        });
        if !rate.is_finite() {
            let cause = format!(
                "no packet went through {} for {} seconds",
                case.discipline,
                STANDSTILL.as_secs()
            );
            return Err(Error::failed("benchmark", cause));
        }
        let stats = drained(&egress)?;
        let packets = counters.packets.value();
        self.take_back()?;
        let per_packet = |count: u64| count as f64 / packets as f64;
        Ok(QdiscSample {
            ns_per_packet: rate,
            cpu_ns_per_packet: cpu.as_nanos() as f64 / packets as f64,
            locks_per_packet: per_packet(stats.lock_operations),
            cas_retries_per_packet: per_packet(stats.cas_retries),
            bypassed: per_packet(stats.bypassed),
            packets,
            dropped: stats.dropped.total(),
        })
    }

    /// Checks that all frames are free again.
    fn take_back(&mut self) -> Result<()> {
        let mut batch = Batch::new(FRAMES as usize);
        for pool in &mut self.pools {
            let free = pool.take(&mut batch, FRAMES as usize);
            batch.clear();
            if free != FRAMES as usize {
                let cause = format!("{free} of {FRAMES} frames came back");
                return Err(Error::failed("benchmark", cause));
            }
        }
        Ok(())
    }
}

/// Nanoseconds of one acquisition and one release of an uncontended lock: the instructions of the
/// locked disciplines, a compare-and-swap and a store.
pub(super) fn uncontended_lock(pairs: usize) -> f64 {
    let lock = AtomicBool::new(false);
    per_turn(pairs, || {
        let lock = black_box(&lock);
        while lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        black_box(());
        lock.store(false, Ordering::Release);
    })
}

/// The same for [`std::sync::Mutex`].
pub(super) fn uncontended_mutex(pairs: usize) -> f64 {
    let lock = std::sync::Mutex::new(0_u64);
    per_turn(pairs, || drop(black_box(black_box(&lock).lock())))
}

fn per_turn(turns: usize, mut turn: impl FnMut()) -> f64 {
    (0..turns / 16).for_each(|_| turn());
    let begin = Instant::now();
    (0..turns).for_each(|_| turn());
    begin.elapsed().as_nanos() as f64 / turns as f64
}

/// The transmitting end that counts and frees frames.
fn sink() -> Result<Tx> {
    let options = OpenOptions::default().receive(false).transmit(true);
    let mut port = port::open(&"sim:1?frames=1".parse()?, &options)?;
    port.start()?;
    let missing = || Error::usage("port 'sim:1'", "it has no TX queue");
    port.tx()?.into_iter().next().ok_or_else(missing)
}

/// The statistics, once the queue is empty. An empty queue is not run.
fn drained(egress: &Egress) -> Result<QdiscStats> {
    let mut stats = egress.stats();
    if stats.backlog_packets > 0 {
        let mut handle = egress.handle();
        while handle.flush(clock::monotonic_ns())? > 0 {}
        stats = egress.stats();
    }
    Ok(stats)
}

/// Sends until stopped; returns the CPU time that this took.
fn produce(
    case: &QdiscCase,
    pool: &mut Pool,
    mut handle: EgressHandle,
    stop: &AtomicBool,
) -> Duration {
    let packet = [0x5a_u8; 2048];
    let mut batch = Batch::new(case.batch);
    let (mut now, mut idle) = (0, 0);
    let begin = clock::thread_cpu();
    while !stop.load(Ordering::Relaxed) {
        if pool.take(&mut batch, case.batch) == 0 {
            idle += 1;
            if idle % PATIENCE == 0 {
                // A refusal of the interface is reported again at the end.
                let _ = handle.flush(now);
            }
            thread::yield_now();
            continue;
        }
        idle = 0;
        for frame in batch.iter_mut() {
            let sized = match packet.get(..case.size).filter(|_| case.build) {
                Some(bytes) => frame.fill(black_box(bytes)),
                None => frame.set_len(case.size),
            };
            debug_assert!(sized, "a frame has room for the packet");
        }
        // These disciplines do not depend on the time.
        now += 1;
        while !batch.is_empty() {
            let sent = handle.send(&mut batch, now);
            if sent.refused > 0 {
                thread::yield_now();
            }
        }
    }
    clock::thread_cpu().since(begin).total()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane::error::ErrorKind;

    const WINDOW: Duration = Duration::from_millis(2);
    const BULK: QdiscKind = QdiscKind::Bulk { round: 8 };
    const BYPASS: QdiscKind = QdiscKind::Lockless { bypass: true };
    const NO_BYPASS: QdiscKind = QdiscKind::Lockless { bypass: false };

    fn case(discipline: QdiscKind, producers: usize, batch: usize) -> QdiscCase {
        QdiscCase { discipline, batched: false, producers, size: 64, batch, build: false }
    }

    #[test]
    fn locks_are_as_documented() {
        let mut bench = QdiscBench::new().unwrap();
        let mut sample = |discipline, producers, batch| {
            let sample = bench.measure(&case(discipline, producers, batch), WINDOW).unwrap();
            assert_eq!(sample.dropped, 0, "{discipline}");
            assert!(sample.packets > 0 && sample.ns_per_packet > 0.0, "{sample:?}");
            sample
        };
        let mut locks =
            |discipline, producers, batch| sample(discipline, producers, batch).locks_per_packet;
        // One producer fills its rounds: 6, and 2 + 4/n.
        assert_eq!((locks(QdiscKind::Fifo, 1, 32), locks(QdiscKind::Fifo, 1, 1)), (6.0, 6.0));
        assert_eq!((locks(BULK, 1, 32), locks(BULK, 1, 1)), (2.5, 6.0));
        assert_eq!(locks(QdiscKind::Noqueue { round: None }, 1, 32), 2.0 / 32.0);
        for producers in [1, 3] {
            assert_eq!((locks(BYPASS, producers, 32), locks(NO_BYPASS, producers, 1)), (0.0, 0.0));
        }
        // Emptying the queue at the end may add four lock operations, which matter if few packets
        // were sent.
        for (discipline, least) in [(QdiscKind::Fifo, 6.0), (BULK, 2.5)] {
            let together = sample(discipline, 3, 32);
            let most = 6.0 + 3.0 * 4.0 / together.packets as f64;
            assert!((least..=most).contains(&together.locks_per_packet), "{together:?}");
        }
    }

    #[test]
    fn a_batch_enqueued_at_once_shares_its_lock() {
        let mut bench = QdiscBench::new().unwrap();
        let mut locks = |discipline| {
            let case = QdiscCase { batched: true, ..case(discipline, 1, 32) };
            bench.measure(&case, WINDOW).unwrap().locks_per_packet
        };
        assert_eq!(locks(QdiscKind::Fifo), 2.0 / 32.0 + 4.0);
        assert_eq!(locks(BULK), 2.0 / 32.0 + 0.5);
    }

    #[test]
    fn bypass_is_what_it_says() {
        let mut bench = QdiscBench::new().unwrap();
        let mut bypassed =
            |discipline| bench.measure(&case(discipline, 1, 32), WINDOW).unwrap().bypassed;
        assert_eq!((bypassed(BYPASS), bypassed(NO_BYPASS)), (1.0, 0.0));
        assert_eq!(bypassed(QdiscKind::Noqueue { round: None }), 1.0);
    }

    #[test]
    fn impossible_cases_are_refused() {
        let mut bench = QdiscBench::new().unwrap();
        let fine = case(QdiscKind::Fifo, 1, 1);
        for wrong in [
            QdiscCase { producers: 0, ..fine },
            QdiscCase { producers: MAX_PRODUCERS + 1, ..fine },
            QdiscCase { size: MAX_SIZE + 1, ..fine },
            QdiscCase { batch: 0, ..fine },
        ] {
            assert_eq!(bench.measure(&wrong, WINDOW).unwrap_err().kind(), ErrorKind::Usage);
        }
        let largest = QdiscCase { size: MAX_SIZE, build: true, ..fine };
        assert!(bench.measure(&largest, WINDOW).unwrap().packets > 0);
    }

    #[test]
    fn locks_take_some_time() {
        for ns in [uncontended_lock(10_000), uncontended_mutex(10_000)] {
            assert!(ns > 0.0 && ns.is_finite(), "{ns}");
        }
    }
}
