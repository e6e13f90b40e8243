//! Decoded instructions of classic BPF: one name per operation.

use crate::instruction::Instruction;

/// Cells of scratch memory, `BPF_MEMWORDS` of `linux/filter.h`.
pub const MEMORY_CELLS: u32 = 16;

/// Loads from this offset on read the kernel's metadata instead of the packet, `SKF_AD_OFF` of
/// `linux/filter.h`.
pub const ANCILLARY: u32 = -0x1000_i32 as u32;

/// One instruction. A is the accumulator, X the index register, both of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A = the bytes of the packet at this offset, in network order.
    LoadAbsolute(Width, u32),
    /// A = the bytes of the packet at X plus this offset. The sum does not wrap.
    LoadIndirect(Width, u32),
    /// A = metadata of the packet.
    LoadAncillary(Ancillary),
    /// A = this number.
    LoadImmediate(u32),
    /// A = this cell of scratch memory.
    LoadMemory(u32),
    /// A = the length of the packet on the wire.
    LoadLength,
    /// X = this number.
    LoadXImmediate(u32),
    /// X = this cell of scratch memory.
    LoadXMemory(u32),
    /// X = the length of the packet on the wire.
    LoadXLength,
    /// X = 4 times the lower half of the byte at this offset: the length of an IPv4 header.
    LoadXHeader(u32),
    /// This cell of scratch memory = A.
    Store(u32),
    /// This cell of scratch memory = X.
    StoreX(u32),
    /// A = A combined with the operand.
    Alu(Alu, Operand),
    /// A = -A.
    Negate,
    /// Skips this many instructions.
    Jump(u32),
    /// Skips `jt` instructions if the comparison of A with the operand holds, otherwise `jf`.
    Branch {
        /// The comparison.
        cond: Cond,
        /// The right operand.
        operand: Operand,
        /// Instructions to skip when true.
        jt: u8,
        /// Instructions to skip when false.
        jf: u8,
    },
    /// Ends: accept this many bytes, 0 rejects.
    Return(u32),
    /// Ends: accept A bytes, 0 rejects.
    ReturnA,
    /// X = A.
    Tax,
    /// A = X.
    Txa,
}

/// Width of a load from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
}

impl Width {
    /// Bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
        }
    }
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// This number.
    K(u32),
    /// The index register.
    X,
}

/// Wrapping arithmetic on 32 bits. A divisor X of 0 ends the program and rejects the packet; a
/// shift by an X of 32 or more gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Comparisons of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cond {
    /// A = operand.
    Equal,
    /// A > operand.
    Greater,
    /// A ≥ operand.
    GreaterEqual,
    /// The operands have a common bit.
    Set,
}

/// The ancillary loads of Linux, `SKF_AD_*` of `linux/filter.h`. (`SKF_AD_ALU_XOR_X` is decoded as
/// arithmetic.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ancillary {
    Protocol,
    PacketType,
    InterfaceIndex,
    NetlinkAttribute,
    NetlinkNested,
    Mark,
    Queue,
    HardwareType,
    RxHash,
    Cpu,
    VlanTci,
    VlanPresent,
    PayloadOffset,
    Random,
    VlanTpid,
}

/// Offset from [`ANCILLARY`], meaning, and libpcap's name in `tcpdump -d`.
const FIELDS: [(u32, Ancillary, &str); 15] = [
    (0, Ancillary::Protocol, "proto"),
    (4, Ancillary::PacketType, "type"),
    (8, Ancillary::InterfaceIndex, "ifidx"),
    (12, Ancillary::NetlinkAttribute, "nla"),
    (16, Ancillary::NetlinkNested, "nlan"),
    (20, Ancillary::Mark, "mark"),
    (24, Ancillary::Queue, "queue"),
    (28, Ancillary::HardwareType, "hatype"),
    (32, Ancillary::RxHash, "rxhash"),
    (36, Ancillary::Cpu, "cpu"),
    (44, Ancillary::VlanTci, "vlan_tci"),
    (48, Ancillary::VlanPresent, "vlanp"),
    (52, Ancillary::PayloadOffset, "poff"),
    (56, Ancillary::Random, "random"),
    (60, Ancillary::VlanTpid, "vlan_tpid"),
];

/// `SKF_AD_ALU_XOR_X`.
const XOR_X: u32 = 40;

impl Ancillary {
    /// libpcap's name.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|field| field.1 == self).map_or("", |field| field.2)
    }

    /// The offset of the load.
    pub fn offset(self) -> u32 {
        FIELDS.iter().find(|field| field.1 == self).map_or(0, |field| ANCILLARY + field.0)
    }

    /// Whether every engine supports it. Only the kernel's socket filter supports the other fields.
    pub fn is_portable(self) -> bool {
        use Ancillary::*;
        match self {
            Protocol | PacketType | InterfaceIndex | Queue | VlanTci | VlanPresent | VlanTpid => {
                true
            }
            NetlinkAttribute | NetlinkNested | Mark | HardwareType | RxHash | Cpu
            | PayloadOffset | Random => false,
        }
    }
}

/// Codes of `linux/bpf_common.h` and `linux/filter.h`: class, size, mode and operation combined.
pub(crate) mod code {
    pub(crate) const LD_W_ABS: u16 = 0x20;
    pub(crate) const LD_H_ABS: u16 = 0x28;
    pub(crate) const LD_B_ABS: u16 = 0x30;
    pub(crate) const LD_W_IND: u16 = 0x40;
    pub(crate) const LD_H_IND: u16 = 0x48;
    pub(crate) const LD_B_IND: u16 = 0x50;
    pub(crate) const LD_IMM: u16 = 0x00;
    pub(crate) const LD_MEM: u16 = 0x60;
    pub(crate) const LD_LEN: u16 = 0x80;
    pub(crate) const LDX_IMM: u16 = 0x01;
    pub(crate) const LDX_MEM: u16 = 0x61;
    pub(crate) const LDX_LEN: u16 = 0x81;
    pub(crate) const LDX_MSH: u16 = 0xb1;
    pub(crate) const ST: u16 = 0x02;
    pub(crate) const STX: u16 = 0x03;
    pub(crate) const ALU: u16 = 0x04;
    pub(crate) const NEG: u16 = 0x84;
    pub(crate) const JA: u16 = 0x05;
    pub(crate) const JMP: u16 = 0x05;
    pub(crate) const RET_K: u16 = 0x06;
    pub(crate) const RET_A: u16 = 0x16;
    pub(crate) const TAX: u16 = 0x07;
    pub(crate) const TXA: u16 = 0x87;
    pub(crate) const SOURCE_X: u16 = 0x08;
    pub(crate) const CLASS: u16 = 0x07;
    pub(crate) const OPERATION: u16 = 0xf0;
}

/// Operations of arithmetic instructions.
pub(crate) const ALU_CODES: [(u16, Alu, &str); 10] = [
    (0x00, Alu::Add, "add"),
    (0x10, Alu::Sub, "sub"),
    (0x20, Alu::Mul, "mul"),
    (0x30, Alu::Div, "div"),
    (0x90, Alu::Mod, "mod"),
    (0x50, Alu::And, "and"),
    (0x40, Alu::Or, "or"),
    (0xa0, Alu::Xor, "xor"),
    (0x60, Alu::Shl, "lsh"),
    (0x70, Alu::Shr, "rsh"),
];

/// Operations of conditional jumps.
pub(crate) const COND_CODES: [(u16, Cond, &str); 4] = [
    (0x10, Cond::Equal, "jeq"),
    (0x20, Cond::Greater, "jgt"),
    (0x30, Cond::GreaterEqual, "jge"),
    (0x40, Cond::Set, "jset"),
];

impl Op {
    /// Decodes an instruction; `None` for a code that the kernel does not know (`chk_code_allowed`
    /// of `net/core/filter.c`) or an unknown ancillary load.
    pub fn decode(insn: Instruction) -> Option<Self> {
        let Instruction { code, jt, jf, k } = insn;
        let operand = if code & code::SOURCE_X != 0 { Operand::X } else { Operand::K(k) };
        let operation = code & code::OPERATION;
        Some(match code {
            code::LD_W_ABS | code::LD_H_ABS | code::LD_B_ABS if k >= ANCILLARY => {
                if k == ANCILLARY + XOR_X {
                    return Some(Op::Alu(Alu::Xor, Operand::X));
                }
                let field = FIELDS.iter().find(|field| ANCILLARY + field.0 == k)?;
                Op::LoadAncillary(field.1)
            }
            code::LD_W_ABS => Op::LoadAbsolute(Width::Word, k),
            code::LD_H_ABS => Op::LoadAbsolute(Width::Half, k),
            code::LD_B_ABS => Op::LoadAbsolute(Width::Byte, k),
            code::LD_W_IND => Op::LoadIndirect(Width::Word, k),
            code::LD_H_IND => Op::LoadIndirect(Width::Half, k),
            code::LD_B_IND => Op::LoadIndirect(Width::Byte, k),
            code::LD_IMM => Op::LoadImmediate(k),
            code::LD_MEM => Op::LoadMemory(k),
            code::LD_LEN => Op::LoadLength,
            code::LDX_IMM => Op::LoadXImmediate(k),
            code::LDX_MEM => Op::LoadXMemory(k),
            code::LDX_LEN => Op::LoadXLength,
            code::LDX_MSH => Op::LoadXHeader(k),
            code::ST => Op::Store(k),
            code::STX => Op::StoreX(k),
            code::NEG => Op::Negate,
            code::JA => Op::Jump(k),
            code::RET_K => Op::Return(k),
            code::RET_A => Op::ReturnA,
            code::TAX => Op::Tax,
            code::TXA => Op::Txa,
            _ if code > 0xff => return None,
            _ if code & code::CLASS == code::ALU => {
                let (_, alu, _) = ALU_CODES.iter().find(|entry| entry.0 == operation)?;
                Op::Alu(*alu, operand)
            }
            _ if code & code::CLASS == code::JMP => {
                let (_, cond, _) = COND_CODES.iter().find(|entry| entry.0 == operation)?;
                Op::Branch { cond: *cond, operand, jt, jf }
            }
            _ => return None,
        })
    }

    /// Encodes the instruction.
    pub fn encode(self) -> Instruction {
        let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
        let source = |operand| match operand {
            Operand::K(k) => (0, k),
            Operand::X => (code::SOURCE_X, 0),
        };
        match self {
            Op::LoadAbsolute(Width::Word, k) => plain(code::LD_W_ABS, k),
            Op::LoadAbsolute(Width::Half, k) => plain(code::LD_H_ABS, k),
            Op::LoadAbsolute(Width::Byte, k) => plain(code::LD_B_ABS, k),
            Op::LoadIndirect(Width::Word, k) => plain(code::LD_W_IND, k),
            Op::LoadIndirect(Width::Half, k) => plain(code::LD_H_IND, k),
            Op::LoadIndirect(Width::Byte, k) => plain(code::LD_B_IND, k),
            Op::LoadAncillary(field) => plain(code::LD_W_ABS, field.offset()),
            Op::LoadImmediate(k) => plain(code::LD_IMM, k),
            Op::LoadMemory(k) => plain(code::LD_MEM, k),
            Op::LoadLength => plain(code::LD_LEN, 0),
            Op::LoadXImmediate(k) => plain(code::LDX_IMM, k),
            Op::LoadXMemory(k) => plain(code::LDX_MEM, k),
            Op::LoadXLength => plain(code::LDX_LEN, 0),
            Op::LoadXHeader(k) => plain(code::LDX_MSH, k),
            Op::Store(k) => plain(code::ST, k),
            Op::StoreX(k) => plain(code::STX, k),
            Op::Alu(alu, operand) => {
                let operation = ALU_CODES.iter().find(|entry| entry.1 == alu);
                let (source, k) = source(operand);
                plain(code::ALU | source | operation.map_or(0, |entry| entry.0), k)
            }
            Op::Negate => plain(code::NEG, 0),
            Op::Jump(k) => plain(code::JA, k),
            Op::Branch { cond, operand, jt, jf } => {
                let operation = COND_CODES.iter().find(|entry| entry.1 == cond);
                let (source, k) = source(operand);
                let code = code::JMP | source | operation.map_or(0, |entry| entry.0);
                Instruction { code, jt, jf, k }
            }
            Op::Return(k) => plain(code::RET_K, k),
            Op::ReturnA => plain(code::RET_A, 0),
            Op::Tax => plain(code::TAX, 0),
            Op::Txa => plain(code::TXA, 0),
        }
    }
}
