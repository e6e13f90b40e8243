//! Two-way flows: who talked to whom, since when, how much, and how well.
//!
//! A [`Flow`] holds both directions of a conversation. Names of fields follow IPFIX (RFC 7012, RFC
//! 5103).
//!
//! ```text
//!  packets of a queue ─▶ Meter ─ flows that ended ─▶┐
//!  packets of a queue ─▶ Meter ─ flows that ended ─▶┴─▶ joined by conversation ─▶ Sink: text, IPFIX, …
//! ```
//!
//! A [`Meter`] is the table of one thread: it shares nothing with others but the [`Room`] that they
//! take memory from.
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
