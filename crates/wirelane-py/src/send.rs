//! Sending packets that Python has made or received.

use std::sync::PoisonError;
use std::time::Instant;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyString;
use wirelane::port::{Spec, Tx};
use wirelane::stats::TxStats;
use wirelane::{Batch, Error, Result};

use crate::error::{OrRaise as _, exception};
use crate::frame::Frame;
use crate::options::Arguments;
use crate::pause;
use crate::port::Port;

/// Sends packets by a port, or by one of this spec that is opened for it. Returns how many were sent.
#[pyfunction]
#[pyo3(signature = (port, frames, queue=None))]
pub(crate) fn send(
    py: Python<'_>,
    port: &Bound<'_, PyAny>,
    frames: &Bound<'_, PyAny>,
    queue: Option<u16>,
) -> PyResult<u64> {
    if let Ok(port) = port.cast::<Port>() {
        return to(py, port.get(), frames, queue);
    }
    let spec: Spec = port.cast::<PyString>()?.to_str()?.parse().or_raise()?;
    let arguments =
        Arguments { receive: false, transmit: true, ..Arguments::to_receive(None, None) };
    let port = Port::open(py, spec, arguments, None)?;
    let sent = to(py, &port, frames, queue);
    port.close(py);
    sent
}

/// A packet to be sent.
struct Packet {
    data: Vec<u8>,
    time: Option<u64>,
}

/// Sends by the TX queue of this number, or by the first one.
pub(crate) fn to(
    py: Python<'_>,
    port: &Port,
    frames: &Bound<'_, PyAny>,
    queue: Option<u16>,
) -> PyResult<u64> {
    let (counters, before) = py.detach(|| with_tx(port, queue, |tx| Ok(before(tx)))).or_raise()?;
    let mut frames = frames.try_iter()?;
    loop {
        let packets = frames.by_ref().take(Batch::DEFAULT).map(|frame| packet(&frame?));
        let packets = packets.collect::<PyResult<Vec<_>>>()?;
        let is_last = packets.len() < Batch::DEFAULT;
        let mut sending = Sending { packets: &packets, taken: 0, batch: Batch::default(), is_last };
        let step = |until| with_tx(port, queue, |tx| sending.step(tx, until)).transpose();
        pause::until(py, None, step)?.transpose().or_raise()?;
        if is_last {
            break;
        }
    }
    let after = counters.snapshot(0);
    let sent = after.packets.saturating_sub(before.packets);
    match failure(port, &before, &after) {
        None => Ok(sent),
        Some(error) => Err(exception(&error)),
    }
}

type Before = (std::sync::Arc<wirelane::stats::TxCounters>, TxStats);

fn before(tx: &Tx) -> Before {
    (std::sync::Arc::clone(tx.counters()), tx.counters().snapshot(0))
}

fn packet(frame: &Bound<'_, PyAny>) -> PyResult<Packet> {
    let time = frame.cast::<Frame>().ok().map(|frame| frame.get().time());
    let data = PyBuffer::<u8>::get(frame)?.to_vec(frame.py())?;
    Ok(Packet { data, time })
}

/// Packets on their way into a transmitting end.
struct Sending<'a> {
    packets: &'a [Packet],
    /// Those that are in frames.
    taken: usize,
    batch: Batch,
    is_last: bool,
}

impl Sending<'_> {
    /// `Some` once all were taken by the end, and have left if they are the last ones.
    fn step(&mut self, tx: &mut Tx, until: Instant) -> Result<Option<()>> {
        loop {
            self.fill(tx)?;
            tx.transmit(&mut self.batch);
            tx.flush()?;
            let is_taken = self.taken == self.packets.len() && self.batch.is_empty();
            if is_taken && (!self.is_last || tx.pending() == 0) {
                return Ok(Some(()));
            }
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            tx.wait(until - now)?;
        }
    }

    /// Copies packets into frames of the port.
    fn fill(&mut self, tx: &mut Tx) -> Result<()> {
        let first = self.batch.len();
        tx.allocate(&mut self.batch, self.packets.len() - self.taken);
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

/// Runs `act` with a transmitting end of the port.
fn with_tx<T>(
    port: &Port,
    queue: Option<u16>,
    act: impl FnOnce(&mut Tx) -> Result<T>,
) -> Result<T> {
    let mut all = port.tx.lock().unwrap_or_else(PoisonError::into_inner);
    let known: Vec<_> = all.iter().map(Tx::queue).collect();
    let found = all.iter_mut().find(|tx| queue.is_none_or(|queue| tx.queue() == queue));
    let Some(tx) = found else {
        let object = format!("port '{}'", port.info().spec);
        let error = match known.as_slice() {
            [] => Error::usage(object, "it is not open to send").help("open it with transmit=True"),
            known => Error::usage(object, format!("it has no such TX queue, but {known:?}")),
        };
        return Err(error);
    };
    act(tx)
}

/// What became of packets that were not sent, if there are any.
fn failure(port: &Port, before: &TxStats, after: &TxStats) -> Option<Error> {
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
    Some(Error::failed(format!("port '{}'", port.info().spec), cause))
}
