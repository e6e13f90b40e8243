//! What is measured: the loops behind `wirelane bench` and `cargo bench`, as functions that
//! return plain numbers; and the suites of `wirelane bench`, which return rows.

pub mod beside;
pub mod capture;
pub mod compare;
pub mod control;
pub mod environment;
pub mod filter;
pub mod gso;
pub mod leftovers;
pub mod noloss;
pub mod peers;
pub mod promises;
pub mod qdisc;
pub mod quiet;
pub mod report;
pub mod ring;
mod rounds;
pub mod rte_ring;
pub mod scalability;
pub mod scaling;
pub mod segment;
pub mod sockets;
pub mod suite;
