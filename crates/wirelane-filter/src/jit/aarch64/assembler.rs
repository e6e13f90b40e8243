//! Assembles the instructions of [`encoding`] with their operands.
//!
//! Immediates that do not fit into an instruction are loaded into [`IP0`].

use super::encoding::{self, *};
use crate::jit::code::{CodeLabel, JitCode};
use crate::op::Width;

/// A general-purpose register, by its number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u32);

/// Holds immediates within an instruction of the assembler.
const IP0: Gpr = Gpr(16);
/// Reads as 0 and ignores writes.
pub(super) const ZERO: Gpr = Gpr(31);
/// The stack pointer: the same number as [`ZERO`], as the base of loads and stores, and in
/// arithmetic with immediates.
pub(super) const SP: Gpr = Gpr(31);

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vector(pub(super) u32);

/// The width of an instruction; 32-bit instructions clear the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandSize {
    W,
    X,
}

/// Addition and subtraction. `Subs` sets the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Subs,
}

/// Bitwise operations on 32 bits. `Ands` sets the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    And,
    Orr,
    Eor,
    Ands,
}

/// Other operations on two registers, 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Binary {
    /// Gives 0 if the divisor is 0.
    Udiv = UDIV,
    /// Shifts by the count modulo 32.
    Lslv = LSLV,
    Lsrv = LSRV,
}

/// An unsigned condition. The discriminant is the number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(in crate::jit) enum Condition {
    Equal = 0,
    NotEqual = 1,
    HigherOrSame = 2,
    Lower = 3,
    Higher = 8,
    LowerOrSame = 9,
}

impl Condition {
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::HigherOrSame => Self::Lower,
            Self::Lower => Self::HigherOrSame,
            Self::Higher => Self::LowerOrSame,
            Self::LowerOrSame => Self::Higher,
        }
    }
}

/// Memory at a register plus a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) base: Gpr,
    pub(super) displacement: i32,
}

impl Memory {
    pub(super) const fn at(base: Gpr, displacement: i32) -> Self {
        Self { base, displacement }
    }
}

/// The code so far.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) code: JitCode,
}

impl Assembler {
    /// The code with every distance filled in, in units of instructions; `None` if a distance is
    /// too long.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        let padding = 0; // UDF: never reached
        self.code.finish(padding, |bytes, from, distance| {
            let instruction = bytes.get_mut(from..)?.first_chunk_mut()?;
            let word = u32::from_le_bytes(*instruction);
            let (bits, place) = if word & 0xfc00_0000 == B { (26, 0) } else { (19, 5) };
            let distance = i32::try_from(distance / 4).ok()?;
            let limit = 1 << (bits - 1);
            if !(-limit..limit).contains(&distance) {
                return None;
            }
            let field = distance as u32 & ((1 << bits) - 1);
            *instruction = (word | field << place).to_le_bytes();
            Some(())
        })
    }

    /// `op dst, left, right`
    pub(super) fn arithmetic(
        &mut self,
        size: OperandSize,
        op: Arithmetic,
        (dst, left, right): (Gpr, Gpr, Gpr),
    ) {
        let opcode = match op {
            Arithmetic::Add => ADD_REGISTER,
            Arithmetic::Sub => SUB_REGISTER,
            Arithmetic::Subs => SUBS_REGISTER,
        };
        self.word(opcode | size.bit() | m(right) | n(left) | dst.0);
    }

    /// `op dst, left, immediate`
    pub(super) fn arithmetic_immediate(
        &mut self,
        size: OperandSize,
        op: Arithmetic,
        (dst, left, immediate): (Gpr, Gpr, u32),
    ) {
        let opcode = match op {
            Arithmetic::Add => ADD_IMMEDIATE,
            Arithmetic::Sub => SUB_IMMEDIATE,
            Arithmetic::Subs => SUBS_IMMEDIATE,
        };
        let field = match immediate {
            0..0x1000 => immediate << 10,
            // The immediate has 12 bits, optionally shifted left by 12.
            0x1000..0x100_0000 if immediate & 0xfff == 0 => 1 << 22 | (immediate >> 12) << 10,
            _ => {
                self.mov_immediate(IP0, immediate);
                return self.arithmetic(size, op, (dst, left, IP0));
            }
        };
        self.word(opcode | size.bit() | field | n(left) | dst.0);
    }

    /// `cmp left, right`
    pub(super) fn compare(&mut self, size: OperandSize, left: Gpr, right: Gpr) {
        self.arithmetic(size, Arithmetic::Subs, (ZERO, left, right));
    }

    /// `cmp left, immediate`, on 32 bits.
    pub(super) fn compare_immediate(&mut self, left: Gpr, immediate: u32) {
        self.arithmetic_immediate(OperandSize::W, Arithmetic::Subs, (ZERO, left, immediate));
    }

    /// `op dst, left, right`
    pub(super) fn logical(&mut self, op: Logical, dst: Gpr, left: Gpr, right: Gpr) {
        let opcode = match op {
            Logical::And => AND_REGISTER,
            Logical::Orr => ORR_REGISTER,
            Logical::Eor => EOR_REGISTER,
            Logical::Ands => ANDS_REGISTER,
        };
        self.word(opcode | m(right) | n(left) | dst.0);
    }

    /// `op dst, left, immediate`
    pub(super) fn logical_immediate(&mut self, op: Logical, dst: Gpr, left: Gpr, immediate: u32) {
        let Some(pattern) = pattern(immediate) else {
            self.mov_immediate(IP0, immediate);
            return self.logical(op, dst, left, IP0);
        };
        let opcode = match op {
            Logical::And => AND_IMMEDIATE,
            Logical::Orr => ORR_IMMEDIATE,
            Logical::Eor => EOR_IMMEDIATE,
            Logical::Ands => ANDS_IMMEDIATE,
        };
        self.word(opcode | pattern | n(left) | dst.0);
    }

    /// `op dst, left, right`
    pub(super) fn binary(&mut self, op: Binary, dst: Gpr, left: Gpr, right: Gpr) {
        self.word(op as u32 | m(right) | n(left) | dst.0);
    }

    /// `mul dst, left, right`, on 32 bits.
    pub(super) fn multiply(&mut self, dst: Gpr, left: Gpr, right: Gpr) {
        self.word(MADD | m(right) | ZERO.0 << 10 | n(left) | dst.0);
    }

    /// `dst = from − left × right`, on 32 bits.
    pub(super) fn multiply_subtract(&mut self, dst: Gpr, left: Gpr, right: Gpr, from: Gpr) {
        self.word(MSUB | m(right) | from.0 << 10 | n(left) | dst.0);
    }

    /// `lsl dst, src, count`, on 32 bits; `count` below 32.
    pub(super) fn shift_left(&mut self, dst: Gpr, src: Gpr, count: u32) {
        self.word(UBFM | ((32 - count) & 31) << 16 | ((31 - count) & 31) << 10 | n(src) | dst.0);
    }

    /// `lsr dst, src, count`, on 32 bits; `count` below 32.
    pub(super) fn shift_right(&mut self, dst: Gpr, src: Gpr, count: u32) {
        self.word(UBFM | (count & 31) << 16 | 31 << 10 | n(src) | dst.0);
    }

    /// `ubfiz dst, src, 2, 4`: four times the lower four bits.
    pub(super) fn four_times_lower_half(&mut self, dst: Gpr, src: Gpr) {
        self.word(UBFM | 30 << 16 | 3 << 10 | n(src) | dst.0);
    }

    /// `mov dst, src`, on 32 bits.
    pub(super) fn mov(&mut self, dst: Gpr, src: Gpr) {
        self.logical(Logical::Orr, dst, ZERO, src);
    }

    /// `mov dst, immediate`, on 32 bits; one instruction if one half of the immediate is all zeros
    /// or all ones.
    pub(super) fn mov_immediate(&mut self, dst: Gpr, immediate: u32) {
        const UPPER: u32 = 1 << 21;
        let (upper, lower) = (immediate >> 16, immediate & 0xffff);
        match (upper, lower) {
            (0, _) => self.word(MOVZ | lower << 5 | dst.0),
            (_, 0) => self.word(MOVZ | UPPER | upper << 5 | dst.0),
            (0xffff, _) => self.word(MOVN | (lower ^ 0xffff) << 5 | dst.0),
            (_, 0xffff) => self.word(MOVN | UPPER | (upper ^ 0xffff) << 5 | dst.0),
            _ => {
                self.word(MOVZ | lower << 5 | dst.0);
                self.word(MOVK | UPPER | upper << 5 | dst.0);
            }
        }
    }

    /// `csel dst, dst, wzr, condition`: 0 unless the condition holds.
    pub(super) fn keep_if(&mut self, condition: Condition, dst: Gpr) {
        self.word(CSEL | m(ZERO) | (condition as u32) << 12 | n(dst) | dst.0);
    }

    /// `rev register, register`, on 32 bits.
    pub(super) fn swap_word(&mut self, register: Gpr) {
        self.word(REV | n(register) | register.0);
    }

    /// `rev16 register, register`: swaps the bytes of each half.
    pub(super) fn swap_half(&mut self, register: Gpr) {
        self.word(REV16 | n(register) | register.0);
    }

    /// Loads bytes, zero-extended, from any displacement of a base other than [`SP`].
    pub(super) fn load(&mut self, dst: Gpr, width: Width, Memory { base, displacement }: Memory) {
        let (scaled, unscaled) = match width {
            Width::Byte => (LDRB, LDURB),
            Width::Half => (LDRH, LDURH),
            Width::Word => (LDR, LDUR),
        };
        let bytes = width.bytes() as i32;
        let opcode = match displacement {
            0.. if displacement % bytes == 0 && displacement / bytes < 0x1000 => {
                scaled | ((displacement / bytes) as u32 * IMM12)
            }
            -256..256 => unscaled | (displacement as u32 & 0x1ff) << 12,
            _ => {
                let op = if displacement < 0 { Arithmetic::Sub } else { Arithmetic::Add };
                let far = displacement.unsigned_abs();
                self.arithmetic_immediate(OperandSize::X, op, (IP0, base, far));
                return self.load(dst, width, Memory::at(IP0, 0));
            }
        };
        self.word(opcode | n(base) | dst.0);
    }

    /// `ldr dst, [memory]`, on 64 bits; the displacement is a non-negative multiple of 8.
    pub(super) fn load_double(&mut self, dst: Gpr, Memory { base, displacement }: Memory) {
        self.word(LDR_X | (((displacement as u32 / 8) & 0xfff) * IMM12) | n(base) | dst.0);
    }

    /// `str src, [memory]`, on 32 bits; the displacement is a non-negative multiple of 4.
    pub(super) fn store_word(&mut self, Memory { base, displacement }: Memory, src: Gpr) {
        self.word(STR | (((displacement as u32 / 4) & 0xfff) * IMM12) | n(base) | src.0);
    }

    /// `str src, [base], 4`, on 32 bits.
    pub(super) fn store_word_and_advance(&mut self, base: Gpr, src: Gpr) {
        self.word(STR_POST_INDEX | 4 << 12 | n(base) | src.0);
    }

    pub(super) fn jump(&mut self, label: CodeLabel) {
        self.code.link(label);
        self.word(B);
    }

    pub(super) fn jump_if(&mut self, condition: Condition, label: CodeLabel) {
        self.code.link(label);
        self.word(B_CONDITION | condition as u32);
    }

    /// `cbz register, label`, on 32 bits.
    pub(super) fn jump_if_zero(&mut self, register: Gpr, label: CodeLabel) {
        self.code.link(label);
        self.word(CBZ | register.0);
    }

    /// `cbnz register, label`, on 64 bits.
    pub(super) fn jump_unless_zero_double(&mut self, register: Gpr, label: CodeLabel) {
        self.code.link(label);
        self.word(CBNZ_X | register.0);
    }

    pub(super) fn ret(&mut self) {
        self.word(RET);
    }

    /// `dup dst.4s, src`: the word in all four lanes.
    pub(super) fn broadcast(&mut self, dst: Vector, src: Gpr) {
        self.word(DUP_GENERAL | n(src) | dst.0);
    }

    /// `ldr dst, =constant`
    pub(super) fn vector_constant(&mut self, dst: Vector, constant: [u32; 4]) {
        self.code.link_constant(constant);
        self.word(LDR_LITERAL_Q | dst.0);
    }

    /// `cmeq dst.4s, dst.4s, src.4s`: equal lanes become all ones, other lanes 0.
    pub(super) fn vector_equal(&mut self, dst: Vector, src: Vector) {
        self.word(CMEQ_REGISTER | src.0 << 16 | dst.0 << 5 | dst.0);
    }

    /// `orr dst.16b, dst.16b, src.16b`
    pub(super) fn vector_or(&mut self, dst: Vector, src: Vector) {
        self.word(ORR_VECTOR | src.0 << 16 | dst.0 << 5 | dst.0);
    }

    /// `umaxp src.4s, src.4s, src.4s` and `fmov dst, src`: not 0 if any lane is not 0.
    pub(super) fn vector_any(&mut self, dst: Gpr, src: Vector) {
        self.word(UMAXP | src.0 << 16 | src.0 << 5 | src.0);
        self.word(FMOV_X_D | src.0 << 5 | dst.0);
    }

    fn word(&mut self, instruction: u32) {
        self.code.extend(instruction.to_le_bytes());
    }
}

/// The position of the 12-bit immediate.
const IMM12: u32 = 1 << 10;

impl OperandSize {
    fn bit(self) -> u32 {
        match self {
            Self::W => 0,
            Self::X => encoding::X,
        }
    }
}

/// The register in the field of the first operand.
fn n(register: Gpr) -> u32 {
    register.0 << 5
}

/// The register in the field of the second operand.
fn m(register: Gpr) -> u32 {
    register.0 << 16
}

/// A 32-bit immediate in the format of logical instructions: equal elements of 2, 4, 8, 16 or 32
/// bits, each with a rotated sequence of ones; `None` if the immediate has another form.
pub(super) fn pattern(immediate: u32) -> Option<u32> {
    let mut size = 32;
    let mut element = immediate;
    // The smallest element that repeats in the immediate.
    while size > 2 {
        let (upper, lower) = (element >> (size / 2), element & ((1 << (size / 2)) - 1));
        if upper != lower {
            break;
        }
        (size, element) = (size / 2, lower);
    }
    let ones = element.count_ones();
    if ones == 0 || ones == size {
        return None;
    }
    let run = (1_u64 << ones) - 1;
    let rotated = |by: u32| (run | run << size) >> by & ((1 << size) - 1);
    let rotation = (0..size).find(|by| rotated(*by) == u64::from(element))?;
    // Ones above the bit that encodes the size; below it, the number of ones minus one.
    let length = !(2 * size - 1) & 0x3f | (ones - 1);
    Some(rotation << 16 | length << 10)
}
