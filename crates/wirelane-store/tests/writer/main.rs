//! Stores written to real directories, on the disk (direct I/O) and in memory (none), and read back
//! with the reader of capture files.

#![allow(clippy::unwrap_used)]

mod limits;
mod packets;
mod pre_trigger;
mod random;
mod scratch;
mod trouble;
