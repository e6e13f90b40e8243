//! The first pass over the graph of a program: finds the facts that hold on every path to an
//! instruction.

use super::graph::{Action, Field, Node, PacketInfo, Register, Subject, decided, end, full};
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};

/// Number of bytes that determine the protocol of an Ethernet frame.
const PROTOCOL_END: i32 = 16;

/// The known contents of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Constant(u32),
    /// Bytes of the packet, which is long enough for them.
    Field(Field),
}

/// Facts that hold on every path to an instruction.
#[derive(Clone, Copy)]
struct State {
    a: Known,
    x: Known,
    /// The packet has at least this many bytes.
    len: i32,
}

impl State {
    fn meet(self, other: Self) -> Self {
        let known = |one, two| if one == two { one } else { Known::Nothing };
        Self { a: known(self.a, other.a), x: known(self.x, other.x), len: self.len.min(other.len) }
    }
}

struct Forward {
    states: Vec<Option<State>>,
}

/// The nodes of a checked program for packets of at least `shortest` bytes; `None` if it reads
/// unsupported data.
pub(super) fn run(program: &[Op], shortest: i32) -> Option<Vec<Node>> {
    let mut forward = Forward { states: vec![None; program.len()] };
    let entry = State { a: Known::Constant(0), x: Known::Constant(0), len: shortest };
    forward.reach(0, entry)?;
    (program.iter().enumerate())
        .map(|(place, op)| match forward.states.get(place).copied().flatten() {
            None => Some(Node::Unreachable),
            Some(state) => forward.node(place, *op, state),
        })
        .collect()
}

impl Forward {
    /// Records that `place` is also reached in `state`.
    fn reach(&mut self, place: usize, state: State) -> Option<usize> {
        let slot = self.states.get_mut(place)?;
        *slot = Some(slot.map_or(state, |other| other.meet(state)));
        Some(place)
    }

    fn node(&mut self, place: usize, op: Op, mut state: State) -> Option<Node> {
        use Register::{A, X};
        let mut require = None;
        let action = match op {
            Op::LoadAbsolute(width, offset) => {
                // The offset exceeds the length of any packet.
                let Some(end) = end(offset, width) else { return Some(Node::Return(0)) };
                require = state.require(end);
                let field = Field { offset: offset as i32, width, mask: full(width) };
                state.a = Known::Field(field);
                Action::Load(A, field)
            }
            Op::LoadXHeader(offset) => {
                let Some(end) = end(offset, Width::Byte) else { return Some(Node::Return(0)) };
                require = state.require(end);
                state.x = Known::Nothing;
                Action::HeaderLength(offset as i32)
            }
            Op::LoadIndirect(width, offset) => {
                if end(offset, width).is_none() {
                    return Some(Node::Return(0));
                }
                state.a = Known::Nothing;
                Action::LoadAtX(width, offset as i32)
            }
            Op::LoadAncillary(field) => {
                let action = match field {
                    Ancillary::Queue => Action::LoadInfo(A, PacketInfo::Queue),
                    Ancillary::PacketType => Action::LoadInfo(A, PacketInfo::PacketType),
                    Ancillary::InterfaceIndex => Action::LoadInfo(A, PacketInfo::InterfaceIndex),
                    Ancillary::Protocol => {
                        require = state.require(PROTOCOL_END);
                        Action::Protocol
                    }
                    // VLAN tags are in the packet data here.
                    Ancillary::VlanTci | Ancillary::VlanPresent | Ancillary::VlanTpid => {
                        Action::Constant(A, 0)
                    }
                    _ => return None,
                };
                let known = match action {
                    Action::Constant(_, value) => Known::Constant(value),
                    _ => Known::Nothing,
                };
                state.set(A, known, action)
            }
            Op::LoadLength => state.set(A, Known::Nothing, Action::LoadInfo(A, PacketInfo::Length)),
            Op::LoadXLength => {
                state.set(X, Known::Nothing, Action::LoadInfo(X, PacketInfo::Length))
            }
            Op::LoadImmediate(k) => state.set(A, Known::Constant(k), Action::Constant(A, k)),
            Op::LoadXImmediate(k) => state.set(X, Known::Constant(k), Action::Constant(X, k)),
            Op::LoadMemory(k) => state.set(A, Known::Nothing, Action::LoadCell(A, cell(k)?)),
            Op::LoadXMemory(k) => state.set(X, Known::Nothing, Action::LoadCell(X, cell(k)?)),
            Op::Store(k) => Action::StoreCell(A, cell(k)?),
            Op::StoreX(k) => Action::StoreCell(X, cell(k)?),
            Op::Tax => state.set(X, state.a, Action::ToX),
            Op::Txa => state.set(A, state.x, Action::ToA),
            Op::Negate => state.set(A, Known::Nothing, Action::Negate),
            Op::Alu(alu, operand) => {
                let operand = state.operand(operand);
                if matches!(alu, Alu::Div | Alu::Mod) && operand == Operand::K(0) {
                    return Some(Node::Return(0));
                }
                let known = match (alu, state.a, operand) {
                    (Alu::And, Known::Field(field), Operand::K(mask)) => {
                        Known::Field(Field { mask: field.mask & mask, ..field })
                    }
                    _ => Known::Nothing,
                };
                state.set(A, known, Action::Alu(alu, operand))
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
                    Known::Constant(value) => Node::Return(value),
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
        state: State,
    ) -> Option<Node> {
        let operand = state.operand(operand);
        let decided = match (state.a, operand) {
            _ if then == otherwise => Some(true),
            (Known::Constant(a), Operand::K(value)) => Some(holds(cond, a, value)),
            (Known::Field(field), Operand::K(value)) => decided(cond, field.mask, value),
            _ => None,
        };
        if let Some(holds) = decided {
            let next = self.reach(if holds { then } else { otherwise }, state)?;
            return Some(Node::Step { require: None, action: None, next });
        }
        let subject = match (state.a, operand) {
            (Known::Field(field), Operand::K(_)) => Subject::Field(field),
            _ => Subject::A,
        };
        let then = self.reach(then, state)?;
        let otherwise = self.reach(otherwise, state)?;
        Some(Node::Test { subject, cond, operand, then, otherwise })
    }
}

impl State {
    /// Records the new contents of `register`, and returns `action`.
    fn set(&mut self, register: Register, known: Known, action: Action) -> Action {
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
            (Operand::X, Known::Constant(value)) => Operand::K(value),
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
