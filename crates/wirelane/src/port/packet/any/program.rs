//! The classic BPF programs of the rings of `any`.

use wirelane_os::packet::{PACKET_OUTGOING, SockFilter};

use crate::mask::{QueueMask, QueueSet};
use crate::port::device::{LINK_TYPES, LOOPBACK};
use crate::port::steering::selection::{
    HARDWARE_TYPE, PACKET_TYPE, QUEUE, REJECT, accept, equal, give, greater, jump, load,
};

/// Gives each packet to the ring of its queue number, and numbers from `queues` on to the last
/// ring.
pub(super) fn by_number(queues: u16) -> Vec<SockFilter> {
    let queues = u32::from(queues);
    vec![load(QUEUE), greater(queues.saturating_sub(1), 0, 1), accept(queues), give()]
}

/// Accepts packets that `mask` may select and that `filters` accept; queues are checked later.
/// There is one filter per link type, and other link types are rejected. Without filters, accepts
/// the first `snaplen` bytes. Packets that the host sends to itself are taken when they are
/// received.
pub(super) fn of_ring(
    mask: &QueueMask,
    snaplen: u32,
    filters: Option<&[(u16, Vec<SockFilter>)]>,
) -> Vec<SockFilter> {
    let sent = !mask.enabled || mask.tx != QueueSet::NONE;
    let received = !mask.enabled || mask.rx != QueueSet::NONE || mask.other;
    let mut program = vec![load(PACKET_TYPE)];
    let receiving = if received { Vec::new() } else { vec![REJECT] };
    let sending = match sent {
        true => vec![
            load(HARDWARE_TYPE),
            equal(u32::from(LOOPBACK), 0, 1),
            REJECT,
            jump(receiving.len() as u32),
        ],
        false => vec![REJECT],
    };
    program.push(equal(u32::from(PACKET_OUTGOING), 0, sending.len() as u8));
    program.extend(sending);
    program.extend(receiving);
    let Some(filters) = filters else {
        program.push(accept(snaplen.max(1)));
        return program;
    };
    program.push(load(HARDWARE_TYPE));
    for (link_type, filter) in filters {
        let of = LINK_TYPES.iter().find(|(known, _)| known == link_type);
        let types = of.map(|(_, types)| *types).unwrap_or_default();
        for (place, hardware) in types.iter().enumerate() {
            // Jumps over the remaining types and the following jump.
            program.push(equal(u32::from(*hardware), (types.len() - place) as u8, 0));
        }
        // After a skipped filter, the hardware type is still loaded.
        program.push(jump(filter.len() as u32));
        program.extend_from_slice(filter);
    }
    program.push(REJECT);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_loopback_and_link_type_decide() {
        let filters = [(1, vec![accept(11)]), (101, vec![accept(22)])];
        let only = |rx: bool, tx: bool| QueueMask {
            enabled: true,
            rx: if rx { QueueSet::All } else { QueueSet::NONE },
            tx: if tx { QueueSet::All } else { QueueSet::NONE },
            other: rx,
        };
        for (mask, filter, packet_type, hardware, expected) in [
            (QueueMask::ALL, false, 0, 1, 96),
            (QueueMask::ALL, false, 4, 1, 96),
            (QueueMask::ALL, false, 4, 772, 0),
            (QueueMask::ALL, false, 0, 772, 96),
            (only(true, false), false, 4, 1, 0),
            (only(true, false), false, 0, 1, 96),
            (only(false, true), false, 0, 1, 0),
            (only(false, true), false, 4, 1, 96),
            (only(false, false), false, 4, 1, 0),
            (QueueMask::ALL, true, 0, 1, 11),
            (QueueMask::ALL, true, 0, 772, 11),
            (QueueMask::ALL, true, 4, 772, 0),
            (QueueMask::ALL, true, 4, 65534, 22),
            (QueueMask::ALL, true, 0, 519, 22),
            (QueueMask::ALL, true, 0, 776, 22),
            (QueueMask::ALL, true, 0, 778, 0),
            (only(false, true), true, 4, 768, 22),
        ] {
            let program = of_ring(&mask, 96, filter.then_some(&filters[..]));
            let taken = run(&program, packet_type, hardware);
            assert_eq!(taken, expected, "{mask} {filter} {packet_type} {hardware}");
        }
    }

    /// Runs a program on what it can see of a packet.
    fn run(program: &[SockFilter], packet_type: u32, hardware: u32) -> u32 {
        let (mut a, mut at) = (0, 0);
        loop {
            let one = program[at];
            let SockFilter { code, jt, jf, k } = one;
            at += 1;
            match one {
                _ if one == load(PACKET_TYPE) => a = packet_type,
                _ if one == load(HARDWARE_TYPE) => a = hardware,
                _ if one == jump(k) => at += k as usize,
                _ if one == accept(k) => return k,
                _ if one == equal(k, jt, jf) => at += usize::from(if a == k { jt } else { jf }),
                _ => panic!("code {code:#x}"),
            }
        }
    }

    #[test]
    fn numbers_beyond_the_rings_share_the_last_one() {
        let program = by_number(3);
        assert_eq!(program, [load(QUEUE), greater(2, 0, 1), accept(3), give()]);
    }
}
