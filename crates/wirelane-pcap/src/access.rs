//! Access rights of capture files: packets contain private communication.

use std::io;

use crate::system::{AsFd, set_access};

/// Permissions of new files, on Unix. By default, only the owner can read and write them, whatever
/// the umask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permissions of a file. The default is 0600, or 0640 with a group.
    pub mode: Option<u32>,
    /// The group ID of new files. The default is the group of the process.
    pub group: Option<u32>,
}

impl Access {
    /// Permissions at creation, until [`Access::apply`] sets the requested ones.
    pub const OWNER: u32 = 0o600;

    /// Permissions of a file.
    #[must_use]
    pub fn file_mode(self) -> u32 {
        self.mode.unwrap_or(if self.group.is_some() { 0o640 } else { Self::OWNER })
    }

    /// Permissions of a directory of such files: users that may read the files may list it.
    #[must_use]
    pub fn directory_mode(self) -> u32 {
        let file = self.file_mode();
        0o700 | (file & 0o077) | ((file & 0o044) >> 2)
    }

    /// Whether a file created with [`Access::OWNER`] needs other permissions or another group.
    #[must_use]
    pub fn is_told(self) -> bool {
        self != Self::default()
    }

    /// Sets the group and the permissions of a file.
    ///
    /// # Errors
    /// The errors of fchown(2) and fchmod(2): the user is not in the group, or not the owner.
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
