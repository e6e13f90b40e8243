//! What any thread may ask of an open port.

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::mask::QueueMask;

/// What may be asked of an open port from any thread.
pub trait Control: Send + Sync {
    /// The masks in force.
    fn mask(&self) -> QueueMask;

    /// Replaces the masks. Each packet meets the old or the new ones; packets of queues that stay
    /// selected are neither lost nor duplicated.
    ///
    /// # Errors
    /// A queue that the port does not have or a class that it cannot see (a usage error, nothing
    /// changed), or the system refuses.
    fn set_mask(&self, mask: QueueMask) -> Result<()>;

    /// Replaces the filter; `None` takes all packets that the masks select. Each packet meets the old
    /// or the new one. Packets received before, and not yet asked for, have met the old one.
    ///
    /// # Errors
    /// The filter means nothing for packets of this link type or is over the limits (nothing changed),
    /// or the system refuses. A port that was not opened by [`open`](super::open()) may not be able to filter.
    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let cause = "its backend cannot filter by itself";
        filter.map_or(Ok(()), |_| Err(Error::failed("port", cause).help("open it with port::open")))
    }

    /// Replaces [`Forwarding::offload`](super::Forwarding::offload). Frames that are on their way already come as they are. A port
    /// whose sender leaves nothing to us takes no notice.
    ///
    /// # Errors
    /// It was opened for no frame longer than its MTU, and has no room for any (a usage error, nothing
    /// changed), or the system refuses.
    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        let _ = offload;
        Ok(())
    }

    /// Lets no more packets in. What is in the rings can still be received, then
    /// [`Readiness::End`](super::Readiness::End) follows.
    fn stop(&self);
}

/// What a backend shares between a port and its ends.
pub(crate) trait Driver: Control {
    /// Lets packets in.
    ///
    /// # Errors
    /// The interface went away or refuses.
    fn start(&self) -> Result<()>;

    /// What was found out after opening.
    fn diagnostics(&self) -> Vec<String> {
        Vec::new()
    }

    /// The port is dropped: it stops, and gives back what its ends do not need.
    fn release(&self) {
        self.stop();
    }
}
