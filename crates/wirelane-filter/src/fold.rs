//! Shortens a program that was rewritten for bytes: folds constants, decides comparisons of
//! constants, and removes unreachable code and unread results.
//!
//! libpcap's programs with `vlan` store the start of the headers in scratch memory. With the tag at
//! a fixed place, that start is a constant, so loads have constant offsets again.

use crate::items::{ItemLabel, Items, ProgramItem};
use crate::op::{Alu, Cond, MEMORY_CELLS, Op, Operand};
use crate::packet::VISIBLE;

/// Folds and shortens `items`.
pub(crate) fn fold(items: &mut Items) {
    decide(items);
    drop_unread(items);
}

/// The known values of registers and cells before an item.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KnownCells {
    a: Option<u32>,
    x: Option<u32>,
    cells: [Option<u32>; MEMORY_CELLS as usize],
}

impl KnownCells {
    const AT_FIRST: Self = Self { a: Some(0), x: Some(0), cells: [None; MEMORY_CELLS as usize] };

    fn meet(self, other: Self) -> Self {
        let same = |one: Option<u32>, two: Option<u32>| one.filter(|_| one == two);
        Self {
            a: same(self.a, other.a),
            x: same(self.x, other.x),
            cells: std::array::from_fn(|cell| same(self.cells[cell], other.cells[cell])),
        }
    }

    fn cell(&self, cell: u32) -> Option<u32> {
        self.cells.get(cell as usize).copied().flatten()
    }

    fn set_cell(&mut self, cell: u32, value: Option<u32>) {
        if let Some(slot) = self.cells.get_mut(cell as usize) {
            *slot = value;
        }
    }

    /// The simplified operation, and the state after it.
    fn after(mut self, op: Op) -> (Op, Self) {
        let number = |value: Option<u32>| value.map_or(op, Op::LoadImmediate);
        let number_x = |value: Option<u32>| value.map_or(op, Op::LoadXImmediate);
        let known = match op {
            Op::LoadImmediate(k) => {
                self.a = Some(k);
                op
            }
            Op::LoadXImmediate(k) => {
                self.x = Some(k);
                op
            }
            Op::LoadMemory(cell) => {
                self.a = self.cell(cell);
                number(self.a)
            }
            Op::LoadXMemory(cell) => {
                self.x = self.cell(cell);
                number_x(self.x)
            }
            Op::Store(cell) => {
                self.set_cell(cell, self.a);
                op
            }
            Op::StoreX(cell) => {
                self.set_cell(cell, self.x);
                op
            }
            Op::Tax => {
                self.x = self.a;
                number_x(self.x)
            }
            Op::Txa => {
                self.a = self.x;
                number(self.a)
            }
            Op::Alu(alu, operand) => {
                let value = match operand {
                    Operand::K(k) => Some(k),
                    Operand::X => self.x,
                };
                self.a = self.a.zip(value).and_then(|(a, value)| compute(alu, a, value));
                number(self.a)
            }
            Op::LoadIndirect(width, k) => {
                self.a = None;
                let sum = self.x.and_then(|x| x.checked_add(k));
                let end = sum.and_then(|sum| sum.checked_add(width.bytes()));
                match (sum, end) {
                    (Some(sum), Some(end)) if end <= VISIBLE => Op::LoadAbsolute(width, sum),
                    _ => op,
                }
            }
            Op::LoadXHeader(_) | Op::LoadXLength => {
                self.x = None;
                op
            }
            _ => {
                self.a = None;
                op
            }
        };
        (known, self)
    }
}

/// `None` for operations that are not folded.
fn compute(alu: Alu, a: u32, operand: u32) -> Option<u32> {
    match alu {
        Alu::Add => Some(a.wrapping_add(operand)),
        Alu::Sub => Some(a.wrapping_sub(operand)),
        Alu::And => Some(a & operand),
        Alu::Or => Some(a | operand),
        _ => None,
    }
}

fn holds(cond: Cond, a: u32, operand: u32) -> bool {
    match cond {
        Cond::Equal => a == operand,
        Cond::Greater => a > operand,
        Cond::GreaterEqual => a >= operand,
        Cond::Set => a & operand != 0,
    }
}

/// Labels lead forward, so one walk from front to back finds the state that holds on every path to
/// an item.
fn decide(items: &mut Items) {
    let mut states: Vec<Option<KnownCells>> = vec![None; items.as_slice().len() + 1];
    if let Some(first) = states.first_mut() {
        *first = Some(KnownCells::AT_FIRST);
    }
    let mut decided = Vec::with_capacity(items.as_slice().len());
    for (at, item) in items.as_slice().iter().enumerate() {
        let Some(known) = states.get(at).copied().flatten() else {
            decided.push(None);
            continue;
        };
        let mut reach = |place: usize, state: KnownCells| {
            if let Some(slot) = states.get_mut(place) {
                *slot = Some(slot.map_or(state, |other| other.meet(state)));
            }
        };
        decided.push(Some(match *item {
            ProgramItem::Branch { cond, operand, yes, no } => {
                let operand = match (operand, known.x) {
                    (Operand::X, Some(x)) => Operand::K(x),
                    _ => operand,
                };
                if let (Some(a), Operand::K(k)) = (known.a, operand) {
                    let to = if holds(cond, a, k) { yes } else { no };
                    reach(items.place_of(to), known);
                    ProgramItem::Jump(to)
                } else {
                    reach(items.place_of(yes), known);
                    reach(items.place_of(no), known);
                    ProgramItem::Branch { cond, operand, yes, no }
                }
            }
            ProgramItem::Jump(to) => {
                reach(items.place_of(to), known);
                *item
            }
            ProgramItem::Op(Op::Return(_) | Op::ReturnA) => *item,
            ProgramItem::Op(op) => {
                let (op, after) = known.after(op);
                reach(at + 1, after);
                ProgramItem::Op(op)
            }
        }));
    }
    items.edit(|at, _| decided.get(at).copied().flatten());
    // Remove jumps to the next item.
    let places: Vec<_> = items.as_slice().iter().map(|item| target(items, *item)).collect();
    items.edit(|at, item| (places.get(at) != Some(&Some(at + 1))).then_some(item));
}

fn target(items: &Items, item: ProgramItem) -> Option<usize> {
    match item {
        ProgramItem::Jump(to) => Some(items.place_of(to)),
        ProgramItem::Op(_) | ProgramItem::Branch { .. } => None,
    }
}

/// A set of registers and cells.
type Set = u32;
const A: Set = 1 << 16;
const X: Set = 1 << 17;

/// The registers and cells that an operation reads and writes, and whether it is free of other
/// effects: some operations may reject the packet.
fn effect(op: Op) -> (Set, Set, bool) {
    let of = |operand| if operand == Operand::X { X } else { 0 };
    match op {
        Op::LoadAbsolute(..) => (0, A, false),
        Op::LoadIndirect(..) => (X, A, false),
        Op::LoadXHeader(_) => (0, X, false),
        Op::LoadAncillary(_) => (0, A, false),
        Op::LoadImmediate(_) | Op::LoadLength => (0, A, true),
        Op::LoadXImmediate(_) | Op::LoadXLength => (0, X, true),
        Op::LoadMemory(cell) => (1 << cell, A, true),
        Op::LoadXMemory(cell) => (1 << cell, X, true),
        Op::Store(cell) => (A, 1 << cell, true),
        Op::StoreX(cell) => (X, 1 << cell, true),
        Op::Alu(Alu::Div | Alu::Mod, Operand::X) => (A | X, A, false),
        Op::Alu(_, operand) => (A | of(operand), A, true),
        Op::Negate => (A, A, true),
        Op::Tax => (A, X, true),
        Op::Txa => (X, A, true),
        Op::ReturnA => (A, 0, false),
        Op::Return(_) | Op::Jump(_) | Op::Branch { .. } => (0, 0, false),
    }
}

/// Drops values that are overwritten before they are read.
fn drop_unread(items: &mut Items) {
    let slice = items.as_slice();
    let mut live: Vec<Set> = vec![0; slice.len() + 1];
    let mut is_dead = vec![false; slice.len()];
    for (at, item) in slice.iter().enumerate().rev() {
        let next = |label: ItemLabel| live.get(items.place_of(label)).copied().unwrap_or(Set::MAX);
        let after = live.get(at + 1).copied().unwrap_or(Set::MAX);
        let before = match *item {
            ProgramItem::Branch { operand, yes, no, .. } => {
                next(yes) | next(no) | A | if operand == Operand::X { X } else { 0 }
            }
            ProgramItem::Jump(to) => next(to),
            ProgramItem::Op(Op::Return(_)) => 0,
            ProgramItem::Op(Op::ReturnA) => A,
            ProgramItem::Op(op) => {
                let (reads, writes, is_pure) = effect(op);
                if is_pure && after & writes == 0 {
                    if let Some(dead) = is_dead.get_mut(at) {
                        *dead = true;
                    }
                    after
                } else {
                    after & !writes | reads
                }
            }
        };
        if let Some(slot) = live.get_mut(at) {
            *slot = before;
        }
    }
    items.edit(|at, item| (is_dead.get(at) != Some(&true)).then_some(item));
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
        assert_eq!(ops, [queue, Op::ReturnA]);
    }
}
