//! Filters: tcpdump's language, one compiler, several engines that agree on every packet.
//!
//! What needs no frames is a crate of its own, `wirelane-filter`; its items are here as well.

mod compare;
mod engine;
pub mod explain;

pub use self::compare::{Comparison, Count, compare};
pub use self::engine::Engine;
pub use wirelane_filter::{
    Context, Ending, ExpressionError, Filter, Instruction, Interpreter, MAX_INSTRUCTIONS, Metadata,
    Packet, Program, Target, compile, jit, op, translate,
};
