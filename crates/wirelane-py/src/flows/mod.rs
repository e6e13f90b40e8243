//! Two-way flows of a port, file or store. Metering runs in the background; Python takes flows that
//! have ended.

mod ended;
mod live;
mod rows;
mod stored;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::Value;
use wirelane::halt::Halt;
use wirelane::placement::Placement;
use wirelane::port::Spec;
use wirelane::{Error, Result};
use wirelane_flow::MeterConfig;
use wirelane_flow::session::FlowConfig;
use wirelane_store::random_number;

use self::ended::MeteringResult;
use self::rows::FlowBatches;
use crate::batch::{self, Batch};
use crate::error::OrRaise as _;
use crate::open::file;
use crate::opening;
use crate::options::Arguments;
use crate::pause;
use crate::step::Step;
use crate::store::{self, PacketSelection, TimeArgument, is_store};
use crate::stream::RowSteps;
use crate::values::python;

/// Meters the flows of a port, a file or a store.
#[pyfunction]
#[pyo3(signature = (
    source, *, filter=None, start=None, end=None, active=300.0, idle=15.0, max_flows=1_000_000, count=None
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn flows(
    py: Python<'_>,
    source: PathBuf,
    filter: Option<String>,
    start: Option<TimeArgument>,
    end: Option<TimeArgument>,
    active: f64,
    idle: f64,
    max_flows: usize,
    count: Option<u64>,
) -> PyResult<Flows> {
    let asked = PacketSelection { filter, start, end };
    let config = FlowConfig::default()
        .meter(
            MeterConfig::default()
                .active(pause::duration("active", active)?)
                .idle(pause::duration("idle", idle)?),
        )
        .max_flows(max_flows)
        .single(false)
        .placement(Placement::default())
        .packets(count)
        .seed(random_number());
    let bytes = source.as_os_str().as_encoded_bytes();
    // A file or a directory, unless the name is a port spec: an interface's name has no slash.
    let is_path = !bytes.contains(&b':') && (bytes.contains(&b'/') || source.is_file());
    if is_path && source.is_dir() || is_store(&source) {
        return py.detach(|| Flows::of_store(&source, &asked, config)).or_raise();
    }
    asked.check_no_time().or_raise()?;
    let spec = match is_path {
        true => file(source),
        false => Spec::try_from(source.as_os_str()).or_raise()?,
    };
    let port = opening::open(py, spec, Arguments::to_receive(asked.filter, count))?;
    py.detach(|| Flows::of_port(port, &config)).or_raise()
}

/// Flows that have ended, in Arrow batches.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Flows {
    shared: Arc<FlowStream>,
    metering: Mutex<Option<JoinHandle<MeteringResult>>>,
    stats: Mutex<Option<Value>>,
    schema: SchemaRef,
}

/// The state that the threads and Python share.
struct FlowStream {
    /// `None` once Python takes no more flows.
    batches: Mutex<Option<Receiver<RecordBatch>>>,
    halt: Halt,
}

impl Flows {
    fn of_port(port: wirelane::port::Port, config: &FlowConfig) -> Result<Self> {
        let halt = Halt::default();
        Self::start(halt.clone(), |sink| live::start(port, sink, config, halt))
    }

    fn of_store(path: &Path, asked: &PacketSelection, config: FlowConfig) -> Result<Self> {
        let halt = Halt::default();
        let query = asked.query(&halt)?;
        let directory = store::open(path)?;
        Self::start(halt, |sink| stored::start(directory, query, sink, config))
    }

    fn start(
        halt: Halt,
        meter: impl FnOnce(FlowBatches) -> Result<JoinHandle<MeteringResult>>,
    ) -> Result<Self> {
        let columns = wirelane_flow::arrow::Flows::new();
        let schema = columns.schema();
        let (sink, receiver) = FlowBatches::new(columns);
        let metering = Mutex::new(Some(meter(sink)?));
        let shared = Arc::new(FlowStream { batches: Mutex::new(Some(receiver)), halt });
        Ok(Self { shared, metering, stats: Mutex::new(None), schema })
    }

    /// Waits for the threads, and stores the result.
    fn conclude(&self) -> Result<()> {
        let thread = self.metering.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        let ended = thread
            .join()
            .map_err(|_| Error::failed("the thread that meters flows", "panicked: a defect"))?;
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended.stats);
        // Stopping early is not an error.
        let first = ended.errors.into_iter().find(|error| error.cause() != rows::UNWANTED);
        first.map_or(Ok(()), Err)
    }
}

impl FlowStream {
    fn rows(&self, until: Instant) -> Step<RecordBatch> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(batches) = batches.as_ref() else { return Some(Ok(None)) };
        match batches.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(rows) => Some(Ok(Some(rows))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Ok(None)),
        }
    }
}

#[pymethods]
impl Flows {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let rows = pause::until(py, None, |until| self.shared.rows(until))?;
        match rows.transpose().or_raise()?.flatten() {
            Some(rows) => Ok(Some(Batch::new(rows))),
            None => py.detach(|| self.conclude()).or_raise().map(|()| None),
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        batch::schema(py, &self.schema)
    }

    /// All remaining flows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: Bound<'py, Self>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let (py, this) = (slf.py(), slf.clone().unbind());
        let rows = move |until| {
            let this = this.get();
            match this.shared.rows(until) {
                Some(Ok(None)) => Some(this.conclude().map(|()| None)),
                step => step,
            }
        };
        batch::stream(py, RowSteps::new(SchemaRef::clone(&slf.get().schema), rows))
    }

    /// Counts of packets and flows; None while it runs.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |stats| python(py, stats))
    }

    /// Stops receiving. The flows of packets received before can still be taken.
    fn stop(&self) {
        self.shared.halt.ask();
    }

    /// Stops metering. Flows not taken are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop();
        let end = || {
            *self.shared.batches.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.conclude()
        };
        py.detach(end).or_raise()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        // The threads end by themselves.
        self.shared.halt.ask();
        *self.shared.batches.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
