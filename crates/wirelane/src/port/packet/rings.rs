//! Opens the receive rings: their sizes, and the ring of each packet.

use std::sync::Mutex;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::packet::{Fanout, PacketSocket};

use super::config;
use super::fanout::{Choice, FanoutGroup};
use super::handover::Handover;
use super::parallel::in_parallel;
use super::plan::PacketPlan;
use super::ring::PacketRing;
use crate::error::{Error, Result};
use crate::memory::Allotment;
use crate::port::steering::selection::{self, Selection};
use crate::sync::lock;

/// The receive rings of a port.
pub(super) struct Rings {
    pub(super) rings: Vec<PacketRing>,
    pub(super) fanout: FanoutGroup,
    /// The time after which the kernel hands over a block that is not full; 0 if it hands over
    /// single packets.
    pub(super) retire: Duration,
}

/// Opens all rings, of equal size; smaller ones if the kernel lacks memory.
///
/// # Errors
/// The kernel has no memory for the smallest rings, or refuses.
pub(super) fn open_rings(plan: &PacketPlan, notes: &mut Vec<String>) -> Result<Rings> {
    let PacketPlan { config, device, selections, .. } = plan;
    if selections.is_empty() {
        let fanout = FanoutGroup::without_program("nothing is received");
        return Ok(Rings { rings: Vec::new(), fanout, retire: config.retire(usize::MAX) });
    }
    let is_selected = |ring: &&Selection| {
        config.share.is_some() || device.selects(&plan.mask, ring.class, ring.queue)
    };
    let longest = device.longest.min(plan.snaplen as usize);
    let handover = Handover::new(config, &plan.socket()?, notes);
    let asked = config.shape(selections.iter().filter(is_selected).count(), longest);
    let bytes = |shape| {
        let of = |(block, count)| block * count;
        let ring = |ring| of(if is_selected(&ring) { shape } else { config.excluded(shape) });
        selections.iter().map(ring).sum::<usize>()
    };
    let budget = Allotment::of_rest_for(bytes(asked));
    let next = |shape: &(usize, usize)| config::smaller(*shape);
    let mut shapes = std::iter::successors(Some(asked), next);
    // The smallest rings are tried in any case.
    let fitting = shapes.find(|shape| bytes(*shape) <= budget.bytes || next(shape).is_none());
    let mut shape = fitting.unwrap_or(asked);
    let open = |place: usize,
                (selection, socket): &(Selection, Mutex<Option<PacketSocket>>),
                shape: (usize, usize)| {
        let (block, count) = if is_selected(&selection) { shape } else { config.excluded(shape) };
        let request = handover.request(config, (block, count), shape.1, longest);
        let socket = lock(socket).take();
        let socket = socket.map_or_else(|| plan.socket(), Ok)?;
        let earlier = selections.iter().take(place);
        let position = earlier.filter(|ring| ring.class == selection.class).count();
        let open =
            || PacketRing::new(socket, &request, device.index, *selection, plan.tells_offloads);
        let ring = plan.placement.beside(position, open);
        ring.map_err(|error| Error::os(device.name.as_str(), error))
    };
    let rings = loop {
        // One after the other: when the link returns, the kernel adds the sockets to the fanout
        // group in the order of their creation (packet_create, packet_notifier), and the group's
        // program relies on the order of the rings.
        let sockets =
            selections.iter().map(|selection| Ok((*selection, Mutex::new(Some(plan.socket()?)))));
        let sockets: Vec<_> = sockets.collect::<Result<_>>()?;
        match in_parallel(&sockets, config.at_once(), |place, made| open(place, made, shape)) {
            Err(error) if error.errno() == Some(Errno::NOMEM.raw_os_error()) => {
                // Smaller for all rings, so that no queue has an advantage.
                shape = config::smaller(shape).ok_or_else(|| {
                    error.help("name fewer queues, as in packet:eth0@0-3, or free memory")
                })?;
            }
            opened => break opened?,
        }
    };
    let fanout = if config.share.is_some() {
        // The port joins its group when it starts, so that no packet is given to a closed ring.
        ignore_outgoing(&rings, device.outgoing);
        FanoutGroup::without_program("other ports share the interface")
    } else if plan.wait {
        // A socket in a group can never be bound again (packet_do_bind). Each ring's program
        // rejects the packets of other rings.
        ignore_outgoing(&rings, device.outgoing);
        FanoutGroup::without_program("the port waits for the next interface of its name")
    } else {
        group(plan, &rings, notes)?
    };
    let (wanted, had) = (asked.0 * asked.1, shape.0 * shape.1);
    notes.extend(budget.note("bytes per ring", wanted, had));
    notes.extend(handover.note(shape, longest));
    Ok(Rings { rings, fanout, retire: handover.retire(config, shape.1) })
}

/// Makes the kernel offer each packet to one ring only.
fn group(plan: &PacketPlan, rings: &[PacketRing], notes: &mut Vec<String>) -> Result<FanoutGroup> {
    let PacketPlan { device, selections, .. } = plan;
    let fanout = match plan.uncounted {
        Some(why) => FanoutGroup::without_program(why),
        None => {
            ignore_outgoing(rings, device.outgoing);
            let of = (device.index, device.outgoing);
            FanoutGroup::with_program(rings, Choice::Selections(selections), of, plan.socket()?)
        }
    };
    if fanout.program().is_none()
        && let Err(error) = distribute(rings, selections, device.outgoing)
    {
        notes.push(format!(
            "the kernel offers every packet to each of the {} rings, which costs time: {error}",
            rings.len()
        ));
    }
    Ok(fanout)
}

/// Makes the kernel offer each packet to one ring only, and without `outgoing` no packets that the
/// host sends.
fn distribute(
    rings: &[PacketRing],
    selections: &[Selection],
    outgoing: bool,
) -> wirelane_os::Result<()> {
    ignore_outgoing(rings, outgoing);
    let (Some(program), [first, others @ ..]) = (selection::distribution(selections), rings) else {
        return Ok(());
    };
    let members = u32::try_from(rings.len()).unwrap_or(u32::MAX);
    let group = first.socket().new_fanout(Fanout::Program, members, outgoing)?;
    first.socket().set_fanout_program(&program)?;
    // A ring outside the group is offered all packets, and its program still selects correctly.
    let group = (group, Fanout::Program);
    others.iter().try_for_each(|ring| ring.socket().join_fanout(group, members, outgoing))
}

/// Without `outgoing`, keeps packets that the host sends out of the rings.
fn ignore_outgoing(rings: &[PacketRing], outgoing: bool) {
    for ring in rings.iter().filter(|_| !outgoing) {
        // Before Linux 4.20 the rings' programs reject these packets: the result is the same at a
        // higher cost.
        let _ = ring.socket().set_ignore_outgoing(true);
    }
}
