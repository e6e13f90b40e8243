//! What a program does with the packets that the receive loop brings.

use std::time::Duration;

use crate::error::Result;
use crate::frame::Batch;
use crate::port::Rx;

/// What is done with received frames.
///
/// Only [`Consumer::consume`] has to be written. Any `FnMut(usize, &mut Batch) -> Result<()>` is a
/// consumer, too.
pub trait Consumer {
    /// Takes what it wants out of `batch`. Frames left in it go back to their owner. `input` is the
    /// position of the receiving end.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()>;

    /// How many frames the next batch may hold, at most [`Batch::DEFAULT`]; 0 ends the loop. Asked
    /// before every batch: a program that wants a given number of packets says here how many are left.
    fn capacity(&mut self) -> usize {
        Batch::DEFAULT
    }

    /// How long the loop may sleep when nothing comes; `None` for as long as nothing does. Asked
    /// before each sleep. A consumer with work of its own, such as frames that wait to be sent, does
    /// it in [`Consumer::round`], which follows every sleep.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// One round over all receiving ends is done; `idle` says that it brought nothing.
    ///
    /// # Errors
    /// Any error ends the loop, which returns it.
    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        let _ = (inputs, idle);
        Ok(())
    }

    /// The loop has ended, by itself or by an error: the place to hand over what is left.
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
