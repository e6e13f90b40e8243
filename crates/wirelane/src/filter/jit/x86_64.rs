//! Machine code for x86-64 from the graph of a program.
//!
//! The code has two entries. One runs over an array of frames, the loop included, and writes a
//! verdict for each; the other takes the [`Context`] of a single packet. Both keep to the System V calling
//! convention, and use neither callee-saved registers nor stack beyond its red zone of 128 bytes:
//!
//! | register | what it holds |
//! |---|---|
//! | RDI, R11 | the next frame in the array, and its end |
//! | RSI | where the next verdict goes |
//! | R8, R9 | the packet, and its length as 64 bits |
//! | RAX, RCX | A and X; the upper halves are 0 |
//! | RDX, R10, XMM0 to 2 | nothing for long |
//!
//! The body exists twice: for packets that reach as far as the loads at fixed places do, which then
//! need no checks, and for shorter ones. No other load touches a packet without a check of its own.

use std::mem::offset_of;

use super::assembler::{Assembler, Binary, Condition, Gpr, Label, Memory, Shift, Unary, Xmm};
use super::flow::{self, Action, Beside, Field, Graph, Node, Register, Set, Subject};
use crate::filter::Context;
use crate::filter::op::{Alu, Cond, Op, Operand, Width};
use crate::filter::translate::MIN_ETHERTYPE;
use crate::frame::Meta;

/// Machine code and its entries.
pub(super) struct Emitted {
    pub(super) bytes: Vec<u8>,
    /// Bytes of that that are instructions; the rest are constants.
    pub(super) instructions: usize,
    /// Offset of the entry for a single packet; that for frames is at 0.
    pub(super) single: usize,
    /// Whether the entry for frames exists: it does not know queues and the like.
    pub(super) takes_frames: bool,
}

/// Loads that a packet of this length satisfies are checked all at once: the shortest that
/// Ethernet can send.
const SHORT: i32 = 60;
/// The red zone below the stack pointer: first the scratch memory, then what is known of a packet.
const CELLS: i32 = -128;
const BESIDE: i32 = CELLS + 64;
/// Sets of fewer values are compared one after the other.
const FEW: usize = 5;

/// Machine code for a checked program; `None` if it asks something that is not known here.
pub(super) fn emit(program: &[Op]) -> Option<Emitted> {
    let mut emitter = Emitter::new();
    let takes_frames = !program.iter().any(|op| matches!(op, Op::LoadAncillary(_)));
    let has_length = program.iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
    let body = emitter.code.label();
    emitter.frames_entry(takes_frames, has_length);
    emitter.code.bind(body);
    let reach = flow::reach(program, SHORT);
    let slow = emitter.code.label();
    if reach > 0 {
        emitter.code.binary_immediate(Binary::Cmp, Gpr::R9, reach as u32);
        emitter.code.jump_if(Condition::Below, slow);
        emitter.graph(&Graph::new(program, reach)?);
    }
    emitter.code.bind(slow);
    emitter.graph(&Graph::new(program, 0)?);
    emitter.code.bind(emitter.reject);
    emitter.verdict(None, 0);
    let single = emitter.code.len();
    emitter.single_entry(!takes_frames || has_length);
    emitter.code.jump(body);
    let instructions = emitter.code.len();
    Some(Emitted { bytes: emitter.code.finish()?, instructions, single, takes_frames })
}

struct Emitter {
    code: Assembler,
    /// The next packet of the array.
    next: Label,
    /// The end of a packet that is too short.
    reject: Label,
}

impl Emitter {
    fn new() -> Self {
        let mut code = Assembler::default();
        let (next, reject) = (code.label(), code.label());
        Self { code, next, reject }
    }

    /// `fn(frames, verdicts, end of frames)`
    fn frames_entry(&mut self, exists: bool, has_length: bool) {
        use Gpr::*;
        self.code.address(R11, Memory::at(Rdx, 0));
        self.code.bind(self.next);
        if !exists {
            // A program that wants more than a frame holds runs on single packets only.
            self.code.ret();
            return;
        }
        self.code.load_double(R10, Memory::at(Rdi, 0));
        self.code.load_double(R8, Memory::at(R10, offset_of!(Meta, data) as i32));
        self.code.load_word(R9, Memory::at(R10, offset_of!(Meta, len) as i32));
        if has_length {
            self.code.load_word(Rax, Memory::at(R10, offset_of!(Meta, original_len) as i32));
            self.code.store_word(beside(Beside::Length), Rax);
        }
    }

    /// `fn(context, verdict)`: an array of one.
    fn single_entry(&mut self, has_beside: bool) {
        use Gpr::*;
        self.code.address(R11, Memory::at(Rdi, 8));
        self.code.load_double(R8, Memory::at(Rdi, offset_of!(Context, data) as i32));
        self.code.load_word(R9, Memory::at(Rdi, offset_of!(Context, len) as i32));
        if has_beside {
            for (what, offset) in [
                (Beside::Length, offset_of!(Context, wire_len)),
                (Beside::Queue, offset_of!(Context, queue)),
                (Beside::PacketType, offset_of!(Context, packet_type)),
                (Beside::InterfaceIndex, offset_of!(Context, interface_index)),
            ] {
                self.code.load_word(Rax, Memory::at(Rdi, offset as i32));
                self.code.store_word(beside(what), Rax);
            }
        }
    }

    /// The body for packets of the length that the graph is made for.
    fn graph(&mut self, graph: &Graph) {
        for (bit, register) in [(flow::A, Gpr::Rax), (flow::X, Gpr::Rcx)] {
            if graph.cleared & bit != 0 {
                self.code.mov_immediate(register, 0);
            }
        }
        for slot in (0..16).filter(|slot| graph.cleared & 1 << slot != 0) {
            self.code.store_immediate(cell(slot), 0);
        }
        let labels: Vec<_> = graph.nodes.iter().map(|_| self.code.label()).collect();
        let mut places = (graph.nodes.iter().enumerate())
            .filter(|(_, node)| !matches!(node, Node::Unreachable))
            .peekable();
        while let Some((place, node)) = places.next() {
            let after = places.peek().map_or(usize::MAX, |(place, _)| *place);
            if let Some(label) = labels.get(place) {
                self.code.bind(*label);
            }
            self.node(node, &Targets { labels: &labels, after });
        }
    }

    fn node(&mut self, node: &Node, targets: &Targets<'_>) {
        match node {
            Node::Unreachable => {}
            Node::Step { require, action, next } => {
                if let Some(len) = require {
                    self.code.binary_immediate(Binary::Cmp, Gpr::R9, *len as u32);
                    self.code.jump_if(Condition::Below, self.reject);
                }
                if let Some(action) = action {
                    self.action(*action);
                }
                self.jump(*next, targets);
            }
            Node::Test { subject, cond, operand, then, otherwise } => {
                let condition = self.compare(*subject, *cond, *operand);
                self.branch(condition, *then, *otherwise, targets);
            }
            Node::Member { sets, then, otherwise } => {
                sets.iter().for_each(|set| self.member(set, *then, targets));
                self.jump(*otherwise, targets);
            }
            Node::Return(value) => self.verdict(None, *value),
            Node::ReturnA => self.verdict(Some(Gpr::Rax), 0),
        }
    }

    /// Writes the verdict and goes to the next packet, if there is one.
    fn verdict(&mut self, register: Option<Gpr>, value: u32) {
        let place = Memory::at(Gpr::Rsi, 0);
        match register {
            Some(register) => self.code.store_word(place, register),
            None => self.code.store_immediate(place, value),
        }
        self.code.binary64_immediate(Binary::Add, Gpr::Rsi, 4);
        self.code.binary64_immediate(Binary::Add, Gpr::Rdi, 8);
        self.code.binary64(Binary::Cmp, Gpr::Rdi, Gpr::R11);
        self.code.jump_if(Condition::NotEqual, self.next);
        self.code.ret();
    }

    fn action(&mut self, action: Action) {
        let code = &mut self.code;
        match action {
            Action::Load(register, Field { offset, width, .. }) => {
                self.load(gpr(register), width, Memory::at(Gpr::R8, offset));
            }
            Action::LoadAtX(width, offset) => {
                let place = self.check_at_x(width, offset);
                self.load(Gpr::Rax, width, place);
            }
            Action::HeaderLength(offset) => {
                code.load_byte(Gpr::Rcx, Memory::at(Gpr::R8, offset));
                code.binary_immediate(Binary::And, Gpr::Rcx, 0xf);
                code.shift_immediate(Shift::Left, Gpr::Rcx, 2);
            }
            Action::Constant(register, value) => code.mov_immediate(gpr(register), value),
            Action::Beside(register, what) => code.load_word(gpr(register), beside(what)),
            Action::Protocol => self.protocol(),
            Action::LoadCell(register, slot) => code.load_word(gpr(register), cell(slot)),
            Action::StoreCell(register, slot) => code.store_word(cell(slot), gpr(register)),
            Action::Alu(alu, Operand::K(k)) => self.alu_immediate(alu, k),
            Action::Alu(alu, Operand::X) => self.alu(alu),
            Action::Negate => code.unary(Unary::Neg, Gpr::Rax),
            Action::ToX => code.mov(Gpr::Rcx, Gpr::Rax),
            Action::ToA => code.mov(Gpr::Rax, Gpr::Rcx),
        }
    }

    /// An EtherType, or for a length 1 if the payload begins with ones, otherwise 4.
    fn protocol(&mut self) {
        let is_type = self.code.label();
        self.load(Gpr::Rax, Width::Half, Memory::at(Gpr::R8, 12));
        self.code.binary_immediate(Binary::Cmp, Gpr::Rax, MIN_ETHERTYPE);
        self.code.jump_if(Condition::AboveOrEqual, is_type);
        self.load_raw(Gpr::R10, Width::Half, Memory::at(Gpr::R8, 14));
        self.code.mov_immediate(Gpr::Rax, 1);
        self.code.binary_immediate(Binary::Cmp, Gpr::R10, 0xffff);
        self.code.jump_if(Condition::Equal, is_type);
        self.code.mov_immediate(Gpr::Rax, 4);
        self.code.bind(is_type);
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

    fn alu(&mut self, alu: Alu) {
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
                let fits = code.label();
                code.shift(if alu == Alu::Shl { Shift::Left } else { Shift::Right }, Rax);
                code.binary_immediate(Binary::Cmp, Rcx, 32);
                code.jump_if(Condition::Below, fits);
                code.mov_immediate(Rax, 0);
                code.bind(fits);
            }
            _ => {
                code.test(Rcx, Rcx);
                code.jump_if(Condition::Equal, self.reject);
                code.mov_immediate(Rdx, 0);
                code.unary(Unary::Div, Rcx);
                if alu == Alu::Mod {
                    code.mov(Rax, Rdx);
                }
            }
        }
    }

    /// Compares, and says which condition then means that the comparison holds.
    fn compare(&mut self, subject: Subject, cond: Cond, operand: Operand) -> Condition {
        match (subject, operand) {
            (Subject::Field(field), Operand::K(k)) => {
                let place = Memory::at(Gpr::R8, field.offset);
                self.compare_packet(place, field.width, field.mask, cond, k)
            }
            (Subject::AtX(width, offset), Operand::K(k)) => {
                let place = self.check_at_x(width, offset);
                self.compare_packet(place, width, flow::full(width), cond, k)
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

    /// Compares bytes of the packet under a mask. For equality and common bits the constant is put
    /// into the order of the packet, which costs nothing here.
    fn compare_packet(
        &mut self,
        place: Memory,
        width: Width,
        mask: u32,
        cond: Cond,
        k: u32,
    ) -> Condition {
        use Gpr::R10;
        let is_full = mask == flow::full(width);
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

    /// Goes to `then` if the field has one of the values. Many are compared four at a time, without
    /// a branch that could be guessed wrong.
    fn member(&mut self, set: &Set, then: usize, targets: &Targets<'_>) {
        use Gpr::R10;
        let Set { field: Field { offset, width, mask }, values } = set;
        let mut values: Vec<_> = values.iter().map(|value| in_packet(*width, *value)).collect();
        values.sort_unstable();
        values.dedup();
        self.load_raw(R10, *width, Memory::at(Gpr::R8, *offset));
        if *mask != flow::full(*width) {
            self.code.binary_immediate(Binary::And, R10, in_packet(*width, *mask));
        }
        if values.len() < FEW {
            for value in values {
                self.code.binary_immediate(Binary::Cmp, R10, value);
                self.code.jump_if(Condition::Equal, targets.label(then, self.reject));
            }
            return;
        }
        self.code.broadcast(Xmm::X0, R10);
        for (index, chunk) in values.chunks(4).enumerate() {
            let last = chunk.last().copied().unwrap_or_default();
            let lanes = std::array::from_fn(|lane| chunk.get(lane).copied().unwrap_or(last));
            let into = if index == 0 { Xmm::X2 } else { Xmm::X1 };
            self.code.vector_move(into, Xmm::X0);
            self.code.vector_equal(into, lanes);
            if index > 0 {
                self.code.vector_or(Xmm::X2, Xmm::X1);
            }
        }
        self.code.vector_mask(R10, Xmm::X2);
        self.code.test(R10, R10);
        self.code.jump_if(Condition::NotEqual, targets.label(then, self.reject));
    }

    /// Rejects a packet that ends before the bytes at X plus `offset` do; says where they are,
    /// until R10 changes.
    fn check_at_x(&mut self, width: Width, offset: i32) -> Memory {
        let bytes = width.bytes() as i32;
        // X and the offset are below 2³², so that the sum does not wrap. `flow` has made sure that
        // offset + bytes does not either.
        self.code.address(Gpr::R10, Memory::at(Gpr::Rcx, offset.wrapping_add(bytes)));
        self.code.binary64(Binary::Cmp, Gpr::R10, Gpr::R9);
        self.code.jump_if(Condition::Above, self.reject);
        Memory::indexed(Gpr::R8, Gpr::R10, -bytes)
    }

    /// Loads a number of the packet, in the order of the processor.
    fn load(&mut self, register: Gpr, width: Width, place: Memory) {
        self.load_raw(register, width, place);
        match width {
            Width::Word => self.code.swap_word(register),
            Width::Half => self.code.swap_half(register),
            Width::Byte => {}
        }
    }

    /// Loads bytes of the packet as they are.
    fn load_raw(&mut self, register: Gpr, width: Width, place: Memory) {
        match width {
            Width::Word => self.code.load_word(register, place),
            Width::Half => self.code.load_half(register, place),
            Width::Byte => self.code.load_byte(register, place),
        }
    }

    fn jump(&mut self, next: usize, targets: &Targets<'_>) {
        if next != targets.after {
            self.code.jump(targets.label(next, self.reject));
        }
    }

    fn branch(
        &mut self,
        condition: Condition,
        then: usize,
        otherwise: usize,
        targets: &Targets<'_>,
    ) {
        if then == targets.after {
            let label = targets.label(otherwise, self.reject);
            self.code.jump_if(condition.opposite(), label);
        } else {
            self.code.jump_if(condition, targets.label(then, self.reject));
            self.jump(otherwise, targets);
        }
    }
}

/// Where the nodes of a graph are, and which of them comes next in the code.
struct Targets<'a> {
    labels: &'a [Label],
    after: usize,
}

impl Targets<'_> {
    /// The label of a node; every edge leads to one.
    fn label(&self, place: usize, otherwise: Label) -> Label {
        self.labels.get(place).copied().unwrap_or(otherwise)
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

/// A number as the bytes of a packet have it when the processor loads them.
fn in_packet(width: Width, value: u32) -> u32 {
    match width {
        Width::Byte => value & 0xff,
        Width::Half => u32::from((value as u16).swap_bytes()),
        Width::Word => value.swap_bytes(),
    }
}

fn gpr(register: Register) -> Gpr {
    match register {
        Register::A => Gpr::Rax,
        Register::X => Gpr::Rcx,
    }
}

fn cell(slot: u8) -> Memory {
    Memory::at(Gpr::Rsp, CELLS + 4 * i32::from(slot))
}

fn beside(what: Beside) -> Memory {
    let slot = match what {
        Beside::Length => 0,
        Beside::Queue => 1,
        Beside::PacketType => 2,
        Beside::InterfaceIndex => 3,
    };
    Memory::at(Gpr::Rsp, BESIDE + 4 * slot)
}
