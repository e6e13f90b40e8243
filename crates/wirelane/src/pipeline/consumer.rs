//! What a program does with the packets that the receive loop brings.

use std::time::Duration;

use crate::error::Result;
use crate::frame::Batch;
use crate::port::Rx;

/// Handles received frames.
///
/// Only [`Consumer::consume`] has to be written. Any `FnMut(usize, &mut Batch) -> Result<()>` is a
/// consumer, too.
pub trait Consumer {
    /// Takes the frames it wants out of `batch`; the rest go back to their owner. `input` is the
    /// position of the receiving end.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()>;

    /// How many frames the next batch may hold, at most [`Batch::DEFAULT`]; 0 ends the loop. Called
    /// before every batch: a program that wants N packets returns how many are left.
    fn capacity(&mut self) -> usize {
        Batch::DEFAULT
    }

    /// How long the loop may sleep without packets; `None` for no limit. Called before each sleep.
    /// A consumer with other work, such as frames waiting to be sent, does it in
    /// [`Consumer::round`], which follows every sleep.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// Called after each round over all receiving ends; `idle` if it brought no packets.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        let _ = (inputs, idle);
        Ok(())
    }

    /// Called when the loop has ended, by itself or by an error: hand over what is left here.
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
