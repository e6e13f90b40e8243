//! Threads that encode row groups in parallel. Their user waits while all of them are busy, and at
//! the end of a file.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use wirelane::{Error, Result};

/// With more threads, the input would be the bottleneck.
const MOST: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// The threads. Dropping waits for their work.
pub(crate) struct Encoders {
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Encoders {
    /// Starts a thread for each CPU, but at most `MOST`.
    pub(crate) fn start() -> Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        // No queue, to bound memory.
        let (jobs, incoming) = sync_channel::<Job>(0);
        let incoming = Arc::new(Mutex::new(incoming));
        let mut all = Self { jobs: Some(jobs), threads: Vec::new() };
        for number in 0..count {
            let incoming = Arc::clone(&incoming);
            let next = move || incoming.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let work = move || {
                while let Ok(job) = next() {
                    job();
                }
            };
            let thread = thread::Builder::new().name(format!("encoder-{number}")).spawn(work);
            all.threads.push(thread.map_err(|error| Error::io("a thread", "clone", error))?);
        }
        Ok(all)
    }

    /// Starts the work when a thread is free. The receiver gets its outcome.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (done, outcome) = sync_channel(1);
        let job = move || {
            // The receiver may be gone.
            let _ = done.send(work());
        };
        if let Some(jobs) = &self.jobs {
            // If all threads are gone, the receiver fails.
            let _ = jobs.send(Box::new(job));
        }
        outcome
    }
}

impl Drop for Encoders {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_begun_is_done() {
        let encoders = Encoders::start().unwrap();
        let outcomes: Vec<_> = (0..100).map(|number| encoders.begin(move || number * 2)).collect();
        let found: Vec<_> = outcomes.iter().map(|outcome| outcome.recv().unwrap()).collect();
        assert_eq!(found, (0..100).map(|number| number * 2).collect::<Vec<_>>());
    }
}
