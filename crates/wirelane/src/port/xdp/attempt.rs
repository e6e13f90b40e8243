//! Tries a mode: program, sockets, rings, chunks, bind, in this order. A refused attempt is undone
//! completely.
//!
//! A refusal becomes an `Attempt` with its errno, cause and remedy.
#![allow(unsafe_code)]

use std::sync::Arc;

use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::{XDP_COPY, XDP_USE_NEED_WAKEUP, XDP_USE_SG, XDP_ZEROCOPY};

use super::config::AutoSwitch;
use super::fill::FillRing;
use super::hints::HintRequest;
use super::launch::LaunchClock;
use super::mode::Mode;
use super::negotiate;
use super::plan::{QueuePools, XdpPlan};
use super::program::{Attachment, Target};
use super::queue::{QueueRequest, Requests, XdpQueue};
use crate::error::{Error, Result};
use crate::pool::{Pool, Region};

/// The queues of a port, bound in one mode.
#[derive(Default)]
pub(super) struct BoundQueues {
    pub(super) attachment: Option<Attachment>,
    pub(super) queues: Vec<(Arc<XdpQueue>, Option<FillRing>)>,
    pub(super) zero_copy: bool,
    /// TX metadata requests that the kernel has accepted.
    pub(super) requests: Requests,
    /// The clock by which the device sends at given times, if requested.
    pub(super) clock: Option<LaunchClock>,
    pub(super) promiscuous: Option<PacketSocket>,
}

impl BoundQueues {
    /// Closes the queues; their chunks return to the pools.
    fn undo(self, pools: &mut [QueuePools]) {
        drop(self.attachment);
        for ((queue, fill), pools) in self.queues.into_iter().zip(pools) {
            drop(queue);
            pools.rx = fill.map(FillRing::into_pool);
        }
    }
}

impl XdpPlan {
    /// Tries one mode.
    ///
    /// # Errors
    /// The reason for the refusal. The attempt is then undone, and `pools` are complete.
    pub(super) fn attempt(
        &self,
        mode: Mode,
        region: &Region,
        pools: &mut [QueuePools],
    ) -> Result<BoundQueues> {
        let last = |bound: &mut BoundQueues| {
            bound.promiscuous = self.promiscuous.then(|| self.promiscuous()).transpose()?;
            Ok(())
        };
        self.attempt_and(last, mode, region, pools)
    }

    /// Tries one mode, including its last step.
    fn attempt_and(
        &self,
        last: impl FnOnce(&mut BoundQueues) -> Result<()>,
        mode: Mode,
        region: &Region,
        pools: &mut [QueuePools],
    ) -> Result<BoundQueues> {
        let mut bound = BoundQueues::default();
        let tried = self.bind(&mut bound, mode, region, pools);
        match tried.and_then(|()| last(&mut bound)) {
            Ok(()) => Ok(bound),
            Err(error) => {
                bound.undo(pools);
                Err(error)
            }
        }
    }

    /// # Errors
    /// The reason for the refusal; `bound` has the queues bound before.
    fn bind(
        &self,
        bound: &mut BoundQueues,
        mode: Mode,
        region: &Region,
        pools: &mut [QueuePools],
    ) -> Result<()> {
        bound.requests = self.tx_requests(mode)?;
        if self.receive || self.sends_with_program(mode) {
            bound.attachment = Some(self.attach(mode)?);
        }
        for (i, request) in self.requests.iter().enumerate() {
            let owner = bound.queues.first().map(|(queue, _)| Arc::clone(queue));
            let mut pool = pools.get_mut(i).and_then(|pools| pools.rx.take());
            let mut open = |requests| {
                let owner = owner.as_deref();
                self.open_queue(*request, mode, region, (owner, requests), &mut pool)
            };
            let mut opened = open(bound.requests);
            if bound.requests.any() && i == 0 && opened.as_ref().is_err_and(is_unknown) {
                // Linux before 6.11 does not support TX metadata.
                bound.requests = Requests::default();
                opened = open(bound.requests);
            }
            if let Some(pools) = pools.get_mut(i) {
                pools.rx = pool;
            }
            let explain =
                |error| negotiate::explain(&self.device, &self.shape, mode, request.number, error);
            bound.queues.push(opened.map_err(explain)?);
        }
        if let Some((queue, _)) = bound.queues.first() {
            // The mode in use, as the kernel reports it.
            let zero_copy = queue.socket().is_zero_copy();
            bound.zero_copy =
                zero_copy.map_err(|error| Error::os(self.device.name.as_str(), error))?;
        }
        if self.transmit && self.must_request() && !bound.requests.any() {
            return Err(self.no_request("this kernel accepts no TX metadata"));
        }
        if bound.requests.launches {
            bound.clock = Some(self.launch_clock()?);
        }
        Ok(())
    }

    /// The TX metadata to request of the kernel or the device.
    ///
    /// # Errors
    /// A request that the user requires is impossible.
    fn tx_requests(&self, mode: Mode) -> Result<Requests> {
        let completes = self.offers.completes_checksums(mode);
        let requests = Requests {
            checksums: match self.config.checksum {
                // If the device does not complete checksums, computing the sum during segmentation
                // costs less.
                AutoSwitch::Auto => mode.is_zero_copy() && completes && !self.shape.pieces,
                AutoSwitch::On => true,
                AutoSwitch::Off => false,
            },
            timestamps: self.config.tx_timestamps,
            launches: self.config.launch_time,
        };
        if !self.transmit || !requests.any() {
            return Ok(Requests::default());
        }
        if requests.checksums && !completes {
            return Err(self.no_request("in zero copy the driver completes no checksums"));
        }
        if requests.timestamps && !self.offers.stamps_packets(mode) {
            return Err(
                self.no_request("in zero copy the driver does not report when packets leave")
            );
        }
        if requests.launches && !self.offers.launches_packets(mode) {
            return Err(self.no_request(match mode.is_zero_copy() {
                true => "the device does not send packets at given times",
                false => "it takes zero copy, and a device that sends packets at given times",
            }));
        }
        if self.shape.pieces {
            // The pieces of a packet follow one another without a gap (`xp_aligned_validate_desc`).
            return Err(self.no_request("packets in several pieces have no room for metadata"));
        }
        Ok(requests)
    }

    /// Whether the lack of TX metadata is an error.
    fn must_request(&self) -> bool {
        let config = &self.config;
        config.checksum == AutoSwitch::On || config.tx_timestamps || config.launch_time
    }

    fn no_request(&self, why: &str) -> Error {
        let config = &self.config;
        let options = [
            (config.checksum == AutoSwitch::On, "checksum=on"),
            (config.tx_timestamps, "tx_timestamps=on"),
            (config.launch_time, "launch_time=on"),
        ];
        let options: Vec<_> =
            options.iter().filter(|(asked, _)| *asked).map(|(_, option)| *option).collect();
        let options = options.join(" or ");
        let cause = format!("{options} not available: {why}");
        Error::failed(self.device.name.as_str(), cause).help("leave it out")
    }

    /// Whether a port that only sends attaches a program, which passes every packet to the host.
    /// Some drivers send from zero-copy sockets only while the interface has a program
    /// (`igb_xsk_wakeup`, `i40e_xsk_wakeup`), from any owner.
    fn sends_with_program(&self, mode: Mode) -> bool {
        mode.is_zero_copy() && !self.offers.is_taken()
    }

    /// A socket that keeps the interface promiscuous until it is closed.
    fn promiscuous(&self) -> Result<PacketSocket> {
        let wished = PacketSocket::open().and_then(|socket| {
            socket.set_promiscuous(self.device.index, true)?;
            Ok(socket)
        });
        wished.map_err(|error| Error::os(self.device.name.as_str(), error))
    }

    fn attach(&self, mode: Mode) -> Result<Attachment> {
        let target = Target {
            interface: &self.device.name,
            ifindex: self.device.index,
            queues: u32::from(self.device.rx_queues),
            mode: mode.program(),
            multi_buffer: self.shape.pieces,
            tags: self.tags(mode)?,
            hints: self.hints(mode)?,
        };
        match Attachment::new(&target, &self.verdicts) {
            // A kernel may refuse the program only because it requests metadata: retry without.
            Err(error) if target.asks() && !self.must_ask() && !is_exhausted(&error) => {
                let target = Target { tags: None, hints: HintRequest::default(), ..target };
                Attachment::new(&target, &self.verdicts)
            }
            attached => attached,
        }
    }

    /// Opens one queue. Takes the pool to receive into; on failure, puts it back.
    fn open_queue(
        &self,
        request: QueueRequest,
        mode: Mode,
        region: &Region,
        (owner, requests): (Option<&XdpQueue>, Requests),
        pool: &mut Option<Pool>,
    ) -> wirelane_os::Result<(Arc<XdpQueue>, Option<FillRing>)> {
        let umem = (owner.is_none(), requests);
        let queue = XdpQueue::create(request, &self.config, &self.shape, region, umem)?;
        let queue = Arc::new(queue);
        // Zero-copy drivers take chunks during bind.
        // SAFETY: the only fill ring's end of this queue.
        let fill = pool.take().map(|pool| unsafe { FillRing::new(Arc::clone(&queue), pool) });
        let (index, number) = (self.device.index, u32::from(request.number));
        let bound = negotiate::bind_when_released(|| match owner {
            Some(owner) => queue.socket().bind_shared(index, number, owner.socket()),
            None => queue.socket().bind(index, number, self.flags(mode)),
        });
        match bound {
            Ok(()) => Ok((queue, fill)),
            Err(error) => {
                drop(queue);
                *pool = fill.map(FillRing::into_pool);
                Err(error)
            }
        }
    }

    fn flags(&self, mode: Mode) -> u16 {
        let mut flags = if mode.is_zero_copy() { XDP_ZEROCOPY } else { XDP_COPY };
        if self.config.need_wakeup {
            flags |= XDP_USE_NEED_WAKEUP;
        }
        if self.shape.pieces {
            flags |= XDP_USE_SG;
        }
        flags
    }
}

/// Whether memory was missing: retrying with fewer requests would not help.
fn is_exhausted(error: &Error) -> bool {
    error.errno().is_some_and(wirelane_os::error::is_exhaustion)
}

/// Whether the kernel does not support the request.
fn is_unknown(error: &wirelane_os::OsError) -> bool {
    error.errno() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
