//! A program for the kernel's socket filter.
//!
//! The kernel removes the outer VLAN tag from received packets, and from sent packets if the
//! interface inserts tags: then the tag is in ancillary fields. In other sent packets the tag is
//! still in the bytes. So the instructions contain the program twice, both if it was made for the
//! kernel's view ([`Program::for_bytes`]) and if it expects tags in the bytes. A program that reads
//! the tag fields itself is written once.

use crate::check::MAX_INSTRUCTIONS;
use crate::error::{Error, Result};
use crate::instruction::Instruction;
use crate::op::{Ancillary, Cond, Op};
use crate::program::Program;
use crate::tag::{self, TagPlace};
use crate::tags::concerns_tags;
use crate::writer::{ProgramRewriter, RewriteTarget};

impl Program {
    /// Instructions for `SO_ATTACH_FILTER` on a packet socket, which accept at most `snaplen`
    /// bytes. They do not depend on initial values of registers.
    ///
    /// # Errors
    /// A usage error: there are too many instructions, or they need a cell of scratch memory and
    /// the program uses all cells.
    pub fn for_socket(&self, snaplen: u32) -> Result<Vec<Instruction>> {
        let program = self.of_kernel();
        let tag_at = tag::position(program.link_type());
        let concerned = tag_at.filter(|tag_at| concerns_tags(program, *tag_at));
        let mut writer =
            ProgramRewriter::new(program, RewriteTarget::Socket { snaplen }, tag_at.unwrap_or(0));
        match concerned {
            None => writer.copy(TagPlace::AsMeant, None)?,
            Some(_) if self.is_made() => writer.both(TagPlace::AsMeant)?,
            // A program that reads the tag already handles the kernel's behaviour.
            Some(_) if asks_for_tags(program) => writer.copy(TagPlace::AsMeant, None)?,
            Some(_) => {
                let (tagged, untagged) = (writer.items.label(), writer.items.label());
                writer.items.push(Op::LoadAncillary(Ancillary::VlanPresent));
                writer.items.branch(Cond::Equal, 0, untagged, tagged);
                writer.items.place(tagged);
                writer.copy(TagPlace::TakenOut, None)?;
                writer.items.place(untagged);
                writer.copy(TagPlace::AsMeant, None)?;
            }
        }
        let instructions = writer.finish().finish();
        let len = instructions.len();
        if len > MAX_INSTRUCTIONS {
            let cause = format!(
                "as a socket filter it has {len} instructions; the kernel accepts \
                 {MAX_INSTRUCTIONS}"
            );
            return Err(Error::invalid("filter", cause).help("write a shorter expression"));
        }
        Ok(instructions)
    }

    /// The unchanged instructions, for packets in the kernel's view, except that returned constants
    /// are limited to `snaplen` bytes. They do not depend on the initial value of A.
    pub fn verbatim(&self, snaplen: u32) -> Vec<Instruction> {
        let ops = self.of_kernel().ops();
        let clears = matches!(ops.first(), Some(Op::LoadAbsolute(..) | Op::LoadImmediate(_)));
        let clear = (!clears).then(|| Op::LoadImmediate(0).encode());
        let cut = |op: &Op| match *op {
            Op::Return(k) => Op::Return(k.min(snaplen)).encode(),
            op => op.encode(),
        };
        clear.into_iter().chain(ops.iter().map(cut)).collect()
    }
}

fn asks_for_tags(program: &Program) -> bool {
    use Ancillary::{VlanPresent, VlanTci, VlanTpid};
    program.ancillary().iter().any(|field| matches!(field, VlanPresent | VlanTci | VlanTpid))
}
