//! Two-way flows: who talked to whom, since when, how much, and how well.
//!
//! A [`Flow`] holds both directions of a conversation. Names of fields follow IPFIX (RFC 7012, RFC 5103).
#![forbid(unsafe_code)]

mod flow;
pub mod ipfix;
mod key;

pub use flow::{EndReason, Flow, Half};
pub use key::{Key, Tunnel, TunnelKind};
