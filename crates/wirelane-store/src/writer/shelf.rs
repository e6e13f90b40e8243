//! What a store holds, and what has to go.

use std::collections::BTreeMap;
use std::sync::Arc;

use wirelane_os::disk::{self, Space};

use super::age::{AgeClock, Now, Written};
use super::options::Limits;
use super::status::KeeperStatus;
use crate::directory::Directory;
use crate::error::Result;
use crate::names::SegmentName;
use crate::pin::Deletion;

/// The segments of a store and their limits.
pub(crate) struct Shelf {
    directory: Arc<Directory>,
    limits: Limits,
    /// Finished ones, and those that a crash left, by number.
    kept: BTreeMap<u64, Kept>,
    /// Those that are being written, and the bytes that they may take: they count as a whole.
    parts: BTreeMap<u64, u64>,
    bytes: u64,
    clock: AgeClock,
    deleted: u64,
    deleted_bytes: u64,
}

struct Kept {
    name: SegmentName,
    bytes: u64,
    written: Written,
    /// As far as is known: others pin and unpin.
    is_pinned: bool,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Only pinned segments and those that are being written are left.
    Limit,
    /// The same, for the share of the disk that stays free: others fill it.
    Free,
}

impl Shelf {
    /// The number of the next segment comes with it.
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
            // A file that a crash left may be as old as the clock says now.
            let written = Written::Real(name.times.map_or(now.real, |(_, newest)| newest));
            let is_pinned = entry.is_pinned;
            kept.insert(name.number, Kept { name, bytes, written, is_pinned });
        }
        let bytes = kept.values().map(|segment| segment.bytes).sum();
        let clock = AgeClock::new(now);
        let (deleted, deleted_bytes) = (0, 0);
        let parts = BTreeMap::new();
        let shelf = Self { directory, limits, kept, parts, bytes, clock, deleted, deleted_bytes };
        Ok((shelf, listing.next_number))
    }

    /// The most bytes that all segments can take, now that others take what they take; `None` where
    /// neither a limit nor the file system tells.
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

    /// A segment of at most so many bytes is being written from now on.
    pub(crate) fn begin(&mut self, number: u64, len: u64) {
        if self.parts.insert(number, len).is_none() {
            self.bytes += len;
        }
    }

    /// It is finished; without a name, it is gone.
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
        // It may have got its index later.
        let before = self.kept.remove(&number);
        let written = before.as_ref().map_or(Written::Boot(now.boot), |it| it.written);
        let is_pinned = before.as_ref().is_some_and(|it| it.is_pinned);
        self.bytes += bytes;
        self.bytes -= before.map_or(0, |it| it.bytes);
        if bytes > 0 {
            self.kept.insert(number, Kept { name, bytes, written, is_pinned });
        }
        Ok(())
    }

    /// Makes room for another segment of so many bytes, as far as a limit demands.
    pub(crate) fn make_room(
        &mut self,
        len: u64,
        now: Now,
    ) -> Result<std::result::Result<(), NoRoom>> {
        self.enforce(len, now)
    }

    /// Deletes what exceeds a limit.
    pub(crate) fn keep_limits(&mut self, now: Now) -> Result<std::result::Result<(), NoRoom>> {
        self.clock.tick(now);
        self.enforce(0, now)
    }

    /// Deletes the oldest segment because the disk is full; false if that is not wanted, or there
    /// is none. Whoever limits the age alone wants what is younger.
    pub(crate) fn sacrifice(&mut self) -> Result<bool> {
        if self.may_sacrifice() { self.delete_oldest() } else { Ok(false) }
    }

    fn may_sacrifice(&self) -> bool {
        self.limits.max_bytes.is_some() || self.limits.min_free.is_some()
    }

    /// What there is.
    pub(crate) fn status(&self) -> KeeperStatus {
        let oldest = self.kept.values().filter_map(|it| it.name.times).map(|(oldest, _)| oldest);
        KeeperStatus {
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

    /// Whether less stays free than is wanted, when so many bytes more are taken.
    fn lacks(&self, more: u64) -> bool {
        let Some(share) = self.limits.min_free else { return false };
        // Where the file system does not tell, there is nothing to keep.
        let Some(space) = self.space() else { return false };
        space.available < reserve(space, share).saturating_add(more)
    }

    /// Whether the disk has room for another segment of so many bytes, as far as it tells. Whoever
    /// reserves more than there is takes the last byte from all others for a moment.
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

    /// Bytes of the disk beyond those that stay free, if so many were free besides.
    fn free(&self, besides: u64) -> Option<u64> {
        let space = self.space()?;
        let share = self.limits.min_free.unwrap_or(0.0);
        Some(space.available.saturating_add(besides).saturating_sub(reserve(space, share)))
    }

    fn delete_older(&mut self, age: std::time::Duration, now: Now) -> Result<()> {
        // By number, not by time: the clock may have jumped in between.
        let is_old = |kept: &Kept| self.clock.age(kept.written, now) > age;
        let old: Vec<u64> =
            self.kept.iter().filter(|(_, kept)| is_old(kept)).map(|(number, _)| *number).collect();
        for number in old {
            self.delete(number)?;
        }
        Ok(())
    }

    /// False if there is none that may go.
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
            // Somebody else did.
            Deletion::Missing => {}
        }
        self.bytes -= kept.bytes;
        self.kept.remove(&number);
        Ok(true)
    }
}

/// `None` where the file system does not tell, as tmpfs without a limit, which says 0.
pub(super) fn space(directory: &Directory) -> Option<Space> {
    disk::space(directory).ok().filter(|space| space.total > 0)
}

pub(super) fn reserve(space: Space, share: f64) -> u64 {
    (space.total as f64 * share) as u64
}
