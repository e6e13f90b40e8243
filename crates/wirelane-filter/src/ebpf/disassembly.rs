//! Prints instructions in the format of the kernel's verifier (`print_bpf_insn` of
//! `kernel/bpf/disasm.c`).

use std::fmt::{self, Display, Formatter};

use super::{Alu, CALL, Cond, END, EXIT, Insn, JA, MODE_MEM, SOURCE_REG, Size, class};

/// The operation of arithmetic, or the condition of a jump.
const OPERATION: u8 = 0xf0;
const SIZE: u8 = 0x18;
const MODE: u8 = 0xe0;

const ALU: [(Alu, &str); 12] = [
    (Alu::Add, "+="),
    (Alu::Sub, "-="),
    (Alu::Mul, "*="),
    (Alu::Div, "/="),
    (Alu::Or, "|="),
    (Alu::And, "&="),
    (Alu::Shl, "<<="),
    (Alu::Shr, ">>="),
    (Alu::Mod, "%="),
    (Alu::Xor, "^="),
    (Alu::Mov, "="),
    (Alu::Arsh, "s>>="),
];

const CONDITIONS: [(Cond, &str); 11] = [
    (Cond::Eq, "=="),
    (Cond::Gt, ">"),
    (Cond::Ge, ">="),
    (Cond::Set, "&"),
    (Cond::Ne, "!="),
    (Cond::SGt, "s>"),
    (Cond::SGe, "s>="),
    (Cond::Lt, "<"),
    (Cond::Le, "<="),
    (Cond::SLt, "s<"),
    (Cond::SLe, "s<="),
];

const SIZES: [(Size, &str); 4] =
    [(Size::Byte, "u8"), (Size::Half, "u16"), (Size::Word, "u32"), (Size::Double, "u64")];

/// `(61) r2 = *(u32 *)(r1 +4)`. A 64-bit load takes two instructions: the first shows the lower
/// half and the second the upper half. Unknown instructions are shown as their fields.
impl Display for Insn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { code, off, imm, .. } = *self;
        let (dst, src) = (self.dst(), self.src());
        let source_is_register = code & SOURCE_REG != 0;
        let size =
            SIZES.iter().find(|(size, _)| *size as u8 == code & SIZE).map_or("", |size| size.1);
        write!(f, "({code:02x}) ")?;
        match code & class::MASK {
            class::ALU | class::ALU64 => {
                // 32-bit registers are w0 to w10.
                let r = if code & class::MASK == class::ALU64 { 'r' } else { 'w' };
                let operation = ALU.iter().find(|(alu, _)| *alu as u8 == code & OPERATION);
                match (code & OPERATION, operation) {
                    (END, _) => {
                        let order = if source_is_register { "be" } else { "le" };
                        write!(f, "r{dst} = {order}{imm} r{dst}")
                    }
                    (operation, _) if operation == Alu::Neg as u8 => {
                        write!(f, "{r}{dst} = -{r}{dst}")
                    }
                    (_, Some((_, name))) if source_is_register => {
                        write!(f, "{r}{dst} {name} {r}{src}")
                    }
                    (_, Some((_, name))) => write!(f, "{r}{dst} {name} {imm}"),
                    _ => self.fields(f),
                }
            }
            class::LDX if code & MODE == MODE_MEM => {
                write!(f, "r{dst} = *({size} *)(r{src} {off:+})")
            }
            class::STX if code & MODE == MODE_MEM => {
                write!(f, "*({size} *)(r{dst} {off:+}) = r{src}")
            }
            class::ST if code & MODE == MODE_MEM => {
                write!(f, "*({size} *)(r{dst} {off:+}) = {imm}")
            }
            class::LD if code & SIZE == Size::Double as u8 && src == 0 => {
                write!(f, "r{dst} = {imm:#x} ll")
            }
            class::LD if code & SIZE == Size::Double as u8 => write!(f, "r{dst} = map[fd:{imm}]"),
            class::JMP if code == class::JMP | EXIT => f.write_str("exit"),
            class::JMP if code == class::JMP | CALL => write!(f, "call #{imm}"),
            class::JMP if code == class::JMP | JA => write!(f, "goto pc{off:+}"),
            class::JMP | class::JMP32 => {
                let r = if code & class::MASK == class::JMP { 'r' } else { 'w' };
                let condition = CONDITIONS.iter().find(|(cond, _)| *cond as u8 == code & OPERATION);
                match condition {
                    Some((_, name)) if source_is_register => {
                        write!(f, "if {r}{dst} {name} {r}{src} goto pc{off:+}")
                    }
                    Some((_, name)) => write!(f, "if {r}{dst} {name} {imm:#x} goto pc{off:+}"),
                    None => self.fields(f),
                }
            }
            _ => self.fields(f),
        }
    }
}

impl Insn {
    fn fields(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "dst {} src {} off {} imm {:#x}", self.dst(), self.src(), self.off, self.imm)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reg::*;
    use super::*;

    #[test]
    fn instructions_as_the_verifier_writes_them() {
        for (insn, text) in [
            (Insn::mov(R0, -2), "(b7) r0 = -2"),
            (Insn::mov_reg(R6, R1), "(bf) r6 = r1"),
            (Insn::load(Size::Word, R2, R1, 4), "(61) r2 = *(u32 *)(r1 +4)"),
            (Insn::load(Size::Double, R2, R1, 0), "(79) r2 = *(u64 *)(r1 +0)"),
            (Insn::store(Size::Half, R10, -8, R3), "(6b) *(u16 *)(r10 -8) = r3"),
            (Insn::store_imm(Size::Byte, R10, -1, 7), "(72) *(u8 *)(r10 -1) = 7"),
            (Insn::alu32(Alu::And, R4, 15), "(54) w4 &= 15"),
            (Insn::alu32_reg(Alu::Arsh, R4, R5), "(cc) w4 s>>= w5"),
            (Insn::alu64(Alu::Neg, R4, 0), "(87) r4 = -r4"),
            (Insn::to_be(R5, 16), "(dc) r5 = be16 r5"),
            (Insn::jump(-3), "(05) goto pc-3"),
            (Insn::jump_if_reg(Cond::Gt, R2, R3, 5), "(2d) if r2 > r3 goto pc+5"),
            (Insn::jump32_if(Cond::Ne, R7, 0x800, 0), "(56) if w7 != 0x800 goto pc+0"),
            (Insn::jump_if(Cond::SLe, R7, -1, 2), "(d5) if r7 s<= 0xffffffff goto pc+2"),
            (Insn::call(188), "(85) call #188"),
            (Insn::exit(), "(95) exit"),
            (Insn::load64(R1, 0x1_0000_0002)[0], "(18) r1 = 0x2 ll"),
            (Insn::load_map(R1, 5)[0], "(18) r1 = map[fd:5]"),
            (Insn::load64(R1, 0x1_0000_0002)[1], "(00) dst 0 src 0 off 0 imm 0x1"),
            (Insn::raw(0xff, R1, 2, 3, 4), "(ff) dst 1 src 2 off 3 imm 0x4"),
        ] {
            assert_eq!(insn.to_string(), text);
        }
    }
}
