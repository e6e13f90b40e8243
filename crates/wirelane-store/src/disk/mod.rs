//! Large aligned writes that bypass the page cache, several in flight.
//!
//! ```text
//!  Buffers ─take─▶ Buffer ─fill─▶ DirectWriter::write ─▶ the kernel ─▶ DirectWriter::done ─▶ Buffer
//!     ▲                                                                                      │
//!     └───────────────────────────────── drop ──────────────────────────────────────────────┘
//! ```
//!
//! A [`Buffer`] owns its memory alone, so whoever holds it may fill it, and while it is being
//! written nobody holds it. [`create`] makes the file, [`space`] tells what is left.

mod buffers;
mod file;
mod ring;
mod writer;

pub use buffers::{Buffer, Buffers};
pub use file::{ALIGNMENT, NewFile, Space, create, make_buffered, make_direct, space};
pub use ring::Rings;
pub use writer::{DirectWriter, Done, Mode};

#[cfg(test)]
mod testing;
