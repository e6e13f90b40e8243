//! The tables of one thread, which other threads may request while it counts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::tables::Tables;

/// The state of a counting thread.
pub(super) struct Teller {
    tables: Tables,
    asked: Arc<AtomicU64>,
    answered: u64,
    hand_over: mpsc::Sender<Tables>,
    threads: Arc<AtomicUsize>,
}

impl Teller {
    /// `tables` are empty. `asked` is the number of requests for the tables of all threads,
    /// `threads` the number of threads that still run.
    pub(super) fn new(
        tables: Tables,
        asked: &Arc<AtomicU64>,
        hand_over: &mpsc::Sender<Tables>,
        threads: &Arc<AtomicUsize>,
    ) -> Self {
        let (asked, threads) = (Arc::clone(asked), Arc::clone(threads));
        Self { tables, asked, answered: 0, hand_over: hand_over.clone(), threads }
    }

    #[inline]
    pub(super) fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Hands over the counts since the last request, if there is a new request.
    #[inline]
    pub(super) fn answer_if_asked(&mut self) {
        let asked = self.asked.load(Ordering::Acquire);
        if asked != self.answered {
            self.answered = asked;
            self.answer();
        }
    }

    /// Hands over the rest at the end of the thread.
    pub(super) fn finish(&mut self) {
        self.answer();
        self.threads.fetch_sub(1, Ordering::AcqRel);
    }

    fn answer(&mut self) {
        let next = self.tables.next();
        // The receiver may have been dropped.
        let _ = self.hand_over.send(std::mem::replace(&mut self.tables, next));
    }
}
