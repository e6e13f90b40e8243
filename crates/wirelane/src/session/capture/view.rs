//! Shows packets during a capture, on a separate thread.
//!
//! ```text
//!  writer: merge by time ─┬▶ file
//!                         └▶ copies of runs ─ chunks ─▶ view: one packet after the other
//!                                 ▲                       │
//!                                 └──── empty chunks ─────┘
//! ```
//!
//! The merging thread copies bytes and never waits: packets without a chunk are not shown, but
//! counted. Only ports that wait for their consumer also wait for the view. For immediate delivery
//! the merging thread shows a few packets itself, as waking the other thread takes longer than
//! showing them.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirelane_os::event::Event;

use super::calm::Calm;
use super::chunk::Chunk;
use super::merge::BlockRun;
use crate::error::{Error, Result};
use crate::pcap::Record;
use crate::ring::{Receiver, Sender, channel};
use crate::session::interfaces::Interface;
use crate::session::viewed::Viewed;
use crate::sync::{Counter, Doorbell, Watermark, lock};
use crate::threads::{ThreadCount, spawn};

/// Bytes per chunk, and the maximum number of chunks between the two threads: a burst of 8 MiB is
/// shown as a whole.
const CHUNK: usize = 128 * 1024;
const CHUNKS: usize = 64;
/// Bytes that the merging thread shows itself, for immediate delivery.
const FEW: usize = 4 * 1024;
/// How long a merge sleeps while it waits for the view.
const NAP: Duration = Duration::from_micros(100);

/// Receives the packets of a capture, in order of time.
///
/// After an error it receives no more packets, and the capture ends.
pub trait View: Send {
    /// The next interface, in order, before any of its packets.
    ///
    /// # Errors
    /// The view can show no more packets.
    fn interface(&mut self, interface: &Interface) -> Result<()>;

    /// The next packet, and its options as pcapng encodes them, in the byte order of this machine.
    ///
    /// # Errors
    /// The view can show no more packets.
    fn packet(&mut self, record: &Record<'_>, options: &[u8]) -> Result<()>;

    /// No packet older than `time` follows, in nanoseconds since the epoch. Called periodically,
    /// also while no packets arrive.
    ///
    /// # Errors
    /// The view can show no more packets.
    fn advance(&mut self, time: u64) -> Result<()> {
        let _ = time;
        Ok(())
    }

    /// Whether packets wait for a slow view. Otherwise the view misses packets that find no room.
    fn needs_all(&self) -> bool {
        false
    }

    /// No packet waits: a good moment to flush.
    ///
    /// # Errors
    /// The view can show no more packets.
    fn pause(&mut self) -> Result<()> {
        Ok(())
    }

    /// As [`View::pause`], but must not block; false if there is work left.
    ///
    /// # Errors
    /// The view can show no more packets.
    fn pause_at_once(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// State that both threads share.
#[derive(Default)]
struct ViewCounts {
    shown: Counter,
    /// Packets that found no chunk.
    no_room: Counter,
    /// Packets that followed a failure of the view.
    discarded: Counter,
    /// No packet older than this follows, except packets in transit.
    horizon: Watermark,
    /// The interfaces, by number. An interface is added before its first packet.
    interfaces: Mutex<Vec<Interface>>,
}

impl ViewCounts {
    fn viewed(&self) -> Viewed {
        let missed = self.no_room.value() + self.discarded.value();
        Viewed { shown: self.shown.value(), missed }
    }
}

/// The merging thread's side. Dropping it ends the view, after the view has received all packets.
pub(super) struct ViewInput {
    filled: Sender<Chunk>,
    spent: Receiver<Chunk>,
    empty: Vec<Chunk>,
    /// How many more chunks may be allocated.
    unmade: usize,
    current: Option<Chunk>,
    bell: Arc<Doorbell>,
    tally: Arc<ViewCounts>,
    /// The view must not miss packets: wait for room.
    waits: bool,
    /// For immediate delivery.
    eye: Option<Arc<Mutex<Eye>>>,
}

pub(super) struct ViewThread {
    handle: JoinHandle<Option<Error>>,
    tally: Arc<ViewCounts>,
}

impl ViewThread {
    /// Starts the thread, which counts as one of `running`. `waits`: the view must not miss
    /// packets; or `immediate` delivery. `failed` is set when the view can show no more packets.
    ///
    /// # Errors
    /// The system has no room for it.
    pub(super) fn start(
        view: Box<dyn View>,
        (waits, immediate): (bool, bool),
        failed: Arc<Event>,
        running: &Arc<ThreadCount>,
    ) -> Result<(Self, ViewInput)> {
        let (filled, filled_rx) = channel(CHUNKS);
        let (spent_tx, spent) = channel(CHUNKS);
        let tally = Arc::new(ViewCounts::default());
        let (send_eye, eye) = mpsc::channel::<(Arc<Mutex<Eye>>, Arc<Doorbell>)>();
        let ending = running.one_more();
        let handle = spawn("wl-view", move || {
            let _ending = ending;
            eye.recv().ok().and_then(|(eye, bell)| run(&eye, &bell))
        })?;
        let bell = Arc::new(Doorbell::new(handle.thread().clone()));
        let eye = Eye {
            view,
            filled: filled_rx,
            spent: spent_tx,
            tally: Arc::clone(&tally),
            failed,
            known: 0,
            fresh: Vec::new(),
            error: None,
            is_behind: false,
        };
        let eye = Arc::new(Mutex::new(eye));
        // The thread waits for this message, so it still exists.
        let _ = send_eye.send((Arc::clone(&eye), Arc::clone(&bell)));
        let input = ViewInput {
            filled,
            spent,
            empty: Vec::with_capacity(CHUNKS),
            unmade: CHUNKS,
            current: None,
            bell,
            tally: Arc::clone(&tally),
            waits,
            eye: immediate.then_some(eye),
        };
        Ok((Self { handle, tally }, input))
    }

    /// Returns the counts of packets so far.
    pub(super) fn counts(&self) -> impl Fn() -> Viewed + Send + Sync + 'static {
        let tally = Arc::clone(&self.tally);
        move || tally.viewed()
    }

    /// Waits for its end; returns the counts and the error, if there is one.
    pub(super) fn join(self) -> (Viewed, Option<Error>) {
        let panicked = || Error::failed("the view of the packets", "panicked: a defect");
        let error = self.handle.join().unwrap_or_else(|_| Some(panicked()));
        (self.tally.viewed(), error)
    }
}

impl ViewInput {
    /// Adds an interface; its number is the count of earlier interfaces.
    pub(super) fn describe(&self, interface: &Interface) {
        lock(&self.tally.interfaces).push(interface.clone());
    }

    /// Copies the packets of a run.
    pub(super) fn take(&mut self, run: &BlockRun<'_>) {
        let (mut bytes, mut packets) = (run.bytes(), run.packets);
        while packets > 0 {
            if self.current.is_none() {
                self.current = self.empty_chunk();
            }
            let Some(chunk) = &mut self.current else {
                return self.tally.no_room.add(packets);
            };
            let (len, count) = chunk.copy_blocks(bytes, packets);
            bytes = bytes.get(len..).unwrap_or_default();
            packets -= count;
            if packets > 0 {
                self.hand_over();
            }
        }
    }

    /// No more packets for now, and later none older than `horizon`: shows the packets so far,
    /// unless the view is busy with earlier ones.
    pub(super) fn pause(&mut self, horizon: u64) {
        if self.filled.room(CHUNKS) == CHUNKS {
            let is_short = |chunk: &Chunk| chunk.bytes().len() <= FEW;
            let is_few = self.current.as_ref().is_some_and(is_short);
            if self.send() && !(is_few && self.show(horizon)) {
                self.bell.ring();
            }
        }
        if self.current.as_ref().is_none_or(Chunk::is_empty) {
            self.tally.horizon.set(horizon);
        }
    }

    /// Whether packets wait until the view has shown earlier ones.
    pub(super) fn is_held(&self) -> bool {
        self.current.as_ref().is_some_and(|chunk| !chunk.is_empty())
    }

    fn hand_over(&mut self) {
        if self.send() {
            self.bell.ring();
        }
    }

    /// Sends the packets so far; false if there are none.
    fn send(&mut self) -> bool {
        let Some(chunk) = self.current.take_if(|chunk| !chunk.is_empty()) else { return false };
        // There is room: the ring holds all chunks.
        let sent = self.filled.send_one(chunk);
        debug_assert!(sent.is_ok());
        true
    }

    /// Shows the sent packets; false if the other thread must do it.
    fn show(&self, horizon: u64) -> bool {
        let Some(Ok(mut eye)) = self.eye.as_ref().map(|eye| eye.try_lock()) else { return false };
        !eye.is_behind && eye.show_at_once(horizon)
    }

    /// An empty chunk. Waits for one if the view must not miss packets.
    fn empty_chunk(&mut self) -> Option<Chunk> {
        loop {
            self.spent.receive(&mut self.empty, usize::MAX);
            if let Some(mut chunk) = self.empty.pop() {
                chunk.clear();
                return Some(chunk);
            }
            if self.unmade > 0 {
                self.unmade -= 1;
                return Some(Chunk::new(CHUNK));
            }
            if !self.waits || self.spent.is_finished() {
                return None;
            }
            thread::sleep(NAP);
        }
    }
}

impl Drop for ViewInput {
    fn drop(&mut self) {
        self.hand_over();
        // In this order, so that the woken thread sees the end.
        let (filled, _) = channel(1);
        drop(std::mem::replace(&mut self.filled, filled));
        self.bell.ring();
    }
}

/// The state of the view's thread.
struct Eye {
    view: Box<dyn View>,
    filled: Receiver<Chunk>,
    spent: Sender<Chunk>,
    tally: Arc<ViewCounts>,
    failed: Arc<Event>,
    /// The number of interfaces that the view has received.
    known: usize,
    fresh: Vec<Chunk>,
    /// After an error, no more packets are shown.
    error: Option<Error>,
    /// The view has work left.
    is_behind: bool,
}

impl Eye {
    /// Shows the sent packets, and does the remaining work of the view.
    fn look(&mut self) -> bool {
        // Read before the ring: all older packets were handed over before.
        let horizon = self.tally.horizon.get();
        let found = self.show_all(horizon);
        if self.error.is_none() {
            self.error = self.view.pause().err();
        }
        self.is_behind = false;
        self.report();
        found
    }

    /// As [`Eye::look`], but does not block; false if there is work left.
    fn show_at_once(&mut self, horizon: u64) -> bool {
        let _on_panic = OnPanic(Arc::clone(&self.failed));
        self.show_all(horizon);
        if self.error.is_none() {
            match self.view.pause_at_once() {
                Ok(is_done) => self.is_behind = !is_done,
                Err(error) => self.error = Some(error),
            }
        }
        self.report();
        !self.is_behind
    }

    /// Shows the sent packets, and announces that no packet older than `horizon` follows. False if
    /// there were none.
    fn show_all(&mut self, horizon: u64) -> bool {
        let mut fresh = std::mem::take(&mut self.fresh);
        let mut found = false;
        while self.filled.receive(&mut fresh, 1) > 0 {
            found = true;
            for chunk in fresh.drain(..) {
                if self.error.is_none() {
                    self.error = self.show(&chunk).err();
                } else {
                    self.tally.discarded.add(chunk.records().count() as u64);
                }
                let returned = self.spent.send_one(chunk);
                debug_assert!(returned.is_ok());
            }
        }
        self.fresh = fresh;
        if self.error.is_none() && horizon < u64::MAX {
            self.error = self.view.advance(horizon).err();
        }
        found
    }

    /// Ends the capture after an error of the view.
    fn report(&self) {
        if self.error.is_some() {
            self.failed.happen();
        }
    }

    fn show(&mut self, chunk: &Chunk) -> Result<()> {
        let mut records = chunk.with_options();
        while let Some((record, options)) = records.next() {
            let introduced = self.introduce(record.interface);
            let view = &mut self.view;
            let shown = introduced.and_then(|()| view.packet(&record, options));
            if let Err(error) = shown {
                self.tally.discarded.add(1 + records.count() as u64);
                return Err(error);
            }
            self.tally.shown.add(1);
        }
        Ok(())
    }

    /// Passes the interfaces up to this one to the view.
    #[inline]
    fn introduce(&mut self, interface: u32) -> Result<()> {
        if (interface as usize) < self.known {
            return Ok(());
        }
        let interfaces = lock(&self.tally.interfaces);
        for interface in interfaces.iter().skip(self.known) {
            self.view.interface(interface)?;
        }
        self.known = interfaces.len();
        Ok(())
    }
}

/// Shows packets until the end, on the thread of this bell.
fn run(eye: &Mutex<Eye>, bell: &Doorbell) -> Option<Error> {
    let mut calm = Calm::new();
    let _on_panic = OnPanic(Arc::clone(&lock(eye).failed));
    loop {
        let mut place = lock(eye);
        let found = place.look();
        if place.filled.is_finished() {
            return place.error.take();
        }
        drop(place);
        let longest = calm.sleep(found);
        let is_ready =
            |eye: &mut Eye| eye.is_behind || eye.filled.is_ready() || eye.filled.is_finished();
        bell.sleep(|| is_ready(&mut lock(eye)), longest);
    }
}

/// Ends the capture if the view panics.
struct OnPanic(Arc<Event>);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.happen();
        }
    }
}
