//! One packet, as a Python object.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::intake::ReceivedPacket;

/// One packet: a buffer, with the port's metadata.
///
/// The frame owns a copy of the bytes, so a program may keep it for ever, also after its port is
/// closed. A view of the ring would keep a block from the kernel for as long, and the kernel would
/// drop packets.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Frame {
    data: Py<PyBytes>,
    interface: Arc<str>,
    /// Time of capture, in nanoseconds since 1970; 0 if the port has no time.
    #[pyo3(get)]
    time: u64,
    /// Its length on the wire, in bytes.
    #[pyo3(get)]
    length: u32,
    queue: Option<u16>,
    class: wirelane::Class,
}

impl Frame {
    pub(crate) fn new(py: Python<'_>, taken: ReceivedPacket) -> Self {
        let ReceivedPacket { data, interface, time, length, queue, class } = taken;
        let data = PyBytes::new(py, data.as_ref()).unbind();
        Self { data, interface, time, length, queue, class }
    }

    pub(crate) fn time(&self) -> u64 {
        self.time
    }
}

#[pymethods]
impl Frame {
    /// Its queue, or None.
    #[getter]
    fn queue(&self) -> Option<u16> {
        self.queue
    }

    /// 'rx', 'tx' or 'other'.
    #[getter]
    fn class_<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        match self.class {
            wirelane::Class::Rx => pyo3::intern!(py, "rx"),
            wirelane::Class::Tx => pyo3::intern!(py, "tx"),
            wirelane::Class::Other => pyo3::intern!(py, "other"),
        }
    }

    /// The name of its interface.
    #[getter]
    fn interface(&self) -> &str {
        &self.interface
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.bind(py).as_bytes().len()
    }

    fn __bytes__(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    /// Exports the buffer of the bytes object, which it keeps alive.
    ///
    /// # Safety
    /// Python's contract: `view` is a structure to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: `view` and `flags` are passed on as they came to the object that is asked
        // instead, which is alive.
        let status = unsafe { ffi::PyObject_GetBuffer(slf.get().data.as_ptr(), view, flags) };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let queue = self.queue.map_or_else(String::new, |queue| format!(" {queue}"));
        let len = self.__len__(py);
        let Self { interface, time, length, class, .. } = self;
        format!("<wirelane.Frame {len} of {length} bytes, {interface} {class}{queue}, {time} ns>")
    }
}
