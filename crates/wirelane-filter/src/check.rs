//! The kernel's rules for classic programs: `bpf_check_basics_ok`, `bpf_check_classic` and
//! `check_load_and_stores` of `net/core/filter.c`. The kernel accepts every program that passes.

use crate::disassembly::Disassembly;
use crate::error::Error;
use crate::instruction::Instruction;
use crate::op::{ANCILLARY, Alu, MEMORY_CELLS, Op, Operand};

/// Most instructions of a program, `BPF_MAXINSNS` of `linux/bpf_common.h`.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Decodes a program that obeys all rules.
///
/// # Errors
/// A usage error: the instruction, and the rule or limit that it breaks.
pub(crate) fn decode(program: &[Instruction]) -> Result<Vec<Op>, Error> {
    if program.len() > MAX_INSTRUCTIONS {
        let len = program.len();
        let cause = format!("it has {len} instructions; the kernel accepts {MAX_INSTRUCTIONS}");
        return Err(Error::invalid("filter", cause).help("write a shorter expression"));
    }
    let ops = decode_written(program)?;
    memory(&ops).map_err(|(at, cell)| {
        let cause = format!("M[{cell}] is loaded, but not every path stores it first");
        refused(at, program[at], cause)
    })?;
    Ok(ops)
}

/// As [`decode`], for a program that this crate derived from a checked one and does not pass to the
/// kernel: it may be longer, and may load scratch memory that no store has set, where engines find
/// 0.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_written(program: &[Instruction]) -> Result<Vec<Op>, Error> {
    if program.is_empty() {
        return Err(Error::invalid("filter", "it has no instructions"));
    }
    let ops = operations(program)?;
    if let (Some(last), Some(insn)) = (ops.last(), program.last())
        && !matches!(last, Op::Return(_) | Op::ReturnA)
    {
        let cause = "the last instruction must be a return".to_owned();
        return Err(refused(program.len() - 1, *insn, cause));
    }
    Ok(ops)
}

/// The operations of a program that breaks only one rule: it loads scratch memory that no store has
/// set.
pub(crate) fn forgetful(program: &[Instruction]) -> Option<Vec<Op>> {
    operations(program).ok().filter(|ops| memory(ops).is_err())
}

fn operations(program: &[Instruction]) -> Result<Vec<Op>, Error> {
    let mut ops = Vec::with_capacity(program.len());
    for (at, insn) in program.iter().enumerate() {
        let after = program.len() - at - 1;
        ops.push(operation(*insn, after).map_err(|cause| refused(at, *insn, cause))?);
    }
    Ok(ops)
}

fn refused(at: usize, insn: Instruction, cause: String) -> Error {
    let text = Disassembly { at, insn }.to_string();
    let text = text.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    Error::invalid(format!("filter instruction {at} ({text})"), cause)
}

/// Decodes one instruction that is followed by `after` others.
fn operation(insn: Instruction, after: usize) -> Result<Op, String> {
    let Some(op) = Op::decode(insn) else {
        let Instruction { code, k, .. } = insn;
        return Err(match k.checked_sub(ANCILLARY) {
            Some(field) if Op::decode(Instruction { k: 0, ..insn }).is_some() => {
                format!(
                    "offset {} is before the packet and is no ancillary field {field}",
                    k as i32
                )
            }
            _ => format!("there is no instruction {code:#x}"),
        });
    };
    let in_program = |skip: u32| match skip as usize {
        skip if skip < after => Ok(()),
        skip => Err(format!("it skips {skip} instructions, and {after} follow")),
    };
    match op {
        Op::Alu(Alu::Div | Alu::Mod, Operand::K(0)) => return Err("it divides by 0".to_owned()),
        Op::Alu(Alu::Shl | Alu::Shr, Operand::K(k)) if k >= 32 => {
            return Err(format!("it shifts by {k}, and the limit is 31"));
        }
        Op::LoadMemory(k) | Op::LoadXMemory(k) | Op::Store(k) | Op::StoreX(k)
            if k >= MEMORY_CELLS =>
        {
            return Err(format!("there is no M[{k}], the last one is M[{}]", MEMORY_CELLS - 1));
        }
        Op::Jump(k) if k as i32 <= -1 => {
            return Err(
                "it jumps back, and the kernel accepts no loops (protochain makes one)".to_owned()
            );
        }
        Op::Jump(k) => in_program(k)?,
        Op::Branch { jt, jf, .. } => {
            in_program(jt.into())?;
            in_program(jf.into())?;
        }
        _ => {}
    }
    Ok(op)
}

/// Checks that every load from scratch memory follows a store; otherwise returns the instruction
/// and the cell.
///
/// As in the kernel, code after a return counts as reached from it. This is stricter than
/// necessary, but the kernel would refuse the other programs.
fn memory(ops: &[Op]) -> Result<(), (usize, u32)> {
    // Jumps only lead forward, so every jump to an instruction precedes it.
    let mut at_entry = vec![u16::MAX; ops.len()];
    let mut stored = 0u16;
    for (at, op) in ops.iter().enumerate() {
        stored &= at_entry[at];
        match *op {
            Op::Store(cell) | Op::StoreX(cell) => stored |= 1 << cell,
            Op::LoadMemory(cell) | Op::LoadXMemory(cell) if stored & 1 << cell == 0 => {
                return Err((at, cell));
            }
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
    }
    Ok(())
}
