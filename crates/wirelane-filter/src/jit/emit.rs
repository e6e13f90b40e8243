//! Generates machine code from a program's graph: the parts that are common to all processors.
//!
//! The code has two entries. One loops over an array of records and writes a verdict for each; the
//! other takes the [`Context`] of a single packet. Both follow the C calling convention.
//!
//! The body exists twice: without length checks at fixed offsets, for packets that are long enough
//! for all of those loads, and with checks, for shorter packets. All other loads check the length.

use std::mem::offset_of;

use super::code::{CodeLabel, JitCode};
use super::flow::{self, Graph};
use super::graph::{
    self, ComparedValue, Node, NodeAction, PacketField, PacketInfo, Register, ValueSet,
};
use super::layout::{Context, Layout};
use crate::op::{Cond, Op, Operand, Width};

/// Machine code and its entries.
pub(super) struct Emitted {
    pub(super) bytes: Vec<u8>,
    /// Number of those bytes that are instructions; the rest are constants.
    pub(super) instructions: usize,
    /// Offset of the entry for a single packet; the entry for records is at 0.
    pub(super) single: usize,
    /// Whether the entry for records exists: records have no ancillary data such as the queue.
    pub(super) takes_records: bool,
}

/// Operations of a processor, in terms of the graph.
///
/// The machine chooses registers for A and X, the packet and its length, the address of the next
/// verdict, and the rest of the array of records.
pub(super) trait Processor: Default {
    /// The result of a comparison, for a conditional jump.
    type Condition: Copy;

    /// The code so far.
    fn code(&mut self) -> &mut JitCode;

    /// `fn(records, verdicts, end of records)` begins.
    fn records_entry(&mut self);

    /// The next record of the array becomes the packet; `has_length`: the program reads its length
    /// on the wire.
    fn next_record(&mut self, layout: Layout, has_length: bool);

    /// `fn(context, verdict)` begins, which handles one packet; `has_info`: the program reads the
    /// other fields of the context.
    fn single_entry(&mut self, has_info: bool);

    /// The function ends.
    fn leave(&mut self);

    /// Sets A or X to 0.
    fn clear(&mut self, register: Register);

    /// Sets a cell of the scratch memory to 0.
    fn clear_cell(&mut self, slot: u8);

    /// Jumps to `shorter` if the packet has fewer than `len` bytes.
    fn require(&mut self, len: u32, shorter: CodeLabel);

    /// Performs the action, or jumps to `reject`.
    fn action(&mut self, action: NodeAction, reject: CodeLabel);

    /// Compares, and returns the condition under which the comparison holds; or jumps to `reject`.
    fn compare(
        &mut self,
        subject: ComparedValue,
        cond: Cond,
        operand: Operand,
        reject: CodeLabel,
    ) -> Self::Condition;

    /// Jumps to `found` if the field has one of the values, which are in the byte order of the
    /// packet. Compares them one by one.
    fn member_of_few(&mut self, field: PacketField, values: &[u32], found: CodeLabel);

    /// The same, for four values at a time and without branches that could be mispredicted.
    fn member_of_many(&mut self, field: PacketField, values: &[[u32; 4]], found: CodeLabel);

    /// Writes the verdict, A or a value, and jumps to `next` while records are left.
    fn verdict(&mut self, verdict: AcceptedBytes, next: CodeLabel);

    fn jump(&mut self, label: CodeLabel);

    fn jump_if(&mut self, condition: Self::Condition, label: CodeLabel);

    fn jump_unless(&mut self, condition: Self::Condition, label: CodeLabel);

    /// The code with every distance filled in; `None` if a distance is too long.
    fn finish(self) -> Option<Vec<u8>>;
}

/// The number of accepted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedBytes {
    A,
    Value(u32),
}

/// One check covers all loads that a packet of this length satisfies: the shortest Ethernet packet.
const SHORT: i32 = 60;
/// Smaller sets are compared one value after the other.
const FEW: usize = 5;

/// Machine code for a checked program; `None` if it reads unsupported data.
pub(super) fn emit<M: Processor>(program: &[Op], layout: Option<Layout>) -> Option<Emitted> {
    let mut emitter = JitEmitter::<M>::new();
    let has_ancillary = program.iter().any(|op| matches!(op, Op::LoadAncillary(_)));
    let layout = layout.filter(|_| !has_ancillary);
    let has_length = program.iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
    let body = emitter.label();
    emitter.machine.records_entry();
    emitter.bind(emitter.next);
    if let Some(layout) = layout {
        emitter.machine.next_record(layout, has_length);
    } else {
        // A program that needs more than a record contains runs only on single packets.
        emitter.machine.leave();
    }
    emitter.bind(body);
    let reach = flow::reach(program, SHORT);
    let slow = emitter.label();
    if reach > 0 {
        emitter.machine.require(reach as u32, slow);
        emitter.graph(&Graph::new(program, reach)?);
    }
    emitter.bind(slow);
    emitter.graph(&Graph::new(program, 0)?);
    emitter.bind(emitter.reject);
    emitter.machine.verdict(AcceptedBytes::Value(0), emitter.next);
    let single = emitter.machine.code().len();
    emitter.machine.single_entry(has_ancillary || has_length);
    emitter.machine.jump(body);
    let instructions = emitter.machine.code().len();
    Some(Emitted {
        bytes: emitter.machine.finish()?,
        instructions,
        single,
        takes_records: layout.is_some(),
    })
}

struct JitEmitter<M> {
    machine: M,
    /// The next packet of the array.
    next: CodeLabel,
    /// The verdict for a packet that is too short.
    reject: CodeLabel,
}

impl<M: Processor> JitEmitter<M> {
    fn new() -> Self {
        let mut machine = M::default();
        let (next, reject) = (machine.code().label(), machine.code().label());
        Self { machine, next, reject }
    }

    fn label(&mut self) -> CodeLabel {
        self.machine.code().label()
    }

    fn bind(&mut self, label: CodeLabel) {
        self.machine.code().bind(label);
    }

    /// Emits the body for packets of the graph's length.
    fn graph(&mut self, graph: &Graph) {
        for (bit, register) in [(graph::A, Register::A), (graph::X, Register::X)] {
            if graph.cleared & bit != 0 {
                self.machine.clear(register);
            }
        }
        for slot in (0..16).filter(|slot| graph.cleared & 1 << slot != 0) {
            self.machine.clear_cell(slot);
        }
        let labels: Vec<_> = graph.nodes.iter().map(|_| self.label()).collect();
        let mut places = (graph.nodes.iter().enumerate())
            .filter(|(_, node)| !matches!(node, Node::Unreachable))
            .peekable();
        while let Some((place, node)) = places.next() {
            let after = places.peek().map_or(usize::MAX, |(place, _)| *place);
            if let Some(label) = labels.get(place) {
                self.bind(*label);
            }
            self.node(node, &Targets { labels: &labels, after });
        }
    }

    fn node(&mut self, node: &Node, targets: &Targets<'_>) {
        match node {
            Node::Unreachable => {}
            Node::Step { require, action, next } => {
                if let Some(len) = require {
                    self.machine.require(*len as u32, self.reject);
                }
                if let Some(action) = action {
                    self.machine.action(*action, self.reject);
                }
                self.jump(*next, targets);
            }
            Node::Test { subject, cond, operand, then, otherwise } => {
                let condition = self.machine.compare(*subject, *cond, *operand, self.reject);
                self.branch(condition, *then, *otherwise, targets);
            }
            Node::Member { sets, then, otherwise } => {
                sets.iter().for_each(|set| self.member(set, targets.label(*then, self.reject)));
                self.jump(*otherwise, targets);
            }
            Node::Return(value) => self.machine.verdict(AcceptedBytes::Value(*value), self.next),
            Node::ReturnA => self.machine.verdict(AcceptedBytes::A, self.next),
        }
    }

    /// Jumps to `found` if the field has one of the values.
    fn member(&mut self, ValueSet { field, values }: &ValueSet, found: CodeLabel) {
        let mut values: Vec<_> =
            values.iter().map(|value| in_packet(field.width, *value)).collect();
        values.sort_unstable();
        values.dedup();
        if values.len() < FEW {
            self.machine.member_of_few(*field, &values, found);
            return;
        }
        let fours = values.chunks(4).map(|chunk| {
            let last = chunk.last().copied().unwrap_or_default();
            std::array::from_fn(|lane| chunk.get(lane).copied().unwrap_or(last))
        });
        self.machine.member_of_many(*field, &fours.collect::<Vec<_>>(), found);
    }

    fn jump(&mut self, next: usize, targets: &Targets<'_>) {
        if next != targets.after {
            self.machine.jump(targets.label(next, self.reject));
        }
    }

    fn branch(
        &mut self,
        condition: M::Condition,
        then: usize,
        otherwise: usize,
        targets: &Targets<'_>,
    ) {
        if then == targets.after {
            self.machine.jump_unless(condition, targets.label(otherwise, self.reject));
        } else {
            self.machine.jump_if(condition, targets.label(then, self.reject));
            self.jump(otherwise, targets);
        }
    }
}

/// The labels of the nodes of a graph, and the node that follows in the code.
struct Targets<'a> {
    labels: &'a [CodeLabel],
    after: usize,
}

impl Targets<'_> {
    /// The label of a node; every edge leads to one.
    fn label(&self, place: usize, otherwise: CodeLabel) -> CodeLabel {
        self.labels.get(place).copied().unwrap_or(otherwise)
    }
}

/// Converts a number to the byte order in which the processor loads the packet.
pub(super) fn in_packet(width: Width, value: u32) -> u32 {
    match width {
        Width::Byte => value & 0xff,
        Width::Half => u32::from((value as u16).swap_bytes()),
        Width::Word => value.swap_bytes(),
    }
}

/// Offsets of the packet's metadata in a [`Context`].
pub(super) const INFO: [(PacketInfo, usize); 4] = [
    (PacketInfo::Length, offset_of!(Context, wire_len)),
    (PacketInfo::Queue, offset_of!(Context, queue)),
    (PacketInfo::PacketType, offset_of!(Context, packet_type)),
    (PacketInfo::InterfaceIndex, offset_of!(Context, interface_index)),
];

/// Bytes of memory that a call needs: the scratch memory, then the metadata of the packet.
pub(super) const CALL: u32 = 80;

/// The offset of a cell in the memory of a call.
pub(super) fn cell(slot: u8) -> u8 {
    4 * slot
}

/// The offset of metadata in the memory of a call.
pub(super) fn info(what: PacketInfo) -> u8 {
    let slot = match what {
        PacketInfo::Length => 0,
        PacketInfo::Queue => 1,
        PacketInfo::PacketType => 2,
        PacketInfo::InterfaceIndex => 3,
    };
    64 + 4 * slot
}
