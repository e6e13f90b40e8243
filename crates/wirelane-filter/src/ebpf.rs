//! eBPF instructions (RFC 9669): one value per instruction, made by constructors.
//!
//! ```text
//!   code:8 │ dst:4 src:4 │ off:16 │ imm:32      a 64-bit immediate takes two of them
//! ```

mod disassembly;

/// One instruction, laid out as `struct bpf_insn` of `linux/bpf.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    /// Class, operation and source.
    pub code: u8,
    /// Source register in the upper, destination register in the lower half.
    regs: u8,
    /// Jump distance from the next instruction, or byte offset of a memory access.
    pub off: i16,
    /// Immediate operand.
    pub imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8 && align_of::<Insn>() == 4);

/// A register. R0 is the result, R1 to R5 are arguments that a call overwrites, R6 to R9 survive
/// calls, R10 is the read-only end of the stack frame of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl Reg {
    /// The register with this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        use Reg::*;
        const ALL: [Reg; 11] = [R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10];
        if (number as usize) < ALL.len() { Some(ALL[number as usize]) } else { None }
    }
}

/// Width of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// An arithmetic operation. Division by zero gives 0, and the remainder is then the dividend; shift
/// counts are taken modulo the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Shl = 0x60,
    Shr = 0x70,
    Neg = 0x80,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// The condition of a jump. Conditions with `S` compare signed numbers, the others unsigned
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    /// The operands have a common bit.
    Set = 0x40,
    Ne = 0x50,
    SGt = 0x60,
    SGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    SLt = 0xc0,
    SLe = 0xd0,
}

/// Instruction classes, `BPF_CLASS` of `linux/bpf_common.h` and `linux/bpf.h`.
pub mod class {
    /// 64-bit immediate loads.
    pub const LD: u8 = 0x00;
    /// Loads from memory.
    pub const LDX: u8 = 0x01;
    /// Stores of an immediate.
    pub const ST: u8 = 0x02;
    /// Stores of a register.
    pub const STX: u8 = 0x03;
    /// Arithmetic on 32 bits; clears the upper half.
    pub const ALU: u8 = 0x04;
    /// Jumps that compare 64 bits, calls and exit.
    pub const JMP: u8 = 0x05;
    /// Jumps that compare 32 bits.
    pub const JMP32: u8 = 0x06;
    /// Arithmetic on 64 bits.
    pub const ALU64: u8 = 0x07;
    /// The bits of the class in a code.
    pub const MASK: u8 = 0x07;
}

/// The operand is a register (`BPF_X`) instead of the immediate.
pub const SOURCE_REG: u8 = 0x08;
/// `BPF_MEM`, the addressing mode of plain loads and stores.
pub const MODE_MEM: u8 = 0x60;
/// `BPF_END`, with the target order in the source bit.
pub const END: u8 = 0xd0;
/// `BPF_CALL`.
pub const CALL: u8 = 0x80;
/// `BPF_EXIT`.
pub const EXIT: u8 = 0x90;
/// `BPF_JA`.
pub const JA: u8 = 0x00;
/// `BPF_PSEUDO_MAP_FD` in the source register of a 64-bit load: the immediate is a map descriptor.
pub const PSEUDO_MAP_FD: u8 = 1;
/// `BPF_PSEUDO_MAP_VALUE`: the same, and the pair is the address in the value of the map's only
/// entry; Linux 5.2.
pub const PSEUDO_MAP_VALUE: u8 = 2;

impl Insn {
    /// An instruction from its fields.
    pub const fn raw(code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> Self {
        Self { code, regs: dst as u8 | src << 4, off, imm }
    }

    /// Number of the destination register.
    pub const fn dst(&self) -> u8 {
        self.regs & 0xf
    }

    /// Number of the source register.
    pub const fn src(&self) -> u8 {
        self.regs >> 4
    }

    /// `dst op= imm`, on 64 bits; the immediate is sign-extended.
    pub const fn alu64(op: Alu, dst: Reg, imm: i32) -> Self {
        Self::raw(class::ALU64 | op as u8, dst, 0, 0, imm)
    }

    /// `dst op= src`, on 64 bits.
    pub const fn alu64_reg(op: Alu, dst: Reg, src: Reg) -> Self {
        Self::raw(class::ALU64 | op as u8 | SOURCE_REG, dst, src as u8, 0, 0)
    }

    /// `dst op= imm`, on 32 bits.
    pub const fn alu32(op: Alu, dst: Reg, imm: i32) -> Self {
        Self::raw(class::ALU | op as u8, dst, 0, 0, imm)
    }

    /// `dst op= src`, on 32 bits.
    pub const fn alu32_reg(op: Alu, dst: Reg, src: Reg) -> Self {
        Self::raw(class::ALU | op as u8 | SOURCE_REG, dst, src as u8, 0, 0)
    }

    /// `dst = imm`, sign-extended.
    pub const fn mov(dst: Reg, imm: i32) -> Self {
        Self::alu64(Alu::Mov, dst, imm)
    }

    /// `dst = src`.
    pub const fn mov_reg(dst: Reg, src: Reg) -> Self {
        Self::alu64_reg(Alu::Mov, dst, src)
    }

    /// `dst = *(size *)(src + off)`, zero-extended.
    pub const fn load(size: Size, dst: Reg, src: Reg, off: i16) -> Self {
        Self::raw(class::LDX | MODE_MEM | size as u8, dst, src as u8, off, 0)
    }

    /// `*(size *)(dst + off) = src`.
    pub const fn store(size: Size, dst: Reg, off: i16, src: Reg) -> Self {
        Self::raw(class::STX | MODE_MEM | size as u8, dst, src as u8, off, 0)
    }

    /// `*(size *)(dst + off) = imm`.
    pub const fn store_imm(size: Size, dst: Reg, off: i16, imm: i32) -> Self {
        Self::raw(class::ST | MODE_MEM | size as u8, dst, 0, off, imm)
    }

    /// Converts the lowest `bits` (16, 32 or 64) of `dst` to or from big-endian order and clears
    /// the other bits.
    pub const fn to_be(dst: Reg, bits: i32) -> Self {
        Self::raw(class::ALU | END | SOURCE_REG, dst, 0, 0, bits)
    }

    /// Jumps `off` instructions beyond the next one.
    pub const fn jump(off: i16) -> Self {
        Self::raw(class::JMP | JA, Reg::R0, 0, off, 0)
    }

    /// Jumps if `dst cond imm`, on 64 bits; the immediate is sign-extended.
    pub const fn jump_if(cond: Cond, dst: Reg, imm: i32, off: i16) -> Self {
        Self::raw(class::JMP | cond as u8, dst, 0, off, imm)
    }

    /// Jumps if `dst cond src`, on 64 bits.
    pub const fn jump_if_reg(cond: Cond, dst: Reg, src: Reg, off: i16) -> Self {
        Self::raw(class::JMP | cond as u8 | SOURCE_REG, dst, src as u8, off, 0)
    }

    /// Jumps if `dst cond imm`, on 32 bits.
    pub const fn jump32_if(cond: Cond, dst: Reg, imm: i32, off: i16) -> Self {
        Self::raw(class::JMP32 | cond as u8, dst, 0, off, imm)
    }

    /// Jumps if `dst cond src`, on 32 bits.
    pub const fn jump32_if_reg(cond: Cond, dst: Reg, src: Reg, off: i16) -> Self {
        Self::raw(class::JMP32 | cond as u8 | SOURCE_REG, dst, src as u8, off, 0)
    }

    /// Calls the kernel's helper with this number (`enum bpf_func_id`).
    pub const fn call(helper: i32) -> Self {
        Self::raw(class::JMP | CALL, Reg::R0, 0, 0, helper)
    }

    /// Calls the kernel function with this number (its type in the kernel's BTF), with R1 to R5 as
    /// arguments; its result is in R0. Linux 5.13.
    pub const fn call_kernel(function: u32) -> Self {
        // BPF_PSEUDO_KFUNC_CALL
        Self::raw(class::JMP | 0x80, Reg::R0, 2, 0, function as i32)
    }

    /// Ends the program with the result in R0.
    pub const fn exit() -> Self {
        Self::raw(class::JMP | EXIT, Reg::R0, 0, 0, 0)
    }

    /// `dst = imm`, all 64 bits: two instructions.
    pub const fn load64(dst: Reg, imm: u64) -> [Self; 2] {
        Self::wide(dst, 0, imm)
    }

    /// `dst = the map of descriptor fd`: two instructions.
    pub const fn load_map(dst: Reg, fd: i32) -> [Self; 2] {
        Self::wide(dst, PSEUDO_MAP_FD, fd as u32 as u64)
    }

    /// `dst = the address of the value of entry 0 in the map of descriptor fd`: two instructions.
    pub const fn load_map_value(dst: Reg, fd: i32) -> [Self; 2] {
        Self::wide(dst, PSEUDO_MAP_VALUE, fd as u32 as u64)
    }

    const fn wide(dst: Reg, src: u8, imm: u64) -> [Self; 2] {
        let code = class::LD | Size::Double as u8;
        let high = Self::raw(0, Reg::R0, 0, 0, (imm >> 32) as i32);
        [Self::raw(code, dst, src, 0, imm as i32), high]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(insn: Insn) -> [u8; 8] {
        let [o0, o1] = insn.off.to_ne_bytes();
        let [i0, i1, i2, i3] = insn.imm.to_ne_bytes();
        [insn.code, insn.regs, o0, o1, i0, i1, i2, i3]
    }

    /// The encodings of LLVM's assembler for the little-endian target.
    #[cfg(target_endian = "little")]
    #[test]
    fn encodings() {
        use Reg::*;
        for (insn, expected) in [
            (Insn::mov(R0, 2), [0xb7, 0x00, 0, 0, 2, 0, 0, 0]),
            (Insn::mov_reg(R6, R1), [0xbf, 0x16, 0, 0, 0, 0, 0, 0]),
            (Insn::load(Size::Word, R2, R1, 16), [0x61, 0x12, 16, 0, 0, 0, 0, 0]),
            (Insn::store(Size::Double, R10, -8, R3), [0x7b, 0x3a, 0xf8, 0xff, 0, 0, 0, 0]),
            (Insn::store_imm(Size::Byte, R10, -1, 7), [0x72, 0x0a, 0xff, 0xff, 7, 0, 0, 0]),
            (Insn::alu32(Alu::And, R4, 15), [0x54, 0x04, 0, 0, 15, 0, 0, 0]),
            (Insn::to_be(R5, 16), [0xdc, 0x05, 0, 0, 16, 0, 0, 0]),
            (Insn::jump_if_reg(Cond::Gt, R2, R3, 5), [0x2d, 0x32, 5, 0, 0, 0, 0, 0]),
            (Insn::jump32_if(Cond::Eq, R7, -1, -2), [0x16, 0x07, 0xfe, 0xff, 255, 255, 255, 255]),
            (Insn::call(51), [0x85, 0x00, 0, 0, 51, 0, 0, 0]),
            (Insn::exit(), [0x95, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(bytes(insn), expected, "{insn:?}");
        }
        let [low, high] = Insn::load64(R1, 0x1122_3344_5566_7788);
        assert_eq!(bytes(low), [0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55]);
        assert_eq!(bytes(high), [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(Insn::load_map(R1, 5)[0].src(), PSEUDO_MAP_FD);
    }

    #[test]
    fn registers_by_number() {
        assert_eq!(Reg::new(10), Some(Reg::R10));
        assert_eq!(Reg::new(11), None);
    }
}
