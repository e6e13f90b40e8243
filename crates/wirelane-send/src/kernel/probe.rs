//! When the kernel can send by itself.

use wirelane::port::{Backend, PortInfo};
use wirelane_gen::Rate;
use wirelane_gen::stream::Stream;
use wirelane_os::bpf::{self, XdpMode, missing_capabilities};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::{OsError, iface, netdev};

use super::limits::{MAX_FRAME, MAX_STREAMS};
use super::refusal::Refusal;

/// Length of an Ethernet header and of a VLAN tag, which a frame may have more than the MTU says
/// (`xdp_ok_fwd_dev`).
const HEADERS: usize = 14 + 4;

/// Whether the kernel can send these streams out of this port. Nothing is sent to find out.
///
/// # Errors
/// Why not. What only shows when programs are loaded is an error of [`start`](super::start).
pub fn can(port: &PortInfo, streams: &[Stream]) -> Result<(), Refusal> {
    let interface = match (&port.interface, port.backend) {
        (Some(interface), Backend::Packet | Backend::Xdp) => interface,
        _ => return Err(Refusal::Port(port.spec.clone())),
    };
    shape(streams)?;
    let missing = missing_capabilities();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
        return Err(Refusal::Privilege(names.join(" and ")));
    }
    let mtu = iface::mtu(interface).map_err(|error| Refusal::Kernel(error.to_string()))?;
    let most = (mtu as usize + HEADERS).min(MAX_FRAME);
    let longest = streams.iter().map(|stream| stream.lengths.max()).max().unwrap_or(0);
    if longest > most {
        return Err(Refusal::TooLong { bytes: longest, most });
    }
    transmits(interface)
}

/// Whether programs can keep to the schedules of these streams.
fn shape(streams: &[Stream]) -> Result<(), Refusal> {
    if streams.is_empty() {
        return Err(Refusal::NoStreams);
    }
    if streams.len() > MAX_STREAMS {
        return Err(Refusal::Streams(streams.len()));
    }
    let paced = streams.iter().any(|stream| stream.rate != Rate::Max);
    if paced && streams.len() > 1 {
        return Err(Refusal::Rates);
    }
    let even = |stream: &Stream| match stream.schedule() {
        Ok(schedule) if paced => schedule.is_even(),
        Ok(schedule) => schedule.is_at_once() && stream.start == 0 && stream.duration.is_none(),
        Err(_) => false,
    };
    if streams.iter().all(even) { Ok(()) } else { Err(Refusal::Intervals) }
}

/// Whether the interface transmits redirected frames, as far as the kernel tells.
pub(super) fn transmits(interface: &str) -> Result<(), Refusal> {
    let told = iface::index(interface).and_then(netdev::xdp_features);
    match told {
        Ok(None) => untold(interface),
        Ok(Some(features)) if features.transmit() => Ok(()),
        Ok(Some(_)) => Err(Refusal::Interface(format!(
            "{interface} does not transmit frames of programs now; a veth does when its peer has an \
             XDP program in native mode or GRO (ethtool -K PEER gro on), some cards when they have \
             an XDP program themselves"
        ))),
        Err(error) => Err(Refusal::Kernel(error.to_string())),
    }
}

/// The same where nobody tells: before Linux 6.3. Without a program of their own, cards drop frames of other programs,
/// as a rule, and do not count them (igb_xdp_xmit, virtnet_xdp_xmit): nobody would learn that nothing was sent.
fn untold(interface: &str) -> Result<(), Refusal> {
    let is_card = || Ok(Ethtool::open(interface)?.driver()?.is_some_and(|it| !it.bus.is_empty()));
    let has_program = || {
        let attached = bpf::attached(iface::index(interface)?)?;
        Ok(attached.is_some_and(|program| program.mode == XdpMode::Native))
    };
    let kernel = |error: OsError| Refusal::Kernel(error.to_string());
    if !is_card().map_err(kernel)? || has_program().map_err(kernel)? {
        return Ok(());
    }
    Err(Refusal::Interface(format!(
        "before Linux 6.3 the kernel does not say whether {interface} transmits frames of programs; most \
         cards do only while they have an XDP program themselves"
    )))
}
