//! Translates each classic instruction to eBPF.
//!
//! | register | holds |
//! |---|---|
//! | R0 | A, and the result at the end: bytes to accept, 0 rejects |
//! | R2, R3 | start and end of the packet |
//! | R4 | scratch of one instruction |
//! | R6 | the context |
//! | R7 | X |
//! | R9 | for packets in several buffers: its length, if the program asks for it |
//!
//! M\[0\] to M\[15\] are the 64 bytes below the end of the stack frame. After the prologue, R1, R5
//! and R8 are unused.
//!
//! Requirements of the verifier, with their functions in `kernel/bpf/verifier.c`:
//!
//! * A comparison with the end makes the compared number of bytes accessible, through all packet
//!   pointers with the same variable part (`find_good_pkt_pointers`), and only within the first
//!   65,535 bytes (`MAX_PACKET_OFF`). A load beyond that rejects the packet.
//! * Adding a variable to a packet pointer needs CAP_PERFMON (`sanitize_ptr_alu`), and so does the
//!   length of a packet without fragments, a difference of pointers.
//! * Long chains load because only A, X, M and the two packet registers live from one instruction
//!   to the next. So the states of paths that meet are equal, and the verifier continues on only
//!   one.
//!
//! For a packet in several buffers, only the first buffer is accessible: a load beyond it rejects,
//! but the length covers the whole packet (`bpf_xdp_get_buff_len`, Linux 5.18).

use super::code::{JumpLabel, TranslatedCode};
use super::target::{Buffers, Ending};
use crate::ebpf::{Alu as EAlu, Cond as ECond, Insn, Reg, Size};
use crate::error::Result;
use crate::facts::{Fact, InstructionFacts, end};
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};
use crate::packet::MIN_ETHERTYPE;
use crate::program::Program;

/// Translates `program` for XDP: the context is `struct xdp_md`.
///
/// # Errors
/// A usage error: the program needs data that only the kernel's socket filter has, or a jump
/// becomes longer than eBPF allows.
pub fn translate(program: &Program, buffers: Buffers, ending: Ending) -> Result<Vec<Insn>> {
    program.require_portable()?;
    let facts = InstructionFacts::gather(program.ops(), LIMIT);
    let code = TranslatedCode::new(program.ops().len());
    let mut emitter = EbpfEmitter { program, buffers, ending, code };
    emitter.prologue();
    for (at, op) in program.ops().iter().enumerate() {
        emitter.code.start();
        if let Some(fact) = facts.get(at) {
            emitter.operation(at, *op, fact);
        }
    }
    emitter.code.finish(ending)
}

/// `xdp_md` of `linux/bpf.h`.
mod xdp_md {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const INGRESS_IFINDEX: i16 = 12;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}

/// The number of bytes of a packet that a program can see: `MAX_PACKET_OFF` of
/// `kernel/bpf/verifier.c`.
const LIMIT: u32 = 0xffff;

/// `BPF_FUNC_xdp_get_buff_len`, Linux 5.18.
const XDP_GET_BUFF_LEN: i32 = 188;

const A: Reg = Reg::R0;
const DATA: Reg = Reg::R2;
/// The end of the packet.
const END: Reg = Reg::R3;
const SCRATCH: Reg = Reg::R4;
const CONTEXT: Reg = Reg::R6;
const X: Reg = Reg::R7;
const LENGTH: Reg = Reg::R9;
const MEMORY: i16 = -4 * MEMORY_CELLS as i16;

struct EbpfEmitter<'a> {
    program: &'a Program,
    buffers: Buffers,
    ending: Ending,
    code: TranslatedCode,
}

impl EbpfEmitter<'_> {
    fn prologue(&mut self) {
        if self.ending == Ending::Exit {
            self.code.emit([Insn::mov_reg(CONTEXT, Reg::R1)]);
        }
        let wants_length =
            self.program.ops().iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
        if self.buffers == Buffers::Several && wants_length {
            self.code.emit([
                Insn::mov_reg(Reg::R1, CONTEXT),
                Insn::call(XDP_GET_BUFF_LEN),
                Insn::alu32_reg(EAlu::Mov, LENGTH, Reg::R0),
            ]);
        }
        self.code.emit([
            Insn::load(Size::Word, DATA, CONTEXT, xdp_md::DATA),
            Insn::load(Size::Word, END, CONTEXT, xdp_md::DATA_END),
            Insn::mov(A, 0),
            Insn::mov(X, 0),
        ]);
    }

    fn operation(&mut self, at: usize, op: Op, fact: Fact) {
        match op {
            Op::LoadAbsolute(width, k) => self.load(A, width, k, fact.present),
            Op::LoadXHeader(k) => {
                self.load(X, Width::Byte, k, fact.present);
                if end(k, Width::Byte, LIMIT).is_some() {
                    self.code.emit([Insn::alu32(EAlu::And, X, 0xf), Insn::alu32(EAlu::Shl, X, 2)]);
                }
            }
            Op::LoadIndirect(width, k) => self.load_indirect(width, k, fact.x_most),
            Op::LoadAncillary(field) => self.load_ancillary(field, fact.present),
            Op::LoadLength => self.load_length(A),
            Op::LoadXLength => self.load_length(X),
            Op::LoadImmediate(k) => self.code.emit([Insn::alu32(EAlu::Mov, A, k as i32)]),
            Op::LoadXImmediate(k) => self.code.emit([Insn::alu32(EAlu::Mov, X, k as i32)]),
            Op::LoadMemory(k) => self.code.emit([Insn::load(Size::Word, A, Reg::R10, cell(k))]),
            Op::LoadXMemory(k) => self.code.emit([Insn::load(Size::Word, X, Reg::R10, cell(k))]),
            Op::Store(k) => self.code.emit([Insn::store(Size::Word, Reg::R10, cell(k), A)]),
            Op::StoreX(k) => self.code.emit([Insn::store(Size::Word, Reg::R10, cell(k), X)]),
            Op::Alu(alu, Operand::K(k)) => {
                self.code.emit([Insn::alu32(operation(alu), A, k as i32)])
            }
            Op::Alu(alu, Operand::X) => self.alu_x(alu),
            Op::Negate => self.code.emit([Insn::alu32(EAlu::Neg, A, 0)]),
            Op::Tax => self.code.emit([Insn::alu32_reg(EAlu::Mov, X, A)]),
            Op::Txa => self.code.emit([Insn::alu32_reg(EAlu::Mov, A, X)]),
            Op::Jump(0) => {}
            Op::Jump(skip) => self.code.jump(Insn::jump(0), JumpLabel::Op(at + 1 + skip as usize)),
            Op::Branch { cond, operand, jt, jf } => self.branch(at, cond, operand, (jt, jf)),
            Op::Return(k) => {
                self.code.emit([Insn::alu32(EAlu::Mov, A, k as i32)]);
                self.leave();
            }
            Op::ReturnA => self.leave(),
        }
    }

    /// Ends the program with the result in R0.
    fn leave(&mut self) {
        match self.ending {
            Ending::Exit => self.code.emit([Insn::exit()]),
            Ending::FallThrough => self.code.jump(Insn::jump(0), JumpLabel::End),
        }
    }

    /// `to` = bytes of the packet at `k`; at least `present` bytes are known to be present.
    fn load(&mut self, to: Reg, width: Width, k: u32, present: u32) {
        let Some(end) = end(k, width, LIMIT) else {
            return self.code.jump(Insn::jump(0), JumpLabel::Reject);
        };
        if present < end {
            self.require(end);
        }
        match i16::try_from(k) {
            Ok(offset) => self.code.emit([Insn::load(size(width), to, DATA, offset)]),
            Err(_) => self.code.emit([
                Insn::mov_reg(SCRATCH, DATA),
                Insn::alu64(EAlu::Add, SCRATCH, k as i32),
                Insn::load(size(width), to, SCRATCH, 0),
            ]),
        }
        self.swap(to, width);
    }

    /// Rejects packets of less than `end` bytes.
    fn require(&mut self, end: u32) {
        self.code.emit([Insn::mov_reg(SCRATCH, DATA), Insn::alu64(EAlu::Add, SCRATCH, end as i32)]);
        self.code.jump(Insn::jump_if_reg(ECond::Gt, SCRATCH, END, 0), JumpLabel::Reject);
    }

    /// A = bytes of the packet at X + `k`.
    fn load_indirect(&mut self, width: Width, k: u32, x_most: u32) {
        let Some(end) = end(k, width, LIMIT) else {
            return self.code.jump(Insn::jump(0), JumpLabel::Reject);
        };
        let before_end = -(width.bytes() as i16);
        let most = LIMIT - end;
        if x_most > most {
            self.code.jump(Insn::jump_if(ECond::Gt, X, most as i32, 0), JumpLabel::Reject);
        }
        // The mask only informs the verifier: after a comparison of A and X in code that is never
        // reached, its bounds of X may contradict each other, and then the sum would be no pointer
        // (`adjust_ptr_min_max_vals`).
        self.code.emit([
            Insn::alu32_reg(EAlu::Mov, SCRATCH, X),
            Insn::alu32(EAlu::And, SCRATCH, LIMIT as i32),
            Insn::alu64_reg(EAlu::Add, SCRATCH, DATA),
            Insn::alu64(EAlu::Add, SCRATCH, end as i32),
        ]);
        self.code.jump(Insn::jump_if_reg(ECond::Gt, SCRATCH, END, 0), JumpLabel::Reject);
        self.code.emit([Insn::load(size(width), A, SCRATCH, before_end)]);
        self.swap(A, width);
    }

    fn swap(&mut self, register: Reg, width: Width) {
        if width != Width::Byte {
            self.code.emit([Insn::to_be(register, 8 * width.bytes() as i32)]);
        }
    }

    fn load_length(&mut self, to: Reg) {
        match self.buffers {
            Buffers::Several => self.code.emit([Insn::alu32_reg(EAlu::Mov, to, LENGTH)]),
            Buffers::One => self.code.emit([
                Insn::mov_reg(SCRATCH, END),
                Insn::alu64_reg(EAlu::Sub, SCRATCH, DATA),
                Insn::alu32_reg(EAlu::Mov, to, SCRATCH),
            ]),
        }
    }

    fn load_ancillary(&mut self, field: Ancillary, present: u32) {
        let offset = match field {
            Ancillary::Queue => xdp_md::RX_QUEUE_INDEX,
            Ancillary::InterfaceIndex => xdp_md::INGRESS_IFINDEX,
            Ancillary::Protocol => return self.load_protocol(present),
            // XDP runs only on received packets, with their tags in the bytes. Other fields that
            // are not portable were refused.
            _ => return self.code.emit([Insn::mov(A, 0)]),
        };
        self.code.emit([Insn::load(Size::Word, A, CONTEXT, offset)]);
    }

    /// A = the protocol of an Ethernet frame as in `eth_type_trans`: its EtherType. For a length
    /// field, 1 (`ETH_P_802_3`) if the payload begins with ones, otherwise 4 (`ETH_P_802_2`).
    fn load_protocol(&mut self, present: u32) {
        if present < 16 {
            self.require(16);
        }
        self.load(A, Width::Half, 12, 16);
        self.code.emit([
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
                self.code.jump(Insn::jump_if(ECond::Eq, X, 0, 0), JumpLabel::Reject);
            }
            // eBPF takes the count modulo 32.
            Alu::Shl | Alu::Shr => {
                self.code.emit([Insn::jump_if(ECond::Lt, X, 32, 2), Insn::mov(A, 0), Insn::jump(1)])
            }
            _ => {}
        }
        self.code.emit([Insn::alu32_reg(operation(alu), A, X)]);
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
            _ if jt == jf => self.code.jump(Insn::jump(0), JumpLabel::Op(yes)),
            Some(inverse) if jt == 0 => self.code.jump(jump(inverse), JumpLabel::Op(no)),
            _ => {
                self.code.jump(jump(cond), JumpLabel::Op(yes));
                if jf != 0 {
                    self.code.jump(Insn::jump(0), JumpLabel::Op(no));
                }
            }
        }
    }
}

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
