//! Building blocks of programs: field values, stores into a frame, one's complement sums.
//!
//! These registers keep their meaning throughout a program; the others are scratch:
//!
//! ```text
//!   R6 context │ R7 packet number │ R8 start of the frame │ R9 the state that outlives the run
//! ```

use std::os::fd::{AsFd, AsRawFd};

use wirelane_os::bpf::{Alu, Assembler, Cond, Insn, Label, Map, Reg, Size};

/// `struct xdp_md *`.
pub(super) const CONTEXT: Reg = Reg::R6;
/// The packet number in its stream.
pub(super) const NUMBER: Reg = Reg::R7;
/// Where the frame starts.
pub(super) const FRAME: Reg = Reg::R8;
/// A pointer to the value of the state map.
pub(super) const STATE: Reg = Reg::R9;

// `enum bpf_func_id`.
pub(super) const MAP_LOOKUP_ELEM: i32 = 1;
pub(super) const KTIME_GET_NS: i32 = 5;
pub(super) const REDIRECT: i32 = 23;
pub(super) const XDP_ADJUST_TAIL: i32 = 65;
pub(super) const XDP_STORE_BYTES: i32 = 190;

// Offsets in `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;

/// The stack offset of a look-up key.
const KEY: i16 = -4;

/// Emits R0 = a pointer to the entry of `map` at the index in R1. Jumps to `failed` if there is
/// none.
pub(super) fn look_up(asm: &mut Assembler, map: &Map, failed: Label) {
    asm.emit(Insn::store(Size::Word, Reg::R10, KEY, Reg::R1));
    asm.extend(Insn::load_map(Reg::R1, map.as_fd().as_raw_fd()));
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
    asm.emit(Insn::alu64(Alu::Add, Reg::R2, i32::from(KEY)));
    asm.emit(Insn::call(MAP_LOOKUP_ELEM));
    asm.jump_if(Cond::Eq, Reg::R0, 0, failed);
}

/// Emits FRAME = the start of the frame, with `length` accessible bytes. Jumps to `failed` if the
/// frame is shorter.
pub(super) fn reach(asm: &mut Assembler, length: usize, failed: Label) {
    asm.emit(Insn::load(Size::Word, FRAME, CONTEXT, XDP_MD_DATA));
    asm.emit(Insn::load(Size::Word, Reg::R3, CONTEXT, XDP_MD_DATA_END));
    asm.emit(Insn::mov_reg(Reg::R4, FRAME));
    asm.emit(Insn::alu64(Alu::Add, Reg::R4, length as i32));
    asm.jump_if_reg(Cond::Gt, Reg::R4, Reg::R3, failed);
}

/// Emits `register = value`.
pub(super) fn constant(asm: &mut Assembler, register: Reg, value: u64) {
    match i32::try_from(value as i64) {
        Ok(small) => asm.emit(Insn::mov(register, small)),
        Err(_) => asm.extend(Insn::load64(register, value)),
    }
}

/// Emits `register op= value`. Clobbers R5.
pub(super) fn apply(asm: &mut Assembler, op: Alu, register: Reg, value: u64) {
    match i32::try_from(value as i64) {
        Ok(small) => asm.emit(Insn::alu64(op, register, small)),
        Err(_) => {
            asm.extend(Insn::load64(Reg::R5, value));
            asm.emit(Insn::alu64_reg(op, register, Reg::R5));
        }
    }
}

/// Emits `register %= divisor`. Clobbers R5.
pub(super) fn modulo(asm: &mut Assembler, register: Reg, divisor: u64) {
    if divisor.is_power_of_two() {
        apply(asm, Alu::And, register, divisor - 1);
    } else {
        apply(asm, Alu::Mod, register, divisor);
    }
}

/// Emits the stores of `bytes` at offset `at` of the frame.
pub(super) fn store_bytes(asm: &mut Assembler, bytes: &[u8], at: usize) {
    let mut at = at;
    let mut rest = bytes;
    while !rest.is_empty() {
        // Native byte order: a store writes the bytes in their order in memory.
        if let Some((word, left)) = rest.split_first_chunk::<4>() {
            let value = i32::from_ne_bytes(*word);
            asm.emit(Insn::store_imm(Size::Word, FRAME, at as i16, value));
            (rest, at) = (left, at + 4);
        } else if let Some((half, left)) = rest.split_first_chunk::<2>() {
            let value = i32::from(i16::from_ne_bytes(*half));
            asm.emit(Insn::store_imm(Size::Half, FRAME, at as i16, value));
            (rest, at) = (left, at + 2);
        } else if let Some((byte, left)) = rest.split_first() {
            asm.emit(Insn::store_imm(Size::Byte, FRAME, at as i16, i32::from(*byte)));
            (rest, at) = (left, at + 1);
        }
    }
}

/// Emits the store of the lowest `width` bytes of `value` at `base + at`, in network byte order.
/// With `whole`, they replace the existing bytes; otherwise they are combined with them by OR.
/// Clobbers R2 and R3, which must not be `base` or `value`.
pub(super) fn store_number(
    asm: &mut Assembler,
    base: Reg,
    at: i16,
    width: usize,
    value: Reg,
    whole: bool,
) {
    let (mut at, mut left) = (at, width);
    while left > 0 {
        let (size, bytes) = match left {
            8.. => (Size::Double, 8),
            4.. => (Size::Word, 4),
            2.. => (Size::Half, 2),
            _ => (Size::Byte, 1),
        };
        left -= bytes;
        asm.emit(Insn::mov_reg(Reg::R2, value));
        if left > 0 {
            asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 8 * left as i32));
        }
        if bytes > 1 {
            asm.emit(Insn::to_be(Reg::R2, 8 * bytes as i32));
        }
        if !whole {
            asm.emit(Insn::load(size, Reg::R3, base, at));
            asm.emit(Insn::alu64_reg(Alu::Or, Reg::R2, Reg::R3));
        }
        asm.emit(Insn::store(size, base, at, Reg::R2));
        at += bytes as i16;
    }
}

/// Emits the addition of `value`, a number of `width` bytes, to the sum on the stack at `slot`.
/// `odd` means that its last byte is the upper byte of a 16-bit word. Clobbers R2 and R3.
pub(super) fn add_to_sum(asm: &mut Assembler, slot: i16, value: Reg, width: usize, odd: bool) {
    asm.emit(Insn::mov_reg(Reg::R2, value));
    if width > 4 {
        // 2³² is 1 modulo 0xffff.
        asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 32));
        asm.emit(Insn::alu32_reg(Alu::Mov, Reg::R3, value));
        asm.emit(Insn::alu64_reg(Alu::Add, Reg::R2, Reg::R3));
    }
    if odd {
        asm.emit(Insn::alu64(Alu::Shl, Reg::R2, 8));
    }
    asm.emit(Insn::load(Size::Double, Reg::R3, Reg::R10, slot));
    asm.emit(Insn::alu64_reg(Alu::Add, Reg::R3, Reg::R2));
    asm.emit(Insn::store(Size::Double, Reg::R10, slot, Reg::R3));
}

/// Emits R1 = the one's complement sum of `register`, in 16 bits. Clobbers R2; `register` may be
/// R1.
pub(super) fn fold(asm: &mut Assembler, register: Reg) {
    if register != Reg::R1 {
        asm.emit(Insn::mov_reg(Reg::R1, register));
    }
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R1));
    asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 32));
    asm.emit(Insn::alu32_reg(Alu::Mov, Reg::R1, Reg::R1));
    asm.emit(Insn::alu64_reg(Alu::Add, Reg::R1, Reg::R2));
    // At most 33, then 18, then 17, then 16 bits.
    for _ in 0..3 {
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R1));
        asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 16));
        asm.emit(Insn::alu64(Alu::And, Reg::R1, 0xffff));
        asm.emit(Insn::alu64_reg(Alu::Add, Reg::R1, Reg::R2));
    }
}
