//! Puts packets in order while extents come in order of their oldest packet.
//!
//! An extent's oldest time is known before it is read. So whatever is older than the oldest time of
//! the next extent can be handed over: nothing that comes later belongs before it. What is held is
//! what overlaps in time, an extent for each lane usually. A clock that jumped back, or many stores
//! of the same time, may make that any amount. Then the later half of what is held is forgotten,
//! and the sweep ends where that begins; a next one begins there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::ControlFlow;

use wirelane_pcap::Record;
use wirelane_pcap::pcapng::Block;

use super::order::{Key, Run, Window};

/// Packets looked at for the middle of what is held.
const SAMPLES: usize = 4096;

/// Runs of packets on their way into one order.
#[derive(Debug)]
pub(super) struct Sweep {
    window: Window,
    memory: usize,
    held: usize,
    runs: Vec<Run>,
    /// Places in `runs` that are empty.
    free: Vec<usize>,
    /// The next packet of every run.
    heads: BinaryHeap<Reverse<(Key, usize)>>,
}

impl Sweep {
    /// Takes packets of `window`, and holds no more than about `memory` bytes of them.
    pub(super) fn new(window: Window, memory: usize) -> Self {
        let (runs, free, heads) = (Vec::new(), Vec::new(), BinaryHeap::new());
        Self { window, memory, held: 0, runs, free, heads }
    }

    /// What it takes by now: it may end earlier than it was made for.
    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// Adds the packets of an extent.
    pub(super) fn add(&mut self, mut run: Run) {
        if let Some(until) = self.window.until {
            run.truncate(until);
        }
        let Some(head) = run.head() else { return };
        self.held += run.size();
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.runs.push(Run::default());
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

    /// Hands over the packets that are older than `time`, all of them with `None`.
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
                    *run = Run::default();
                    self.free.push(at);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Forgets the later half of what is held.
    fn shrink(&mut self) {
        let left: usize = self.runs.iter().map(Run::left).sum();
        let step = left / SAMPLES + 1;
        let mut places: Vec<_> = self.runs.iter().flat_map(|run| run.sample(step)).collect();
        places.sort_unstable();
        // Of a single packet, nothing can be forgotten: it has to be handed over some time.
        let Some(middle) = places.get(places.len() / 2).filter(|_| left > 1) else { return };
        // The first one stays, so that every sweep hands something over.
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
                    *run = Run::default();
                    self.free.push(at);
                }
            }
        }
    }
}
