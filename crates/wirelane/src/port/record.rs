//! Shows every frame that passes an end of a port to a function: a copy into a capture file, a
//! count, a line of text (see [`trace`](super::trace)).
//!
//! ```
//! use std::sync::mpsc;
//! use wirelane::port::sim::Sim;
//! use wirelane::port::{Port, record};
//!
//! let mut sim = Sim::open(&"sim:1?count=100".parse()?, &Default::default())?;
//! let (copies, copied) = mpsc::channel();
//! let rx = sim.rx().remove(0);
//! let mut rx = record::rx(rx, move |frame| {
//!     let _ = copies.send(frame.data().to_vec());
//!     Ok(())
//! });
//! sim.start()?;
//! let n = rx.receive(&mut wirelane::Batch::default());
//! assert_eq!(copied.try_iter().count(), n);
//! # Ok::<(), wirelane::Error>(())
//! ```

use std::time::Duration;

use super::{Readiness, Receive, Rx, Transmit, Tx};
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};

/// Shows each received frame to `show`. Its first error ends the showing, not the receiving, and
/// comes out of [`Rx::readiness`].
pub fn rx(rx: Rx, show: impl FnMut(&Frame) -> Result<()> + Send + 'static) -> Rx {
    let bundle = rx.bundle().cloned();
    rx.wrap(|inner, _| RecordRx { inner, show, error: None, is_showing: true }).with_bundle(bundle)
}

/// Shows the bytes of each frame that was taken for transmission to `show`, once it has been taken. Its
/// first error ends the showing, not the transmitting, and comes out of [`Tx::flush`].
pub fn tx(tx: Tx, show: impl FnMut(&[u8]) -> Result<()> + Send + 'static) -> Tx {
    tx.wrap(|inner, _| RecordTx {
        inner,
        show,
        bytes: Vec::new(),
        ends: Vec::new(),
        error: None,
        is_showing: true,
    })
}

struct RecordRx<F> {
    inner: Box<dyn Receive>,
    show: F,
    error: Option<Error>,
    is_showing: bool,
}

impl<F: FnMut(&Frame) -> Result<()> + Send> Receive for RecordRx<F> {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let n = self.inner.receive(batch);
        if self.is_showing {
            let first = batch.len() - n;
            self.error = batch[first..].iter().try_for_each(&mut self.show).err();
            self.is_showing = self.error.is_none();
        }
        n
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.inner.readiness(),
        }
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

struct RecordTx<F> {
    inner: Box<dyn Transmit>,
    show: F,
    /// Copies of the frames offered, one after the other, and where each ends: only when they are
    /// gone is it known which were taken.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    error: Option<Error>,
    is_showing: bool,
}

impl<F: FnMut(&[u8]) -> Result<()>> RecordTx<F> {
    fn show_first(&mut self, n: usize) -> Result<()> {
        let mut start = 0;
        for end in self.ends.iter().take(n) {
            (self.show)(&self.bytes[start..*end])?;
            start = *end;
        }
        Ok(())
    }
}

impl<F: FnMut(&[u8]) -> Result<()> + Send> Transmit for RecordTx<F> {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if !self.is_showing {
            return self.inner.transmit(batch);
        }
        self.bytes.clear();
        self.ends.clear();
        for frame in batch.iter() {
            self.bytes.extend_from_slice(frame.data());
            self.ends.push(self.bytes.len());
        }
        let n = self.inner.transmit(batch);
        self.error = self.show_first(n).err();
        self.is_showing = self.error.is_none();
        n
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.inner.flush();
        self.error.take().map_or(flushed, Err)
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.inner.wait(timeout)
    }
}
