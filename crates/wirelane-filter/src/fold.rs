//! Makes what was written shorter: comparisons of what is known lead one way, what nothing leads to goes, and so do
//! numbers that nobody reads.

use crate::items::{Item, Items, Label};
use crate::op::{Alu, Cond, Op, Operand};

/// What is known of A before an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing leads to it.
    Unreached,
    Number(u32),
    Nothing,
}

impl Known {
    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Known::Unreached, known) | (known, Known::Unreached) => known,
            (one, two) if one == two => one,
            _ => Known::Nothing,
        }
    }
}

/// Shortens `items`.
pub(crate) fn fold(items: &mut Items) {
    decide(items);
    drop_numbers(items);
}

/// Labels lead forward, so one walk from front to back knows what holds on every way to an item.
fn decide(items: &mut Items) {
    let mut known = vec![Known::Unreached; items.as_slice().len() + 1];
    if let Some(first) = known.first_mut() {
        *first = Known::Number(0);
    }
    let mut decided = Vec::with_capacity(items.as_slice().len());
    for (at, item) in items.as_slice().iter().enumerate() {
        let a = known.get(at).copied().unwrap_or(Known::Nothing);
        let mut reach = |place: usize, state: Known| {
            if let Some(slot) = known.get_mut(place) {
                *slot = slot.meet(state);
            }
        };
        decided.push(match (a, *item) {
            (Known::Unreached, _) => None,
            (Known::Number(a), Item::Branch { cond, operand: Operand::K(k), yes, no }) => {
                let to = if holds(cond, a, k) { yes } else { no };
                reach(items.place_of(to), Known::Number(a));
                Some(Item::Jump(to))
            }
            (_, Item::Branch { yes, no, .. }) => {
                reach(items.place_of(yes), a);
                reach(items.place_of(no), a);
                Some(*item)
            }
            (_, Item::Jump(to)) => {
                reach(items.place_of(to), a);
                Some(*item)
            }
            (_, Item::Op(Op::Return(_) | Op::ReturnA)) => Some(*item),
            (_, Item::Op(op)) => {
                reach(at + 1, after(op, a));
                Some(*item)
            }
        });
    }
    items.edit(|at, _| decided.get(at).copied().flatten());
    // A jump to what follows it.
    let places: Vec<_> = items.as_slice().iter().map(|item| target(items, *item)).collect();
    items.edit(|at, item| (places.get(at) != Some(&Some(at + 1))).then_some(item));
}

fn target(items: &Items, item: Item) -> Option<usize> {
    match item {
        Item::Jump(to) => Some(items.place_of(to)),
        Item::Op(_) | Item::Branch { .. } => None,
    }
}

/// What is known of A after an operation.
fn after(op: Op, a: Known) -> Known {
    match (op, a) {
        (Op::LoadImmediate(k), _) => Known::Number(k),
        (Op::Alu(Alu::And, Operand::K(k)), Known::Number(a)) => Known::Number(a & k),
        (
            Op::LoadXImmediate(_)
            | Op::LoadXMemory(_)
            | Op::LoadXLength
            | Op::LoadXHeader(_)
            | Op::Store(_)
            | Op::StoreX(_)
            | Op::Tax,
            a,
        ) => a,
        _ => Known::Nothing,
    }
}

fn holds(cond: Cond, a: u32, k: u32) -> bool {
    match cond {
        Cond::Equal => a == k,
        Cond::Greater => a > k,
        Cond::GreaterEqual => a >= k,
        Cond::Set => a & k != 0,
    }
}

/// Drops numbers in A that are overwritten before they are read.
fn drop_numbers(items: &mut Items) {
    let slice = items.as_slice();
    let mut read = vec![false; slice.len() + 1];
    for (at, item) in slice.iter().enumerate().rev() {
        let next = |label: Label| read.get(items.place_of(label)).copied().unwrap_or(true);
        let is_read = match *item {
            Item::Branch { .. } => true,
            Item::Jump(to) => next(to),
            Item::Op(Op::Return(_)) => false,
            Item::Op(Op::Store(_) | Op::Alu(..) | Op::Negate | Op::ReturnA | Op::Tax) => true,
            Item::Op(
                Op::LoadAbsolute(..)
                | Op::LoadIndirect(..)
                | Op::LoadAncillary(_)
                | Op::LoadImmediate(_)
                | Op::LoadMemory(_)
                | Op::LoadLength
                | Op::Txa,
            ) => false,
            Item::Op(_) => read.get(at + 1).copied().unwrap_or(true),
        };
        if let Some(slot) = read.get_mut(at) {
            *slot = is_read;
        }
    }
    items.edit(|at, item| match item {
        // A is 0 at first; nobody reads that either.
        Item::Op(Op::LoadImmediate(_)) if !read.get(at + 1).copied().unwrap_or(true) => None,
        item => Some(item),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_asked() {
        let mut items = Items::default();
        let (tagged, other, end) = (items.label(), items.label(), items.label());
        items.push(Op::LoadImmediate(1));
        items.branch(Cond::Equal, 1, tagged, other);
        items.place(other);
        items.push(Op::LoadLength);
        items.jump(end);
        items.place(tagged);
        items.push(Op::LoadImmediate(0x6005));
        items.push(Op::Alu(Alu::And, Operand::K(0xfff)));
        items.leave_if(Cond::Greater, 5, end);
        items.push(Op::LoadAncillary(crate::op::Ancillary::Queue));
        items.place(end);
        items.push(Op::ReturnA);
        fold(&mut items);
        let ops: Vec<_> = items.finish().into_iter().filter_map(Op::decode).collect();
        let queue = Op::LoadAncillary(crate::op::Ancillary::Queue);
        let mask = Op::Alu(Alu::And, Operand::K(0xfff));
        assert_eq!(ops, [Op::LoadImmediate(0x6005), mask, queue, Op::ReturnA]);
    }
}
