//! Records a port into a store: every queue in parallel, without loss, for days.
//!
//! ```text
//!  Rx of queue 0 ─▶ worker 0 ─▶ lane 0 ─▶┐
//!  Rx of queue 1 ─▶ worker 1 ─▶ lane 1 ─▶├─▶ store: segments and their indexes
//!  Rx of OTHER   ─▶ worker 0 ─▶ lane 0 ─▶┘
//! ```
//!
//! For the first packets of several queues, one thread behind a merge by time writes one lane.
//!
//! A worker copies each packet once, encoded, into the memory of its lane and gives the frame back.
//! The store's own threads write. When the disk falls behind there is no memory left, and the
//! packet is counted as a `writer` drop. A port that waits for its consumer (a simulated source at
//! full rate, a file) waits instead. A full or failed disk does not end a recording, which
//! continues as soon as it can.
//!
//! ```
//! use std::time::Duration;
//! use wirelane::port::{self, OpenOptions};
//! use wirelane_store::record::{RecordConfig, Recording};
//!
//! # fn main() -> wirelane::Result<()> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let port = port::open(&"sim:2?count=1000".parse()?, &OpenOptions::default())?;
//! let recording = Recording::start(port, directory, &RecordConfig::default())?;
//! while !recording.wait(Duration::from_secs(1)) {}
//! let outcome = recording.join();
//! assert_eq!(outcome.store.total().written.packets, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! Recording is not a module of `wirelane`: if the library depended on the store, each change of
//! the store would compile the library again.

mod config;
mod journal;
mod order;
mod recording;
mod trigger;
mod worker;

pub use self::config::{RecordConfig, RecordOutcome, TriggerConfig};
pub use self::recording::Recording;
pub use self::trigger::Trigger;
