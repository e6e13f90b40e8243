//! The second pass over the graph of a program: removes dead code.

use super::graph::{A, ComparedValue, Node, NodeAction, X, decided, full};
use crate::op::Operand;

/// Drops loads and arithmetic whose result is never read. Returns the registers and cells that are
/// read before they are written.
pub(super) fn drop(nodes: &mut [Node]) -> u32 {
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
                    ComparedValue::A => reads |= A,
                    ComparedValue::AtX(..) => reads |= X,
                    ComparedValue::Field(_) => {}
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

/// Merges a load at X into the comparison after it, if no other node reads the loaded value.
fn fuse_load(nodes: &mut [Node], place: usize, live: &[u32]) {
    let Some(Node::Step { require: None, action: Some(NodeAction::LoadAtX(width, offset)), next }) =
        nodes.get(place)
    else {
        return;
    };
    let Some(Node::Test {
        subject: ComparedValue::A,
        cond,
        operand: Operand::K(k),
        then,
        otherwise,
    }) = nodes.get(*next)
    else {
        return;
    };
    let dead = |next: &usize| live.get(*next).is_some_and(|live| live & A == 0);
    // A constant outside the range of the bytes cannot be converted to their order.
    if dead(then) && dead(otherwise) && decided(*cond, full(*width), *k).is_none() {
        let subject = ComparedValue::AtX(*width, *offset);
        let (cond, operand, then, otherwise) = (*cond, Operand::K(*k), *then, *otherwise);
        if let Some(node) = nodes.get_mut(place) {
            *node = Node::Test { subject, cond, operand, then, otherwise };
        }
    }
}
