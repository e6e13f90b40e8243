//! Threads that start and end together: one per queue of a running session.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirelane_os::event::Event;

use crate::error::{Error, Result};
use crate::memory;
use crate::placement::Placement;

/// A running group of threads. Dropping it waits for them.
pub struct Crew<T> {
    threads: Vec<JoinHandle<Option<T>>>,
    /// `None` if there never was a thread.
    running: Option<Arc<ThreadCount>>,
}

impl<T> Default for Crew<T> {
    fn default() -> Self {
        Self { threads: Vec::new(), running: None }
    }
}

impl<T: Send + 'static> Crew<T> {
    /// Starts a named thread for every job, pinned to the CPU of its index. When all threads are
    /// ready it calls `open`, and then starts the jobs.
    ///
    /// # Errors
    /// A thread cannot be started or pinned, or `open` fails. Then no job starts.
    pub fn start<J: FnOnce() -> T + Send + 'static>(
        jobs: Vec<(String, J)>,
        placement: &Placement,
        open: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        memory::ask_for_threads(jobs.len())?;
        let running = ThreadCount::new()?;
        // Created before the first thread, so that this thread cannot be taken for the last one.
        let endings: Vec<_> = jobs.iter().map(|_| running.one_more()).collect();
        let mut crew =
            Self { threads: Vec::new(), running: Some(running).filter(|_| !jobs.is_empty()) };
        let (report, reports) = mpsc::channel();
        // A thread whose starter is dropped ends without running its job.
        let mut starters = Vec::with_capacity(jobs.len());
        for ((position, (name, job)), ending) in jobs.into_iter().enumerate().zip(endings) {
            let (start, started) = mpsc::channel::<()>();
            let (report, placement) = (report.clone(), placement.clone());
            crew.threads.push(spawn(&name, move || {
                // There is no receiver for this report if starting another thread failed.
                let _ = report.send(placement.pin(position));
                let result = started.recv().ok().map(|()| job());
                drop(ending);
                result
            })?);
            starters.push(start);
        }
        reports.iter().take(starters.len()).collect::<Result<Vec<()>>>()?;
        open()?;
        for start in starters {
            // The thread waits for this message, so it still exists.
            let _ = start.send(());
        }
        Ok(crew)
    }
}

impl<T> Crew<T> {
    /// Waits until no job runs, at most `timeout`; true if none does.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.running.as_ref().is_none_or(|running| running.wait(timeout))
    }

    /// A descriptor that is readable after all jobs have ended; `None` if there never was one.
    pub(crate) fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.ended.as_fd())
    }

    /// Waits for the end of all jobs. Adds their return values to `results`, and an error to
    /// `errors` for each job that panicked.
    pub fn join(&mut self, results: &mut Vec<T>, errors: &mut Vec<Error>) {
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(_) => errors.push(Error::failed("a thread of a queue", "panicked: a defect")),
            }
        }
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        self.join(&mut Vec::new(), &mut Vec::new());
    }
}

/// The number of running threads, and the event of their end.
pub(crate) struct ThreadCount {
    left: AtomicUsize,
    ended: Event,
}

impl ThreadCount {
    /// No threads yet.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self { left: AtomicUsize::new(0), ended: Event::new()? }))
    }

    /// Counts a thread before it starts. Another one must not have been the last before.
    pub(crate) fn one_more(self: &Arc<Self>) -> RunningThread {
        self.left.fetch_add(1, Ordering::Relaxed);
        RunningThread(Arc::clone(self))
    }

    /// Waits until no thread runs, at most `timeout`; true if none does.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        self.left.load(Ordering::Acquire) == 0 || self.ended.wait(timeout)
    }
}

/// One of the running threads; it counts as running until this is dropped, also by a panic.
pub(crate) struct RunningThread(Arc<ThreadCount>);

impl Drop for RunningThread {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.happen();
        }
    }
}

/// Starts a thread of this name.
///
/// # Errors
/// The system has no room for it.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    memory::ask_for_threads(1)?;
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|error| Error::io(format!("thread {name}"), "clone", error))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn jobs_begin_after_the_port_is_open() {
        let open = Arc::new(AtomicU32::new(0));
        let job = |_| {
            let open = Arc::clone(&open);
            ("job".to_owned(), move || open.load(Ordering::SeqCst))
        };
        let jobs = (0..4).map(job).collect();
        let opened = || {
            open.store(7, Ordering::SeqCst);
            Ok(())
        };
        let mut crew = Crew::start(jobs, &Placement::default(), opened).unwrap();
        assert!(crew.wait(Duration::from_secs(60)));
        let (mut results, mut errors) = (Vec::new(), Vec::new());
        crew.join(&mut results, &mut errors);
        assert_eq!((results, errors.len()), (vec![7; 4], 0));
    }

    #[test]
    fn no_job_begins_if_the_port_refuses() {
        let begun = Arc::new(AtomicU32::new(0));
        let job = |_| {
            let begun = Arc::clone(&begun);
            ("job".to_owned(), move || begun.fetch_add(1, Ordering::SeqCst))
        };
        let refuse = || Err(Error::failed("port", "refuses"));
        let jobs = (0..3).map(job).collect();
        assert!(Crew::start(jobs, &Placement::default(), refuse).is_err());
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_panic_ends_a_job_as_well() {
        let jobs = vec![("job".to_owned(), || panic!("on purpose"))];
        let mut crew: Crew<()> = Crew::start(jobs, &Placement::default(), || Ok(())).unwrap();
        assert!(crew.wait(Duration::from_secs(60)));
        let mut errors = Vec::new();
        crew.join(&mut Vec::new(), &mut errors);
        assert_eq!(errors.len(), 1);
    }
}
