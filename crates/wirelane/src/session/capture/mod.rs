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
//! Who looks at the packets meanwhile ([`View`]) gets copies of what the writer has merged, as far
//! as there is room.
//!
//! `-c N` takes the first packets in order of time, so the limit is applied behind the merge
//! (`limit.rs`).
//!
//! A worker copies each packet once, encoded, into the current chunk of its lane and gives the
//! frame back. When the writer falls behind there is no empty chunk, and the packet is counted as a
//! `writer` drop, so a slow disk does not look like a slow network stack. A port that waits for its
//! consumer (a simulated source at full rate, a file) waits instead.

mod calm;
mod chunk;
mod config;
mod credit;
mod lane;
mod limit;
mod merge;
mod names;
mod opener;
mod promise;
mod roster;
#[cfg(test)]
mod tests;
mod view;
mod worker;
mod writer;
mod writing;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wirelane_os::event::Event;

pub use self::config::{CaptureConfig, CaptureOutcome, OutputConfig};
use self::credit::{CHUNK, Credit, OWN};
use self::limit::Limit;
pub use self::limit::needs_merge;
use self::names::Names;
use self::opener::{Opener, Splitter, Way};
use self::promise::Promise;
pub use self::view::View;
use self::view::ViewThread;
use self::worker::{Quota, Route, Worker};
use self::writer::{Finished, Patience};
use crate::error::{Error, Result};
use crate::halt::Halt;
use crate::memory::{self, Allotment};
use crate::pcap::{FileFormat, Section, WriterOptions, Written};
use crate::pipeline::{Job, Running, Spread, Threads, by_thread, thread_name};
use crate::port::{Backend, Control, FileMetadata, FrameCounts, Port, PortInfo, Rx};
use crate::session::interfaces::{Interface, Placing, interfaces};
use crate::session::monitor::Monitor;
pub use crate::session::viewed::Viewed;
use crate::stats::QueueStats;
use crate::sync::lock;
use crate::threads::Count;

/// Bytes between a receiving end whose port waits and the writer: they stay in the cache.
const CACHED: usize = 1 << 20;
/// The least time that a writer waits for a silent queue, beyond the port's own lateness, in
/// nanoseconds. Covers a worker's longest sleep and the age of a partly filled chunk.
const SLACK: u64 = 200_000_000;

/// A running capture. Dropping it stops it; [`Capture::join`] also returns the outcome.
pub struct Capture {
    running: Running<Worker>,
    writers: Writers,
    monitor: Monitor,
}

/// The writing threads. Dropping it waits for them.
struct Writers {
    /// The threads that write; `None` without any.
    opener: Option<Arc<Opener>>,
    /// How many of them, and of those that look, run.
    running: Arc<Count>,
    /// The thread that looks.
    view: Option<ViewThread>,
    failed: Arc<Event>,
    /// Applied behind the merge.
    limit: Option<Arc<Limit>>,
    lateness: u64,
    /// Notes for the user.
    notes: Vec<String>,
    /// Ends waiting for readers of pipes.
    halt: Halt,
}

impl Capture {
    /// Opens the outputs, starts the threads, and lets packets in when all of them are ready.
    ///
    /// # Errors
    /// An output cannot be created or is what a port reads, a CPU cannot be used, or a port refuses
    /// to start.
    pub fn start(ports: Vec<Port>, config: &CaptureConfig) -> Result<Self> {
        Self::launch(ports, None, config, None)
    }

    /// As [`Capture::start`]; `view` sees the packets, too.
    ///
    /// # Errors
    /// As [`Capture::start`]; or each queue has a file of its own, so that there is no common order
    /// in which to see them.
    pub fn start_with_view(
        ports: Vec<Port>,
        config: &CaptureConfig,
        view: Box<dyn View>,
    ) -> Result<Self> {
        Self::launch(ports, None, config, Some(view))
    }

    /// As [`Capture::start_with_view`], with the receiving ends that were taken from each port
    /// before.
    pub(crate) fn start_with_ends(
        ports: Vec<Port>,
        ends: Vec<Vec<Rx>>,
        config: &CaptureConfig,
        view: Box<dyn View>,
    ) -> Result<Self> {
        Self::launch(ports, Some(ends), config, Some(view))
    }

    fn launch(
        mut ports: Vec<Port>,
        ends: Option<Vec<Vec<Rx>>>,
        config: &CaptureConfig,
        view: Option<Box<dyn View>>,
    ) -> Result<Self> {
        let all = || ports.iter_mut().map(Port::rx).collect::<Result<_>>();
        let inputs: Vec<Vec<Rx>> = ends.map_or_else(all, Ok)?;
        let monitor = Monitor::of_receivers(ports.iter().zip(&inputs));
        let lateness = ports.iter().map(|port| port.info().lateness).max().unwrap_or(0);
        let mut writers = Writers {
            opener: None,
            running: Count::new()?,
            view: None,
            failed: Arc::new(Event::new()?),
            limit: None,
            lateness: lateness + SLACK,
            notes: Vec::new(),
            halt: config.output.as_ref().map(|_| config.halt.below()).unwrap_or_default(),
        };
        let is_single = config.single || config.immediate;
        let (spread, placement) = match (is_single, config.is_short()) {
            (true, _) => (Spread::One, config.placement.clone()),
            (false, true) if ports.len() == 1 => (Spread::Port, config.placement.clone().on_one()),
            (false, true) => (Spread::Port, config.placement.clone()),
            (false, false) => (Spread::Queue, config.placement.clone()),
        };
        let is_merged = needs_merge(config.packets, &inputs);
        let routes = if config.output.is_some() || view.is_some() || is_merged {
            let each: Vec<Vec<&Rx>> = inputs.iter().map(|ends| ends.iter().collect()).collect();
            let ends = each.iter().flatten().count();
            let is_alone = by_thread(each, spread, |rx| rx).len() == ends;
            writers.start(&ports, &inputs, config, view, is_alone)?
        } else {
            let none = |inputs: &Vec<Rx>| inputs.iter().map(|_| Route::default()).collect();
            inputs.iter().map(none).collect()
        };
        let (limit, immediate) = (writers.limit.clone(), config.immediate);
        let writing = writers.opener.as_ref().and_then(|opener| opener.helped());
        let job = |(port, ends): (usize, Vec<End>)| {
            let (rx, routes): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
            let limit = limit.clone();
            let promise = immediate.then(|| Promise::new(lateness));
            let writing = writing.clone();
            let make = move |_: &[Rx]| Worker { routes, limit, promise, writing };
            Job { name: rx.first().map_or("wl-rx".into(), thread_name), port, rx, make }
        };
        let zip =
            |(inputs, routes): (Vec<Rx>, Vec<Route>)| inputs.into_iter().zip(routes).collect();
        let ends = inputs.into_iter().zip(routes).map(zip).collect();
        let jobs = by_thread(ends, spread, |(rx, _): &End| rx).into_iter().map(job);
        let packets = config.packets.filter(|_| !is_merged);
        let threads = Threads::default().placed(placement).packets(packets).each_alone();
        let running = threads.launch(ports, jobs)?;
        let monitor = match writers.opener.clone().filter(|opener| opener.writes()) {
            None => monitor,
            Some(opener) => monitor.writing(move || opener.written()),
        };
        let monitor = match &writers.view {
            None => monitor,
            Some(view) => monitor.showing(view.counts()),
        };
        Ok(Self { running, writers, monitor })
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.running.ports()
    }

    /// Masks, filter and stop of each port, for any thread.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        self.running.controls()
    }

    /// Reads all counters, from any thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The counters of every queue now.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.monitor.queues()
    }

    /// Packets safely in files now.
    pub fn written(&self) -> u64 {
        self.monitor.written().map_or(0, |written| written.packets)
    }

    /// Waits until the capture has ended by itself (enough packets, the end of the source, an
    /// error) and everything is written, or `timeout` has passed; true if it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let failed = &self.writers.failed;
        let left = || deadline.saturating_duration_since(Instant::now());
        let received = self.running.wait_or(Some(left()), &[failed.as_fd()]);
        failed.wait(Duration::ZERO) || received && self.writers.running.wait(left())
    }

    /// Lets no more packets in, receives and writes those on their way, and reports. It does not
    /// wait for a stalled reader ([`Halt`]), but counts what that one did not take.
    pub fn join(mut self) -> CaptureOutcome {
        self.stop();
        let (_, mut errors) = self.running.end();
        Error::each_once(&mut errors);
        let mut outcome = CaptureOutcome {
            ports: self.ports().cloned().collect(),
            queues: Vec::new(),
            frames: FrameCounts::default(),
            written: self.writers.writes().then(Written::default),
            viewed: None,
            violations: 0,
            lateness: self.writers.lateness,
            errors,
        };
        for writer in self.writers.threads() {
            let Ok(finished) = writer.join() else {
                outcome.errors.push(Error::failed("writing thread", "panicked: a defect"));
                continue;
            };
            outcome.violations += finished.violations;
            self.writers.notes.extend(finished.notes);
            outcome.errors.extend(finished.error.map(Error::from));
            if let Some(written) = &mut outcome.written {
                written.files += finished.written.files;
                written.packets += finished.written.packets;
                written.bytes += finished.written.bytes;
            }
        }
        if let Some(view) = self.writers.view.take() {
            let (viewed, error) = view.join();
            outcome.viewed = Some(viewed);
            outcome.errors.extend(error);
        }
        for (info, port) in outcome.ports.iter_mut().zip(self.running.open_ports()) {
            // Those of the way to the writer are of all ports.
            info.notes.append(&mut self.writers.notes);
            info.notes.extend(port.diagnostics());
            outcome.frames += port.frames();
        }
        outcome.queues = self.queues();
        outcome
    }

    /// Lets no more packets in, and ends waiting for readers.
    fn stop(&self) {
        self.running.stop();
        self.writers.halt.ask();
    }
}

impl Writers {
    /// Whether packets are written.
    fn writes(&self) -> bool {
        self.opener.as_ref().is_some_and(|opener| opener.writes())
    }

    /// The threads that were started since the last call.
    fn threads(&self) -> Vec<JoinHandle<Finished>> {
        self.opener
            .as_ref()
            .map(|opener| std::mem::take(&mut *lock(&opener.threads)))
            .unwrap_or_default()
    }

    /// Opens the files and starts their threads; returns the route of every receiving end to them.
    /// `is_alone`: each receiving end has a separate thread.
    fn start(
        &mut self,
        ports: &[Port],
        inputs: &[Vec<Rx>],
        config: &CaptureConfig,
        view: Option<Box<dyn View>>,
        is_alone: bool,
    ) -> Result<Vec<Vec<Route>>> {
        let titles = names::titles(ports.iter().map(Port::info));
        let of_port = |((port, title), inputs): ((&Port, &String), &Vec<Rx>)| {
            let interfaces = |rx| {
                let mut all = interfaces(port.info(), rx);
                // Those of a file have names of their own.
                if port.info().interface.is_none() && rx.interface_table().is_none() {
                    all.iter_mut().for_each(|one| one.source.name.clone_from(title));
                }
                all
            };
            inputs.iter().map(interfaces).collect::<Vec<_>>()
        };
        let ends: Vec<_> = ports.iter().zip(&titles).zip(inputs).flat_map(of_port).collect();
        let output = config.output.as_ref();
        // With a file for each interface: the path from which their names are made.
        let mut names = None;
        // Per file: its path, and the lanes into it, each with its receiving end and interfaces.
        let files: Vec<(Option<PathBuf>, Vec<Member>)> = if let Some(output) =
            output.filter(|output| output.split)
        {
            if view.is_some() {
                let error =
                    Error::usage("a split capture", "its files have no common order to print");
                return Err(error.help("print or split, not both"));
            }
            if output.path.as_os_str() == "-" {
                let error = Error::usage("a split capture", "standard output cannot be split");
                return Err(error.help("give a file name, or do not split"));
            }
            if inputs.iter().flatten().any(|rx| rx.discovered().is_some()) {
                let cause = "it has no fixed set of queues, so there is no file for each";
                let error = Error::usage("a split capture of any", cause);
                return Err(error.help("name the interfaces, or do not split"));
            }
            let mut known = Names::new(ports.len() > 1);
            let of_end = |(end, interfaces): (usize, Vec<Interface>)| {
                let file =
                    |one: Interface| (Some(known.of(&output.path, &one)), vec![(end, vec![one])]);
                interfaces.into_iter().map(file).collect::<Vec<_>>()
            };
            let files = ends.into_iter().enumerate().flat_map(of_end).collect();
            names = Some((output.path.clone(), known));
            files
        } else {
            let path = output.map(|output| output.path.clone());
            vec![(path, ends.into_iter().enumerate().collect())]
        };
        // A port that waits needs no memory to be patient with, only what keeps both sides busy.
        // A merge does: it holds the chunks of one queue until another has come as far.
        let lanes: usize = files.iter().map(|(_, lanes)| lanes.len()).sum();
        let merges = files.iter().any(|(_, lanes)| lanes.len() > 1);
        let lossless = ports.iter().all(|port| port.info().lossless);
        let waits = lossless && !merges;
        // As much again as the private memory of the lanes, so that it is not scarce from the
        // start.
        let ends = inputs.iter().flatten().count();
        let wanted = config.most_before_writer(ends, 2 * OWN * lanes * CHUNK);
        let wanted = wanted.min(if waits { CACHED * lanes } else { usize::MAX });
        let budget = Allotment::of_rest_for(wanted);
        let buffer = wanted.min(budget.bytes);
        self.notes.extend(budget.note("bytes before the writer", wanted, buffer));
        let credit = Arc::new(Credit::new(buffer, lanes));
        let chunks = credit.of_one();
        let all = (chunks + OWN * lanes.saturating_sub(1)) * CHUNK;
        memory::ask(|| format!("the ways of {lanes} queues to the writer"), all)?;
        let packets = config.packets.filter(|_| needs_merge(config.packets, inputs));
        self.limit = packets.map(|packets| Arc::new(Limit::new(packets, files.len())));
        let is_of_one_type =
            output.is_some_and(|output| output.options.format != FileFormat::Pcapng);
        let of_port = |(port, inputs): (&Port, &Vec<Rx>)| {
            let lossless = port.info().lossless;
            let route = move |rx: &Rx| {
                // A file of one link type refuses packets of others, which then do not count.
                let refuses = is_of_one_type && rx.discovered().is_some();
                let quota = packets.filter(|_| !refuses).map(Quota::new);
                let (lanes, placing) = (Vec::new(), Placing::of(rx));
                Route { lanes, placing, lossless, quota, splitter: None }
            };
            inputs.iter().map(route).collect::<Vec<_>>()
        };
        let mut routes: Vec<_> = ports.iter().zip(inputs).flat_map(of_port).collect();
        let read = ports.iter().flat_map(Port::inputs);
        let file_metadata: Vec<_> = ports.iter().filter_map(Port::file_metadata).collect();
        let options = output.map(|output| WriterOptions {
            section: section(&output.options.section, &file_metadata, ports.len()),
            // The user has not named these files.
            fresh: output.options.fresh || output.split,
            inputs: output.options.inputs.iter().cloned().chain(read).collect(),
            cancel: self.halt.clone().into(),
            room: memory::for_writers,
            ..output.options.clone()
        });
        let mut view_input = match view {
            None => None,
            Some(view) => {
                let needs_all = view.needs_all();
                let (thread, input) = ViewThread::start(
                    view,
                    (lossless || needs_all, config.immediate && output.is_none()),
                    Arc::clone(&self.failed),
                    &self.running,
                )?;
                self.view = Some(thread);
                Some(input)
            }
        };
        // Other programs number the packets of a file in its order, so keep that order.
        let is_file = ports.iter().all(|port| port.info().backend == Backend::File);
        // The packets of a pipe may arrive at any time.
        let is_here = |port: &Port| !port.inputs().is_empty();
        let has_pipe =
            ports.iter().any(|port| port.info().backend == Backend::File && !is_here(port));
        // No thread that feeds a lane ever waits for room in another lane.
        let is_patient = lossless && is_alone && lanes == ends && !has_pipe;
        let opener = Arc::new(Opener {
            options,
            file_metadata: file_metadata.into_iter().cloned().collect(),
            credit,
            lateness: self.lateness,
            prompt: config.prompt,
            immediate: config.immediate,
            statistics_every: config.statistics_every.as_nanos() as u64,
            // A limit compares the times of packets in different files.
            keeps_order: is_file && !config.sort && self.limit.is_none(),
            limit: self.limit.clone(),
            failed: Arc::clone(&self.failed),
            running: Arc::clone(&self.running),
            threads: Mutex::default(),
            helped: Mutex::default(),
            written: Mutex::default(),
        });
        self.opener = Some(Arc::clone(&opener));
        for (path, members) in files {
            // One file can have much older packets than another.
            let is_apart = self.limit.is_some() || is_file && !has_pipe && members.len() > 1;
            let patience = match lossless && is_apart {
                true if is_patient => Patience::Input,
                true => Patience::Memory,
                false => Patience::Clock,
            };
            let (of_ends, ways): (Vec<usize>, Vec<Way>) = members
                .into_iter()
                .map(|(end, interfaces)| {
                    let rx = inputs.iter().flatten().nth(end);
                    let discovered = rx.and_then(Rx::discovered).cloned();
                    // Later interfaces go into the file, or get separate files.
                    let late =
                        rx.and_then(Rx::interface_table).filter(|_| names.is_none()).cloned();
                    (end, Way { interfaces, discovered, late })
                })
                .unzip();
            let lanes = opener.open(path, ways, patience, view_input.take())?;
            for (end, lane) in of_ends.into_iter().zip(lanes) {
                if let Some(route) = routes.get_mut(end) {
                    route.lanes.push(lane);
                }
            }
        }
        if let Some((path, names)) = names {
            let splitter = Arc::new(Splitter::new(opener, path, names));
            for route in &mut routes {
                route.splitter = Some(Arc::clone(&splitter));
            }
        }
        let mut routes = routes.into_iter();
        Ok(inputs.iter().map(|inputs| routes.by_ref().take(inputs.len()).collect()).collect())
    }
}

/// What the output says of itself: what it is told to, and what the files say of themselves that
/// are read.
fn section(own: &Section, files: &[&Arc<FileMetadata>], ports: usize) -> Section {
    let mut section = own.clone();
    if !files.is_empty() && files.len() == ports {
        // All of it was captured elsewhere, or at another time.
        section.hardware.clear();
        section.os.clear();
    }
    section.inherit(&files.iter().map(|file| file.section()).collect::<Vec<_>>());
    section
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The receiving threads end when their handle, the first field, is dropped, and then those
        // that write.
        self.stop();
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.halt.ask();
        for thread in self.threads() {
            let _ = thread.join();
        }
        if let Some(view) = self.view.take() {
            let _ = view.join();
        }
    }
}

/// A receiving end, and its way to the files.
type End = (Rx, Route);

/// A lane into a file: the receiving end that it comes from, and its interfaces.
type Member = (usize, Vec<Interface>);
