//! Filters: tcpdump's language, one compiler, several engines that agree on every packet.
//!
//! ```text
//!  expression ─ libpcap ─▶ Program ─┬─ interpreter          anywhere, the reference
//!  tcpdump -ddd ─────────▶ checked  ├─ jit ─▶ machine code  sim:, file:, tap:
//!                          classic  ├─ translate ─▶ eBPF    the XDP program of xdp:
//!                                   └─ for_socket           the socket filter of packet:
//! ```
//!
//! A [`Program`] is classic BPF that keeps the kernel's rules, for packets of one link type. Its
//! meaning is that of libpcap's `bpf_filter`, on every engine and port: a load past the end of the
//! packet rejects it, the sum of index and offset does not wrap, a division by 0 rejects, a shift by
//! 32 or more gives 0.

mod check;
mod compare;
mod disassembly;
mod error;
mod expression;
mod facts;
mod interpreter;
pub mod jit;
pub mod op;
mod packet;
mod program;
mod socket;
mod source;
mod translate;

pub use self::check::MAX_INSTRUCTIONS;
pub use self::compare::{Comparison, Count};
pub use self::error::{Error, ErrorKind, ErrorParts, Result};
pub use self::expression::{ExpressionError, compile};
pub use self::interpreter::Interpreter;
pub use self::packet::{Metadata, Packet};
pub use self::program::Program;
pub use self::source::Filter;
pub use self::translate::{Buffers, Ending, translate};
pub use wirelane_os::packet::SockFilter as Instruction;
