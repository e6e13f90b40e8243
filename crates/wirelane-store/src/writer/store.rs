//! The writer of a store, and the start of its threads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use wirelane_pcap::{Access, Source};

use super::hold::Hold;
use super::lane::{LaneParts, LaneWriter, Wakeup};
use super::lost::Lost;
use super::options::{DEPTH, LEAST_SEGMENT, StoreOptions};
use super::pack::ExtentPacker;
use super::retention::{LaneProperties, Retention, RetentionRequest};
use super::sealer::{Sealer, SealerParts};
use super::status::{StoreReport, StoreStatus};
use super::stored_segments::{reserve, space};
use super::worker::{LaneSegments, LaneWorker, WorkerState};
use crate::directory::Directory;
use crate::disk::{Buffers, DirectWriter, Mode};
use crate::error::{Error, Result};
use crate::extent::EXTENT_SIZE;
use crate::lock::RecorderLock;
use crate::mend::{MendReport, mend};
use crate::threads::spawn;

/// Writes a store through any number of [lanes](StoreWriter::lane). A store has one writer at a
/// time.
///
/// Dropping it waits until all lanes have ended and their packets are written.
pub struct StoreWriter {
    directory: Arc<Directory>,
    access: Access,
    options: StoreOptions,
    status: Arc<StoreStatus>,
    retention: Option<Sender<RetentionRequest>>,
    threads: Vec<JoinHandle<()>>,
    /// The retention thread, ended after all others.
    retention_thread: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    lanes: u32,
    lock: Option<RecorderLock>,
    mended: MendReport,
}

impl StoreWriter {
    /// Opens the store in this directory, and creates it if necessary.
    ///
    /// # Errors
    /// Impossible options, another process is writing it, or the system refuses.
    pub fn create(directory: &Path, options: StoreOptions) -> Result<Self> {
        options.check()?;
        let access = options.access;
        let directory = Arc::new(Directory::create(directory, access)?);
        let lock = directory.lock_recorder(access)?;
        let mended = mend(&directory, &lock)?;
        let status = Arc::new(StoreStatus::default());
        let (retention, requests) = channel();
        let thread = Retention::new(
            Arc::clone(&directory),
            access,
            options.clone(),
            requests,
            Arc::clone(&status),
        )?;
        let thread = spawn("wl-retention", move || thread.run())?;
        Ok(Self {
            directory,
            access,
            options,
            status,
            retention: Some(retention),
            threads: Vec::new(),
            retention_thread: Some(thread),
            closing: Arc::default(),
            lanes: 0,
            lock: Some(lock),
            mended,
        })
    }

    /// The repairs of a previous recorder's segments.
    #[must_use]
    pub fn mended(&self) -> &MendReport {
        &self.mended
    }

    /// Starts a lane for packets of these sources. `lost` is called for accepted packets that are
    /// not on disk at the end.
    ///
    /// # Errors
    /// Memory or threads run out, or the limits are too low for another lane.
    pub fn lane(&mut self, sources: &[Source], lost: Option<Lost>) -> Result<LaneWriter> {
        self.check_limits()?;
        let compression = self.options.compression;
        let layout = ExtentPacker::layout(compression)?;
        let count = self.options.buffers();
        let buffers = Buffers::new(count, EXTENT_SIZE).map_err(Error::os)?;
        let (full, filled) = sync_channel(count);
        let (ready, segments) = channel();
        let Some(retention) = self.retention.clone() else {
            return Err(Error::new("the store", "is closed"));
        };
        let number = self.lanes;
        let (start, started) = mpsc::channel::<LaneWorker>();
        // If its sender is dropped, the thread ends at once.
        let thread = spawn(&format!("wl-store-{number}"), move || {
            started.recv().map_or((), LaneWorker::run)
        })?;
        let store_thread = thread.thread().clone();
        self.threads.push(thread);
        let packer = ExtentPacker::start(compression, DEPTH, &store_thread)?;
        let disk =
            DirectWriter::with_rings(DEPTH, packer.room().unwrap_or(&buffers), &self.options.rings);
        if let Some(lock) = &self.lock {
            lock.outlast(&disk)?;
        }
        if let Mode::Blocking(Some(why)) | Mode::Unregistered(why) = disk.mode() {
            let _ = self.status.no_ring.set(why.to_string());
        }
        let sealer = Sealer::start(SealerParts {
            directory: Arc::clone(&self.directory),
            access: self.access,
            retention: retention.clone(),
            status: Arc::clone(&self.status),
        })?;
        let properties = LaneProperties {
            lane: number,
            section: Arc::new(self.options.section.clone()),
            compression,
            sources: 0,
            prelude: Vec::new(),
            plain: 0,
            ready,
            thread: store_thread.clone(),
        };
        let properties = properties.describing(sources)?;
        let described = properties.plain;
        let lane_status = self.status.add_lane();
        let wakeup = Arc::new(Wakeup::default());
        let time = self.options.segment_time();
        let status = Arc::clone(&lane_status);
        let segments =
            LaneSegments::new(Arc::new(properties), segments, retention, sealer, status, time);
        let worker = LaneWorker {
            full: filled,
            hold: Hold::new(self.options.pre_trigger.clone(), count),
            queue: Default::default(),
            packer,
            packed: Default::default(),
            segments,
            disk,
            lost,
            status: Arc::clone(&self.status),
            lane_status: Arc::clone(&lane_status),
            wakeup: Arc::clone(&wakeup),
            closing: Arc::clone(&self.closing),
            state: WorkerState::default(),
        };
        start.send(worker).map_err(|_| Error::new("a store thread", "ended"))?;
        self.lanes += 1;
        Ok(LaneWriter::new(LaneParts {
            buffers,
            full,
            sources: sources.into(),
            described,
            store_thread,
            status: lane_status,
            wakeup,
            pre_trigger: self.options.pre_trigger.clone(),
            layout,
            flush_every: self.options.flush_every,
        }))
    }

    /// The status, for any thread.
    #[must_use]
    pub fn status(&self) -> Arc<StoreStatus> {
        Arc::clone(&self.status)
    }

    /// Waits until all lanes have ended and their packets are written or lost, and returns the
    /// final report.
    #[must_use]
    pub fn finish(mut self) -> StoreReport {
        self.end();
        self.status.report()
    }

    /// Refuses another lane if two of the shortest segments of each lane can never fit: the current
    /// and the next one. Space that other files take now does not count, because they may be
    /// deleted.
    fn check_limits(&self) -> Result<()> {
        let limits = self.options.limits;
        let least = LEAST_SEGMENT * 2 * (u64::from(self.lanes) + 1);
        let disk = space(&self.directory).map(|space| {
            space.total.saturating_sub(reserve(space, limits.min_free.unwrap_or(0.0)))
        });
        let (most, what, help) = match (limits.max_bytes, disk) {
            (Some(most), _) if most < least => (most, "its limit", "raise the limit to that"),
            (_, Some(most)) if most < least => {
                (most, "the usable part of its disk", "keep less of it free, or use another disk")
            }
            _ => return Ok(()),
        };
        let cause = format!(
            "{most} bytes, {what}, are less than the {least} that two segments of each receiving \
             thread take"
        );
        Err(Error::new(self.directory.path().display().to_string(), cause).help(help))
    }

    fn end(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.retention = None;
        if let Some(thread) = self.retention_thread.take() {
            let _ = thread.join();
        }
        self.lock = None;
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        self.end();
    }
}
