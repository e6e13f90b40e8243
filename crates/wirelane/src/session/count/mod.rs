//! Counts packets by protocol, host, port, VLAN, flow and queue.
//!
//! ```text
//!  Rx of queue 0 ─▶ worker 0: headers ─▶ keys ─▶ tables ─▶┐
//!  Rx of queue 1 ─▶ worker 1: headers ─▶ keys ─▶ tables ─▶├─▶ joined on demand, and at the end
//!  Rx of OTHER   ─▶ worker 0                              ┘
//! ```
//!
//! Each thread decodes a packet once for all tables, and shares no table. A request for the counts
//! asks every thread for its tables: the thread hands them over at no cost, and continues with
//! empty tables. The memory of all tables is bounded; packets whose key finds no room are counted
//! together.
//!
//! ```
//! use std::time::Duration;
//! use wirelane::port::{self, OpenOptions};
//! use wirelane::session::count::{By, CountConfig, Counting, Key};
//!
//! # fn main() -> wirelane::Result<()> {
//! let port = port::open(&"sim:2?count=1000".parse()?, &OpenOptions::default())?;
//! let config = CountConfig::default().by([By::Proto]);
//! let counting = Counting::start(vec![port], &config)?;
//! while !counting.wait(Duration::from_secs(1)) {}
//! let outcome = counting.join();
//! let [proto] = outcome.tables.as_slice() else { unreachable!() };
//! assert_eq!(proto.rows.iter().map(|row| row.all().packets).sum::<u64>(), 1000);
//! # Ok(())
//! # }
//! ```
//!
//! Live tables, SIGUSR1 and the end of the session use the same operation.

mod by;
mod counting;
pub(crate) mod decode;
mod in_order;
mod key;
mod sum;
mod table;
mod tables;
mod teller;

pub use self::by::By;
pub use self::counting::{CountConfig, CountOutcome, Counting};
pub use self::key::{Endpoint, Key};
pub use self::sum::{Load, Sum};
pub use self::tables::{Counts, Row};
