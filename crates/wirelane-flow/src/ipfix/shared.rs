//! State shared by the threads of an exporter: pending flows and counts.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::encoder::{Encoder, Message};
use super::spool::Spool;
use crate::flow::Flow;

/// The longest wait.
const LONG: Duration = Duration::from_secs(3600);

/// Counts of an exporter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Records sent; with `oneway`, a two-way flow has two records.
    pub flows: u64,
    /// Messages with these records.
    pub messages: u64,
    /// Bytes of all messages, including templates and statistics.
    pub octets: u64,
    /// Records that did not fit into the spool, or remained in it at the end.
    pub lost: u64,
    /// The number of refusals by the collector and broken connections.
    pub failures: u64,
    /// The error text of the last failure.
    pub last_failure: Option<String>,
}

#[derive(Debug)]
pub(super) struct ExportQueue {
    state: Mutex<QueueContents>,
    changed: Condvar,
    /// Signals that a message was sent or failed.
    room: Condvar,
    waits: bool,
}

#[derive(Debug)]
struct QueueContents {
    encoder: Encoder,
    /// The time of the first flow in the incomplete message.
    since: Option<Instant>,
    spool: Spool,
    sent: Sent,
    /// Whether the last attempt to send failed.
    is_away: bool,
    /// The time limit for the remaining flows, set when the last flows arrive.
    deadline: Option<Instant>,
    /// Whether the last flow was added.
    is_closed: bool,
}

impl QueueContents {
    /// Whether the deadline has passed.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    fn give_up(&mut self) {
        if let Some(message) = self.encoder.flush() {
            self.spool.push(message);
        }
        self.spool.give_up();
    }
}

/// The next step of the sending thread.
pub(super) enum SendStep {
    Send(Message),
    /// No message until the wake-up time.
    Idle,
    /// All flows are sent or given up.
    End,
}

impl ExportQueue {
    /// State with a spool of `limit` bytes. With `waits`, [`ExportQueue::add`] waits for room in
    /// it.
    pub(super) fn new(encoder: Encoder, limit: usize, waits: bool) -> Self {
        let state = QueueContents {
            encoder,
            since: None,
            spool: Spool::new(limit),
            sent: Sent::default(),
            is_away: false,
            deadline: None,
            is_closed: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), room: Condvar::new(), waits }
    }

    pub(super) fn add(&self, flow: &Flow) {
        let mut guard = self.lock();
        while self.waits && !guard.is_away && guard.spool.is_full() && !guard.is_over() {
            let left = guard
                .deadline
                .map_or(LONG, |deadline| deadline.saturating_duration_since(Instant::now()));
            let waited = self.room.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let state = &mut *guard;
        let mut is_full = false;
        for message in state.encoder.add(flow).into_iter().flatten() {
            state.spool.push(message);
            is_full = true;
        }
        if is_full || (state.since.is_none() && !state.encoder.is_empty()) {
            state.since = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    /// Sets the deadline to `patience` from now, as the last flows arrive.
    pub(super) fn hurry(&self, patience: Duration) {
        self.lock().deadline.get_or_insert(Instant::now() + patience);
        self.changed.notify_one();
        self.room.notify_one();
    }

    /// Ends the input, and sets the deadline as [`ExportQueue::hurry`].
    pub(super) fn close(&self, patience: Duration) {
        self.lock().is_closed = true;
        self.hurry(patience);
    }

    /// The deadline, if the last flows arrive.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.lock().deadline
    }

    /// Counts the remaining flows as lost.
    pub(super) fn give_up(&self) {
        self.lock().give_up();
    }

    pub(super) fn sent(&self) -> Sent {
        let state = self.lock();
        Sent { lost: state.spool.lost.flows, ..state.sent.clone() }
    }

    /// Packets and bytes of the lost flows.
    pub(super) fn lost(&self) -> (u64, u64) {
        let lost = self.lock().spool.lost;
        (lost.packets, lost.octets)
    }

    /// Waits for a message until `wake`. Sends an incomplete message `linger` after its first flow.
    pub(super) fn next(&self, linger: Duration, wake: Instant) -> SendStep {
        let mut guard = self.lock();
        loop {
            let state = &mut *guard;
            if state.is_over() {
                state.give_up();
                return SendStep::End;
            }
            if let Some(message) = state.spool.pop() {
                return SendStep::Send(message);
            }
            let now = Instant::now();
            let due = state.since.map(|since| since + linger);
            if state.is_closed || due.is_some_and(|due| due <= now) {
                state.since = None;
                match state.encoder.flush() {
                    Some(message) => return SendStep::Send(message),
                    None if state.is_closed => return SendStep::End,
                    None => {}
                }
            }
            if wake <= now {
                return SendStep::Idle;
            }
            let until = state.since.map_or(wake, |since| wake.min(since + linger));
            let until = state.deadline.map_or(until, |deadline| until.min(deadline));
            let waited = self.changed.wait_timeout(guard, until.saturating_duration_since(now));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a sent message, and `octets` bytes including other messages.
    pub(super) fn count(&self, message: &Message, octets: usize) {
        let mut state = self.lock();
        state.is_away = false;
        let sent = &mut state.sent;
        sent.flows += u64::from(message.records);
        sent.messages += 1;
        sent.octets += octets as u64;
        self.room.notify_one();
    }

    /// Returns unsent messages to the spool; the last of `messages` is sent first. Then waits for
    /// `pause`. Returns false if the deadline has passed.
    pub(super) fn put_back(
        &self,
        messages: [Option<Message>; 2],
        cause: String,
        pause: Duration,
    ) -> bool {
        let mut state = self.lock();
        state.is_away = true;
        self.room.notify_one();
        state.sent.failures += 1;
        state.sent.last_failure = Some(cause);
        for message in messages.into_iter().flatten() {
            state.spool.put_back(message);
        }
        let end = Instant::now() + pause;
        loop {
            let now = Instant::now();
            if state.is_over() {
                state.give_up();
                return false;
            }
            if end <= now {
                return true;
            }
            let until = state.deadline.map_or(end, |deadline| end.min(deadline));
            let waited = self.changed.wait_timeout(state, until.saturating_duration_since(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes back the count of a sent message that was refused.
    pub(super) fn uncount(&self, message: &Message) {
        let sent = &mut self.lock().sent;
        sent.flows -= u64::from(message.records);
        sent.messages -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, QueueContents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
