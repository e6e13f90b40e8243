//! The program, alone and behind `wirelane flows -w`.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod files;
mod flows;
mod made;
mod query;
mod sink;
