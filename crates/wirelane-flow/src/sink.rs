//! Destinations of flows.

use std::sync::Arc;

use wirelane::Result;

use crate::flow::Flow;

/// Notifies a sink, from any thread, that no more packets are received.
pub type Hurry = Arc<dyn Fn() + Send + Sync>;

/// A destination of flows. One thread calls it, which does not receive packets.
pub trait Sink: Send {
    /// Exports a flow.
    ///
    /// # Errors
    /// The sink accepts no more flows. The metering ends.
    fn add(&mut self, flow: &Flow) -> Result<()>;

    /// Called a few times per second to send pending flows; without new flows only while
    /// [`Sink::needs_ticks`] is true.
    ///
    /// # Errors
    /// The same as for [`Sink::add`].
    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the sink needs the next [`Sink::tick`] even if no flow arrives.
    fn needs_ticks(&self) -> bool {
        true
    }

    /// A notification for a sink that waits for a remote receiver: the last flows follow, then
    /// [`Sink::finish`].
    fn hurry(&self) -> Option<Hurry> {
        None
    }

    /// Called after the last flow.
    ///
    /// # Errors
    /// Some flows could not be delivered.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
