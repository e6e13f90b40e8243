//! The search of a store, as a Python object.

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::json;
use wirelane::Result;
use wirelane::halt::Halt;

use crate::error::OrRaise as _;
use crate::intake::packet_queue::PacketQueue;
use crate::intake::stored::StoredPackets;
use crate::packets::{PacketStream, Packets, columns};
use crate::receiver::RowReceiver;
use crate::store::{self, PacketSelection};
use crate::values::python;

/// Packets that a search of a store finds, in order of time.
#[pyclass(frozen, extends = Packets, module = "wirelane")]
pub(crate) struct Search {
    queue: Arc<PacketQueue>,
    halt: Halt,
    path: String,
}

impl Search {
    /// Opens a store, and starts the search.
    pub(crate) fn start<'py>(
        py: Python<'py>,
        path: &Path,
        asked: &PacketSelection,
        count: Option<u64>,
        names: Option<&[String]>,
    ) -> PyResult<Bound<'py, Self>> {
        let begin = || -> Result<_> {
            let rows = columns(names)?;
            let halt = Halt::default();
            let query = asked.query(&halt)?;
            let (stored, queue) =
                StoredPackets::start(store::open(path)?, query, halt.clone(), count)?;
            let schema = rows.schema();
            let shared = PacketStream::new(RowReceiver::new(stored, rows), schema);
            Ok((shared, Self { queue, halt, path: path.display().to_string() }))
        };
        let (shared, search) = py.detach(begin).or_raise()?;
        let packets = Packets::new(Arc::new(shared));
        Bound::new(py, PyClassInitializer::from(packets).add_subclass(search))
    }
}

#[pymethods]
impl Search {
    /// Counts of the packets found and the segments read, and the damage met; None while it runs,
    /// or if it failed.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(report) = py.detach(|| self.queue.report()) else {
            return Ok(py.None().into_bound(py));
        };
        let all = json!({
            "packets": report.packets,
            "bytes": report.bytes,
            "segments": report.segments,
            "segments_opened": report.opened,
            "segments_deleted": report.deleted,
            "extents": report.extents,
            "extents_read": report.extents_read,
            "bytes_read": report.bytes_read,
            "damage": report.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "unfiltered": report.unfiltered,
            "stopped": report.stopped,
        });
        python(py, &all)
    }

    /// Stops the search. Packets found before can still be taken.
    fn stop(&self) {
        self.halt.ask();
    }

    fn __repr__(&self) -> String {
        format!("<wirelane.Search {}>", self.path)
    }
}
