//! Closing a transmitting end: each frame that it has taken is sent or counted.
//!
//! A session ends in this order: the sources stop, the receive rings drain, then the transmitting
//! ends drain.

use std::thread;
use std::time::{Duration, Instant};

use super::tx::Tx;
use crate::error::Result;

/// How long dropping an end waits for its frames.
const FAREWELL: Duration = Duration::from_millis(200);
/// Pause between two flushes.
const RETRY: Duration = Duration::from_micros(100);

impl Tx {
    /// Sends the frames taken, and waits at most `timeout` until all of them have left. Returns the
    /// number of frames still pending.
    ///
    /// Dropping an end does the same for 200 ms and counts the rest as errors.
    ///
    /// # Errors
    /// As [`Tx::flush`]; frames that have not left are still [`Tx::pending`].
    pub fn drain(&mut self, timeout: Duration) -> Result<usize> {
        until_none(timeout, || self.flush().map(|()| self.pending()))
    }

    /// Closes the end: sends the frames taken, as dropping does, and counts the rest as errors.
    /// These may still be sent or not.
    pub(crate) fn close(&mut self) {
        // The first error may date from an earlier call that did not report it.
        if self.lost == 0 && self.drain(FAREWELL).is_err() {
            let _ = self.drain(FAREWELL);
        }
        self.give_up();
    }

    /// As [`Tx::close`], without further waiting.
    pub(crate) fn give_up(&mut self) {
        let left = self.pending();
        self.counters.give_up(left.saturating_sub(self.lost) as u64);
        self.lost = left;
    }
}

/// Flushes until nothing is pending, at most `timeout`; returns how much is pending.
///
/// # Errors
/// The errors of `flush`, which returns how much is pending.
pub(crate) fn until_none(
    timeout: Duration,
    mut flush: impl FnMut() -> Result<usize>,
) -> Result<usize> {
    let since = Instant::now();
    loop {
        let left = flush()?;
        if left == 0 || since.elapsed() >= timeout {
            return Ok(left);
        }
        thread::sleep(RETRY.min(timeout));
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::Error;
    use crate::frame::Batch;
    use crate::port::{OpenOptions, Port, Transmit, sim};
    use crate::stats::TxCounters;

    /// Keeps frames until it is flushed, as a segmenter does. Some flushes report an earlier
    /// failure.
    struct Late {
        inner: Box<dyn Transmit>,
        kept: Batch,
        failures: usize,
    }

    impl Transmit for Late {
        fn transmit(&mut self, batch: &mut Batch) -> usize {
            let taken = batch.len();
            self.kept.append(batch);
            taken
        }

        fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
            self.inner.allocate(batch, n)
        }

        fn flush(&mut self) -> Result<()> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(Error::failed("late", "failed before"));
            }
            self.inner.transmit(&mut self.kept);
            self.inner.flush()
        }

        fn pending(&self) -> usize {
            self.inner.pending() + self.kept.len()
        }

        fn wait(&mut self, timeout: Duration) -> Result<()> {
            self.inner.wait(timeout)
        }
    }

    /// An end that has taken 9 frames, and its port.
    fn end(failures: usize) -> (Tx, Arc<TxCounters>, Port) {
        let options = OpenOptions::default().receive(false).transmit(true);
        let mut sim = sim::open(&"sim:1".parse().unwrap(), &options).unwrap();
        let tx = sim.tx().unwrap().remove(0);
        let mut tx = tx.wrap(|inner, _| Late { inner, kept: Batch::new(64), failures });
        let mut batch = Batch::new(9);
        tx.allocate(&mut batch, 9);
        batch.iter_mut().for_each(|frame| assert!(frame.set_len(60)));
        assert_eq!((tx.transmit(&mut batch), tx.pending()), (9, 9));
        let counters = Arc::clone(tx.counters());
        (tx, counters, sim)
    }

    #[test]
    fn what_a_wrapper_keeps_is_sent_by_draining_and_by_dropping() {
        let (mut tx, counters, _sim) = end(0);
        assert_eq!(tx.drain(Duration::ZERO).unwrap(), 0);
        assert_eq!((counters.packets.value(), counters.errors.value()), (9, 0));
        // The first flush reports an earlier failure; the frames are sent nevertheless.
        for failures in [0, 1] {
            let (tx, counters, sim) = end(failures);
            drop(tx);
            let counted = (counters.packets.value(), counters.errors.value());
            assert_eq!((counted, sim.frames().held()), ((9, 0), 0), "{failures} failures");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_counted_once() {
        let (mut tx, counters, _sim) = end(usize::MAX);
        assert!(tx.drain(Duration::ZERO).is_err());
        assert_eq!(counters.errors.value(), 0);
        tx.give_up();
        tx.give_up();
        drop(tx);
        assert_eq!((counters.packets.value(), counters.errors.value()), (0, 9));
    }
}
