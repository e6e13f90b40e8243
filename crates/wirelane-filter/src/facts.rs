//! Facts at each instruction of a program that hold on every path to it.
//!
//! Classic jumps lead forward only, so one walk from front to back finds the facts of every
//! instruction: whether it is reachable (the verifier rejects dead code), how many bytes of the
//! packet are known to be present (which saves checks), and the largest value of X (the verifier
//! needs a bound before X is added to a packet pointer).

use crate::op::{Ancillary, Op, Width};

/// Facts before an instruction that hold on every path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The packet has at least this many bytes.
    pub(crate) present: u32,
    /// X is at most this, and the verifier can prove it.
    pub(crate) x_most: u32,
}

/// The facts of each instruction.
pub(crate) struct InstructionFacts(Vec<Option<Fact>>);

impl InstructionFacts {
    /// Gathers the facts of `ops`, for packets of which at most `limit` bytes are visible.
    pub(crate) fn gather(ops: &[Op], limit: u32) -> Self {
        let mut facts = Self(vec![None; ops.len()]);
        facts.meet(0, Fact { present: 0, x_most: 0 });
        for (at, op) in ops.iter().enumerate() {
            let Some(mut fact) = facts.get(at) else { continue };
            let next = at + 1;
            match *op {
                Op::Return(_) | Op::ReturnA => continue,
                Op::Jump(skip) => {
                    facts.meet(next + skip as usize, fact);
                    continue;
                }
                Op::Branch { jt, jf, .. } => {
                    facts.meet(next + usize::from(jt), fact);
                    facts.meet(next + usize::from(jf), fact);
                    continue;
                }
                Op::LoadAbsolute(width, k) => match end(k, width, limit) {
                    Some(end) => fact.present = fact.present.max(end),
                    None => continue,
                },
                Op::LoadXHeader(k) => match end(k, Width::Byte, limit) {
                    Some(end) => {
                        fact.present = fact.present.max(end);
                        fact.x_most = 4 * 0xf;
                    }
                    None => continue,
                },
                Op::LoadIndirect(width, k) if end(k, width, limit).is_none() => continue,
                Op::LoadAncillary(Ancillary::Protocol) => fact.present = fact.present.max(16),
                Op::LoadXImmediate(k) => fact.x_most = k,
                Op::LoadXMemory(_) | Op::LoadXLength | Op::Tax => fact.x_most = u32::MAX,
                _ => {}
            }
            facts.meet(next, fact);
        }
        facts
    }

    /// Merges the facts of another path to instruction `at`.
    fn meet(&mut self, at: usize, other: Fact) {
        if let Some(slot) = self.0.get_mut(at) {
            let known = slot.unwrap_or(other);
            *slot = Some(Fact {
                present: known.present.min(other.present),
                x_most: known.x_most.max(other.x_most),
            });
        }
    }

    /// The largest possible value of X before instruction `at`.
    pub(crate) fn x_most(&self, at: usize) -> u32 {
        self.get(at).map_or(u32::MAX, |fact| fact.x_most)
    }

    /// `None` if the instruction is unreachable.
    pub(crate) fn get(&self, at: usize) -> Option<Fact> {
        self.0.get(at).copied().flatten()
    }
}

/// The end of a load; `None` if it is beyond the visible bytes, so that the load rejects.
pub(crate) fn end(k: u32, width: Width, limit: u32) -> Option<u32> {
    k.checked_add(width.bytes()).filter(|end| *end <= limit)
}
