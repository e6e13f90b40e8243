//! A classic BPF program as a value: checked, tied to a link type, read from and written as
//! `tcpdump -ddd` and `tcpdump -d` print it.

use std::fmt;

use wirelane_os::packet::SockFilter;

use super::check;
use super::op::{Ancillary, COND_CODES, Op, code};
use crate::error::{Error, Result};

/// A program that the kernel would take, for packets of one link type.
///
/// Whatever exists as a value has passed the kernel's own rules, so no engine has to look again:
/// jumps lead forward and inside, every way ends in a return, and scratch memory is written before
/// it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    link_type: u16,
    instructions: Vec<SockFilter>,
    ops: Vec<Op>,
}

impl Program {
    /// Checks `instructions` for packets of `link_type` (the registry of capture files: 1 is
    /// Ethernet).
    ///
    /// # Errors
    /// A usage error: which instruction breaks which rule of the kernel.
    pub fn new(link_type: u16, instructions: Vec<SockFilter>) -> Result<Self> {
        let ops = check::decode(&instructions)?;
        Ok(Self { link_type, instructions, ops })
    }

    /// Reads a program as `tcpdump -ddd` writes it: the number of instructions, then four decimal
    /// numbers for each, `code jt jf k`. They stand on lines, or in one line with commas between
    /// instructions as iptables and tc take it.
    ///
    /// # Errors
    /// A usage error: what is no number or too large, or which instruction breaks which rule.
    pub fn parse(link_type: u16, text: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::invalid("filter program", cause)
                .help("write what `tcpdump -ddd EXPRESSION` prints, or an expression")
        };
        let mut parts = text.trim().split([',', '\n']).map(str::trim).filter(|p| !p.is_empty());
        let count = parts.next().unwrap_or_default();
        let count: usize = count
            .parse()
            .map_err(|_| bad(format!("it begins with {count:?}, not a number of instructions")))?;
        let mut instructions = Vec::new();
        for (at, part) in parts.enumerate() {
            let mut numbers = part.split_ascii_whitespace();
            let mut next = |name: &str, limit: u32| -> Result<u32> {
                let text = numbers.next().unwrap_or_default();
                match text.parse::<u32>() {
                    Ok(number) if number <= limit => Ok(number),
                    _ => {
                        Err(bad(format!("instruction {at}: {name} is {text:?}, not 0 to {limit}")))
                    }
                }
            };
            instructions.push(SockFilter {
                code: next("code", u16::MAX.into())? as u16,
                jt: next("jt", u8::MAX.into())? as u8,
                jf: next("jf", u8::MAX.into())? as u8,
                k: next("k", u32::MAX)?,
            });
            if let Some(more) = numbers.next() {
                return Err(bad(format!("instruction {at}: {more:?} is a fifth number")));
            }
        }
        if count != instructions.len() {
            let found = instructions.len();
            return Err(bad(format!("it says {count} instructions and has {found}")));
        }
        Self::new(link_type, instructions)
    }

    /// Link type of the packets it is for, in the registry of capture files.
    pub fn link_type(&self) -> u16 {
        self.link_type
    }

    /// The instructions, 1 to 4096.
    pub fn instructions(&self) -> &[SockFilter] {
        &self.instructions
    }

    /// The same, decoded.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// What it asks beside the bytes of the packet, in order of the first use.
    pub fn ancillary(&self) -> Vec<Ancillary> {
        let mut fields = Vec::new();
        for op in &self.ops {
            if let Op::LoadAncillary(field) = op
                && !fields.contains(field)
            {
                fields.push(*field);
            }
        }
        fields
    }

    /// Whether every engine can run it.
    ///
    /// # Errors
    /// A usage error: it asks something of the kernel's socket buffer, or of bytes by the kernel's
    /// notion of where headers begin, that only the kernel's own socket filter knows.
    pub fn require_portable(&self) -> Result<()> {
        for (at, op) in self.ops.iter().enumerate() {
            let cause = match *op {
                Op::LoadAncillary(field) if !field.is_portable() => {
                    format!("only the kernel's socket filter knows {}", field.name())
                }
                _ => continue,
            };
            return Err(Error::invalid(format!("filter instruction {at}"), cause)
                .help("it can run on packet: alone"));
        }
        Ok(())
    }

    /// The program as `tcpdump -ddd` prints it.
    pub fn decimal(&self) -> impl fmt::Display + '_ {
        Decimal(self)
    }
}

/// As `tcpdump -d` prints it: a line for each instruction.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, insn) in self.instructions.iter().enumerate() {
            writeln!(f, "{}", Disassembly { at, insn: *insn })?;
        }
        Ok(())
    }
}

struct Decimal<'a>(&'a Program);

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.instructions.len())?;
        for SockFilter { code, jt, jf, k } in &self.0.instructions {
            writeln!(f, "{code} {jt} {jf} {k}")?;
        }
        Ok(())
    }
}

/// One line of `tcpdump -d`: libpcap's `bpf_image`.
pub(super) struct Disassembly {
    pub(super) at: usize,
    pub(super) insn: SockFilter,
}

impl fmt::Display for Disassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, insn: SockFilter { code, jt, jf, k } } = *self;
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
    // libpcap prints numbers as signed, except where they are likely to be bits.
    let signed = k as i32;
    let absolute = || match Op::decode(SockFilter { code, jt: 0, jf: 0, k }) {
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
            match super::op::ALU_CODES.iter().find(|entry| entry.0 == operation) {
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
