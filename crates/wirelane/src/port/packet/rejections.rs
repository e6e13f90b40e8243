//! The number of packets that a ring's program rejects: packets passed by the fanout program, minus
//! packets that the kernel accepted.
//!
//! ```text
//!   fanout program ─▶ passed ─▶ program of the ring ─▶ accepted
//!                   └─ at most one of each CPU ─┘
//! ```
//!
//! While packets arrive, each CPU may have passed one packet that its ring's program has not seen
//! yet. It is not rejected, but is missing among the accepted packets. On a busy machine the CPU
//! may remain in this state for long. So one packet is left out for each CPU that was active
//! recently. When the port has stopped, or its interface was removed, no packet is in between, and
//! the count is exact.

use std::sync::Arc;

use wirelane_os::clock;

use super::fanout::FanoutProgram;

/// A CPU that passed no packet for this many nanoseconds has none in between.
const SETTLED: u64 = 1_000_000_000;

/// Counts for one ring.
pub(super) struct Rejections {
    program: Arc<FanoutProgram>,
    ring: usize,
    cpus: Vec<Seen>,
}

/// The number of packets that a CPU had passed at the last reading, and the time of its last
/// change.
#[derive(Clone, Default)]
struct Seen {
    packets: u64,
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LetIn {
    packets: u64,
    /// The most packets that the ring's program may not have seen.
    on_their_way: u64,
}

impl Rejections {
    pub(super) fn new(program: &Arc<FanoutProgram>, ring: usize) -> Self {
        let cpus = program.counted(ring).map(|_| Seen::default()).collect();
        Self { program: Arc::clone(program), ring, cpus }
    }

    /// The packets passed so far. `is_shut` if no packet was passed any more before the call.
    pub(super) fn read(&mut self, is_shut: bool) -> LetIn {
        let let_in = read(&mut self.cpus, self.program.counted(self.ring), clock::monotonic_ns());
        if is_shut { LetIn { on_their_way: 0, ..let_in } } else { let_in }
    }
}

impl LetIn {
    /// The least number of rejected packets, if the kernel reports after this reading that it
    /// accepted `accepted`.
    pub(super) fn rejected(self, accepted: u64) -> u64 {
        self.packets.saturating_sub(accepted + self.on_their_way)
    }
}

fn read(cpus: &mut [Seen], counts: impl Iterator<Item = u64>, now: u64) -> LetIn {
    let mut let_in = LetIn { packets: 0, on_their_way: 0 };
    for (cpu, packets) in cpus.iter_mut().zip(counts) {
        if cpu.packets != packets {
            *cpu = Seen { packets, since: now };
        }
        let_in.packets += packets;
        let_in.on_their_way += u64::from(packets > 0 && now - cpu.since < SETTLED);
    }
    let_in
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_on_its_way_is_not_rejected() {
        let mut cpus = vec![Seen::default(); 3];
        let mut at = |now, counts: [u64; 3]| read(&mut cpus, counts.into_iter(), now);
        assert_eq!(at(5, [0, 0, 0]).rejected(0), 0);
        // Two CPUs, and one of the ten was accepted.
        assert_eq!(at(10, [6, 4, 0]), LetIn { packets: 10, on_their_way: 2 });
        assert_eq!(at(20, [6, 4, 0]).rejected(1), 7);
        // The first has been silent for long, the second has just let one in.
        assert_eq!(at(SETTLED + 10, [6, 5, 0]).rejected(1), 9);
        assert_eq!(at(2 * SETTLED + 10, [6, 5, 0]).rejected(1), 10);
        // More may have been accepted since than had been let in.
        assert_eq!(at(2 * SETTLED + 10, [6, 5, 0]).rejected(12), 0);
    }
}
