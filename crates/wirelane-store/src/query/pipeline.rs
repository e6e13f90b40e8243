//! Threads that read ahead: each reads an extent, checks it, decompresses it and selects the
//! matching packets. The results are passed on in the order of the route.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use wirelane_os::clock;
use wirelane_pcap::{Cancel, CancelSource, Source};

use super::loader::Loader;
use super::opened::ExtentRead;
use super::order::{AnswerRun, AnswerWindow};
use super::pace::ReadPace;
use super::request::{Damage, Report};
use super::route::{Atlas, StoreRoute, merge};
use super::sift::{QueryConditions, Sifted};
use crate::error::{Error, Result};
use crate::extent::ExtentHeader;

/// The name of the threads.
const NAME: &str = "wl-read";
/// Extents in flight per thread.
const AHEAD: usize = 2;
/// How often an extent that a recorder may be writing is read, and how long to wait between the
/// attempts.
const TRIES: u32 = 6;
const PATIENCE: Duration = Duration::from_millis(20);

/// Receives the results.
pub(super) trait Taker {
    /// The wanted part of the answer. Its end may move forward.
    fn window(&self) -> AnswerWindow;

    /// Takes the result of the next extent. Later extents have no packets older than `oldest`;
    /// `None` if this is the last extent. `sources` are the interfaces of the answer so far.
    ///
    /// # Errors
    /// The taker fails.
    fn take(
        &mut self,
        sifted: Option<Sifted>,
        oldest: Option<u64>,
        sources: &[Source],
    ) -> Result<ControlFlow<()>>;
}

/// How the threads work.
pub(super) struct PipelineWork<'a> {
    pub(super) threads: usize,
    pub(super) cancel: &'a Cancel,
    pub(super) pace: &'a mut ReadPace,
}

struct ExtentJob {
    number: u64,
    stop: ExtentRead,
    window: AnswerWindow,
}

/// `None` for an extent that is being written.
type ExtentResult = std::result::Result<Option<Sifted>, Damage>;

/// Follows the whole route, until its end, a halt, or a break of the taker.
///
/// # Errors
/// The system refuses, the filter cannot be compiled, or the taker fails.
pub(super) fn go(
    atlas: &mut Atlas<'_>,
    conditions: &QueryConditions,
    work: PipelineWork<'_>,
    taker: &mut impl Taker,
    report: &mut Report,
) -> Result<ControlFlow<()>> {
    let (jobs, waiting) = mpsc::channel::<ExtentJob>();
    let (done, results) = mpsc::channel();
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        // The threads end when this closure drops the channel of jobs.
        let jobs = jobs;
        for _ in 0..work.threads.max(1) {
            let (waiting, done) = (&waiting, done.clone());
            thread::Builder::new()
                .name(NAME.into())
                .spawn_scoped(scope, move || serve(waiting, &done, conditions))
                .map_err(|error| Error::thread(NAME, error))?;
        }
        drop(done);
        let route = StoreRoute::new(atlas, conditions, taker.window());
        let mut caravan = Caravan {
            route,
            jobs,
            sent: 0,
            under_way: VecDeque::new(),
            arrived: BTreeMap::new(),
            taken: 0,
            has_ended: false,
        };
        caravan.go(atlas, conditions, work, taker, report, &results)
    })
}

/// The extents in flight.
struct Caravan<'a> {
    route: StoreRoute<'a>,
    jobs: Sender<ExtentJob>,
    sent: u64,
    taken: u64,
    /// Oldest times of the extents sent and not taken yet, in order.
    under_way: VecDeque<u64>,
    /// Results that arrived before their turn.
    arrived: BTreeMap<u64, ExtentResult>,
    has_ended: bool,
}

impl Caravan<'_> {
    fn go(
        &mut self,
        atlas: &mut Atlas<'_>,
        conditions: &QueryConditions,
        mut work: PipelineWork<'_>,
        taker: &mut impl Taker,
        report: &mut Report,
        results: &Receiver<(u64, ExtentResult)>,
    ) -> Result<ControlFlow<()>> {
        let most = AHEAD * work.threads.max(1);
        loop {
            while !self.has_ended && self.under_way.len() < most {
                if work.cancel.is_asked() {
                    report.stopped = true;
                    return Ok(ControlFlow::Break(()));
                }
                self.send(atlas, conditions, taker.window(), &mut work, report)?;
            }
            if self.under_way.is_empty() {
                return taker.take(None, None, &atlas.sources);
            }
            // The threads live as long as the channel of jobs.
            let Ok((number, outcome)) = results.recv() else { break };
            self.arrived.insert(number, outcome);
            while let Some(outcome) = self.arrived.remove(&self.taken) {
                self.taken += 1;
                self.under_way.pop_front();
                let sifted = outcome
                    .inspect_err(|damage| merge(&mut report.damage, std::slice::from_ref(damage)));
                let oldest = match self.under_way.front() {
                    Some(oldest) => Some(*oldest),
                    None if self.has_ended => None,
                    None => self.route.oldest(),
                };
                if taker.take(sifted.ok().flatten(), oldest, &atlas.sources)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Err(Error::new("a thread that reads", "it ended early"))
    }

    /// Sends the next extent.
    fn send(
        &mut self,
        atlas: &mut Atlas<'_>,
        conditions: &QueryConditions,
        window: AnswerWindow,
        work: &mut PipelineWork<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let Some(stop) = self.route.next(atlas, window, report)? else {
            self.has_ended = true;
            return Ok(());
        };
        let header = &stop.extent.header;
        if conditions.counts_unread(header, &stop.opened.interfaces) {
            report.packets += u64::from(header.packets);
            return Ok(());
        }
        let compressed = stop.opened.segment.name().is_compressed();
        let bytes = ExtentHeader::disk_len(compressed) as u64 + u64::from(header.payload);
        report.extents_read += 1;
        report.bytes_read += bytes;
        rest_until(work.pace.due(bytes, clock::monotonic_ns()), work.cancel);
        self.under_way.push_back(header.oldest);
        let job = ExtentJob { number: self.sent, stop, window };
        self.sent += 1;
        self.jobs.send(job).map_err(|_| Error::new("a thread that reads", "it ended early"))
    }
}

fn rest_until(due: u64, cancel: &Cancel) {
    while !cancel.is_asked() {
        match due.saturating_sub(clock::monotonic_ns()) {
            0 => return,
            left => thread::sleep(Cancel::NAP.min(Duration::from_nanos(left))),
        }
    }
}

/// Works until the channel of jobs ends.
fn serve(
    waiting: &Mutex<Receiver<ExtentJob>>,
    done: &Sender<(u64, ExtentResult)>,
    conditions: &QueryConditions,
) {
    let mut loader = Loader::default();
    loop {
        let job = match waiting.lock() {
            Ok(waiting) => waiting.recv(),
            Err(_) => return,
        };
        let Ok(ExtentJob { number, stop, window }) = job else { return };
        if done.send((number, sift(&stop, window, conditions, &mut loader))).is_err() {
            return;
        }
    }
}

fn sift(
    stop: &ExtentRead,
    window: AnswerWindow,
    conditions: &QueryConditions,
    loader: &mut Loader,
) -> ExtentResult {
    let ExtentRead { opened, extent } = stop;
    let is_new = opened.is_new(extent);
    let mut tries = if is_new { TRIES } else { 1 };
    let blocks = loop {
        tries -= 1;
        match opened.segment.load(extent, loader) {
            Ok(_) => break loader.blocks(opened.segment.name()),
            Err(_) if tries > 0 => thread::sleep(PATIENCE),
            Err(_) if is_new => return Ok(None),
            Err(damage) => return Err(damage),
        }
    };
    let run = AnswerRun::new(opened.numbers.clone(), opened.rank, extent.offset);
    let sifted = conditions.sift(blocks, extent, &opened.interfaces, run, window);
    sifted.map(Some).map_err(|what| Damage {
        path: opened.segment.path().into(),
        offset: extent.offset,
        what,
    })
}
