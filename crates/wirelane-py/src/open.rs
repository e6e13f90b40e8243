//! `wirelane.open` and `wirelane.read`.

use std::path::PathBuf;

use pyo3::prelude::*;
use wirelane::internal::port::OffloadOptions;
use wirelane::port::{Backend, Spec};

use crate::error::OrRaise as _;
use crate::options::Arguments;
use crate::port::Port;
use crate::search::Search;
use crate::store::{PacketSelection, TimeArgument};
use crate::values::Queues;

/// Opens a port, and starts to receive.
#[pyfunction]
#[pyo3(signature = (
    spec, *, filter=None, rx_queues=None, tx_queues=None, other=true, snaplen=None, promiscuous=false, ring=None,
    count=None, columns=None, receive=true, transmit=false, take="nothing"
))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn open<'py>(
    py: Python<'py>,
    spec: PathBuf,
    filter: Option<String>,
    rx_queues: Option<Queues>,
    tx_queues: Option<Queues>,
    other: bool,
    snaplen: Option<u32>,
    promiscuous: bool,
    ring: Option<usize>,
    count: Option<u64>,
    columns: Option<Vec<String>>,
    receive: bool,
    transmit: bool,
    take: &str,
) -> PyResult<Bound<'py, Port>> {
    let spec = Spec::try_from(spec.as_os_str()).or_raise()?;
    let arguments = Arguments {
        filter,
        rx_queues,
        tx_queues,
        other,
        snaplen,
        promiscuous,
        ring,
        count,
        receive,
        transmit,
        take: take.to_owned(),
    };
    Port::open(py, spec, arguments, columns.as_deref())?.into_object(py)
}

/// Opens a capture file, or searches a store.
#[pyfunction]
#[pyo3(signature = (path, *, filter=None, start=None, end=None, count=None, columns=None))]
pub(crate) fn read(
    py: Python<'_>,
    path: PathBuf,
    filter: Option<String>,
    start: Option<TimeArgument>,
    end: Option<TimeArgument>,
    count: Option<u64>,
    columns: Option<Vec<String>>,
) -> PyResult<Bound<'_, PyAny>> {
    let asked = PacketSelection { filter, start, end };
    if path.is_dir() {
        return Ok(Search::start(py, &path, &asked, count, columns.as_deref())?.into_any());
    }
    asked.check_no_time().or_raise()?;
    let arguments = Arguments::to_receive(asked.filter, count);
    let port = Port::open(py, file(path), arguments, columns.as_deref())?;
    Ok(port.into_object(py)?.into_any())
}

/// The file port of a path. The name is not parsed as a spec.
pub(crate) fn file(path: PathBuf) -> Spec {
    Spec {
        backend: Some(Backend::File),
        name: path.into_os_string(),
        queues: None,
        options: Vec::new(),
        offloads: OffloadOptions::default(),
    }
}
