//! Where flows go.

use std::sync::Arc;

use wirelane::Result;

use crate::flow::Flow;

/// Tells a sink, from any thread, that no more packets are received.
pub type Hurry = Arc<dyn Fn() + Send + Sync>;

/// Takes flows. It is called by one thread, which is none of those that receive.
pub trait Sink: Send {
    /// Takes a flow.
    ///
    /// # Errors
    /// It takes no more flows, whatever they are: the metering ends.
    fn add(&mut self, flow: &Flow) -> Result<()>;

    /// Called a few times per second, also without flows while [`Sink::needs_ticks`]: what waits
    /// may go out.
    ///
    /// # Errors
    /// As [`Sink::add`].
    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether something waits for the next [`Sink::tick`], even if no flow comes.
    fn needs_ticks(&self) -> bool {
        true
    }

    /// For a sink that waits for others: tells that the last flows come. [`Sink::finish`] follows.
    fn hurry(&self) -> Option<Hurry> {
        None
    }

    /// There are no more flows.
    ///
    /// # Errors
    /// Some did not reach where they should go.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
