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
    pub(super) source: Option<Arc<dyn Control>>,
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
            source.set_offload(SinkGso::leaving(protocols))?;
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

    /// As [`Switches::set_max_burst`].
    pub fn set_max_burst(&self, bytes: u32) {
        self.switches.set_max_burst(bytes);
    }
}
