//! The third pass over the graph of a program: `host a or host b or …` becomes one test.

use super::graph::{ComparedValue, Node, ValueSet};
use crate::op::{Cond, Operand};

/// Makes edges skip empty nodes, joins chains into sets, and marks nodes without predecessors as
/// unreachable.
pub(super) fn join(nodes: &mut [Node]) {
    for place in (0..nodes.len()).rev() {
        let skipped = |next: usize| match nodes.get(next) {
            Some(Node::Step { require: None, action: None, next }) => *next,
            _ => next,
        };
        // Later nodes were processed before, so one step is enough.
        let Some(mut node) = nodes.get(place).cloned() else { continue };
        match &mut node {
            Node::Step { next, .. } => *next = skipped(*next),
            Node::Test { then, otherwise, .. } | Node::Member { then, otherwise, .. } => {
                (*then, *otherwise) = (skipped(*then), skipped(*otherwise));
            }
            Node::Unreachable | Node::Return(_) | Node::ReturnA => {}
        }
        if let Some(slot) = nodes.get_mut(place) {
            *slot = node;
        }
    }
    let ways = ways(nodes);
    let mut reached = vec![false; nodes.len()];
    if let Some(entry) = reached.first_mut() {
        *entry = true;
    }
    for place in 0..nodes.len() {
        if !reached.get(place).copied().unwrap_or(false) {
            if let Some(node) = nodes.get_mut(place) {
                *node = Node::Unreachable;
            }
            continue;
        }
        if let Some(member) = chain(nodes, place, &ways)
            && let Some(node) = nodes.get_mut(place)
        {
            *node = member;
        }
        for next in nodes.get(place).into_iter().flat_map(Node::successors) {
            if let Some(reached) = reached.get_mut(next) {
                *reached = true;
            }
        }
    }
}

/// For each node, the number of edges from reachable nodes.
fn ways(nodes: &[Node]) -> Vec<u32> {
    let mut ways = vec![0_u32; nodes.len()];
    if let Some(entry) = ways.first_mut() {
        *entry = 1;
    }
    for (place, node) in nodes.iter().enumerate() {
        if ways.get(place).is_some_and(|ways| *ways > 0) {
            for next in node.successors() {
                if let Some(ways) = ways.get_mut(next) {
                    *ways += 1;
                }
            }
        }
    }
    ways
}

/// Fewer values are compared one after the other.
const FEWEST: usize = 3;

/// The membership test that replaces the comparisons from `place` on, if there are enough. Only
/// `place` may have other predecessors, so that every value is in at most one set.
fn chain(nodes: &[Node], place: usize, ways: &[u32]) -> Option<Node> {
    let equality = |place: usize| match nodes.get(place)? {
        Node::Test {
            subject: ComparedValue::Field(field),
            cond: Cond::Equal,
            operand: Operand::K(value),
            then,
            otherwise,
        } => Some((*field, *value, *then, *otherwise)),
        _ => None,
    };
    let (field, value, target, mut last) = equality(place)?;
    let mut sets = vec![ValueSet { field, values: vec![value] }];
    while let Some((field, value, then, otherwise)) = equality(last) {
        if then != target || ways.get(last) != Some(&1) {
            break;
        }
        match sets.iter_mut().find(|set| set.field == field) {
            Some(set) => set.values.push(value),
            None => sets.push(ValueSet { field, values: vec![value] }),
        }
        last = otherwise;
    }
    let values: usize = sets.iter().map(|set| set.values.len()).sum();
    (values >= FEWEST).then_some(Node::Member { sets, then: target, otherwise: last })
}
