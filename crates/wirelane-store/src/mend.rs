//! Finishes the segments of a recorder that died.
//!
//! The extents of such a segment remain, and damaged bytes become blocks that every reader skips.
//! Incompletely written bytes are cut off, or become padding.
//!
//! The next recorder and `record --check` mend a store: they cut a `.part` file behind its last
//! whole extent, index it, and give it its final name.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use rustix::fs::{Gid, Mode, RenameFlags, Uid, fchmod, fchown, renameat, renameat_with};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::extent::{EXTENT_ALIGNMENT, EXTENT_SIZE, Extent, ExtentHeader, Filler};
use crate::lock::RecorderLock;
use crate::names::{SegmentName, StoreFile};
use crate::prelude;
use crate::scan::{GapKind, ReadAt, Scan};
use crate::survey::{Survey, survey};

/// A disk writes a sector completely or not at all.
const SECTOR: usize = 512;

/// A repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The file.
    pub path: PathBuf,
    /// A description of the repair.
    pub what: String,
}

/// The result of [`mend`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MendReport {
    /// Repairs made.
    pub mended: Vec<Mended>,
    /// Repairs that the system refused.
    pub failed: Vec<String>,
}

/// Repairs the store of a recorder that died: finishes its segments with names and indexes, and
/// deletes indexes and pins without a segment. A segment without readable data remains unchanged.
///
/// # Errors
/// The directory cannot be listed.
pub fn mend(directory: &Directory, lock: &RecorderLock) -> Result<MendReport> {
    let mut report = MendReport::default();
    let listing = directory.list()?;
    for entry in listing.segments.iter().filter(|entry| entry.name.is_part()) {
        match finish(directory, lock, &entry.name) {
            Ok(mended) => report.mended.extend(mended),
            Err(error) => report.failed.push(error.to_string()),
        }
    }
    if let Err(error) = remove_orphans(directory, &mut report.mended) {
        report.failed.push(error.to_string());
    }
    Ok(report)
}

/// Finishes one segment, and returns its repairs.
fn finish(directory: &Directory, _lock: &RecorderLock, name: &SegmentName) -> Result<Vec<Mended>> {
    let path = directory.path_of(&name.file_name());
    let failed = |error: io::Error| Error::io(&path, "mend", &error);
    let mended = |what: String| Mended { path: path.clone(), what };
    let Some(file) = directory.open_file(&name.file_name())? else { return Ok(Vec::new()) };
    let survey = survey(name, path.clone(), file.try_clone().map_err(failed)?)?;
    if survey.scan.extents.is_empty() {
        let is_empty = survey
            .scan
            .gaps
            .iter()
            .all(|gap| matches!(gap.kind, GapKind::Prelude | GapKind::Unwritten));
        if !is_empty {
            return Ok(Vec::new());
        }
        directory.remove(&name.file_name())?;
        return Ok(vec![mended("deleted: the recorder had written no packets to it".into())]);
    }
    if survey.scan.prelude.is_none() {
        return Ok(Vec::new());
    }
    let Some(writable) = directory.open_writable(&name.file_name())? else {
        return Ok(Vec::new());
    };
    let holes = SegmentHoles::new(&survey, &file, name.is_compressed());
    let mut notes = mend_prelude(&survey.scan, &writable, name).map_err(failed)?;
    notes.extend(holes.fill(&writable, name.is_compressed()).map_err(failed)?);
    writable.set_len(holes.end).and_then(|()| writable.sync_all()).map_err(failed)?;

    let at = file.metadata().map_err(failed)?.mtime();
    let at = u64::try_from(at).unwrap_or(0).saturating_mul(1_000_000_000);
    let times = Some(survey.times().unwrap_or((at, at)));
    let finished = SegmentName { times, ..*name };
    let packets = survey.packets;
    // Without an index, each query scans the segment, and reports the damage that remains.
    if holes.is_clean && survey.odd.is_empty() {
        // On a full disk it has no index. The index can be built later.
        let written = write_index(directory, &finished, &survey.into_index());
        notes.extend(written.err().map(|error| format!("it has no index: {error}")));
    }
    rename(directory, &name.file_name(), &finished.file_name())?;
    notes.push(format!("finished: {packets} packets; now {}", finished.file_name()));
    Ok(notes.into_iter().map(mended).collect())
}

/// Rewrites the prelude, if one of its copies is damaged.
pub(crate) fn mend_prelude(
    scan: &Scan,
    file: &File,
    name: &SegmentName,
) -> io::Result<Vec<String>> {
    let is_damaged = scan.gaps.iter().any(|gap| gap.kind == GapKind::Prelude);
    let (Some((blocks, plain)), Some(segment), true) = (&scan.prelude, scan.segment, is_damaged)
    else {
        return Ok(Vec::new());
    };
    match prelude::encode(blocks, *plain, segment, name.is_compressed()) {
        Some(bytes) if bytes.len() as u64 == scan.start => {
            file.write_all_at(&bytes, 0)?;
            Ok(vec!["the damaged copy of the prelude was rewritten".into()])
        }
        _ => Ok(Vec::new()),
    }
}

/// Writes the index of a segment, with the segment's owner and permissions.
pub(crate) fn write_index(directory: &Directory, name: &SegmentName, bytes: &[u8]) -> Result<()> {
    let _lock = directory.try_lock_set()?;
    let (index, part) = (name.index_name(), format!("{}.part", name.index_name()));
    let path = directory.path_of(&index);
    let failed = |error: io::Error| Error::io(&path, "write", &error);
    let mut file = directory.create_anew(&part)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        directory.remove(&part)?;
        return Err(failed(error));
    }
    let part_of = SegmentName { times: None, ..*name };
    let segment = directory.open_file(&name.file_name())?;
    let segment = match segment {
        Some(segment) => Some(segment),
        None => directory.open_file(&part_of.file_name())?,
    };
    if let Some(meta) = segment.and_then(|segment| segment.metadata().ok()) {
        // If the process may not change the owner, only the group changes.
        let (user, group) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
        if fchown(&file, Some(user), Some(group)).is_err() {
            let _ = fchown(&file, None, Some(group));
        }
        let _ = fchmod(&file, Mode::from_raw_mode(meta.mode() & 0o777));
    }
    renameat(directory, &part, directory, &index).map_err(|errno| failed(errno.into()))
}

/// Deletes indexes and pins without a segment, and unfinished indexes.
fn remove_orphans(directory: &Directory, mended: &mut Vec<Mended>) -> Result<()> {
    let _lock = directory.try_lock_set()?;
    for orphan in directory.list()?.orphans {
        let (name, what) = match orphan {
            StoreFile::Index(name) => (name.index_name(), "an index without its segment"),
            StoreFile::IndexPart(name) => {
                (format!("{}.part", name.index_name()), "an index that was not finished")
            }
            StoreFile::Pin(lane, number) => {
                let name = SegmentName { times: None, lane, number, compression: None };
                (name.pin_name(), "a pin without its segment")
            }
            StoreFile::Segment(_) => continue,
        };
        if directory.remove(&name)? {
            let what = format!("deleted: {what}");
            mended.push(Mended { path: directory.path_of(&name), what });
        }
    }
    Ok(())
}

/// Renames a file without replacing another.
fn rename(directory: &Directory, from: &str, to: &str) -> Result<()> {
    let renamed = match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // A file system without rename flags.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, from, directory, to),
        other => other,
    };
    renamed.map_err(|errno| Error::io(&directory.path_of(from), "rename", &errno.into()))
}

/// The parts of a segment that are not whole extents.
struct SegmentHoles {
    /// Start and end of each part, and its filler.
    fill: Vec<(u64, u64, Filler)>,
    /// The new end of the segment.
    end: u64,
    /// Non-zero bytes after that end.
    cut: u64,
    /// Whether only the last writes are damaged.
    is_clean: bool,
}

impl SegmentHoles {
    fn new(survey: &Survey, file: &impl ReadAt, compressed: bool) -> Self {
        let ends = |extent: &Extent| extent.offset + extent.header.extent_len(compressed) as u64;
        // Where the content of an extent ends: its padding may be zeros.
        let content = |from: u64| {
            let extent = survey.bad.iter().map(|(extent, _)| extent).find(|one| one.offset == from);
            let used = extent.map_or(0, |extent| extent.header.payload as usize);
            from + (used + ExtentHeader::disk_len(compressed)).next_multiple_of(SECTOR) as u64
        };
        let mut holes: Vec<_> = survey
            .scan
            .gaps
            .iter()
            .filter(|gap| gap.offset >= survey.scan.start)
            .map(|gap| (gap.offset, gap.offset + gap.len, Some(&gap.kind)))
            .chain(survey.bad.iter().map(|(extent, _)| (extent.offset, ends(extent), None)))
            .collect();
        holes.sort_unstable_by_key(|hole| hole.0);
        let mut end = survey.whole.iter().map(ends).max().unwrap_or(survey.scan.start);
        let mut fill = Vec::new();
        for (from, to, kind) in holes {
            let filler = match kind {
                Some(GapKind::Unwritten | GapKind::Cut) => Filler::Padding,
                Some(GapKind::Mended | GapKind::Unreadable(_)) => Filler::Damage,
                // At the position of a header.
                Some(_) if has_zero_sector(file, from, from + SECTOR as u64) => Filler::Padding,
                Some(_) => Filler::Damage,
                None if has_zero_sector(file, from, content(from)) => Filler::Padding,
                None => Filler::Damage,
            };
            if filler == Filler::Damage {
                end = end.max(to);
            }
            fill.push((from, to, filler));
        }
        let cut =
            fill.iter().filter(|(from, ..)| *from >= end).map(|(from, to, _)| to - from).sum();
        fill.retain(|(from, ..)| *from < end);
        let is_clean = fill.iter().all(|(.., filler)| *filler == Filler::Padding);
        Self { fill, end: end.next_multiple_of(EXTENT_ALIGNMENT as u64), cut, is_clean }
    }

    fn fill(&self, file: &File, compressed: bool) -> io::Result<Vec<String>> {
        let mut notes = Vec::new();
        for (from, to, filler) in &self.fill {
            let mut at = *from;
            let to = to.next_multiple_of(EXTENT_ALIGNMENT as u64);
            while at < to {
                let len = (to - at).min(EXTENT_SIZE as u64);
                let (start, end) = filler.around(len as u32, compressed);
                file.write_all_at(&start, at)?;
                file.write_all_at(&end, at + len - end.len() as u64)?;
                at += len;
            }
            let what = match filler {
                Filler::Padding => "were not written completely: skipped from now on",
                Filler::Damage => "are damaged: kept, and skipped from now on",
            };
            notes.push(format!("{} bytes from byte {from} on {what}", to - from));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} bytes at its end were not written completely: cut off",
                self.cut
            ));
        }
        Ok(notes)
    }
}

/// Whether some of these bytes were never written: the file had zeros before, so a sector of zeros
/// shows it.
fn has_zero_sector(file: &impl ReadAt, from: u64, to: u64) -> bool {
    let mut at = from;
    let mut buffer = vec![0; 64 << 10];
    while at < to {
        let most = buffer.len().min((to - at) as usize);
        let Some(room) = buffer.get_mut(..most) else { return false };
        match file.read_at(room, at) {
            Ok(len) if len > 0 => {
                let (sectors, _) = room.get(..len).unwrap_or_default().as_chunks::<SECTOR>();
                if sectors.iter().any(|sector| sector.iter().all(|byte| *byte == 0)) {
                    return true;
                }
                at += len as u64;
            }
            _ => return false,
        }
    }
    false
}
