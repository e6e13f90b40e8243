//! Whether a program can be given a library.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid, getuid};
use wirelane::{Error, Result};

/// The file that execvp(3) would run; `None` leaves the error to that.
pub(super) fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    env::split_paths(&path).map(|directory| directory.join(name)).find(|path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    })
}

/// Refuses a program that would use the system's libpcap anyway.
///
/// # Errors
/// The program has more privileges than its user, or cannot load a library. The error says what to
/// do.
pub(super) fn check(path: &Path) -> Result<()> {
    match privilege(path) {
        Some(what) => Err(refuse(path, format!("it is {what}: the dynamic linker then takes no library from its user"))
            .help("run it as root, run a copy of it, or install the library for all programs (docs/libpcap.md)")),
        None => kind(&begin(path)).map_or(Ok(()), |what| {
            Err(refuse(path, what.to_owned()).help("use one that is linked with libpcap.so"))
        }),
    }
}

fn refuse(path: &Path, cause: String) -> Error {
    Error::usage(format!("program {}", path.display()), cause)
}

/// The mechanism that gives the program privileges which this process lacks (`AT_SECURE`,
/// `cap_bprm_creds_from_file`).
fn privilege(path: &Path) -> Option<&'static str> {
    const SET_UID: u32 = 0o4000;
    const SET_GID_AND_EXECUTABLE: u32 = 0o2010;
    let found = path.metadata().ok()?;
    if found.mode() & SET_UID != 0 && found.uid() != geteuid().as_raw() {
        return Some("set-user-ID");
    }
    let sets_group = found.mode() & SET_GID_AND_EXECUTABLE == SET_GID_AND_EXECUTABLE;
    if sets_group && found.gid() != getegid().as_raw() {
        return Some("set-group-ID");
    }
    let mut capabilities = [0_u8; 64];
    let has_some = rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok();
    (has_some && !getuid().is_root()).then_some("a program with file capabilities")
}

/// The first bytes.
fn begin(path: &Path) -> Vec<u8> {
    const ENOUGH: u64 = 64 << 10;
    let mut bytes = Vec::new();
    // An unreadable file passes the check.
    if let Ok(file) = File::open(path) {
        let _ = file.take(ENOUGH).read_to_end(&mut bytes);
    }
    bytes
}

/// Why an ELF program cannot load Wirelane's library (elf(5)); `None` if it can, and for a script.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    const INTERPRETER: u32 = 3;
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    const IS_64_BIT: bool = cfg!(target_pointer_width = "64");
    if bytes.get(4) != Some(&if IS_64_BIT { 2 } else { 1 }) {
        return Some("it is for another word size than the library");
    }
    if !IS_64_BIT {
        return None;
    }
    let half = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let table = u64::from_ne_bytes(bytes.get(32..40)?.try_into().ok()?);
    let table = bytes.get(usize::try_from(table).ok()?..)?;
    let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
    let mut headers = table.chunks_exact(size.max(4)).take(count);
    let has_linker = headers.any(|header| header.starts_with(&INTERPRETER.to_ne_bytes()));
    (!has_linker).then_some("it is linked statically, with a libpcap of its own if any")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_by_the_shell() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert!(shell.is_absolute() && check(&shell).is_ok());
        assert_eq!(find(OsStr::new("./here")), Some("./here".into()));
        assert_eq!(find(OsStr::new("no such program")), None);
        assert!(check(Path::new("/nonexistent")).is_ok());
    }

    #[test]
    fn programs_without_a_dynamic_linker_are_told() {
        let own = begin(&env::current_exe().unwrap());
        assert_eq!(kind(&own), None);
        assert_eq!(kind(b"#!/bin/sh\n"), None);
        let mut other = own.clone();
        other[4] ^= 3;
        assert!(kind(&other).unwrap().contains("word size"));
        let mut fixed = own;
        fixed[56..58].fill(0);
        assert!(kind(&fixed).unwrap().contains("statically"));
        for end in 0..200 {
            let _ = kind(&fixed[..end]);
        }
    }
}
