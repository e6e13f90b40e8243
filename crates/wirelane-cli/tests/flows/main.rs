//! `wirelane flows`, beside an oracle of what tshark says of each packet.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod bad_input;
mod export;
mod generated;
mod live;
mod oracle;
mod queues;
mod real;
