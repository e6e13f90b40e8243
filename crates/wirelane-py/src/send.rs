//! `wirelane.send`.

use pyo3::prelude::*;
use pyo3::types::PyString;
use wirelane::port::Spec;

use crate::error::OrRaise as _;
use crate::options::Arguments;
use crate::pace::RateArgument;
use crate::port::Port;

/// Sends packets through a port, or opens one with this spec. Returns the number of packets sent.
#[pyfunction]
#[pyo3(signature = (port, frames, queue=None, *, rate=None, speed=None))]
pub(crate) fn send(
    py: Python<'_>,
    port: &Bound<'_, PyAny>,
    frames: &Bound<'_, PyAny>,
    queue: Option<u16>,
    rate: Option<RateArgument>,
    speed: Option<f64>,
) -> PyResult<u64> {
    if let Ok(port) = port.cast::<Port>() {
        return port.get().send(py, frames, queue, rate, speed);
    }
    let spec: Spec = port.cast::<PyString>()?.to_str()?.parse().or_raise()?;
    let arguments =
        Arguments { receive: false, transmit: true, ..Arguments::to_receive(None, None) };
    let port = Port::open(py, spec, arguments, None)?;
    let sent = port.send(py, frames, queue, rate, speed);
    port.close(py);
    sent
}
