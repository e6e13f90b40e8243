//! Compares machine code with the interpreter: every instruction alone, chains, and random
//! programs.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code, reason = "records are described by pointers")]

use super::graph::Node;
use super::{Jit, Layout, aarch64, emit, flow, x86_64};
use crate::op::{Alu, Ancillary, Cond, Op, Operand, Width};
use crate::{ErrorKind, Interpreter, Metadata, Packet, Program};

const WIDTHS: [Width; 3] = [Width::Byte, Width::Half, Width::Word];
const ALUS: [Alu; 10] = [
    Alu::Add,
    Alu::Sub,
    Alu::Mul,
    Alu::Div,
    Alu::Mod,
    Alu::And,
    Alu::Or,
    Alu::Xor,
    Alu::Shl,
    Alu::Shr,
];
const CONDS: [Cond; 4] = [Cond::Equal, Cond::Greater, Cond::GreaterEqual, Cond::Set];
const NUMBERS: [u32; 14] =
    [0, 1, 2, 7, 31, 32, 33, 127, 128, 0xff, 0x8000, 0x7fff_ffff, 0x8000_0000, u32::MAX];

fn program(ops: &[Op]) -> Program {
    Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap()
}

/// The remaining nodes for packets that are long enough.
fn nodes(ops: &[Op]) -> Vec<Node> {
    let graph = flow::Graph::new(program(ops).ops(), flow::reach(ops, 60)).unwrap();
    graph.nodes.into_iter().filter(|node| *node != Node::Unreachable).collect()
}

#[test]
fn what_is_known_is_not_done_again() {
    use super::graph::ComparedValue;
    // `host a or host b or …`: one membership test, without loads or checks.
    let ops = chain(&[(Width::Word, 26), (Width::Word, 30)], &[1, 2, 3], None);
    let [Node::Step { require: None, action: None, .. }, Node::Member { sets, .. }, ..] =
        &nodes(&ops)[..]
    else {
        panic!("{:?}", nodes(&ops));
    };
    assert!(sets.iter().all(|set| set.values == [1, 2, 3]) && sets.len() == 2, "{sets:?}");
    // A load at X is merged into the comparison; an impossible comparison is removed.
    let equal = |k, jt, jf| Op::Branch { cond: Cond::Equal, operand: Operand::K(k), jt, jf };
    let ops = [
        Op::LoadXHeader(14),
        Op::LoadIndirect(Width::Half, 16),
        equal(443, 0, 2),
        Op::LoadAbsolute(Width::Byte, 9),
        equal(256, 0, 1),
        Op::Return(0),
        Op::Return(1),
    ];
    let nodes = nodes(&ops);
    assert!(matches!(nodes[0], Node::Step { require: None, next: 1, .. }));
    let subject = ComparedValue::AtX(Width::Half, 16);
    let (cond, operand) = (Cond::Equal, Operand::K(443));
    assert_eq!(nodes[1], Node::Test { subject, cond, operand, then: 6, otherwise: 5 });
    assert_eq!(nodes[2..], [Node::Return(0), Node::Return(1)]);
}

/// Machine code and interpreter must agree on every packet.
fn check<'a>(ops: &[Op], packets: impl IntoIterator<Item = &'a [u8]>) {
    let program = program(ops);
    let (jit, interpreter) = (Jit::new(&program).unwrap(), Interpreter::new(&program).unwrap());
    for (number, data) in packets.into_iter().enumerate() {
        let metadata =
            Metadata { queue: 3 + number as u32, packet_type: 4, interface_index: 0x0102_0304 };
        let packet = Packet { data, wire_len: data.len() as u32 + 5, metadata };
        assert_eq!(jit.run(&packet), interpreter.run(&packet), "{data:x?}\n{program}");
    }
}

/// Packets of all lengths around the relevant ones, each in a separate allocation, so that a read
/// beyond the end is outside the allocation.
fn packets() -> Vec<Box<[u8]>> {
    let lengths = (0..=20).chain([33, 34, 38, 59, 60, 61, 64, 1514]);
    lengths.map(|len| (0..len).map(|at| (at * 37 + 5) as u8).collect()).collect()
}

fn on_all(ops: &[Op]) {
    let packets = packets();
    check(ops, packets.iter().map(|packet| &packet[..]));
}

#[test]
fn loads_of_the_packet() {
    for width in WIDTHS {
        for k in [0, 1, 12, 13, 56, 57, 58, 59, 60, 1510, 1513, i32::MAX as u32 - 3, 0xffff_efff] {
            on_all(&[Op::LoadAbsolute(width, k), Op::ReturnA]);
            for x in [0, 1, 13, 40, 1500, 0x7fff_ffff, u32::MAX] {
                on_all(&[Op::LoadXImmediate(x), Op::LoadIndirect(width, k), Op::ReturnA]);
                on_all(&[
                    Op::LoadImmediate(x),
                    Op::Tax,
                    Op::LoadImmediate(1),
                    Op::LoadIndirect(width, k),
                    Op::ReturnA,
                ]);
            }
        }
    }
    for k in [0, 14, 59, 60, 1513, u32::MAX] {
        on_all(&[Op::LoadXHeader(k), Op::Txa, Op::ReturnA]);
    }
}

#[test]
fn what_is_known_beside_the_packet() {
    for field in [
        Ancillary::Protocol,
        Ancillary::Queue,
        Ancillary::PacketType,
        Ancillary::InterfaceIndex,
        Ancillary::VlanTci,
        Ancillary::VlanPresent,
        Ancillary::VlanTpid,
    ] {
        on_all(&[Op::LoadAncillary(field), Op::ReturnA]);
        on_all(&[
            Op::LoadAncillary(field),
            Op::LoadXLength,
            Op::Alu(Alu::Add, Operand::X),
            Op::ReturnA,
        ]);
    }
    let protocol = |tail| {
        check(
            &[Op::LoadAncillary(Ancillary::Protocol), Op::ReturnA],
            [[&[0; 12][..], tail].concat().as_slice()],
        )
    };
    for tail in [&[5, 0xff, 0, 0][..], &[6, 0, 0, 0], &[5, 0xff, 0xff, 0xff], &[1, 2, 0xff]] {
        protocol(tail);
    }
    on_all(&[Op::LoadLength, Op::ReturnA]);
    on_all(&[Op::LoadXLength, Op::Txa, Op::ReturnA]);
}

#[test]
fn scratch_memory_and_transfers() {
    for cell in 0..16 {
        on_all(&[
            Op::LoadImmediate(70 + cell),
            Op::LoadXImmediate(90),
            Op::Store(cell),
            Op::StoreX(15 - cell),
            Op::LoadXMemory(cell),
            Op::LoadMemory(15 - cell),
            Op::Alu(Alu::Shl, Operand::K(8)),
            Op::Alu(Alu::Or, Operand::X),
            Op::ReturnA,
        ]);
    }
    on_all(&[Op::ReturnA]);
    on_all(&[Op::Txa, Op::ReturnA]);
    on_all(&[Op::LoadLength, Op::Tax, Op::LoadImmediate(0), Op::Txa, Op::ReturnA]);
}

#[test]
fn arithmetic() {
    // Loaded values are unknown when the code is made.
    let load = [Op::LoadAbsolute(Width::Word, 0), Op::LoadXMemory(0)];
    for a in NUMBERS {
        let packet = a.to_be_bytes();
        for b in NUMBERS {
            let x = [Op::LoadImmediate(b), Op::Store(0), load[1], load[0]];
            for alu in ALUS {
                let by_x = Op::Alu(alu, Operand::X);
                check(&[&x[..], &[by_x, Op::ReturnA]].concat(), [&packet[..]]);
                let known = [Op::LoadXImmediate(b), load[0], by_x, Op::ReturnA];
                check(&known, [&packet[..]]);
                let allowed = match alu {
                    Alu::Shl | Alu::Shr => b < 32,
                    Alu::Div | Alu::Mod => b > 0,
                    _ => true,
                };
                if allowed {
                    check(&[load[0], Op::Alu(alu, Operand::K(b)), Op::ReturnA], [&packet[..]]);
                }
            }
        }
        check(&[load[0], Op::Negate, Op::ReturnA], [&packet[..]]);
    }
}

#[test]
fn comparisons() {
    for width in WIDTHS {
        for a in NUMBERS {
            let packet = [a.to_be_bytes(), a.to_le_bytes()].concat();
            for (b, cond) in NUMBERS.iter().flat_map(|b| CONDS.map(|cond| (*b, cond))) {
                let branch = |operand| Op::Branch { cond, operand, jt: 0, jf: 1 };
                let ends = [Op::Return(1), Op::Return(2)];
                let load = Op::LoadAbsolute(width, 2);
                let by_k = branch(Operand::K(b));
                let mut programs = vec![
                    vec![load, by_k],
                    // A is needed later, or unknown.
                    vec![load, Op::Alu(Alu::And, Operand::K(0xf0f)), by_k],
                    vec![load, Op::Alu(Alu::Add, Operand::K(1)), by_k],
                    vec![Op::LoadXImmediate(2), Op::LoadIndirect(width, 0), by_k],
                    vec![Op::LoadImmediate(b), Op::Store(1), Op::LoadXMemory(1), load],
                    vec![Op::LoadImmediate(a), by_k],
                ];
                programs[4].push(branch(Operand::X));
                for mut ops in programs {
                    let by_a = [&ops[..], &[Op::ReturnA, Op::Return(2)]].concat();
                    check(&by_a, [&packet[..]]);
                    ops.extend(ends);
                    check(&ops, [&packet[..], &packet[..3]]);
                }
            }
        }
    }
}

/// `field = one of values`, one comparison each, alternating between fields.
fn chain(fields: &[(Width, u32)], values: &[u32], mask: Option<u32>) -> Vec<Op> {
    let mut ops = Vec::new();
    let each = if mask.is_some() { 3 } else { 2 };
    let count = fields.len() * values.len();
    for (number, value) in values.iter().enumerate() {
        for (turn, (width, k)) in fields.iter().enumerate() {
            let left = count - (number * fields.len() + turn) - 1;
            ops.push(Op::LoadAbsolute(*width, *k));
            ops.extend(mask.map(|mask| Op::Alu(Alu::And, Operand::K(mask))));
            let (jt, operand) = ((left * each) as u8, Operand::K(*value));
            ops.push(Op::Branch { cond: Cond::Equal, operand, jt, jf: 0 });
        }
    }
    // The last comparison falls through to the rejection; the others jump over it.
    if let Some(Op::Branch { jf, .. }) = ops.last_mut() {
        *jf = 1;
    }
    ops.extend([Op::Return(5), Op::Return(0)]);
    ops
}

#[test]
fn chains_become_sets() {
    for count in [1_usize, 2, 3, 4, 5, 8, 9, 33] {
        for (fields, mask) in [
            (&[(Width::Word, 26)][..], None),
            (&[(Width::Word, 26), (Width::Word, 30)], None),
            (&[(Width::Half, 12)], None),
            (&[(Width::Byte, 9), (Width::Byte, 70)], None),
            (&[(Width::Word, 26)], Some(0xffff_ff00)),
            (&[(Width::Half, 12)], Some(0xf0)),
        ] {
            if count * fields.len() > 80 {
                continue;
            }
            let values: Vec<u32> = (0..count as u32).map(|n| (n * n * 16) ^ (n << 24)).collect();
            let ops = chain(fields, &values, mask);
            for packet in packets() {
                let mut packet = packet.into_vec();
                check(&ops, [&packet[..]]);
                for value in values.iter().chain([&1, &0x1234_5678]) {
                    for (width, k) in fields {
                        let bytes = &value.to_be_bytes()[4 - width.bytes() as usize..];
                        let k = *k as usize;
                        if let Some(place) = packet.get_mut(k..k + bytes.len()) {
                            place.copy_from_slice(bytes);
                            check(&ops, [&packet[..]]);
                            packet[k] ^= 0x40;
                        }
                    }
                }
            }
        }
    }
}

/// A caller's record, with fields in another order.
#[repr(C)]
struct Record {
    original_length: u32,
    color: u64,
    length: u32,
    data: *const u8,
}

const LAYOUT: Layout = Layout {
    data: std::mem::offset_of!(Record, data) as u16,
    length: std::mem::offset_of!(Record, length) as u16,
    original_length: std::mem::offset_of!(Record, original_length) as u16,
};

#[test]
fn records_get_their_verdicts() {
    let data: Vec<[u8; 2]> = (0..64).map(|number| [0, number]).collect();
    let records: Vec<_> = (0u32..)
        .zip(&data)
        .map(|(number, data)| Record {
            original_length: number,
            color: u64::MAX,
            length: 1 + u32::from(number > 3),
            data: data.as_ptr(),
        })
        .collect();
    let records: Vec<*const Record> = records.iter().map(|record| &raw const *record).collect();
    let odd = Op::Branch { cond: Cond::Set, operand: Operand::K(1), jt: 0, jf: 1 };
    for load in [Op::LoadAbsolute(Width::Byte, 1), Op::LoadLength] {
        let program = program(&[load, odd, Op::ReturnA, Op::Return(0)]);
        let jit = Jit::for_records(&program, LAYOUT).unwrap();
        for count in [0, 1, 5, 63, 64] {
            let mut verdicts = [77; 65];
            // SAFETY: the records and their bytes outlive the call.
            assert!(unsafe { jit.run_records(&records[..count], &mut verdicts) }.is_some());
            for (number, verdict) in (0u32..).zip(verdicts) {
                let is_there = number > 3 || load == Op::LoadLength;
                let expected = if is_there && number % 2 == 1 { number } else { 0 };
                let expected = if (number as usize) < count { expected } else { 77 };
                assert_eq!(verdict, expected, "{load:?}, record {number} of {count}");
            }
            // SAFETY: as above.
            assert_eq!(unsafe { jit.run_records(&records, &mut verdicts[..0]) }, Some(()));
        }
    }
    let queue = program(&[Op::LoadAncillary(Ancillary::Queue), Op::ReturnA]);
    let none: [*const Record; 0] = [];
    for jit in [Jit::for_records(&queue, LAYOUT), Jit::new(&program(&[Op::Return(1)]))] {
        // SAFETY: there are no records.
        assert_eq!(unsafe { jit.unwrap().run_records(&none, &mut []) }, None);
    }
}

/// A small random number generator with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as u32
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    fn number(&mut self) -> u32 {
        match self.below(4) {
            0 => self.next(),
            1 => NUMBERS[self.below(NUMBERS.len())],
            _ => self.next() % 70,
        }
    }

    fn operand(&mut self) -> Operand {
        if self.below(3) == 0 { Operand::X } else { Operand::K(self.number()) }
    }

    fn op(&mut self, after: usize) -> Op {
        let width = WIDTHS[self.below(3)];
        let cell = self.next() % 16;
        match self.below(24) {
            0..4 => Op::LoadAbsolute(width, self.next() % 70),
            4 => Op::LoadIndirect(width, self.number()),
            5 => Op::LoadXHeader(self.next() % 40),
            6 => Op::LoadImmediate(self.number()),
            7 => Op::LoadXImmediate(self.number()),
            8 => Op::LoadMemory(cell),
            9 => Op::LoadXMemory(cell),
            10 => Op::Store(cell),
            11 => Op::StoreX(cell),
            12 => [Op::LoadLength, Op::LoadXLength, Op::LoadAncillary(Ancillary::Queue)]
                [self.below(3)],
            13 => [Op::Tax, Op::Txa, Op::Negate][self.below(3)],
            14..17 => match (ALUS[self.below(ALUS.len())], self.operand()) {
                (alu @ (Alu::Shl | Alu::Shr), Operand::K(k)) => Op::Alu(alu, Operand::K(k % 32)),
                (alu @ (Alu::Div | Alu::Mod), Operand::K(k)) => Op::Alu(alu, Operand::K(k.max(1))),
                (alu, operand) => Op::Alu(alu, operand),
            },
            17 => Op::Jump((self.below(after)).min(3) as u32),
            18 => [Op::ReturnA, Op::Return(self.number())][self.below(2)],
            _ => Op::Branch {
                cond: CONDS[if self.below(2) == 0 { 0 } else { self.below(4) }],
                operand: self.operand(),
                jt: self.below(after.min(12)) as u8,
                jf: self.below(after.min(12)) as u8,
            },
        }
    }
}

#[test]
fn random_programs() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..4_000 {
        let count = 1 + random.below(40);
        // Writes scratch memory first, as the kernel's rules require.
        let mut ops: Vec<_> = (0..16).map(Op::Store).collect();
        if random.below(3) > 0 {
            ops.clear();
        }
        let has_cells = !ops.is_empty();
        for number in 0..count {
            ops.push(loop {
                let op = random.op(count - number);
                let needs = matches!(op, Op::LoadMemory(_) | Op::LoadXMemory(_));
                if has_cells || !needs {
                    break op;
                }
            });
        }
        ops.push(Op::ReturnA);
        let packets: Vec<Box<[u8]>> = (0..12)
            .map(|_| {
                let len = random.below(80);
                let small = random.below(2) == 0;
                (0..len).map(|_| (random.next() % if small { 3 } else { 256 }) as u8).collect()
            })
            .collect();
        check(&ops, packets.iter().map(|packet| &packet[..]));
    }
}

#[test]
fn the_longest_programs() {
    let jump = Op::Branch { cond: Cond::Greater, operand: Operand::X, jt: 255, jf: 0 };
    let mut ops = vec![Op::LoadLength];
    ops.extend([jump; 3839]);
    ops.extend([Op::Return(1); 256]);
    on_all(&ops);
    let mut ops = Vec::new();
    while ops.len() < 4094 {
        let operand = Operand::K(ops.len() as u32);
        ops.extend([
            Op::LoadIndirect(Width::Word, 7),
            Op::Branch { cond: Cond::Equal, operand, jt: 0, jf: 0 },
        ]);
    }
    ops.push(Op::ReturnA);
    on_all(&ops);
    // Jumps are short enough on every processor.
    assert!(emit::emit::<x86_64::X86_64>(&ops, None).is_some());
    assert!(emit::emit::<aarch64::Aarch64>(&ops, None).is_some());
}

#[test]
fn code_is_never_writable() {
    let mapped = |address: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.lines().any(|line| line.contains(" rwx")), "{maps}");
        let of = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (begin, end) = range.split_once('-')?;
            let begin = usize::from_str_radix(begin, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            (begin..end).contains(&address).then(|| rest[..4].to_owned())
        };
        maps.lines().find_map(of)
    };
    let jit = Jit::new(&program(&[Op::Return(1)])).unwrap();
    let address = jit.instructions().as_ptr().addr();
    assert_eq!(mapped(address).as_deref(), Some("r-xp"));
    assert!(jit.size() >= jit.instructions().len());
}

#[test]
fn what_only_the_kernel_knows_is_refused() {
    let program = program(&[Op::LoadAncillary(Ancillary::Random), Op::ReturnA]);
    assert_eq!(Jit::new(&program).unwrap_err().kind(), ErrorKind::Invalid);
}
