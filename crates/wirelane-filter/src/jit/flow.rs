//! Converts a classic program to a graph that is cheap to run, by using the facts known at each
//! instruction and removing dead code.
//!
//! Jumps go forward only, so one pass in order visits every predecessor first, and one backward
//! pass visits every successor first:
//!
//! 1. Forward: known values of A and X (a constant, or masked bytes of the packet at a fixed
//!    offset), and the least length of a packet that gets here. Redundant length checks are removed;
//!    comparisons of bytes in the packet no longer need A; comparisons of constants are decided.
//! 2. Backward: loads and arithmetic whose result is never read are dropped.
//! 3. Forward: chains of comparisons for equality that lead to the same place, as in
//!    `host a or host b or …`, become one test of membership per field.

use super::graph::{Node, end};
use super::{dead, forward, sets};
use crate::op::{Op, Width};

/// The program as a graph, for packets of at least a given length.
pub(super) struct Graph {
    /// In order: every edge leads to a larger index. The entry is the first node.
    pub(super) nodes: Vec<Node>,
    /// Registers and cells that must be 0 at the start: bits 0 to 15 scratch memory,
    /// [`A`](super::graph::A), [`X`](super::graph::X).
    pub(super) cleared: u32,
}

impl Graph {
    /// The graph of a checked program for packets of at least `shortest` bytes; `None` if it reads
    /// unsupported data.
    pub(super) fn new(program: &[Op], shortest: i32) -> Option<Self> {
        let mut nodes = forward::run(program, shortest)?;
        let cleared = dead::drop(&mut nodes);
        sets::join(&mut nodes);
        Some(Self { nodes, cleared })
    }
}

/// The end of the fixed-offset loads that a packet of `limit` bytes satisfies.
pub(super) fn reach(program: &[Op], limit: i32) -> i32 {
    let ends = program.iter().filter_map(|op| match op {
        Op::LoadAbsolute(width, offset) => end(*offset, *width),
        Op::LoadXHeader(offset) => end(*offset, Width::Byte),
        _ => None,
    });
    ends.filter(|end| *end <= limit).max().unwrap_or(0)
}
