//! Threads that encode row groups: neither who reads nor who writes waits for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use wirelane::{Error, Result};

/// More of them would wait for who reads.
const MOST: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// The threads. Dropping it waits for what they do.
pub(crate) struct Encoders {
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Encoders {
    /// One for each CPU that there is.
    pub(crate) fn start() -> Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        // Nothing piles up: memory is what the threads have at hand.
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

    /// Has it done, as soon as a thread is free; what comes of it will be received.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (done, outcome) = sync_channel(1);
        let job = move || {
            // Nobody may want it any more.
            let _ = done.send(work());
        };
        if let Some(jobs) = &self.jobs {
            // Without threads nothing is received, which is told then.
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
