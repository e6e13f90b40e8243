//! How the kernel hands packets over: in blocks, or singly in slots.

use std::time::Duration;

use wirelane_os::packet::PacketSocket;

use super::config::{self, Config};
use super::ring::MemoryRequest;

/// Bytes of long packets that a socket must be able to queue for slots to be used: 33 ms at
/// 1 Gbit/s.
const QUEUED: usize = 4 << 20;

/// How the rings of a port are filled.
pub(super) struct Handover {
    one_by_one: bool,
}

impl Handover {
    /// Singly, if the user wants that and `socket`, one of the port's sockets, may queue enough
    /// long packets. Older kernels do not allow that without CAP_NET_ADMIN.
    pub(super) fn new(config: &Config, socket: &PacketSocket, notes: &mut Vec<String>) -> Self {
        if !config.is_immediate() {
            return Self { one_by_one: false };
        }
        let queued = socket.set_receive_buffer(config::BUDGET);
        let one_by_one = queued.as_ref().is_ok_and(|bytes| *bytes >= QUEUED);
        if !one_by_one {
            notes.push(format!(
                "packets are handed over after {} ms, not at once, which takes CAP_NET_ADMIN or \
                 net.core.rmem_max of {QUEUED}",
                config.retire(usize::MAX).as_millis()
            ));
        }
        Self { one_by_one }
    }

    /// The time after which a block that is not full is handed over, in a ring of `blocks`; 0 for
    /// slots. It is the same for all rings, as they wait for each other.
    pub(super) fn retire(&self, config: &Config, blocks: usize) -> Duration {
        if self.one_by_one { Duration::ZERO } else { config.retire(blocks) }
    }

    /// The request to the kernel for a ring of `shape`; selected rings have `blocks` blocks.
    pub(super) fn request(
        &self,
        config: &Config,
        shape: (usize, usize),
        blocks: usize,
        longest: usize,
    ) -> MemoryRequest {
        Config::request(shape, self.retire(config, blocks), longest)
    }

    /// A note for the user if blocks of this shape truncate packets of `longest` bytes.
    pub(super) fn note(&self, shape: (usize, usize), longest: usize) -> Option<String> {
        let is_cut = !self.one_by_one && shape.0 < config::holding(longest);
        is_cut.then(|| format!("packets over the block size of {} bytes are cut", shape.0))
    }
}
