//! Flows in object stores, and the files as other programs read them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod cost;
mod flows;
mod packets;
mod readers;
#[path = "../shared/s3.rs"]
mod s3;
