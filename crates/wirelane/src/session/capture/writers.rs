//! The threads that write and view packets, and the routes of the receiving ends to them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wirelane_os::event::Event;

use super::config::{CaptureConfig, CaptureOutcome, OutputConfig};
use super::credit::{CHUNK, Credit, OWN};
use super::limit::{PacketLimit, needs_merge};
use super::names::{self, Names};
use super::opener::{FileLane, Opener, Splitter};
use super::view::{View, ViewInput, ViewThread};
use super::worker::{FirstPacketsQuota, Route};
use super::writer::{Finished, Patience};
use crate::error::{Error, Result};
use crate::halt::Halt;
use crate::memory::{self, Allotment};
use crate::pcap::{FileFormat, Section};
use crate::port::{Backend, FileMetadata, Port, Rx};
use crate::remedy::Remedy;
use crate::session::interfaces::{Interface, Placing, interfaces};
use crate::sync::lock;
use crate::threads::ThreadCount;

/// Bytes between a receiving end whose port waits and the writer: they remain in the cache.
const CACHED: usize = 1 << 20;
/// The least time that a writer waits for a silent queue, beyond the port's lateness, in
/// nanoseconds. Covers a short sleep of the receiving end and the age of a partly filled chunk.
const SLACK: u64 = 200_000_000;

/// The writing threads. Dropping it waits for them.
pub(super) struct Writers {
    /// The threads that write; `None` without any.
    pub(super) opener: Option<Arc<Opener>>,
    /// The number of running writing and viewing threads.
    pub(super) running: Arc<ThreadCount>,
    pub(super) view: Option<ViewThread>,
    pub(super) failed: Arc<Event>,
    /// Applied behind the merge.
    pub(super) limit: Option<Arc<PacketLimit>>,
    /// The greatest lateness of a port, in nanoseconds.
    pub(super) lateness_of_ports: u64,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// Ends waiting for readers of pipes.
    pub(super) halt: Halt,
}

/// The ports of a capture, the receiving ends of each, and the configuration.
#[derive(Clone, Copy)]
pub(super) struct CapturePorts<'a> {
    pub(super) ports: &'a [Port],
    pub(super) inputs: &'a [Vec<Rx>],
    pub(super) config: &'a CaptureConfig,
    /// Each receiving end has a separate thread.
    pub(super) is_alone: bool,
}

/// A lane into a file: the index of its receiving end, and its interfaces.
type Member = (usize, Vec<Interface>);

/// The files of a capture: the path of each, if it is written, and the lanes into it.
struct Files {
    all: Vec<(Option<PathBuf>, Vec<Member>)>,
    /// With a file for each interface: the path from which file names are derived.
    names: Option<(PathBuf, Names)>,
}

impl Writers {
    /// No threads yet, for these ports.
    pub(super) fn new(ports: &[Port], config: &CaptureConfig) -> Result<Self> {
        Ok(Self {
            opener: None,
            running: ThreadCount::new()?,
            view: None,
            failed: Arc::new(Event::new()?),
            limit: None,
            lateness_of_ports: ports.iter().map(|port| port.info().lateness).max().unwrap_or(0),
            notes: Vec::new(),
            halt: config.halt.below(),
        })
    }

    /// Whether packets are written.
    pub(super) fn writes(&self) -> bool {
        self.opener.as_ref().is_some_and(|opener| opener.writes())
    }

    /// The threads that were started since the last call.
    pub(super) fn threads(&self) -> Vec<JoinHandle<Finished>> {
        self.opener
            .as_ref()
            .map(|opener| std::mem::take(&mut *lock(&opener.threads)))
            .unwrap_or_default()
    }

    /// How long a writer waits for a silent queue at least, in nanoseconds.
    pub(super) fn lateness(&self) -> u64 {
        self.lateness_of_ports + SLACK
    }

    /// Opens the files and starts their threads; returns the route of every receiving end to them.
    ///
    /// # Errors
    /// A file cannot be created or split, or there is not enough memory.
    pub(super) fn start(
        &mut self,
        from: CapturePorts<'_>,
        view: Option<Box<dyn View>>,
    ) -> Result<Vec<Vec<Route>>> {
        let CapturePorts { inputs, config, .. } = from;
        let Files { all: files, names } = Files::of(from, view.is_some())?;
        let lanes = files.iter().map(|(_, members)| members.len()).sum();
        let packets = config.packets.filter(|_| needs_merge(config.packets, inputs));
        self.limit = packets.map(|packets| Arc::new(PacketLimit::new(packets, files.len())));
        let merges = files.iter().any(|(_, members)| members.len() > 1);
        let credit = self.reserve(from, lanes, merges)?;
        let mut routes = from.routes(packets);
        let mut view_input = view.map(|view| self.start_view(from, view)).transpose()?;
        let opener = Arc::new(self.opener(from, credit));
        self.opener = Some(Arc::clone(&opener));
        for (path, members) in files {
            let patience = from.patience(members.len(), lanes, self.limit.is_some());
            let way = |(end, interfaces)| (end, from.way(end, interfaces, names.is_some()));
            let (ends, ways): (Vec<_>, Vec<_>) = members.into_iter().map(way).unzip();
            let lanes = opener.open(path, ways, patience, view_input.take())?;
            for (end, lane) in ends.into_iter().zip(lanes) {
                if let Some(route) = routes.get_mut(end) {
                    route.lanes.push(lane);
                }
            }
        }
        if let Some((path, names)) = names {
            let splitter = Arc::new(Splitter::new(opener, path, names));
            routes.iter_mut().for_each(|route| route.splitter = Some(Arc::clone(&splitter)));
        }
        let mut routes = routes.into_iter();
        Ok(inputs.iter().map(|inputs| routes.by_ref().take(inputs.len()).collect()).collect())
    }

    /// Waits until all threads have ended, and adds their results to `outcome`.
    pub(super) fn end(&mut self, outcome: &mut CaptureOutcome) {
        for writer in self.threads() {
            let Ok(finished) = writer.join() else {
                outcome.errors.push(Error::failed("writing thread", "panicked: a defect"));
                continue;
            };
            outcome.violations += finished.violations;
            self.notes.extend(finished.notes);
            outcome.errors.extend(finished.error.map(Error::from));
            if let Some(written) = &mut outcome.written {
                written.files += finished.written.files;
                written.packets += finished.written.packets;
                written.bytes += finished.written.bytes;
            }
        }
        if let Some(view) = self.view.take() {
            let (viewed, error) = view.join();
            outcome.viewed = Some(viewed);
            outcome.errors.extend(error);
        }
    }

    /// Reserves memory for `lanes` lanes. `merges`: several lanes lead into the same file.
    fn reserve(
        &mut self,
        from: CapturePorts<'_>,
        lanes: usize,
        merges: bool,
    ) -> Result<Arc<Credit>> {
        // A port that waits needs only enough memory to keep both sides busy. A merge needs more:
        // it holds the chunks of one queue until the other queues have caught up.
        let waits = from.is_lossless() && !merges;
        // Twice the reserved memory of the lanes, so that memory is not scarce from the start.
        let wanted = from.config.most_before_writer(from.ends(), 2 * OWN * lanes * CHUNK);
        let wanted = wanted.min(if waits { CACHED * lanes } else { usize::MAX });
        let allotment = Allotment::of_rest_for(wanted);
        let buffer = wanted.min(allotment.bytes);
        self.notes.extend(allotment.note("bytes before the writer", wanted, buffer));
        let credit = Arc::new(Credit::new(buffer, lanes));
        let all = (credit.of_one() + OWN * lanes.saturating_sub(1)) * CHUNK;
        memory::ask(|| format!("the ways of {lanes} queues to the writer"), all)?;
        Ok(credit)
    }

    fn start_view(&mut self, from: CapturePorts<'_>, view: Box<dyn View>) -> Result<ViewInput> {
        let waits = from.is_lossless() || view.needs_all();
        let immediate = from.config.immediate && from.config.output.is_none();
        let failed = Arc::clone(&self.failed);
        let (thread, input) = ViewThread::start(view, (waits, immediate), failed, &self.running)?;
        self.view = Some(thread);
        Ok(input)
    }

    /// The settings of all files.
    fn opener(&self, from: CapturePorts<'_>, credit: Arc<Credit>) -> Opener {
        let CapturePorts { ports, config, .. } = from;
        let read = ports.iter().flat_map(Port::inputs);
        let file_metadata: Vec<_> = ports.iter().filter_map(Port::file_metadata).collect();
        let options = config.output.as_ref().map(|output| {
            let options = output.options.clone();
            // The user has not named the files of queues.
            let fresh = options.fresh || output.split;
            let inputs: Vec<_> = options.inputs.iter().cloned().chain(read).collect();
            let section = section(&options.section, &file_metadata, ports.len());
            let options = options.section(section).fresh(fresh).inputs(inputs);
            options.cancel(self.halt.clone()).room(memory::for_writers)
        });
        Opener {
            options,
            file_metadata: file_metadata.into_iter().cloned().collect(),
            credit,
            lateness: self.lateness(),
            prompt: config.prompt,
            immediate: config.immediate,
            statistics_every: config.statistics_every.as_nanos() as u64,
            // A limit compares the times of packets in different files.
            keeps_order: from.is_file() && !config.sort && self.limit.is_none(),
            limit: self.limit.clone(),
            failed: Arc::clone(&self.failed),
            running: Arc::clone(&self.running),
            threads: Mutex::default(),
            helped: Mutex::default(),
            written: Mutex::default(),
        }
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

impl CapturePorts<'_> {
    /// The number of receiving ends.
    fn ends(&self) -> usize {
        self.inputs.iter().flatten().count()
    }

    /// Whether every port waits for its consumer and loses no packets.
    fn is_lossless(&self) -> bool {
        self.ports.iter().all(|port| port.info().lossless)
    }

    /// Whether all packets are from files. Other programs number packets in file order, so the
    /// order is kept.
    fn is_file(&self) -> bool {
        self.ports.iter().all(|port| port.info().backend == Backend::File)
    }

    /// Whether one of the files is a pipe, whose packets may arrive at any time.
    fn has_pipe(&self) -> bool {
        let is_pipe =
            |port: &Port| port.info().backend == Backend::File && port.inputs().is_empty();
        self.ports.iter().any(is_pipe)
    }

    /// The interfaces of each receiving end.
    fn interfaces(&self) -> Vec<Vec<Interface>> {
        let titles = names::titles(self.ports.iter().map(Port::info));
        let of_port = |((port, title), inputs): ((&Port, &String), &Vec<Rx>)| {
            let interfaces = |rx| {
                let mut all = interfaces(port.info(), rx);
                // The interfaces of a file already have names.
                if port.info().interface.is_none() && rx.interface_table().is_none() {
                    all.iter_mut().for_each(|one| one.source.name.clone_from(title));
                }
                all
            };
            inputs.iter().map(interfaces).collect::<Vec<_>>()
        };
        self.ports.iter().zip(&titles).zip(self.inputs).flat_map(of_port).collect()
    }

    /// A route without lanes for each receiving end. `packets` is the limit of a merge.
    fn routes(&self, packets: Option<u64>) -> Vec<Route> {
        let output = self.config.output.as_ref();
        let is_of_one_type =
            output.is_some_and(|output| output.options.format != FileFormat::Pcapng);
        let of_port = |(port, inputs): (&Port, &Vec<Rx>)| {
            let lossless = port.info().lossless;
            let route = move |rx: &Rx| {
                // A file with one link type refuses packets of others, which then do not count.
                let refuses = is_of_one_type && rx.discovered().is_some();
                let quota = packets.filter(|_| !refuses).map(FirstPacketsQuota::new);
                let (lanes, placing) = (Vec::new(), Placing::of(rx));
                Route { lanes, placing, lossless, quota, splitter: None }
            };
            inputs.iter().map(route).collect::<Vec<_>>()
        };
        self.ports.iter().zip(self.inputs).flat_map(of_port).collect()
    }

    /// How long the writer of a file with `members` of the `lanes` lanes waits for a silent lane.
    fn patience(&self, members: usize, lanes: usize, is_limited: bool) -> Patience {
        // One file can have much older packets than another.
        let is_apart = is_limited || self.is_file() && !self.has_pipe() && members > 1;
        // No thread that feeds a lane ever waits for room in another lane.
        let is_patient = self.is_alone && lanes == self.ends() && !self.has_pipe();
        match self.is_lossless() && is_apart {
            true if is_patient => Patience::Input,
            true => Patience::Memory,
            false => Patience::Clock,
        }
    }

    /// The lane of a receiving end into a file. With `split`, later interfaces get separate files.
    fn way(&self, end: usize, interfaces: Vec<Interface>, split: bool) -> FileLane {
        let rx = self.inputs.iter().flatten().nth(end);
        let discovered = rx.and_then(Rx::discovered).cloned();
        let late = rx.and_then(Rx::interface_table).filter(|_| !split).cloned();
        FileLane { interfaces, discovered, late }
    }
}

impl Files {
    /// One file for all receiving ends, or one for each interface. `is_viewed`: there is a view.
    ///
    /// # Errors
    /// The output cannot be split.
    fn of(from: CapturePorts<'_>, is_viewed: bool) -> Result<Self> {
        let ends = from.interfaces();
        let output = from.config.output.as_ref();
        let Some(output) = output.filter(|output| output.split) else {
            let path = output.map(|output| output.path.clone());
            return Ok(Self {
                all: vec![(path, ends.into_iter().enumerate().collect())],
                names: None,
            });
        };
        check_split(output, from.inputs, is_viewed)?;
        let mut names = Names::new(from.ports.len() > 1);
        let of_end = |(end, interfaces): (usize, Vec<Interface>)| {
            let file =
                |one: Interface| (Some(names.of(&output.path, &one)), vec![(end, vec![one])]);
            interfaces.into_iter().map(file).collect::<Vec<_>>()
        };
        let all = ends.into_iter().enumerate().flat_map(of_end).collect();
        Ok(Self { all, names: Some((output.path.clone(), names)) })
    }
}

/// Refuses outputs that cannot be split.
fn check_split(output: &OutputConfig, inputs: &[Vec<Rx>], is_viewed: bool) -> Result<()> {
    let refuse = |object: &'static str, cause: &'static str, remedy: Remedy| {
        Err(Error::usage(object, cause).remedy(remedy))
    };
    if is_viewed {
        let cause = "its files have no common order to print";
        return refuse("a split capture", cause, Remedy::PrintOrSplit);
    }
    if output.path.as_os_str() == "-" {
        return refuse("standard output", "it cannot be split", Remedy::SplitToFiles);
    }
    if inputs.iter().flatten().any(|rx| rx.discovered().is_some()) {
        let cause = "it has no fixed set of queues, so there is no file for each";
        return refuse("a split capture of any", cause, Remedy::SplitInterfaces);
    }
    Ok(())
}

/// The section header of the output: the options, joined with the headers of the files that the
/// ports read.
fn section(own: &Section, files: &[&Arc<FileMetadata>], ports: usize) -> Section {
    let mut section = own.clone();
    if !files.is_empty() && files.len() == ports {
        // All packets were captured elsewhere, or at another time.
        section.hardware.clear();
        section.os.clear();
    }
    section.inherit(&files.iter().map(|file| file.section()).collect::<Vec<_>>());
    section
}
