//! Builds a program with labels instead of jump distances.

use crate::instruction::Instruction;
use crate::op::{Cond, Op, Operand};

/// A place in the new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemLabel(usize);

#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramItem {
    /// An operation other than a jump.
    Op(Op),
    Jump(ItemLabel),
    Branch {
        cond: Cond,
        operand: Operand,
        yes: ItemLabel,
        no: ItemLabel,
    },
}

/// The items written so far.
#[derive(Default)]
pub(crate) struct Items {
    items: Vec<ProgramItem>,
    /// By label, the index of the item that it marks.
    places: Vec<usize>,
}

impl Items {
    pub(crate) fn label(&mut self) -> ItemLabel {
        self.places.push(usize::MAX);
        ItemLabel(self.places.len() - 1)
    }

    /// Marks the next item with `label`.
    pub(crate) fn place(&mut self, label: ItemLabel) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = self.items.len();
        }
    }

    pub(crate) fn add(&mut self, item: ProgramItem) {
        self.items.push(item);
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.add(ProgramItem::Op(op));
    }

    pub(crate) fn jump(&mut self, label: ItemLabel) {
        self.add(ProgramItem::Jump(label));
    }

    pub(crate) fn branch(&mut self, cond: Cond, k: u32, yes: ItemLabel, no: ItemLabel) {
        self.add(ProgramItem::Branch { cond, operand: Operand::K(k), yes, no });
    }

    /// Jumps to `yes` if the comparison of A with `k` holds.
    pub(crate) fn leave_if(&mut self, cond: Cond, k: u32, yes: ItemLabel) {
        let on = self.label();
        self.branch(cond, k, yes, on);
        self.place(on);
    }

    pub(crate) fn as_slice(&self) -> &[ProgramItem] {
        &self.items
    }

    /// The index of the item that a label marks.
    pub(crate) fn place_of(&self, label: ItemLabel) -> usize {
        self.places.get(label.0).copied().unwrap_or(usize::MAX)
    }

    /// Replaces or removes each item.
    pub(crate) fn edit(&mut self, mut edit: impl FnMut(usize, ProgramItem) -> Option<ProgramItem>) {
        let mut kept = Vec::with_capacity(self.items.len());
        // For each item, the number of kept items before it.
        let mut moved = Vec::with_capacity(self.items.len() + 1);
        for (at, item) in self.items.iter().enumerate() {
            moved.push(kept.len());
            kept.extend(edit(at, *item));
        }
        moved.push(kept.len());
        for place in &mut self.places {
            *place = moved.get(*place).copied().unwrap_or(usize::MAX);
        }
        self.items = kept;
    }

    /// Fills in the distances. A conditional jump reaches 255 instructions; for longer distances,
    /// unconditional jumps follow it.
    pub(crate) fn finish(self) -> Vec<Instruction> {
        const REACH: usize = u8::MAX as usize;
        // For each item, whether its two jumps are long. The number of long jumps only grows, so
        // this ends.
        let mut long = vec![(false, false); self.items.len()];
        let starts = loop {
            let mut starts = Vec::with_capacity(self.items.len() + 1);
            let mut len = 0;
            for (yes, no) in &long {
                starts.push(len);
                len += 1 + usize::from(*yes) + usize::from(*no);
            }
            starts.push(len);
            let place = |label: ItemLabel| starts.get(self.place_of(label));
            let mut grew = false;
            for (at, item) in self.items.iter().enumerate() {
                if let ProgramItem::Branch { yes, no, .. } = item {
                    let far = |label| place(label).is_none_or(|to| to - starts[at] > REACH);
                    let now = (long[at].0 || far(*yes), long[at].1 || far(*no));
                    grew |= now != long[at];
                    long[at] = now;
                }
            }
            if !grew {
                break starts;
            }
        };
        let len = starts.last().copied().unwrap_or(0);
        let place = |label: ItemLabel| starts.get(self.place_of(label)).copied().unwrap_or(len);
        let skip = |from: usize, label: ItemLabel| (place(label) - from - 1) as u32;
        let mut program = Vec::with_capacity(len);
        for (item, (yes_long, no_long)) in self.items.iter().zip(&long) {
            let at = program.len();
            match item {
                ProgramItem::Op(op) => program.push(op.encode()),
                ProgramItem::Jump(label) => program.push(Op::Jump(skip(at, *label)).encode()),
                ProgramItem::Branch { cond, operand, yes, no } => {
                    let second = at + 1 + usize::from(*yes_long);
                    let jt = if *yes_long { 0 } else { skip(at, *yes) as u8 };
                    let jf = if *no_long { u8::from(*yes_long) } else { skip(at, *no) as u8 };
                    let (cond, operand) = (*cond, *operand);
                    program.push(Op::Branch { cond, operand, jt, jf }.encode());
                    if *yes_long {
                        program.push(Op::Jump(skip(at + 1, *yes)).encode());
                    }
                    if *no_long {
                        program.push(Op::Jump(skip(second, *no)).encode());
                    }
                }
            }
        }
        program
    }
}
