//! Sessions: what the commands `capture` and `forward` run, from open ports to the final counts.

pub mod capture;
pub mod comment;
pub mod forward;
pub mod interfaces;
pub mod monitor;
pub mod receiving;
mod viewed;
