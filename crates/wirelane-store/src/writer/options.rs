//! How a store is written.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::disk::Rings;
use wirelane_pcap::{Access, Compression, CompressionOptions, Section};

use super::gate::Gate;
use crate::error::{Error, Result};
use crate::extent::{EXTENT_ALIGNMENT, EXTENT_SIZE};

/// Writes at once per lane: a disk is busy with some, and some more are on their way to it.
pub(super) const DEPTH: usize = 8;
/// The least bytes of a segment.
pub(super) const LEAST_SEGMENT: u64 = 4 * EXTENT_SIZE as u64;
/// The most.
const MOST_SEGMENT: u64 = 1 << 40;
/// Where there is no room for two segments of each lane, segments are shorter: so many of each fit.
const SHORT_PER_LANE: u64 = 8;
/// Buffers of [`EXTENT_SIZE`] that a lane has at least: one is filled, one waits, some are written.
const LEAST_BUFFERS: usize = 4;

/// How a store is written.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of a segment; rounded up to a multiple of [`EXTENT_ALIGNMENT`]. At least 4 MiB. Where
    /// there is no room for two of each lane, they are shorter, so that eight fit;
    /// [`StoreReport::short_segments`] says so.
    ///
    /// [`StoreReport::short_segments`]: super::StoreReport::short_segments
    pub segment_bytes: u64,
    /// lz4 or zstd, if any.
    pub compression: Option<CompressionOptions>,
    /// When the oldest segments are deleted.
    pub limits: Limits,
    /// Bytes of memory per lane, in which packets wait for the disk. A quick disk that stands still
    /// for 100 ms now and then needs 100 ms of traffic.
    pub buffer: usize,
    /// The longest time that a packet waits in memory: what a crash can cost.
    pub flush_every: Duration,
    /// Who may read the files.
    pub access: Access,
    /// Who writes: for the section header of each segment.
    pub section: Section,
    /// Writes only what a trigger asks for.
    pub gate: Option<Arc<Gate>>,
    /// Of [`StoreOptions::prepare`].
    pub rings: Rings,
}

/// When segments are deleted, the oldest first. A pinned segment never is.
///
/// Each limit is looked at before a segment is made, and every second. Segments that are being
/// written count with their whole size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Most bytes of all segments and their indexes.
    pub max_bytes: Option<u64>,
    /// The share of the file system that stays free, from 0 to 1.
    pub min_free: Option<f64>,
    /// How old packets may become. Of what is recorded now it is the time since then that counts,
    /// whatever the clock says.
    pub max_age: Option<Duration>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let application = concat!("wirelane ", env!("CARGO_PKG_VERSION")).into();
        Self {
            segment_bytes: 256 << 20,
            compression: None,
            limits: Limits::default(),
            buffer: 64 << 20,
            flush_every: Duration::from_secs(1),
            access: Access::default(),
            section: Section { application, ..Section::default() },
            gate: None,
            rings: Rings::default(),
        }
    }
}

impl StoreOptions {
    /// Sets up what so many lanes need privileges for, where the limit of locked memory is low: to
    /// be called before they are given away. Without it, lanes write as fast as they can.
    pub fn prepare(&mut self, lanes: usize) {
        self.rings = Rings::prepare(lanes, DEPTH);
    }

    /// # Errors
    /// What cannot be.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong =
            |what: &'static str, help: &'static str| Err(Error::new(what, "impossible").help(help));
        if !(LEAST_SEGMENT..=MOST_SEGMENT).contains(&self.segment_bytes) {
            let cause = format!("{} bytes are impossible", self.segment_bytes);
            let error = Error::new("size of a segment", cause);
            return Err(error.help("give one from 4 MiB to 1 TiB"));
        }
        if self.compression.is_some_and(|it| it.compression == Compression::Gzip) {
            return wrong("compression of a store by gzip", "choose lz4 or zstd");
        }
        if self.limits.min_free.is_some_and(|share| !(0.0..1.0).contains(&share)) {
            return wrong("share of the disk that stays free", "give less than the whole disk");
        }
        if self.limits.max_age.is_some_and(|age| age.is_zero()) {
            return wrong("age of packets", "give more than none");
        }
        if self.flush_every.is_zero() {
            return wrong("time between writes", "give more than none");
        }
        Ok(())
    }

    /// Bytes of a segment, aligned.
    pub(crate) fn segment_len(&self) -> u64 {
        self.segment_bytes.next_multiple_of(EXTENT_ALIGNMENT as u64)
    }

    /// Buffers of a lane.
    pub(crate) fn buffers(&self) -> usize {
        self.buffer.div_ceil(EXTENT_SIZE).max(LEAST_BUFFERS)
    }

    /// After this time a segment is finished, full or not: with a limit of age, and little traffic,
    /// one would never be old enough to go.
    pub(crate) fn segment_time(&self) -> Option<Duration> {
        self.limits.max_age.map(|age| (age / 8).max(Duration::from_secs(1)))
    }
}

/// Bytes of a segment of these lanes in a store that can take `room`: as wanted if two of each lane
/// fit, the one that is written and the next one.
pub(super) fn fitting_len(wanted: u64, room: u64, lanes: u64) -> u64 {
    let lane = room / lanes.max(1);
    if lane / 2 >= wanted {
        return wanted;
    }
    let len = lane / SHORT_PER_LANE / EXTENT_ALIGNMENT as u64 * EXTENT_ALIGNMENT as u64;
    len.clamp(LEAST_SEGMENT.min(wanted), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_as_long_as_there_is_room_for() {
        const MIB: u64 = 1 << 20;
        for (wanted, room, lanes, len) in [
            (256, 2048, 4, 256),
            (256, 2047, 4, 63),
            (256, 400, 1, 50),
            (256, 400, 2, 25),
            (256, 0, 2, 4),
            (4, 7, 1, 4),
            (256, 2048, 0, 256),
        ] {
            let got = fitting_len(wanted * MIB, room * MIB, lanes);
            assert_eq!(got / MIB, len, "{wanted} {room} {lanes}");
            assert_eq!(got % EXTENT_ALIGNMENT as u64, 0);
        }
    }
}
