//! Generates x86-64 instructions for filters.
//!
//! The code uses no callee-saved registers, and only the red zone of 128 bytes of the stack:
//!
//! | register | contents |
//! |---|---|
//! | RDI, R11 | the next record of the array, and its end |
//! | RSI | the address of the next verdict |
//! | R8, R9 | the packet, and its length as 64 bits |
//! | RAX, RCX | A and X; the upper halves are 0 |
//! | RDX, R10, XMM0 to 2 | temporary values |

mod assembler;

use std::mem::offset_of;

use self::assembler::{Assembler, Binary, Condition, Gpr, Memory, Shift, Unary, Xmm};
use super::code::{CodeLabel, JitCode};
use super::emit::{self, AcceptedBytes, Processor, in_packet};
use super::graph::{ComparedValue, NodeAction, PacketField, PacketInfo, Register, full};
use super::layout::{Context, Layout};
use crate::op::{Alu, Cond, Operand, Width};
use crate::packet::MIN_ETHERTYPE;

/// The machine of x86-64.
#[derive(Default)]
pub(super) struct X86_64 {
    code: Assembler,
}

impl Processor for X86_64 {
    type Condition = Condition;

    fn code(&mut self) -> &mut JitCode {
        &mut self.code.code
    }

    fn records_entry(&mut self) {
        self.code.address(Gpr::R11, Memory::at(Gpr::Rdx, 0));
    }

    fn next_record(&mut self, layout: Layout, has_length: bool) {
        use Gpr::*;
        self.code.load_double(R10, Memory::at(Rdi, 0));
        self.code.load_double(R8, Memory::at(R10, layout.data.into()));
        self.code.load_word(R9, Memory::at(R10, layout.length.into()));
        if has_length {
            self.code.load_word(Rax, Memory::at(R10, layout.original_length.into()));
            self.code.store_word(info(PacketInfo::Length), Rax);
        }
    }

    fn single_entry(&mut self, has_info: bool) {
        use Gpr::*;
        self.code.address(R11, Memory::at(Rdi, 8));
        self.code.load_double(R8, Memory::at(Rdi, offset_of!(Context, data) as i32));
        self.code.load_word(R9, Memory::at(Rdi, offset_of!(Context, len) as i32));
        if has_info {
            for (what, offset) in emit::INFO {
                self.code.load_word(Rax, Memory::at(Rdi, offset as i32));
                self.code.store_word(info(what), Rax);
            }
        }
    }

    fn leave(&mut self) {
        self.code.ret();
    }

    fn clear(&mut self, register: Register) {
        self.code.mov_immediate(gpr(register), 0);
    }

    fn clear_cell(&mut self, slot: u8) {
        self.code.store_immediate(cell(slot), 0);
    }

    fn require(&mut self, len: u32, shorter: CodeLabel) {
        self.code.binary_immediate(Binary::Cmp, Gpr::R9, len);
        self.code.jump_if(Condition::Below, shorter);
    }

    fn action(&mut self, action: NodeAction, reject: CodeLabel) {
        let code = &mut self.code;
        match action {
            NodeAction::Load(register, PacketField { offset, width, .. }) => {
                self.load(gpr(register), width, Memory::at(Gpr::R8, offset));
            }
            NodeAction::LoadAtX(width, offset) => {
                let place = self.check_at_x(width, offset, reject);
                self.load(Gpr::Rax, width, place);
            }
            NodeAction::HeaderLength(offset) => {
                code.load_byte(Gpr::Rcx, Memory::at(Gpr::R8, offset));
                code.binary_immediate(Binary::And, Gpr::Rcx, 0xf);
                code.shift_immediate(Shift::Left, Gpr::Rcx, 2);
            }
            NodeAction::Constant(register, value) => code.mov_immediate(gpr(register), value),
            NodeAction::LoadInfo(register, what) => code.load_word(gpr(register), info(what)),
            NodeAction::Protocol => self.protocol(),
            NodeAction::LoadCell(register, slot) => code.load_word(gpr(register), cell(slot)),
            NodeAction::StoreCell(register, slot) => code.store_word(cell(slot), gpr(register)),
            NodeAction::Alu(alu, Operand::K(k)) => self.alu_immediate(alu, k),
            NodeAction::Alu(alu, Operand::X) => self.alu(alu, reject),
            NodeAction::Negate => code.unary(Unary::Neg, Gpr::Rax),
            NodeAction::ToX => code.mov(Gpr::Rcx, Gpr::Rax),
            NodeAction::ToA => code.mov(Gpr::Rax, Gpr::Rcx),
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
                let place = Memory::at(Gpr::R8, field.offset);
                self.compare_packet(place, field.width, field.mask, cond, k)
            }
            (ComparedValue::AtX(width, offset), Operand::K(k)) => {
                let place = self.check_at_x(width, offset, reject);
                self.compare_packet(place, width, full(width), cond, k)
            }
            (_, Operand::K(k)) => {
                self.compare_register(Gpr::Rax, cond, k);
                condition(cond)
            }
            (_, Operand::X) => {
                match cond {
                    Cond::Set => self.code.test(Gpr::Rax, Gpr::Rcx),
                    _ => self.code.binary(Binary::Cmp, Gpr::Rax, Gpr::Rcx),
                }
                condition(cond)
            }
        }
    }

    fn member_of_few(&mut self, field: PacketField, values: &[u32], found: CodeLabel) {
        self.load_masked(field);
        for value in values {
            self.code.binary_immediate(Binary::Cmp, Gpr::R10, *value);
            self.code.jump_if(Condition::Equal, found);
        }
    }

    fn member_of_many(&mut self, field: PacketField, values: &[[u32; 4]], found: CodeLabel) {
        self.load_masked(field);
        self.code.broadcast(Xmm::X0, Gpr::R10);
        for (index, four) in values.iter().enumerate() {
            let into = if index == 0 { Xmm::X2 } else { Xmm::X1 };
            self.code.vector_move(into, Xmm::X0);
            self.code.vector_equal(into, *four);
            if index > 0 {
                self.code.vector_or(Xmm::X2, Xmm::X1);
            }
        }
        self.code.vector_mask(Gpr::R10, Xmm::X2);
        self.code.test(Gpr::R10, Gpr::R10);
        self.code.jump_if(Condition::NotEqual, found);
    }

    fn verdict(&mut self, verdict: AcceptedBytes, next: CodeLabel) {
        let place = Memory::at(Gpr::Rsi, 0);
        match verdict {
            AcceptedBytes::A => self.code.store_word(place, Gpr::Rax),
            AcceptedBytes::Value(value) => self.code.store_immediate(place, value),
        }
        self.code.binary64_immediate(Binary::Add, Gpr::Rsi, 4);
        self.code.binary64_immediate(Binary::Add, Gpr::Rdi, 8);
        self.code.binary64(Binary::Cmp, Gpr::Rdi, Gpr::R11);
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

impl X86_64 {
    /// A = the EtherType. For a length field: 1 if the payload begins with ones, otherwise 4.
    fn protocol(&mut self) {
        let is_type = self.code.code.label();
        self.load(Gpr::Rax, Width::Half, Memory::at(Gpr::R8, 12));
        self.code.binary_immediate(Binary::Cmp, Gpr::Rax, MIN_ETHERTYPE);
        self.code.jump_if(Condition::AboveOrEqual, is_type);
        self.load_raw(Gpr::R10, Width::Half, Memory::at(Gpr::R8, 14));
        self.code.mov_immediate(Gpr::Rax, 1);
        self.code.binary_immediate(Binary::Cmp, Gpr::R10, 0xffff);
        self.code.jump_if(Condition::Equal, is_type);
        self.code.mov_immediate(Gpr::Rax, 4);
        self.code.code.bind(is_type);
    }

    fn alu_immediate(&mut self, alu: Alu, k: u32) {
        use Gpr::{R10, Rax, Rdx};
        let code = &mut self.code;
        if let Some(op) = binary(alu) {
            code.binary_immediate(op, Rax, k);
            return;
        }
        match alu {
            Alu::Shl | Alu::Shr if k >= 32 => code.mov_immediate(Rax, 0),
            Alu::Shl => code.shift_immediate(Shift::Left, Rax, k as u8),
            Alu::Shr => code.shift_immediate(Shift::Right, Rax, k as u8),
            Alu::Mul => code.multiply_immediate(Rax, k),
            Alu::Div if k.is_power_of_two() => {
                code.shift_immediate(Shift::Right, Rax, k.trailing_zeros() as u8);
            }
            Alu::Mod if k.is_power_of_two() => code.binary_immediate(Binary::And, Rax, k - 1),
            _ => {
                code.mov_immediate(R10, k);
                code.mov_immediate(Rdx, 0);
                code.unary(Unary::Div, R10);
                if alu == Alu::Mod {
                    code.mov(Rax, Rdx);
                }
            }
        }
    }

    fn alu(&mut self, alu: Alu, reject: CodeLabel) {
        use Gpr::{Rax, Rcx, Rdx};
        let code = &mut self.code;
        if let Some(op) = binary(alu) {
            code.binary(op, Rax, Rcx);
            return;
        }
        match alu {
            Alu::Mul => code.multiply(Rax, Rcx),
            Alu::Shl | Alu::Shr => {
                // The processor takes the count modulo 32.
                let fits = code.code.label();
                code.shift(if alu == Alu::Shl { Shift::Left } else { Shift::Right }, Rax);
                code.binary_immediate(Binary::Cmp, Rcx, 32);
                code.jump_if(Condition::Below, fits);
                code.mov_immediate(Rax, 0);
                code.code.bind(fits);
            }
            _ => {
                code.test(Rcx, Rcx);
                code.jump_if(Condition::Equal, reject);
                code.mov_immediate(Rdx, 0);
                code.unary(Unary::Div, Rcx);
                if alu == Alu::Mod {
                    code.mov(Rax, Rdx);
                }
            }
        }
    }

    /// Compares bytes of the packet under a mask. For equality and common bits, the constant is
    /// swapped instead of the bytes, which costs nothing at run time.
    fn compare_packet(
        &mut self,
        place: Memory,
        width: Width,
        mask: u32,
        cond: Cond,
        k: u32,
    ) -> Condition {
        use Gpr::R10;
        let is_full = mask == full(width);
        let (raw, raw_mask) = (in_packet(width, k & mask), in_packet(width, mask));
        let code = &mut self.code;
        match (cond, width) {
            (Cond::Equal, Width::Word) if is_full => code.compare_word(place, raw),
            (Cond::Equal, Width::Byte) if is_full => code.compare_byte(place, raw as u8),
            (Cond::Equal, Width::Word) if k == 0 => code.test_word(place, raw_mask),
            (Cond::Equal, Width::Byte) if k == 0 => code.test_byte(place, raw_mask as u8),
            (Cond::Set, Width::Word) => code.test_word(place, raw),
            (Cond::Set, Width::Byte) => code.test_byte(place, raw as u8),
            (Cond::Equal | Cond::Set, _) => {
                self.load_raw(R10, width, place);
                if cond == Cond::Equal && !is_full {
                    self.code.binary_immediate(Binary::And, R10, raw_mask);
                }
                self.compare_register(R10, cond, raw);
            }
            (Cond::Greater | Cond::GreaterEqual, _) => {
                self.load(R10, width, place);
                if !is_full {
                    self.code.binary_immediate(Binary::And, R10, mask);
                }
                self.compare_register(R10, cond, k);
            }
        }
        condition(cond)
    }

    fn compare_register(&mut self, register: Gpr, cond: Cond, k: u32) {
        match cond {
            Cond::Set => self.code.test_immediate(register, k),
            _ => self.code.binary_immediate(Binary::Cmp, register, k),
        }
    }

    /// Loads the bytes of the field into R10, in network order and masked.
    fn load_masked(&mut self, PacketField { offset, width, mask }: PacketField) {
        self.load_raw(Gpr::R10, width, Memory::at(Gpr::R8, offset));
        if mask != full(width) {
            self.code.binary_immediate(Binary::And, Gpr::R10, in_packet(width, mask));
        }
    }

    /// Rejects a packet that ends before the bytes at X plus `offset` do. Returns their address,
    /// which is valid until R10 changes.
    fn check_at_x(&mut self, width: Width, offset: i32, reject: CodeLabel) -> Memory {
        let bytes = width.bytes() as i32;
        // X and the offset are below 2³², so the sum does not wrap. `flow` has ensured that offset
        // + bytes does not wrap either.
        self.code.address(Gpr::R10, Memory::at(Gpr::Rcx, offset.wrapping_add(bytes)));
        self.code.binary64(Binary::Cmp, Gpr::R10, Gpr::R9);
        self.code.jump_if(Condition::Above, reject);
        Memory::indexed(Gpr::R8, Gpr::R10, -bytes)
    }

    /// Loads a number of the packet in host byte order.
    fn load(&mut self, register: Gpr, width: Width, place: Memory) {
        self.load_raw(register, width, place);
        match width {
            Width::Word => self.code.swap_word(register),
            Width::Half => self.code.swap_half(register),
            Width::Byte => {}
        }
    }

    /// Loads bytes of the packet without swapping them.
    fn load_raw(&mut self, register: Gpr, width: Width, place: Memory) {
        match width {
            Width::Word => self.code.load_word(register, place),
            Width::Half => self.code.load_half(register, place),
            Width::Byte => self.code.load_byte(register, place),
        }
    }
}

impl Condition {
    fn opposite(self) -> Self {
        match self {
            Self::Below => Self::AboveOrEqual,
            Self::AboveOrEqual => Self::Below,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::BelowOrEqual => Self::Above,
            Self::Above => Self::BelowOrEqual,
        }
    }
}

fn condition(cond: Cond) -> Condition {
    match cond {
        Cond::Equal => Condition::Equal,
        Cond::Greater => Condition::Above,
        Cond::GreaterEqual => Condition::AboveOrEqual,
        Cond::Set => Condition::NotEqual,
    }
}

fn binary(alu: Alu) -> Option<Binary> {
    match alu {
        Alu::Add => Some(Binary::Add),
        Alu::Sub => Some(Binary::Sub),
        Alu::And => Some(Binary::And),
        Alu::Or => Some(Binary::Or),
        Alu::Xor => Some(Binary::Xor),
        Alu::Mul | Alu::Div | Alu::Mod | Alu::Shl | Alu::Shr => None,
    }
}

fn gpr(register: Register) -> Gpr {
    match register {
        Register::A => Gpr::Rax,
        Register::X => Gpr::Rcx,
    }
}

/// The memory of a call begins with the red zone below the stack pointer.
const CALL: i32 = -128;

fn cell(slot: u8) -> Memory {
    Memory::at(Gpr::Rsp, CALL + i32::from(emit::cell(slot)))
}

fn info(what: PacketInfo) -> Memory {
    Memory::at(Gpr::Rsp, CALL + i32::from(emit::info(what)))
}
