//! From a spec to an open port.

use super::filtered::FilteredPort;
use super::{Backend, OpenOptions, Port, Spec, Take, file, packet, sim, tap, xdp};
use crate::error::{Error, Result};
use crate::memory::Allotment;
use crate::pool::Region;

/// Opens the port that `spec` names.
///
/// A bare interface name is `packet:`, which only looks. If the program takes all packets ([`Take::All`]) it is the
/// best backend that works, and the port's [`super::PortInfo`] says which one that is and why.
///
/// # Errors
/// The spec asks for what the backend or the machine does not have; each backend says more.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Box<dyn Port>> {
    if let Some((key, _)) = spec.offloads.pairs().next().filter(|_| !options.heeds_offloads) {
        let cause = format!("'{key}' has no effect here: this command neither segments nor merges");
        return Err(Error::usage(format!("port '{spec}'"), cause).help("use `wirelane forward`"));
    }
    if options.wait && !matches!(spec.backend, None | Some(Backend::Packet)) {
        let cause = "it cannot wait for a removed interface";
        return Err(Error::usage(format!("port '{spec}'"), cause).help("packet: can"));
    }
    match spec.backend {
        Some(Backend::Sim) => {
            Ok(Box::new(FilteredPort::new(sim::Sim::open(spec, options)?, options)?))
        }
        Some(Backend::File) => {
            Ok(Box::new(FilteredPort::new(file::FilePort::open(spec, options)?, options)?))
        }
        Some(Backend::Packet) => Ok(Box::new(packet::PacketPort::open(spec, options)?)),
        Some(Backend::Xdp) => Ok(Box::new(xdp::XdpPort::open(spec, options)?)),
        Some(Backend::Tap) => {
            Ok(Box::new(FilteredPort::new(tap::TapPort::open(spec, options)?, options)?))
        }
        None if options.take == Take::All => best(spec, options),
        None => Ok(Box::new(packet::PacketPort::open(spec, options)?)),
    }
}

/// A port's part of a region; see [`shared_memory`].
#[derive(Clone, Debug)]
pub struct Share {
    pub(super) region: Region,
    pub(super) bytes: usize,
}

/// Frame memory for several ports that are opened with these arguments, so that they send each other's
/// frames without a copy: what to put into [`OpenOptions::memory`] of each. `None` for those that cannot use it, and for
/// all if fewer than two could.
///
/// # Errors
/// There is not so much memory. What else is wrong shows when the ports are opened.
pub fn shared_memory(ports: &[(&Spec, &OpenOptions)]) -> Result<Vec<Option<Share>>> {
    let budget = Allotment::of_rest().part(ports.len());
    let needs = ports.iter().map(|(spec, options)| {
        let could = spec.backend == Some(Backend::Xdp)
            || spec.backend.is_none() && is_candidate(spec, options);
        let bytes = could.then(|| xdp::XdpPort::memory_within(spec, options, &budget))?;
        bytes.ok()
    });
    let needs: Vec<Option<usize>> = needs.collect();
    if needs.iter().flatten().count() < 2 {
        return Ok(vec![None; ports.len()]);
    }
    let region = Region::new(needs.iter().flatten().sum(), None)?;
    let share = |bytes: usize| Share { region: region.clone(), bytes };
    Ok(needs.into_iter().map(|bytes| bytes.map(share)).collect())
}

/// AF_XDP in the best mode that the interface can have, or else AF_PACKET.
fn best(spec: &Spec, options: &OpenOptions) -> Result<Box<dyn Port>> {
    let rungs = if is_candidate(spec, options) {
        match xdp::XdpPort::negotiate(spec, options) {
            Ok(port) => return Ok(Box::new(port)),
            Err((error, rungs)) if rungs.is_empty() => vec![xdp::not_tried(&error)],
            Err((_, rungs)) => rungs,
        }
    } else {
        vec![xdp::not_tried(&unsuitable(spec, options))]
    };
    Ok(Box::new(packet::PacketPort::open_after(spec, options, rungs)?))
}

/// Whether AF_XDP is wanted, and can do what is asked for.
fn is_candidate(spec: &Spec, options: &OpenOptions) -> bool {
    let mask = &options.mask;
    let copies = options.receive && mask.enabled && mask.tx.largest().is_some();
    // Options are of one backend; those that are given without a backend are of `packet`.
    options.take == Take::All && !copies && !options.wait && spec.options.is_empty()
}

fn unsuitable(spec: &Spec, options: &OpenOptions) -> Error {
    let name = spec.name_text();
    if !spec.options.is_empty() {
        return Error::usage(name, "the options are those of packet:")
            .help(format!("name the backend, as in xdp:{name}"));
    }
    if options.wait {
        return Error::usage(name, "AF_XDP cannot wait for a removed interface");
    }
    Error::usage(name, "AF_XDP sees no packets of TX queues")
}
