//! Puts segmenters and coalescers around the ends of a forwarder, and adds them to the monitor.

use std::sync::Arc;

use super::config::ForwardConfig;
use crate::error::Result;
use crate::frame::Sink;
use crate::port::{Accounting, FrameCounts, Port, Rx, Switches, Tx, gro};
use crate::segment::Limits;
use crate::session::monitor::Monitor;

/// Puts coalescers behind the receiving ends of the port at index `from`, whose packets are sent to
/// `sink`.
///
/// # Errors
/// There is no memory for long frames.
pub(super) fn merge(
    monitor: &mut Monitor,
    from: usize,
    inputs: Vec<Rx>,
    sink: &Sink,
    switches: &Arc<Switches>,
    config: &ForwardConfig,
) -> Result<Vec<Rx>> {
    let mut limits = Limits { packet: sink.mtu, ..Limits::default() };
    if config.packets.is_some() {
        // For an exact count, no packet may remain in a coalescer.
        limits.age = 0;
    }
    let mut gauges = Vec::new();
    let merge = |(position, rx): (usize, Rx)| {
        let queue = rx.queue();
        let node = config.placement.numa_node(position);
        let (rx, merging) = gro::rx(rx, limits, Arc::clone(switches), node)?;
        monitor.coalescers.push((from, queue, merging.counters));
        gauges.push(merging.frames);
        Ok(rx)
    };
    let inputs = inputs.into_iter().enumerate().map(merge).collect();
    // The frames of coalescers belong to the port as well.
    if let Some(accounting) = monitor.accounting.get_mut(from) {
        let of_port = accounting.clone();
        *accounting = Accounting::new(move || {
            let mut sum = of_port.frames();
            sum += FrameCounts::of(&gauges);
            sum
        });
    }
    inputs
}

/// Hands out the transmitting ends of the port at index `to` with segmenters in front of them.
pub(super) fn segment(
    monitor: &mut Monitor,
    to: usize,
    port: &mut Port,
    switches: &Arc<Switches>,
) -> Result<Vec<Tx>> {
    port.set_switches(Arc::clone(switches));
    let outputs = port.tx_segmenting()?;
    for tx in &outputs {
        let segments = tx.segments().map(Arc::clone);
        monitor.segmenters.extend(segments.map(|segments| (to, tx.queue(), segments)));
    }
    Ok(outputs)
}
