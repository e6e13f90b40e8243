//! The transmitting ends of a port, on whichever thread sends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use wirelane::port::{PortInfo, Tx};
use wirelane::stats::{TxCounters, TxStats};
use wirelane::{Batch, Error, Result};

use crate::error::{OrRaise as _, exception};
use crate::frame::Frame;
use crate::pace::Pace;
use crate::pause;

/// The transmitting ends of an open port.
pub(crate) struct Sender {
    tx: Mutex<Vec<Tx>>,
    counters: Vec<Arc<TxCounters>>,
    /// The spec of the port.
    spec: String,
}

impl Sender {
    pub(crate) fn new(tx: Vec<Tx>, info: &PortInfo) -> Self {
        let counters = tx.iter().map(|tx| Arc::clone(tx.counters())).collect();
        Self { tx: Mutex::new(tx), counters, spec: info.spec.clone() }
    }

    /// Sends packets by the TX queue of this number, or by the first one. Returns how many were
    /// sent.
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        frames: &Bound<'_, PyAny>,
        queue: Option<u16>,
        mut pace: Pace,
    ) -> PyResult<u64> {
        let counters =
            py.detach(|| self.with(queue, |tx| Ok(Arc::clone(tx.counters())))).or_raise()?;
        let before = counters.snapshot(0);
        let mut frames = frames.try_iter()?;
        loop {
            let packets = frames.by_ref().take(Batch::DEFAULT).map(|frame| packet(&frame?));
            let packets = packets.collect::<PyResult<Vec<_>>>()?;
            let is_last = packets.len() < Batch::DEFAULT;
            let times = packets.iter().map(|it| pace.due(it.data.len(), it.time));
            let times = times.collect::<Result<Vec<_>>>().or_raise()?;
            let batch = Batch::default();
            let mut sending = Sending { packets: &packets, admitted: 0, taken: 0, batch, is_last };
            // Others may use the port while a packet waits for its time.
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
            pause::until(py, None, step)?.transpose().or_raise()?;
            if is_last {
                break;
            }
        }
        let after = counters.snapshot(0);
        match self.failure(&before, &after) {
            None => Ok(after.packets.saturating_sub(before.packets)),
            Some(error) => Err(exception(&error)),
        }
    }

    /// A reading of each end.
    pub(crate) fn stats(&self) -> Vec<TxStats> {
        self.counters.iter().map(|counters| counters.snapshot(0)).collect()
    }

    /// Sends what was taken, as far as a fifth of a second is enough, and gives the ends back.
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

    /// What became of packets that were not sent, if there are any.
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

/// A packet to be sent.
struct Packet {
    data: Vec<u8>,
    time: Option<u64>,
}

fn packet(frame: &Bound<'_, PyAny>) -> PyResult<Packet> {
    let time = frame.cast::<Frame>().ok().map(|frame| frame.get().time());
    let data = PyBuffer::<u8>::get(frame)?.to_vec(frame.py())?;
    Ok(Packet { data, time })
}

/// Packets on their way into a transmitting end.
struct Sending<'a> {
    packets: &'a [Packet],
    /// Those that may leave by now.
    admitted: usize,
    /// Those that are in frames.
    taken: usize,
    batch: Batch,
    is_last: bool,
}

impl Sending<'_> {
    /// Whether all that may leave were taken by the end.
    fn is_idle(&self) -> bool {
        self.taken == self.admitted && self.batch.is_empty()
    }

    /// True once all that may leave were taken by the end, and have left if they are the last ones.
    fn step(&mut self, tx: &mut Tx, until: Instant) -> Result<bool> {
        loop {
            self.fill(tx)?;
            tx.transmit(&mut self.batch);
            tx.flush()?;
            let is_last = self.is_last && self.admitted == self.packets.len();
            if self.is_idle() && (!is_last || tx.pending() == 0) {
                return Ok(true);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(false);
            }
            tx.wait(until - now)?;
        }
    }

    /// Copies packets into frames of the port.
    fn fill(&mut self, tx: &mut Tx) -> Result<()> {
        let first = self.batch.len();
        tx.allocate(&mut self.batch, self.admitted - self.taken);
        let frames = self.batch.get_mut(first..).unwrap_or_default();
        for (frame, packet) in frames.iter_mut().zip(self.packets.iter().skip(self.taken)) {
            if !frame.fill(&packet.data) {
                let (len, most) = (packet.data.len(), frame.capacity());
                let cause = format!("it has {len} bytes, and a frame of the port {most}");
                self.batch.truncate(first);
                return Err(Error::usage("packet", cause));
            }
            if let Some(time) = packet.time {
                frame.set_timestamp(time);
            }
            self.taken += 1;
        }
        Ok(())
    }
}
