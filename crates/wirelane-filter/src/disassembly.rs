//! Prints instructions in the format of `tcpdump -d`.

use std::fmt;

use crate::instruction::Instruction;
use crate::op::{ALU_CODES, COND_CODES, Op, code};

/// One line of `tcpdump -d`: libpcap's `bpf_image`.
pub(crate) struct Disassembly {
    pub(crate) at: usize,
    pub(crate) insn: Instruction,
}

impl fmt::Display for Disassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, insn: Instruction { code, jt, jf, k } } = *self;
        let (name, operand) = names(code, k, at);
        write!(f, "({at:03}) {name:<8} ")?;
        if code & code::CLASS == code::JMP && code != code::JA && name != UNKNOWN {
            let target = |skip: u8| at + 1 + usize::from(skip);
            return write!(f, "{operand:<16} jt {}\tjf {}", target(jt), target(jf));
        }
        f.write_str(&operand)
    }
}

const UNKNOWN: &str = "unimp";

/// Name and operand of an instruction.
fn names(code: u16, k: u32, at: usize) -> (&'static str, String) {
    // libpcap prints numbers as signed, except where they are probably bit masks.
    let signed = k as i32;
    let absolute = || match Op::decode(Instruction { code, jt: 0, jf: 0, k }) {
        Some(Op::LoadAncillary(field)) => format!("[{}]", field.name()),
        Some(Op::Alu(..)) => "[xor_x]".to_owned(),
        _ => format!("[{signed}]"),
    };
    let with_x = code & code::SOURCE_X != 0;
    let operation = code & code::OPERATION;
    match code {
        code::LD_W_ABS => ("ld", absolute()),
        code::LD_H_ABS => ("ldh", absolute()),
        code::LD_B_ABS => ("ldb", absolute()),
        code::LD_W_IND => ("ld", format!("[x + {signed}]")),
        code::LD_H_IND => ("ldh", format!("[x + {signed}]")),
        code::LD_B_IND => ("ldb", format!("[x + {signed}]")),
        code::LD_IMM => ("ld", format!("#{k:#x}")),
        code::LDX_IMM => ("ldx", format!("#{k:#x}")),
        code::LD_MEM => ("ld", format!("M[{signed}]")),
        code::LDX_MEM => ("ldx", format!("M[{signed}]")),
        code::LD_LEN => ("ld", "#pktlen".to_owned()),
        code::LDX_LEN => ("ldx", "#pktlen".to_owned()),
        code::LDX_MSH => ("ldxb", format!("4*([{signed}]&0xf)")),
        code::ST => ("st", format!("M[{signed}]")),
        code::STX => ("stx", format!("M[{signed}]")),
        code::JA => ("ja", format!("{}", (at as i32).wrapping_add(1).wrapping_add(signed))),
        code::RET_K => ("ret", format!("#{signed}")),
        code::RET_A => ("ret", String::new()),
        code::TAX => ("tax", String::new()),
        code::TXA => ("txa", String::new()),
        code::NEG => ("neg", String::new()),
        _ if code > 0xff => (UNKNOWN, format!("{code:#x}")),
        _ if code & code::CLASS == code::ALU => {
            match ALU_CODES.iter().find(|entry| entry.0 == operation) {
                Some((_, _, name)) if with_x => (*name, "x".to_owned()),
                Some((_, _, name)) if matches!(*name, "and" | "or" | "xor") => {
                    (*name, format!("#{k:#x}"))
                }
                Some((_, _, name)) => (*name, format!("#{signed}")),
                None => (UNKNOWN, format!("{code:#x}")),
            }
        }
        _ if code & code::CLASS == code::JMP => {
            match COND_CODES.iter().find(|entry| entry.0 == operation) {
                Some((_, _, name)) if with_x => (*name, "x".to_owned()),
                Some((_, _, name)) => (*name, format!("#{k:#x}")),
                None => (UNKNOWN, format!("{code:#x}")),
            }
        }
        _ => (UNKNOWN, format!("{code:#x}")),
    }
}
