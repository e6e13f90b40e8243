//! Two-way flows of a port or file, metered in the background while Python takes those that have ended.

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::json;
use wirelane::placement::Placement;
use wirelane::port::Spec;
use wirelane::{Error, Result, threads};
use wirelane_flow::session::{FlowConfig, FlowOutcome, Metering};
use wirelane_flow::{Flow, MeterConfig, Sink};

use crate::batch::{self, Batch};
use crate::error::OrRaise as _;
use crate::open::file;
use crate::opening;
use crate::options::Arguments;
use crate::pause;
use crate::receiver::Step;
use crate::stream::Stream;
use crate::values::python;

/// Rows of a batch.
const ROWS: usize = 8192;
/// Batches that wait for Python.
const WAITING: usize = 16;
/// How often the threads are asked whether they have ended.
const NAP: Duration = Duration::from_millis(50);

/// Meters the flows of a port or file.
#[pyfunction]
#[pyo3(signature = (source, *, filter=None, active=300.0, idle=15.0, max_flows=1_000_000, count=None))]
pub(crate) fn flows(
    py: Python<'_>,
    source: PathBuf,
    filter: Option<String>,
    active: f64,
    idle: f64,
    max_flows: usize,
    count: Option<u64>,
) -> PyResult<Flows> {
    let bytes = source.as_os_str().as_encoded_bytes();
    // A file, unless it is named as a port: an interface has no slash in its name.
    let spec = match !bytes.contains(&b':') && (bytes.contains(&b'/') || source.is_file()) {
        true => file(source),
        false => Spec::try_from(source.as_os_str()).or_raise()?,
    };
    let config = FlowConfig {
        meter: MeterConfig {
            active: pause::duration("active", active)?,
            idle: pause::duration("idle", idle)?,
        },
        max_flows,
        single: false,
        placement: Placement::default(),
        packets: count,
        seed: RandomState::new().hash_one(0),
    };
    let port = opening::open(py, spec, Arguments::to_receive(filter, count))?;
    py.detach(|| Flows::start(port, &config)).or_raise()
}

/// Flows that have ended, in batches of Arrow.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Flows {
    shared: Arc<Shared>,
    metering: Mutex<Option<JoinHandle<FlowOutcome>>>,
    outcome: Mutex<Option<FlowOutcome>>,
    schema: SchemaRef,
}

/// What the threads and Python share.
struct Shared {
    /// `None` once nobody wants any more.
    batches: Mutex<Option<Receiver<RecordBatch>>>,
    stops: AtomicBool,
}

impl Flows {
    fn start(port: wirelane::port::Port, config: &FlowConfig) -> Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let columns = wirelane_arrow::Flows::new();
        let schema = columns.schema();
        let rows = Vec::with_capacity(ROWS);
        let sink = Rows { columns, rows, sender: Some(sender) };
        let metering = Metering::start(vec![port], vec![Box::new(sink)], config)?;
        let batches = Mutex::new(Some(receiver));
        let shared = Arc::new(Shared { batches, stops: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let wait = move || {
            let mut has_ended = false;
            while !has_ended && !own.stops.load(Ordering::Relaxed) {
                has_ended = metering.wait(NAP);
            }
            metering.join()
        };
        let metering = Mutex::new(Some(threads::spawn("wl-metering", wait)?));
        Ok(Self { shared, metering, outcome: Mutex::new(None), schema })
    }

    /// What came of it, once the threads have ended; waits for them.
    fn conclude(&self) -> Result<()> {
        let thread = self.metering.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        let mut outcome = thread
            .join()
            .map_err(|_| Error::failed("the thread that meters flows", "panicked: a defect"))?;
        let errors = std::mem::take(&mut outcome.errors);
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        // Who stopped wants no more, which is no error.
        let first = errors.into_iter().find(|error| error.cause() != UNWANTED);
        first.map_or(Ok(()), Err)
    }
}

impl Shared {
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

    /// All flows that are still to come.
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
        batch::stream(py, Stream::new(SchemaRef::clone(&slf.get().schema), rows))
    }

    /// What became of packets and flows; None while it goes on.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outcome) = outcome.as_ref() else { return Ok(py.None().into_bound(py)) };
        let FlowOutcome { metered, flows, queues, .. } = outcome;
        let all = json!({
            "packets": metered.packets,
            "in_flows": flows.packets,
            "not_ip": metered.not_ip,
            "truncated": metered.truncated,
            "malformed": metered.malformed,
            "flows": flows.flows,
            "evicted": metered.evicted,
            "dropped_flows": flows.dropped + flows.refused,
            "queues": queues,
        });
        python(py, &all)
    }

    /// Lets no more packets in; the flows of those that came before can still be taken.
    fn stop(&self) {
        self.shared.stops.store(true, Ordering::Relaxed);
    }

    /// Ends the metering. Flows that were not taken are gone.
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
        self.shared.stops.store(true, Ordering::Relaxed);
        *self.shared.batches.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

const UNWANTED: &str = "Python takes no more of them";

/// Makes batches of flows, and gives them to Python.
struct Rows {
    columns: wirelane_arrow::Flows,
    rows: Vec<Flow>,
    /// `None` after the end.
    sender: Option<SyncSender<RecordBatch>>,
}

impl Rows {
    fn send(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = self.columns.of(&self.rows);
        self.rows.clear();
        let rows = rows.map_err(|error| Error::failed("rows of flows", error.to_string()))?;
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(rows).is_ok());
        if sent { Ok(()) } else { Err(Error::failed("flows", UNWANTED)) }
    }
}

impl Sink for Rows {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.rows.push(flow.clone());
        if self.rows.len() < ROWS { Ok(()) } else { self.send() }
    }

    fn tick(&mut self) -> Result<()> {
        self.send()
    }

    fn finish(&mut self) -> Result<()> {
        let sent = self.send();
        self.sender = None;
        sent
    }
}
