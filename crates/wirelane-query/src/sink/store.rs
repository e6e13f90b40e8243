//! Stores complete files, on a separate thread. While the store is unreachable, files wait within a
//! limit.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tokio::runtime::{Builder, Runtime};
use wirelane::{Error, Result};

use super::counts::SinkCounts;
use super::partitions::FinishedFile;
use crate::stores::{self, OpenedStore};

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

/// The sending end.
pub(crate) struct StoreSink {
    files: Sender<FinishedFile>,
    thread: JoinHandle<()>,
    shared: Arc<UploadProgress>,
    limit: usize,
    patience: Duration,
}

#[derive(Default)]
struct UploadProgress {
    counts: Mutex<SinkCounts>,
    /// Bytes of files that are not stored yet.
    waiting: AtomicUsize,
    /// When to give up. Set after the last file.
    deadline: Mutex<Option<Instant>>,
}

impl StoreSink {
    /// At most `limit` bytes wait, at the end for at most `patience`. Messages name the store
    /// `name`; without a name, none are printed.
    pub(crate) fn start(
        opened: OpenedStore,
        name: Option<String>,
        limit: usize,
        patience: Duration,
    ) -> Result<Self> {
        let (files, incoming) = channel();
        let shared = Arc::new(UploadProgress::default());
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::io("network", "epoll_create", error))?;
        let worker = UploadWorker { opened, name, runtime, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || worker.run(&incoming))
            .map_err(|error| Error::io("a thread", "clone", error))?;
        Ok(Self { files, thread, shared, limit, patience })
    }

    /// Queues a file. If it has no room, its rows are lost. A single file always has room.
    pub(crate) fn put(&self, file: FinishedFile) {
        let (size, rows) = (file.bytes.len(), file.rows);
        let waiting = self.shared.waiting.fetch_add(size, Ordering::Relaxed);
        let has_room = waiting == 0 || waiting + size <= self.limit;
        if !has_room || self.files.send(file).is_err() {
            self.shared.waiting.fetch_sub(size, Ordering::Relaxed);
            self.shared.counts().lost += rows;
        }
    }

    /// Waits for the store and returns the counts of all files.
    pub(crate) fn finish(self) -> SinkCounts {
        let Self { files, thread, shared, patience, .. } = self;
        *shared.deadline() = Some(Instant::now() + patience);
        drop(files);
        // The counts are valid even if the thread panicked.
        let _ = thread.join();
        shared.counts().clone()
    }
}

impl UploadProgress {
    fn counts(&self) -> MutexGuard<'_, SinkCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadline(&self) -> MutexGuard<'_, Option<Instant>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a file was not stored.
struct UploadFailure {
    cause: String,
    /// A retry fails too, unless an administrator changes the store.
    is_refusal: bool,
}

struct UploadWorker {
    opened: OpenedStore,
    /// The user's name of the store; `None` prints no messages.
    name: Option<String>,
    runtime: Runtime,
    shared: Arc<UploadProgress>,
}

impl UploadWorker {
    fn run(self, files: &Receiver<FinishedFile>) {
        while let Ok(file) = files.recv() {
            let size = file.bytes.len();
            let outcome = self.deliver(&file);
            self.shared.waiting.fetch_sub(size, Ordering::Relaxed);
            let mut counts = self.shared.counts();
            if outcome {
                counts.rows += file.rows;
                counts.files += 1;
                counts.bytes += size as u64;
            } else {
                counts.lost += file.rows;
            }
        }
    }

    /// Tries until the store takes the file; `false` after the deadline. After a refusal, it gives
    /// up once `finish` is called. Until then, an administrator may grant access.
    fn deliver(&self, file: &FinishedFile) -> bool {
        let path = Path::from_iter(
            self.opened.prefix.parts().chain(Path::from(file.path.as_str()).parts()),
        );
        let (mut pause, mut has_failed) = (PAUSES[0], false);
        loop {
            let Err(failure) = self.attempt(&path, file) else {
                if has_failed {
                    self.tell("takes files again");
                }
                return true;
            };
            let mut counts = self.shared.counts();
            counts.failures += 1;
            counts.failure = Some(failure.cause.clone());
            drop(counts);
            let gives_up = || self.is_late() || failure.is_refusal && self.remaining().is_some();
            if gives_up() {
                return false;
            }
            if !has_failed {
                has_failed = true;
                self.tell(&format!("{}; files wait", failure.cause));
            }
            let end = Instant::now() + pause;
            while Instant::now() < end {
                if gives_up() {
                    return false;
                }
                thread::sleep(Duration::from_millis(20));
            }
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    fn tell(&self, what: &str) {
        if let Some(name) = &self.name {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "wirelane-query: {name}: {what}");
        }
    }

    fn attempt(&self, path: &Path, file: &FinishedFile) -> Result<(), UploadFailure> {
        self.runtime.block_on(async {
            let put = self.opened.store.put(path, file.bytes.clone().into());
            let limit = attempt_limit(self.remaining());
            match tokio::time::timeout(limit, put).await {
                Ok(outcome) => outcome.map(|_| ()).map_err(|error| UploadFailure {
                    cause: stores::explain(&error),
                    is_refusal: stores::is_refusal(&error),
                }),
                Err(_) => {
                    let cause = format!("no answer within {} s", limit.as_secs());
                    Err(UploadFailure { cause, is_refusal: false })
                }
            }
        })
    }

    fn is_late(&self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    fn remaining(&self) -> Option<Duration> {
        let deadline = *self.shared.deadline();
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// The limit of an attempt: clients of object stores retry for minutes.
fn attempt_limit(left: Option<Duration>) -> Duration {
    const USUAL: Duration = Duration::from_secs(120);
    const LEAST: Duration = Duration::from_secs(1);
    left.map_or(USUAL, |left| left.clamp(LEAST, USUAL))
}
