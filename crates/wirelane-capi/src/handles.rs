//! The types of handles, and one table of objects per kind.

use wirelane::Batch;
use wirelane::port::{Rx, Tx};

use crate::port::OpenPort;
use crate::table::HandleTable;

/// Ports, which any thread may use.
pub(crate) static PORTS: HandleTable<OpenPort> = HandleTable::new(1);
/// Receiving ends, each used by one thread at a time.
pub(crate) static RX: HandleTable<Rx> = HandleTable::new(2);
/// Transmitting ends, each used by one thread at a time.
pub(crate) static TX: HandleTable<OpenTx> = HandleTable::new(3);
/// Batches, each used by one thread at a time.
pub(crate) static BATCHES: HandleTable<Batch> = HandleTable::new(4);

/// A transmitting end, and room for one packet.
pub(crate) struct OpenTx {
    pub(crate) end: Tx,
    pub(crate) one: Batch,
}

impl OpenTx {
    pub(crate) fn new(end: Tx) -> Self {
        Self { end, one: Batch::new(1) }
    }
}

/// A port: an interface, a file or a simulation, opened by wirelane_open(). Several threads may use
/// it at once. A zero-initialised handle is invalid.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PortHandle {
    /// A unique number.
    pub id: u64,
}

/// A receiving end. One thread at a time may use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RxHandle {
    /// A unique number.
    pub id: u64,
}

/// A transmitting end. One thread at a time may use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TxHandle {
    /// A unique number.
    pub id: u64,
}

/// A list of packets. One thread at a time may use it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchHandle {
    /// A unique number.
    pub id: u64,
}
