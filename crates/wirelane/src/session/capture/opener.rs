//! Opens the files of a capture and starts their threads: before it starts, and while it runs for
//! interfaces that a file describes after packets (`--split`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use wirelane_os::clock;
use wirelane_os::event::Event;

use super::calm::Calm;
use super::credit::{CHUNK, Credit, OWN};
use super::file_interfaces::{FileInterfaces, FoundInterface, Numbers};
use super::lane::WriterPath;
use super::limit::PacketLimit;
use super::names::Names;
use super::view::ViewInput;
use super::writer::{
    Finished, Patience, UnwrittenInterfaces, WriterInput, WriterProgress, WriterThread,
};
use super::writing::Writing;
use crate::error::Result;
use crate::memory;
use crate::pcap::{CaptureWriter, WriterOptions, Written};
use crate::port::{DiscoveredInterfaces, FileMetadata, InterfaceTable};
use crate::ring::channel;
use crate::session::interfaces::{Interface, Placing};
use crate::sync::{Doorbell, Watermark, lock};
use crate::threads::{ThreadCount, spawn};

/// The settings that all files of a capture share.
pub(super) struct Opener {
    /// `None` if packets are only viewed.
    pub(super) options: Option<WriterOptions>,
    pub(super) file_metadata: Vec<Arc<FileMetadata>>,
    pub(super) credit: Arc<Credit>,
    pub(super) lateness: u64,
    pub(super) prompt: bool,
    /// The view needs each packet at once.
    pub(super) immediate: bool,
    pub(super) statistics_every: u64,
    /// The packets of a file with one lane keep their order.
    pub(super) keeps_order: bool,
    pub(super) limit: Option<Arc<PacketLimit>>,
    pub(super) failed: Arc<Event>,
    /// The number of running threads.
    pub(super) running: Arc<ThreadCount>,
    pub(super) threads: Mutex<Vec<JoinHandle<Finished>>>,
    /// The writing that the receiving thread does itself.
    pub(super) helped: Mutex<Option<Arc<Writing>>>,
    /// The written packets, by writing thread.
    pub(super) written: Mutex<Vec<Arc<WriterProgress>>>,
}

/// A lane into a file: its interfaces, and the tables of later interfaces.
pub(super) struct FileLane {
    pub(super) interfaces: Vec<Interface>,
    pub(super) discovered: Option<Arc<DiscoveredInterfaces>>,
    pub(super) late: Option<Arc<InterfaceTable>>,
}

/// The work of a writing thread.
type Start = (Arc<Writing>, Arc<Doorbell>);

impl Opener {
    /// Whether packets are written.
    pub(super) fn writes(&self) -> bool {
        self.options.is_some()
    }

    pub(super) fn written(&self) -> Written {
        WriterProgress::sum(&lock(&self.written))
    }

    /// Whether the receiving thread writes itself. Not into a file, which may block the thread.
    fn is_helped(&self) -> bool {
        self.immediate && !self.writes()
    }

    /// The writing that the receiving thread does itself.
    pub(super) fn helped(&self) -> Option<Arc<Writing>> {
        lock(&self.helped).clone()
    }

    /// Opens a file, unless packets are only viewed, and starts its thread. Returns the lanes.
    ///
    /// # Errors
    /// The file cannot be created, or there is no room for the thread.
    pub(super) fn open(
        &self,
        path: Option<PathBuf>,
        ways: Vec<FileLane>,
        patience: Patience,
        view: Option<ViewInput>,
    ) -> Result<Vec<WriterPath>> {
        let mut threads = lock(&self.threads);
        let written = Arc::new(WriterProgress::default());
        let all = || ways.iter().flat_map(|way| &way.interfaces);
        let sources: Vec<_> = all().map(|one| one.source.clone()).collect();
        let counters = all().map(|one| Arc::clone(&one.counters)).collect();
        let create = |(path, options): (PathBuf, WriterOptions)| {
            CaptureWriter::create(&path, &sources, options, clock::realtime_ns())
        };
        let file = path.zip(self.options.clone()).map(create).transpose()?;
        // The first file gets the metadata that only one file contains.
        let known = self.file_metadata.iter().filter(|_| file.is_some());
        let metadata = known.map(|metadata| metadata.queue(threads.is_empty())).collect();
        view.iter().for_each(|view| all().for_each(|interface| view.describe(interface)));
        let (handle, send_writing) = self.start_thread()?;
        let bell = Arc::new(Doorbell::new(handle.thread().clone()));
        let file_interfaces = Arc::new(FileInterfaces::new(all().cloned().collect()));
        let (lanes, inputs) = self.ways(ways, &file_interfaces, &bell);
        lock(&self.written).extend(file.is_some().then(|| Arc::clone(&written)));
        let writer = WriterThread {
            file,
            view,
            keeps_order: self.keeps_order && inputs.len() == 1,
            inputs,
            ended: 0,
            metadata,
            file_interfaces,
            counters,
            refused: BTreeMap::new(),
            bell: Arc::clone(&bell),
            lateness: self.lateness,
            credit: Arc::clone(&self.credit),
            share: self.limit.as_ref().map(|limit| limit.share(threads.len())),
            patience,
            prompt: self.prompt,
            statistics_every: self.statistics_every,
            written,
            failed: Arc::clone(&self.failed),
            ledger: UnwrittenInterfaces::default(),
            fresh: Vec::new(),
            scratch: Vec::new(),
            calm: Calm::new(),
            is_busy: false,
        };
        threads.push(handle);
        let writing = Arc::new(Writing::new(writer));
        if self.is_helped() {
            *lock(&self.helped) = Some(Arc::clone(&writing));
        }
        // The thread waits for this message, so it still exists.
        let _ = send_writing.send((writing, bell));
        Ok(lanes)
    }

    /// Starts a thread that writes after it receives a [`Writing`] and its bell.
    fn start_thread(&self) -> Result<(JoinHandle<Finished>, mpsc::Sender<Start>)> {
        let (send_writing, writing) = mpsc::channel::<Start>();
        let ending = self.running.one_more();
        let handle = spawn("wl-write", move || {
            let _ending = ending;
            let run = |(writing, bell): Start| writing.run(&bell);
            writing.recv().map(run).unwrap_or_else(|_| Finished::nothing())
        })?;
        Ok((handle, send_writing))
    }

    /// The two ends of each lane. The interfaces of a file are numbered from lane to lane.
    fn ways(
        &self,
        ways: Vec<FileLane>,
        file_interfaces: &Arc<FileInterfaces>,
        bell: &Arc<Doorbell>,
    ) -> (Vec<WriterPath>, Vec<WriterInput>) {
        let mut interface = 0;
        let ends = |way: FileLane| {
            let first = interface;
            interface += way.interfaces.len() as u32;
            self.way(way, first, file_interfaces, bell)
        };
        ways.into_iter().map(ends).unzip()
    }

    /// Both ends of a lane whose first interface has the number `interface` in its file.
    fn way(
        &self,
        way: FileLane,
        interface: u32,
        file_interfaces: &Arc<FileInterfaces>,
        bell: &Arc<Doorbell>,
    ) -> (WriterPath, WriterInput) {
        let FileLane { interfaces, discovered, late } = way;
        let chunks = self.credit.of_one();
        let count = interfaces.len() as u32;
        let is_growing = discovered.is_some();
        let found = discovered
            .map(FoundInterface::DiscoveredInterfaces)
            .or_else(|| late.clone().map(FoundInterface::Late));
        let (filled, filled_rx) = channel(chunks);
        let (spent_tx, spent) = channel(chunks);
        let watermark = Arc::new(Watermark::default());
        let lane = WriterPath {
            counters: interfaces.into_iter().map(|one| one.counters).collect(),
            interface,
            fixed: if is_growing { 0 } else { count },
            numbers: found.map(|found| Numbers::new(file_interfaces, found)),
            filled,
            spent,
            empty: Vec::with_capacity(chunks),
            own: OWN,
            credit: Arc::clone(&self.credit),
            current: None,
            watermark: Arc::clone(&watermark),
            newest: 0,
            bell: Arc::clone(bell),
            prompt: self.prompt || self.immediate,
            is_helped: self.is_helped(),
            unannounced: 0,
            waiting_since: None,
        };
        let input = WriterInput {
            interface: (count == 1 && !is_growing).then_some(interface),
            late,
            filled: filled_rx,
            spent: spent_tx,
            watermark,
        };
        (lane, input)
    }
}

/// Gives each interface a separate file.
pub(super) struct Splitter {
    opener: Arc<Opener>,
    path: PathBuf,
    names: Mutex<Names>,
}

impl Splitter {
    /// `names` contains the names of the open files.
    pub(super) fn new(opener: Arc<Opener>, path: PathBuf, names: Names) -> Self {
        Self { opener, path, names: Mutex::new(names) }
    }

    /// Opens files for the interfaces of `placing` that have no lane in `lanes` yet.
    ///
    /// # Errors
    /// The errors of [`Opener::open`]; or there is not enough memory.
    #[cold]
    pub(super) fn open(&self, placing: &Placing, lanes: &mut Vec<WriterPath>) -> Result<()> {
        let positions = u32::try_from(lanes.len()).unwrap_or(u32::MAX)..;
        for interface in positions.map_while(|position| placing.interface(position)) {
            memory::ask(|| "the way of one more queue to the writer".into(), OWN * CHUNK)?;
            let path = lock(&self.names).of(&self.path, &interface);
            let way = FileLane { interfaces: vec![interface], discovered: None, late: None };
            lanes.extend(self.opener.open(Some(path), vec![way], Patience::Clock, None)?);
        }
        Ok(())
    }
}
