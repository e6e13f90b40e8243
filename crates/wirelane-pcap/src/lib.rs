//! Capture files: pcapng and pcap, read and written, with gzip, lz4 and zstd; rotation; merging by
//! time.
//!
//! Reading order: [`Record`] and [`Source`] describe a packet and its interface; [`pcapng`] and
//! [`pcap`] encode and decode them; [`CaptureReader`] opens a file of any kind; [`CaptureWriter`]
//! writes one file or a rotation of files; [`merge_files`] merges finished files in order of time;
//! [`pipe`] reads sources that may be silent for a long time.
//!
//! This crate does not depend on ports or frames, and reads and writes files on every system.
//! Separate threads compress the output; the crate starts no other threads. Time is passed in; only
//! waiting for a pipe reads a clock.
//!
//! # Why not an existing crate
//!
//! `pcap-parser` 0.17 (a reader) and `pcap-file` 2.0 (a reader and writer) are well maintained, but
//! take two to three times as long per small packet. A capture at 100 Gbit/s has little time: a
//! 64-byte packet arrives every 6.7 ns. Medians of `benches/capture_file.rs` on one core of an AMD
//! EPYC, in ns per packet of 64 and of 1500 bytes:
//!
//! | | here | `pcap-parser` | `pcap-file` |
//! |---|---|---|---|
//! | read pcapng | 10.8, 62 | 32.1, 85 | 26.1, 93 |
//! | write pcapng | 6.3, 18 | - | 12.4, 23 |
//!
//! Reading 1500-byte packets is bound by copying them out of the source. Those crates also lack the
//! features that make up most of this code: any time resolution, sections, bounds on memory, and
//! errors with file offsets.

mod access;
mod cancel;
mod class;
#[cfg(feature = "compression")]
mod compress;
mod compression;
#[cfg(feature = "compression")]
mod decompress;
mod error;
mod fitting;
mod format;
#[cfg(feature = "compression")]
mod frame;
mod identity;
mod input;
mod keepsakes;
mod link_order;
mod losses;
mod merge;
mod options;
mod output;
mod packer;
pub mod pcap;
pub mod pcapng;
pub mod pipe;
mod reader;
mod record;
mod room;
mod rotate;
mod system;
#[cfg(not(feature = "compression"))]
mod uncompressed;
mod writer;

pub use access::Access;
pub use cancel::{Cancel, CancelSource};
pub use class::Class;
pub use compression::{Compression, CompressionOptions};
pub use error::CaptureError;
pub use format::FileFormat;
#[cfg(feature = "compression")]
pub use frame::{FrameCompressor, FrameDecompressor};
pub use identity::FileId;
pub use losses::Losses;
pub use merge::{MergeControl, MergeReport, MergedInput, Verdict, merge_files, merge_selected};
pub use options::WriterOptions;
pub use reader::CaptureReader;
pub use record::{Direction, LINK_TYPE_ETHERNET, OddTimes, Record, Section, Source, Statistics};
pub use room::Room;
pub use rotate::{Rotation, parse_size, split_name};
#[cfg(not(feature = "compression"))]
pub use uncompressed::{FrameCompressor, FrameDecompressor};
pub use writer::{CaptureWriter, Written};

#[cfg(test)]
#[cfg(feature = "compression")]
mod tests;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
