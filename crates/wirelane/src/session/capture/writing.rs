//! Writes packets on a separate thread or, for immediate delivery, on the thread that received
//! them.
//!
//! Waking a thread takes 100 µs. So an idle receiving thread writes its packets itself, unless the
//! writing thread is writing.

use std::sync::Mutex;

use wirelane_os::clock;

use super::merge::ChunkMerge;
use super::writer::{Finished, WriterThread};
use crate::pcap::CaptureError;
use crate::sync::{Doorbell, lock};

/// The state of writing, for the thread that writes. `None` at the end.
pub(super) struct Writing(Mutex<Option<WritingState>>);

struct WritingState {
    writer: WriterThread,
    merge: ChunkMerge,
    started: u64,
    next_statistics: u64,
    /// Ends writing.
    error: Option<CaptureError>,
}

impl Writing {
    pub(super) fn new(writer: WriterThread) -> Self {
        let started = clock::realtime_ns();
        let state = WritingState {
            merge: ChunkMerge::new(writer.inputs.len(), writer.keeps_order),
            started,
            next_statistics: started + writer.statistics_every,
            error: None,
            writer,
        };
        Self(Mutex::new(Some(state)))
    }

    /// Writes until every input has ended, on the thread of this bell.
    pub(super) fn run(&self, bell: &Doorbell) -> Finished {
        loop {
            let mut place = lock(&self.0);
            let Some(state) = place.as_mut() else { return Finished::nothing() };
            let is_over = state.step();
            let longest = state.writer.longest_sleep();
            if let Some(state) = place.take_if(|_| is_over) {
                drop(place);
                return state.writer.end(state.merge, state.started, state.error);
            }
            drop(place);
            let is_ready =
                |state: &mut WritingState| state.error.is_some() || state.writer.is_ready();
            bell.sleep(|| lock(&self.0).as_mut().is_none_or(is_ready), longest);
        }
    }

    /// Writes the available packets on the calling thread. False if the writing thread must do it,
    /// and must be woken.
    pub(super) fn help(&self) -> bool {
        let Ok(mut place) = self.0.try_lock() else { return false };
        let Some(state) = place.as_mut() else { return false };
        !state.step() && !state.writer.holds_packets()
    }
}

impl WritingState {
    /// Writes the available packets; true after every input has ended or writing has failed.
    fn step(&mut self) -> bool {
        if self.error.is_none() {
            let Self { writer, merge, started, next_statistics, error } = self;
            match writer.step(merge, *started, next_statistics) {
                Ok(is_over) => return is_over,
                Err(cause) => *error = Some(cause),
            }
        }
        true
    }
}
