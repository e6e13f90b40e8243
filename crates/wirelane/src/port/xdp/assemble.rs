//! Assembles the ends of a port from bound queues.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::attempt::BoundQueues;
use super::control::XdpControl;
use super::fill::FillRing;
use super::plan::{QueuePools, XdpPlan};
use super::queue::QueueGauge;
use super::rx::{Receiver, XdpRxParts};
use super::tx::Transmitter;
use crate::frame::Sink;
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::accounting::{Accounting, FrameCounts};
use crate::port::info::PortInfo;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::tx::Tx;
use crate::stats::{RxCounters, TxCounters};

impl XdpPlan {
    /// The port with its ends.
    pub(super) fn assemble(
        self,
        info: PortInfo,
        bound: BoundQueues,
        pools: Vec<QueuePools>,
    ) -> Port {
        let sink = Sink {
            mtu: self.device.mtu as usize,
            checksum: bound.requests.checksums,
            ..Sink::ethernet()
        };
        let queues = bound.queues.iter().map(|(queue, _)| Arc::clone(queue)).collect();
        let (config, shape, snaplen) = (self.config.clone(), self.shape, self.snaplen);
        let (requests, clock) = (bound.requests, bound.clock);
        let local = matches!(self.device.hardware.as_deref(), Some("veth" | "tun"));
        let (program, promiscuous) = (bound.attachment, bound.promiscuous);
        let hints = program.as_ref().is_some_and(|program| program.hints().any());
        let handle = Arc::new(XdpControl::new(self, program, queues, promiscuous));
        let (mut rx, mut tx, mut gauges) = (Vec::new(), Vec::new(), Vec::new());
        for ((queue, fill), pools) in bound.queues.into_iter().zip(pools) {
            let own = [&pools.whole, &pools.tx].into_iter().flatten().map(Pool::gauge);
            gauges.push(QueueGauge {
                pools: fill.iter().map(FillRing::pool_gauge).chain(own).collect(),
                gauge: Arc::clone(&queue.gauge),
                queue: Arc::downgrade(&queue),
            });
            if let Some(fill) = fill {
                let counters = Arc::new(RxCounters::new(queue.number, Class::Rx));
                let setup = XdpRxParts {
                    fill,
                    whole: pools.whole,
                    counters: Arc::clone(&counters),
                    handle: Arc::clone(&handle),
                    snaplen,
                    busy: config.busy.is_some(),
                    spin: config.spin,
                    local,
                    hints,
                };
                // SAFETY: the only receiver of this queue, as each queue comes once.
                rx.extend(unsafe {
                    match shape.pieces {
                        true => Receiver::<true>::new(setup).map(|end| Rx::new(end, counters)),
                        false => Receiver::<false>::new(setup).map(|end| Rx::new(end, counters)),
                    }
                });
            }
            if let Some(pool) = pools.tx {
                let counters = Arc::new(TxCounters::new(queue.number));
                let ours = Arc::clone(&counters);
                let handle = Arc::clone(&handle);
                // SAFETY: the only transmitter of this queue, as each queue comes once.
                let end = unsafe {
                    let flags = (config.need_wakeup, requests, clock.clone());
                    Transmitter::new(queue, pool, shape, flags, ours, handle)
                };
                tx.extend(end.map(|end| Tx::new(end, counters).takes_offloads(requests.checksums)));
            }
        }
        let accounting = Accounting::new(move || {
            let mut counts = FrameCounts::default();
            gauges.iter().for_each(|gauge| counts += gauge.frames());
            counts
        });
        let mut port = Port::new(info, handle, accounting);
        (port.rx, port.tx, port.sink) = (rx, tx, sink);
        port
    }
}
