//! Wirelane for Python: the native half of the package `wirelane`, whose Python half and types are
//! in `python/wirelane`.
//!
//! Only the API in Python is stable. The items for Rust are an implementation detail of Wirelane.
//!
//! ```text
//!  open, read ─▶ Port, Search ─▶ Receiver ─▶ Frame         one packet, a buffer
//!                                   │    └─▶ Batch, stream  headers as Arrow columns, in PyCapsules
//!                                   └─ waits without the GIL, checks for signals
//!  send       ─▶ Port ─▶ pace, transmitting ends
//!  flows      ─▶ Flows ─▶ Batch, stream             flows as Arrow columns
//! ```
//!
//! Reading order: `error`, `pause`, `values`; `options`, `opening`, `store`; `intake`, `receiver`;
//! `frame`, `batch`, `stream`, `packets`; `pace`, `sender`, `port`, `search`; `open`, `send`,
//! `flows`.

mod batch;
mod error;
mod flows;
mod frame;
mod intake;
mod open;
mod opening;
mod options;
mod pace;
mod packets;
mod pause;
mod port;
mod receiver;
mod search;
mod send;
mod sender;
mod step;
mod store;
mod stream;
mod values;

use pyo3::prelude::*;

/// The native half of the package `wirelane`.
#[pymodule]
mod _wirelane {
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::flows::{Flows, flows};
    #[pymodule_export]
    use crate::frame::Frame;
    #[pymodule_export]
    use crate::open::{open, read};
    #[pymodule_export]
    use crate::packets::{Batches, Frames, Packets};
    #[pymodule_export]
    use crate::port::Port;
    #[pymodule_export]
    use crate::search::Search;
    #[pymodule_export]
    use crate::send::send;
}
