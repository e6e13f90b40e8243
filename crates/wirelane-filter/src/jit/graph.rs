//! The nodes of a program's graph, and their edges.

use crate::op::{Alu, Cond, Operand, Width};

/// Bytes of the packet at a fixed offset, as a number in network order under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketField {
    pub(super) offset: i32,
    pub(super) width: Width,
    pub(super) mask: u32,
}

/// A register of the classic machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    A,
    X,
}

/// Metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketInfo {
    Length,
    Queue,
    PacketType,
    InterfaceIndex,
}

/// The operation of a node. The length was checked before loads at fixed places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeAction {
    /// A or X becomes bytes of the packet.
    Load(Register, PacketField),
    /// A becomes the bytes of the packet at X plus an offset; the packet is rejected if it ends
    /// before them.
    LoadAtX(Width, i32),
    /// X becomes 4 times the lower half of the byte at the offset.
    HeaderLength(i32),
    Constant(Register, u32),
    LoadInfo(Register, PacketInfo),
    /// A becomes the protocol of an Ethernet frame, as in the kernel's `eth_type_trans`.
    Protocol,
    LoadCell(Register, u8),
    StoreCell(Register, u8),
    /// A division by X rejects the packet if X is 0.
    Alu(Alu, Operand),
    Negate,
    /// X becomes A.
    ToX,
    /// A becomes X.
    ToA,
}

/// The left operand of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedValue {
    A,
    Field(PacketField),
    /// Bytes of the packet at X plus an offset, as in [`NodeAction::LoadAtX`].
    AtX(Width, i32),
}

/// The values to compare a field with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueSet {
    pub(super) field: PacketField,
    pub(super) values: Vec<u32>,
}

/// A node of the graph. Its index equals the index of its instruction; `next`, `then` and
/// `otherwise` are larger indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// No edge leads here.
    Unreachable,
    /// Rejects a packet shorter than `require` bytes, then performs `action`.
    Step {
        require: Option<i32>,
        action: Option<NodeAction>,
        next: usize,
    },
    Test {
        subject: ComparedValue,
        cond: Cond,
        operand: Operand,
        then: usize,
        otherwise: usize,
    },
    /// Whether one of the fields has one of its values.
    Member {
        sets: Vec<ValueSet>,
        then: usize,
        otherwise: usize,
    },
    Return(u32),
    ReturnA,
}

/// The bit of A in sets of live registers and cells.
pub(super) const A: u32 = 1 << 16;
/// The bit of X in sets of live registers and cells.
pub(super) const X: u32 = 1 << 17;

impl Node {
    pub(super) fn successors(&self) -> impl Iterator<Item = usize> + use<> {
        let (one, two) = match self {
            Self::Unreachable | Self::Return(_) | Self::ReturnA => (None, None),
            Self::Step { next, .. } => (Some(*next), None),
            Self::Test { then, otherwise, .. } | Self::Member { then, otherwise, .. } => {
                (Some(*then), Some(*otherwise))
            }
        };
        one.into_iter().chain(two)
    }
}

impl NodeAction {
    /// The registers and cells that it reads, and those it writes.
    pub(super) fn effect(self) -> (u32, u32) {
        let bit = |register| match register {
            Register::A => A,
            Register::X => X,
        };
        match self {
            Self::Load(register, _) | Self::Constant(register, _) | Self::LoadInfo(register, _) => {
                (0, bit(register))
            }
            Self::LoadAtX(..) => (X, A),
            Self::Protocol => (0, A),
            Self::HeaderLength(_) => (0, X),
            Self::LoadCell(register, cell) => (1 << cell, bit(register)),
            Self::StoreCell(register, cell) => (bit(register), 1 << cell),
            Self::Alu(_, Operand::X) => (A | X, A),
            Self::Alu(_, Operand::K(_)) | Self::Negate => (A, A),
            Self::ToX => (A, X),
            Self::ToA => (X, A),
        }
    }

    pub(super) fn may_reject(self) -> bool {
        matches!(self, Self::LoadAtX(..) | Self::Alu(Alu::Div | Alu::Mod, Operand::X))
    }
}

/// The result of the comparison if it is the same for every value under `mask`.
pub(super) fn decided(cond: Cond, mask: u32, right: u32) -> Option<bool> {
    match cond {
        Cond::Equal if right & !mask != 0 => Some(false),
        Cond::Set if right & mask == 0 => Some(false),
        Cond::Greater if right >= mask => Some(false),
        Cond::GreaterEqual if right > mask => Some(false),
        Cond::GreaterEqual if right == 0 => Some(true),
        _ => None,
    }
}

/// All bits that a load of this width can set.
pub(super) const fn full(width: Width) -> u32 {
    match width {
        Width::Byte => 0xff,
        Width::Half => 0xffff,
        Width::Word => u32::MAX,
    }
}

/// The end of a load; `None` beyond the length of any packet.
pub(super) fn end(offset: u32, width: Width) -> Option<i32> {
    i32::try_from(offset).ok()?.checked_add(width.bytes() as i32)
}
