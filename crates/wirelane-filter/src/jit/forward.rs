//! The first pass over the graph of a program: finds the facts that hold on every path to an
//! instruction.

use super::graph::{
    ComparedValue, Node, NodeAction, PacketField, PacketInfo, Register, decided, end, full,
};
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};

/// Number of bytes that determine the protocol of an Ethernet frame.
const PROTOCOL_END: i32 = 16;

/// The known contents of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownValue {
    Nothing,
    Constant(u32),
    /// Bytes of the packet, which is long enough for them.
    Field(PacketField),
}

/// Facts that hold on every path to an instruction.
#[derive(Clone, Copy)]
struct PathFacts {
    a: KnownValue,
    x: KnownValue,
    /// The packet has at least this many bytes.
    len: i32,
}

impl PathFacts {
    fn meet(self, other: Self) -> Self {
        let known = |one, two| if one == two { one } else { KnownValue::Nothing };
        Self { a: known(self.a, other.a), x: known(self.x, other.x), len: self.len.min(other.len) }
    }
}

struct ForwardPass {
    states: Vec<Option<PathFacts>>,
}

/// The nodes of a checked program for packets of at least `shortest` bytes; `None` if it reads
/// unsupported data.
pub(super) fn run(program: &[Op], shortest: i32) -> Option<Vec<Node>> {
    let mut forward = ForwardPass { states: vec![None; program.len()] };
    let entry = PathFacts { a: KnownValue::Constant(0), x: KnownValue::Constant(0), len: shortest };
    forward.reach(0, entry)?;
    (program.iter().enumerate())
        .map(|(place, op)| match forward.states.get(place).copied().flatten() {
            None => Some(Node::Unreachable),
            Some(state) => forward.node(place, *op, state),
        })
        .collect()
}

impl ForwardPass {
    /// Records that `place` is also reached in `state`.
    fn reach(&mut self, place: usize, state: PathFacts) -> Option<usize> {
        let slot = self.states.get_mut(place)?;
        *slot = Some(slot.map_or(state, |other| other.meet(state)));
        Some(place)
    }

    fn node(&mut self, place: usize, op: Op, mut state: PathFacts) -> Option<Node> {
        use Register::{A, X};
        let mut require = None;
        let action = match op {
            Op::LoadAbsolute(width, offset) => {
                // The offset exceeds the length of any packet.
                let Some(end) = end(offset, width) else { return Some(Node::Return(0)) };
                require = state.require(end);
                let field = PacketField { offset: offset as i32, width, mask: full(width) };
                state.a = KnownValue::Field(field);
                NodeAction::Load(A, field)
            }
            Op::LoadXHeader(offset) => {
                let Some(end) = end(offset, Width::Byte) else { return Some(Node::Return(0)) };
                require = state.require(end);
                state.x = KnownValue::Nothing;
                NodeAction::HeaderLength(offset as i32)
            }
            Op::LoadIndirect(width, offset) => {
                if end(offset, width).is_none() {
                    return Some(Node::Return(0));
                }
                state.a = KnownValue::Nothing;
                NodeAction::LoadAtX(width, offset as i32)
            }
            Op::LoadAncillary(field) => {
                let action = match field {
                    Ancillary::Queue => NodeAction::LoadInfo(A, PacketInfo::Queue),
                    Ancillary::PacketType => NodeAction::LoadInfo(A, PacketInfo::PacketType),
                    Ancillary::InterfaceIndex => {
                        NodeAction::LoadInfo(A, PacketInfo::InterfaceIndex)
                    }
                    Ancillary::Protocol => {
                        require = state.require(PROTOCOL_END);
                        NodeAction::Protocol
                    }
                    // VLAN tags are in the packet data here.
                    Ancillary::VlanTci | Ancillary::VlanPresent | Ancillary::VlanTpid => {
                        NodeAction::Constant(A, 0)
                    }
                    _ => return None,
                };
                let known = match action {
                    NodeAction::Constant(_, value) => KnownValue::Constant(value),
                    _ => KnownValue::Nothing,
                };
                state.set(A, known, action)
            }
            Op::LoadLength => {
                state.set(A, KnownValue::Nothing, NodeAction::LoadInfo(A, PacketInfo::Length))
            }
            Op::LoadXLength => {
                state.set(X, KnownValue::Nothing, NodeAction::LoadInfo(X, PacketInfo::Length))
            }
            Op::LoadImmediate(k) => {
                state.set(A, KnownValue::Constant(k), NodeAction::Constant(A, k))
            }
            Op::LoadXImmediate(k) => {
                state.set(X, KnownValue::Constant(k), NodeAction::Constant(X, k))
            }
            Op::LoadMemory(k) => {
                state.set(A, KnownValue::Nothing, NodeAction::LoadCell(A, cell(k)?))
            }
            Op::LoadXMemory(k) => {
                state.set(X, KnownValue::Nothing, NodeAction::LoadCell(X, cell(k)?))
            }
            Op::Store(k) => NodeAction::StoreCell(A, cell(k)?),
            Op::StoreX(k) => NodeAction::StoreCell(X, cell(k)?),
            Op::Tax => state.set(X, state.a, NodeAction::ToX),
            Op::Txa => state.set(A, state.x, NodeAction::ToA),
            Op::Negate => state.set(A, KnownValue::Nothing, NodeAction::Negate),
            Op::Alu(alu, operand) => {
                let operand = state.operand(operand);
                if matches!(alu, Alu::Div | Alu::Mod) && operand == Operand::K(0) {
                    return Some(Node::Return(0));
                }
                let known = match (alu, state.a, operand) {
                    (Alu::And, KnownValue::Field(field), Operand::K(mask)) => {
                        KnownValue::Field(PacketField { mask: field.mask & mask, ..field })
                    }
                    _ => KnownValue::Nothing,
                };
                state.set(A, known, NodeAction::Alu(alu, operand))
            }
            Op::Branch { cond, operand, jt, jf } => {
                let targets = (place + 1 + usize::from(jt), place + 1 + usize::from(jf));
                return self.test(cond, operand, targets, state);
            }
            Op::Jump(k) => {
                let next = self.reach((place + 1).checked_add(k as usize)?, state)?;
                return Some(Node::Step { require: None, action: None, next });
            }
            Op::Return(k) => return Some(Node::Return(k)),
            Op::ReturnA => {
                return Some(match state.a {
                    KnownValue::Constant(value) => Node::Return(value),
                    _ => Node::ReturnA,
                });
            }
        };
        let next = self.reach(place + 1, state)?;
        Some(Node::Step { require, action: Some(action), next })
    }

    fn test(
        &mut self,
        cond: Cond,
        operand: Operand,
        (then, otherwise): (usize, usize),
        state: PathFacts,
    ) -> Option<Node> {
        let operand = state.operand(operand);
        let decided = match (state.a, operand) {
            _ if then == otherwise => Some(true),
            (KnownValue::Constant(a), Operand::K(value)) => Some(holds(cond, a, value)),
            (KnownValue::Field(field), Operand::K(value)) => decided(cond, field.mask, value),
            _ => None,
        };
        if let Some(holds) = decided {
            let next = self.reach(if holds { then } else { otherwise }, state)?;
            return Some(Node::Step { require: None, action: None, next });
        }
        let subject = match (state.a, operand) {
            (KnownValue::Field(field), Operand::K(_)) => ComparedValue::Field(field),
            _ => ComparedValue::A,
        };
        let then = self.reach(then, state)?;
        let otherwise = self.reach(otherwise, state)?;
        Some(Node::Test { subject, cond, operand, then, otherwise })
    }
}

impl PathFacts {
    /// Records the new contents of `register`, and returns `action`.
    fn set(&mut self, register: Register, known: KnownValue, action: NodeAction) -> NodeAction {
        match register {
            Register::A => self.a = known,
            Register::X => self.x = known,
        }
        action
    }

    /// The length to check, unless the packet is known to have it.
    fn require(&mut self, end: i32) -> Option<i32> {
        let require = (end > self.len).then_some(end);
        self.len = self.len.max(end);
        require
    }

    fn operand(&self, operand: Operand) -> Operand {
        match (operand, self.x) {
            (Operand::X, KnownValue::Constant(value)) => Operand::K(value),
            _ => operand,
        }
    }
}

fn holds(cond: Cond, left: u32, right: u32) -> bool {
    match cond {
        Cond::Equal => left == right,
        Cond::Greater => left > right,
        Cond::GreaterEqual => left >= right,
        Cond::Set => left & right != 0,
    }
}

fn cell(k: u32) -> Option<u8> {
    u8::try_from(k).ok().filter(|cell| u32::from(*cell) < MEMORY_CELLS)
}
