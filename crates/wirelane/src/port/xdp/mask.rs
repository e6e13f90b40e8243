//! The masks that an AF_XDP port accepts: received packets by RX queue.

use crate::error::{Error, Result};
use crate::mask::{QueueMask, QueueSet};
use crate::port::device::Device;
use crate::port::spec::Spec;

/// Refuses queues that the interface does not have or that the spec excludes, and classes that
/// AF_XDP cannot see. "All" of an unseen class is accepted and selects none.
///
/// # Errors
/// A usage error.
pub(super) fn check_mask(device: &Device, spec: &Spec, mask: &QueueMask) -> Result<()> {
    let unseen = if mask.tx.largest().is_some() {
        Some("TX queues")
    } else if mask.other && mask.rx.is_empty() {
        Some("packets of no queue (OTHER)")
    } else {
        None
    };
    if let Some(unseen) = unseen.filter(|_| mask.enabled) {
        let cause = format!("AF_XDP sees received packets by RX queue, but no {unseen}");
        return Err(Error::usage(format!("port '{spec}'"), cause)
            .help(format!("packet:{} sees them", device.name)));
    }
    device.check_mask(spec, &QueueMask { tx: QueueSet::NONE, ..mask.clone() })
}
