//! Control of an open port, from any thread.

use std::io;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::mask::QueueMask;

/// Control of an open port, from any thread.
pub trait Control: Send + Sync {
    /// The masks in force.
    fn mask(&self) -> QueueMask;

    /// Replaces the masks. Each packet meets the old or the new ones; packets of queues that stay
    /// selected are neither lost nor duplicated.
    ///
    /// # Errors
    /// The mask selects a queue that the port does not have or a class that it cannot see (a usage
    /// error; nothing changes), or the system refuses.
    fn set_mask(&self, mask: QueueMask) -> Result<()>;

    /// Replaces the filter; `None` takes all packets that the masks select. Each packet meets the
    /// old or the new one. Packets already in the rings have met the old one.
    ///
    /// # Errors
    /// The filter has no meaning for this link type or exceeds the limits (nothing changes), or the
    /// system refuses. Only ports opened by [`open`](super::open()) can always filter.
    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        let cause = "its backend cannot filter by itself";
        filter.map_or(Ok(()), |_| Err(Error::failed("port", cause).help("open it with port::open")))
    }

    /// Replaces `Forwarding::offload`. Frames that the sender has already passed on do not change.
    /// Ports without such a sender ignore it.
    ///
    /// # Errors
    /// The port was opened without room for frames longer than its MTU (a usage error; nothing
    /// changes), or the system refuses.
    #[doc(hidden)]
    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        let _ = offload;
        Ok(())
    }

    /// Limits the frames that the sender passes on unsegmented, in bytes from the IP header. Ports
    /// without such a sender ignore it.
    ///
    /// # Errors
    /// The system refuses. `tap:` needs CAP_NET_ADMIN for this, also after it is open.
    fn set_max_burst(&self, bytes: u32) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Packets that have passed the filter, received or not, if the system counts them itself.
    /// `None` if only the receiving ends count.
    ///
    /// # Errors
    /// The system does not return its counters.
    #[doc(hidden)]
    fn passed(&self) -> Result<Option<Passed>> {
        Ok(None)
    }

    /// Sends a copy of one frame without the transmitting ends; the receiving ends do not see it.
    /// Waits for room if `wait`. `None` if the backend cannot.
    #[doc(hidden)]
    fn inject(&self, frame: &[u8], wait: bool) -> Option<io::Result<usize>> {
        let _ = (frame, wait);
        None
    }

    /// Stops accepting packets. Packets in the rings can still be received; then
    /// [`Readiness::End`](super::Readiness::End) follows.
    fn stop(&self);
}

/// Packets that passed the filter of a port: see [`Control::passed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// All of them, including dropped packets.
    pub packets: u64,
    /// Packets dropped for lack of room.
    pub dropped: u64,
}

/// State that a backend shares between a port and its ends.
pub(crate) trait Driver: Control {
    /// Starts accepting packets.
    ///
    /// # Errors
    /// The interface was removed or refuses.
    fn start(&self) -> Result<()>;

    /// Diagnostics since opening.
    fn diagnostics(&self) -> Vec<String> {
        Vec::new()
    }

    /// The port was dropped: stops, and frees everything that its ends do not need.
    fn release(&self) {
        self.stop();
    }
}
