//! Puts segmenters and coalescers around the ends of a forwarder, where the monitor sees them.

use std::sync::Arc;

use wirelane_os::clock;

use super::config::ForwardConfig;
use crate::error::Result;
use crate::frame::Sink;
use crate::port::{Census, FrameCounts, Rx, Switches, Tx, gro, gso};
use crate::segment::{Limits, Segmenter};
use crate::session::monitor::Monitor;

/// Puts coalescers behind the receiving ends of the port at position `from`, whose packets go to `sink`.
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
        // Whoever counts what comes out has to know that nothing is left inside.
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
    // Their frames are the port's as well.
    if let Some(census) = monitor.censuses.get_mut(from) {
        let of_port = census.clone();
        *census = Census::new(move || {
            let mut sum = of_port.frames();
            sum += FrameCounts::of(&gauges);
            sum
        });
    }
    inputs
}

/// Puts segmenters in front of the transmitting ends of the port at position `to`.
pub(super) fn cut(
    monitor: &mut Monitor,
    to: usize,
    outputs: Vec<Tx>,
    sink: Sink,
    switches: &Arc<Switches>,
) -> Vec<Tx> {
    let cut = |tx: Tx| {
        // Nobody outside can guess the time to the nanosecond.
        let secret = clock::realtime_ns() ^ u64::from(std::process::id()) << 32;
        let segmenter = Segmenter::new(sink).with_fragment_secret(secret);
        monitor.segmenters.push((to, tx.queue(), Arc::clone(segmenter.counters())));
        gso::tx(tx, segmenter, Arc::clone(switches))
    };
    outputs.into_iter().map(cut).collect()
}
