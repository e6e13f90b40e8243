//! An open port, as an object of Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::json;
use wirelane::port::{Accounting, Control, PortInfo, Spec};
use wirelane::session::monitor::Monitor;
use wirelane::stats::QueueStats;
use wirelane::{Error, QueueMask};
use wirelane_arrow::Packets;

use crate::batch::{self, Batch};
use crate::error::OrRaise as _;
use crate::frame::Frame;
use crate::opening;
use crate::options::{self, Arguments};
use crate::pause;
use crate::receiver::{Receiver, Step};
use crate::sender::Sender;
use crate::stream::Stream;
use crate::values::{Queues, python};

/// How long the first packet of a batch waits for others, in seconds.
const PATIENCE: f64 = 0.1;

// Signatures say these numbers to Python, which shows no names of constants.
const _: () = assert!(Packets::USUAL == 8192 && PATIENCE == 0.1);

/// An open port: packets as batches of Arrow or as frames, by any number of threads.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Port {
    shared: Arc<Shared>,
    sender: Sender,
    info: PortInfo,
    monitor: Monitor,
    accounting: Accounting,
    /// What masks are changed by: one at a time.
    control: Mutex<Arc<dyn Control>>,
}

/// What a port and those that take its packets share.
struct Shared {
    /// `None` once the port is closed.
    receiver: Mutex<Option<Receiver>>,
    has_ended: AtomicBool,
    schema: SchemaRef,
}

impl Shared {
    /// Takes packets by `step`. A closed port has none.
    fn step<T>(&self, step: impl FnOnce(&mut Receiver) -> Step<T>) -> Step<T> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = receiver.as_mut().map_or(Some(Ok(None)), step);
        if matches!(answer, Some(Ok(None))) {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn rows(
        &self,
        py: Python<'_>,
        most: usize,
        patience: Duration,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Batch>> {
        let step = |until| self.step(|receiver| receiver.rows(most, patience, until));
        let answer = pause::until(py, deadline, step)?.transpose().or_raise()?;
        Ok(answer.flatten().map(Batch::new))
    }

    fn frame(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<Frame>> {
        let step = |until| self.step(|receiver| receiver.frame(until));
        let answer = match self.ready() {
            Some(ready) => Some(ready),
            None => pause::until(py, deadline, step)?,
        };
        let found = answer.transpose().or_raise()?.flatten();
        Ok(found.map(|(frame, interface)| Frame::new(py, &frame, interface)))
    }

    /// A frame that needs no waiting, neither for packets nor for another thread.
    fn ready(&self) -> Step<(wirelane::Frame, Arc<str>)> {
        let mut receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(receiver)) => receiver.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        receiver.as_mut()?.ready()
    }

    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let is_open =
            py.detach(|| self.receiver.lock().unwrap_or_else(PoisonError::into_inner).is_some());
        is_open.then_some(()).ok_or_else(|| PyValueError::new_err("the port is closed"))
    }
}

impl Port {
    /// Opens a port, and lets packets in.
    pub(crate) fn open(
        py: Python<'_>,
        spec: Spec,
        arguments: Arguments,
        columns: Option<&[String]>,
    ) -> PyResult<Self> {
        let rows = columns.map_or_else(|| Ok(Packets::new()), Packets::of);
        let rows = rows.map_err(|error| Error::usage("columns", error.to_string())).or_raise()?;
        let count = arguments.count;
        let port = opening::open(py, spec, arguments)?;
        py.detach(|| Self::start(port, rows, count)).or_raise()
    }

    fn start(
        mut port: wirelane::port::Port,
        rows: Packets,
        count: Option<u64>,
    ) -> wirelane::Result<Self> {
        let (rx, tx) = (port.rx(), port.tx());
        let monitor = Monitor::of_receivers([(&port, &rx)]);
        port.start()?;
        Ok(Self {
            info: port.info().clone(),
            monitor,
            accounting: port.accounting(),
            control: Mutex::new(port.control()),
            sender: Sender::new(tx, &port.info().spec),
            shared: Arc::new(Shared {
                schema: rows.schema(),
                receiver: Mutex::new(Some(Receiver::new(port, rx, rows, count))),
                has_ended: AtomicBool::new(false),
            }),
        })
    }

    fn control(&self) -> MutexGuard<'_, Arc<dyn Control>> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_mask(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut QueueMask) + Send,
    ) -> PyResult<()> {
        let set = || {
            let control = self.control();
            let mut mask = control.mask();
            change(&mut mask);
            control.set_mask(mask)
        };
        py.detach(set).or_raise()
    }
}

#[pymethods]
impl Port {
    /// The spec that it was opened by.
    #[getter]
    fn spec(&self) -> &str {
        &self.info.spec
    }

    /// What it turned out to be: its mode, its queues, the attempts, notes.
    #[getter]
    #[pyo3(name = "info")]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &json!(self.info))
    }

    /// The names of the columns of its batches.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.shared.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether all packets were taken.
    #[getter]
    fn ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Relaxed)
    }

    /// Batches of at most `rows` packets; of fewer once the first one has waited for `wait` seconds.
    #[pyo3(signature = (rows=8192, wait=0.1))]
    fn batches(&self, py: Python<'_>, rows: usize, wait: f64) -> PyResult<Batches> {
        self.shared.check_open(py)?;
        let rows = rows.max(1);
        let patience = pause::duration("wait", wait)?;
        Ok(Batches { shared: Arc::clone(&self.shared), rows, patience })
    }

    /// The next batch; None at the end, or if no packet comes within `timeout` seconds.
    #[pyo3(signature = (rows=8192, wait=0.1, timeout=None))]
    fn batch(
        &self,
        py: Python<'_>,
        rows: usize,
        wait: f64,
        timeout: Option<f64>,
    ) -> PyResult<Option<Batch>> {
        self.shared.check_open(py)?;
        let patience = pause::duration("wait", wait)?;
        self.shared.rows(py, rows.max(1), patience, pause::deadline(timeout)?)
    }

    /// Its packets one by one.
    fn frames(&self, py: Python<'_>) -> PyResult<Frames> {
        self.shared.check_open(py)?;
        Ok(Frames(Arc::clone(&self.shared)))
    }

    /// The next packet; None at the end, or if none comes within `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn frame(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Frame>> {
        self.shared.check_open(py)?;
        self.shared.frame(py, pause::deadline(timeout)?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        self.batches(py, Packets::USUAL, PATIENCE)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        batch::schema(py, &self.shared.schema)
    }

    /// All packets that are still to come. Whoever takes the stream decides when it ends.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.shared.check_open(py)?;
        let shared = Arc::clone(&self.shared);
        let patience = pause::duration("wait", PATIENCE)?;
        let rows = move |until| {
            shared.step(|receiver: &mut Receiver| -> Step<RecordBatch> {
                receiver.rows(Packets::USUAL, patience, until)
            })
        };
        batch::stream(py, Stream::new(SchemaRef::clone(&self.shared.schema), rows))
    }

    /// The RX queues whose packets are selected: 'all', or numbers. Setting it changes them while packets flow.
    #[getter]
    fn rx_queues(&self) -> Queues {
        Queues(self.control().mask().rx)
    }

    #[setter]
    fn set_rx_queues(&self, py: Python<'_>, queues: Queues) -> PyResult<()> {
        self.change_mask(py, |mask| mask.rx = queues.0)
    }

    /// The TX queues whose packets are selected, as `rx_queues`.
    #[getter]
    fn tx_queues(&self) -> Queues {
        Queues(self.control().mask().tx)
    }

    #[setter]
    fn set_tx_queues(&self, py: Python<'_>, queues: Queues) -> PyResult<()> {
        self.change_mask(py, |mask| mask.tx = queues.0)
    }

    /// Whether packets that are tied to no queue are selected.
    #[getter]
    fn other(&self) -> bool {
        self.control().mask().other
    }

    #[setter]
    fn set_other(&self, py: Python<'_>, other: bool) -> PyResult<()> {
        self.change_mask(py, |mask| mask.other = other)
    }

    /// Replaces the filter, by one in tcpdump's language; None takes all packets.
    #[pyo3(signature = (filter))]
    fn set_filter(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<()> {
        let filter = options::filter(filter.unwrap_or_default()).or_raise()?;
        py.detach(|| self.control().set_filter(filter.as_ref())).or_raise()
    }

    /// Its counters: by queue, and their sums. What nobody can know is None.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let queues = self.monitor.queues();
        let tx = self.sender.stats();
        let sum = |of: fn(&QueueStats) -> Option<u64>| queues.iter().map(of).sum::<Option<u64>>();
        let totals = json!({
            "received": sum(|queue| queue.received),
            "filtered": sum(QueueStats::filtered_here),
            "delivered": queues.iter().map(|queue| queue.packets).sum::<u64>(),
            "dropped": sum(|queue| queue.dropped.total()),
            "sent": tx.iter().map(|tx| tx.packets).sum::<u64>(),
        });
        let frames = self.accounting.frames();
        let held = frames.held();
        let frames = json!({ "pool": frames.pool, "free": frames.free, "held": held });
        let all = json!({ "queues": queues, "tx": tx, "frames": frames, "totals": totals });
        python(py, &all)
    }

    /// Sends packets, anything with a buffer, by the TX queue of this number. Returns how many were sent.
    #[pyo3(signature = (frames, queue=None))]
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        frames: &Bound<'_, PyAny>,
        queue: Option<u16>,
    ) -> PyResult<u64> {
        self.sender.send(py, frames, queue)
    }

    /// Lets no more packets in. Those that came before can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.control().stop());
    }

    /// Stops, and gives everything back. Frames and batches that were taken stay as they are.
    pub(crate) fn close(&self, py: Python<'_>) {
        py.detach(|| {
            self.control().stop();
            self.sender.close();
            *self.shared.receiver.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.shared.has_ended.store(true, Ordering::Relaxed);
        });
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<wirelane.Port {} ({})>", self.info.spec, self.info.mode)
    }
}

/// Batches of a port, until its end.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Batches {
    shared: Arc<Shared>,
    rows: usize,
    patience: Duration,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.shared.rows(py, self.rows, self.patience, None)
    }
}

/// Frames of a port, until its end.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Frames(Arc<Shared>);

#[pymethods]
impl Frames {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Frame>> {
        self.0.frame(py, None)
    }
}
