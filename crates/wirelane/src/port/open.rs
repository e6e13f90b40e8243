//! From a spec to an open port.

use super::filtered::FilteredPort;
use super::{Backend, OpenOptions, Port, Spec, Take, file, packet, sim, tap, xdp};
use crate::error::{Error, Result};
use crate::pool::Region;

/// Opens the port that `spec` names.
///
/// A bare interface name takes the best backend that works; the port's [`super::PortInfo`] says
/// which one that is and why.
///
/// # Errors
/// The spec asks for what the backend or the machine does not have; each backend says more.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Box<dyn Port>> {
    if let Some((key, _)) = spec.offloads.pairs().next().filter(|_| !options.heeds_offloads) {
        let cause = format!("nothing is cut or merged here, as '{key}' says");
        return Err(
            Error::usage(format!("port '{spec}'"), cause).help("`wirelane forward` does both")
        );
    }
    if options.wait && !matches!(spec.backend, None | Some(Backend::Packet)) {
        let cause = "it cannot wait for an interface that was removed";
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
        None => best(spec, options),
    }
}

/// Frame memory for several ports that are opened with these arguments, so that they send each other's
/// frames without a copy; put it into [`OpenOptions::memory`] of each. `None` if fewer than two of them
/// could use it.
///
/// # Errors
/// The system refuses the memory. What else is wrong shows when the ports are opened.
pub fn shared_memory(ports: &[(&Spec, &OpenOptions)]) -> Result<Option<Region>> {
    let could = |(spec, options): &&(&Spec, &OpenOptions)| {
        spec.backend == Some(Backend::Xdp) || spec.backend.is_none() && is_candidate(spec, options)
    };
    let bytes = |(spec, options): &(&Spec, &OpenOptions)| xdp::XdpPort::memory_for(spec, options);
    let needs: Vec<usize> =
        ports.iter().filter(could).filter_map(|port| bytes(port).ok()).collect();
    if needs.len() < 2 {
        return Ok(None);
    }
    Region::new(needs.iter().sum(), None).map(Some)
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

/// Whether AF_XDP can do what is asked for.
fn is_candidate(spec: &Spec, options: &OpenOptions) -> bool {
    let decided =
        !options.receive || options.filter.is_some() || !matches!(options.take, Take::Undecided);
    let mask = &options.mask;
    let copies = options.receive && mask.enabled && mask.tx.largest().is_some();
    // Options are of one backend; those that are given without a backend are of `packet`.
    decided && !copies && !options.wait && spec.options.is_empty()
}

fn unsuitable(spec: &Spec, options: &OpenOptions) -> Error {
    let name = spec.name.as_str();
    if !spec.options.is_empty() {
        return Error::usage(name, "the options are those of packet:")
            .help(format!("name the backend, as in xdp:{name}"));
    }
    if options.receive && matches!(options.take, Take::Undecided) {
        return Error::usage(
            name,
            "it would take packets away from the host, which nobody asked for",
        )
        .help("say which with a filter, or take all");
    }
    if options.wait {
        return Error::usage(name, "AF_XDP cannot wait for an interface that was removed");
    }
    Error::usage(name, "AF_XDP sees no packets of TX queues")
}
