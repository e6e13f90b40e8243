//! Building a port: memory, program, sockets, rings, chunks, binding, in this order.

use std::sync::Arc;

use wirelane_os::bpf;
use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::{XDP_COPY, XDP_USE_NEED_WAKEUP, XDP_USE_SG, XDP_ZEROCOPY};

use super::config::{Config, LEAST_FRAMES, Pools, Shape, Switch};
use super::control::{self, ETHERNET, Handle};
use super::device::Device;
use super::hints::Hints;
use super::intake::Intake;
use super::negotiate::{self, Mode, Prospects};
use super::program::{Attachment, Plan, Target};
use super::queue::{Queue, QueueCensus, Request, Requests};
use super::rx::{Receiver, Setup};
use super::tx::Transmitter;
use crate::error::{Error, Result};
use crate::filter;
use crate::frame::Sink;
use crate::mask::Class;
use crate::memory::Allotment;
use crate::pool::{Pool, Region};
use crate::port::{OpenOptions, PortInfo, Rung, Rx, Share, Spec, Take, Tx};
use crate::stats::{RxCounters, TxCounters};

/// What is known before anything is tried.
pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) device: Device,
    shape: Shape,
    requests: Vec<Request>,
    /// What the packets that are taken must match at first.
    filter: Option<Arc<filter::Program>>,
    /// What a user should know of the memory.
    shortage: Option<String>,
}

/// The pools of one queue.
pub(super) struct Memory {
    rx: Option<Pool>,
    whole: Option<Pool>,
    tx: Option<Pool>,
}

/// What came of a mode that could be had.
#[derive(Default)]
pub(super) struct Built {
    attachment: Option<Attachment>,
    queues: Vec<(Arc<Queue>, Option<Intake>)>,
    zero_copy: bool,
    /// What can be asked for packets that are sent.
    requests: Requests,
    promiscuous: Option<PacketSocket>,
}

impl Built {
    /// Closes what was bound; its chunks go back to their pools.
    fn undo(self, memory: &mut [Memory]) {
        drop(self.attachment);
        for ((queue, intake), memory) in self.queues.into_iter().zip(memory) {
            drop(queue);
            memory.rx = intake.map(Intake::into_pool);
        }
    }
}

/// What a port is made of.
pub(super) struct Ends {
    pub(super) handle: Arc<Handle>,
    pub(super) rx: Vec<Rx>,
    pub(super) tx: Vec<Tx>,
    pub(super) censuses: Vec<QueueCensus>,
}

impl Draft {
    /// Reads the spec, looks at the interface, and fits the frames into `budget` if nobody has said how many there are.
    ///
    /// # Errors
    /// A usage error, or there is no such interface.
    pub(super) fn new(spec: &Spec, options: &OpenOptions, budget: &Allotment) -> Result<Self> {
        let config = Config::parse(spec, options)?;
        let device = Device::find(spec)?;
        device.check_spec(spec)?;
        let filter = filter(options)?;
        if options.receive {
            control::check_mask(&device, spec, &options.mask)?;
            let cause = match options.take {
                Take::Nothing => {
                    Some("AF_XDP takes packets away from the host, which was not requested")
                }
                Take::Matching if filter.is_none() => {
                    Some("AF_XDP takes packets away from the host; say which ones")
                }
                Take::Matching | Take::All => None,
            };
            if let Some(cause) = cause {
                return Err(Error::usage(format!("port '{spec}'"), cause).help(format!(
                    "add a filter (-f) or --all, or capture copies with packet:{}",
                    spec.name_text()
                )));
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
        let request = |number| Request {
            number,
            receive: rx.contains(&number),
            transmit: tx.contains(&number),
        };
        let requests: Vec<_> = numbers.into_iter().map(request).collect();
        if requests.is_empty() {
            return Err(Error::usage(format!("port '{spec}'"), "there is no queue to open"));
        }
        let mut draft = Self { config, device, shape, requests, filter, shortage: None };
        if draft.config.frames.is_none() {
            let bytes = |frames| draft.bytes_with(&shape.with_frames(frames));
            let frames = budget.fit(shape.frames, LEAST_FRAMES, bytes);
            if frames < shape.frames {
                draft.shortage = budget.note("frames per queue", shape.frames, frames);
                draft.shape = shape.with_frames(frames);
            }
        }
        Ok(draft)
    }

    /// The modes to try, in order.
    pub(super) fn modes(&self) -> Vec<Mode> {
        self.config.mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode])
    }

    /// The interface.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of frame memory for all queues.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_with(&self.shape)
    }

    fn bytes_with(&self, shape: &Shape) -> usize {
        let pools = |request: &Request| self.config.pools(shape, request.receive, request.transmit);
        self.requests.iter().map(|request| pools(request).bytes()).sum()
    }

    /// The region that was given, if there is enough of it; otherwise one of its own.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub(super) fn region(&self, options: &OpenOptions, notes: &mut Vec<String>) -> Result<Region> {
        let bytes = self.bytes();
        notes.extend(self.shortage.clone());
        if let Some(Share { region, .. }) = &options.memory {
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
        let node = self.device.inspected.numa_node.or(options.placement.numa_node(0));
        Region::new(bytes, node)
    }

    /// The pools of all queues.
    ///
    /// # Errors
    /// The region is too small.
    pub(super) fn carve(&self, region: &Region) -> Result<Vec<Memory>> {
        let pool = |config: Option<_>| config.map(|config| Pool::in_region(region, config));
        let carve = |request: &Request| {
            let pools = self.pools(request);
            Ok(Memory {
                rx: pool(pools.rx).transpose()?,
                whole: pool(pools.whole).transpose()?,
                tx: pool(pools.tx).transpose()?,
            })
        };
        self.requests.iter().map(carve).collect()
    }

    /// Why `mode` need not be tried.
    pub(super) fn refusal(
        &self,
        prospects: &Prospects,
        mode: Mode,
        options: &OpenOptions,
        huge: bool,
    ) -> Option<Error> {
        prospects.refusal(mode, &self.device, &self.shape, options.receive, huge)
    }

    /// Tries one mode.
    ///
    /// # Errors
    /// Why it cannot be had; then nothing is left of it, and `memory` is whole.
    pub(super) fn attempt(
        &self,
        mode: Mode,
        prospects: &Prospects,
        options: &OpenOptions,
        region: &Region,
        memory: &mut [Memory],
    ) -> Result<Built> {
        let last = |built: &mut Built| {
            built.promiscuous = options.promiscuous.then(|| self.promiscuous()).transpose()?;
            Ok(())
        };
        self.attempt_and(last, mode, (prospects, options), region, memory)
    }

    /// Tries one mode, and does the last thing in it, too.
    fn attempt_and(
        &self,
        last: impl FnOnce(&mut Built) -> Result<()>,
        mode: Mode,
        (prospects, options): (&Prospects, &OpenOptions),
        region: &Region,
        memory: &mut [Memory],
    ) -> Result<Built> {
        let mut built = Built::default();
        let tried = self.build(&mut built, mode, (prospects, options), region, memory);
        match tried.and_then(|()| last(&mut built)) {
            Ok(()) => Ok(built),
            Err(error) => {
                built.undo(memory);
                Err(error)
            }
        }
    }

    /// # Errors
    /// Why it cannot be had; what there is of it already is in `built`.
    fn build(
        &self,
        built: &mut Built,
        mode: Mode,
        (prospects, options): (&Prospects, &OpenOptions),
        region: &Region,
        memory: &mut [Memory],
    ) -> Result<()> {
        built.requests = self.requests(mode, prospects, options)?;
        if options.receive || self.sends_with_program(mode, prospects) {
            built.attachment = Some(self.attach(mode, prospects, options)?);
        }
        for (i, request) in self.requests.iter().enumerate() {
            let owner = built.queues.first().map(|(queue, _)| Arc::clone(queue));
            let mut pool = memory.get_mut(i).and_then(|memory| memory.rx.take());
            let mut open = |requests| {
                let owner = owner.as_deref();
                self.open_queue(*request, mode, region, (owner, requests), &mut pool)
            };
            let mut opened = open(built.requests);
            if built.requests.any() && i == 0 && opened.as_ref().is_err_and(is_unknown) {
                // Linux before 6.11 does not know how to be asked.
                built.requests = Requests::default();
                opened = open(built.requests);
            }
            if let Some(memory) = memory.get_mut(i) {
                memory.rx = pool;
            }
            let explain = |error| negotiate::explain(&self.device, mode, request.number, error);
            built.queues.push(opened.map_err(explain)?);
        }
        if let Some((queue, _)) = built.queues.first() {
            // Not what was asked for, but what the kernel says.
            let zero_copy = queue.socket().is_zero_copy();
            built.zero_copy =
                zero_copy.map_err(|error| Error::os(self.device.name.as_str(), error))?;
        }
        if options.transmit && self.must_request() && !built.requests.any() {
            return Err(self.no_request("this kernel accepts no TX metadata"));
        }
        Ok(())
    }

    /// What the ends of the port can take.
    pub(super) fn sink(&self, built: &Built) -> Sink {
        let checksum = built.requests.checksums;
        Sink { mtu: self.device.mtu as usize, checksum, ..Sink::ethernet() }
    }

    /// What is asked of the kernel or the device for packets that are sent.
    ///
    /// # Errors
    /// Something that must be, and cannot.
    fn requests(
        &self,
        mode: Mode,
        prospects: &Prospects,
        options: &OpenOptions,
    ) -> Result<Requests> {
        let completes = prospects.completes_checksums(mode);
        let requests = Requests {
            checksums: match self.config.checksum {
                // Without a device that does it, the sum that we make while we cut is the cheaper one.
                Switch::Auto => mode.is_zero_copy() && completes && !self.shape.pieces,
                Switch::On => true,
                Switch::Off => false,
            },
            timestamps: self.config.tx_timestamps,
        };
        if !options.transmit || !requests.any() {
            return Ok(Requests::default());
        }
        if requests.checksums && !completes {
            return Err(self.no_request("in zero copy the driver completes no checksums"));
        }
        if requests.timestamps && !prospects.stamps_packets(mode) {
            return Err(
                self.no_request("in zero copy the driver does not report when packets leave")
            );
        }
        if self.shape.pieces {
            // The pieces of a packet follow one another without a gap (`xp_aligned_validate_desc`).
            return Err(self.no_request("packets in several pieces have no room for metadata"));
        }
        Ok(requests)
    }

    /// Whether it is an error if nothing can be asked.
    fn must_request(&self) -> bool {
        self.config.checksum == Switch::On || self.config.tx_timestamps
    }

    fn no_request(&self, why: &str) -> Error {
        let options = match (self.config.checksum, self.config.tx_timestamps) {
            (Switch::On, true) => "checksum=on or tx_timestamps=on",
            (Switch::On, false) => "checksum=on",
            _ => "tx_timestamps=on",
        };
        let cause = format!("{options} not available: {why}");
        Error::failed(self.device.name.as_str(), cause).help("leave it out")
    }

    /// Hands out the ends.
    pub(super) fn finish(
        self,
        spec: &Spec,
        options: &OpenOptions,
        memory: Vec<Memory>,
        built: Built,
    ) -> Ends {
        let queues = built.queues.iter().map(|(queue, _)| Arc::clone(queue)).collect();
        let (config, shape) = (self.config, self.shape);
        let requests = built.requests;
        let local = matches!(self.device.hardware.as_deref(), Some("veth" | "tun"));
        let (program, promiscuous) = (built.attachment, built.promiscuous);
        let hints = program.as_ref().is_some_and(|program| program.hints().any());
        let handle = Handle::new(spec.clone(), self.device, options, program, queues, promiscuous);
        let handle = Arc::new(handle);
        let (mut rx, mut tx, mut censuses) = (Vec::new(), Vec::new(), Vec::new());
        for ((queue, intake), memory) in built.queues.into_iter().zip(memory) {
            let own = [&memory.whole, &memory.tx].into_iter().flatten().map(Pool::gauge);
            censuses.push(QueueCensus {
                pools: intake.iter().map(Intake::pool_gauge).chain(own).collect(),
                gauge: Arc::clone(&queue.gauge),
                queue: Arc::downgrade(&queue),
            });
            if let Some(intake) = intake {
                let counters = Arc::new(RxCounters::new(queue.number, Class::Rx));
                let setup = Setup {
                    intake,
                    whole: memory.whole,
                    counters: Arc::clone(&counters),
                    handle: Arc::clone(&handle),
                    snaplen: options.snaplen.clamp(1, OpenOptions::MAX_SNAPLEN),
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
            if let Some(pool) = memory.tx {
                let counters = Arc::new(TxCounters::new(queue.number));
                let ours = Arc::clone(&counters);
                let handle = Arc::clone(&handle);
                // SAFETY: the only transmitter of this queue, as each queue comes once.
                let end = unsafe {
                    let flags = (config.need_wakeup, requests);
                    Transmitter::new(queue, pool, shape, flags, ours, handle)
                };
                tx.extend(end.map(|end| Tx::new(end, counters).takes_offloads(requests.checksums)));
            }
        }
        Ends { handle, rx, tx, censuses }
    }

    /// What the port turned out to be.
    pub(super) fn describe(
        &self,
        spec: &Spec,
        (mode, built): (Mode, &Built),
        options: &OpenOptions,
        negotiation: Vec<Rung>,
        mut notes: Vec<String>,
    ) -> PortInfo {
        if built.zero_copy != mode.is_zero_copy() {
            let is = if built.zero_copy { "zero copy" } else { "copying" };
            notes.push(format!("asked for {}, the kernel says {is}", mode.as_str()));
        }
        let attached = || bpf::attached(self.device.index).ok().flatten();
        let actual = match (built.zero_copy, &built.attachment) {
            (true, _) => "zerocopy",
            // Without a program there is nothing that could run here or there.
            (false, None) => "copy",
            (false, Some(_)) => match attached().map(|program| program.mode) {
                Some(bpf::XdpMode::Generic) => "generic",
                Some(_) => "native",
                None => mode.as_str(),
            },
        };
        if actual == "generic" && self.device.shifts_queues() {
            notes.push(format!(
                "in generic mode packets of queue 1 of {} arrive on queue 0, those of queue 2 \
                 on queue 1, and so on: the kernel misreads the queue number that this driver \
                 records",
                self.device.name
            ));
        }
        if actual == "generic" && options.receive && options.intact {
            let name = &self.device.name;
            notes.push(format!(
                "in generic mode a long packet of segmentation offload or GRO is passed on \
                 whole, or dropped if it exceeds a frame. packet:{name} recognises such \
                 packets. To avoid them: `ethtool -K {name} gro off lro off`, and on the other \
                 end of a veth pair `ethtool -K IF tso off gso off tx-udp-segmentation off`"
            ));
        }
        if let Some(attachment) = built.attachment.as_ref().filter(|_| options.receive) {
            notes.extend(self.missing(mode, actual, attachment));
        }
        PortInfo {
            spec: spec.to_string(),
            backend: "xdp",
            mode: actual.to_owned(),
            interface: Some(self.device.name.clone()),
            queues: self.requests.iter().map(|request| request.number).collect(),
            negotiation,
            notes,
            link_type: self.device.link_type,
            hardware: self.device.hardware.clone(),
            speed: self.device.speed,
            snaplen: options.snaplen.clamp(1, OpenOptions::MAX_SNAPLEN),
            lossless: false,
            // Packets are stamped when they are taken out of the ring.
            lateness: 0,
        }
    }

    /// Whether a port that only sends has a program too, which leaves every packet to the host. Drivers
    /// send from sockets in zero copy only while they have one (`igb_xsk_wakeup`, `i40e_xsk_wakeup`), no
    /// matter whose.
    fn sends_with_program(&self, mode: Mode, prospects: &Prospects) -> bool {
        mode.is_zero_copy() && !prospects.is_taken()
    }

    fn pools(&self, request: &Request) -> Pools {
        self.config.pools(&self.shape, request.receive, request.transmit)
    }

    /// A socket that holds the wish for promiscuous mode, which the kernel forgets when it is closed.
    fn promiscuous(&self) -> Result<PacketSocket> {
        let wished = PacketSocket::open().and_then(|socket| {
            socket.set_promiscuous(self.device.index, true)?;
            Ok(socket)
        });
        wished.map_err(|error| Error::os(self.device.name.as_str(), error))
    }

    fn attach(
        &self,
        mode: Mode,
        prospects: &Prospects,
        options: &OpenOptions,
    ) -> Result<Attachment> {
        let target = Target {
            interface: &self.device.name,
            ifindex: self.device.index,
            queues: u32::from(self.device.rx_queues),
            mode: mode.program(),
            multi_buffer: self.shape.pieces,
            tags: self.tags(mode, prospects, options)?,
            hints: self.hints(mode, prospects, options)?,
        };
        let plan = Plan { keep_management: !options.take_management, filter: self.filter.clone() };
        match Attachment::new(&target, &plan) {
            // A kernel may refuse the program only because it asks the driver: then that is not to be had.
            Err(error) if target.asks() && !self.must_ask(options) && !is_exhausted(&error) => {
                Attachment::new(&Target { tags: None, hints: Hints::default(), ..target }, &plan)
            }
            attached => attached,
        }
    }

    /// Opens one queue. Takes the pool that is to be received into, and leaves it if it fails.
    fn open_queue(
        &self,
        request: Request,
        mode: Mode,
        region: &Region,
        (owner, requests): (Option<&Queue>, Requests),
        pool: &mut Option<Pool>,
    ) -> wirelane_os::Result<(Arc<Queue>, Option<Intake>)> {
        let umem = (owner.is_none(), requests);
        let queue = Queue::create(request, &self.config, &self.shape, region, umem)?;
        let queue = Arc::new(queue);
        // Drivers with zero copy take chunks when they are bound.
        // SAFETY: the only intake of this queue.
        let intake = pool.take().map(|pool| unsafe { Intake::new(Arc::clone(&queue), pool) });
        let (index, number) = (self.device.index, u32::from(request.number));
        let bound = negotiate::bind_patiently(|| match owner {
            Some(owner) => queue.socket().bind_shared(index, number, owner.socket()),
            None => queue.socket().bind(index, number, self.flags(mode)),
        });
        match bound {
            Ok(()) => Ok((queue, intake)),
            Err(error) => {
                drop(queue);
                *pool = intake.map(Intake::into_pool);
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

/// What packets must match at first.
///
/// # Errors
/// The filter means nothing for Ethernet.
fn filter(options: &OpenOptions) -> Result<Option<Arc<filter::Program>>> {
    let filter = options.filter.as_ref().filter(|_| options.receive);
    Ok(filter.map(|filter| filter.program(ETHERNET, options.snaplen)).transpose()?)
}

/// Whether there was no room, which there is no more without what was asked for.
fn is_exhausted(error: &Error) -> bool {
    error.errno().is_some_and(wirelane_os::error::is_exhaustion)
}

/// Whether the kernel does not know what it was asked for.
fn is_unknown(error: &wirelane_os::OsError) -> bool {
    error.errno() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
