//! Follows all paths through a program: the knowledge at each instruction, and its condition on an
//! extent.

use std::collections::HashMap;

use wirelane_filter::op::{Op, Operand};

use super::condition::{Conditions, ExtentCondition};
use super::state::{BranchResult, PathState};
use crate::key::Term;

/// The approximate number of states in the whole program: longer programs have fewer per
/// instruction.
const STATES: usize = 1 << 12;
/// The fewest and the most states of one instruction. Beyond this, addresses and ports are
/// forgotten.
const AT_ONE: (usize, usize) = (6, 64);
/// Further states without addresses and ports. Beyond this, all knowledge is forgotten.
const KINDS: usize = 8;

/// The condition that an extent satisfies if it has a packet that the program accepts.
pub(super) fn walk(ops: &[Op], entry: &PathState, conditions: &mut Conditions) -> ExtentCondition {
    let ways = forward(ops, entry);
    backward(ops, &ways, conditions)
}

/// A path to a state of another instruction, with its keys.
struct StatePath {
    terms: Vec<Term>,
    to: (usize, usize),
}

/// For each instruction and each of its states, the paths on.
type Ways = Vec<Vec<Vec<StatePath>>>;

/// Jumps only go forward, so one pass visits all predecessors of an instruction before it.
fn forward(ops: &[Op], entry: &PathState) -> Ways {
    let live = live(ops);
    let most = (STATES / ops.len().max(1)).clamp(AT_ONE.0, AT_ONE.1);
    let mut arrivals =
        InstructionStates { at: ops.iter().map(|_| InstructionState::default()).collect(), most };
    let unknown = entry.clone();
    let enter = |at: usize, state: PathState, arrivals: &mut InstructionStates| -> (usize, usize) {
        let (a, x) = live.get(at).copied().unwrap_or_default();
        (at, arrivals.enter(at, state.with_registers(a, x), &unknown))
    };
    enter(0, entry.clone(), &mut arrivals);
    let mut ways = Ways::new();
    for (at, op) in ops.iter().enumerate() {
        let states = std::mem::take(&mut arrivals.at[at].states);
        let mut from_here = Vec::with_capacity(states.len());
        for state in states {
            let mut on = Vec::new();
            match *op {
                Op::Return(_) | Op::ReturnA => {}
                Op::Jump(skip) => {
                    let to = enter(at + 1 + skip as usize, state, &mut arrivals);
                    on.push(StatePath { terms: Vec::new(), to });
                }
                Op::Branch { jt, jf, .. } if jt == jf => {
                    let to = enter(at + 1 + usize::from(jt), state, &mut arrivals);
                    on.push(StatePath { terms: Vec::new(), to });
                }
                Op::Branch { cond, operand, jt, jf } => {
                    for (holds, skip) in [(true, jt), (false, jf)] {
                        let outcome = state.compared(cond, operand, holds);
                        if let BranchResult::Possible(state, terms) = outcome {
                            let to = enter(at + 1 + usize::from(skip), state, &mut arrivals);
                            on.push(StatePath { terms, to });
                        }
                    }
                }
                other => {
                    let to = enter(at + 1, state.after(other), &mut arrivals);
                    on.push(StatePath { terms: Vec::new(), to });
                }
            }
            from_here.push(on);
        }
        ways.push(from_here);
    }
    ways
}

/// One pass backwards visits all successors of an instruction before it.
fn backward(ops: &[Op], ways: &Ways, conditions: &mut Conditions) -> ExtentCondition {
    let mut asked: Vec<Vec<ExtentCondition>> = vec![Vec::new(); ops.len()];
    for (at, op) in ops.iter().enumerate().rev() {
        asked[at] = (ways[at].iter())
            .map(|on| match op {
                Op::Return(0) => ExtentCondition::NONE,
                Op::Return(_) | Op::ReturnA => ExtentCondition::ALL,
                _ => on.iter().fold(ExtentCondition::NONE, |either, way| {
                    let behind = asked[way.to.0][way.to.1];
                    let this = way.terms.iter().fold(behind, |behind, term| {
                        let term = conditions.term(*term);
                        conditions.both(term, behind)
                    });
                    conditions.either(either, this)
                }),
            })
            .collect();
    }
    asked.first().and_then(|entry| entry.first()).copied().unwrap_or(ExtentCondition::ALL)
}

/// The states of an instruction.
#[derive(Default)]
struct InstructionState {
    states: Vec<PathState>,
    places: HashMap<PathState, usize>,
}

struct InstructionStates {
    at: Vec<InstructionState>,
    /// The most states of one instruction before some are forgotten.
    most: usize,
}

impl InstructionStates {
    /// The position of the state, or of a weaker one, among the states of the instruction.
    fn enter(&mut self, at: usize, state: PathState, unknown: &PathState) -> usize {
        let arrival = &mut self.at[at];
        let mut state = state;
        for (limit, next) in [
            (self.most, Some(PathState::without_addresses as fn(PathState) -> PathState)),
            (self.most + KINDS, None),
        ] {
            if let Some(place) = arrival.places.get(&state) {
                return *place;
            }
            if arrival.states.len() < limit {
                break;
            }
            state = next.map_or_else(|| unknown.clone(), |less| less(state));
        }
        if let Some(place) = arrival.places.get(&state) {
            return *place;
        }
        let place = arrival.states.len();
        arrival.places.insert(state.clone(), place);
        arrival.states.push(state);
        place
    }
}

/// Before each instruction: whether A and X are read before they are set.
fn live(ops: &[Op]) -> Vec<(bool, bool)> {
    let mut live = vec![(false, false); ops.len()];
    for (at, op) in ops.iter().enumerate().rev() {
        let before = |skip: usize| live.get(at + 1 + skip).copied().unwrap_or_default();
        let (a, x) = before(0);
        live[at] = match *op {
            Op::Return(_) => (false, false),
            Op::ReturnA => (true, false),
            Op::LoadIndirect(..) => (false, true),
            Op::LoadAbsolute(..)
            | Op::LoadAncillary(_)
            | Op::LoadImmediate(_)
            | Op::LoadMemory(_)
            | Op::LoadLength => (false, x),
            Op::LoadXImmediate(_) | Op::LoadXMemory(_) | Op::LoadXLength | Op::LoadXHeader(_) => {
                (a, false)
            }
            Op::Store(_) => (true, x),
            Op::StoreX(_) => (a, true),
            Op::Alu(_, operand) => (true, x || operand == Operand::X),
            Op::Negate => (true, x),
            Op::Tax => (true, false),
            Op::Txa => (false, true),
            Op::Jump(skip) => before(skip as usize),
            Op::Branch { operand, jt, jf, .. } => {
                let (one, two) = (before(jt.into()), before(jf.into()));
                (true, one.1 || two.1 || operand == Operand::X)
            }
        };
    }
    live
}
