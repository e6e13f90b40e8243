//! SQL on a cluster: a scheduler, two executors and an S3 server, all of this test.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod answers;
mod failures;
#[path = "../shared/foreign.rs"]
mod foreign;
mod machines;
#[path = "../shared/s3.rs"]
mod s3;
