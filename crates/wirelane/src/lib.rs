//! Multi-queue packet I/O.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod error;
pub mod frame;
pub mod mask;
pub mod pool;
pub mod ring;
pub mod stats;
pub mod sync;

#[cfg(not(loom))]
pub mod capture;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
pub mod pipeline;
#[cfg(not(loom))]
pub mod port;
#[cfg(not(loom))]
pub mod privilege;

pub use error::{Error, ErrorKind, Result};
pub use frame::{Batch, Frame};
pub use mask::{Class, QueueMask, QueueSet};
pub use pool::{Pool, PoolConfig};
pub use wirelane_os::clock;
