//! An assembler with labels: a jump may name a later place.

use std::fmt;

use wirelane_filter::ebpf::{Cond, Insn, Reg};

/// A place in the program of one [`Assembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// An error of assembling a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsmError {
    /// The jump at this instruction leads to a label that was never placed.
    Unplaced(usize),
    /// The distance of the jump at this instruction exceeds 16 bits.
    TooFar(usize),
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsmError::Unplaced(at) => write!(f, "the jump at instruction {at} leads nowhere"),
            AsmError::TooFar(at) => write!(f, "the jump at instruction {at} leads too far"),
        }
    }
}

impl std::error::Error for AsmError {}

/// A program under construction.
///
/// ```
/// use wirelane_os::bpf::{Assembler, Cond, Insn, Reg};
///
/// let mut asm = Assembler::new();
/// let end = asm.label();
/// asm.emit(Insn::mov(Reg::R0, 1));
/// asm.jump_if(Cond::Eq, Reg::R1, 0, end);
/// asm.emit(Insn::mov(Reg::R0, 2));
/// asm.place(end);
/// asm.emit(Insn::exit());
/// assert_eq!(asm.finish().unwrap()[1].off, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    /// The position of each label.
    places: Vec<Option<usize>>,
    /// Jumps whose distance is still missing.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// A new label, which is not placed yet.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places `label` before the next instruction; only the first placement counts.
    pub fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            place.get_or_insert(self.insns.len());
        }
    }

    /// Instructions so far.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// Appends an instruction.
    pub fn emit(&mut self, insn: Insn) {
        self.insns.push(insn);
    }

    /// Appends instructions, such as the two of [`Insn::load64`].
    pub fn extend(&mut self, insns: impl IntoIterator<Item = Insn>) {
        self.insns.extend(insns);
    }

    /// Appends a jump to `label`; the jump's distance is ignored.
    pub fn emit_to(&mut self, jump: Insn, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(jump);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.emit_to(Insn::jump(0), label);
    }

    /// Jumps to `label` if `dst cond imm`, on 64 bits; the immediate is sign-extended.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, imm: i32, label: Label) {
        self.emit_to(Insn::jump_if(cond, dst, imm, 0), label);
    }

    /// Jumps to `label` if `dst cond src`, on 64 bits.
    pub fn jump_if_reg(&mut self, cond: Cond, dst: Reg, src: Reg, label: Label) {
        self.emit_to(Insn::jump_if_reg(cond, dst, src, 0), label);
    }

    /// Jumps to `label` if `dst cond imm`, on 32 bits.
    pub fn jump32_if(&mut self, cond: Cond, dst: Reg, imm: i32, label: Label) {
        self.emit_to(Insn::jump32_if(cond, dst, imm, 0), label);
    }

    /// Jumps to `label` if `dst cond src`, on 32 bits.
    pub fn jump32_if_reg(&mut self, cond: Cond, dst: Reg, src: Reg, label: Label) {
        self.emit_to(Insn::jump32_if_reg(cond, dst, src, 0), label);
    }

    /// The finished program.
    ///
    /// # Errors
    /// A label was not placed, or a jump is too long.
    pub fn finish(mut self) -> Result<Vec<Insn>, AsmError> {
        for (at, label) in self.jumps {
            let place = self.places.get(label.0).copied().flatten();
            let place = place.ok_or(AsmError::Unplaced(at))?;
            let distance = place as i64 - (at as i64 + 1);
            let distance = i16::try_from(distance).map_err(|_| AsmError::TooFar(at))?;
            if let Some(insn) = self.insns.get_mut(at) {
                insn.off = distance;
            }
        }
        Ok(self.insns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_forward_and_back() {
        let mut asm = Assembler::new();
        let (start, end) = (asm.label(), asm.label());
        asm.place(start);
        asm.jump_if(Cond::Eq, Reg::R1, 7, end);
        asm.extend(Insn::load64(Reg::R2, 1));
        asm.jump32_if_reg(Cond::Ne, Reg::R1, Reg::R2, start);
        asm.jump(end);
        assert_eq!(asm.len(), 5);
        asm.place(end);
        asm.emit(Insn::exit());
        let program = asm.finish().unwrap();
        let [load, high] = Insn::load64(Reg::R2, 1);
        let expected = [
            Insn::jump_if(Cond::Eq, Reg::R1, 7, 4),
            load,
            high,
            Insn::jump32_if_reg(Cond::Ne, Reg::R1, Reg::R2, -4),
            Insn::jump(0),
            Insn::exit(),
        ];
        assert_eq!(program, expected);
    }

    #[test]
    fn a_jump_to_nowhere_is_an_error() {
        let mut asm = Assembler::new();
        asm.emit(Insn::exit());
        let label = asm.label();
        asm.jump(label);
        assert_eq!(asm.finish(), Err(AsmError::Unplaced(1)));
    }

    #[test]
    fn the_longest_jump() {
        for (between, whole) in [(i16::MAX as usize, true), (i16::MAX as usize + 1, false)] {
            let mut asm = Assembler::new();
            let label = asm.label();
            asm.jump(label);
            asm.extend(vec![Insn::mov(Reg::R0, 0); between]);
            asm.place(label);
            asm.emit(Insn::exit());
            match asm.finish() {
                Ok(program) => assert!(whole && program[0].off == i16::MAX),
                Err(error) => assert!(!whole && error == AsmError::TooFar(0)),
            }
        }
    }
}
