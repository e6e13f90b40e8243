//! Generates aarch64 instructions for filters.
//!
//! The code uses no callee-saved registers. This ABI has no red zone: a signal may overwrite memory
//! below the stack pointer. So both entries allocate stack memory:
//!
//! | register | contents |
//! |---|---|
//! | X0, X2 | the next record of the array, and its end |
//! | X1 | the address of the next verdict |
//! | X3, X4 | the packet, and its length as 64 bits |
//! | W5, W6 | A and X; the upper halves are 0 |
//! | X7, W8, X16, V0 to V2 | temporary values |

mod assembler;
mod encoding;

#[cfg(test)]
mod tests;

use std::mem::offset_of;

use self::assembler::{
    Arithmetic, Assembler, Binary, Condition, Gpr, Logical, Memory, OperandSize, SP, Vector, ZERO,
};
use super::code::{CodeLabel, JitCode};
use super::emit::{self, AcceptedBytes, Processor, in_packet};
use super::graph::{ComparedValue, NodeAction, PacketField, PacketInfo, Register, full};
use super::layout::{Context, Layout};
use crate::op::{Alu, Cond, Operand, Width};
use crate::packet::MIN_ETHERTYPE;

const RECORDS: Gpr = Gpr(0);
const VERDICTS: Gpr = Gpr(1);
const END: Gpr = Gpr(2);
const PACKET: Gpr = Gpr(3);
const LENGTH: Gpr = Gpr(4);
const A: Gpr = Gpr(5);
const X: Gpr = Gpr(6);
const OTHER: Gpr = Gpr(7);
const CONSTANT: Gpr = Gpr(8);

/// The machine of aarch64.
#[derive(Default)]
pub(super) struct Aarch64 {
    code: Assembler,
}

impl Processor for Aarch64 {
    type Condition = Condition;

    fn code(&mut self) -> &mut JitCode {
        &mut self.code.code
    }

    fn records_entry(&mut self) {
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Sub, (SP, SP, CALL));
    }

    fn next_record(&mut self, layout: Layout, has_length: bool) {
        self.code.load_double(OTHER, Memory::at(RECORDS, 0));
        self.code.load_double(PACKET, Memory::at(OTHER, layout.data.into()));
        let word = |offset: u16| Memory::at(OTHER, offset.into());
        self.code.load(LENGTH, Width::Word, word(layout.length));
        if has_length {
            self.code.load(A, Width::Word, word(layout.original_length));
            self.code.store_word(info(PacketInfo::Length), A);
        }
    }

    fn single_entry(&mut self, has_info: bool) {
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Sub, (SP, SP, CALL));
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Add, (END, RECORDS, 8));
        let context = |offset| Memory::at(RECORDS, offset as i32);
        self.code.load_double(PACKET, context(offset_of!(Context, data)));
        self.code.load(LENGTH, Width::Word, context(offset_of!(Context, len)));
        if has_info {
            for (what, offset) in emit::INFO {
                self.code.load(A, Width::Word, context(offset));
                self.code.store_word(info(what), A);
            }
        }
    }

    fn leave(&mut self) {
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Add, (SP, SP, CALL));
        self.code.ret();
    }

    fn clear(&mut self, register: Register) {
        self.code.mov_immediate(gpr(register), 0);
    }

    fn clear_cell(&mut self, slot: u8) {
        self.code.store_word(cell(slot), ZERO);
    }

    fn require(&mut self, len: u32, shorter: CodeLabel) {
        self.code.compare_immediate(LENGTH, len);
        self.code.jump_if(Condition::Lower, shorter);
    }

    fn action(&mut self, action: NodeAction, reject: CodeLabel) {
        let code = &mut self.code;
        match action {
            NodeAction::Load(register, PacketField { offset, width, .. }) => {
                self.load(gpr(register), width, Memory::at(PACKET, offset));
            }
            NodeAction::LoadAtX(width, offset) => {
                let place = self.check_at_x(width, offset, reject);
                self.load(A, width, place);
            }
            NodeAction::HeaderLength(offset) => {
                code.load(X, Width::Byte, Memory::at(PACKET, offset));
                code.four_times_lower_half(X, X);
            }
            NodeAction::Constant(register, value) => code.mov_immediate(gpr(register), value),
            NodeAction::LoadInfo(register, what) => {
                code.load(gpr(register), Width::Word, info(what))
            }
            NodeAction::Protocol => self.protocol(),
            NodeAction::LoadCell(register, slot) => {
                code.load(gpr(register), Width::Word, cell(slot))
            }
            NodeAction::StoreCell(register, slot) => code.store_word(cell(slot), gpr(register)),
            NodeAction::Alu(alu, Operand::K(k)) => self.alu_immediate(alu, k),
            NodeAction::Alu(alu, Operand::X) => self.alu(alu, reject),
            NodeAction::Negate => code.arithmetic(OperandSize::W, Arithmetic::Sub, (A, ZERO, A)),
            NodeAction::ToX => code.mov(X, A),
            NodeAction::ToA => code.mov(A, X),
        }
    }

    fn compare(
        &mut self,
        subject: ComparedValue,
        cond: Cond,
        operand: Operand,
        reject: CodeLabel,
    ) -> Condition {
        match (subject, operand) {
            (ComparedValue::Field(field), Operand::K(k)) => {
                let place = Memory::at(PACKET, field.offset);
                self.compare_packet(place, field.width, field.mask, cond, k);
            }
            (ComparedValue::AtX(width, offset), Operand::K(k)) => {
                let place = self.check_at_x(width, offset, reject);
                self.compare_packet(place, width, full(width), cond, k);
            }
            (_, Operand::K(k)) => self.compare_register(A, cond, k),
            (_, Operand::X) => match cond {
                Cond::Set => self.code.logical(Logical::Ands, ZERO, A, X),
                _ => self.code.compare(OperandSize::W, A, X),
            },
        }
        match cond {
            Cond::Equal => Condition::Equal,
            Cond::Greater => Condition::Higher,
            Cond::GreaterEqual => Condition::HigherOrSame,
            Cond::Set => Condition::NotEqual,
        }
    }

    fn member_of_few(&mut self, field: PacketField, values: &[u32], found: CodeLabel) {
        self.load_masked(field);
        for value in values {
            self.code.compare_immediate(OTHER, *value);
            self.code.jump_if(Condition::Equal, found);
        }
    }

    fn member_of_many(&mut self, field: PacketField, values: &[[u32; 4]], found: CodeLabel) {
        const FIELD: Vector = Vector(0);
        const EQUAL: Vector = Vector(1);
        const ANY: Vector = Vector(2);
        self.load_masked(field);
        self.code.broadcast(FIELD, OTHER);
        for (index, four) in values.iter().enumerate() {
            let into = if index == 0 { ANY } else { EQUAL };
            self.code.vector_constant(into, *four);
            self.code.vector_equal(into, FIELD);
            if index > 0 {
                self.code.vector_or(ANY, EQUAL);
            }
        }
        self.code.vector_any(OTHER, ANY);
        self.code.jump_unless_zero_double(OTHER, found);
    }

    fn verdict(&mut self, verdict: AcceptedBytes, next: CodeLabel) {
        let register = match verdict {
            AcceptedBytes::A => A,
            AcceptedBytes::Value(0) => ZERO,
            AcceptedBytes::Value(value) => {
                self.code.mov_immediate(OTHER, value);
                OTHER
            }
        };
        self.code.store_word_and_advance(VERDICTS, register);
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Add, (RECORDS, RECORDS, 8));
        self.code.compare(OperandSize::X, RECORDS, END);
        self.code.jump_if(Condition::NotEqual, next);
        self.leave();
    }

    fn jump(&mut self, label: CodeLabel) {
        self.code.jump(label);
    }

    fn jump_if(&mut self, condition: Condition, label: CodeLabel) {
        self.code.jump_if(condition, label);
    }

    fn jump_unless(&mut self, condition: Condition, label: CodeLabel) {
        self.code.jump_if(condition.opposite(), label);
    }

    fn finish(self) -> Option<Vec<u8>> {
        self.code.finish()
    }
}

impl Aarch64 {
    /// A = the EtherType. For a length field: 1 if the payload begins with ones, otherwise 4.
    fn protocol(&mut self) {
        let is_known = self.code.code.label();
        self.load(A, Width::Half, Memory::at(PACKET, 12));
        self.code.compare_immediate(A, MIN_ETHERTYPE);
        self.code.jump_if(Condition::HigherOrSame, is_known);
        self.code.load(OTHER, Width::Half, Memory::at(PACKET, 14));
        self.code.compare_immediate(OTHER, 0xffff);
        self.code.mov_immediate(A, 1);
        self.code.jump_if(Condition::Equal, is_known);
        self.code.mov_immediate(A, 4);
        self.code.code.bind(is_known);
    }

    fn alu_immediate(&mut self, alu: Alu, k: u32) {
        let code = &mut self.code;
        match alu {
            Alu::Add => code.arithmetic_immediate(OperandSize::W, Arithmetic::Add, (A, A, k)),
            Alu::Sub => code.arithmetic_immediate(OperandSize::W, Arithmetic::Sub, (A, A, k)),
            Alu::And => code.logical_immediate(Logical::And, A, A, k),
            Alu::Or => code.logical_immediate(Logical::Orr, A, A, k),
            Alu::Xor => code.logical_immediate(Logical::Eor, A, A, k),
            Alu::Mul => {
                code.mov_immediate(CONSTANT, k);
                code.multiply(A, A, CONSTANT);
            }
            Alu::Shl | Alu::Shr if k >= 32 => code.mov_immediate(A, 0),
            Alu::Shl => code.shift_left(A, A, k),
            Alu::Shr => code.shift_right(A, A, k),
            Alu::Div if k.is_power_of_two() => code.shift_right(A, A, k.trailing_zeros()),
            Alu::Mod if k.is_power_of_two() => {
                code.logical_immediate(Logical::And, A, A, k - 1);
            }
            // `flow` has ensured that the constant is not 0.
            Alu::Div => {
                code.mov_immediate(CONSTANT, k);
                code.binary(Binary::Udiv, A, A, CONSTANT);
            }
            Alu::Mod => {
                code.mov_immediate(CONSTANT, k);
                code.binary(Binary::Udiv, OTHER, A, CONSTANT);
                code.multiply_subtract(A, OTHER, CONSTANT, A);
            }
        }
    }

    fn alu(&mut self, alu: Alu, reject: CodeLabel) {
        let code = &mut self.code;
        match alu {
            Alu::Add => code.arithmetic(OperandSize::W, Arithmetic::Add, (A, A, X)),
            Alu::Sub => code.arithmetic(OperandSize::W, Arithmetic::Sub, (A, A, X)),
            Alu::And => code.logical(Logical::And, A, A, X),
            Alu::Or => code.logical(Logical::Orr, A, A, X),
            Alu::Xor => code.logical(Logical::Eor, A, A, X),
            Alu::Mul => code.multiply(A, A, X),
            Alu::Shl | Alu::Shr => {
                // The processor takes the count modulo 32.
                code.binary(if alu == Alu::Shl { Binary::Lslv } else { Binary::Lsrv }, A, A, X);
                code.compare_immediate(X, 32);
                code.keep_if(Condition::Lower, A);
            }
            Alu::Div => {
                code.jump_if_zero(X, reject);
                code.binary(Binary::Udiv, A, A, X);
            }
            Alu::Mod => {
                code.jump_if_zero(X, reject);
                code.binary(Binary::Udiv, OTHER, A, X);
                code.multiply_subtract(A, OTHER, X, A);
            }
        }
    }

    /// Compares bytes of the packet under a mask. For equality and common bits, the constant is
    /// swapped instead of the bytes, which costs nothing at run time.
    fn compare_packet(&mut self, place: Memory, width: Width, mask: u32, cond: Cond, k: u32) {
        let is_full = mask == full(width);
        let (mask, k) = match cond {
            Cond::Equal | Cond::Set => {
                self.code.load(OTHER, width, place);
                (in_packet(width, mask), in_packet(width, k & mask))
            }
            Cond::Greater | Cond::GreaterEqual => {
                self.load(OTHER, width, place);
                (mask, k)
            }
        };
        match cond {
            // `k` has no bits outside the mask.
            Cond::Set => {}
            Cond::Equal if k == 0 && !is_full => {
                return self.code.logical_immediate(Logical::Ands, ZERO, OTHER, mask);
            }
            _ if is_full => {}
            _ => self.code.logical_immediate(Logical::And, OTHER, OTHER, mask),
        }
        self.compare_register(OTHER, cond, k);
    }

    fn compare_register(&mut self, register: Gpr, cond: Cond, k: u32) {
        match cond {
            Cond::Set => self.code.logical_immediate(Logical::Ands, ZERO, register, k),
            _ => self.code.compare_immediate(register, k),
        }
    }

    /// Rejects a packet that ends before the bytes at X plus `offset` do. Returns their address,
    /// which is valid until X7 changes.
    fn check_at_x(&mut self, width: Width, offset: i32, reject: CodeLabel) -> Memory {
        let bytes = width.bytes() as i32;
        // X and the end of the bytes are below 2³², so their sum does not wrap.
        let end = offset.wrapping_add(bytes) as u32;
        self.code.arithmetic_immediate(OperandSize::X, Arithmetic::Add, (OTHER, X, end));
        self.code.compare(OperandSize::X, OTHER, LENGTH);
        self.code.jump_if(Condition::Higher, reject);
        self.code.arithmetic(OperandSize::X, Arithmetic::Add, (OTHER, OTHER, PACKET));
        Memory::at(OTHER, -bytes)
    }

    /// Loads the bytes of the field into X7, in network order and masked.
    fn load_masked(&mut self, PacketField { offset, width, mask }: PacketField) {
        self.code.load(OTHER, width, Memory::at(PACKET, offset));
        if mask != full(width) {
            let mask = in_packet(width, mask);
            self.code.logical_immediate(Logical::And, OTHER, OTHER, mask);
        }
    }

    /// Loads a number of the packet in host byte order.
    fn load(&mut self, register: Gpr, width: Width, place: Memory) {
        self.code.load(register, width, place);
        match width {
            Width::Word => self.code.swap_word(register),
            Width::Half => self.code.swap_half(register),
            Width::Byte => {}
        }
    }
}

fn gpr(register: Register) -> Gpr {
    match register {
        Register::A => A,
        Register::X => X,
    }
}

/// The stack memory of a call, which keeps the stack pointer a multiple of 16.
const CALL: u32 = emit::CALL.next_multiple_of(16);

fn cell(slot: u8) -> Memory {
    Memory::at(SP, emit::cell(slot).into())
}

fn info(what: PacketInfo) -> Memory {
    Memory::at(SP, emit::info(what).into())
}
