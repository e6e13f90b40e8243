//! Capture files: pcapng and pcap, read and written, with gzip and zstd; rotation; merging by time.
//!
//! Reading order: [`Record`] and [`Source`] say what a packet and its interface are; [`pcapng`] and [`pcap`] turn
//! them into bytes and back; [`CaptureReader`] opens a file of any kind; [`CaptureWriter`] writes one file or a
//! rotation of files through an [`Output`]; [`WindowMerge`] orders queues by time while a capture runs, and
//! [`merge_files`] does it exactly afterwards.
//!
//! Nothing here knows ports, frames or threads, and nothing reads a clock: time is passed in.
//!
//! # Why not an existing crate
//!
//! `pcap-parser` (a reader) and `pcap-file` (a reader and writer) are well kept, and `benches/capture_file.rs`
//! compares with them. See there for what was measured and why this module has its own code.

mod compress;
mod error;
mod input;
pub mod live;
mod merge;
mod output;
pub mod pcap;
pub mod pcapng;
mod reader;
mod record;
mod rotate;
mod window;
mod writer;

pub use compress::Compression;
pub use error::CaptureError;
pub use merge::{MergeReport, MergedInput, merge_files};
pub use output::Output;
pub use reader::CaptureReader;
pub use record::{Direction, LINK_TYPE_ETHERNET, Record, Section, Source, Statistics};
pub use rotate::{Rotation, parse_size, split_name};
pub use window::WindowMerge;
pub use writer::{CaptureWriter, FileFormat, WriterOptions, Written};

#[cfg(test)]
mod tests;
