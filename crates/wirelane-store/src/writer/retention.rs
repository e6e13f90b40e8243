//! The retention thread of a store: it prepares segments in advance, and deletes the oldest ones
//! to keep the limits.
//!
//! It also reserves the blocks of the next segment, which is no longer than the free space allows.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane_pcap::{Access, CompressionOptions, FrameCompressor, Section, Source, pcapng};

use super::age::Now;
use super::options::{StoreOptions, fitting_len};
use super::segment::PreparedSegment;
use super::status::{ShortSegments, StoreStatus, Who};
use super::stored_segments::{NoRoom, StoredSegments};
use crate::directory::{Directory, random_number};
use crate::disk::{self, Buffers, DirectWriter};
use crate::error::{Error, Result};
use crate::names::SegmentName;
use crate::prelude::{self, MAX_PRELUDE};

/// How often limits are checked.
const PERIOD: Duration = Duration::from_secs(1);
/// The delay before another attempt to create a segment.
const RETRY: Duration = Duration::from_millis(250);

/// Requests of lanes to the retention thread.
pub(crate) enum RetentionRequest {
    /// A lane needs its next segment.
    Open(Arc<LaneProperties>),
    /// A segment is finished, or has its index only now. It has no name if it was empty and was
    /// deleted, or if finishing it failed.
    Finished { number: u64, name: Option<SegmentName> },
    /// A lane has ended, and does not need the segments that it requested.
    End { lane: u32, next: Option<PreparedSegment>, ready: Receiver<PreparedSegment> },
}

/// The properties of a lane's segments.
#[derive(Debug)]
pub(crate) struct LaneProperties {
    pub(crate) lane: u32,
    /// The section header of each segment.
    pub(crate) section: Arc<Section>,
    pub(crate) compression: Option<CompressionOptions>,
    /// The number of sources that the prelude describes.
    pub(crate) sources: usize,
    /// The first blocks of each segment, compressed if the segment is.
    pub(crate) prelude: Vec<u8>,
    /// Their length before compression.
    pub(crate) plain: usize,
    pub(crate) ready: Sender<PreparedSegment>,
    /// The thread that waits for it.
    pub(crate) thread: Thread,
}

impl LaneProperties {
    /// A copy for segments that describe these sources.
    ///
    /// # Errors
    /// Compression fails.
    pub(crate) fn describing(&self, sources: &[Source]) -> Result<Self> {
        let mut blocks = Vec::new();
        pcapng::section_header(&mut blocks, &self.section);
        for source in sources {
            pcapng::interface(&mut blocks, source);
        }
        let plain = blocks.len();
        let prelude = match self.compression {
            None => blocks,
            Some(options) => {
                let failed = |error: io::Error| Error::new("compression", error.to_string());
                let mut compressor = FrameCompressor::new(options).map_err(failed)?;
                let mut frame = vec![0; compressor.bound(plain)];
                let len = compressor.compress(&blocks, &mut frame).map_err(failed)?;
                frame.truncate(len);
                frame
            }
        };
        let (section, ready) = (Arc::clone(&self.section), self.ready.clone());
        let (sources, thread) = (sources.len(), self.thread.clone());
        Ok(Self { section, sources, prelude, plain, ready, thread, ..*self })
    }
}

/// The thread's state.
pub(crate) struct Retention {
    directory: Arc<Directory>,
    access: Access,
    options: StoreOptions,
    segments: StoredSegments,
    next_number: u64,
    requests: Receiver<RetentionRequest>,
    waiting: Vec<Arc<LaneProperties>>,
    status: Arc<StoreStatus>,
    /// Memory for writing preludes.
    memory: Buffers,
}

impl Retention {
    /// # Errors
    /// The directory cannot be read, or there is not enough memory.
    pub(crate) fn new(
        directory: Arc<Directory>,
        access: Access,
        options: StoreOptions,
        requests: Receiver<RetentionRequest>,
        status: Arc<StoreStatus>,
    ) -> Result<Self> {
        let limits = options.limits;
        let (segments, next_number) =
            StoredSegments::new(Arc::clone(&directory), limits, Now::read())?;
        let memory = Buffers::new(1, MAX_PRELUDE).map_err(Error::os)?;
        let waiting = Vec::new();
        let retention = Self {
            directory,
            access,
            options,
            segments,
            next_number,
            requests,
            waiting,
            status,
            memory,
        };
        retention.publish();
        Ok(retention)
    }

    /// Runs until all lanes have ended.
    pub(crate) fn run(mut self) {
        let mut looked = Instant::now();
        loop {
            let pause = if self.waiting.is_empty() { PERIOD } else { RETRY };
            match self.requests.recv_timeout(pause) {
                Ok(request) => self.handle(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.make_ready();
            if looked.elapsed() >= PERIOD {
                looked = Instant::now();
                self.keep_limits();
            }
            self.publish();
        }
        self.keep_limits();
        self.publish();
        self.status.settled(Who::Retention);
    }

    fn handle(&mut self, request: RetentionRequest) {
        match request {
            RetentionRequest::Open(properties) => self.waiting.push(properties),
            RetentionRequest::Finished { number, name } => {
                if let Err(error) = self.segments.finish(number, name, Now::read()) {
                    self.status.mishap(error.to_string());
                }
            }
            RetentionRequest::End { lane, next, ready } => {
                self.waiting.retain(|properties| properties.lane != lane);
                for unused in next.into_iter().chain(ready.try_iter()) {
                    self.discard(&unused);
                }
            }
        }
    }

    /// Creates the segments that lanes wait for.
    fn make_ready(&mut self) {
        let mut trouble = None;
        for properties in std::mem::take(&mut self.waiting) {
            match self.make(&properties) {
                Ok(ready) => {
                    // A lane that has ended sends `End`.
                    if properties.ready.send(ready).is_ok() {
                        properties.thread.unpark();
                    }
                }
                Err(error) => {
                    trouble = Some(error.to_string());
                    self.waiting.push(properties);
                }
            }
        }
        match trouble {
            Some(text) => self.status.trouble(Who::Retention, &text),
            None => self.status.settled(Who::Retention),
        }
    }

    /// Creates a segment with its prelude.
    fn make(&mut self, properties: &LaneProperties) -> Result<PreparedSegment> {
        let len = self.segment_len();
        let room = self.segments.make_room(len, Now::read())?;
        room.map_err(|why| self.no_room(why))?;
        loop {
            match self.create(properties, len) {
                Ok(ready) => {
                    self.segments.begin(ready.name.number, len);
                    return Ok(ready);
                }
                Err(error) if !is_full(&error) || !self.segments.sacrifice()? => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Bytes of the next segment. Records in the status if it is shorter than configured.
    fn segment_len(&self) -> u64 {
        let (wanted, lanes) = (self.options.segment_len(), self.status.lanes());
        let Some(room) = self.segments.capacity() else { return wanted };
        let len = fitting_len(wanted, room, lanes);
        if len < wanted {
            let _ = self.status.short.set(ShortSegments { len, wanted, room, lanes });
        }
        len
    }

    fn create(&mut self, properties: &LaneProperties, limit: u64) -> Result<PreparedSegment> {
        let compression = self.options.compression.map(|options| options.compression);
        let name = SegmentName {
            times: None,
            lane: properties.lane,
            number: self.next_number,
            compression,
        };
        let file_name = name.file_name();
        let path = self.directory.path_of(&file_name);
        let id = random_number();
        let Some(prelude) =
            prelude::encode(&properties.prelude, properties.plain, id, name.is_compressed())
        else {
            return Err(Error::new(path.display().to_string(), "too many interfaces"));
        };
        let mode = self.access.file_mode();
        if !self.segments.fits(limit) {
            return Err(Error::io(&path, "make", &Errno::NOSPC.into()));
        }
        let made = disk::create(&*self.directory, file_name.as_ref(), mode, limit)
            .map_err(|error| Error::io(&path, "make", &error.source))?;
        // A number is used only once, even if the file is not created.
        self.next_number += 1;
        if let Err(why) = made.direct {
            let _ = self.status.buffered.set(why);
        }
        let start = prelude.len() as u64;
        let (file, sources) = (Arc::new(made.file), properties.sources);
        let ready = PreparedSegment { name, id, file, sources, start, limit };
        let written = self
            .access
            .apply(&*ready.file)
            .map_err(|error| Error::io(&path, "set the group of", &error))
            .and_then(|()| self.write(&ready, &prelude));
        written.inspect_err(|_| self.discard(&ready))?;
        Ok(ready)
    }

    fn write(&self, ready: &PreparedSegment, prelude: &[u8]) -> Result<()> {
        let path = self.directory.path_of(&ready.name.file_name());
        let mut writer = DirectWriter::blocking();
        let Some(mut buffer) = self.memory.take() else { return Ok(()) };
        if let Some(room) = buffer.get_mut(..prelude.len()) {
            room.copy_from_slice(prelude);
        }
        writer.write(&ready.file, buffer, prelude.len(), 0, 0);
        let done = writer.done(Duration::MAX).map_or(Ok(()), |done| done.result);
        done.map_err(|error| Error::io(&path, "write", &error.source))
    }

    /// Deletes an unused segment.
    fn discard(&mut self, ready: &PreparedSegment) {
        let removed = self.directory.remove(&ready.name.file_name());
        let gone = removed.and_then(|_| self.segments.finish(ready.name.number, None, Now::read()));
        if let Err(error) = gone {
            self.status.mishap(error.to_string());
        }
    }

    fn keep_limits(&mut self) {
        // A lack of room matters only when a segment is created.
        if let Err(error) = self.segments.keep_limits(Now::read()) {
            self.status.mishap(error.to_string());
        }
    }

    fn no_room(&self, why: NoRoom) -> Error {
        let object = self.directory.path().display().to_string();
        match why {
            NoRoom::Limit => Error::new(
                object,
                "its limit is reached, and all segments are pinned or being written",
            )
            .help("unpin some, or raise the limit"),
            NoRoom::Free => Error::new(
                object,
                "less of the disk is free than shall be, and all segments are pinned or being \
                 written",
            )
            .help("make room, or unpin some segments"),
        }
    }

    fn publish(&self) {
        *self.status.retention.lock().unwrap_or_else(PoisonError::into_inner) =
            self.segments.status();
    }
}

fn is_full(error: &Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| error.errno() == Some(errno.raw_os_error()))
}
