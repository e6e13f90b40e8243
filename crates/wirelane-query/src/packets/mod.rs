//! The table `packets`: a row for each packet of capture files and of directories of
//! `wirelane record`.
//!
//! ```text
//!  WHERE ─▶ PacketSelection ─┬─ times, bpf('…')        exact: no other packet becomes a row
//!                            └─ addresses, ports, …    an Ask: which extents and packets may match
//!
//!  store ─ index of Ask ─▶ extents ─┐
//!  capture file ────────────────────┴▶ LinkFilters of Ask ─▶ rows: the named columns ─▶ the engine
//! ```
//!
//! The engine filters the rows again: an [`ask::Ask`] may let through too many packets, never too
//! few.
//!
//! The operator has a partition for each capture file, and one for all stores. Index and filter
//! look at outer headers only, while columns describe the contents of tunnels. So both
//! over-approximate, and the engine filters again. One thread per partition reads, and ends when
//! the query drops its stream. Unreadable data is collected in the session and reported after the
//! answer.

mod ask;
mod asked;
mod bpf;
mod file;
mod leftovers;
mod places;
mod rows;
mod scan;
mod sieve;
mod store;
mod stream;
mod table;

pub(crate) use bpf::function as bpf;
#[cfg(feature = "cluster")]
pub(crate) use bpf::named as function;
pub(crate) use leftovers::Leftovers;
#[cfg(feature = "cluster")]
pub(crate) use scan::PacketScan;
#[cfg(feature = "cluster")]
pub(crate) use table::PacketTable;
pub(crate) use table::table;

#[cfg(test)]
mod tests;
