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
mod classic;
mod compare;
mod engine;
pub mod explain;
mod expression;
mod interpreter;
pub mod jit;
pub mod op;
mod socket;
mod source;
mod translate;

pub use self::check::MAX_INSTRUCTIONS;
pub use self::classic::Program;
pub use self::compare::{Comparison, Count, compare};
pub use self::engine::Engine;
pub use self::expression::{ExpressionError, compile};
pub use self::interpreter::Interpreter;
pub use self::source::Filter;
pub use self::translate::{Context, Ending, Target, translate};
pub use wirelane_os::packet::SockFilter as Instruction;

/// A packet as a filter sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet<'a> {
    /// The bytes present. Programs see no more than the first 2³¹ − 1 of them.
    pub data: &'a [u8],
    /// Bytes on the wire: what `len`, `greater` and `less` mean.
    pub wire_len: u32,
    /// What is known beside the bytes.
    pub metadata: Metadata,
}

/// What is known of a packet beside its bytes: what ancillary loads read.
///
/// VLAN tags are not here. Wirelane has them in the bytes of the packet, on every port, so the
/// ancillary fields of VLAN tags read as 0, "no tag beside the packet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The packet's queue. The kernel's socket filter has `skb->queue_mapping` instead, which most
    /// drivers shift by one.
    pub queue: u32,
    /// 4 (`PACKET_OUTGOING` of `linux/if_packet.h`) if the host sent it, otherwise 0.
    pub packet_type: u32,
    /// Index of the interface; 0 when there is none.
    pub interface_index: u32,
}
