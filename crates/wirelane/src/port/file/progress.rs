//! Reports of a file's ends to their port.

use std::sync::{Mutex, OnceLock};

use crate::pcap::{Losses, OddTimes};
use crate::pool::{PoolConfig, PoolGauge};
use crate::port::options::OpenOptions;
use crate::sync::Counter;
use crate::sync::lock;

/// Frames for packets that exceed the usual frames: they hold the longest snap length and some
/// options of a packet.
pub(super) const LARGE: PoolConfig =
    PoolConfig { chunks: 64, chunk_size: 266_240, headroom: 64, numa_node: None };
const _: () = assert!(MAX_PACKET >= OpenOptions::MAX_SNAPLEN as usize);
/// Most bytes kept of a packet: a frame of the largest size.
pub(super) const MAX_PACKET: usize = (LARGE.chunk_size - LARGE.headroom) as usize;

/// Reports of a file's ends to the port.
#[derive(Debug, Default)]
pub(super) struct FileProgress {
    /// Frames for large packets, after the first such packet.
    pub(super) large: OnceLock<PoolGauge>,
    /// Interfaces described after the first packets that exceed the table.
    pub(super) strangers: Counter,
    /// Packets that were truncated because no frame holds them.
    pub(super) cut: Counter,
    /// Packets whose timestamps were changed.
    pub(super) odd_times: Mutex<OddTimes>,
    /// Packets whose comments and other options fit no frame.
    pub(super) bare: Counter,
    /// Metadata that no writer of the packets receives.
    pub(super) lost: Mutex<Losses>,
}

impl FileProgress {
    /// Notes for the user.
    pub(super) fn diagnostics(&self) -> Vec<String> {
        let cut = self.cut.value();
        let note =
            || format!("{cut} packets longer than {MAX_PACKET} bytes were cut to that length");
        let strangers = self.strangers.value();
        let first = || {
            format!(
                "there are too many interfaces: the packets of the last {strangers} count as \
                 packets of the first one"
            )
        };
        let bare = self.bare.value();
        let without = || format!("{bare} packets lost their comments: they are too long");
        let notes = [(cut > 0).then(note), (strangers > 0).then(first), (bare > 0).then(without)];
        let (odd_times, lost) = (*lock(&self.odd_times), *lock(&self.lost));
        notes.into_iter().flatten().chain(odd_times.notes()).chain(lost.notes()).collect()
    }
}
