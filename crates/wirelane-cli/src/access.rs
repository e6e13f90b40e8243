//! Options for the permissions of the files that a command writes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use clap::Args;
use wirelane::pcap::Access;
use wirelane::{Error, Result};

use crate::privilege;

/// Permissions of files.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AccessArgs {
    /// Give the files to this group (a name or GID), which may read them: 0640. Otherwise only you
    /// can: 0600
    #[arg(long, value_name = "GROUP", help_heading = "Output")]
    group: Option<String>,
    /// Permissions of the files, such as 0644, whatever the umask
    #[arg(long, value_name = "MODE", value_parser = mode, help_heading = "Output")]
    mode: Option<u32>,
}

impl AccessArgs {
    /// Looks up the group and returns the permissions.
    ///
    /// # Errors
    /// There is no such group.
    pub(crate) fn access(&self) -> Result<Access> {
        let group = self.group.as_deref().map(privilege::find_group).transpose()?;
        Ok(Access { mode: self.mode, group })
    }

    /// Each option, and whether it is given, for callers that refuse it without an output file.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [("--group", self.group.is_some()), ("--mode", self.mode.is_some())].into_iter()
    }
}

/// Creates or truncates a file. Only the user can read a new file unless `access` says otherwise.
///
/// # Errors
/// The file cannot be created.
pub(crate) fn create(path: &Path, access: Access) -> Result<File> {
    let failed = |error| Error::io(path.display().to_string(), "create", error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(Access::OWNER);
    let file = options.open(path).map_err(failed)?;
    if access.is_told() && file.metadata().map_err(failed)?.is_file() {
        access.apply(&file).map_err(failed)?;
    }
    Ok(file)
}

/// Octal permissions to read and write. The owner has both: a capture opens its files again.
fn mode(text: &str) -> Result<u32, String> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = is_octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| "write who may read and write in octal, such as 0640 or 0644".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_and_the_owner_may() {
        for (text, expected) in [("0600", 0o600), ("640", 0o640), ("0644", 0o644), ("00666", 0o666)]
        {
            assert_eq!(mode(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "0440", "0700", "0755", "1644", "4600", "0o644", "+600", "rw", "688"]
        {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
