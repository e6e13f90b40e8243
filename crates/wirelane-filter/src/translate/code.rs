//! A buffer of eBPF instructions, with jumps whose distance is filled in at the end.

use super::target::Ending;
use crate::ebpf::{Insn, Reg};
use crate::error::{Error, Result};

/// The target of a jump.
#[derive(Clone, Copy, Debug)]
pub(super) enum JumpLabel {
    /// A classic instruction.
    Op(usize),
    /// The common exit that rejects.
    Reject,
    /// The end of the code.
    End,
}

pub(super) struct TranslatedCode {
    insns: Vec<Insn>,
    /// For each classic instruction, the start of its translation.
    starts: Vec<usize>,
    /// Jumps whose distance is not known yet.
    jumps: Vec<(usize, JumpLabel)>,
}

impl TranslatedCode {
    /// For a program of `ops` classic instructions.
    pub(super) fn new(ops: usize) -> Self {
        let insns = Vec::with_capacity(4 * ops + 16);
        Self { insns, starts: Vec::with_capacity(ops), jumps: Vec::new() }
    }

    /// Marks the start of the next classic instruction.
    pub(super) fn start(&mut self) {
        self.starts.push(self.insns.len());
    }

    pub(super) fn emit(&mut self, insns: impl IntoIterator<Item = Insn>) {
        self.insns.extend(insns);
    }

    /// Appends a jump whose distance [`TranslatedCode::finish`] fills in.
    pub(super) fn jump(&mut self, insn: Insn, label: JumpLabel) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(insn);
    }

    /// Appends the exit that rejects, and fills in the distances.
    ///
    /// # Errors
    /// A jump that is longer than eBPF allows.
    pub(super) fn finish(mut self, ending: Ending) -> Result<Vec<Insn>> {
        let reject = self.insns.len();
        if self.jumps.iter().any(|(_, label)| matches!(label, JumpLabel::Reject)) {
            self.emit([Insn::mov(Reg::R0, 0)]);
            if ending == Ending::Exit {
                self.emit([Insn::exit()]);
            }
        }
        let end = self.insns.len();
        for (from, label) in self.jumps {
            let to = match label {
                JumpLabel::Op(at) => self.starts.get(at).copied().unwrap_or(end),
                JumpLabel::Reject => reject,
                JumpLabel::End => end,
            };
            let distance = to - from - 1;
            let Ok(offset) = i16::try_from(distance) else {
                let cause = format!(
                    "a jump over {distance} instructions of eBPF, and the limit is {}",
                    i16::MAX
                );
                return Err(Error::invalid("filter", cause).help("write a shorter expression"));
            };
            if let Some(insn) = self.insns.get_mut(from) {
                insn.off = offset;
            }
        }
        Ok(self.insns)
    }
}
