//! Two-way flows: endpoints, times, packet and byte counts, and TCP quality.
//!
//! A [`Flow`] has both directions of a conversation. Field names follow IPFIX (RFC 7012, RFC 5103).
//!
//! ```text
//!  packets of a queue ─▶ Meter ─ flows that ended ─▶┐
//!  packets of a queue ─▶ Meter ─ flows that ended ─▶┴─▶ joined by conversation ─▶ Sink: text, IPFIX, …
//! ```
//!
//! A [`Meter`] is the flow table of one thread. Tables share only their [`Room`], the limit on
//! memory.
//!
//! Reading order: `packet`, `plain`, `table`, `meter`, `join`, `session`.
#![forbid(unsafe_code)]

#[cfg(feature = "arrow")]
pub mod arrow;
mod community;
mod compact;
mod fields;
mod fitting;
mod flow;
mod holes;
mod icmp;
pub mod ipfix;
mod join;
mod key;
mod meter;
mod packet;
mod parts;
mod plain;
mod sequences;
pub mod session;
mod sink;
mod table;
mod text;
mod trace;
mod tunnels;

pub use community::{community_digest, write_community_id};
pub use fields::Fields;
pub use flow::{EndReason, Flow, Half};
pub use key::{Key, Tunnel};
pub use meter::{Meter, MeterConfig, MeterCounts};
pub use packet::Packet;
pub use sink::{Hurry, Sink};
pub use table::Room;
pub use text::{Text, TextFormat};
pub use wirelane_wire::TunnelKind;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
