//! Decides where a program for tags beside packets tests for a tag in the bytes.
//!
//! The test is as late as possible. Most programs begin with comparisons of the type
//! (`ldh [12]; jeq #0x800`). A comparison that is true proves that there is no tag, so only the
//! last false comparison leads to the test.

use crate::items::{ItemLabel, Items, ProgramItem};
use crate::op::{Ancillary, Cond, Op, Operand, Width};
use crate::tag::{TPIDS, TagPlace};

pub(crate) struct TagTest {
    pub(crate) tag_at: u32,
    /// The tag of a packet whose bytes contain no tag.
    pub(crate) plain: TagPlace,
    /// Start of the program for a tag in the bytes.
    pub(crate) in_bytes: ItemLabel,
}

impl TagTest {
    /// Tests for a tag before all other instructions.
    pub(crate) fn first(&self, items: &mut Items) {
        let without = items.label();
        items.push(Op::LoadAbsolute(Width::Half, self.tag_at));
        self.ask(items, without);
        items.place(without);
    }

    /// A comparison of the type with `k`. Tests for a tag if `k` is a tag type, and after the last
    /// comparison.
    pub(crate) fn compare(
        &self,
        items: &mut Items,
        k: u32,
        (yes, no): (ItemLabel, ItemLabel),
        is_last: bool,
    ) {
        let (found, last) = (items.label(), items.label());
        let is_tag = TPIDS.contains(&k);
        let (then, otherwise) = (if is_tag { found } else { yes }, if is_last { last } else { no });
        items.add(ProgramItem::Branch {
            cond: Cond::Equal,
            operand: Operand::K(k),
            yes: then,
            no: otherwise,
        });
        items.place(found);
        if is_tag {
            self.lead(items, yes);
        }
        items.place(last);
        if is_last {
            // Most other types lack the bits that both tag types have in common.
            let (maybe, [one, other]) = (items.label(), TPIDS);
            items.branch(Cond::Set, one & other, maybe, no);
            items.place(maybe);
            self.ask(items, no);
        }
    }

    /// A is the type. Jumps to the program for a tag in the bytes if it is a tag type, otherwise to
    /// `without`, with A still the type.
    fn ask(&self, items: &mut Items, without: ItemLabel) {
        let found = items.label();
        let [one, other] = TPIDS;
        items.leave_if(Cond::Equal, one, found);
        items.branch(Cond::Equal, other, found, without);
        items.place(found);
        self.lead(items, without);
    }

    /// The type is a tag type.
    fn lead(&self, items: &mut Items, without: ItemLabel) {
        if self.plain == TagPlace::AsMeant {
            // The kernel removes at most one tag: this is the inner one.
            let inner = items.label();
            items.push(Op::LoadAncillary(Ancillary::VlanPresent));
            items.branch(Cond::Equal, 0, self.in_bytes, inner);
            items.place(inner);
            items.push(Op::LoadAbsolute(Width::Half, self.tag_at));
            items.jump(without);
        } else {
            items.jump(self.in_bytes);
        }
    }
}

/// The comparisons of the type at the start of a program.
pub(crate) fn chain(ops: &[Op], tag_at: u32) -> Vec<usize> {
    let is_comparison = |at: usize| {
        let op = ops.get(at);
        matches!(op, Some(Op::Branch { cond: Cond::Equal, operand: Operand::K(_), .. }))
    };
    let mut chain = Vec::new();
    if ops.first() != Some(&Op::LoadAbsolute(Width::Half, tag_at)) || !is_comparison(1) {
        return chain;
    }
    let mut at = 1;
    while let Some(Op::Branch { jf, .. }) = ops.get(at) {
        chain.push(at);
        let next = at + 1 + usize::from(*jf);
        // With another path to it, A may have another value.
        if !is_comparison(next) || ways(ops, next) != 1 {
            break;
        }
        at = next;
    }
    chain
}

/// The number of paths to an instruction.
fn ways(ops: &[Op], to: usize) -> usize {
    let ways = ops.iter().enumerate().take(to).map(|(at, op)| match *op {
        Op::Return(_) | Op::ReturnA => 0,
        Op::Jump(skip) => usize::from(at + 1 + skip as usize == to),
        Op::Branch { jt, jf, .. } => {
            [jt, jf].iter().filter(|skip| at + 1 + usize::from(**skip) == to).count()
        }
        _ => usize::from(at + 1 == to),
    });
    ways.sum()
}
