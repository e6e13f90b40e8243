//! tcpdump's filter language: one compiler, several engines that agree on every packet.
//!
//! ```text
//!  expression ─ libpcap ─▶ Program ─┬─ interpreter          anywhere, the reference
//!  tcpdump -ddd ─────────▶ checked  ├─ jit ─▶ machine code  sim:, file:, tap:
//!                          classic  ├─ translate ─▶ eBPF    the XDP program of xdp:
//!                                   └─ for_socket           the socket filter of packet:
//! ```
//!
//! An expression has the same meaning as for the kernel's filter on an interface, which keeps the
//! outer VLAN tag beside the packet. [`compile`] makes an equivalent program for the bytes of
//! packets ([`Program::for_bytes`]).
//!
//! A [`Program`] is classic BPF that obeys the kernel's rules, for packets of one link type. Every
//! engine and port runs it like libpcap's `bpf_filter`: a load past the end of the packet rejects
//! it, the sum of index and offset does not wrap, a division by 0 rejects, a shift by 32 or more
//! gives 0.
//!
//! This crate opens no interface: packets are bytes of the caller. It uses two features of the
//! system, executable memory and the library libpcap, both on Linux only; the rest works
//! everywhere.
//!
//! ```
//! use wirelane_filter::jit::Jit;
//! use wirelane_filter::{Interpreter, Packet, Program};
//!
//! # fn main() -> wirelane_filter::Result<()> {
//! // What `tcpdump -ddd arp` prints; `compile("arp", 1, 65_535)` gives the same where libpcap is
//! // installed.
//! let arp = Program::parse(1, "4,40 0 0 12,21 0 1 2054,6 0 0 65535,6 0 0 0")?;
//!
//! let mut frame = [0; 60];
//! frame[12..14].copy_from_slice(&[0x08, 0x06]);
//! let packet = Packet { data: &frame, wire_len: 60, ..Packet::default() };
//!
//! // Bytes to keep; 0 rejects the packet.
//! assert_eq!(Interpreter::new(&arp)?.run(&packet), 65_535);
//! // The same as machine code, where there is any for this processor.
//! if let Ok(jit) = Jit::new(&arp) {
//!     assert_eq!(jit.run(&packet), 65_535);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | reading order | contents |
//! |---|---|
//! | [`op`], [`Program`] | one instruction; a checked program |
//! | [`compile`], [`Filter`] | making a program from the user's text |
//! | [`Interpreter`], [`jit`] | running a program in user space |
//! | [`translate`], [`Program::for_socket`] | passing a program to the kernel |
//!
//! The tests compare every engine on 800 expressions and on random programs (`tests/filter`). A
//! program of [`Filter::verbatim`] is attached to a socket once, unchanged.

mod check;
mod disassembly;
pub mod ebpf;
mod error;
mod expression;
mod facts;
mod fold;
mod instruction;
mod interpreter;
mod items;
pub mod jit;
#[cfg_attr(not(target_os = "linux"), path = "no_libpcap.rs")]
#[doc(hidden)]
pub mod libpcap;
pub mod links;
pub mod op;
mod packet;
mod program;
mod question;
mod socket;
mod source;
mod tag;
mod tags;
mod translate;
mod writer;

pub use self::check::MAX_INSTRUCTIONS;
pub use self::error::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use self::error::{ErrorParts, Refused};
pub use self::expression::compile;
pub use self::instruction::Instruction;
pub use self::interpreter::Interpreter;
pub use self::packet::{Metadata, Packet};
pub use self::program::Program;
pub use self::source::Filter;
pub use self::translate::{Buffers, Ending, translate};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
