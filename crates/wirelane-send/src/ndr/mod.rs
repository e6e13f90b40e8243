//! Trials through what lies between two ports, and searches for the highest rate that it carries.
//!
//! ```text
//!   Goal ─▶ Search ── rate, duration ──▶ trial ─▶ sent, lost ─┐
//!             ▲                                               │
//!             └──────────────────── tell ─────────────────────┘
//! ```
//!
//! The search only decides: it sends nothing, and whoever runs the trials may be anybody.
mod goal;
mod search;

pub use self::goal::{Goal, Shot};
pub use self::search::{Found, Method, Probe, Search};
