//! Locks of a store: one recorder at a time, and one change of the set of segments at a time.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use wirelane_pcap::Access;

use crate::directory::Directory;
use crate::disk::DirectWriter;
use crate::error::{Error, Result};
use crate::names::{RECORDER_LOCK, STORE_FILE};

/// How often a busy lock is tried: for half a second. Even a process that only tests a lock holds
/// it for an instant.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Held by the one process that records into a store, or repairs it. The kernel releases it when
/// the process has ended, and the writes that [keep it open](DirectWriter::keep_open) have
/// completed.
#[derive(Debug)]
pub struct RecorderLock(File);

impl RecorderLock {
    /// Keeps the lock until the last write of this writer has completed, too.
    pub(crate) fn outlast(&self, writer: &DirectWriter) -> Result<()> {
        writer.keep_open(&self.0).map_err(Error::os)
    }
}

/// Held by a process that changes the set of segments, or their pins.
#[derive(Debug)]
pub struct SetLock(#[allow(dead_code, reason = "closing it ends the lock")] File);

impl Directory {
    /// Locks the store for a recorder.
    ///
    /// # Errors
    /// Another process records into the store; the error names it. Or the system refuses.
    pub fn lock_recorder(&self, access: Access) -> Result<RecorderLock> {
        let path = self.path_of(RECORDER_LOCK);
        let failed = |action| move |error: std::io::Error| Error::io(&path, action, &error);
        let mut file = self.open_or_create(RECORDER_LOCK)?;
        let mut is_locked = self.try_lock_file(&file, TRIES)?;
        // Another process may have replaced the file.
        while is_locked && !self.is_named(&file, RECORDER_LOCK)? {
            file = self.open_or_create(RECORDER_LOCK)?;
            is_locked = self.try_lock_file(&file, TRIES)?;
        }
        if is_locked && self.has_other_names(&file, RECORDER_LOCK)? {
            // A process that waits for the old file will find the new one.
            file = self.separate(RECORDER_LOCK, |new| self.try_lock_file(new, 1).map(drop))?;
        }
        if !is_locked {
            let who = read_owner(&mut file)
                .map_or("another process".into(), |id| format!("process {id}"));
            let cause = format!("{who} records into it");
            let error = Error::new(self.path().display().to_string(), cause);
            return Err(
                error.help("a store has one recorder: stop that one, or give another directory")
            );
        }
        file.rewind()
            .and_then(|()| file.set_len(0))
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .and_then(|()| access.apply(&file))
            .map_err(failed("write"))?;
        Ok(RecorderLock(file))
    }

    fn try_lock_file(&self, file: &File, tries: u32) -> Result<bool> {
        let failed = |errno: Errno| Error::io(&self.path_of(RECORDER_LOCK), "lock", &errno.into());
        try_lock(file, tries).map_err(failed)
    }

    /// Whether a process records into the store now.
    ///
    /// # Errors
    /// The system refuses.
    pub fn is_recording(&self) -> Result<bool> {
        let Some(file) = self.open_file(RECORDER_LOCK)? else { return Ok(false) };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(Error::io(&self.path_of(RECORDER_LOCK), "lock", &errno.into())),
        }
    }

    /// Prevents other processes from changing the set of segments or their pins. Hold it only for
    /// an instant.
    ///
    /// # Errors
    /// Another process holds it for half a second, or the system refuses.
    pub fn lock_set(&self) -> Result<SetLock> {
        let path = self.path_of(STORE_FILE);
        match self.try_lock_set()? {
            Some(lock) => Ok(lock),
            None => {
                let error =
                    Error::new(path.display().to_string(), "another process holds its lock");
                Err(error.help("`lslocks` names it"))
            }
        }
    }

    /// Like [`Directory::lock_set`], but `None` if another process holds it, or if the directory
    /// has no store file.
    pub(crate) fn try_lock_set(&self) -> Result<Option<SetLock>> {
        let Some(file) = self.open_file(STORE_FILE)? else { return Ok(None) };
        let locked = try_lock(&file, TRIES)
            .map_err(|errno| Error::io(&self.path_of(STORE_FILE), "lock", &errno.into()))?;
        Ok(locked.then_some(SetLock(file)))
    }
}

fn try_lock(file: &File, tries: u32) -> std::result::Result<bool, Errno> {
    for i in 0..tries {
        if i > 0 {
            thread::sleep(PAUSE);
        }
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(false)
}

fn read_owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
