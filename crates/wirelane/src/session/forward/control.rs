//! The control of a port that forwards: it selects only received packets.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::mask::QueueMask;
use crate::port::{Backend, Control, PortInfo};

/// The control of a port, without the classes that have no receiving end here.
pub(super) struct ReceiverControl {
    inner: Arc<dyn Control>,
    spec: String,
    receives: bool,
    /// The port sees packets that the host sends, which are on their way already and which no end
    /// receives here. False for a file.
    host_sends: bool,
}

impl ReceiverControl {
    pub(super) fn new(inner: Arc<dyn Control>, info: &PortInfo, receives: bool) -> Self {
        let host_sends = info.backend != Backend::File;
        Self { inner, spec: info.spec.clone(), receives, host_sends }
    }

    fn check(&self) -> Result<()> {
        let cause = "packets only leave through it; none that it receives are forwarded";
        let refusal = || Error::usage(format!("port '{}'", self.spec), cause);
        if self.receives { Ok(()) } else { Err(refusal().help("choose the other port")) }
    }
}

impl Control for ReceiverControl {
    fn mask(&self) -> QueueMask {
        self.inner.mask()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.check()?;
        if self.host_sends && !(mask.enabled && mask.tx.is_empty()) {
            let cause = "packets that the host sends are not forwarded: TX queues cannot be \
             selected, and masks cannot be disabled";
            return Err(Error::usage(format!("port '{}'", self.spec), cause).help(
                "to forward everything received, select all RX queues and packets of no queue",
            ));
        }
        self.inner.set_mask(mask)
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        self.check()?;
        self.inner.set_filter(filter)
    }

    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        self.inner.set_offload(offload)
    }

    fn set_max_burst(&self, bytes: u32) -> Result<()> {
        self.inner.set_max_burst(bytes)
    }

    fn stop(&self) {
        self.inner.stop();
    }
}
