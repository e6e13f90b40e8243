//! Trials through a device under test between two ports, and searches for the highest rate that it
//! forwards.
//!
//! ```text
//!   Goal ─▶ RateSearch ── rate, duration ──▶ trial ─▶ sent, lost ─┐
//!               ▲                                                 │
//!               └───────────────────── tell ──────────────────────┘
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

pub use self::campaign::{Campaign, CampaignStep, Tests};
pub use self::goal::{Goal, Shot};
pub use self::report::{
    BackToBack, DirectionReport, LatencySummary, LossPoint, NdrReport, SizeReport, StreamReport,
    Throughput, TrialSummary,
};
pub use self::search::{GoalResult, Method, Probe, RateSearch};
pub use self::streams::Streams;
pub use self::tester::{Passage, StreamResult, TestDirection, Tester, TrialMoment};
pub use self::traffic::{NetworkAddresses, Traffic, TrafficEnds, TrialLoad, UdpStream};
