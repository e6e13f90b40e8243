//! Sorts packets while extents arrive in order of their oldest packet.
//!
//! An extent's oldest time is known before it is read. So packets older than the oldest time of the
//! next extent can be passed on: no later packet precedes them. The sweep holds packets of extents
//! that overlap in time, usually one extent per lane. A clock that jumped back, or many stores of
//! the same time, may require any amount of memory. Then the later half of the held packets is
//! dropped, the sweep ends at its start, and another sweep continues there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::ControlFlow;

use wirelane_pcap::Record;
use wirelane_pcap::pcapng::Block;

use super::order::{AnswerRun, AnswerWindow, PacketPosition};

/// Packets sampled to find the middle of the held packets.
const SAMPLES: usize = 4096;

/// Merges runs of packets.
#[derive(Debug)]
pub(super) struct Sweep {
    window: AnswerWindow,
    memory: usize,
    held: usize,
    runs: Vec<AnswerRun>,
    /// Empty positions in `runs`.
    free: Vec<usize>,
    /// The next packet of every run.
    heads: BinaryHeap<Reverse<(PacketPosition, usize)>>,
}

impl Sweep {
    /// Accepts packets of `window`, and holds at most about `memory` bytes of them.
    pub(super) fn new(window: AnswerWindow, memory: usize) -> Self {
        let (runs, free, heads) = (Vec::new(), Vec::new(), BinaryHeap::new());
        Self { window, memory, held: 0, runs, free, heads }
    }

    /// The current window. It may end earlier than at the start.
    pub(super) fn window(&self) -> AnswerWindow {
        self.window
    }

    /// Adds the packets of an extent.
    pub(super) fn add(&mut self, mut run: AnswerRun) {
        if let Some(until) = self.window.until {
            run.truncate(until);
        }
        let Some(head) = run.head() else { return };
        self.held += run.size();
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.runs.push(AnswerRun::default());
                self.runs.len() - 1
            }
        };
        if let Some(place) = self.runs.get_mut(at) {
            *place = run;
        }
        self.heads.push(Reverse((head, at)));
        if self.held > self.memory {
            self.shrink();
        }
    }

    /// Passes on the packets older than `time`, or all packets with `None`.
    pub(super) fn emit<B>(
        &mut self,
        time: Option<u64>,
        mut sink: impl FnMut(&Record<'_>, &Block<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        while let Some(mut head) = self.heads.peek_mut() {
            let Reverse((key, at)) = *head;
            if time.is_some_and(|time| time <= key.time) {
                break;
            }
            let Some(run) = self.runs.get_mut(at) else { break };
            if let Some((record, block)) = run.take() {
                sink(&record, &block)?;
            }
            match run.head() {
                Some(next) => *head = Reverse((next, at)),
                None => {
                    PeekMut::pop(head);
                    self.held -= run.size();
                    *run = AnswerRun::default();
                    self.free.push(at);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Drops the later half of the held packets.
    fn shrink(&mut self) {
        let left: usize = self.runs.iter().map(AnswerRun::left).sum();
        let step = left / SAMPLES + 1;
        let mut places: Vec<_> = self.runs.iter().flat_map(|run| run.sample(step)).collect();
        places.sort_unstable();
        // A single packet cannot be dropped: it must be passed on at some time.
        let Some(middle) = places.get(places.len() / 2).filter(|_| left > 1) else { return };
        // The first packet stays, so that every sweep makes progress.
        let middle = match places.first() {
            Some(first) if first == middle => return,
            _ => *middle,
        };
        self.window.until = Some(middle);
        self.heads.clear();
        self.held = 0;
        for (at, run) in self.runs.iter_mut().enumerate() {
            if run.left() == 0 {
                continue;
            }
            run.truncate(middle);
            match run.head() {
                Some(head) => {
                    self.held += run.size();
                    self.heads.push(Reverse((head, at)));
                }
                None => {
                    *run = AnswerRun::default();
                    self.free.push(at);
                }
            }
        }
    }
}
