//! Random programs that keep the kernel's rules.

use wirelane_filter::Program;
use wirelane_filter::op::{Alu, Ancillary, Cond, Op, Operand, Width};

use super::dice::Dice;

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    /// Numbers of all sizes, many of them at an edge.
    fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => self.pick(&[
                0,
                1,
                2,
                31,
                32,
                0x7fff_ffff,
                0x8000_0000,
                0xffff_ffff,
                0xffff,
                0x1_0000,
            ]),
            1 => self.draw() as u32,
            2 => self.pick(&[0x800, 0x86dd, 6, 17, 443, 9, 0x0a00_0001, 0x8100, 0x45]),
            _ => self.below(256),
        }
    }

    fn offset(&mut self) -> u32 {
        match self.below(24) {
            0 => {
                self.pick(&[32_763, 32_764, 32_767, 32_768, 65_531, 65_532, 65_534, 65_535, 65_536])
            }
            1 => self.pick(&[0x7fff_fffb, 0x7fff_ffff, 0x8000_0000, 0xffdf_ffff, 0xffff_effc]),
            2 => self.below(2048),
            _ => self.below(64),
        }
    }
}

/// A valid program of 1 to a few hundred instructions.
pub(crate) fn random(dice: &mut Dice) -> Program {
    let len = match dice.below(20) {
        0 => 1,
        1 => 300 + dice.below(300),
        _ => 2 + dice.below(60),
    } as usize;
    let cells = dice.pick(&[4, 15, 16]);
    let mut ops = Vec::with_capacity(len);
    // As the checker does: what is stored on every way to an instruction.
    let mut at_entry = vec![u16::MAX; len];
    let mut stored = 0u16;
    for at in 0..len {
        stored &= at_entry[at];
        let after = (len - at - 1) as u32;
        let op = if after == 0 { ret(dice) } else { operation(dice, stored, after, cells) };
        match op {
            Op::Store(cell) | Op::StoreX(cell) => stored |= 1 << cell,
            Op::Jump(skip) => {
                at_entry[at + 1 + skip as usize] &= stored;
                stored = u16::MAX;
            }
            Op::Branch { jt, jf, .. } => {
                at_entry[at + 1 + usize::from(jt)] &= stored;
                at_entry[at + 1 + usize::from(jf)] &= stored;
                stored = u16::MAX;
            }
            _ => {}
        }
        ops.push(op.encode());
    }
    Program::new(1, ops).unwrap_or_else(|error| panic!("the generator breaks a rule: {error}"))
}

fn ret(dice: &mut Dice) -> Op {
    match dice.below(3) {
        0 => Op::ReturnA,
        1 => Op::Return(dice.number()),
        _ => Op::Return(dice.pick(&[0, 96, 262_144, u32::MAX])),
    }
}

/// An instruction with `after` others behind it, at least one; `all` cells of memory are in use.
fn operation(dice: &mut Dice, stored: u16, after: u32, all: u32) -> Op {
    let width = dice.pick(&[Width::Byte, Width::Half, Width::Word]);
    let cells: Vec<u32> = (0..16).filter(|cell| stored >> cell & 1 == 1).collect();
    match dice.below(40) {
        0..=7 => Op::LoadAbsolute(width, dice.offset()),
        8..=10 => Op::LoadIndirect(width, dice.offset()),
        11 => Op::LoadImmediate(dice.number()),
        12 => Op::LoadLength,
        13 => Op::LoadXImmediate(dice.number()),
        14 => Op::LoadXLength,
        15 => Op::LoadXHeader(dice.offset()),
        16 if !cells.is_empty() => Op::LoadMemory(dice.pick(&cells)),
        17 if !cells.is_empty() => Op::LoadXMemory(dice.pick(&cells)),
        16..=18 => Op::Store(dice.below(all)),
        19 => Op::StoreX(dice.below(all)),
        20..=25 => alu(dice),
        26 => Op::Negate,
        27 => Op::Jump(dice.below(after.min(8))),
        28..=34 => {
            let cond = dice.pick(&[Cond::Equal, Cond::Greater, Cond::GreaterEqual, Cond::Set]);
            let operand = if dice.below(4) == 0 { Operand::X } else { Operand::K(dice.number()) };
            let reach = if dice.below(8) == 0 { 256 } else { 8 };
            let (jt, jf) = (dice.below(after.min(reach)) as u8, dice.below(after.min(reach)) as u8);
            Op::Branch { cond, operand, jt, jf }
        }
        35 => Op::Tax,
        36 => Op::Txa,
        37 if dice.below(6) == 0 => ret(dice),
        38 if dice.below(4) == 0 => Op::LoadAncillary(dice.pick(&[
            Ancillary::Protocol,
            Ancillary::PacketType,
            Ancillary::InterfaceIndex,
            Ancillary::Queue,
            Ancillary::VlanTci,
            Ancillary::VlanPresent,
            Ancillary::VlanTpid,
        ])),
        _ => Op::LoadAbsolute(width, dice.below(40)),
    }
}

fn alu(dice: &mut Dice) -> Op {
    let alu = dice.pick(&[
        Alu::Add,
        Alu::Sub,
        Alu::Mul,
        Alu::Div,
        Alu::Mod,
        Alu::And,
        Alu::Or,
        Alu::Xor,
        Alu::Shl,
        Alu::Shr,
    ]);
    if dice.below(3) == 0 {
        return Op::Alu(alu, Operand::X);
    }
    let k = match alu {
        Alu::Shl | Alu::Shr => dice.below(32),
        Alu::Div | Alu::Mod => dice.number().max(1),
        _ => dice.number(),
    };
    Op::Alu(alu, Operand::K(k))
}
