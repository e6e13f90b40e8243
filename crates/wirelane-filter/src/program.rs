//! A classic BPF program as a value: checked, bound to a link type, parsed from and printed in the
//! formats of `tcpdump -ddd` and `tcpdump -d`.

use std::fmt;

use crate::check;
use crate::disassembly::Disassembly;
use crate::error::{Error, Result};
use crate::instruction::Instruction;
use crate::op::{Ancillary, Op};

/// A program for packets of one link type, which the kernel would accept.
///
/// Every value has passed the kernel's rules, so engines need no further checks: jumps lead forward
/// and stay inside the program, every path ends in a return, and scratch memory is written before
/// it is read. Results of [`Program::for_bytes`] are exempt from two rules: they may be longer, and
/// read 0 from scratch memory that was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    link_type: u16,
    instructions: Vec<Instruction>,
    ops: Vec<Op>,
    /// The original program, for packets in the kernel's view.
    of_kernel: Option<Box<Program>>,
    note: Option<&'static str>,
}

impl Program {
    /// Checks `instructions` for packets of `link_type` (the registry of capture files: 1 is
    /// Ethernet).
    ///
    /// # Errors
    /// A usage error: the instruction and the rule of the kernel that it breaks.
    pub fn new(link_type: u16, instructions: Vec<Instruction>) -> Result<Self> {
        let ops = check::decode(&instructions)?;
        Ok(Self { link_type, instructions, ops, of_kernel: None, note: None })
    }

    /// A program that this crate derived, and that is not passed to the kernel.
    pub(crate) fn written(link_type: u16, instructions: Vec<Instruction>) -> Result<Self> {
        let ops = check::decode_written(&instructions)?;
        Ok(Self { link_type, instructions, ops, of_kernel: None, note: None })
    }

    pub(crate) fn made_of(mut self, of_kernel: &Self) -> Self {
        self.of_kernel = Some(Box::new(of_kernel.clone()));
        self
    }

    pub(crate) fn noted(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }

    /// The original program, for packets as the kernel's socket filter sees them, if this one was
    /// derived from it for the bytes of packets; otherwise this program.
    pub fn of_kernel(&self) -> &Self {
        self.of_kernel.as_deref().unwrap_or(self)
    }

    /// Whether it was derived from another program.
    pub(crate) fn is_made(&self) -> bool {
        self.of_kernel.is_some()
    }

    /// A deviation from the meaning of the expression, for the notes of a port.
    pub fn note(&self) -> Option<&'static str> {
        self.note
    }

    /// Reads a program in the format of `tcpdump -ddd`: the number of instructions, then four
    /// decimal numbers for each, `code jt jf k`. Each instruction is on a separate line; or commas
    /// separate instructions on one line, as iptables and tc accept it.
    ///
    /// # Errors
    /// A usage error: text that is no number or too large, or the instruction and the rule that it
    /// breaks.
    pub fn parse(link_type: u16, text: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::invalid("filter program", cause)
                .help("write an expression, or the output of `tcpdump -ddd EXPRESSION`")
        };
        let mut parts = text.trim().split([',', '\n']).map(str::trim).filter(|p| !p.is_empty());
        let count = parts.next().unwrap_or_default();
        let count: usize = count.parse().map_err(|_| {
            bad(format!("it starts with {count:?}, not with a number of instructions"))
        })?;
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
            instructions.push(Instruction {
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
            return Err(bad(format!("it declares {count} instructions and has {found}")));
        }
        Self::new(link_type, instructions)
    }

    /// Link type of its packets, in the registry of capture files.
    pub fn link_type(&self) -> u16 {
        self.link_type
    }

    /// The instructions: 1 to 4096, or more in a program for bytes that tests for tags.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The decoded instructions.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The metadata that the program reads, in order of first use.
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
    /// A usage error: it reads fields of the kernel's socket buffer, or bytes relative to headers
    /// that the kernel has found. Only the kernel's socket filter supports these.
    pub fn require_portable(&self) -> Result<()> {
        for (at, op) in self.ops.iter().enumerate() {
            let cause = match *op {
                Op::LoadAncillary(field) if !field.is_portable() => {
                    format!("only the kernel's socket filter knows {}", field.name())
                }
                _ => continue,
            };
            return Err(Error::invalid(format!("filter instruction {at}"), cause)
                .help("it runs on packet: only"));
        }
        Ok(())
    }

    /// The program in the format of `tcpdump -ddd`.
    pub fn decimal(&self) -> impl fmt::Display + '_ {
        Decimal(self)
    }
}

/// The format of `tcpdump -d`: a line for each instruction.
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
        for Instruction { code, jt, jf, k } in &self.0.instructions {
            writeln!(f, "{code} {jt} {jf} {k}")?;
        }
        Ok(())
    }
}
