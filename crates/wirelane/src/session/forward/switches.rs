//! The switches of one port of a running forwarder, and their effect on its source.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::{Protocols, SinkGso};
use crate::port::{Control, Switches};

/// Changes segmentation and merging at one port, from any thread.
///
/// When segmentation is turned off at the sink, a source that leaves segmentation to the program (a
/// TAP device) must segment again.
#[derive(Clone)]
pub struct PortSwitches {
    pub(super) switches: Arc<Switches>,
    /// The source of the frames that leave through this port, if any.
    pub(super) source: Option<FrameSource>,
    /// The port sends long frames, so it limits their length itself.
    pub(super) sends_long: bool,
    /// The port itself, if it receives frames that leave through another port.
    pub(super) itself: Option<FrameSource>,
}

/// A port as a source of frames that leave through another port.
#[derive(Clone)]
pub(super) struct FrameSource {
    pub(super) control: Arc<dyn Control>,
    /// The switches of the port at the other end of the route.
    pub(super) other: Arc<Switches>,
}

impl FrameSource {
    /// Limits the frames that the source passes on to `bytes`, and to the limit of the other port.
    fn set_max_burst(&self, bytes: u32) -> Result<()> {
        self.control.set_max_burst(bytes.min(self.other.max_burst()))
    }
}

impl PortSwitches {
    /// The current settings.
    pub fn settings(&self) -> &Switches {
        &self.switches
    }

    /// Changes which protocols are segmented before frames leave through the port.
    ///
    /// # Errors
    /// The source has no room for long frames, or the system refuses. Then nothing changes.
    pub fn set_gso(&self, protocols: Protocols) -> Result<()> {
        if let Some(source) = &self.source {
            source.control.set_offload(SinkGso::leaving(protocols))?;
        }
        self.switches.set_gso(protocols);
        Ok(())
    }

    /// Changes which protocols are merged when packets arrive at the port.
    ///
    /// # Errors
    /// The errors of [`Switches::set_gro`].
    pub fn set_gro(&self, protocols: Protocols) -> Result<()> {
        self.switches.set_gro(protocols)
    }

    /// Changes the longest frame that passes the port ([`Switches::set_max_burst`]). A source that
    /// leaves segmentation to the program follows, unless the port sends long frames and limits
    /// them itself.
    ///
    /// # Errors
    /// The source refuses: a TAP device needs CAP_NET_ADMIN for this. Then nothing changes.
    pub fn set_max_burst(&self, bytes: u32) -> Result<()> {
        let bytes = bytes.clamp(*Switches::BURSTS.start(), *Switches::BURSTS.end());
        let source = self.source.as_ref().filter(|_| !self.sends_long);
        if let Some(source) = source {
            source.set_max_burst(bytes)?;
        }
        if let Some(itself) = &self.itself
            && let Err(error) = itself.set_max_burst(bytes)
        {
            // Best effort: the first error is the one to report.
            let before = self.switches.max_burst();
            let _ = source.map(|source| source.set_max_burst(before));
            return Err(error);
        }
        self.switches.set_max_burst(bytes);
        Ok(())
    }

    /// Applies a limit that was set before the start.
    pub(super) fn apply_max_burst(&self) -> Result<()> {
        let bytes = self.switches.max_burst();
        let is_limited = bytes < *Switches::BURSTS.end();
        if is_limited { self.set_max_burst(bytes) } else { Ok(()) }
    }
}
