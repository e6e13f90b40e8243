//! The transmitting ends of a port, for any thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use wirelane::internal::stats::TxCounters;
use wirelane::port::{PortInfo, Tx};
use wirelane::stats::TxStats;
use wirelane::{Batch, Error, Result};

use crate::error::{OrRaise as _, exception};
use crate::frame::Frame;
use crate::pace::SendPace;
use crate::pause;

/// The transmitting ends of an open port.
pub(crate) struct PortSender {
    tx: Mutex<Vec<Tx>>,
    counters: Vec<Arc<TxCounters>>,
    spec: String,
}

impl PortSender {
    pub(crate) fn new(tx: Vec<Tx>, info: &PortInfo) -> Self {
        let counters = tx.iter().map(|tx| Arc::clone(tx.counters())).collect();
        Self { tx: Mutex::new(tx), counters, spec: info.spec.clone() }
    }

    /// Sends packets through this TX queue, or the first one. Returns the number of packets sent.
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        frames: &Bound<'_, PyAny>,
        queue: Option<u16>,
        mut pace: SendPace,
    ) -> PyResult<u64> {
        let counters =
            py.detach(|| self.with(queue, |tx| Ok(Arc::clone(tx.counters())))).or_raise()?;
        let before = counters.snapshot(0);
        let mut frames = frames.try_iter()?;
        let (mut first, mut wrong) = (0, None);
        let told = |failure: PyErr, index: Option<usize>| {
            let sent = counters.snapshot(0).packets.saturating_sub(before.packets);
            let value = failure.value(py);
            // Exceptions of other modules may not accept attributes.
            let _ = value.setattr("index", index).and_then(|()| value.setattr("sent", sent));
            failure
        };
        loop {
            let mut packets = Vec::with_capacity(Batch::DEFAULT);
            for frame in frames.by_ref().take(Batch::DEFAULT) {
                let index = first + packets.len();
                let taken = frame.and_then(|frame| packet(&frame));
                packets.push(taken.map_err(|failure| told(failure, Some(index)))?);
            }
            let is_last = packets.len() < Batch::DEFAULT;
            let times = packets.iter().map(|it| pace.due(it.data.len(), it.time));
            let times = times.collect::<Result<Vec<_>>>().or_raise()?;
            let batch = Batch::default();
            let mut sending = PendingPackets {
                packets: &packets,
                admitted: 0,
                taken: 0,
                batch,
                is_last,
                fault: None,
                wrong: None,
            };
            // Other threads may use the port while a packet waits for its time.
            let step = |until| {
                loop {
                    if sending.is_idle() && sending.admitted < packets.len() {
                        let waiting = times.get(sending.admitted..)?;
                        sending.admitted += pace.admit(waiting, until)?;
                    }
                    match self.with(queue, |tx| sending.step(tx, until)) {
                        Ok(true) if sending.admitted == packets.len() => return Some(Ok(())),
                        Ok(true) => {}
                        Ok(false) => return None,
                        Err(error) => return Some(Err(error)),
                    }
                }
            };
            let stepped = pause::until(py, None, step)?.transpose().or_raise();
            stepped.map_err(|failure| told(failure, Some(first + sending.taken)))?;
            wrong = wrong.or(sending.wrong.map(|place| first + place));
            if is_last {
                break;
            }
            first += packets.len();
        }
        let after = counters.snapshot(0);
        match self.failure(&before, &after) {
            None => Ok(after.packets.saturating_sub(before.packets)),
            Some(error) => Err(told(exception(&error), wrong)),
        }
    }

    /// A snapshot of each end's counters.
    pub(crate) fn stats(&self) -> Vec<TxStats> {
        self.counters.iter().map(|counters| counters.snapshot(0)).collect()
    }

    /// Drops the ends. They send pending packets for up to a fifth of a second.
    pub(crate) fn close(&self) {
        self.ends().clear();
    }

    fn ends(&self) -> MutexGuard<'_, Vec<Tx>> {
        self.tx.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` with a transmitting end.
    fn with<T>(&self, queue: Option<u16>, act: impl FnOnce(&mut Tx) -> Result<T>) -> Result<T> {
        let mut all = self.ends();
        let known: Vec<_> = all.iter().map(Tx::queue).collect();
        let found = all.iter_mut().find(|tx| queue.is_none_or(|queue| tx.queue() == queue));
        if let Some(tx) = found {
            return act(tx);
        }
        let object = format!("port '{}'", self.spec);
        Err(match known.as_slice() {
            [] => Error::usage(object, "it is not open to send").help("open it with transmit=True"),
            known => Error::usage(object, format!("it has no such TX queue, but {known:?}")),
        })
    }

    /// The error for packets that were not sent, if any.
    fn failure(&self, before: &TxStats, after: &TxStats) -> Option<Error> {
        let errors = after.errors.saturating_sub(before.errors);
        if errors == 0 {
            return None;
        }
        let wrong = after.wrong_length.saturating_sub(before.wrong_length);
        let cause = match (after.refused_errno, wrong) {
            (Some(errno), _) => format!("{errors} packets were not sent ({errno})"),
            (None, 1..) => format!("{errors} packets were not sent: {wrong} have a wrong length"),
            (None, 0) => format!("{errors} packets were not sent"),
        };
        Some(Error::failed(format!("port '{}'", self.spec), cause))
    }
}

struct OutgoingPacket {
    data: Vec<u8>,
    time: Option<u64>,
}

fn packet(frame: &Bound<'_, PyAny>) -> PyResult<OutgoingPacket> {
    let time = frame.cast::<Frame>().ok().map(|frame| frame.get().time());
    let data = PyBuffer::<u8>::get(frame)?.to_vec(frame.py())?;
    Ok(OutgoingPacket { data, time })
}

/// Packets on their way into a transmitting end.
struct PendingPackets<'a> {
    packets: &'a [OutgoingPacket],
    /// Number of packets that may leave now.
    admitted: usize,
    /// Number of packets copied into frames.
    taken: usize,
    batch: Batch,
    is_last: bool,
    /// Why the next packet does not fit a frame.
    fault: Option<Error>,
    /// The first packet of a wrong length.
    wrong: Option<usize>,
}

/// The shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

impl PendingPackets<'_> {
    /// Whether the end has accepted every packet that may leave.
    fn is_idle(&self) -> bool {
        (self.taken == self.admitted || self.fault.is_some()) && self.batch.is_empty()
    }

    /// True once the end has accepted every packet that may leave and, for the last packets, has
    /// sent them.
    fn step(&mut self, tx: &mut Tx, until: Instant) -> Result<bool> {
        loop {
            if self.fault.is_none() {
                self.fill(tx);
            }
            self.transmit(tx);
            tx.flush()?;
            let is_last = self.is_last && self.admitted == self.packets.len();
            let is_last = is_last || self.fault.is_some();
            if self.is_idle() && (!is_last || tx.pending() == 0) {
                return self.fault.take().map_or(Ok(true), Err);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(false);
            }
            tx.wait(until - now)?;
        }
    }

    /// Copies packets into frames of the port.
    fn fill(&mut self, tx: &mut Tx) {
        let first = self.batch.len();
        tx.allocate(&mut self.batch, self.admitted - self.taken);
        let frames = self.batch.get_mut(first..).unwrap_or_default();
        let mut filled = 0;
        for (frame, packet) in frames.iter_mut().zip(self.packets.iter().skip(self.taken)) {
            if !frame.fill(&packet.data) {
                let (len, most) = (packet.data.len(), frame.capacity());
                let cause = format!("it has {len} bytes, a frame of the port at most {most}");
                self.fault = Some(Error::usage("packet", cause));
                break;
            }
            if let Some(time) = packet.time {
                frame.set_timestamp(time);
            }
            filled += 1;
        }
        self.batch.truncate(first + filled);
        self.taken += filled;
    }

    /// Passes frames to the end, and notes the first packet that is too long or too short.
    fn transmit(&mut self, tx: &mut Tx) {
        let wrong = |tx: &Tx| tx.counters().snapshot(0).wrong_length;
        let (before, first) = (wrong(tx), self.taken - self.batch.len());
        let len = self.batch.len();
        tx.transmit(&mut self.batch);
        let count = wrong(tx).saturating_sub(before) as usize;
        if count == 0 || self.wrong.is_some() {
            return;
        }
        let offered = self.packets.get(first..first + len - self.batch.len()).unwrap_or_default();
        let mut lengths: Vec<_> = offered.iter().map(|packet| packet.data.len()).collect();
        // The others of a wrong length are the longest ones.
        let short = lengths.iter().filter(|len| **len < SHORTEST).count();
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        let long = count.checked_sub(short + 1).and_then(|place| lengths.get(place).copied());
        let is_wrong = |packet: &OutgoingPacket| {
            packet.data.len() < SHORTEST || long.is_some_and(|least| packet.data.len() >= least)
        };
        self.wrong = offered.iter().position(is_wrong).map(|place| first + place);
    }
}
