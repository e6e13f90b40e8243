//! Selects the TX queue of a frame, if there are several, each with a discipline.
//!
//! ```text
//!             ┌─ flow hash, CPU or the caller ─┐
//!   producer ─┤                                ├─▶ Egress of TX queue 0
//!             └────────────────────────────────┴─▶ Egress of TX queue 1
//! ```
//!
//! Every choice keeps the order within a flow: by flow hash, a flow has a fixed queue
//! (`skb_tx_hash` in Linux); by CPU, a *producer* has a fixed queue, even if it moves to another
//! CPU. Linux moves a flow to another queue only once it is idle (`ooo_okay`).

use std::sync::Arc;

use wirelane_wire::FlowKey;
use wirelane_wire::rss::{HashInput, IndirectionTable, ToeplitzKey, ToeplitzTable};

use super::egress::{Egress, EgressHandle};
use super::stats::Sent;
use crate::error::Result;
use crate::frame::Batch;

/// How to select the TX queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSelection {
    /// By the receive-side-scaling hash of addresses and ports. Frames other than IP use the first
    /// queue. Only whole packets have ports: if fragments and whole packets of a flow are mixed,
    /// they may use different queues and lose their order (as with any network card).
    #[default]
    FlowHash,
    /// By the CPU on which the producer was created, modulo the number of queues.
    Cpu,
    /// By the index of the RX queue, as without disciplines.
    Explicit,
}

/// The TX queues of a port, each with its discipline. Clones are the same queues.
#[derive(Clone)]
pub(crate) struct Egresses {
    queues: Arc<[Egress]>,
    selection: QueueSelection,
    hash: Arc<FlowHash>,
}

/// The precomputed hash.
struct FlowHash {
    toeplitz: ToeplitzTable,
    table: IndirectionTable<128>,
}

impl FlowHash {
    #[inline]
    fn queue(&self, frame: &[u8]) -> usize {
        let hash = match FlowKey::parse(frame) {
            Ok(Some(key)) => self.toeplitz.hash(HashInput::with_ports(&key).bytes()),
            _ => 0,
        };
        usize::from(self.table.queue(hash))
    }
}

impl Egresses {
    /// Selects one of `queues` for each frame.
    pub(crate) fn new(queues: impl IntoIterator<Item = Egress>, selection: QueueSelection) -> Self {
        let queues: Arc<[Egress]> = queues.into_iter().collect();
        let hash = FlowHash {
            toeplitz: ToeplitzTable::new(&ToeplitzKey::MICROSOFT),
            table: IndirectionTable::spread(u16::try_from(queues.len()).unwrap_or(u16::MAX)),
        };
        Self { queues, selection, hash: Arc::new(hash) }
    }

    /// The queues.
    pub(crate) fn queues(&self) -> &[Egress] {
        &self.queues
    }

    /// The ends of one more producer. With [`QueueSelection::Cpu`], call it on the producer's
    /// thread.
    pub(crate) fn producer(&self) -> Producer {
        let own = match self.selection {
            QueueSelection::Cpu => rustix::thread::sched_getcpu() % self.queues.len().max(1),
            QueueSelection::FlowHash | QueueSelection::Explicit => 0,
        };
        let lanes = self.queues.iter().map(|queue| (queue.handle(), Batch::default())).collect();
        let by_hash = self.selection == QueueSelection::FlowHash && self.queues.len() > 1;
        Producer { lanes, own, hash: by_hash.then(|| Arc::clone(&self.hash)) }
    }

    /// Closes the queues: sends the frames of the TX rings, or counts them as errors. No producer
    /// may send after this.
    pub(crate) fn close(&self) {
        self.queues.iter().for_each(Egress::close);
    }
}

/// One producer's ends of all queues.
pub(crate) struct Producer {
    /// The end of each queue, and a batch's frames for it; empty between calls.
    lanes: Vec<(EgressHandle, Batch)>,
    /// The queue of all frames, if frames are not hashed.
    own: usize,
    hash: Option<Arc<FlowHash>>,
}

impl Producer {
    /// Sends the frames of `batch` through their queues; see [`EgressHandle::send`]. Refused frames
    /// stay in `batch`, in order within each queue.
    pub(crate) fn send(&mut self, batch: &mut Batch, now: u64) -> Sent {
        let Some(hash) = &self.hash else { return self.send_to(self.own, batch, now) };
        let mut total = Sent::default();
        while !batch.is_empty() {
            for frame in batch.drain(Batch::DEFAULT) {
                let queue = hash.queue(frame.data());
                if let Some((_, staged)) = self.lanes.get_mut(queue) {
                    staged.as_vec().push(frame);
                }
            }
            let mut kept = 0;
            for (handle, staged) in self.lanes.iter_mut().filter(|(_, staged)| !staged.is_empty()) {
                let sent = handle.send(staged, now);
                total += sent;
                batch.put_back(kept, staged);
                kept += sent.refused;
            }
            if kept > 0 {
                break;
            }
        }
        Sent { refused: batch.len(), ..total }
    }

    /// Sends all of `batch` through the queue at position `queue`; refuses it if there is none.
    pub(crate) fn send_to(&mut self, queue: usize, batch: &mut Batch, now: u64) -> Sent {
        match self.lanes.get_mut(queue) {
            Some((handle, _)) => handle.send(batch, now),
            None => Sent { refused: batch.len(), ..Sent::default() },
        }
    }

    /// [`EgressHandle::flush`] of every queue; returns the number of frames in all of them.
    ///
    /// # Errors
    /// The first error of a queue. All queues are flushed.
    pub(crate) fn flush(&mut self, now: u64) -> Result<usize> {
        let (mut waiting, mut failure) = (0, None);
        for (handle, _) in &mut self.lanes {
            match handle.flush(now) {
                Ok(frames) => waiting += frames,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(waiting), Err)
    }

    /// [`EgressHandle::pending`] of all queues.
    pub(crate) fn pending(&self) -> usize {
        self.lanes.iter().map(|(handle, _)| handle.pending()).sum()
    }

    /// Whether the interface of a queue is known to be down or removed.
    pub(crate) fn is_held(&self) -> bool {
        let held = |handle: &EgressHandle| handle.egress().tx_counters().held_errno.value() != 0;
        self.lanes.iter().any(|(handle, _)| held(handle))
    }

    /// The hash, for comparison.
    #[cfg(test)]
    pub(super) fn hash_for_tests(&self) -> impl Fn(&[u8]) -> usize + 'static {
        let hash = self.hash.clone();
        move |frame| hash.as_ref().map_or(0, |hash| hash.queue(frame))
    }

    /// The end of the queue at position `queue`.
    pub(crate) fn handle(&mut self, queue: usize) -> Option<&mut EgressHandle> {
        self.lanes.get_mut(queue).map(|(handle, _)| handle)
    }
}
