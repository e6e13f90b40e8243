//! Reads a whole store, reports damage, and repairs segments of a crashed recorder and lost or
//! damaged indexes.

use std::fs::File;
use std::ops::ControlFlow;

use crate::directory::{Directory, SegmentEntry};
use crate::error::{Error, Result};
use crate::files::OpenedFile;
use crate::index::Index;
use crate::mend::{self, Mended, mend_prelude, write_index};
use crate::names::SegmentName;
use crate::query::Damage;
use crate::scan::{GapKind, ReadAt};
use crate::survey::{Survey, survey};

/// Bytes of an index that are compared at a time.
const CHUNK: usize = 64 << 10;

/// The result of checking a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of segments read.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of their undamaged extents.
    pub extents: u64,
    /// Packets in the undamaged extents.
    pub packets: u64,
    /// Repairs made.
    pub mended: Vec<Mended>,
    /// Damage that remains.
    pub damage: Vec<Damage>,
    /// Repairs that failed, because the system refused.
    pub failed: Vec<String>,
    /// Why no repairs were made: for example, a recorder is running.
    pub only_looked: Option<String>,
    /// Number of segments being written, which were not checked.
    pub being_written: u64,
}

/// Reads every segment of a store. Repairs segments of a crashed recorder, damaged preludes, and
/// lost or damaged indexes, unless a recorder is running or the store is read-only. `each` is
/// called after each segment, and may stop the check.
///
/// # Errors
/// The system refuses.
pub fn check(
    directory: &Directory,
    mut each: impl FnMut(&SegmentName, &CheckReport) -> ControlFlow<()>,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let lock = match directory.lock_recorder(directory.access()) {
        Ok(lock) => Some(lock),
        Err(error) => {
            report.only_looked = Some(error.to_string());
            None
        }
    };
    if let Some(lock) = &lock {
        let mended = mend::mend(directory, lock)?;
        (report.mended, report.failed) = (mended.mended, mended.failed);
    }
    let mending = if lock.is_some() { Mending::All } else { Mending::Nothing };
    for entry in directory.segments()? {
        check_segment(directory, &entry, mending, &mut report)?;
        if each(&entry.name, &report).is_break() {
            break;
        }
    }
    Ok(report)
}

/// Rebuilds indexes that are lost, damaged or of other segments. A recorder may run at the same
/// time.
///
/// # Errors
/// The system refuses.
pub fn reindex(
    directory: &Directory,
    mut each: impl FnMut(&SegmentName, &CheckReport) -> ControlFlow<()>,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    for entry in directory.segments()? {
        check_segment(directory, &entry, Mending::Indexes, &mut report)?;
        if each(&entry.name, &report).is_break() {
            break;
        }
    }
    Ok(report)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mending {
    Nothing,
    Indexes,
    All,
}

fn check_segment(
    directory: &Directory,
    entry: &SegmentEntry,
    mending: Mending,
    report: &mut CheckReport,
) -> Result<()> {
    if entry.name.is_part() && mending != Mending::All {
        report.being_written += 1;
        return Ok(());
    }
    if let OpenedFile::Irregular(kind) = directory.open_any_kind(&entry.name.file_name())? {
        let path = directory.path_of(&entry.name.file_name());
        let what = format!("the segment is {kind}, not a regular file").into();
        report.damage.push(Damage { path, offset: 0, what });
        return Ok(());
    }
    let Some((name, file)) = directory.open_segment(&entry.name)? else { return Ok(()) };
    let path = directory.path_of(&name.file_name());
    let survey = survey(&name, path.clone(), file)?;
    report.segments += 1;
    report.bytes += survey.scan.size;
    report.extents += survey.whole.len() as u64;
    report.packets += survey.packets;
    for gap in &survey.scan.gaps {
        if gap.kind == GapKind::Prelude && mending == Mending::All {
            let failed = |error: std::io::Error| Error::io(&path, "mend", &error);
            let Some(writable) = directory.open_writable(&name.file_name())? else { continue };
            let notes = mend_prelude(&survey.scan, &writable, &name).map_err(failed)?;
            report.mended.extend(notes.into_iter().map(|what| Mended { path: path.clone(), what }));
            continue;
        }
        let (path, what) = (path.clone(), gap.kind.describe());
        report.damage.push(Damage { path, offset: gap.offset, what });
    }
    report.damage.extend(survey.bad.iter().map(|(_, damage)| damage.clone()));
    report.damage.extend(survey.odd.iter().cloned());
    if name.is_part() {
        // It could not be repaired, because it has no readable prelude or extent.
        return Ok(());
    }
    check_index(directory, &name, survey, mending, report)
}

/// Compares the index with a new one.
fn check_index(
    directory: &Directory,
    name: &SegmentName,
    survey: Survey,
    mending: Mending,
    report: &mut CheckReport,
) -> Result<()> {
    let index_name = name.index_name();
    let path = directory.path_of(&index_name);
    let found = directory.open_any_kind(&index_name)?;
    let id = survey.scan.segment;
    if !survey.is_whole() {
        // An index from before the damage has more entries than a new index would have. Without an
        // index, every query scans the segment and reports the damage.
        let of = match found {
            OpenedFile::Missing => return Ok(()),
            OpenedFile::Irregular(_) => None,
            OpenedFile::File(file) => {
                Index::from_file(file, &path).map(|index| index.segment()).ok()
            }
        };
        if of.is_none() || of != id {
            let what =
                "the index is damaged, too; only an undamaged segment can be reindexed".into();
            report.damage.push(Damage { path, offset: 0, what });
        }
        return Ok(());
    }
    let index = survey.into_index();
    let failed = |error: std::io::Error| Error::io(&path, "read", &error);
    let what = match &found {
        OpenedFile::File(file) if holds(file, &index).map_err(failed)? => return Ok(()),
        OpenedFile::File(_) => "the index is damaged, or of another segment",
        OpenedFile::Irregular(_) => "the index is not a regular file",
        OpenedFile::Missing => "the index is missing",
    };
    if mending == Mending::Nothing {
        report.damage.push(Damage { path, offset: 0, what: what.into() });
        return Ok(());
    }
    write_index(directory, name, &index)?;
    if !directory.exists(&name.file_name())? {
        // The recorder has deleted the segment since.
        directory.remove(&index_name)?;
        return Ok(());
    }
    report.mended.push(Mended { path, what: format!("{what}: made anew") });
    Ok(())
}

/// Whether a file holds exactly these bytes. Reads no more than necessary.
fn holds(file: &File, bytes: &[u8]) -> std::io::Result<bool> {
    if file.size()? != bytes.len() as u64 {
        return Ok(false);
    }
    let mut chunk = vec![0; CHUNK];
    for (at, part) in (0..).step_by(CHUNK).zip(bytes.chunks(CHUNK)) {
        let len = file.read_at(&mut chunk, at)?.min(part.len());
        if chunk.get(..len) != Some(part) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
