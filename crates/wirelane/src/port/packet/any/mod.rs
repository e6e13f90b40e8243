//! `any`: all interfaces of a network namespace at once, including interfaces created later.
//!
//! An unbound socket receives the packets of all interfaces, from each interface's first packet on,
//! and reports the interface of each packet. So the number of rings and threads does not depend on
//! the number of interfaces. The kernel gives each packet to the ring of its queue number
//! (`skb->queue_mapping`). The queue with that number depends on the driver, and is determined at
//! the first packet of an interface ([`InterfaceLookup`]).
//!
//! Each interface, class and queue is an entry of the interface table, [`DiscoveredInterfaces`].

mod handle;
pub(super) mod interfaces;
mod name;
mod program;

use std::sync::Arc;

use rustix::io::Errno;
use wirelane_os::ethtool::Ethtool;
use wirelane_os::netdev::{Link, LinkTable};
use wirelane_os::packet::{Fanout, PacketSocket};

use self::handle::AnyControl;
use self::interfaces::{Finder, InterfaceLookup};
pub(in crate::port) use self::name::NAME;
use super::config::{self, Config};
use super::control::PortProgress;
use super::fanout::{Choice, FanoutGroup};
use super::handover::Handover;
use super::link::OnRemoval;
use super::parallel::in_parallel;
use super::rejections::Rejections;
use super::ring::PacketRing;
use super::rings::Rings;
use super::rx::Receiver;
use super::setup::PacketRxParts;
use crate::error::{Error, Result};
use crate::inspect::QueueMapping;
use crate::mask::Class;
use crate::memory::Allotment;
use crate::port::accounting::Accounting;
use crate::port::device::{ETHERNET, longest_frame};
use crate::port::info::PortInfo;
use crate::port::metadata::discovered::DiscoveredInterfaces;
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::spec::{Backend, Spec};
use crate::port::steering::selection::Selection;
use crate::remedy::Remedy;
use crate::stats::RxCounters;

/// The most queue numbers with separate rings. Packets of higher numbers share a ring.
const MOST_QUEUES: u16 = 64;

/// Opens all interfaces of the calling thread's network namespace.
///
/// # Errors
/// An option applies only to a single interface, CAP_NET_RAW is missing, or the kernel has no
/// memory for the rings.
pub(in crate::port) fn open(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    let refuse = |cause: &'static str| Err(Error::usage(format!("port '{spec}'"), cause));
    let config = Config::parse(spec, options)?;
    if options.transmit {
        return refuse("nothing can be sent to all interfaces");
    }
    if options.wait {
        let cause = "it never ends with an interface";
        return Err(Error::usage(format!("port '{spec}'"), cause).remedy(Remedy::NoWait));
    }
    if config.share.is_some() {
        return refuse("all interfaces cannot be shared");
    }
    let mut table = LinkTable::new().map_err(|error| Error::os(NAME, error))?;
    let queues = queues(&mut table);
    let names = names(&mut table);
    let spare = socket()?;
    let mut notes = Vec::new();
    let snaplen = options.clamped_snaplen();
    let longest = longest(&mut table).min(snaplen as usize);
    let rings = rings(&config, (queues, longest), options, &mut notes)?;
    let times = rings.times(config.is_prompt(), None);
    let mode = rings.mode();
    let Rings { rings, fanout, .. } = rings;
    let info = PortInfo {
        interface: Some(NAME.into()),
        queues: (0..queues).collect(),
        notes,
        hardware: Some(names),
        snaplen,
        lateness: times.lateness,
        ..PortInfo::new(spec, Backend::Packet, mode)
    };
    let discovered = Arc::new(DiscoveredInterfaces::new(NAME));
    let progress: Arc<PortProgress> = Arc::default();
    let finder = Finder::new(table, &discovered, spec, options.mask.clone(), &progress, snaplen);
    let finder = Arc::new(finder);
    let fanout_program = fanout.program().cloned();
    let receiver = |(ring, number): (&PacketRing, u16)| {
        let counters = Arc::new(RxCounters::new(number, Class::Rx));
        discovered.add_ring(&counters);
        let value = (number < queues).then_some(number);
        let setup = PacketRxParts {
            ring: ring.clone(),
            counters: Arc::clone(&counters),
            progress: Arc::clone(&progress),
            interface: NAME.into(),
            snaplen,
            times,
            link_type: ETHERNET,
            on_removal: OnRemoval::End,
            interfaces: Some(InterfaceLookup::new(&finder, value)),
            rejections: fanout_program
                .as_ref()
                .map(|program| Rejections::new(program, number.into())),
        };
        Rx::new(Receiver::new(setup), counters).with_discovered(&discovered)
    };
    let rx: Vec<_> = rings.iter().zip(0..).map(receiver).collect();
    let handle =
        Arc::new(AnyControl::new((rings, fanout), discovered, finder, progress, snaplen, spare));
    handle.open_with(options.filter.as_ref())?;
    let rings = Arc::downgrade(&handle);
    let accounting =
        Accounting::new(move || rings.upgrade().map(|handle| handle.frames()).unwrap_or_default());
    let mut port = Port::new(info, handle, accounting);
    port.rx = rx;
    Ok(port)
}

/// The number of queue numbers that the current interfaces use.
fn queues(table: &mut LinkTable) -> u16 {
    let of = |link: &Link| {
        let allocated = link.rx_queues.unwrap_or(1).max(link.tx_queues.unwrap_or(1));
        if allocated <= 1 {
            return 1;
        }
        // Drivers may allocate more queues than are in use.
        let channels = Ethtool::open(&link.name).and_then(|device| device.channels());
        let used = channels.ok().flatten().map(|used| used.combined + used.rx.max(used.tx));
        used.filter(|used| *used > 0).unwrap_or(allocated)
    };
    let most = table.links().filter(|link| link.is_up()).map(of).max().unwrap_or(1);
    // Most drivers count from 1, with 0 for packets without a queue.
    u16::try_from(most + 1).unwrap_or(u16::MAX).min(MOST_QUEUES)
}

/// The longest frame of the current interfaces, in bytes.
fn longest(table: &mut LinkTable) -> usize {
    let of = |link: &Link| longest_frame(link.longest_packet);
    table.links().filter(|link| link.is_up()).map(of).max().unwrap_or(longest_frame(None))
}

/// The interfaces that are up, in words.
fn names(table: &mut LinkTable) -> String {
    const SHOWN: usize = 6;
    let up = table.links().filter(|link| link.is_up());
    let mut up: Vec<_> = up.map(|link| (link.index, link.name.clone())).collect();
    up.sort();
    let mut names: Vec<_> = up.iter().take(SHOWN).map(|(_, name)| name.as_str()).collect();
    let more = format!("{} more", up.len().saturating_sub(SHOWN));
    names.extend((up.len() > SHOWN).then_some(more.as_str()));
    names.join(", ")
}

/// A ring for each queue number, one for all higher numbers, and their fanout group.
fn rings(
    config: &Config,
    (queues, longest): (u16, usize),
    options: &OpenOptions,
    notes: &mut Vec<String>,
) -> Result<Rings> {
    let numbers: Vec<u16> = (0..=queues).collect();
    let asked = config.shape(numbers.len(), longest);
    let budget = Allotment::of_rest_for(asked.0 * asked.1 * numbers.len());
    let mut shape = asked;
    while shape.0 * shape.1 * numbers.len() > budget.bytes {
        let Some(smaller) = config::smaller(shape) else { break };
        shape = smaller;
    }
    let handover = Handover::new(config, &socket()?, notes);
    let rings = loop {
        let open = |place: usize, number: &u16| {
            let request = handover.request(config, shape, shape.1, longest);
            let selection = Selection {
                class: Class::Rx,
                queue: *number,
                mapping: QueueMapping::Unshifted,
                rx_queues: queues,
            };
            let socket = socket()?;
            let open = || PacketRing::new(socket, &request, 0, selection, false);
            let ring = options.placement.beside(place, open);
            ring.map_err(|error| Error::os(NAME, error))
        };
        match in_parallel(&numbers, config.at_once(), open) {
            Err(error) if error.errno() == Some(Errno::NOMEM.raw_os_error()) => {
                shape = config::smaller(shape).ok_or(error)?;
            }
            opened => break opened?,
        }
    };
    notes.extend(budget.note("bytes per ring", asked.0 * asked.1, shape.0 * shape.1));
    let fanout = match options.uncounted() {
        Some(why) => FanoutGroup::without_program(why),
        None => FanoutGroup::with_program(&rings, Choice::Numbers(queues), (0, true), socket()?),
    };
    if fanout.program().is_none() {
        distribute(&rings, queues).map_err(|error| Error::os(NAME, error))?;
    }
    notes.extend(handover.note(shape, longest));
    Ok(Rings { rings, fanout, retire: handover.retire(config, shape.1) })
}

/// Makes the kernel offer each packet to the ring of its number.
fn distribute(rings: &[PacketRing], queues: u16) -> wirelane_os::Result<()> {
    let [first, others @ ..] = rings else { return Ok(()) };
    let members = u32::try_from(rings.len()).unwrap_or(u32::MAX);
    let group = first.socket().new_fanout(Fanout::Program, members, true)?;
    first.socket().set_fanout_program(&program::by_number(queues))?;
    let group = (group, Fanout::Program);
    others.iter().try_for_each(|ring| ring.socket().join_fanout(group, members, true))
}

fn socket() -> Result<PacketSocket> {
    super::plan::socket(NAME)
}
