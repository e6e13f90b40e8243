//! The classic BPF programs that select packets in the kernel.
//!
//! Two fields classify a packet. `skb->pkt_type` is `PACKET_OUTGOING` for packets that the host
//! transmits (`dev_queue_xmit_nit` sets it on the copy for packet sockets), and another value for
//! received packets. `skb->queue_mapping` is the transmit queue of an outgoing packet
//! (`netdev_core_pick_tx`). For a received packet it is the value that the driver wrote, usually
//! through `skb_record_rx_queue`: see [`QueueMapping`].
//!
//! Two kinds of packets never reach these programs. `tpacket_rcv` drops a multicast that the host
//! sends and also receives itself (`dev_loopback_xmit`, type `PACKET_LOOPBACK`), so it is not seen
//! twice. The kernel shows no socket a packet sent past the queueing discipline
//! (`PACKET_QDISC_BYPASS`).

use wirelane_filter::MAX_INSTRUCTIONS;
use wirelane_os::packet::{PACKET_OUTGOING, SockFilter};

use crate::error::{Error, Result};
use crate::inspect::QueueMapping;
use crate::mask::{Class, QueueMask};

/// The packets that one ring takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::port) struct Selection {
    pub(in crate::port) class: Class,
    /// Ignored for [`Class::Other`].
    pub(in crate::port) queue: u16,
    pub(in crate::port) mapping: QueueMapping,
    /// Receive queues of the interface; a higher number is not a queue of this interface. Stacked
    /// devices (VLAN, bridge) pass on the numbers of the device below.
    pub(in crate::port) rx_queues: u16,
}

impl Selection {
    /// A program that accepts the first `snaplen` bytes of exactly these packets, or as much as
    /// `filter` ([`filter::Program::for_socket`]) accepts.
    ///
    /// [`filter::Program::for_socket`]: crate::filter::Program::for_socket
    pub(in crate::port) fn program(
        &self,
        snaplen: u32,
        filter: Option<&[SockFilter]>,
    ) -> Vec<SockFilter> {
        let outgoing = u32::from(PACKET_OUTGOING);
        let queue = u32::from(self.queue);
        let count = u32::from(self.rx_queues);
        let mut program = vec![load(libc_ad::PKTTYPE)];
        match (self.class, self.mapping) {
            (Class::Tx, _) => {
                program.extend([equal(outgoing, 0, 3), load(libc_ad::QUEUE), equal(queue, 0, 1)]);
            }
            (Class::Rx, mapping) => {
                let shift = u32::from(mapping == QueueMapping::Shifted);
                let value = queue + shift;
                program.extend([equal(outgoing, 3, 0), load(libc_ad::QUEUE), equal(value, 0, 1)]);
            }
            (Class::Other, QueueMapping::Shifted) => {
                program.extend([equal(outgoing, 4, 0), load(libc_ad::QUEUE)]);
                program.extend([equal(0, 1, 0), greater(count, 0, 1)]);
            }
            (Class::Other, QueueMapping::Unshifted) => {
                program.extend([equal(outgoing, 3, 0), load(libc_ad::QUEUE)]);
                program.push(greater(count.saturating_sub(1), 0, 1));
            }
        }
        match filter {
            None => program.extend([accept(snaplen.max(1)), REJECT]),
            Some(filter) => {
                // Replaces the accepting instruction: jumps over the rejection to the filter.
                program.extend([SockFilter { code: opcode::JUMP, jt: 0, jf: 0, k: 1 }, REJECT]);
                program.extend_from_slice(filter);
            }
        }
        program
    }
}

/// The packets of an interface for one ring that takes several queues and classes.
#[derive(Clone, Copy, Debug)]
pub(in crate::port) struct Lot {
    pub(in crate::port) mapping: QueueMapping,
    pub(in crate::port) rx_queues: u16,
    pub(in crate::port) tx_queues: u16,
}

impl Lot {
    /// A program like [`Selection::program`], for all packets that `takes` selects. Packets sent
    /// through a queue that the interface did not have at opening count as packets of its last
    /// queue.
    pub(in crate::port) fn program(
        &self,
        takes: impl Fn(Class, u16) -> bool,
        snaplen: u32,
        filter: Option<&[SockFilter]>,
    ) -> Vec<SockFilter> {
        let received = |value: u16| match (self.mapping, value.checked_sub(1)) {
            (QueueMapping::Shifted, Some(queue)) if queue < self.rx_queues => {
                takes(Class::Rx, queue)
            }
            (QueueMapping::Unshifted, _) if value < self.rx_queues => takes(Class::Rx, value),
            _ => takes(Class::Other, 0),
        };
        let sent = |value: u16| takes(Class::Tx, value.min(self.tx_queues.saturating_sub(1)));
        let mut received = pick(received, self.rx_queues.saturating_add(1));
        let mut sent = pick(sent, self.tx_queues);
        // Selected packets jump to the end of their part. For received packets, the jump also skips
        // the part for sent packets.
        let over = sent.len() as u32;
        let ends = |part: &[SockFilter], end: u32| {
            let len = part.len() as u32;
            let place = |(place, one): (u32, &SockFilter)| match one.code {
                opcode::JUMP => SockFilter { k: end + len - place - 1, ..*one },
                _ => *one,
            };
            (0..).zip(part).map(place).collect::<Vec<_>>()
        };
        (received, sent) = (ends(&received, over), ends(&sent, 0));
        let mut program = vec![load(libc_ad::PKTTYPE), equal(u32::from(PACKET_OUTGOING), 0, 1)];
        program.push(SockFilter { code: opcode::JUMP, jt: 0, jf: 0, k: received.len() as u32 });
        program.extend(received);
        program.extend(sent);
        match filter {
            None => program.push(accept(snaplen.max(1))),
            Some(filter) => program.extend_from_slice(filter),
        }
        program
    }
}

/// Jumps to the end for each queue number that `takes` selects, and rejects the others. All numbers
/// from `last` on are treated alike.
fn pick(takes: impl Fn(u16) -> bool, last: u16) -> Vec<SockFilter> {
    let end = SockFilter { code: opcode::JUMP, jt: 0, jf: 0, k: 0 };
    let mut part = vec![load(libc_ad::QUEUE)];
    let mut number = 0;
    while number <= last {
        let first = number;
        let is_taken = takes(first);
        while number <= last && takes(number) == is_taken {
            number += 1;
        }
        match (is_taken, number > last) {
            (true, true) => {
                // Earlier instructions have already decided the numbers below `first`.
                part.extend([end]);
                return part;
            }
            (false, true) => break,
            (true, false) => part.extend([greater(u32::from(number) - 1, 1, 0), end]),
            (false, false) => part.extend([greater(u32::from(number) - 1, 1, 0), REJECT]),
        }
    }
    part.push(REJECT);
    part
}

/// A program for sharing by queue: gives each packet to the member whose number is the packet's
/// queue modulo the number of members. Packets without a queue go to the member of queue 0.
pub(in crate::port) fn by_queue(mapping: QueueMapping) -> Vec<SockFilter> {
    let give = SockFilter { code: opcode::RET_A, jt: 0, jf: 0, k: 0 };
    let queue = load(libc_ad::QUEUE);
    if mapping == QueueMapping::Unshifted {
        return vec![queue, give];
    }
    let outgoing = u32::from(PACKET_OUTGOING);
    let less = SockFilter { code: opcode::ADD, jt: 0, jf: 0, k: 1_u32.wrapping_neg() };
    let received = [queue, equal(0, 1, 0), less, give];
    let mut program = vec![load(libc_ad::PKTTYPE), equal(outgoing, 0, 2), queue, give];
    program.extend(received);
    program
}

/// A program that gives each packet to the one ring that may take it, by the ring's index in
/// `rings`. So the kernel offers each packet once, instead of to every ring. The ring's program
/// still decides, so packets that no ring takes may go to any ring. `None` if the program would be
/// too long.
pub(in crate::port) fn distribution(rings: &[Selection]) -> Option<Vec<SockFilter>> {
    let first = rings.first()?;
    let shift = u32::from(first.mapping == QueueMapping::Shifted);
    let place = |class| rings.iter().position(|ring| ring.class == class);
    let other = place(Class::Other).unwrap_or(0) as u32;
    let rx = choose(rings, Class::Rx, shift, other);
    let tx = choose(rings, Class::Tx, 0, other);
    let mut program = vec![load(libc_ad::PKTTYPE), equal(u32::from(PACKET_OUTGOING), 0, 1)];
    // A separate jump, because a conditional jump reaches only 255 instructions.
    program.push(SockFilter { code: opcode::JUMP, jt: 0, jf: 0, k: rx.len() as u32 });
    program.extend(rx);
    program.extend(tx);
    (program.len() <= MAX_INSTRUCTIONS).then_some(program)
}

/// Refuses a program that the kernel would refuse. `how` describes its origin.
pub(in crate::port) fn check_length(program: &[SockFilter], how: &str) -> Result<()> {
    let len = program.len();
    if len <= MAX_INSTRUCTIONS {
        return Ok(());
    }
    let cause = format!("{how} it has {len} instructions; the kernel accepts {MAX_INSTRUCTIONS}");
    Err(Error::usage("filter", cause).help("write a shorter expression"))
}

/// The part of a distribution that examines the queue. Adjacent queues in adjacent rings need one
/// subtraction: usually that covers all queues.
fn choose(rings: &[Selection], class: Class, shift: u32, other: u32) -> Vec<SockFilter> {
    let mut part = vec![load(libc_ad::QUEUE)];
    let mut places = rings.iter().enumerate().filter(|(_, ring)| ring.class == class).peekable();
    while let Some((place, ring)) = places.next() {
        let (first, place) = (u32::from(ring.queue) + shift, place as u32);
        let mut last = first;
        while let Some((_, next)) = places.next_if(|(_, r)| u32::from(r.queue) + shift == last + 1)
        {
            last = u32::from(next.queue) + shift;
        }
        // Less than the first: jumps compare with `>`, so this compares with the number before it.
        if let Some(before) = first.checked_sub(1) {
            part.push(greater(before, 0, 3));
        }
        part.push(greater(last, 2, 0));
        // Wraps if the ring's index is below the queue's number.
        part.push(SockFilter { code: opcode::ADD, jt: 0, jf: 0, k: place.wrapping_sub(first) });
        part.push(SockFilter { code: opcode::RET_A, jt: 0, jf: 0, k: 0 });
    }
    part.push(SockFilter { code: opcode::RET, jt: 0, jf: 0, k: other });
    part
}

/// A program for packets that a TAP device sends and its other end receives: takes packets of the
/// queues, out of `queues`, that `mask` selects.
pub(in crate::port) fn of_queues(mask: &QueueMask, queues: u16) -> Vec<SockFilter> {
    let (chosen, others): (Vec<_>, Vec<_>) =
        (0..queues).partition(|queue| mask.selects(Class::Rx, usize::from(*queue)));
    if others.is_empty() || chosen.is_empty() {
        return vec![accept(if others.is_empty() { u32::MAX } else { 0 })];
    }
    let mut program = vec![load(libc_ad::QUEUE)];
    for queue in chosen {
        program.extend([equal(u32::from(queue), 0, 1), accept(u32::MAX)]);
    }
    program.push(REJECT);
    program
}

/// Also used by the programs of `any`.
pub(in crate::port) use self::libc_ad::{HARDWARE_TYPE, PKTTYPE as PACKET_TYPE, QUEUE};

/// The program of a ring that the mask does not select.
pub(in crate::port) const REJECT_ALL: [SockFilter; 1] = [REJECT];

pub(in crate::port) const REJECT: SockFilter = SockFilter { code: opcode::RET, jt: 0, jf: 0, k: 0 };

/// Ancillary loads of `linux/filter.h`: `SKF_AD_OFF` plus the number of the field.
mod libc_ad {
    const OFFSET: i32 = -0x1000;
    pub(in crate::port) const PKTTYPE: u32 = (OFFSET + 4) as u32;
    pub(in crate::port) const QUEUE: u32 = (OFFSET + 24) as u32;
    pub(in crate::port) const HARDWARE_TYPE: u32 = (OFFSET + 28) as u32;
}

/// Instructions of `linux/bpf_common.h`.
mod opcode {
    /// `BPF_LD | BPF_W | BPF_ABS`
    pub(super) const LOAD: u16 = 0x20;
    /// `BPF_JMP | BPF_JEQ | BPF_K`
    pub(super) const JUMP_EQUAL: u16 = 0x15;
    /// `BPF_JMP | BPF_JGT | BPF_K`
    pub(super) const JUMP_GREATER: u16 = 0x25;
    /// `BPF_JMP | BPF_JA`
    pub(super) const JUMP: u16 = 0x05;
    /// `BPF_ALU | BPF_ADD | BPF_K`
    pub(super) const ADD: u16 = 0x04;
    /// `BPF_RET | BPF_K`
    pub(super) const RET: u16 = 0x06;
    /// `BPF_RET | BPF_A`
    pub(super) const RET_A: u16 = 0x16;
}

pub(in crate::port) fn load(field: u32) -> SockFilter {
    SockFilter { code: opcode::LOAD, jt: 0, jf: 0, k: field }
}

pub(in crate::port) fn equal(k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code: opcode::JUMP_EQUAL, jt, jf, k }
}

pub(in crate::port) fn greater(k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code: opcode::JUMP_GREATER, jt, jf, k }
}

/// Jumps over this many instructions.
pub(in crate::port) fn jump(over: u32) -> SockFilter {
    SockFilter { code: opcode::JUMP, jt: 0, jf: 0, k: over }
}

/// Returns the loaded value.
pub(in crate::port) fn give() -> SockFilter {
    SockFilter { code: opcode::RET_A, jt: 0, jf: 0, k: 0 }
}

pub(in crate::port) fn accept(bytes: u32) -> SockFilter {
    SockFilter { code: opcode::RET, jt: 0, jf: 0, k: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on what it can see of a packet; an interpreter of the instructions used.
    fn run(program: &[SockFilter], packet_type: u8, queue_mapping: u16) -> u32 {
        let (mut a, mut at) = (0u32, 0);
        loop {
            let SockFilter { code, jt, jf, k } = program[at];
            let jump = |taken| usize::from(if taken { jt } else { jf });
            at += 1 + match code {
                opcode::LOAD => {
                    a = match k {
                        libc_ad::PKTTYPE => u32::from(packet_type),
                        libc_ad::QUEUE => u32::from(queue_mapping),
                        other => panic!("loads {other:#x}"),
                    };
                    0
                }
                opcode::JUMP_EQUAL => jump(a == k),
                opcode::JUMP_GREATER => jump(a > k),
                opcode::JUMP => k as usize,
                opcode::ADD => {
                    a = a.wrapping_add(k);
                    0
                }
                opcode::RET_A => return a,
                opcode::RET => return k,
                other => panic!("code {other:#x}"),
            };
        }
    }

    /// Every packet is taken by exactly one of all the rings of an interface, the right one.
    #[test]
    fn every_packet_has_exactly_one_ring() {
        const COUNT: u16 = 4;
        for mapping in [QueueMapping::Shifted, QueueMapping::Unshifted] {
            let mut rings: Vec<(Class, u16)> = vec![(Class::Other, 0)];
            rings.extend((0..COUNT).flat_map(|queue| [(Class::Rx, queue), (Class::Tx, queue)]));
            for packet_type in 0..=4 {
                let outgoing = packet_type == PACKET_OUTGOING;
                for value in (0..COUNT + 3).chain([u16::MAX]) {
                    if outgoing && value >= COUNT {
                        continue;
                    }
                    let takers: Vec<_> = rings
                        .iter()
                        .filter(|(class, queue)| {
                            let selection = Selection {
                                class: *class,
                                queue: *queue,
                                mapping,
                                rx_queues: COUNT,
                            };
                            let taken = run(&selection.program(96, None), packet_type, value);
                            assert!(taken == 0 || taken == 96);
                            taken != 0
                        })
                        .copied()
                        .collect();
                    let expected = match mapping.rx_queue(value) {
                        _ if outgoing => (Class::Tx, value),
                        Some(queue) if queue < COUNT => (Class::Rx, queue),
                        _ => (Class::Other, 0),
                    };
                    assert_eq!(takers, [expected], "{mapping:?} {packet_type} {value}");
                }
            }
        }
    }

    /// For any set of open queues, the distribution gives each packet to the ring that takes it.
    #[test]
    fn the_distribution_agrees_with_the_rings() {
        const COUNT: u16 = 6;
        for mapping in [QueueMapping::Shifted, QueueMapping::Unshifted] {
            for open in 0..1u32 << COUNT {
                let select = |class, queue| Selection { class, queue, mapping, rx_queues: COUNT };
                let queues = || (0..COUNT).filter(|queue| open >> queue & 1 == 1);
                let mut rings: Vec<_> = queues().map(|queue| select(Class::Rx, queue)).collect();
                rings.extend(queues().map(|queue| select(Class::Tx, queue)));
                rings.push(select(Class::Other, 0));
                let distribution = distribution(&rings).unwrap();
                for packet_type in [0, PACKET_OUTGOING] {
                    for value in (0..COUNT + 3).chain([u16::MAX]) {
                        let given = run(&distribution, packet_type, value) as usize;
                        for (place, ring) in rings.iter().enumerate() {
                            let taken = run(&ring.program(1, None), packet_type, value) == 1;
                            assert!(!taken || given == place, "{ring:?} {value} {given}");
                        }
                    }
                }
            }
        }
    }

    /// One ring for several queues takes the same packets as the separate rings, each packet once.
    #[test]
    fn a_lot_is_the_sum_of_its_rings() {
        const COUNT: u16 = 4;
        for (mapping, rx, tx, other) in [QueueMapping::Shifted, QueueMapping::Unshifted]
            .into_iter()
            .flat_map(|mapping| (0..16).map(move |set| (mapping, set, 15 - set, set % 3 == 0)))
        {
            let lot = Lot { mapping, rx_queues: COUNT, tx_queues: COUNT };
            let takes = |class, queue: u16| match class {
                Class::Rx => rx >> queue & 1 == 1,
                Class::Tx => tx >> queue & 1 == 1,
                Class::Other => other,
            };
            let all = [Class::Rx, Class::Tx, Class::Other]
                .into_iter()
                .flat_map(|class| (0..COUNT).map(move |queue| (class, queue)));
            let rings: Vec<_> = all
                .filter(|(class, queue)| {
                    takes(*class, *queue) && (*class != Class::Other || *queue == 0)
                })
                .map(|(class, queue)| Selection { class, queue, mapping, rx_queues: COUNT })
                .collect();
            let filter = [accept(7)];
            for filter in [None, Some(&filter[..])] {
                let program = lot.program(takes, 1, filter);
                for packet_type in [0, 3, PACKET_OUTGOING] {
                    for value in 0..COUNT {
                        let expected = rings
                            .iter()
                            .map(|ring| run(&ring.program(1, filter), packet_type, value))
                            .sum::<u32>();
                        assert_eq!(run(&program, packet_type, value), expected, "{lot:?} {value}");
                    }
                }
                let taken = if filter.is_some() { 7 } else { 1 };
                for value in [COUNT + 1, u16::MAX] {
                    assert_eq!(run(&program, 0, value) == taken, other);
                    assert_eq!(run(&program, PACKET_OUTGOING, value) == taken, tx >> 3 & 1 == 1);
                }
            }
        }
    }

    #[test]
    fn sharing_by_queue_gives_both_directions_of_a_queue_to_one_member() {
        for (mapping, shift) in [(QueueMapping::Shifted, 1), (QueueMapping::Unshifted, 0)] {
            let program = by_queue(mapping);
            for queue in [0, 1, 7] {
                assert_eq!(run(&program, 0, queue + shift), u32::from(queue));
                assert_eq!(run(&program, PACKET_OUTGOING, queue), u32::from(queue));
            }
            assert_eq!(run(&program, 0, 0), 0);
        }
    }

    #[test]
    fn all_queues_are_distributed_in_a_few_instructions() {
        let mapping = QueueMapping::Shifted;
        let rings: Vec<_> = (0..1024)
            .map(|queue| Selection { class: Class::Rx, queue, mapping, rx_queues: 1024 })
            .collect();
        assert!(distribution(&rings).unwrap().len() < 16);
        let apart: Vec<_> = rings.iter().step_by(2).copied().collect();
        assert!(distribution(&apart).unwrap().len() > 1024);
        assert_eq!(run(&distribution(&apart).unwrap(), 0, 1023), 511);
    }

    #[test]
    fn a_snap_length_of_nothing_still_selects() {
        let selection =
            Selection { class: Class::Tx, queue: 0, mapping: QueueMapping::Shifted, rx_queues: 1 };
        assert_eq!(run(&selection.program(0, None), PACKET_OUTGOING, 0), 1);
        assert_eq!(run(&REJECT_ALL, PACKET_OUTGOING, 0), 0);
    }
}
