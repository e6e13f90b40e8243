//! The target of a forwarding thread: a private transmitting end, or shared disciplines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wirelane_os::clock;

use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::port::{Port, Tx, XpsBinding, XpsBindings, drain};
use crate::qdisc::{Egresses, Producer, QueueSelection};
use crate::stats::TxCounters;

/// At the end, how long to wait for a transmitting end that makes no progress.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long to sleep while the transmitting end has frames: it may need another flush.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// The thread's target.
pub(super) enum TxPath {
    /// Directly to the TX ring, which only this thread uses.
    Direct(Tx),
    /// Through the discipline of the selected TX queue.
    Queued(QueuedPath),
}

/// One thread's path through disciplines.
pub(super) struct QueuedPath {
    producer: Producer,
    /// The queue to use; `None` if queue selection decides.
    queue: Option<usize>,
    /// Frames in the queues at the last flush.
    waiting: usize,
    /// The same, plus unsent frames in the TX rings.
    pending: usize,
    /// Frames were sent since.
    unsettled: bool,
}

impl QueuedPath {
    /// The path of the calling thread, to the queue at index `queue` unless queue selection
    /// decides.
    pub(super) fn new(egresses: &Egresses, choice: QueueSelection, queue: usize) -> Self {
        let queue = (choice == QueueSelection::Explicit).then_some(queue);
        Self { producer: egresses.producer(), queue, waiting: 0, pending: 0, unsettled: false }
    }

    fn flush(&mut self) -> Result<()> {
        let now = clock::monotonic_ns();
        let own = self.queue.and_then(|queue| self.producer.handle(queue));
        // A thread with a fixed queue does not flush the others: their frames leave from other
        // CPUs.
        (self.waiting, self.pending) = match own {
            Some(own) => {
                let waiting = own.flush(now)?;
                (waiting, waiting + own.pending())
            }
            None => {
                let waiting = self.producer.flush(now)?;
                (waiting, waiting + self.producer.pending())
            }
        };
        self.unsettled = false;
        Ok(())
    }

    /// As [`Tx::drain`], through the queues.
    fn drain(&mut self, timeout: Duration) -> Result<usize> {
        drain::until_none(timeout, || self.flush().map(|()| self.pending))
    }
}

impl TxPath {
    /// Sends frames from the front of `batch`; frames without room remain. Returns how many packets
    /// a limit of the discipline has dropped (and counted).
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch) -> u64 {
        match self {
            Self::Direct(tx) => {
                tx.transmit(batch);
                0
            }
            Self::Queued(path) => {
                let now = clock::monotonic_ns();
                path.unsettled = true;
                let sent = match path.queue {
                    Some(queue) => path.producer.send_to(queue, batch, now),
                    None => path.producer.send(batch, now),
                };
                sent.dropped_packets
            }
        }
    }

    /// Starts transmission of all frames taken.
    ///
    /// # Errors
    /// The interface was removed or the system refuses.
    pub(super) fn flush(&mut self) -> Result<()> {
        match self {
            Self::Direct(tx) => tx.flush(),
            Self::Queued(path) => path.flush(),
        }
    }

    /// The least number of frames that may need another [`TxPath::flush`].
    #[inline]
    pub(super) fn pending(&self) -> usize {
        match self {
            Self::Direct(tx) => tx.pending(),
            Self::Queued(path) => path.pending + usize::from(path.unsettled),
        }
    }

    /// Whether the queues are so full that a lossless source should wait: a limit drops packets of
    /// any source.
    ///
    /// # Errors
    /// The errors of [`TxPath::flush`].
    #[inline]
    pub(super) fn is_crowded(&mut self) -> Result<bool> {
        let Self::Queued(path) = self else { return Ok(false) };
        path.flush()?;
        Ok(path.waiting > Batch::DEFAULT)
    }

    /// Waits until there may be room again, about as long as [`RETRY`].
    ///
    /// # Errors
    /// The errors of [`TxPath::flush`].
    pub(super) fn wait(&mut self) -> Result<()> {
        match self {
            Self::Direct(tx) => tx.wait(RETRY),
            Self::Queued(_) => {
                // Other threads send through the same queues: waiting inside would keep them out.
                std::thread::sleep(RETRY / 4);
                self.flush()
            }
        }
    }

    /// Whether the interface is known to be down or removed.
    fn is_held(&self) -> bool {
        match self {
            Self::Direct(tx) => tx.counters().held_errno.value() != 0,
            Self::Queued(path) => path.producer.is_held(),
        }
    }

    /// Waits until all frames taken are sent, while there is progress and it is not `late`; counts
    /// the rest as lost.
    ///
    /// # Errors
    /// The errors of [`TxPath::flush`], or an error if frames are left.
    pub(super) fn drain(&mut self, sink: &str, is_late: impl Fn() -> bool) -> Result<()> {
        let mut before = usize::MAX;
        let mut left = self.flush().map(|()| self.pending());
        let failure = loop {
            match left {
                Ok(0) => return Ok(()),
                Ok(left) if left < before && !is_late() => before = left,
                Ok(left) => {
                    let cause = match self.is_held() {
                        true => "the last packets could not be sent: the interface is down".into(),
                        false => format!("the last {left} packets were not sent"),
                    };
                    break Error::failed(format!("port '{sink}'"), cause);
                }
                Err(error) => break error,
            }
            left = match self {
                Self::Direct(tx) => tx.drain(GRACE),
                Self::Queued(path) => path.drain(GRACE),
            };
        };
        self.abandon();
        Err(failure)
    }

    /// Counts frames that were taken and not sent as lost. Frames in TX rings behind disciplines
    /// are shared by all threads, and are counted after the last thread has ended
    /// ([`Egresses::close`]).
    pub(super) fn abandon(&mut self) {
        match self {
            Self::Direct(tx) => tx.give_up(),
            Self::Queued(path) => {
                let now = clock::monotonic_ns();
                let queues = 0..;
                for queue in queues {
                    let Some(handle) = path.producer.handle(queue) else { break };
                    handle.purge(now);
                }
            }
        }
    }
}

/// The transmitting ends of one direction, before they are given to threads.
pub(super) enum TxPaths {
    Direct(Vec<Option<Tx>>),
    Queued(Egresses, QueueSelection),
}

/// Builds the [`TxPath`] of one thread, on that thread.
pub(super) enum TxPathBuilder {
    /// With the CPUs from which it must send.
    Direct(Tx, Option<XpsBinding>),
    Queued(Egresses, QueueSelection, usize),
}

impl TxPathBuilder {
    /// The TX path of the calling thread.
    pub(super) fn build(self) -> TxPath {
        match self {
            Self::Direct(mut tx, place) => {
                if let Some(place) = place {
                    tx.bind(place);
                }
                TxPath::Direct(tx)
            }
            Self::Queued(egresses, choice, queue) => {
                TxPath::Queued(QueuedPath::new(&egresses, choice, queue))
            }
        }
    }
}

impl TxPaths {
    /// The end at index `position` for the next thread, which gets its CPU; `None` if another
    /// thread uses the end exclusively.
    pub(super) fn builder(
        &mut self,
        position: usize,
        places: &mut XpsBindings,
        port: &mut Port,
    ) -> Option<TxPathBuilder> {
        match self {
            Self::Direct(ends) => {
                let tx = ends.get_mut(position)?.take()?;
                let place = places.next(port, tx.queue());
                Some(TxPathBuilder::Direct(tx, place))
            }
            Self::Queued(egresses, choice) => {
                match egresses.queues().get(position) {
                    Some(queue) if *choice == QueueSelection::Explicit => {
                        places.next_of_several(port, queue.queue());
                    }
                    _ => places.next_of_all(port),
                }
                Some(TxPathBuilder::Queued(egresses.clone(), *choice, position))
            }
        }
    }
}

/// Prepares an end that several threads may use. If queues are selected explicitly, all of them
/// belong to its queue, and frames that leave by another queue are counted.
pub(super) fn watched(
    mut tx: Tx,
    port: &Port,
    choice: QueueSelection,
    places: &mut XpsBindings,
) -> Tx {
    if choice == QueueSelection::Explicit
        && let Some(place) = places.shared_end(port, tx.queue())
    {
        tx.bind(place);
    }
    tx
}

/// The counters of all ends, in order.
pub(super) fn counters(outputs: &[Tx]) -> impl Iterator<Item = Arc<TxCounters>> {
    outputs.iter().map(|tx| Arc::clone(tx.counters()))
}

/// Checks whether a number decreases over time.
pub(super) struct DrainProgress {
    left: usize,
    since: Instant,
}

impl DrainProgress {
    pub(super) fn new(left: usize) -> Self {
        Self { left, since: Instant::now() }
    }

    /// Whether the number has not changed for [`GRACE`].
    pub(super) fn is_stuck(&mut self, left: usize) -> bool {
        if left != self.left {
            *self = Self::new(left);
        }
        self.since.elapsed() >= GRACE
    }
}
