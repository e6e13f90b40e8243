//! Trials through a device under test between two ports, and searches for the highest rate that it
//! forwards.
//!
//! ```text
//!   Goal ─▶ Search ── rate, duration ──▶ trial ─▶ sent, lost ─┐
//!             ▲                                               │
//!             └──────────────────── tell ─────────────────────┘
//! ```
//!
//! The search only decides. Its caller runs the trials.
//!
//! A trial stops sending, waits until no packet arrives, and then reads the counters. `wirelane
//! bench noloss` uses the same search.
mod campaign;
mod goal;
mod report;
mod search;
mod streams;
mod tally;
mod tester;
mod traffic;

pub use self::campaign::{Campaign, Step, Tests};
pub use self::goal::{Goal, Shot};
pub use self::report::{
    BackToBack, Delay, Flow, LossPoint, Report, SizeReport, Summary, Throughput, Way,
};
pub use self::search::{Found, Method, Probe, Search};
pub use self::streams::Streams;
pub use self::tester::{Direction, Moment, Passage, Stream, Tester};
pub use self::traffic::{Ends, Load, Network, Traffic, Udp};
