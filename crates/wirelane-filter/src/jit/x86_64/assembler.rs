//! Assembles the x86-64 instructions of filters (Intel SDM, volume 2).
//!
//! Jumps have labels as targets and always take 32 bits; constants follow the code.

use crate::jit::code::{CodeLabel, JitCode};

/// A general-purpose register, by its number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Gpr {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rsp = 4,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
}

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Xmm {
    X0 = 0,
    X1 = 1,
    X2 = 2,
}

/// Operations on two operands; the discriminant is the number in opcode group 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Binary {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts; the discriminant is the number in opcode group 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Shift {
    RotateLeft = 0,
    Left = 4,
    Right = 5,
}

/// Operations on one operand; the discriminant is the number in opcode group 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Unary {
    Neg = 3,
    /// Unsigned division of EDX:EAX by the operand.
    Div = 6,
}

/// The unsigned condition of a jump; the discriminant is the number in the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::jit) enum Condition {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
}

/// Memory at a register plus an optional register plus a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) base: Gpr,
    pub(super) index: Option<Gpr>,
    pub(super) displacement: i32,
}

impl Memory {
    pub(super) const fn at(base: Gpr, displacement: i32) -> Self {
        Self { base, index: None, displacement }
    }

    pub(super) const fn indexed(base: Gpr, index: Gpr, displacement: i32) -> Self {
        Self { base, index: Some(index), displacement }
    }
}

/// The code so far.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) code: JitCode,
}

impl Assembler {
    /// The code with all 32-bit displacements filled in.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        let padding = 0xcc; // int3: never reached
        self.code.finish(padding, |bytes, from, distance| {
            let distance = i32::try_from(distance).ok()?;
            bytes.get_mut(from - 4..from)?.copy_from_slice(&distance.to_le_bytes());
            Some(())
        })
    }

    /// `op dst, src`, on 32 bits; the upper half of `dst` becomes 0 unless it is a comparison.
    pub(super) fn binary(&mut self, op: Binary, dst: Gpr, src: Gpr) {
        self.registers(false, src, dst, &[op as u8 * 8 + 1]);
    }

    /// `op dst, src`, on 64 bits.
    pub(super) fn binary64(&mut self, op: Binary, dst: Gpr, src: Gpr) {
        self.registers(true, src, dst, &[op as u8 * 8 + 1]);
    }

    /// `op dst, immediate`, on 32 bits.
    pub(super) fn binary_immediate(&mut self, op: Binary, dst: Gpr, immediate: u32) {
        self.group1(false, op, dst, immediate as i32);
    }

    /// `op dst, immediate`, on 64 bits, the immediate sign-extended.
    pub(super) fn binary64_immediate(&mut self, op: Binary, dst: Gpr, immediate: i32) {
        self.group1(true, op, dst, immediate);
    }

    /// `cmp dword [memory], immediate`
    pub(super) fn compare_word(&mut self, memory: Memory, immediate: u32) {
        match i8::try_from(immediate as i32) {
            Ok(short) => {
                self.memory(false, 7, memory, &[0x83]);
                self.code.push(short as u8);
            }
            Err(_) => {
                self.memory(false, 7, memory, &[0x81]);
                self.immediate(immediate);
            }
        }
    }

    /// `cmp byte [memory], immediate`
    pub(super) fn compare_byte(&mut self, memory: Memory, immediate: u8) {
        self.memory(false, 7, memory, &[0x80]);
        self.code.push(immediate);
    }

    /// `test byte [memory], immediate`
    pub(super) fn test_byte(&mut self, memory: Memory, immediate: u8) {
        self.memory(false, 0, memory, &[0xf6]);
        self.code.push(immediate);
    }

    /// `test dword [memory], immediate`
    pub(super) fn test_word(&mut self, memory: Memory, immediate: u32) {
        self.memory(false, 0, memory, &[0xf7]);
        self.immediate(immediate);
    }

    /// `test register, immediate`, on 32 bits.
    pub(super) fn test_immediate(&mut self, register: Gpr, immediate: u32) {
        self.group(false, 0, register, 0xf7);
        self.immediate(immediate);
    }

    /// `test left, right`, on 32 bits.
    pub(super) fn test(&mut self, left: Gpr, right: Gpr) {
        self.registers(false, right, left, &[0x85]);
    }

    /// `mov dst, src`, on 32 bits.
    pub(super) fn mov(&mut self, dst: Gpr, src: Gpr) {
        self.registers(false, src, dst, &[0x89]);
    }

    /// `mov dst, immediate`, on 32 bits; changes the flags if the immediate is 0.
    pub(super) fn mov_immediate(&mut self, dst: Gpr, immediate: u32) {
        if immediate == 0 {
            self.binary(Binary::Xor, dst, dst);
            return;
        }
        self.rex(false, 0, 0, dst as u8);
        self.code.push(0xb8 | dst as u8 & 7);
        self.immediate(immediate);
    }

    /// `lea dst, [memory]`, on 64 bits.
    pub(super) fn address(&mut self, dst: Gpr, memory: Memory) {
        self.memory(true, dst as u8, memory, &[0x8d]);
    }

    /// `mov dst, qword [memory]`
    pub(super) fn load_double(&mut self, dst: Gpr, memory: Memory) {
        self.memory(true, dst as u8, memory, &[0x8b]);
    }

    /// `mov dst, dword [memory]`
    pub(super) fn load_word(&mut self, dst: Gpr, memory: Memory) {
        self.memory(false, dst as u8, memory, &[0x8b]);
    }

    /// `movzx dst, word [memory]`
    pub(super) fn load_half(&mut self, dst: Gpr, memory: Memory) {
        self.memory(false, dst as u8, memory, &[0x0f, 0xb7]);
    }

    /// `movzx dst, byte [memory]`
    pub(super) fn load_byte(&mut self, dst: Gpr, memory: Memory) {
        self.memory(false, dst as u8, memory, &[0x0f, 0xb6]);
    }

    /// `mov dword [memory], src`
    pub(super) fn store_word(&mut self, memory: Memory, src: Gpr) {
        self.memory(false, src as u8, memory, &[0x89]);
    }

    /// `mov dword [memory], immediate`
    pub(super) fn store_immediate(&mut self, memory: Memory, immediate: u32) {
        self.memory(false, 0, memory, &[0xc7]);
        self.immediate(immediate);
    }

    /// `bswap register`, on 32 bits.
    pub(super) fn swap_word(&mut self, register: Gpr) {
        self.rex(false, 0, 0, register as u8);
        self.code.extend([0x0f, 0xc8 | register as u8 & 7]);
    }

    /// `rol register, 8`, on 16 bits; keeps the upper bits.
    pub(super) fn swap_half(&mut self, register: Gpr) {
        self.code.push(0x66);
        self.group(false, Shift::RotateLeft as u8, register, 0xc1);
        self.code.push(8);
    }

    /// `imul dst, src`, on 32 bits.
    pub(super) fn multiply(&mut self, dst: Gpr, src: Gpr) {
        self.registers(false, dst, src, &[0x0f, 0xaf]);
    }

    /// `imul dst, dst, immediate`, on 32 bits.
    pub(super) fn multiply_immediate(&mut self, dst: Gpr, immediate: u32) {
        self.registers(false, dst, dst, &[0x69]);
        self.immediate(immediate);
    }

    /// `op register, count`, on 32 bits; `count` below 32.
    pub(super) fn shift_immediate(&mut self, op: Shift, register: Gpr, count: u8) {
        self.group(false, op as u8, register, 0xc1);
        self.code.push(count);
    }

    /// `op register, cl`, on 32 bits, by the count modulo 32.
    pub(super) fn shift(&mut self, op: Shift, register: Gpr) {
        self.group(false, op as u8, register, 0xd3);
    }

    /// `op register`, on 32 bits.
    pub(super) fn unary(&mut self, op: Unary, register: Gpr) {
        self.group(false, op as u8, register, 0xf7);
    }

    /// `movd dst, src`, then copies the word to all four lanes.
    pub(super) fn broadcast(&mut self, dst: Xmm, src: Gpr) {
        self.code.push(0x66);
        self.rex(false, dst as u8, 0, src as u8);
        self.code.extend([0x0f, 0x6e, modrm(3, dst as u8, src as u8)]);
        self.code.extend([0x66, 0x0f, 0x70, modrm(3, dst as u8, dst as u8), 0]);
    }

    /// `movdqa dst, src`
    pub(super) fn vector_move(&mut self, dst: Xmm, src: Xmm) {
        self.code.extend([0x66, 0x0f, 0x6f, modrm(3, dst as u8, src as u8)]);
    }

    /// `pcmpeqd dst, constant`: equal lanes become all ones, other lanes 0.
    pub(super) fn vector_equal(&mut self, dst: Xmm, constant: [u32; 4]) {
        self.code.extend([0x66, 0x0f, 0x76, modrm(0, dst as u8, 5), 0, 0, 0, 0]);
        self.code.link_constant(constant);
    }

    /// `por dst, src`
    pub(super) fn vector_or(&mut self, dst: Xmm, src: Xmm) {
        self.code.extend([0x66, 0x0f, 0xeb, modrm(3, dst as u8, src as u8)]);
    }

    /// `pmovmskb dst, src`: the highest bit of every byte.
    pub(super) fn vector_mask(&mut self, dst: Gpr, src: Xmm) {
        self.code.push(0x66);
        self.rex(false, dst as u8, 0, src as u8);
        self.code.extend([0x0f, 0xd7, modrm(3, dst as u8, src as u8)]);
    }

    pub(super) fn jump(&mut self, label: CodeLabel) {
        self.code.push(0xe9);
        self.distance(label);
    }

    pub(super) fn jump_if(&mut self, condition: Condition, label: CodeLabel) {
        self.code.extend([0x0f, 0x80 | condition as u8]);
        self.distance(label);
    }

    pub(super) fn ret(&mut self) {
        self.code.push(0xc3);
    }

    fn distance(&mut self, label: CodeLabel) {
        self.code.extend([0; 4]);
        self.code.link(label);
    }

    fn immediate(&mut self, immediate: u32) {
        self.code.extend(immediate.to_le_bytes());
    }

    /// The prefix for 64 bits or for registers from R8 on, if needed.
    fn rex(&mut self, wide: bool, reg: u8, index: u8, base: u8) {
        let bits = u8::from(wide) << 3 | reg >> 3 << 2 | index >> 3 << 1 | base >> 3;
        if bits != 0 {
            self.code.push(0x40 | bits);
        }
    }

    fn registers(&mut self, wide: bool, reg: Gpr, rm: Gpr, opcode: &[u8]) {
        self.rex(wide, reg as u8, 0, rm as u8);
        self.code.extend(opcode.iter().copied());
        self.code.push(modrm(3, reg as u8, rm as u8));
    }

    /// An instruction with its operation in the register field.
    fn group(&mut self, wide: bool, op: u8, rm: Gpr, opcode: u8) {
        self.rex(wide, 0, 0, rm as u8);
        self.code.extend([opcode, modrm(3, op, rm as u8)]);
    }

    fn group1(&mut self, wide: bool, op: Binary, dst: Gpr, immediate: i32) {
        match i8::try_from(immediate) {
            Ok(short) => {
                self.group(wide, op as u8, dst, 0x83);
                self.code.push(short as u8);
            }
            Err(_) => {
                self.group(wide, op as u8, dst, 0x81);
                self.immediate(immediate as u32);
            }
        }
    }

    fn memory(&mut self, wide: bool, reg: u8, memory: Memory, opcode: &[u8]) {
        let Memory { base, index, displacement } = memory;
        let short = i8::try_from(displacement).ok();
        // Only RBP and R13 cannot be a base without displacement, and `Gpr` contains neither of
        // them.
        let mode = match short {
            Some(0) => 0,
            Some(_) => 1,
            None => 2,
        };
        self.rex(wide, reg, index.map_or(0, |index| index as u8), base as u8);
        self.code.extend(opcode.iter().copied());
        match index {
            // A base of RSP needs the second byte; index 4 means no index.
            None if base != Gpr::Rsp => self.code.push(modrm(mode, reg, base as u8)),
            _ => {
                let index = index.map_or(4, |index| index as u8);
                self.code.extend([modrm(mode, reg, 4), modrm(0, index, base as u8)]);
            }
        }
        match (mode, short) {
            (0, _) => {}
            (1, Some(short)) => self.code.push(short as u8),
            _ => self.immediate(displacement as u32),
        }
    }
}

/// A byte of a 2-bit and two 3-bit fields; scale, index and base have the same layout.
const fn modrm(mode: u8, reg: u8, rm: u8) -> u8 {
    mode << 6 | (reg & 7) << 3 | rm & 7
}
