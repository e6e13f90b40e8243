//! How many packets the program of a ring rejects: what the fanout program passed to it,
//! less what the kernel accepted.
//!
//! ```text
//!   fanout program ─▶ passed ─▶ program of the ring ─▶ accepted
//!                   └─ at most one of each CPU ─┘
//! ```
//!
//! While packets come, a CPU may have let one in that its ring's program has not seen yet. It is
//! not rejected, but missing among the accepted; on a machine that others keep busy the CPU may
//! stand there for long. So of each CPU that was there lately, one is left out. When the port has
//! stopped, or its interface is gone, none is on its way any more, and the count is exact.

use std::sync::Arc;

use wirelane_os::clock;

use super::fanout::FanoutProgram;

/// A CPU has nothing on its way if it let nothing in for so many nanoseconds.
const SETTLED: u64 = 1_000_000_000;

/// Counts for one ring.
pub(super) struct Rejections {
    program: Arc<FanoutProgram>,
    ring: usize,
    cpus: Vec<Seen>,
}

/// What a CPU had let in at the last reading, and since when.
#[derive(Clone, Default)]
struct Seen {
    packets: u64,
    since: u64,
}

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LetIn {
    packets: u64,
    /// The most of them that the program may not have seen.
    on_their_way: u64,
}

impl Rejections {
    pub(super) fn new(program: &Arc<FanoutProgram>, ring: usize) -> Self {
        let cpus = program.counted(ring).map(|_| Seen::default()).collect();
        Self { program: Arc::clone(program), ring, cpus }
    }

    /// What was let in. `is_shut` if nothing more came in before the call.
    pub(super) fn read(&mut self, is_shut: bool) -> LetIn {
        let let_in = read(&mut self.cpus, self.program.counted(self.ring), clock::monotonic_ns());
        if is_shut { LetIn { on_their_way: 0, ..let_in } } else { let_in }
    }
}

impl LetIn {
    /// At least so many were rejected, if the kernel says after this reading that it accepted so
    /// many.
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
