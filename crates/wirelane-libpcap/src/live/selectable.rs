//! The descriptor for event loops: readable while packets are available.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use super::merge::RxMerger;
use super::watch::WaitDescriptor;

/// Watches the rings of a merge, and the time at which packets that wait for other rings may leave.
/// Rings with waiting packets are not watched, because they would stay readable.
pub(super) struct Selectable {
    watch: WaitDescriptor,
    /// The descriptor that is watched for each end.
    members: Vec<Option<RawFd>>,
}

impl Selectable {
    /// # Errors
    /// The process has no descriptor left.
    pub(super) fn new() -> wirelane_os::Result<Self> {
        Ok(Self { watch: WaitDescriptor::new()?, members: Vec::new() })
    }

    /// Updates the watched descriptors and the timer. Call it after each use of the merge.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn follow(&mut self, merge: &mut RxMerger) -> wirelane_os::Result<()> {
        if merge.has_frames() {
            return self.watch.arm(Some(Duration::ZERO));
        }
        let time = merge.pause();
        let mut unwatched = std::mem::take(&mut self.members);
        for (position, fd) in merge.descriptors() {
            let raw = Some(fd.as_raw_fd());
            if self.members.len() <= position {
                self.members.resize(position + 1, None);
            }
            match unwatched.get_mut(position) {
                Some(known) if *known == raw => *known = None,
                _ => self.watch.add(fd)?,
            }
            if let Some(member) = self.members.get_mut(position) {
                *member = raw;
            }
        }
        for fd in unwatched.into_iter().flatten() {
            self.watch.remove(fd)?;
        }
        self.watch.arm(time)
    }
}

impl AsFd for Selectable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
