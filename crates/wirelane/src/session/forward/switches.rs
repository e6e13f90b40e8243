//! The switches of one port of a running forwarder, and their effect on its source.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::{Protocols, SinkGso};
use crate::port::{Control, Switches};

/// Turns what is cut and merged at one port, from any thread.
///
/// When cutting is turned off at the sink, a source that leaves segmentation to us (a TAP device)
/// is told to segment.
#[derive(Clone)]
pub struct PortSwitches {
    pub(super) switches: Arc<Switches>,
    /// The source of the frames that leave through this port, if any.
    pub(super) source: Option<Arc<dyn Control>>,
}

impl PortSwitches {
    /// The settings now.
    pub fn settings(&self) -> &Switches {
        &self.switches
    }

    /// Changes what is cut before frames leave through the port.
    ///
    /// # Errors
    /// The source has no room for long frames, or the system refuses. Then nothing is changed.
    pub fn set_gso(&self, protocols: Protocols) -> Result<()> {
        if let Some(source) = &self.source {
            source.set_offload(SinkGso::leaving(protocols))?;
        }
        self.switches.set_gso(protocols);
        Ok(())
    }

    /// Changes what is merged when packets come in through the port.
    ///
    /// # Errors
    /// As [`Switches::set_gro`].
    pub fn set_gro(&self, protocols: Protocols) -> Result<()> {
        self.switches.set_gro(protocols)
    }

    /// As [`Switches::set_max_burst`].
    pub fn set_max_burst(&self, bytes: u32) {
        self.switches.set_max_burst(bytes);
    }
}
