//! Capture files as a source of packets.
//!
//! ```text
//!   files ─▶ reader ─▶ Ethernet, cut, checksums ─▶ rewrite ─▶ flow hash ─┬─▶ blocks of lane 0 ─▶ ReplayLane
//!            (wirelane-pcap)  adapt.rs                        dealer.rs  └─▶ blocks of lane 1 ─▶ ReplayLane
//! ```
//!
//! Files that fit into memory are loaded once, and the lanes go over their blocks as often as there
//! are loops. Of others, and of pipes, one thread reads and hands over blocks as they are used up.
//! Both lead to the same packets at the same times. All packets of a flow, in both directions, are
//! in one lane, in the order of the files.
//!
//! Times are exact integers. With the file's own timing, a packet is due at the sum of the gaps
//! before it, divided by the speed as a fraction. A packet with an earlier time than one before
//! leaves with it; one that is more than a second earlier tells that a clock was set, and gaps
//! count from there. From the last packet of a loop to the first of the next it takes as long as
//! the mean gap of the loop.

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

use wirelane::{Error, Result};
use wirelane_gen::Rate;

use self::block::Block;
use self::clock::Scale;
use self::dealer::{Dealer, End, Table};
use self::lane::{Loaded, StopReader, Streamed, Supply};
use self::report::Shared;

pub use self::clock::TimeFaults;
pub use self::config::{Cut, ReplayConfig, Speed, Timing};
pub use self::lane::ReplayLane;
pub use self::report::{FileReport, ReplayReport};

/// Files that are ready to be sent.
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
    shared: Arc<Shared>,
    /// Of the config.
    loops: u64,
}

/// Most bytes that are loaded if nobody says.
const MOST: u64 = 1 << 30;
/// Blocks that wait for a lane.
const WAITING: usize = 8;

impl Replay {
    /// Opens the files for so many sending threads. Waits for the first packets of a pipe.
    ///
    /// # Errors
    /// A file cannot be opened, holds no packets, or has a link type that does not become Ethernet;
    /// a pipe is to be repeated and does not fit into memory; the rate is a share of an unknown
    /// speed.
    pub fn open(config: &ReplayConfig, lanes: u32) -> Result<Self> {
        if config.files.is_empty() {
            return Err(Error::usage("replay", "no file is named").help("name a capture file"));
        }
        let scale = Scale::new(&config.timing)?;
        let shared = Arc::new(Shared::default());
        let mut config = config.clone();
        config.halt = config.halt.below();
        let opening = Opening { config: &config, lanes: lanes.max(1), scale, shared: &shared };
        let lanes = opening.lanes()?.into_iter().map(Some).collect();
        Ok(Self { lanes, shared, loops: config.loops })
    }

    /// Hands out what the sending thread at this position sends, once.
    pub fn take_lane(&mut self, index: u32) -> Option<ReplayLane> {
        self.lanes.get_mut(index as usize)?.take()
    }

    /// Hands out what is left of the lanes.
    pub fn take_lanes(&mut self) -> Vec<ReplayLane> {
        std::mem::take(&mut self.lanes).into_iter().flatten().collect()
    }

    /// What was read so far.
    #[must_use]
    pub fn report(&self) -> ReplayReport {
        self.shared.read()
    }

    /// How many packets will have been sent at the end; `None` if nobody knows.
    #[must_use]
    pub fn packets(&self) -> Option<u64> {
        let report = self.report();
        (report.is_loaded && self.loops > 0)
            .then(|| report.total().packets.saturating_mul(self.loops))
    }
}

struct Opening<'a> {
    config: &'a ReplayConfig,
    lanes: u32,
    scale: Scale,
    shared: &'a Arc<Shared>,
}

impl Opening<'_> {
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
                return Err(Error::failed(self.name(), cause)
                    .help("name a file, send it once, or allow more memory"));
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

    /// All packets in memory; `None` if there are too many.
    fn load(&self, limit: u64) -> Result<Option<Vec<ReplayLane>>> {
        let mut dealer = Dealer::new(self.config, self.lanes, Arc::clone(self.shared));
        let mut shelf = Shelf { lanes: (0..self.lanes).map(|_| Vec::new()).collect(), left: limit };
        let (period, failure) = match dealer.deal(&self.config.files, &mut shelf) {
            Ok((_, End::Unwanted)) if !self.config.halt.is_asked() => return Ok(None),
            Ok((period, _)) => (period, None),
            // What came before is sent first, once.
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
        let lane = |blocks: Vec<Block>| {
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
        Ok(Some(shelf.lanes.into_iter().map(lane).collect()))
    }

    /// A thread that reads while others send.
    fn stream(&self) -> Result<Vec<ReplayLane>> {
        let (used, fresh) = mpsc::channel();
        let stop = Arc::new(StopReader(self.config.halt.clone()));
        let mut belt = Belt { lanes: Vec::new(), fresh };
        let mut lanes = Vec::new();
        for _ in 0..self.lanes {
            let (sender, blocks) = mpsc::sync_channel(WAITING);
            belt.lanes.push(Some(sender));
            let streamed = Streamed {
                blocks,
                used: used.clone(),
                block: Block::default(),
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
            belt,
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
        let is_paced =
            !matches!(self.config.timing, Timing::Top | Timing::Rate { rate: Rate::Max, .. });
        let rewrite = Arc::new(self.config.rewrite.clone());
        ReplayLane::new(supply, self.scale.clone(), is_paced, rewrite, failure)
    }
}

fn is_file(path: &Path) -> bool {
    path.as_os_str() != "-" && std::fs::metadata(path).is_ok_and(|file| file.is_file())
        // What is not there is an error that opening it tells.
        || path.as_os_str() != "-" && !path.exists()
}

/// Keeps blocks, up to a limit.
struct Shelf {
    lanes: Vec<Vec<Block>>,
    left: u64,
}

impl Table for Shelf {
    fn take(&mut self, lane: usize, mut block: Block) -> bool {
        let Some(left) = self.left.checked_sub(block.size()) else { return false };
        self.left = left;
        block.bytes.shrink_to_fit();
        block.packets.shrink_to_fit();
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.push(block);
        }
        true
    }

    fn fresh(&mut self) -> Block {
        Block::default()
    }
}

/// Hands blocks over to lanes.
struct Belt {
    /// None of a lane that has gone.
    lanes: Vec<Option<SyncSender<Result<Block>>>>,
    fresh: Receiver<Block>,
}

impl Table for Belt {
    fn take(&mut self, lane: usize, block: Block) -> bool {
        if let Some(lane) = self.lanes.get_mut(lane)
            && lane.as_ref().is_some_and(|sender| sender.send(Ok(block)).is_err())
        {
            *lane = None;
        }
        self.lanes.iter().any(Option::is_some)
    }

    fn fresh(&mut self) -> Block {
        let mut block = self.fresh.try_recv().unwrap_or_default();
        block.clear();
        block
    }
}

/// The thread that reads.
struct Feed {
    dealer: Dealer,
    config: ReplayConfig,
    belt: Belt,
    /// Tells that there is a packet, or why there is none.
    begun: Option<SyncSender<Option<Error>>>,
}

impl Feed {
    fn run(&mut self) {
        let mut number = 0;
        while self.config.loops == 0 || number < self.config.loops {
            let mut table = Begins { belt: &mut self.belt, begun: &mut self.begun };
            let dealt = self.dealer.deal(&self.config.files, &mut table);
            let error = match dealt {
                Ok((_, End::Whole)) => self.dealer.nothing(),
                Ok((_, End::Unwanted)) => return self.begin(),
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                return self.fail(error);
            }
            number += 1;
        }
    }

    /// Ends the waiting for the first packet.
    fn begin(&mut self) {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(None);
        }
    }

    fn fail(&mut self, error: Error) {
        match self.begun.take() {
            Some(begun) => drop(begun.send(Some(error))),
            // One lane tells it; the others come to their ends.
            None => {
                if let Some(lane) = self.belt.lanes.iter().flatten().next() {
                    let _ = lane.send(Err(error));
                }
            }
        }
    }
}

/// Hands blocks over, and tells of the first.
struct Begins<'a> {
    belt: &'a mut Belt,
    begun: &'a mut Option<SyncSender<Option<Error>>>,
}

impl Table for Begins<'_> {
    fn take(&mut self, lane: usize, block: Block) -> bool {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(None);
        }
        self.belt.take(lane, block)
    }

    fn fresh(&mut self) -> Block {
        self.belt.fresh()
    }
}
