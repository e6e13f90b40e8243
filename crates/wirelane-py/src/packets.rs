//! Packets of a port or a store, as Python objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use wirelane::{Error, Result};
use wirelane_flow::arrow::Packets as Rows;

use crate::batch::{self, Batch};
use crate::error::OrRaise as _;
use crate::frame::Frame;
use crate::intake::ReceivedPacket;
use crate::pause;
use crate::receiver::RowReceiver;
use crate::step::Step;
use crate::stream::RowSteps;

/// How long the first packet of a batch waits for others, in seconds.
const PATIENCE: f64 = 0.1;

// The Python signatures repeat these numbers, because they cannot show names of constants.
const _: () = assert!(Rows::USUAL == 8192 && PATIENCE == 0.1);

/// Packets as Arrow batches or as frames, for any number of threads.
#[pyclass(frozen, subclass, module = "wirelane")]
pub(crate) struct Packets {
    shared: Arc<PacketStream>,
}

/// The state that a source of packets and its iterators share.
pub(crate) struct PacketStream {
    /// `None` once the source is closed.
    receiver: Mutex<Option<RowReceiver>>,
    has_ended: AtomicBool,
    schema: SchemaRef,
}

impl PacketStream {
    pub(crate) fn new(receiver: RowReceiver, schema: SchemaRef) -> Self {
        let receiver = Mutex::new(Some(receiver));
        Self { receiver, has_ended: AtomicBool::new(false), schema }
    }

    /// Drops the source, so that no further packet can be taken.
    pub(crate) fn close(&self) {
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Runs `step` on the source. A closed source has ended.
    fn step<T>(&self, step: impl FnOnce(&mut RowReceiver) -> Step<T>) -> Step<T> {
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
        let taken = answer.transpose().or_raise()?.flatten();
        Ok(taken.map(|taken| Frame::new(py, taken)))
    }

    /// A frame that is available without waiting for packets or another thread.
    fn ready(&self) -> Step<ReceivedPacket> {
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
        is_open.then_some(()).ok_or_else(|| PyValueError::new_err("it is closed"))
    }
}

impl Packets {
    pub(crate) fn new(shared: Arc<PacketStream>) -> Self {
        Self { shared }
    }
}

/// The columns of these names. By default all but the bytes.
///
/// # Errors
/// There is no such column.
pub(crate) fn columns(names: Option<&[String]>) -> Result<Rows> {
    let rows = names.map_or_else(|| Ok(Rows::new()), Rows::of);
    rows.map_err(|error| Error::usage("columns", error.to_string()))
}

#[pymethods]
impl Packets {
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

    /// Batches of at most `rows` packets, or fewer once the first packet has waited for `wait`
    /// seconds.
    #[pyo3(signature = (rows=8192, wait=0.1))]
    fn batches(&self, py: Python<'_>, rows: usize, wait: f64) -> PyResult<Batches> {
        self.shared.check_open(py)?;
        let rows = rows.max(1);
        let patience = pause::duration("wait", wait)?;
        Ok(Batches { shared: Arc::clone(&self.shared), rows, patience })
    }

    /// The next batch; None at the end, or if no packet arrives within `timeout` seconds.
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

    /// Packets one by one.
    fn frames(&self, py: Python<'_>) -> PyResult<Frames> {
        self.shared.check_open(py)?;
        Ok(Frames(Arc::clone(&self.shared)))
    }

    /// The next packet; None at the end, or if none arrives within `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn frame(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Frame>> {
        self.shared.check_open(py)?;
        self.shared.frame(py, pause::deadline(timeout)?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        self.batches(py, Rows::USUAL, PATIENCE)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        batch::schema(py, &self.shared.schema)
    }

    /// All remaining packets. The consumer of the stream decides when it ends.
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
            shared.step(|receiver: &mut RowReceiver| -> Step<RecordBatch> {
                receiver.rows(Rows::USUAL, patience, until)
            })
        };
        batch::stream(py, RowSteps::new(SchemaRef::clone(&self.shared.schema), rows))
    }

    /// Releases all resources. Frames and batches already taken stay valid.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.shared.close());
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        slf.call_method0("close").map(drop)
    }
}

/// Iterates over batches.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Batches {
    shared: Arc<PacketStream>,
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

/// Iterates over frames.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Frames(Arc<PacketStream>);

#[pymethods]
impl Frames {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Frame>> {
        self.0.frame(py, None)
    }
}
