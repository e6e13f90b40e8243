//! Pins, which protect segments from deletion, and the deletion, which respects them.

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use wirelane_pcap::Access;

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::names::SegmentName;

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Deleted, which freed this number of bytes.
    Deleted(u64),
    /// It is pinned, and was not deleted.
    Pinned,
    /// It did not exist.
    Missing,
}

impl Directory {
    /// Protects a segment from deletion; false if it was deleted already.
    ///
    /// # Errors
    /// The system refuses.
    pub fn pin(&self, name: &SegmentName, access: Access) -> Result<bool> {
        let _lock = self.lock_set()?;
        if self.open_segment(name)?.is_none() {
            return Ok(false);
        }
        let pin = name.pin_name();
        let failed = |error: std::io::Error| Error::io(&self.path_of(&pin), "make", &error);
        let mut file = self.open_or_create(&pin)?;
        if self.has_other_names(&file, &pin)? {
            file = self.separate(&pin, |_| Ok(()))?;
        }
        access.apply(file).map_err(failed)?;
        Ok(true)
    }

    /// Removes the protection of a segment; false if it was not pinned.
    ///
    /// # Errors
    /// The system refuses.
    pub fn unpin(&self, name: &SegmentName) -> Result<bool> {
        let _lock = self.lock_set()?;
        self.remove(&name.pin_name())
    }

    /// Deletes a segment and its index, unless it is pinned. The caller must hold the recorder's
    /// lock.
    ///
    /// If another process holds the lock of the set for long, for example because it was stopped,
    /// the deletion proceeds after half a second: a full disk would be worse.
    ///
    /// # Errors
    /// The system refuses.
    pub fn delete(&self, name: &SegmentName) -> Result<Deletion> {
        let _lock = self.try_lock_set()?;
        if self.exists(&name.pin_name())? {
            return Ok(Deletion::Pinned);
        }
        let (file, index) = (name.file_name(), name.index_name());
        let bytes = self.disk_usage(&file)? + self.disk_usage(&index)?;
        // An index without a segment, as after a crash here, is cleaned up; a segment without an
        // index would be indexed again.
        let existed = self.remove(&file)?;
        self.remove(&index)?;
        Ok(if existed { Deletion::Deleted(bytes) } else { Deletion::Missing })
    }

    /// Deletes one file; false if there was none.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        match unlinkat(self, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io(&self.path_of(name), "delete", &errno.into())),
        }
    }
}
