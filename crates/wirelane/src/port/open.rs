//! Opens a port from a spec.

use std::sync::Arc;

use super::filtered::filtered;
use super::info::Attempt;
use super::options::OpenOptions;
use super::packet::{PacketPort, any};
use super::port::Port;
use super::program_options::MemoryShare;
use super::spec::{Backend, Spec};
use super::xdp::XdpPort;
use super::{file, sim, tap};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::memory::Allotment;
use crate::pool::Region;
use crate::port::offload::switches::{OffloadOptions, Switches};

/// Opens the port that `spec` names.
///
/// A bare interface name means `packet:`, which only copies packets. If the program takes all
/// packets ([`Take::All`](super::Take::All)), a bare name selects the best backend that works;
/// [`PortInfo`](super::PortInfo) names it and the reasons.
///
/// # Errors
/// The spec needs something that the backend or the machine does not have. Each backend lists its
/// errors.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    if let Some((key, _)) =
        spec.offloads.pairs().next().filter(|_| !options.internal.forwarding.heeds_offloads)
    {
        let cause = format!("'{key}' has no effect here: this command neither segments nor merges");
        return Err(Error::usage(format!("port '{spec}'"), cause).help("use `wirelane forward`"));
    }
    if options.wait && !matches!(spec.backend, None | Some(Backend::Packet)) {
        let cause = "it cannot wait for a removed interface";
        return Err(Error::usage(format!("port '{spec}'"), cause).help("packet: can"));
    }
    let is_every = options.internal.every_interface && spec.name_text() == any::NAME;
    let mut port = match spec.backend {
        Some(Backend::Packet) | None if is_every => any::open(spec, options)?,
        Some(Backend::Sim) => filtered(sim::open(spec, options)?, options)?,
        Some(Backend::File) => filtered(file::open(spec, options)?, options)?,
        Some(Backend::Tap) => filtered(tap::open(spec, options)?, options)?,
        Some(Backend::Xdp) => XdpPort::open(spec, options)?.into(),
        Some(Backend::Custom) => {
            let error = Error::usage(format!("port '{spec}'"), "a program creates it");
            return Err(error.help("call port::custom"));
        }
        None if options.take.takes_all() => best(spec, options)?,
        Some(Backend::Packet) | None => PacketPort::open(spec, options)?.into(),
    };
    let filter = options.filter.as_ref().filter(|_| options.receive);
    port.info.filter = filter.and_then(Filter::expression).map(str::to_owned);
    port.set_switches(Arc::new(Switches::of(&spec.offloads, &OffloadOptions::default())));
    Ok(port)
}

/// Allocates frame memory for ports that will be opened with these arguments, so that they send
/// each other's frames without a copy. Put each result into the port's `ProgramOptions::memory`.
/// The result is `None` for ports that cannot use it, and for all ports if fewer than two can.
///
/// # Errors
/// The memory is not available. Other errors appear when the ports are opened.
pub fn shared_memory(ports: &[(&Spec, &OpenOptions)]) -> Result<Vec<Option<MemoryShare>>> {
    let budget = Allotment::of_rest().part(ports.len());
    let needs = ports.iter().map(|(spec, options)| {
        let could = spec.backend == Some(Backend::Xdp)
            || spec.backend.is_none() && is_candidate(spec, options);
        let bytes = could.then(|| XdpPort::memory_within(spec, options, &budget))?;
        bytes.ok()
    });
    let needs: Vec<Option<usize>> = needs.collect();
    if needs.iter().flatten().count() < 2 {
        return Ok(vec![None; ports.len()]);
    }
    let region = Region::new(needs.iter().flatten().sum(), None)?;
    let share = |bytes: usize| MemoryShare { region: region.clone(), bytes };
    Ok(needs.into_iter().map(|bytes| bytes.map(share)).collect())
}

/// Opens AF_XDP in the best mode that the interface supports, or else AF_PACKET.
fn best(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    let attempts = if is_candidate(spec, options) {
        match XdpPort::negotiate(spec, options) {
            Ok(port) => return Ok(port.into()),
            Err((error, tried)) if tried.is_empty() => vec![Attempt::refused("xdp", &error)],
            Err((_, tried)) => tried,
        }
    } else {
        vec![Attempt::refused("xdp", &unsuitable(spec, options))]
    };
    Ok(PacketPort::open_after(spec, options, attempts)?.into())
}

/// Whether the program takes all packets and AF_XDP supports the other options.
fn is_candidate(spec: &Spec, options: &OpenOptions) -> bool {
    let mask = &options.mask;
    let copies = options.receive && mask.enabled && mask.tx.largest().is_some();
    // Options belong to one backend; without a backend they belong to `packet`.
    options.take.takes_all() && !copies && !options.wait && spec.options.is_empty()
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
