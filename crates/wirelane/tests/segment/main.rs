//! Segmentation: every rule by name, the kernel as an oracle, and properties over random frames.
#![allow(clippy::unwrap_used)]

mod audit;
mod frames;
mod harness;
mod odd;
mod oracle;
mod partial;
mod properties;
mod rules;
mod sinks;
mod verify;
