//! The program, alone and behind `wirelane flows -w`.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod flows;
#[path = "../shared/foreign.rs"]
mod foreign;
mod made;
mod packets;
mod query;
mod rows;
mod sink;
