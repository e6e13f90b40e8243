//! Closing a transmitting end: frames that it has taken are sent or counted.
//!
//! A session ends in this order: the sources stop, the receive rings drain, then the transmitting
//! ends drain.

use std::thread;
use std::time::{Duration, Instant};

use super::tx::Tx;
use crate::error::Result;

/// How long dropping an end waits for its frames.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long to leave the interface alone before asking again.
const RETRY: Duration = Duration::from_micros(100);

impl Tx {
    /// Sends what was taken and waits until all of it has left, at most `timeout`; returns how many
    /// frames have not.
    ///
    /// Dropping an end does the same for a fifth of a second and counts the rest as errors.
    ///
    /// # Errors
    /// As [`Tx::flush`]; frames that have not left are still [`Tx::pending`].
    pub fn drain(&mut self, timeout: Duration) -> Result<usize> {
        until_none(timeout, || self.flush().map(|()| self.pending()))
    }

    /// Closes the end: sends what it has taken, as dropping does, and counts the rest as errors.
    /// What becomes of these is unknown.
    pub(crate) fn close(&mut self) {
        // An error may be one of before, which nobody has asked for.
        if self.lost == 0 && self.drain(FAREWELL).is_err() {
            let _ = self.drain(FAREWELL);
        }
        self.give_up();
    }

    /// As [`Tx::close`], without waiting any longer.
    pub(crate) fn give_up(&mut self) {
        let left = self.pending();
        self.counters.give_up(left.saturating_sub(self.lost) as u64);
        self.lost = left;
    }
}

/// Flushes until nothing is left, at most `timeout`; returns how much is.
///
/// # Errors
/// As `flush`, which returns how much is left.
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

    /// Keeps what it takes until it is flushed, as a segmenter does; some flushes fail, with what
    /// went wrong before.
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
        // A failure of before is told by the first flush; the frames are sent nevertheless.
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
