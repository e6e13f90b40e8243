//! Filters: tcpdump's language, one compiler, several engines that agree on every packet.
//!
//! What needs no frames is a crate of its own, `wirelane-filter`; its items are here as well.

mod engine;

pub use self::engine::Engine;
pub use wirelane_filter::{
    Buffers, Comparison, Count, Ending, ExpressionError, Filter, Instruction, Interpreter,
    MAX_INSTRUCTIONS, Metadata, Packet, Program, compile, jit, op, translate,
};
