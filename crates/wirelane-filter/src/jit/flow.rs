//! A classic program as a graph that is cheap to run: what is known at each instruction is used,
//! and what nobody needs is left out.
//!
//! Jumps go forward only, so one pass in order sees every predecessor first, and one pass back sees
//! every successor first:
//!
//! 1. Forward: what A and X hold, as far as it is known (a constant, or bytes of the packet at a
//!    fixed place under a mask), and how long the packet must be to get here. Loads that need not be
//!    checked again are not; comparisons of bytes in the packet no longer need A; comparisons of
//!    constants are decided.
//! 2. Backward: loads and arithmetic whose result nobody reads are dropped.
//! 3. Forward: chains of comparisons for equality that lead to the same place, as in
//!    `host a or host b or …`, become one test of membership per field.

use super::sets;
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};

/// Bytes of the packet at a fixed place, as a number in network order under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
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

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Length,
    Queue,
    PacketType,
    InterfaceIndex,
}

/// Bytes that the protocol of an Ethernet frame depends on.
const PROTOCOL_END: i32 = 16;

/// What is done at a node. Loads at fixed places have been checked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A or X becomes bytes of the packet.
    Load(Register, Field),
    /// A becomes bytes of the packet from X plus an offset on; the packet is rejected if they are
    /// not all there.
    LoadAtX(Width, i32),
    /// X becomes 4 times the lower half of the byte at the offset.
    HeaderLength(i32),
    Constant(Register, u32),
    Beside(Register, Beside),
    /// A becomes the protocol of an Ethernet frame, as `eth_type_trans` of the kernel finds it.
    Protocol,
    LoadCell(Register, u8),
    StoreCell(Register, u8),
    /// The packet is rejected if it is a division by X, and X is 0.
    Alu(Alu, Operand),
    Negate,
    /// X becomes A.
    ToX,
    /// A becomes X.
    ToA,
}

/// What a comparison looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    A,
    Field(Field),
    /// Bytes of the packet from X plus an offset on, as [`Action::LoadAtX`].
    AtX(Width, i32),
}

/// The values that a field is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) field: Field,
    pub(super) values: Vec<u32>,
}

/// A node of the graph. Its place is that of the instruction it comes from; `next`, `then` and
/// `otherwise` are places after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Nothing leads here.
    Unreachable,
    /// Rejects a packet shorter than `require` bytes, then does `op`.
    Step {
        require: Option<i32>,
        action: Option<Action>,
        next: usize,
    },
    Test {
        subject: Subject,
        cond: Cond,
        operand: Operand,
        then: usize,
        otherwise: usize,
    },
    /// Whether one of the fields has one of its values.
    Member {
        sets: Vec<Set>,
        then: usize,
        otherwise: usize,
    },
    Return(u32),
    ReturnA,
}

/// The program as a graph, for packets of at least a certain length.
pub(super) struct Graph {
    /// In order: every edge leads to a higher place. The entry is the first.
    pub(super) nodes: Vec<Node>,
    /// What must be 0 at the start: bits 0 to 15 scratch memory, [`A`], [`X`].
    pub(super) cleared: u32,
}

/// A, among the bits of what is live.
pub(super) const A: u32 = 1 << 16;
/// X, among the bits of what is live.
pub(super) const X: u32 = 1 << 17;

impl Graph {
    /// The graph of a checked program for packets of at least `shortest` bytes; `None` if it asks
    /// something of the packet that is not known here.
    pub(super) fn new(program: &[Op], shortest: i32) -> Option<Self> {
        let mut nodes = Forward::run(program, shortest)?;
        let cleared = drop_dead(&mut nodes);
        sets::join(&mut nodes);
        Some(Self { nodes, cleared })
    }
}

/// How far into a packet the loads at fixed places reach that a packet of `limit` bytes satisfies.
pub(super) fn reach(program: &[Op], limit: i32) -> i32 {
    let ends = program.iter().filter_map(|op| match op {
        Op::LoadAbsolute(width, offset) => end(*offset, *width),
        Op::LoadXHeader(offset) => end(*offset, Width::Byte),
        _ => None,
    });
    ends.filter(|end| *end <= limit).max().unwrap_or(0)
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Constant(u32),
    /// The packet is long enough for it.
    Field(Field),
}

/// What holds on every way to an instruction.
#[derive(Clone, Copy)]
struct State {
    a: Known,
    x: Known,
    /// The packet has at least so many bytes.
    len: i32,
}

impl State {
    fn meet(self, other: Self) -> Self {
        let known = |one, two| if one == two { one } else { Known::Nothing };
        Self { a: known(self.a, other.a), x: known(self.x, other.x), len: self.len.min(other.len) }
    }
}

/// The first pass.
struct Forward {
    states: Vec<Option<State>>,
}

impl Forward {
    fn run(program: &[Op], shortest: i32) -> Option<Vec<Node>> {
        let mut forward = Self { states: vec![None; program.len()] };
        let entry = State { a: Known::Constant(0), x: Known::Constant(0), len: shortest };
        forward.reach(0, entry)?;
        (program.iter().enumerate())
            .map(|(place, op)| match forward.states.get(place).copied().flatten() {
                None => Some(Node::Unreachable),
                Some(state) => forward.node(place, *op, state),
            })
            .collect()
    }

    /// `place` is reached in `state` too.
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
                // No packet is as long as an offset that is none.
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
                    Ancillary::Queue => Action::Beside(A, Beside::Queue),
                    Ancillary::PacketType => Action::Beside(A, Beside::PacketType),
                    Ancillary::InterfaceIndex => Action::Beside(A, Beside::InterfaceIndex),
                    Ancillary::Protocol => {
                        require = state.require(PROTOCOL_END);
                        Action::Protocol
                    }
                    // Tags are in the packet, not beside it.
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
            Op::LoadLength => state.set(A, Known::Nothing, Action::Beside(A, Beside::Length)),
            Op::LoadXLength => state.set(X, Known::Nothing, Action::Beside(X, Beside::Length)),
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
    /// What is known of `register` after `action`.
    fn set(&mut self, register: Register, known: Known, action: Action) -> Action {
        match register {
            Register::A => self.a = known,
            Register::X => self.x = known,
        }
        action
    }

    /// The length to check for, unless the packet is known to be as long.
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

/// The outcome if it is the same for every value under `mask`.
fn decided(cond: Cond, mask: u32, right: u32) -> Option<bool> {
    match cond {
        Cond::Equal if right & !mask != 0 => Some(false),
        Cond::Set if right & mask == 0 => Some(false),
        Cond::Greater if right >= mask => Some(false),
        Cond::GreaterEqual if right > mask => Some(false),
        Cond::GreaterEqual if right == 0 => Some(true),
        _ => None,
    }
}

/// The end of a load; `None` beyond the length of any packet.
fn end(offset: u32, width: Width) -> Option<i32> {
    i32::try_from(offset).ok()?.checked_add(width.bytes() as i32)
}

pub(super) const fn full(width: Width) -> u32 {
    match width {
        Width::Byte => 0xff,
        Width::Half => 0xffff,
        Width::Word => u32::MAX,
    }
}

fn cell(k: u32) -> Option<u8> {
    u8::try_from(k).ok().filter(|cell| u32::from(*cell) < MEMORY_CELLS)
}

/// The second pass. Returns what is read before it was written.
fn drop_dead(nodes: &mut [Node]) -> u32 {
    let mut live = vec![0_u32; nodes.len()];
    for place in (0..nodes.len()).rev() {
        let after = |next: usize| live.get(next).copied().unwrap_or(0);
        let before = match nodes.get_mut(place) {
            None | Some(Node::Unreachable | Node::Return(_)) => 0,
            Some(Node::ReturnA) => A,
            Some(Node::Member { then, otherwise, .. }) => after(*then) | after(*otherwise),
            Some(Node::Test { subject, operand, then, otherwise, .. }) => {
                let mut reads = if *operand == Operand::X { X } else { 0 };
                match subject {
                    Subject::A => reads |= A,
                    Subject::AtX(..) => reads |= X,
                    Subject::Field(_) => {}
                }
                after(*then) | after(*otherwise) | reads
            }
            Some(Node::Step { action, next, .. }) => {
                let after = after(*next);
                match action {
                    None => after,
                    Some(own) => {
                        let (reads, writes) = own.effect();
                        if after & writes == 0 && !own.may_reject() {
                            *action = None;
                            after
                        } else {
                            after & !writes | reads
                        }
                    }
                }
            }
        };
        if let Some(live) = live.get_mut(place) {
            *live = before;
        }
        fuse_load(nodes, place, &live);
    }
    live.first().copied().unwrap_or(0)
}

/// A load at X whose only reader is the comparison after it becomes part of that.
fn fuse_load(nodes: &mut [Node], place: usize, live: &[u32]) {
    let Some(Node::Step { require: None, action: Some(Action::LoadAtX(width, offset)), next }) =
        nodes.get(place)
    else {
        return;
    };
    let Some(Node::Test { subject: Subject::A, cond, operand: Operand::K(k), then, otherwise }) =
        nodes.get(*next)
    else {
        return;
    };
    let dead = |next: &usize| live.get(*next).is_some_and(|live| live & A == 0);
    // A constant that the bytes cannot have has no place in their order.
    if dead(then) && dead(otherwise) && decided(*cond, full(*width), *k).is_none() {
        let subject = Subject::AtX(*width, *offset);
        let (cond, operand, then, otherwise) = (*cond, Operand::K(*k), *then, *otherwise);
        if let Some(node) = nodes.get_mut(place) {
            *node = Node::Test { subject, cond, operand, then, otherwise };
        }
    }
}

impl Action {
    /// What it reads and what it writes.
    fn effect(self) -> (u32, u32) {
        let bit = |register| match register {
            Register::A => A,
            Register::X => X,
        };
        match self {
            Self::Load(register, _) | Self::Constant(register, _) | Self::Beside(register, _) => {
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

    fn may_reject(self) -> bool {
        matches!(self, Self::LoadAtX(..) | Self::Alu(Alu::Div | Alu::Mod, Operand::X))
    }
}
