//! The parts of a ring's receiver.

use std::sync::Arc;

use super::any::interfaces::InterfaceLookup;
use super::control::PortProgress;
use super::idle;
use super::link::OnRemoval;
use super::rejections::Rejections;
use super::ring::PacketRing;
use super::rings::Rings;
use crate::mask::Class;
use crate::port::info::PortMode;
use crate::stats::RxCounters;

/// Time in nanoseconds that the kernel may take beyond its timer to hand a block over: a tick if
/// the timer runs on ticks (before 6.18), and the wait for a CPU.
const SLACK: u64 = 20_000_000;
/// How far packets of one ring can be out of order, in nanoseconds: CPUs timestamp packets before
/// they queue them.
const DISORDER: u64 = 1_000_000;
/// The same for single packets.
const DISORDER_OF_SLOTS: u64 = 20_000;

/// Times of a ring, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// After this time the kernel hands over a block that is not full.
    pub(super) retire: u64,
    /// A packet is handed over at most this long after its timestamp.
    pub(super) lateness: u64,
    /// How far packets of one ring can be out of order.
    pub(super) disorder: u64,
    /// The consumer needs packets earlier than usual.
    pub(super) is_prompt: bool,
    /// Longest sleep while packets arrive densely; see
    /// [`longest_nap`](super::idle::longest_nap).
    pub(super) nap: u64,
}

/// The parts of a receiver.
pub(super) struct PacketRxParts {
    pub(super) ring: PacketRing,
    pub(super) counters: Arc<RxCounters>,
    pub(super) progress: Arc<PortProgress>,
    pub(super) interface: Arc<str>,
    pub(super) snaplen: u32,
    pub(super) times: Times,
    /// The link-layer header of frames. VLAN tags can be restored only in Ethernet headers.
    pub(super) link_type: u16,
    /// The action when the interface is removed.
    pub(super) on_removal: OnRemoval,
    /// The interface lookup of `any`.
    pub(super) interfaces: Option<InterfaceLookup>,
    /// Counts the packets that the ring's program rejects.
    pub(super) rejections: Option<Rejections>,
}

/// The receiver's count of packets, next to the kernel's count of the ring, and when to read that.
#[derive(Default)]
pub(super) struct PacketLedger {
    pub(super) delivered: u64,
    /// Packets that a block truncated below the snap length.
    pub(super) cut: u64,
    pub(super) blocks_since: u32,
    pub(super) next_reading: u64,
}

impl PacketRxParts {
    /// The queue of the ring's packets, in words.
    pub(super) fn name(&self) -> String {
        let selection = &self.ring.selection;
        match selection.class {
            Class::Other => "no queue".to_owned(),
            class => format!("{class} queue {}", selection.queue),
        }
    }

    /// Reports packets that the kernel counted and did not hand over.
    pub(super) fn note_missing(&self, missing: u64) {
        let name = self.name();
        self.progress.note(format!(
            "the kernel did not hand over {missing} packets of {name} in time; they are counted \
             as dropped by the kernel"
        ));
    }

    /// Reports packets that a block truncated below the snap length.
    pub(super) fn note_cut(&self, cut: u64) {
        let (name, block) = (self.name(), self.ring.block_size());
        self.progress.note(format!(
            "{cut} packets of {name} were cut to the block size of {block} bytes; block=512Ki \
             holds them whole"
        ));
    }
}

impl Rings {
    /// The times of the rings, on a device of `speed` bits per second.
    pub(super) fn times(&self, is_prompt: bool, speed: Option<u64>) -> Times {
        let retire = u64::try_from(self.retire.as_nanos()).unwrap_or(u64::MAX);
        let bytes =
            |ring: &PacketRing| u64::from(ring.block_size()) * u64::from(ring.block_count());
        let nap = idle::longest_nap(self.rings.first().map_or(0, bytes), speed, retire);
        let (lateness, disorder) = match retire {
            // The kernel fills a slot within this time.
            0 => (DISORDER_OF_SLOTS, DISORDER_OF_SLOTS),
            _ => (2 * retire + SLACK, DISORDER),
        };
        Times { retire, lateness, disorder, is_prompt, nap }
    }

    /// How the kernel hands packets over.
    pub(super) fn mode(&self) -> PortMode {
        if self.retire.is_zero() { PortMode::TpacketV2 } else { PortMode::TpacketV3 }
    }
}
