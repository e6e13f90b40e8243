//! The segments of a store, and which of them to delete.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::age::{AgeClock, LastPacketTime, Now};
use super::options::Limits;
use super::status::RetentionStatus;
use crate::directory::Directory;
use crate::disk::{self, Space};
use crate::error::Result;
use crate::names::SegmentName;
use crate::pin::Deletion;

pub(crate) struct StoredSegments {
    directory: Arc<Directory>,
    limits: Limits,
    /// Finished segments, and unfinished ones of a crash, by number.
    kept: BTreeMap<u64, Kept>,
    /// Segments being written, with the bytes that they may take: they count with their full size.
    parts: BTreeMap<u64, u64>,
    bytes: u64,
    clock: AgeClock,
    deleted: u64,
    deleted_bytes: u64,
}

struct Kept {
    name: SegmentName,
    bytes: u64,
    written: LastPacketTime,
    /// As far as known: other processes pin and unpin.
    is_pinned: bool,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Only pinned and unfinished segments are left.
    Limit,
    /// The same, for the share of the disk to keep free: other files fill it.
    Free,
}

impl StoredSegments {
    /// Returns the stored_segments, and the number of the next segment.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn new(directory: Arc<Directory>, limits: Limits, now: Now) -> Result<(Self, u64)> {
        let listing = directory.list()?;
        let mut kept = BTreeMap::new();
        for entry in &listing.segments {
            let name = entry.name;
            let bytes = directory.disk_usage(&name.file_name())?
                + directory.disk_usage(&name.index_name())?;
            // The real-time clock gives the latest possible time of an unfinished segment.
            let written = LastPacketTime::Real(name.times.map_or(now.real, |(_, newest)| newest));
            let is_pinned = entry.is_pinned;
            kept.insert(name.number, Kept { name, bytes, written, is_pinned });
        }
        let bytes = kept.values().map(|segment| segment.bytes).sum();
        let clock = AgeClock::new(now);
        let (deleted, deleted_bytes) = (0, 0);
        let parts = BTreeMap::new();
        let stored_segments =
            Self { directory, limits, kept, parts, bytes, clock, deleted, deleted_bytes };
        Ok((stored_segments, listing.next_number))
    }

    /// The most bytes that all segments can take, given the space that other files take; `None` if
    /// neither a limit nor the file system determines it.
    pub(crate) fn capacity(&self) -> Option<u64> {
        let sum = |of: &dyn Fn(&Kept) -> bool| {
            self.kept.values().filter(|kept| of(kept)).map(|kept| kept.bytes).sum::<u64>()
        };
        let pinned = sum(&|kept| kept.is_pinned);
        let below = self.limits.max_bytes.map(|most| most.saturating_sub(pinned));
        let deletable = if self.may_sacrifice() { sum(&|kept| !kept.is_pinned) } else { 0 };
        let ours = self.parts.values().sum::<u64>() + deletable;
        self.free(ours).into_iter().chain(below).min()
    }

    /// Starts a segment of at most `len` bytes.
    pub(crate) fn begin(&mut self, number: u64, len: u64) {
        if self.parts.insert(number, len).is_none() {
            self.bytes += len;
        }
    }

    /// Ends a segment. It has no name if it was deleted, or if finishing it failed.
    pub(crate) fn finish(
        &mut self,
        number: u64,
        name: Option<SegmentName>,
        now: Now,
    ) -> Result<()> {
        self.bytes -= self.parts.remove(&number).unwrap_or(0);
        let Some(name) = name else { return Ok(()) };
        let usage = |file: &str| self.directory.disk_usage(file);
        let bytes = usage(&name.file_name())? + usage(&name.index_name())?;
        // It may be finished already, and have its index only now.
        let before = self.kept.remove(&number);
        let written = before.as_ref().map_or(LastPacketTime::Boot(now.boot), |it| it.written);
        let is_pinned = before.as_ref().is_some_and(|it| it.is_pinned);
        self.bytes += bytes;
        self.bytes -= before.map_or(0, |it| it.bytes);
        if bytes > 0 {
            self.kept.insert(number, Kept { name, bytes, written, is_pinned });
        }
        Ok(())
    }

    /// Makes room for another segment of `len` bytes, as the limits require.
    pub(crate) fn make_room(
        &mut self,
        len: u64,
        now: Now,
    ) -> Result<std::result::Result<(), NoRoom>> {
        self.enforce(len, now)
    }

    /// Deletes segments that exceed a limit.
    pub(crate) fn keep_limits(&mut self, now: Now) -> Result<std::result::Result<(), NoRoom>> {
        self.clock.tick(now);
        self.enforce(0, now)
    }

    /// Deletes the oldest segment because the disk is full. False if it is not allowed, or there is
    /// none: with only an age limit, younger segments must stay.
    pub(crate) fn sacrifice(&mut self) -> Result<bool> {
        if self.may_sacrifice() { self.delete_oldest() } else { Ok(false) }
    }

    fn may_sacrifice(&self) -> bool {
        self.limits.max_bytes.is_some() || self.limits.min_free.is_some()
    }

    /// The current state.
    pub(crate) fn status(&self) -> RetentionStatus {
        let oldest = self.kept.values().filter_map(|it| it.name.times).map(|(oldest, _)| oldest);
        RetentionStatus {
            segments: (self.kept.len() + self.parts.len()) as u64,
            bytes: self.bytes,
            deleted: self.deleted,
            deleted_bytes: self.deleted_bytes,
            oldest: oldest.min(),
            room: self.room(),
        }
    }

    fn enforce(&mut self, more: u64, now: Now) -> Result<std::result::Result<(), NoRoom>> {
        if let Some(age) = self.limits.max_age {
            self.delete_older(age, now)?;
        }
        if let Some(most) = self.limits.max_bytes {
            while self.bytes.saturating_add(more) > most {
                if !self.delete_oldest()? {
                    return Ok(Err(NoRoom::Limit));
                }
            }
        }
        while self.lacks(more) {
            if !self.delete_oldest()? {
                return Ok(Err(NoRoom::Free));
            }
        }
        Ok(Ok(()))
    }

    /// Whether less than the configured share stays free if `more` bytes are taken.
    fn lacks(&self, more: u64) -> bool {
        let Some(share) = self.limits.min_free else { return false };
        // A file system that reports no space has no share to keep free.
        let Some(space) = self.space() else { return false };
        space.available < reserve(space, share).saturating_add(more)
    }

    /// Whether the file system reports room for another segment of `len` bytes. Reserving more
    /// would take the last byte from all other programs for a moment.
    pub(crate) fn fits(&self, len: u64) -> bool {
        self.space().is_none_or(|space| space.available >= len)
    }

    fn space(&self) -> Option<Space> {
        space(&self.directory)
    }

    fn room(&self) -> Option<u64> {
        let below = self.limits.max_bytes.map(|most| most.saturating_sub(self.bytes));
        self.free(0).into_iter().chain(below).min()
    }

    /// Bytes of the disk beyond the share to keep free, if `besides` more bytes were free.
    fn free(&self, besides: u64) -> Option<u64> {
        let space = self.space()?;
        let share = self.limits.min_free.unwrap_or(0.0);
        Some(space.available.saturating_add(besides).saturating_sub(reserve(space, share)))
    }

    fn delete_older(&mut self, age: std::time::Duration, now: Now) -> Result<()> {
        // Compares ages in order of numbers: the clock may have jumped in between.
        let is_old = |kept: &Kept| self.clock.age(kept.written, now) > age;
        let old: Vec<u64> =
            self.kept.iter().filter(|(_, kept)| is_old(kept)).map(|(number, _)| *number).collect();
        for number in old {
            self.delete(number)?;
        }
        Ok(())
    }

    /// False if no segment may be deleted.
    fn delete_oldest(&mut self) -> Result<bool> {
        let mut from = 0;
        while let Some((&number, _)) = self.kept.range(from..).next() {
            if self.delete(number)? {
                return Ok(true);
            }
            from = number + 1;
        }
        Ok(false)
    }

    /// False if it is pinned.
    fn delete(&mut self, number: u64) -> Result<bool> {
        let Some(kept) = self.kept.get_mut(&number) else { return Ok(false) };
        let deletion = self.directory.delete(&kept.name)?;
        kept.is_pinned = deletion == Deletion::Pinned;
        match deletion {
            Deletion::Pinned => return Ok(false),
            Deletion::Deleted(_) => {
                self.deleted += 1;
                self.deleted_bytes += kept.bytes;
            }
            // Another process deleted it.
            Deletion::Missing => {}
        }
        self.bytes -= kept.bytes;
        self.kept.remove(&number);
        Ok(true)
    }
}

/// `None` if the file system reports no space, such as tmpfs without a limit, which reports 0.
pub(super) fn space(directory: &Directory) -> Option<Space> {
    disk::space(directory).ok().filter(|space| space.total > 0)
}

pub(super) fn reserve(space: Space, share: f64) -> u64 {
    (space.total as f64 * share) as u64
}
