//! All decisions before the first attempt, from the spec, the options and the interface.

use std::sync::Arc;

use super::config::{Config, LEAST_FRAMES, Shape};
use super::mask::check_mask;
use super::mode::Mode;
use super::negotiate::DeviceOffers;
use super::program::Verdicts;
use super::queue::QueueRequest;
use crate::error::{Error, Result};
use crate::filter;
use crate::mask::{Class, QueueMask};
use crate::memory::Allotment;
use crate::pool::{Pool, Region};
use crate::port::device::{Device, ETHERNET};
use crate::port::options::{OpenOptions, Take};
use crate::port::program_options::MemoryShare;
use crate::port::spec::Spec;
use crate::remedy::Remedy;

/// An AF_XDP port to open, in one of several modes.
pub(super) struct XdpPlan {
    pub(super) spec: Spec,
    pub(super) config: Config,
    pub(super) device: Device,
    pub(super) offers: DeviceOffers,
    pub(super) shape: Shape,
    /// One per queue.
    pub(super) requests: Vec<QueueRequest>,
    pub(super) receive: bool,
    pub(super) transmit: bool,
    /// The port forwards received packets and must not change them.
    pub(super) intact: bool,
    pub(super) promiscuous: bool,
    pub(super) snaplen: u32,
    pub(super) mask: QueueMask,
    /// The user allows the port to take all packets from the host.
    pub(super) may_take_all: bool,
    /// The initial rules for taking packets.
    pub(super) verdicts: Verdicts,
    memory: Option<MemoryShare>,
    numa_node: Option<u32>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

pub(super) struct QueuePools {
    pub(super) rx: Option<Pool>,
    pub(super) whole: Option<Pool>,
    pub(super) tx: Option<Pool>,
}

impl XdpPlan {
    /// Reads the spec, queries the interface, and fits the frames into `budget` unless the user set
    /// their number.
    ///
    /// # Errors
    /// A usage error, or there is no such interface.
    pub(super) fn new(spec: &Spec, options: &OpenOptions, budget: &Allotment) -> Result<Self> {
        let config = Config::parse(spec, options)?;
        let device = Device::find(spec)?;
        device.check_spec(spec)?;
        let filter = filter(options)?;
        if options.receive {
            check_mask(&device, spec, &options.mask)?;
            let is_chosen = match options.take {
                Take::Nothing => false,
                Take::Matching | Take::MatchingAndManagement => filter.is_some(),
                Take::All | Take::AllAndManagement => true,
            };
            if !is_chosen {
                let cause = "AF_XDP takes packets from the host: say which ones";
                let remedy = Remedy::TakeOrCopy(spec.name_text().to_string());
                return Err(Error::usage(format!("port '{spec}'"), cause).remedy(remedy));
            }
        }
        if !device.is_ethernet() {
            let cause = "AF_XDP is for Ethernet interfaces";
            return Err(Error::failed(spec.name_text(), cause));
        }
        let queues = |wanted, class| match wanted {
            true => device.queues(spec, class),
            false => Vec::new(),
        };
        let rx = queues(options.receive, Class::Rx);
        let tx = queues(options.transmit, Class::Tx);
        let shape = config.shape(&device, rx.len());
        let mut numbers: Vec<u16> = rx.iter().chain(&tx).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let request = |number| QueueRequest {
            number,
            receive: rx.contains(&number),
            transmit: tx.contains(&number),
        };
        let requests: Vec<_> = numbers.into_iter().map(request).collect();
        if requests.is_empty() {
            return Err(Error::usage(format!("port '{spec}'"), "there is no queue to open"));
        }
        let verdicts = Verdicts { keep_management: !options.take.takes_management(), filter };
        let mut plan = Self {
            offers: DeviceOffers::of(&device)?,
            numa_node: device.numa_node().or(options.placement.numa_node(0)),
            spec: spec.clone(),
            config,
            device,
            shape,
            requests,
            receive: options.receive,
            transmit: options.transmit,
            intact: options.internal.forwarding.intact,
            promiscuous: options.promiscuous,
            snaplen: options.clamped_snaplen(),
            mask: options.mask.clone(),
            may_take_all: options.take.takes_all(),
            verdicts,
            memory: options.internal.memory.clone(),
            notes: Vec::new(),
        };
        if plan.config.frames.is_none() {
            let bytes = |frames| plan.bytes_with(&shape.with_frames(frames));
            let frames = budget.fit(shape.frames, LEAST_FRAMES, bytes);
            if frames < shape.frames {
                plan.notes.extend(budget.note("frames per queue", shape.frames, frames));
                plan.shape = shape.with_frames(frames);
            }
        }
        Ok(plan)
    }

    /// The modes to try, in order.
    pub(super) fn modes(&self) -> Vec<Mode> {
        self.config.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode])
    }

    /// Bytes of frame memory for all queues.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_with(&self.shape)
    }

    fn bytes_with(&self, shape: &Shape) -> usize {
        let pools =
            |request: &QueueRequest| self.config.pools(shape, request.receive, request.transmit);
        self.requests.iter().map(|request| pools(request).bytes()).sum()
    }

    /// The given region, if it is large enough; otherwise a new one.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub(super) fn region(&self, notes: &mut Vec<String>) -> Result<Region> {
        let bytes = self.bytes();
        if let Some(MemoryShare { region, .. }) = &self.memory {
            if region.left() >= bytes {
                return Ok(region.clone());
            }
            notes.push(format!(
                "{} needs {bytes} bytes of frame memory, but the shared memory has {} left: \
                 packets to and from other ports are copied",
                self.device.name,
                region.left()
            ));
        }
        Region::new(bytes, self.numa_node)
    }

    /// The pools of all queues.
    ///
    /// # Errors
    /// The region is too small.
    pub(super) fn carve(&self, region: &Region) -> Result<Vec<QueuePools>> {
        let pool = |config: Option<_>| config.map(|config| Pool::in_region(region, config));
        let carve = |request: &QueueRequest| {
            let pools = self.config.pools(&self.shape, request.receive, request.transmit);
            Ok(QueuePools {
                rx: pool(pools.rx).transpose()?,
                whole: pool(pools.whole).transpose()?,
                tx: pool(pools.tx).transpose()?,
            })
        };
        self.requests.iter().map(carve).collect()
    }
}

/// The initial filter.
///
/// # Errors
/// The filter has no meaning for Ethernet.
fn filter(options: &OpenOptions) -> Result<Option<Arc<filter::Program>>> {
    let filter = options.filter.as_ref().filter(|_| options.receive);
    Ok(filter.map(|filter| filter.program(ETHERNET, options.clamped_snaplen())).transpose()?)
}
