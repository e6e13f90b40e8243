//! Who may read what is written: packets hold what people send each other.

use std::io;

use crate::system::{AsFd, set_access};

/// Permissions of new files, on Unix. Without more, only the owner reads and writes them, whatever the
/// umask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permissions of a file; without them, 0600, or 0640 if there is a group.
    pub mode: Option<u32>,
    /// The number of the group that files belong to; without it, that of the process.
    pub group: Option<u32>,
}

impl Access {
    /// What a file has until [`Access::apply`] has done its work: nobody else has opened it by
    /// then.
    pub const OWNER: u32 = 0o600;

    /// Permissions of a file.
    #[must_use]
    pub fn file_mode(self) -> u32 {
        self.mode.unwrap_or(if self.group.is_some() { 0o640 } else { Self::OWNER })
    }

    /// Permissions of a directory of such files: who may read them may list it.
    #[must_use]
    pub fn directory_mode(self) -> u32 {
        let file = self.file_mode();
        0o700 | (file & 0o077) | ((file & 0o044) >> 2)
    }

    /// Whether a file has to be changed after it was created with [`Access::OWNER`].
    #[must_use]
    pub fn is_told(self) -> bool {
        self != Self::default()
    }

    /// Gives a file to the group, and these permissions.
    ///
    /// # Errors
    /// As of fchown(2) and fchmod(2): the user is not in the group, or not the owner.
    pub fn apply(self, file: impl AsFd) -> io::Result<()> {
        set_access(file, self.group, self.file_mode())
    }

    /// As [`Access::apply`], for a directory.
    ///
    /// # Errors
    /// As there.
    pub fn apply_to_directory(self, directory: impl AsFd) -> io::Result<()> {
        set_access(directory, self.group, self.directory_mode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_can_be_listed_by_who_reads_files() {
        for (mode, group, file, directory) in [
            (None, None, 0o600, 0o700),
            (None, Some(7), 0o640, 0o750),
            (Some(0o644), None, 0o644, 0o755),
            (Some(0o660), Some(7), 0o660, 0o770),
            (Some(0o600), Some(7), 0o600, 0o700),
        ] {
            let access = Access { mode, group };
            assert_eq!((access.file_mode(), access.directory_mode()), (file, directory));
        }
    }
}
