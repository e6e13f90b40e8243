//! Where a forwarding thread sends: its own transmitting end, or shared disciplines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wirelane_os::clock;

use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::port::{Port, Tx, XpsBinding, XpsBindings, drain};
use crate::qdisc::{Egresses, Producer, QueueSelection};
use crate::stats::TxCounters;

/// How long to wait for a transmitting end that makes no progress, once everything is to end.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long to sleep while the transmitting end still has frames: it may need another flush.
pub(super) const RETRY: Duration = Duration::from_millis(1);

/// The thread's target.
pub(super) enum TxPath {
    /// Straight to the TX ring, which is this thread's alone.
    Direct(Tx),
    /// Through the discipline of the TX queue that is chosen.
    Queued(QueuedPath),
}

/// One thread's path through disciplines.
pub(super) struct QueuedPath {
    producer: Producer,
    /// The queue to use, unless something else selects it.
    queue: Option<usize>,
    /// Frames in the queues when they were last looked at.
    waiting: usize,
    /// The same, plus unsent frames in the TX rings.
    pending: usize,
    /// Something was sent since.
    unsettled: bool,
}

impl QueuedPath {
    /// The path of the calling thread, to the queue at position `queue` unless queue selection
    /// decides.
    pub(super) fn new(egresses: &Egresses, choice: QueueSelection, queue: usize) -> Self {
        let queue = (choice == QueueSelection::Explicit).then_some(queue);
        Self { producer: egresses.producer(), queue, waiting: 0, pending: 0, unsettled: false }
    }

    fn flush(&mut self) -> Result<()> {
        let now = clock::monotonic_ns();
        let own = self.queue.and_then(|queue| self.producer.handle(queue));
        // Who has a queue of its own leaves the others alone: their frames leave from other CPUs.
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
    /// Sends frames from the front of `batch`; frames without room stay. Returns how many packets a
    /// limit of the discipline has dropped (and counted).
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

    /// Makes sure that what was taken is on its path.
    ///
    /// # Errors
    /// The interface went away or the system refuses.
    pub(super) fn flush(&mut self) -> Result<()> {
        match self {
            Self::Direct(tx) => tx.flush(),
            Self::Queued(path) => path.flush(),
        }
    }

    /// Frames that may need another [`TxPath::flush`], at least.
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
    /// As [`TxPath::flush`].
    #[inline]
    pub(super) fn is_crowded(&mut self) -> Result<bool> {
        let Self::Queued(path) = self else { return Ok(false) };
        path.flush()?;
        Ok(path.waiting > Batch::DEFAULT)
    }

    /// Waits until there may be room again, about as long as [`RETRY`].
    ///
    /// # Errors
    /// As [`TxPath::flush`].
    pub(super) fn wait(&mut self) -> Result<()> {
        match self {
            Self::Direct(tx) => tx.wait(RETRY),
            Self::Queued(_) => {
                // Others send through the same queues: waiting inside would keep them out.
                std::thread::sleep(RETRY / 4);
                self.flush()
            }
        }
    }

    /// Whether the interface is down or gone, as far as is known.
    fn is_held(&self) -> bool {
        match self {
            Self::Direct(tx) => tx.counters().held_errno.value() != 0,
            Self::Queued(path) => path.producer.is_held(),
        }
    }

    /// Waits until everything taken is sent, while there is progress and it is not `late`; counts
    /// the rest as lost.
    ///
    /// # Errors
    /// As [`TxPath::flush`], or there was a rest.
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

    /// Counts as lost what was taken and not sent: nobody will know what becomes of it. What the TX
    /// rings behind disciplines have taken is everybody's, and counted when the last one has gone
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
    /// With the CPUs from which it has to send.
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
    /// The end at `position` for the next thread, which gets its CPU; `None` if another one has it
    /// alone.
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

/// The end, which several threads may use, all of them of its queue if that is chosen explicitly:
/// then what leaves by another one is counted.
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

/// Tells whether a number that should become smaller does.
pub(super) struct Progress {
    left: usize,
    since: Instant,
}

impl Progress {
    pub(super) fn new(left: usize) -> Self {
        Self { left, since: Instant::now() }
    }

    /// Whether it has not for [`GRACE`].
    pub(super) fn is_stuck(&mut self, left: usize) -> bool {
        if left != self.left {
            *self = Self::new(left);
        }
        self.since.elapsed() >= GRACE
    }
}
