//! An open port, as a Python object.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use serde_json::json;
use wirelane::QueueMask;
use wirelane::internal::port::Accounting;
use wirelane::port::{Control, PortInfo, Spec};
use wirelane::session::monitor::Monitor;
use wirelane::stats::QueueStats;

use crate::error::OrRaise as _;
use crate::intake::ends::PortReceivers;
use crate::opening;
use crate::options::{self, Arguments};
use crate::pace::{RateArgument, SendPace};
use crate::packets::{PacketStream, Packets, columns};
use crate::receiver::RowReceiver;
use crate::sender::PortSender;
use crate::values::{Queues, python};

/// An open port: packets as Arrow batches or as frames, for any number of threads.
#[pyclass(frozen, extends = Packets, module = "wirelane")]
pub(crate) struct Port {
    shared: Arc<PacketStream>,
    sender: PortSender,
    info: PortInfo,
    monitor: Monitor,
    accounting: Accounting,
    /// Changes masks, one change at a time.
    control: Mutex<Arc<dyn Control>>,
}

impl Port {
    /// Opens a port, and starts to receive.
    pub(crate) fn open(
        py: Python<'_>,
        spec: Spec,
        arguments: Arguments,
        names: Option<&[String]>,
    ) -> PyResult<Self> {
        let rows = columns(names).or_raise()?;
        let count = arguments.count;
        let port = opening::open(py, spec, arguments)?;
        py.detach(|| Self::start(port, rows, count)).or_raise()
    }

    fn start(
        mut port: wirelane::port::Port,
        mut rows: wirelane_flow::arrow::Packets,
        count: Option<u64>,
    ) -> wirelane::Result<Self> {
        let rx = port.rx()?;
        let tx = port.tx_if_any(false)?;
        let monitor = Monitor::of_receivers([(&port, &rx)]);
        port.start()?;
        let info = port.info().clone();
        let accounting = port.accounting();
        let control = Mutex::new(port.control());
        let sender = PortSender::new(tx, &info);
        let schema = rows.schema();
        let ends = PortReceivers::new(port, rx, &mut rows, count);
        let shared = Arc::new(PacketStream::new(RowReceiver::new(ends, rows), schema));
        Ok(Self { shared, sender, info, monitor, accounting, control })
    }

    /// Converts it to a Python object.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        let packets = Packets::new(Arc::clone(&self.shared));
        Bound::new(py, PyClassInitializer::from(packets).add_subclass(self))
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
    /// The spec of the port.
    #[getter]
    fn spec(&self) -> &str {
        &self.info.spec
    }

    /// Negotiated mode, queues, attempts and notes.
    #[getter]
    #[pyo3(name = "info")]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &json!(self.info))
    }

    /// The RX queues whose packets are selected: 'all', or numbers. Setting it takes effect while
    /// packets flow.
    #[getter]
    fn rx_queues(&self) -> Queues {
        Queues(self.control().mask().rx)
    }

    #[setter]
    fn set_rx_queues(&self, py: Python<'_>, queues: Queues) -> PyResult<()> {
        self.change_mask(py, |mask| mask.rx = queues.0)
    }

    /// The TX queues whose packets are selected, like `rx_queues`.
    #[getter]
    fn tx_queues(&self) -> Queues {
        Queues(self.control().mask().tx)
    }

    #[setter]
    fn set_tx_queues(&self, py: Python<'_>, queues: Queues) -> PyResult<()> {
        self.change_mask(py, |mask| mask.tx = queues.0)
    }

    /// Whether packets without a queue are selected.
    #[getter]
    fn other(&self) -> bool {
        self.control().mask().other
    }

    #[setter]
    fn set_other(&self, py: Python<'_>, other: bool) -> PyResult<()> {
        self.change_mask(py, |mask| mask.other = other)
    }

    /// Replaces the filter, in tcpdump's language; None accepts all packets.
    #[pyo3(signature = (filter))]
    fn set_filter(&self, py: Python<'_>, filter: Option<&str>) -> PyResult<()> {
        let filter = options::filter(filter.unwrap_or_default()).or_raise()?;
        py.detach(|| self.control().set_filter(filter.as_ref())).or_raise()
    }

    /// Counters of each queue, and their sums. An unknown counter is None.
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

    /// Sends packets, which are any objects with a buffer, through this TX queue. Returns the
    /// number of packets sent.
    #[pyo3(signature = (frames, queue=None, *, rate=None, speed=None))]
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        frames: &Bound<'_, PyAny>,
        queue: Option<u16>,
        rate: Option<RateArgument>,
        speed: Option<f64>,
    ) -> PyResult<u64> {
        let pace = SendPace::new(rate, speed, self.info.speed).or_raise()?;
        self.sender.send(py, frames, queue, pace)
    }

    /// Stops receiving. Packets received before can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.control().stop());
    }

    /// Stops, and releases all resources. Frames and batches already taken stay valid.
    pub(crate) fn close(&self, py: Python<'_>) {
        py.detach(|| {
            self.control().stop();
            self.sender.close();
            self.shared.close();
        });
    }

    fn __repr__(&self) -> String {
        format!("<wirelane.Port {} ({})>", self.info.spec, self.info.mode)
    }
}
