//! The interface of programs that handle packets from the receive loop.

use std::time::Duration;

use crate::error::Result;
use crate::frame::Batch;
use crate::port::Rx;

/// Handles received frames.
///
/// Only [`Consumer::consume`] is required. Any `FnMut(usize, &mut Batch) -> Result<()>` is a
/// consumer, too.
pub trait Consumer {
    /// Takes the frames it needs out of `batch`; the rest return to their owner. `input` is the
    /// index of the receiving end.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()>;

    /// The maximum number of frames in the next batch, at most [`Batch::DEFAULT`]; 0 ends the loop.
    /// Called before every batch: a program that wants N packets returns the number that is left.
    fn capacity(&mut self) -> usize {
        Batch::DEFAULT
    }

    /// How long the loop may sleep without packets; `None` means 500 ms. Called before each sleep.
    /// A consumer with other work, such as sending pending frames, does it in [`Consumer::round`],
    /// which follows every sleep.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// Called after each round over all receiving ends; `idle` if there were no packets.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        let _ = (inputs, idle);
        Ok(())
    }

    /// Called when the loop has ended, by itself or by an error: pass on everything that is left
    /// here.
    ///
    /// # Errors
    /// Returned by the loop, unless it had an error before.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(usize, &mut Batch) -> Result<()>> Consumer for F {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self(input, batch)
    }
}
