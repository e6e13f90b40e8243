//! The switches of one port of a running forwarder, with all that follows from them.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::SinkGso;
use crate::port::{Control, Protocols, Switches};

/// Turns what is cut and merged at one port, from any thread.
///
/// Where a source leaves it to us to cut (a TAP device), switching off what is cut at the sink also tells
/// the source to cut for itself.
#[derive(Clone)]
pub struct PortSwitches {
    pub(super) switches: Arc<Switches>,
    /// Where the frames come from that leave through this port, if any do.
    pub(super) source: Option<Arc<dyn Control>>,
}

impl PortSwitches {
    /// The settings now.
    pub fn settings(&self) -> &Switches {
        &self.switches
    }

    /// Changes what is cut before it leaves through the port.
    ///
    /// # Errors
    /// The source has no room for frames that would have to be cut, or the system refuses; nothing is
    /// changed then.
    pub fn set_gso(&self, protocols: Protocols) -> Result<()> {
        if let Some(source) = &self.source {
            source.set_offload(SinkGso::leaving(protocols))?;
        }
        self.switches.set_gso(protocols);
        Ok(())
    }

    /// Changes what is merged when it comes in by the port.
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
