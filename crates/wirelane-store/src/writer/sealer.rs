//! Finishes segments, on a separate thread per lane. An index of a million keys takes a second;
//! neither writing nor the next segment waits for it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::fs::{RenameFlags, fsync, ftruncate, renameat, renameat_with};
use rustix::io::Errno;
use wirelane_os::clock;
use wirelane_pcap::Access;

use super::retention::RetentionRequest;
use super::segment::FinishedSegment;
use super::status::StoreStatus;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::names::SegmentName;
use crate::survey::survey;
use crate::threads::spawn;

/// The most indexes that wait to be finished, because each takes memory. Further segments are
/// indexed again later.
const WAITING: usize = 4;

/// The thread's handle. Dropping it waits until all segments are finished.
pub(crate) struct Sealer {
    segments: Option<Sender<FinishedSegment>>,
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's resources.
pub(crate) struct SealerParts {
    pub(crate) directory: Arc<Directory>,
    pub(crate) access: Access,
    pub(crate) retention: Sender<RetentionRequest>,
    pub(crate) status: Arc<StoreStatus>,
}

impl Sealer {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(parts: SealerParts) -> Result<Self> {
        let (segments, finished) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let thread = Some(spawn("wl-sealer", move || parts.run(finished, &left))?);
        Ok(Self { segments: Some(segments), waiting, thread })
    }

    /// Finishes a segment: gives it its final name and its index, or deletes it if it is empty.
    pub(crate) fn finish(&self, mut finished: FinishedSegment) {
        if finished.index.is_some() && self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            finished.index = None;
        }
        if let Some(segments) = &self.segments {
            // It fails only if the thread has ended; then the segment stays unfinished, as after a
            // crash.
            let _ = segments.send(finished);
        }
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.segments = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SealerParts {
    fn run(self, finished: Receiver<FinishedSegment>, waiting: &AtomicUsize) {
        let mut without_index = VecDeque::new();
        for segment in finished {
            let (number, index) = (segment.part.number, segment.index.is_some());
            let name = self.finish(segment, &mut without_index).unwrap_or_else(|error| {
                self.status.mishap(error.to_string());
                None
            });
            if index {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            let _ = self.retention.send(RetentionRequest::Finished { number, name });
            // Only while the lane keeps up, one segment at a time.
            if waiting.load(Ordering::Relaxed) <= 1
                && let Some(name) = without_index.pop_front()
            {
                self.index_anew(&name, &mut without_index);
            }
        }
        for name in std::mem::take(&mut without_index) {
            self.index_anew(&name, &mut without_index);
        }
    }

    /// Returns its name; `None` if it was empty and was deleted.
    fn finish(
        &self,
        finished: FinishedSegment,
        without_index: &mut VecDeque<SegmentName>,
    ) -> Result<Option<SegmentName>> {
        let part = finished.part.file_name();
        let path = self.directory.path_of(&part);
        if finished.extents == 0 {
            return self.directory.remove(&part).map(|_| None);
        }
        let failed = |action: &str, errno: Errno| Error::io(&path, action, &errno.into());
        ftruncate(&finished.file, finished.end).map_err(|it| failed("cut", it))?;
        fsync(&finished.file).map_err(|it| failed("write", it))?;
        let times = match finished.oldest <= finished.newest {
            true => (finished.oldest, finished.newest),
            // Without packets.
            false => (clock::realtime_ns(), clock::realtime_ns()),
        };
        let name = SegmentName { times: Some(times), ..finished.part };
        // The index is written before the rename, so that every reader of the segment finds its
        // index.
        let indexed = finished.index.map(|index| self.write_index(&name, &index.finish()));
        let (directory, to) = (self.directory.as_fd(), name.file_name());
        let renamed = match renameat_with(directory, &part, directory, &to, RenameFlags::NOREPLACE)
        {
            // A file system without this flag.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, &part, directory, &to),
            other => other,
        };
        renamed.map_err(|it| failed("rename", it))?;
        match indexed {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.status.mishap(error.to_string());
                without_index.push_back(name);
            }
            None => without_index.push_back(name),
        }
        Ok(Some(name))
    }

    /// Indexes a finished segment by reading it. Its index was dropped because too many were
    /// waiting, or because a write had failed. If there is no disk space, it is tried again.
    fn index_anew(&self, name: &SegmentName, without_index: &mut VecDeque<SegmentName>) {
        let path = self.directory.path_of(&name.file_name());
        let made = self.directory.open_file(&name.file_name()).and_then(|file| {
            // It may have been deleted since.
            let Some(file) = file else { return Ok(()) };
            let survey = survey(name, path.clone(), file)?;
            if !survey.is_whole() {
                let what = "differs from the data written to it: it gets no index";
                return Err(Error::new(path.display().to_string(), what));
            }
            self.write_index(name, &survey.into_index())?;
            let _ = self
                .retention
                .send(RetentionRequest::Finished { number: name.number, name: Some(*name) });
            Ok(())
        });
        let Err(error) = made else { return };
        if [Errno::NOSPC, Errno::DQUOT].iter().any(|it| error.errno() == Some(it.raw_os_error())) {
            without_index.push_back(*name);
        } else {
            self.status.mishap(error.to_string());
        }
    }

    /// Writes to a temporary name first, so that an incomplete index is never found.
    fn write_index(&self, name: &SegmentName, bytes: &[u8]) -> Result<()> {
        let index = name.index_name();
        let part = format!("{index}.part");
        let path = self.directory.path_of(&part);
        let failed = |error: io::Error| {
            let _ = self.directory.remove(&part);
            Error::io(&path, "write", &error)
        };
        let mut file = self.directory.create_anew(&part)?;
        file.write_all(bytes).and_then(|()| self.access.apply(&file)).map_err(failed)?;
        renameat(self.directory.as_fd(), &part, self.directory.as_fd(), &index)
            .map_err(|errno| failed(errno.into()))
    }
}
