//! The classic BPF programs that select packets in the kernel.
//!
//! Two things tell where a packet belongs. `skb->pkt_type` is `PACKET_OUTGOING` for what the host
//! transmits (`dev_queue_xmit_nit` sets it on the copy for sockets like ours), something else for
//! what it receives. `skb->queue_mapping` is the transmit queue of an outgoing packet
//! (`netdev_core_pick_tx`), and of a received one what the driver wrote, usually through
//! `skb_record_rx_queue`: see [`QueueMapping`].
//!
//! Two kinds of packets never get here. A multicast that the host sends and also receives itself
//! (`dev_loopback_xmit`, type `PACKET_LOOPBACK`) is dropped by `tpacket_rcv`, so it is not seen
//! twice. A packet sent past the queueing discipline (`PACKET_QDISC_BYPASS`) is shown to nobody.

use wirelane_os::packet::{PACKET_OUTGOING, SockFilter};

use crate::inspect::QueueMapping;
use crate::mask::Class;

/// What one ring takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) class: Class,
    /// Without meaning for [`Class::Other`].
    pub(super) queue: u16,
    pub(super) mapping: QueueMapping,
    /// Receive queues of the interface: a number beyond them is no queue of its own. Stacked
    /// devices (VLAN, bridge) pass on the numbers of the device below.
    pub(super) rx_queues: u16,
}

impl Selection {
    /// A program that takes the first `snaplen` bytes of exactly these packets.
    pub(super) fn program(&self, snaplen: u32) -> Vec<SockFilter> {
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
        program.extend([accept(snaplen.max(1)), REJECT]);
        program
    }
}

/// The program of a ring that is not selected.
pub(super) const REJECT_ALL: [SockFilter; 1] = [REJECT];

const REJECT: SockFilter = SockFilter { code: opcode::RET, jt: 0, jf: 0, k: 0 };

/// Ancillary loads of `linux/filter.h`: `SKF_AD_OFF` plus the number of the field.
mod libc_ad {
    const OFFSET: i32 = -0x1000;
    pub(super) const PKTTYPE: u32 = (OFFSET + 4) as u32;
    pub(super) const QUEUE: u32 = (OFFSET + 24) as u32;
}

/// Instructions of `linux/bpf_common.h`.
mod opcode {
    /// `BPF_LD | BPF_W | BPF_ABS`
    pub(super) const LOAD: u16 = 0x20;
    /// `BPF_JMP | BPF_JEQ | BPF_K`
    pub(super) const JUMP_EQUAL: u16 = 0x15;
    /// `BPF_JMP | BPF_JGT | BPF_K`
    pub(super) const JUMP_GREATER: u16 = 0x25;
    /// `BPF_RET | BPF_K`
    pub(super) const RET: u16 = 0x06;
}

fn load(field: u32) -> SockFilter {
    SockFilter { code: opcode::LOAD, jt: 0, jf: 0, k: field }
}

fn equal(k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code: opcode::JUMP_EQUAL, jt, jf, k }
}

fn greater(k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code: opcode::JUMP_GREATER, jt, jf, k }
}

fn accept(bytes: u32) -> SockFilter {
    SockFilter { code: opcode::RET, jt: 0, jf: 0, k: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on what it can see of a packet; an interpreter of the four instructions.
    fn run(program: &[SockFilter], packet_type: u8, queue_mapping: u16) -> u32 {
        let (mut a, mut at) = (0, 0);
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
                            let taken = run(&selection.program(96), packet_type, value);
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

    #[test]
    fn a_snap_length_of_nothing_still_selects() {
        let selection =
            Selection { class: Class::Tx, queue: 0, mapping: QueueMapping::Shifted, rx_queues: 1 };
        assert_eq!(run(&selection.program(0), PACKET_OUTGOING, 0), 1);
        assert_eq!(run(&REJECT_ALL, PACKET_OUTGOING, 0), 0);
    }
}
