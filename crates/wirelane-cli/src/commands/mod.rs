//! One file per command.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod convert;
mod copying;
pub(crate) mod count;
pub(crate) mod exec;
pub(crate) mod extract;
pub(crate) mod filter;
pub(crate) mod flows;
pub(crate) mod forward;
pub(crate) mod lab;
pub(crate) mod mask;
pub(crate) mod merge;
pub(crate) mod ndr;
pub(crate) mod offload;
pub(crate) mod pin;
pub(crate) mod ports;
pub(crate) mod query;
pub(crate) mod queues;
pub(crate) mod record;
pub(crate) mod send;
pub(crate) mod stats;
pub(crate) mod trigger;
pub(crate) mod verify;
