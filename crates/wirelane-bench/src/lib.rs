//! The suites of `wirelane bench`, the rows that they produce, and the reports made of them.
//!
//! An implementation detail of Wirelane: its items are not a stable API, and may change in any
//! release.

pub mod changes;
mod command;
pub mod comparison;
mod effort;
pub mod environment;
mod estimate;
pub mod job;
pub mod machine;
pub mod page;
pub mod peers;
pub mod published;
pub mod report;
pub mod row;
pub mod run;
pub mod statistics;
pub mod suite;
pub mod suites;
pub mod targets;
pub mod task;
pub mod wire;

pub use self::command::{command, main};
pub use self::effort::Effort;
