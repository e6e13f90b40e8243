//! Classic BPF to eBPF, for XDP and for user space.
//!
//! | register | holds |
//! |---|---|
//! | R0 | A, and the result at the end: bytes to accept, 0 rejects |
//! | R2, R3 | XDP: start and end of the packet; user space: its start and its length |
//! | R4 | scratch of one instruction |
//! | R6 | the context |
//! | R7 | X |
//! | R9 | XDP with fragments: the length of the whole packet, if the program asks for it |
//!
//! M\[0\] to M\[15\] are the 64 bytes below the end of the stack frame. R1, R5 and R8 stay free.
//!
//! Classic jumps lead forward only, so one walk from front to back knows what holds at every
//! instruction on all ways to it: whether it can be reached (the verifier refuses code that cannot),
//! how many bytes of the packet have been found present (no need to look again), and what X is at
//! most (the verifier wants a bound before X is added to a packet pointer).
//!
//! What the verifier asks for, and where in `kernel/bpf/verifier.c` it does:
//!
//! * A packet pointer is good for as many bytes as a comparison with the end has shown, for all
//!   pointers with the same variable part (`find_good_pkt_pointers`), and only within the first
//!   65,535 bytes (`MAX_PACKET_OFF`). In XDP a load beyond that rejects the packet.
//! * Adding a variable to a packet pointer needs CAP_PERFMON (`sanitize_ptr_alu`), and so does the
//!   length of a packet without fragments, a difference of pointers.
//! * Long chains load because nothing but A, X, M and the two packet registers lives from one
//!   instruction to the next, so the states of the ways that meet are equal and one is walked on.
//!
//! A packet in fragments (multi-buffer XDP) shows its first buffer: a load beyond it rejects, while
//! the length is that of the whole packet (`bpf_xdp_get_buff_len`, Linux 5.18).

use std::mem::offset_of;

use wirelane_os::bpf::insn::{Alu as EAlu, Cond as ECond, Insn, Reg, Size};

use super::classic::Program;
use super::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};
use super::{Metadata, Packet};
use crate::error::{Error, Result};

/// Where a translated program runs: decides how it finds the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// In an XDP program; the context is `struct xdp_md`.
    Xdp {
        /// Whether the program is loaded for packets in several buffers (`BPF_F_XDP_HAS_FRAGS`).
        fragments: bool,
    },
    /// In user space; the context is a [`Context`].
    User,
}

/// How a translated program begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A program of its own: the context comes in R1, and it exits with the result in R0.
    Exit,
    /// Part of a larger program: the context is in R6, which is kept, and all ways lead behind the
    /// last instruction, with the result in R0. R1 to R5, R7, R9 and the 64 bytes below R10 are
    /// overwritten.
    FallThrough,
}

/// The packet as programs for [`Target::User`] find it. `len` bytes at `data` must be readable
/// while one runs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Context {
    /// First byte of the packet.
    pub data: *const u8,
    /// Bytes present, 2³¹ − 1 at most.
    pub len: u32,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// [`Metadata::queue`].
    pub queue: u32,
    /// [`Metadata::packet_type`].
    pub packet_type: u32,
    /// [`Metadata::interface_index`].
    pub interface_index: u32,
}

impl Context {
    /// Describes `packet`. Nothing but the types says how long the bytes stay.
    pub fn new(packet: &Packet<'_>) -> Self {
        let Metadata { queue, packet_type, interface_index } = packet.metadata;
        let len = packet.data.len().min(USER_LIMIT as usize) as u32;
        let (data, wire_len) = (packet.data.as_ptr(), packet.wire_len);
        Self { data, len, wire_len, queue, packet_type, interface_index }
    }
}

/// Translates `program`.
///
/// # Errors
/// A usage error: the program asks for something that only the kernel's socket filter knows, or a
/// jump becomes longer than eBPF allows.
pub fn translate(program: &Program, target: Target, ending: Ending) -> Result<Vec<Insn>> {
    program.require_portable()?;
    let facts = Facts::gather(program.ops(), target);
    let mut emitter = Emitter::new(program, target, ending);
    emitter.prologue();
    for (at, op) in program.ops().iter().enumerate() {
        emitter.starts.push(emitter.insns.len());
        if let Some(fact) = facts.get(at) {
            emitter.operation(at, *op, fact);
        }
    }
    emitter.finish()
}

/// The last byte that [`Target::User`] and the interpreter look at.
pub(super) const USER_LIMIT: u32 = i32::MAX as u32;
/// `MAX_PACKET_OFF` of `kernel/bpf/verifier.c`.
const XDP_LIMIT: u32 = 0xffff;

/// `xdp_md` of `linux/bpf.h`.
mod xdp_md {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const INGRESS_IFINDEX: i16 = 12;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}

/// `BPF_FUNC_xdp_get_buff_len`, Linux 5.18.
const XDP_GET_BUFF_LEN: i32 = 188;

const A: Reg = Reg::R0;
const DATA: Reg = Reg::R2;
/// End of the packet in XDP, its length in user space.
const END: Reg = Reg::R3;
const SCRATCH: Reg = Reg::R4;
const CONTEXT: Reg = Reg::R6;
const X: Reg = Reg::R7;
const LENGTH: Reg = Reg::R9;
const MEMORY: i16 = -4 * MEMORY_CELLS as i16;

impl Target {
    fn limit(self) -> u32 {
        match self {
            Target::Xdp { .. } => XDP_LIMIT,
            Target::User => USER_LIMIT,
        }
    }
}

/// What holds before an instruction, whichever way led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fact {
    /// This many bytes are present at least.
    present: u32,
    /// X is this at most, and the verifier knows it.
    x_most: u32,
}

pub(super) struct Facts(Vec<Option<Fact>>);

impl Facts {
    pub(super) fn gather(ops: &[Op], target: Target) -> Self {
        let mut facts = Self(vec![None; ops.len()]);
        facts.meet(0, Fact { present: 0, x_most: 0 });
        for (at, op) in ops.iter().enumerate() {
            let Some(mut fact) = facts.get(at) else { continue };
            let next = at + 1;
            match *op {
                Op::Return(_) | Op::ReturnA => continue,
                Op::Jump(skip) => {
                    facts.meet(next + skip as usize, fact);
                    continue;
                }
                Op::Branch { jt, jf, .. } => {
                    facts.meet(next + usize::from(jt), fact);
                    facts.meet(next + usize::from(jf), fact);
                    continue;
                }
                Op::LoadAbsolute(width, k) => match end(k, width, target) {
                    Some(end) => fact.present = fact.present.max(end),
                    None => continue,
                },
                Op::LoadXHeader(k) => match end(k, Width::Byte, target) {
                    Some(end) => {
                        fact.present = fact.present.max(end);
                        fact.x_most = 4 * 0xf;
                    }
                    None => continue,
                },
                Op::LoadIndirect(width, k) if end(k, width, target).is_none() => continue,
                Op::LoadAncillary(Ancillary::Protocol) => fact.present = fact.present.max(16),
                Op::LoadXImmediate(k) => fact.x_most = k,
                Op::LoadXMemory(_) | Op::LoadXLength | Op::Tax => fact.x_most = u32::MAX,
                _ => {}
            }
            facts.meet(next, fact);
        }
        facts
    }

    /// Another way to instruction `at`.
    fn meet(&mut self, at: usize, other: Fact) {
        if let Some(slot) = self.0.get_mut(at) {
            let known = slot.unwrap_or(other);
            *slot = Some(Fact {
                present: known.present.min(other.present),
                x_most: known.x_most.max(other.x_most),
            });
        }
    }

    /// What X is at most before instruction `at`.
    pub(super) fn x_most(&self, at: usize) -> u32 {
        self.get(at).map_or(u32::MAX, |fact| fact.x_most)
    }

    /// `None` if no way leads to it.
    fn get(&self, at: usize) -> Option<Fact> {
        self.0.get(at).copied().flatten()
    }
}

/// Where a load ends; `None` if that is past everything the target can see, so that it rejects.
fn end(k: u32, width: Width, target: Target) -> Option<u32> {
    k.checked_add(width.bytes()).filter(|end| *end <= target.limit())
}

/// Where a jump leads.
#[derive(Clone, Copy, Debug)]
enum Label {
    /// A classic instruction.
    Op(usize),
    /// The common way out that rejects.
    Reject,
    /// Behind the last instruction.
    End,
}

struct Emitter<'a> {
    program: &'a Program,
    target: Target,
    ending: Ending,
    insns: Vec<Insn>,
    /// By classic instruction, where its translation begins.
    starts: Vec<usize>,
    /// Jumps whose distance is not known yet.
    jumps: Vec<(usize, Label)>,
}

impl<'a> Emitter<'a> {
    fn new(program: &'a Program, target: Target, ending: Ending) -> Self {
        let capacity = 4 * program.ops().len() + 16;
        Self {
            program,
            target,
            ending,
            insns: Vec::with_capacity(capacity),
            starts: Vec::with_capacity(program.ops().len()),
            jumps: Vec::new(),
        }
    }

    fn emit(&mut self, insns: impl IntoIterator<Item = Insn>) {
        self.insns.extend(insns);
    }

    /// A jump whose distance [`Emitter::finish`] fills in.
    fn jump(&mut self, insn: Insn, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(insn);
    }

    fn prologue(&mut self) {
        if self.ending == Ending::Exit {
            self.emit([Insn::mov_reg(CONTEXT, Reg::R1)]);
        }
        let wants_length =
            self.program.ops().iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
        match self.target {
            Target::Xdp { fragments } => {
                if fragments && wants_length {
                    self.emit([
                        Insn::mov_reg(Reg::R1, CONTEXT),
                        Insn::call(XDP_GET_BUFF_LEN),
                        Insn::alu32_reg(EAlu::Mov, LENGTH, Reg::R0),
                    ]);
                }
                self.emit([
                    Insn::load(Size::Word, DATA, CONTEXT, xdp_md::DATA),
                    Insn::load(Size::Word, END, CONTEXT, xdp_md::DATA_END),
                ]);
            }
            Target::User => self.emit([
                Insn::load(Size::Double, DATA, CONTEXT, offset_of!(Context, data) as i16),
                Insn::load(Size::Word, END, CONTEXT, offset_of!(Context, len) as i16),
            ]),
        }
        self.emit([Insn::mov(A, 0), Insn::mov(X, 0)]);
    }

    fn operation(&mut self, at: usize, op: Op, fact: Fact) {
        match op {
            Op::LoadAbsolute(width, k) => self.load(A, width, k, fact.present),
            Op::LoadXHeader(k) => {
                self.load(X, Width::Byte, k, fact.present);
                if end(k, Width::Byte, self.target).is_some() {
                    self.emit([Insn::alu32(EAlu::And, X, 0xf), Insn::alu32(EAlu::Shl, X, 2)]);
                }
            }
            Op::LoadIndirect(width, k) => self.load_indirect(width, k, fact.x_most),
            Op::LoadAncillary(field) => self.load_ancillary(field, fact.present),
            Op::LoadLength => self.load_length(A),
            Op::LoadXLength => self.load_length(X),
            Op::LoadImmediate(k) => self.emit([Insn::alu32(EAlu::Mov, A, k as i32)]),
            Op::LoadXImmediate(k) => self.emit([Insn::alu32(EAlu::Mov, X, k as i32)]),
            Op::LoadMemory(k) => self.emit([Insn::load(Size::Word, A, Reg::R10, cell(k))]),
            Op::LoadXMemory(k) => self.emit([Insn::load(Size::Word, X, Reg::R10, cell(k))]),
            Op::Store(k) => self.emit([Insn::store(Size::Word, Reg::R10, cell(k), A)]),
            Op::StoreX(k) => self.emit([Insn::store(Size::Word, Reg::R10, cell(k), X)]),
            Op::Alu(alu, Operand::K(k)) => self.emit([Insn::alu32(operation(alu), A, k as i32)]),
            Op::Alu(alu, Operand::X) => self.alu_x(alu),
            Op::Negate => self.emit([Insn::alu32(EAlu::Neg, A, 0)]),
            Op::Tax => self.emit([Insn::alu32_reg(EAlu::Mov, X, A)]),
            Op::Txa => self.emit([Insn::alu32_reg(EAlu::Mov, A, X)]),
            Op::Jump(0) => {}
            Op::Jump(skip) => self.jump(Insn::jump(0), Label::Op(at + 1 + skip as usize)),
            Op::Branch { cond, operand, jt, jf } => self.branch(at, cond, operand, (jt, jf)),
            Op::Return(k) => {
                self.emit([Insn::alu32(EAlu::Mov, A, k as i32)]);
                self.leave();
            }
            Op::ReturnA => self.leave(),
        }
    }

    /// Ends with the result in R0.
    fn leave(&mut self) {
        match self.ending {
            Ending::Exit => self.emit([Insn::exit()]),
            Ending::FallThrough => self.jump(Insn::jump(0), Label::End),
        }
    }

    /// `to` = bytes of the packet at `k`, of which `present` bytes are known to be there.
    fn load(&mut self, to: Reg, width: Width, k: u32, present: u32) {
        let Some(end) = end(k, width, self.target) else {
            return self.jump(Insn::jump(0), Label::Reject);
        };
        if present < end {
            self.require(end);
        }
        match i16::try_from(k) {
            Ok(offset) => self.emit([Insn::load(size(width), to, DATA, offset)]),
            Err(_) => self.emit([
                Insn::mov_reg(SCRATCH, DATA),
                Insn::alu64(EAlu::Add, SCRATCH, k as i32),
                Insn::load(size(width), to, SCRATCH, 0),
            ]),
        }
        self.swap(to, width);
    }

    /// Rejects packets of less than `end` bytes.
    fn require(&mut self, end: u32) {
        match self.target {
            Target::Xdp { .. } => {
                self.emit([
                    Insn::mov_reg(SCRATCH, DATA),
                    Insn::alu64(EAlu::Add, SCRATCH, end as i32),
                ]);
                self.jump(Insn::jump_if_reg(ECond::Gt, SCRATCH, END, 0), Label::Reject);
            }
            Target::User => {
                self.jump(Insn::jump_if(ECond::Lt, END, end as i32, 0), Label::Reject);
            }
        }
    }

    /// A = bytes of the packet at X + `k`.
    fn load_indirect(&mut self, width: Width, k: u32, x_most: u32) {
        let Some(end) = end(k, width, self.target) else {
            return self.jump(Insn::jump(0), Label::Reject);
        };
        let before_end = -(width.bytes() as i16);
        match self.target {
            Target::Xdp { .. } => {
                let most = XDP_LIMIT - end;
                if x_most > most {
                    self.jump(Insn::jump_if(ECond::Gt, X, most as i32, 0), Label::Reject);
                }
                // The mask changes nothing but what the verifier knows: after a comparison of A and X
                // in code that is never reached, its bounds of X may contradict each other, and
                // then the sum would be no pointer (`adjust_ptr_min_max_vals`).
                self.emit([
                    Insn::alu32_reg(EAlu::Mov, SCRATCH, X),
                    Insn::alu32(EAlu::And, SCRATCH, XDP_LIMIT as i32),
                    Insn::alu64_reg(EAlu::Add, SCRATCH, DATA),
                    Insn::alu64(EAlu::Add, SCRATCH, end as i32),
                ]);
                self.jump(Insn::jump_if_reg(ECond::Gt, SCRATCH, END, 0), Label::Reject);
            }
            Target::User => {
                // Both are below 2³², so the sum of 64 bits does not wrap.
                self.emit([Insn::mov_reg(SCRATCH, X), Insn::alu64(EAlu::Add, SCRATCH, end as i32)]);
                self.jump(Insn::jump_if_reg(ECond::Gt, SCRATCH, END, 0), Label::Reject);
                self.emit([Insn::alu64_reg(EAlu::Add, SCRATCH, DATA)]);
            }
        }
        self.emit([Insn::load(size(width), A, SCRATCH, before_end)]);
        self.swap(A, width);
    }

    fn swap(&mut self, register: Reg, width: Width) {
        if width != Width::Byte {
            self.emit([Insn::to_be(register, 8 * width.bytes() as i32)]);
        }
    }

    fn load_length(&mut self, to: Reg) {
        match self.target {
            Target::Xdp { fragments: true } => self.emit([Insn::alu32_reg(EAlu::Mov, to, LENGTH)]),
            Target::Xdp { fragments: false } => self.emit([
                Insn::mov_reg(SCRATCH, END),
                Insn::alu64_reg(EAlu::Sub, SCRATCH, DATA),
                Insn::alu32_reg(EAlu::Mov, to, SCRATCH),
            ]),
            Target::User => {
                let offset = offset_of!(Context, wire_len) as i16;
                self.emit([Insn::load(Size::Word, to, CONTEXT, offset)]);
            }
        }
    }

    fn load_ancillary(&mut self, field: Ancillary, present: u32) {
        let is_user = self.target == Target::User;
        let offset = match field {
            Ancillary::Queue if is_user => offset_of!(Context, queue) as i16,
            Ancillary::Queue => xdp_md::RX_QUEUE_INDEX,
            Ancillary::InterfaceIndex if is_user => offset_of!(Context, interface_index) as i16,
            Ancillary::InterfaceIndex => xdp_md::INGRESS_IFINDEX,
            Ancillary::PacketType if is_user => offset_of!(Context, packet_type) as i16,
            Ancillary::Protocol => return self.load_protocol(present),
            // XDP sees no packet that the host sends, and no tag beside a packet. What is not
            // portable was refused.
            _ => return self.emit([Insn::mov(A, 0)]),
        };
        self.emit([Insn::load(Size::Word, A, CONTEXT, offset)]);
    }

    /// A = the protocol of an Ethernet frame as `eth_type_trans` finds it: its EtherType, or for a
    /// length field 1 (`ETH_P_802_3`) if the payload begins with ones, otherwise 4 (`ETH_P_802_2`).
    fn load_protocol(&mut self, present: u32) {
        if present < 16 {
            self.require(16);
        }
        self.load(A, Width::Half, 12, 16);
        self.emit([
            Insn::jump_if(ECond::Ge, A, MIN_ETHERTYPE as i32, 4),
            Insn::load(Size::Half, SCRATCH, DATA, 14),
            Insn::mov(A, 1),
            Insn::jump_if(ECond::Eq, SCRATCH, 0xffff, 1),
            Insn::mov(A, 4),
        ]);
    }

    fn alu_x(&mut self, alu: Alu) {
        match alu {
            Alu::Div | Alu::Mod => {
                self.jump(Insn::jump_if(ECond::Eq, X, 0, 0), Label::Reject);
            }
            // eBPF takes the count modulo 32.
            Alu::Shl | Alu::Shr => {
                self.emit([Insn::jump_if(ECond::Lt, X, 32, 2), Insn::mov(A, 0), Insn::jump(1)])
            }
            _ => {}
        }
        self.emit([Insn::alu32_reg(operation(alu), A, X)]);
    }

    fn branch(&mut self, at: usize, cond: Cond, operand: Operand, (jt, jf): (u8, u8)) {
        let next = at + 1;
        let (yes, no) = (next + usize::from(jt), next + usize::from(jf));
        let jump = |cond| match operand {
            Operand::K(k) => Insn::jump32_if(cond, A, k as i32, 0),
            Operand::X => Insn::jump32_if_reg(cond, A, X, 0),
        };
        let (cond, inverse) = match cond {
            Cond::Equal => (ECond::Eq, Some(ECond::Ne)),
            Cond::Greater => (ECond::Gt, Some(ECond::Le)),
            Cond::GreaterEqual => (ECond::Ge, Some(ECond::Lt)),
            Cond::Set => (ECond::Set, None),
        };
        match inverse {
            _ if jt == jf && jt == 0 => {}
            _ if jt == jf => self.jump(Insn::jump(0), Label::Op(yes)),
            Some(inverse) if jt == 0 => self.jump(jump(inverse), Label::Op(no)),
            _ => {
                self.jump(jump(cond), Label::Op(yes));
                if jf != 0 {
                    self.jump(Insn::jump(0), Label::Op(no));
                }
            }
        }
    }

    /// Appends the way out that rejects, and fills in the distances.
    fn finish(mut self) -> Result<Vec<Insn>> {
        let reject = self.insns.len();
        if self.jumps.iter().any(|(_, label)| matches!(label, Label::Reject)) {
            self.emit([Insn::mov(A, 0)]);
            if self.ending == Ending::Exit {
                self.emit([Insn::exit()]);
            }
        }
        let end = self.insns.len();
        for (from, label) in self.jumps {
            let to = match label {
                Label::Op(at) => self.starts.get(at).copied().unwrap_or(end),
                Label::Reject => reject,
                Label::End => end,
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

/// Smaller values in an Ethernet header are lengths (`ETH_P_802_3_MIN`).
pub(super) const MIN_ETHERTYPE: u32 = 0x600;

const fn cell(k: u32) -> i16 {
    MEMORY + 4 * k as i16
}

const fn size(width: Width) -> Size {
    match width {
        Width::Byte => Size::Byte,
        Width::Half => Size::Half,
        Width::Word => Size::Word,
    }
}

const fn operation(alu: Alu) -> EAlu {
    match alu {
        Alu::Add => EAlu::Add,
        Alu::Sub => EAlu::Sub,
        Alu::Mul => EAlu::Mul,
        Alu::Div => EAlu::Div,
        Alu::Mod => EAlu::Mod,
        Alu::And => EAlu::And,
        Alu::Or => EAlu::Or,
        Alu::Xor => EAlu::Xor,
        Alu::Shl => EAlu::Shl,
        Alu::Shr => EAlu::Shr,
    }
}
