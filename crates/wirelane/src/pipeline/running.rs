//! Receives on a thread for every queue.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::event::Event;

use super::consumer::Consumer;
use super::forwarder::Forwarder;
use super::handle::Handle;
use super::progress::LoopRounds;
use super::quota::{Portion, Quota};
use super::run::run_until;
use super::wait::wait_any;
use super::work::Work;
use crate::error::{Error, Result};
use crate::halt::Halt;
use crate::placement::Placement;
use crate::port::{Control, FrameCounts, Port, PortInfo, Rx, lanes};
use crate::stats::{QueueStats, RxCounters};
use crate::threads::Crew;

/// Starts `port` with a thread for every queue. `make` creates the consumer of each thread from the
/// receiving ends of the thread: the RX and the TX side of a queue. The first thread also serves
/// packets without a queue.
///
/// ```
/// use wirelane::port::{self, OpenOptions};
/// use wirelane::{Batch, pipeline};
///
/// # fn main() -> wirelane::Result<()> {
/// let port = port::open(&"sim:2?count=10000".parse()?, &OpenOptions::default())?;
/// let drop_all = |_: usize, _: &mut Batch| Ok(());
/// let running = pipeline::spawn(port, |_| drop_all)?;
/// let outcome = running.join();
/// assert_eq!(outcome.queues.iter().map(|queue| queue.packets).sum::<u64>(), 10_000);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of [`Threads::spawn`].
pub fn spawn<C: Consumer + Send + 'static>(
    port: Port,
    make: impl FnMut(&[Rx]) -> C,
) -> Result<Running<C>> {
    Threads::default().spawn(port, make)
}

/// How to start threads: their CPUs, their limit of packets, and the halt that ends them.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    placement: Option<Placement>,
    halt: Halt,
    each_alone: bool,
    packets: Option<u64>,
}

impl Threads {
    /// Pins each thread to a CPU. Without it the scheduler places the threads.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// After a request to `halt`, [`Running::wait`] returns and [`Running::join`] stops the ports.
    #[must_use]
    pub fn until(mut self, halt: &Halt) -> Self {
        self.halt = halt.clone();
        self
    }

    /// A failed port stops alone. Without it, all ports stop.
    #[must_use]
    pub fn each_alone(self) -> Self {
        Self { each_alone: true, ..self }
    }

    /// Ends after exactly `packets` packets, received by any of the threads; `None` for no limit.
    /// Packets merged into others count. To receive the earliest packets from several ends, use a
    /// merge, such as a [capture](crate::session::capture).
    #[must_use]
    pub fn packets(self, packets: Option<u64>) -> Self {
        Self { packets, ..self }
    }

    /// As [`spawn`].
    ///
    /// # Errors
    /// There is no queue to receive from, a thread cannot be started or pinned, or the port refuses
    /// to start.
    pub fn spawn<C: Consumer + Send + 'static>(
        self,
        port: Port,
        mut make: impl FnMut(&[Rx]) -> C,
    ) -> Result<Running<C>> {
        self.spawn_all(vec![port], |_, rx| make(rx))
    }

    /// As [`spawn`], for several ports: `make` also receives the index of the port.
    ///
    /// # Errors
    /// The errors of [`Threads::spawn`].
    pub fn spawn_all<C: Consumer + Send + 'static>(
        self,
        mut ports: Vec<Port>,
        mut make: impl FnMut(usize, &[Rx]) -> C,
    ) -> Result<Running<C>> {
        let mut work = Vec::new();
        for (index, port) in ports.iter_mut().enumerate() {
            for rx in by_queue(port.rx()?, |rx| rx) {
                work.push(Work { port: index, consumer: make(index, &rx), rx });
            }
        }
        self.start(ports, work)
    }

    /// Starts forwarding between two ports, or from one port back to itself, with a thread for each
    /// TX queue in use. `make` creates the consumer of each thread from the index of the receiving
    /// port and a [`Forwarder`]: the forwarder itself, or a consumer that contains it.
    ///
    /// ```
    /// use wirelane::pipeline::Threads;
    /// use wirelane::port::{self, OpenOptions};
    ///
    /// # fn main() -> wirelane::Result<()> {
    /// let options = OpenOptions::forwarder();
    /// let open = || port::open(&"sim:2?count=100".parse()?, &options);
    /// let running = Threads::default().forward(vec![open()?, open()?], |_, out| out)?;
    /// let outcome = running.join();
    /// assert_eq!(outcome.queues.iter().map(|queue| queue.packets).sum::<u64>(), 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no port or there are more than two, their link types differ, a port has no queue to
    /// receive from or to send through, or the errors of [`Threads::spawn`].
    pub fn forward<C: Consumer + Send + 'static>(
        self,
        mut ports: Vec<Port>,
        mut make: impl FnMut(usize, Forwarder) -> C,
    ) -> Result<Running<C>> {
        let lanes = lanes(&mut ports)?;
        let work = lanes.into_iter().map(|lane| {
            let from = lane.from;
            lane.work(|out| make(from, out))
        });
        self.start(ports, work)
    }

    /// As [`Threads::spawn`], but one thread receives from all queues.
    ///
    /// # Errors
    /// The errors of [`Threads::start`].
    pub fn spawn_one<C: Consumer + Send + 'static>(
        self,
        mut port: Port,
        consumer: C,
    ) -> Result<Running<C>> {
        let rx = port.rx()?;
        let work = Some(Work { port: 0, rx, consumer }).filter(|work| !work.rx.is_empty());
        self.start(vec![port], work)
    }

    /// Starts a thread for each of `work`, whose ends belong to `ports`. Starts the ports when all
    /// threads are ready.
    ///
    /// # Errors
    /// There is no end to receive from, a thread cannot be started or pinned, or a port refuses to
    /// start.
    #[doc(hidden)]
    pub fn start<C: Consumer + Send + 'static>(
        self,
        ports: Vec<Port>,
        work: impl IntoIterator<Item = Work<C>>,
    ) -> Result<Running<C>> {
        let job = |Work { port, rx, consumer }| {
            let name = rx.first().map_or("wl".into(), thread_name);
            Job { name, port, rx, make: |_: &[Rx]| consumer }
        };
        self.launch(ports, work.into_iter().map(job))
    }

    /// As [`Threads::start`], but each thread creates its consumer, so that the consumer's memory
    /// is local to the thread.
    pub(crate) fn launch<C, M>(
        self,
        mut ports: Vec<Port>,
        jobs: impl IntoIterator<Item = Job<M>>,
    ) -> Result<Running<C>>
    where
        C: Consumer + Send + 'static,
        M: FnOnce(&[Rx]) -> C + Send + 'static,
    {
        self.halt.descriptors()?;
        let stop = Arc::new(ThreadStopper {
            controls: ports.iter().map(|port| port.control()).collect(),
            asked: Event::new()?,
        });
        let each_alone = self.each_alone;
        let quota = self.packets.map(|packets| Arc::new(Quota::new(packets)));
        let (mut counters, mut progress) = (Vec::new(), Vec::new());
        let job = |Job { name, port, rx: mut inputs, make }: Job<M>| {
            counters.extend(inputs.iter().map(|rx| (port, Arc::clone(rx.counters()))));
            let (stop, portion) = (Arc::clone(&stop), Portion::of(quota.as_ref()));
            let own = Arc::new(LoopRounds::default());
            progress.push(Arc::clone(&own));
            let run = move || {
                let on_panic = OnPanic(&stop);
                let mut consumer = make(&inputs);
                let stopped = Some(&stop.asked);
                let failure = run_until(&mut inputs, &mut consumer, stopped, portion, &own).err();
                drop(on_panic);
                match stop.controls.get(port).filter(|_| each_alone) {
                    _ if failure.is_none() => {}
                    Some(control) => control.stop(),
                    None => stop.ask(),
                }
                Ended { _inputs: inputs, consumer, failure }
            };
            (name, run)
        };
        let jobs: Vec<_> = jobs.into_iter().map(job).collect();
        if jobs.is_empty() {
            let object = ports.first().map_or("ports".into(), |port| port.info().spec.clone());
            return Err(Error::failed(
                format!("port '{object}'"),
                "it has no queue to receive from",
            ));
        }
        let placement = self.placement.unwrap_or_else(Placement::nowhere);
        let crew =
            Crew::start(jobs, &placement, || ports.iter_mut().try_for_each(|port| port.start()));
        let crew = crew.inspect_err(|_| stop.ask())?;
        Ok(Running { crew, ports, counters, progress: progress.into(), stop, halt: self.halt })
    }
}

/// As [`Work`], with the name of the thread, and a function that creates the consumer.
pub(crate) struct Job<M> {
    pub(crate) name: String,
    pub(crate) port: usize,
    pub(crate) rx: Vec<Rx>,
    pub(crate) make: M,
}

/// Threads that receive. Dropping it stops them.
pub struct Running<C: Send + 'static> {
    crew: Crew<Ended<C>>,
    ports: Vec<Port>,
    /// With the index of their port.
    counters: Vec<(usize, Arc<RxCounters>)>,
    /// Of each thread.
    progress: Arc<[Arc<LoopRounds>]>,
    stop: Arc<ThreadStopper>,
    halt: Halt,
}

/// The result of the threads.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<C> {
    /// The consumers, in the order of the threads; none for a thread that panicked.
    pub consumers: Vec<C>,
    /// The counters of every receiving end, even if its thread failed.
    pub queues: Vec<QueueStats>,
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The frames of each port by place, after all threads had ended.
    pub frames: Vec<FrameCounts>,
    /// Errors, in order. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}

impl<C> Outcome<C> {
    /// The consumers, or the first error.
    ///
    /// # Errors
    /// The first error of the run.
    pub fn result(self) -> Result<Vec<C>> {
        self.errors.into_iter().next().map_or(Ok(self.consumers), Err)
    }
}

impl<C: Send + 'static> Running<C> {
    /// Waits until all threads have ended, `timeout` has passed, or the end was requested
    /// ([`Threads::until`]); true if they have ended. Threads end when all receiving ends have
    /// ended, when enough packets were received ([`Threads::packets`]), when no consumer has
    /// capacity left, and after an error. With a timeout it also returns after a signal, for which
    /// the caller may be waiting.
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> bool {
        self.wait_or(timeout.into(), &[])
    }

    /// As [`Running::wait`]; also returns when one of `others` is readable.
    pub(crate) fn wait_or(&self, timeout: Option<Duration>, others: &[BorrowedFd<'_>]) -> bool {
        let Some(ended) = self.crew.ended() else { return true };
        let mut descriptors = vec![ended];
        descriptors.extend(others);
        // They were created when the threads started.
        descriptors.extend(self.halt.descriptors().unwrap_or_default());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match wait_any::<Rx>(&mut [], &descriptors, deadline) {
                Ok(wake) if wake.is_ready(0) => return true,
                // A signal.
                Ok(_) if timeout.is_none() && others.is_empty() && !self.halt.is_asked() => {}
                _ => return false,
            }
        }
    }

    /// Stops accepting packets; callable from any thread. Packets in the rings are still received.
    pub fn stop(&self) {
        self.stop.ask();
    }

    /// Controls the ports and stops them, from any thread.
    pub fn handle(&self) -> Handle {
        let stop = Arc::clone(&self.stop);
        Handle::new(self.stop.controls.clone(), move || stop.ask()).of_threads(&self.progress)
    }

    /// Whether the end was requested by [`Running::stop`] or by a failed thread, for any thread.
    pub(crate) fn stopped(&self) -> impl Fn() -> bool + Send + Sync + use<C> {
        let stop = Arc::clone(&self.stop);
        move || stop.asked.wait(Duration::ZERO)
    }

    /// Negotiated mode, queues and notes of the ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.ports.iter().map(|port| port.info())
    }

    /// The ports themselves.
    pub(crate) fn open_ports(&self) -> &[Port] {
        &self.ports
    }

    /// Masks, filter and stop of each port, for any thread.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        &self.stop.controls
    }

    /// The current counters of every receiving end.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.counters.iter().map(|(port, counters)| counters.snapshot(*port)).collect()
    }

    /// Waits for the end, as [`Running::wait`] without a timeout; stops the ports if the end was
    /// requested. Returns the result of the threads.
    pub fn join(mut self) -> Outcome<C> {
        if !self.wait(None) {
            self.stop();
        }
        let (consumers, mut errors) = self.end();
        // A removed interface fails at each of its queues.
        Error::each_once(&mut errors);
        let mut ports = Vec::new();
        for port in &self.ports {
            let mut info = port.info().clone();
            info.notes.extend(port.diagnostics());
            ports.push(info);
        }
        let frames = self.ports.iter().map(Port::frames).collect();
        Outcome { consumers, queues: self.queues(), ports, frames, errors }
    }

    /// Waits until all threads have ended. Returns the consumers and all errors. Keeps the ports.
    pub(crate) fn end(&mut self) -> (Vec<C>, Vec<Error>) {
        let (mut ended, mut errors) = (Vec::new(), Vec::new());
        self.crew.join(&mut ended, &mut errors);
        let mut consumers = Vec::new();
        for Ended { _inputs, consumer, failure } in ended {
            consumers.push(consumer);
            errors.extend(failure);
        }
        (consumers, errors)
    }
}

impl<C: Send + 'static> Drop for Running<C> {
    fn drop(&mut self) {
        self.stop();
        // The threads end before the ports whose frames they hold.
        drop(std::mem::take(&mut self.crew));
    }
}

/// The result of one thread.
struct Ended<C> {
    _inputs: Vec<Rx>,
    consumer: C,
    failure: Option<Error>,
}

/// Ends the threads, from inside or outside.
struct ThreadStopper {
    controls: Vec<Arc<dyn Control>>,
    /// Wakes sleeping threads.
    asked: Event,
}

impl ThreadStopper {
    fn ask(&self) {
        self.controls.iter().for_each(|control| control.stop());
        self.asked.happen();
    }
}

/// Ends the other threads if this one panics.
struct OnPanic<'a>(&'a ThreadStopper);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.ask();
        }
    }
}

pub(crate) fn thread_name(rx: &Rx) -> String {
    rx.queue().map_or("wl-rx".into(), |queue| format!("wl-rx{queue}"))
}

/// The ends of each thread: the RX and the TX side of a queue. The first thread also has the ends
/// without a queue. `rx` returns the receiving end of an element.
pub fn by_queue<T>(ends: Vec<T>, rx: impl Fn(&T) -> &Rx) -> Vec<Vec<T>> {
    let first = ends.iter().filter_map(|end| rx(end).queue()).min().unwrap_or(0);
    let mut groups: BTreeMap<u16, Vec<T>> = BTreeMap::new();
    for end in ends {
        groups.entry(rx(&end).queue().unwrap_or(first)).or_default().push(end);
    }
    groups.into_values().collect()
}

/// How receiving ends are distributed over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All ends of all ports are on one thread.
    One,
    /// All ends of a port are on one thread.
    Port,
    /// The ends of a queue are on one thread, as in `test_mqbpf` of "Multiqueue support for bpf"
    /// (2011).
    Queue,
}

/// The ends of each thread, and the index of their port. `ends` has one list per port.
pub(crate) fn by_thread<T>(
    ends: Vec<Vec<T>>,
    spread: Spread,
    rx: impl Fn(&T) -> &Rx,
) -> Vec<(usize, Vec<T>)> {
    if spread == Spread::One {
        let all: Vec<T> = ends.into_iter().flatten().collect();
        return if all.is_empty() { Vec::new() } else { vec![(0, all)] };
    }
    let of_port = |(port, ends): (usize, Vec<T>)| {
        let is_growing = ends.iter().any(|end| rx(end).discovered().is_some());
        let most = match spread {
            Spread::Queue if !is_growing => usize::MAX,
            // The rings of `any` do not belong to single queues, so there is one thread per
            // processor.
            Spread::Queue => thread::available_parallelism().map_or(1, usize::from),
            Spread::One | Spread::Port => 1,
        };
        let mut threads = by_queue(ends, &rx);
        if threads.len() > most {
            let more = threads.split_off(most);
            for (place, mut ends) in more.into_iter().enumerate() {
                let thread = threads.get_mut(place % most);
                thread.into_iter().for_each(|thread| thread.append(&mut ends));
            }
        }
        threads.into_iter().map(move |ends| (port, ends)).collect::<Vec<_>>()
    };
    ends.into_iter().enumerate().flat_map(of_port).collect()
}
