//! `wirelane extract` and `wirelane pin` as a user sees them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod answers;
mod bad_input;
mod hostile;
mod pins;
mod store;
