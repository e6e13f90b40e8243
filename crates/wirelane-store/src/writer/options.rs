//! Options of a store's writer.

use std::sync::Arc;
use std::time::Duration;

use wirelane_pcap::{Access, Compression, CompressionOptions, Section};

use super::pre_trigger::PreTrigger;
use crate::disk::Rings;
use crate::error::{Error, Result};
use crate::extent::{EXTENT_ALIGNMENT, EXTENT_SIZE};

/// Concurrent writes per lane: several keep the disk busy, and more are queued.
pub(super) const DEPTH: usize = 8;
/// The fewest bytes of a segment.
pub(super) const LEAST_SEGMENT: u64 = 4 * EXTENT_SIZE as u64;
/// The most bytes of a segment.
const MOST_SEGMENT: u64 = 1 << 40;
/// If two segments of each lane do not fit, segments are shortened, so that this number fits.
const SHORT_PER_LANE: u64 = 8;
/// The fewest buffers of [`EXTENT_SIZE`] per lane: one is filled, one waits, others are written.
const LEAST_BUFFERS: usize = 4;

/// Options of a store's writer. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Bytes of a segment, at least 4 MiB, rounded up to a multiple of [`EXTENT_ALIGNMENT`]. If two
    /// segments of each lane do not fit, segments are shorter, so that eight fit;
    /// [`StoreReport::short_segments`] reports it.
    ///
    /// [`StoreReport::short_segments`]: super::StoreReport::short_segments
    pub segment_bytes: u64,
    /// lz4, zstd, or none.
    pub compression: Option<CompressionOptions>,
    /// When to delete the oldest segments.
    pub limits: Limits,
    /// Bytes of memory per lane, in which packets wait for the disk. If a fast disk stalls for 100
    /// ms now and then, it needs 100 ms of traffic.
    pub buffer: usize,
    /// The longest time that a packet waits in memory, and so may be lost in a crash.
    pub flush_every: Duration,
    /// The permissions of the files.
    pub access: Access,
    /// The recording program, for the section header of each segment.
    pub section: Section,
    /// Writes only packets around triggers.
    pub pre_trigger: Option<Arc<PreTrigger>>,
    /// The rings that [`StoreOptions::prepare`] set up.
    #[doc(hidden)]
    pub rings: Rings,
}

wirelane_wire::setters!(StoreOptions:
    compression: Option<CompressionOptions>,
    limits: Limits,
    flush_every: Duration,
    access: Access,
    section: Section,
    pre_trigger: Option<Arc<PreTrigger>>,
    rings: Rings;
    segment_bytes: u64,
    buffer: usize,
);

/// When to delete segments, the oldest first. Pinned segments are never deleted. Each field has a
/// setter of the same name.
///
/// Limits are checked before a segment is created, and every second. Unfinished segments count with
/// their full size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of all segments and their indexes.
    pub max_bytes: Option<u64>,
    /// The share of the file system to keep free, from 0 to 1.
    pub min_free: Option<f64>,
    /// The greatest age of packets. For packets of this recording, it is the time since their
    /// recording, independent of the real-time clock.
    pub max_age: Option<Duration>,
}

wirelane_wire::setters!(Limits:
    max_bytes: Option<u64>,
    min_free: Option<f64>,
    max_age: Option<Duration>,
);

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
            pre_trigger: None,
            rings: Rings::default(),
        }
    }
}

impl StoreOptions {
    /// Sets up the resources of this number of lanes that need privileges if the limit of locked
    /// memory is low. Call it before dropping privileges. Otherwise, lanes write without them, more
    /// slowly.
    pub fn prepare(&mut self, lanes: usize) {
        self.rings = Rings::prepare(lanes, DEPTH);
    }

    /// # Errors
    /// An option has an impossible value.
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

    /// Number of buffers of a lane.
    pub(crate) fn buffers(&self) -> usize {
        self.buffer.div_ceil(EXTENT_SIZE).max(LEAST_BUFFERS)
    }

    /// The time after which a segment is finished even if it is not full. With an age limit and
    /// little traffic, it would otherwise never become old enough to delete.
    pub(crate) fn segment_time(&self) -> Option<Duration> {
        self.limits.max_age.map(|age| (age / 8).max(Duration::from_secs(1)))
    }
}

/// Bytes of a segment if `lanes` lanes share `room`: `wanted` if two segments of each lane fit, the
/// current and the next one.
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
