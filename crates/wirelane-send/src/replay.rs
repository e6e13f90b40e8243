//! Capture files as a source of packets.
//!
//! ```text
//!  files ─▶ reader ─▶ Ethernet, cut, checksums ─▶ rewrite ─▶ flow hash ─┬─▶ blocks ─▶ ReplayLane 0
//!     (wirelane-pcap)        adapt.rs                        dealer.rs  └─▶ blocks ─▶ ReplayLane 1
//! ```
//!
//! Files that fit into memory are loaded once, and each lane repeats its blocks for every loop. For
//! larger files and pipes, one thread reads while the lanes send. Both ways send the same packets
//! at the same times. One lane has all packets of a flow, in both directions, in file order.
//!
//! Times are exact integers. With the timing of the file, a packet is due after the sum of the gaps
//! before it, divided by the speed as a fraction. A packet with an earlier timestamp than its
//! predecessor leaves together with it. If it is more than a second earlier, the capturing clock
//! was set, and gaps continue from the new time. By default, the gap between two loops is the mean
//! gap of the loop.

mod adapt;
mod block;
mod clock;
mod config;
mod dealer;
mod lane;
mod report;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use wirelane::internal::Remedy;
use wirelane::{Error, Result};
use wirelane_gen::Rate;

use self::block::PacketBlock;
use self::clock::DueScale;
use self::dealer::{BlockSink, Dealer, ReadEnd};
use self::lane::{Loaded, StopReader, Streamed, Supply};
use self::report::ReportCell;

pub use self::clock::TimeFaults;
pub use self::config::{ReplayConfig, ReplayTiming, Speed, TruncatedPackets};
pub use self::lane::ReplayLane;
pub use self::report::{FileReport, ReplayReport};

/// Opened files, ready to send.
///
/// ```no_run
/// # use wirelane_send::replay::{Replay, ReplayConfig};
/// # fn example() -> wirelane::Result<()> {
/// let config = ReplayConfig::new(vec!["trace.pcapng".into()]);
/// let mut replay = Replay::open(&config, 4)?;
/// for index in 0..4 {
///     let _source = replay.take_lane(index);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Replay {
    lanes: Vec<Option<ReplayLane>>,
    shared: Arc<ReportCell>,
    /// [`ReplayConfig::loops`].
    loops: u64,
}

/// The default limit of loaded bytes.
const MOST: u64 = 1 << 30;
/// The number of blocks queued for a lane.
const WAITING: usize = 8;

impl Replay {
    /// Opens the files for `lanes` sending threads. Waits for the first packets of a pipe.
    ///
    /// # Errors
    /// A file cannot be opened, has no packets, or has a link type that cannot be converted to
    /// Ethernet; a pipe that must be repeated does not fit into memory; the rate is a share of an
    /// unknown link speed.
    pub fn open(config: &ReplayConfig, lanes: u32) -> Result<Self> {
        if config.files.is_empty() {
            return Err(Error::usage("replay", "no file is named").help("name a capture file"));
        }
        let scale = DueScale::new(&config.timing)?;
        let shared = Arc::new(ReportCell::default());
        let mut config = config.clone();
        config.halt = config.halt.below();
        let opening =
            ReplayOpening { config: &config, lanes: lanes.max(1), scale, shared: &shared };
        let lanes = opening.lanes()?.into_iter().map(Some).collect();
        Ok(Self { lanes, shared, loops: config.loops })
    }

    /// Returns the packets of the sending thread `index`, once.
    pub fn take_lane(&mut self, index: u32) -> Option<ReplayLane> {
        self.lanes.get_mut(index as usize)?.take()
    }

    /// Returns all lanes that were not taken yet.
    pub fn take_lanes(&mut self) -> Vec<ReplayLane> {
        std::mem::take(&mut self.lanes).into_iter().flatten().collect()
    }

    /// The report on the packets read so far.
    #[must_use]
    pub fn report(&self) -> ReplayReport {
        self.shared.read()
    }

    /// The total number of packets to send; `None` if it is unknown or unlimited.
    #[must_use]
    pub fn packets(&self) -> Option<u64> {
        let report = self.report();
        (report.is_loaded && self.loops > 0)
            .then(|| report.total().packets.saturating_mul(self.loops))
    }
}

struct ReplayOpening<'a> {
    config: &'a ReplayConfig,
    lanes: u32,
    scale: DueScale,
    shared: &'a Arc<ReportCell>,
}

impl ReplayOpening<'_> {
    fn lanes(&self) -> Result<Vec<ReplayLane>> {
        let can_repeat = self.config.files.iter().all(|path| is_file(path));
        let is_stream = !can_repeat && self.config.loops == 1;
        let room = wirelane_os::memory::room();
        let limit = self.config.memory.unwrap_or((room.bytes / 4).min(MOST));
        let size = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
        let is_large = can_repeat && self.config.files.iter().map(size).sum::<u64>() > limit;
        if !is_stream && !is_large {
            if let Some(lanes) = self.load(limit)? {
                return Ok(lanes);
            }
            if !can_repeat {
                let cause = format!(
                    "does not fit into {} MiB, and a pipe cannot be read twice",
                    limit >> 20
                );
                return Err(Error::failed(self.name(), cause).remedy(Remedy::LoadOrOnce));
            }
        }
        self.stream()
    }

    fn name(&self) -> String {
        let unread = self.config.files.iter().find(|path| !is_file(path));
        unread.map_or_else(String::new, |path| match path.as_os_str() == "-" {
            true => "standard input".into(),
            false => path.display().to_string(),
        })
    }

    /// Loads all packets into memory. Returns `None` if they do not fit.
    fn load(&self, limit: u64) -> Result<Option<Vec<ReplayLane>>> {
        let mut dealer = Dealer::new(self.config, self.lanes, Arc::clone(self.shared));
        let mut memory =
            BlockMemory { lanes: (0..self.lanes).map(|_| Vec::new()).collect(), left: limit };
        let (period, failure) = match dealer.deal(&self.config.files, &mut memory) {
            Ok((_, ReadEnd::Unwanted)) if !self.config.halt.is_asked() => return Ok(None),
            Ok((period, _)) => (period, None),
            // The lanes first send the packets before the error, once.
            Err(error) if dealer.report.total().packets > 0 => (0, Some(error)),
            Err(error) => return Err(error),
        };
        if let Some(error) = dealer.nothing() {
            return Err(error);
        }
        let loops = if failure.is_some() { 1 } else { self.config.loops };
        dealer.report.is_loaded = true;
        dealer.report.duration = dealer.duration();
        self.shared.write(&dealer.report);
        let mut failure = failure;
        let lane = |blocks: Vec<PacketBlock>| {
            let loaded = Loaded {
                blocks: blocks.into(),
                block: 0,
                packet: 0,
                number: 0,
                base: 0,
                loops,
                period,
            };
            self.lane(Supply::Loaded(loaded), failure.take())
        };
        Ok(Some(memory.lanes.into_iter().map(lane).collect()))
    }

    /// Starts a thread that reads while the lanes send.
    fn stream(&self) -> Result<Vec<ReplayLane>> {
        let (used, fresh) = mpsc::channel();
        let stop = Arc::new(StopReader(self.config.halt.clone()));
        let mut block_sender = BlockSender { lanes: Vec::new(), fresh };
        let mut lanes = Vec::new();
        for _ in 0..self.lanes {
            let (sender, blocks) = mpsc::sync_channel(WAITING);
            block_sender.lanes.push(Some(sender));
            let streamed = Streamed {
                blocks,
                used: used.clone(),
                block: PacketBlock::default(),
                packet: 0,
                halt: self.config.halt.clone(),
                _reader: Arc::clone(&stop),
            };
            lanes.push(self.lane(Supply::Streamed(streamed), None));
        }
        let (begun, begins) = mpsc::sync_channel(1);
        let mut feed = Feed {
            dealer: Dealer::new(self.config, self.lanes, Arc::clone(self.shared)),
            config: self.config.clone(),
            block_sender,
            begun: Some(begun),
        };
        thread::Builder::new()
            .name("wl-replay".into())
            .spawn(move || feed.run())
            .map_err(|error| Error::io("thread wl-replay", "clone", error))?;
        match begins.recv() {
            Ok(Some(error)) => Err(error),
            Ok(None) => Ok(lanes),
            Err(_) => Err(Error::failed("thread wl-replay", "panicked: a defect")),
        }
    }

    fn lane(&self, supply: Supply, failure: Option<Error>) -> ReplayLane {
        let is_paced = !matches!(
            self.config.timing,
            ReplayTiming::Top | ReplayTiming::Rate { rate: Rate::Max, .. }
        );
        let rewrite = Arc::new(self.config.rewrite.clone());
        ReplayLane::new(supply, self.scale.clone(), is_paced, rewrite, failure)
    }
}

fn is_file(path: &Path) -> bool {
    path.as_os_str() != "-" && std::fs::metadata(path).is_ok_and(|file| file.is_file())
        // A missing file counts as a file; opening it reports the error.
        || path.as_os_str() != "-" && !path.exists()
}

/// Stores blocks in memory, up to a limit.
struct BlockMemory {
    lanes: Vec<Vec<PacketBlock>>,
    left: u64,
}

impl BlockSink for BlockMemory {
    fn take(&mut self, lane: usize, mut block: PacketBlock) -> bool {
        let Some(left) = self.left.checked_sub(block.size()) else { return false };
        self.left = left;
        block.bytes.shrink_to_fit();
        block.packets.shrink_to_fit();
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.push(block);
        }
        true
    }

    fn fresh(&mut self) -> PacketBlock {
        PacketBlock::default()
    }
}

/// Passes blocks to the lanes.
struct BlockSender {
    /// `None` for a lane that was dropped.
    lanes: Vec<Option<SyncSender<Result<PacketBlock>>>>,
    fresh: Receiver<PacketBlock>,
}

impl BlockSink for BlockSender {
    fn take(&mut self, lane: usize, block: PacketBlock) -> bool {
        if let Some(lane) = self.lanes.get_mut(lane)
            && lane.as_ref().is_some_and(|sender| sender.send(Ok(block)).is_err())
        {
            *lane = None;
        }
        self.lanes.iter().any(Option::is_some)
    }

    fn fresh(&mut self) -> PacketBlock {
        let mut block = self.fresh.try_recv().unwrap_or_default();
        block.clear();
        block
    }
}

/// The reading thread.
struct Feed {
    dealer: Dealer,
    config: ReplayConfig,
    block_sender: BlockSender,
    /// Reports that there is a packet, or the error if there is none.
    begun: Option<SyncSender<Option<Error>>>,
}

impl Feed {
    fn run(&mut self) {
        let mut number = 0;
        while self.config.loops == 0 || number < self.config.loops {
            let mut table = Begins { block_sender: &mut self.block_sender, begun: &mut self.begun };
            let dealt = self.dealer.deal(&self.config.files, &mut table);
            let error = match dealt {
                Ok((_, ReadEnd::Whole)) => self.dealer.nothing(),
                Ok((_, ReadEnd::Unwanted)) => return self.begin(),
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                return self.fail(error);
            }
            number += 1;
        }
    }

    /// Ends the wait for the first packet.
    fn begin(&mut self) {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(None);
        }
    }

    fn fail(&mut self, error: Error) {
        match self.begun.take() {
            Some(begun) => drop(begun.send(Some(error))),
            // One lane reports the error; the others end.
            None => {
                if let Some(lane) = self.block_sender.lanes.iter().flatten().next() {
                    let _ = lane.send(Err(error));
                }
            }
        }
    }
}

/// Passes blocks to the lanes, and reports the first one.
struct Begins<'a> {
    block_sender: &'a mut BlockSender,
    begun: &'a mut Option<SyncSender<Option<Error>>>,
}

impl BlockSink for Begins<'_> {
    fn take(&mut self, lane: usize, block: PacketBlock) -> bool {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(None);
        }
        self.block_sender.take(lane, block)
    }

    fn fresh(&mut self) -> PacketBlock {
        self.block_sender.fresh()
    }
}
