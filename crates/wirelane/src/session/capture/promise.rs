//! When to say again how far a thread has come: a merge holds a packet until every receiving end
//! promises that no older one follows.
//!
//! Where packets are wanted at once, the thread that receives from all ends looks again soon after
//! a packet, and wakes the writer once that packet may leave. Without packets it sleeps.

use std::time::Duration;

use super::worker::{Lane, Route};
use crate::port::Rx;

/// The shortest sleep until the ends may promise enough.
const SOON: Duration = Duration::from_micros(50);

/// What a thread still has to say.
pub(super) struct Promise {
    /// Packets up to this time may leave, and the writer was told.
    told: u64,
    /// Packets wait for a chunk to be handed over, or for a promise.
    is_awaited: bool,
    soon: Duration,
}

impl Promise {
    /// Of ends that are `lateness` nanoseconds behind at most.
    pub(super) fn new(lateness: u64) -> Self {
        let soon = Duration::from_nanos(lateness / 4).max(SOON);
        Self { told: 0, is_awaited: false, soon }
    }

    /// After a round: wakes the writer if the last packets may leave now.
    pub(super) fn follow(&mut self, inputs: &[Rx], routes: &mut [Route]) {
        let lanes = || routes.iter().flat_map(|route| &route.lanes);
        let newest = lanes().map(|lane| lane.newest).max().unwrap_or(0);
        let has_more = lanes().any(|lane| lane.current.as_ref().is_some_and(|c| !c.is_empty()));
        if newest > self.told {
            let horizon = inputs.iter().map(Rx::watermark).min().unwrap_or(u64::MAX);
            if horizon >= newest {
                self.told = newest;
                routes.iter_mut().flat_map(|route| &mut route.lanes).for_each(Lane::announce);
            }
        }
        self.is_awaited = has_more || newest > self.told;
    }

    /// How long the thread may sleep.
    pub(super) fn longest_sleep(&self) -> Option<Duration> {
        self.is_awaited.then_some(self.soon)
    }
}
