//! Checks whether the kernel engine can send.

use wirelane::inspect;
use wirelane::port::{Backend, PortInfo};
use wirelane_gen::Rate;
use wirelane_gen::stream::Stream;
use wirelane_os::bpf::{self, XdpMode, missing_capabilities};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::{OsError, iface, netdev};

use super::limits::{MAX_FRAME, MAX_STREAMS};
use super::refusal::KernelRefusal;

/// The length of an Ethernet header and a VLAN tag: a frame may exceed the MTU by this
/// (`xdp_ok_fwd_dev`).
const HEADERS: usize = 14 + 4;

/// Checks whether the kernel engine can send these streams out of this port. Sends no packet.
///
/// # Errors
/// The reason why not. Problems that appear only when programs are loaded are errors of
/// [`start`](super::start).
pub fn can(port: &PortInfo, streams: &[Stream]) -> Result<(), KernelRefusal> {
    let interface = match (&port.interface, port.backend) {
        (Some(interface), Backend::Packet | Backend::Xdp) => interface,
        _ => return Err(KernelRefusal::Port(port.spec.clone())),
    };
    shape(streams)?;
    let missing = missing_capabilities();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
        return Err(KernelRefusal::Privilege(names.join(" and ")));
    }
    let mtu = iface::mtu(interface).map_err(|error| KernelRefusal::Kernel(error.to_string()))?;
    let most = (mtu as usize + HEADERS).min(MAX_FRAME);
    let longest = streams.iter().map(|stream| stream.lengths.max()).max().unwrap_or(0);
    if longest > most {
        return Err(KernelRefusal::TooLong { bytes: longest, most });
    }
    transmits(interface)
}

/// Checks whether programs can follow the schedules of these streams.
fn shape(streams: &[Stream]) -> Result<(), KernelRefusal> {
    if streams.is_empty() {
        return Err(KernelRefusal::NoStreams);
    }
    if streams.len() > MAX_STREAMS {
        return Err(KernelRefusal::Streams(streams.len()));
    }
    let paced = streams.iter().any(|stream| stream.rate != Rate::Max);
    if paced && streams.len() > 1 {
        return Err(KernelRefusal::Rates);
    }
    let even = |stream: &Stream| match stream.schedule() {
        Ok(schedule) if paced => schedule.is_even(),
        Ok(schedule) => schedule.is_at_once() && stream.start == 0 && stream.duration.is_none(),
        Err(_) => false,
    };
    if streams.iter().all(even) { Ok(()) } else { Err(KernelRefusal::Intervals) }
}

/// Checks whether the interface transmits redirected frames, as reported by the kernel, and whether
/// its driver handles them safely.
pub(super) fn transmits(interface: &str) -> Result<(), KernelRefusal> {
    is_sound(interface)?;
    let told = iface::index(interface).and_then(netdev::xdp_features);
    match told {
        Ok(None) => untold(interface),
        Ok(Some(features)) if features.transmit() => Ok(()),
        Ok(Some(_)) => Err(KernelRefusal::Interface(format!(
            "{interface} does not transmit frames of programs now; a veth does when its peer has \
             an XDP program in native mode or GRO (ethtool -K PEER gro on), some cards when they \
             have an XDP program themselves"
        ))),
        Err(error) => Err(KernelRefusal::Kernel(error.to_string())),
    }
}

/// The same for kernels before 6.3, which do not report it. Without an attached XDP program, most
/// cards drop redirected frames and do not count them (igb_xdp_xmit, virtnet_xdp_xmit), so the loss
/// would go unnoticed.
fn untold(interface: &str) -> Result<(), KernelRefusal> {
    let is_card = || Ok(Ethtool::open(interface)?.driver()?.is_some_and(|it| !it.bus.is_empty()));
    let has_program = || {
        let attached = bpf::attached(iface::index(interface)?)?;
        Ok(attached.is_some_and(|program| program.mode == XdpMode::Native))
    };
    let kernel = |error: OsError| KernelRefusal::Kernel(error.to_string());
    if !is_card().map_err(kernel)? || has_program().map_err(kernel)? {
        return Ok(());
    }
    Err(KernelRefusal::Interface(format!(
        "before Linux 6.3 the kernel does not say whether {interface} transmits frames of \
         programs; most cards do only while they have an XDP program themselves"
    )))
}

/// Checks whether the driver uses only TX queues that exist.
///
/// For redirected frames, virtio_net needs an additional TX queue for each CPU. If the device has
/// too few queues for that, but more than CPUs, the driver uses queues that do not exist, and the
/// kernel crashes (virtnet_get_xdp_sq since 5.13; seen on 7.3). The additional queues must fit into
/// the number of RX queues in use (virtnet_xdp_set).
pub(super) fn is_sound(interface: &str) -> Result<(), KernelRefusal> {
    let kernel = |error: OsError| KernelRefusal::Kernel(error.to_string());
    let driver = Ethtool::open(interface).and_then(|ethtool| ethtool.driver()).map_err(kernel)?;
    if driver.is_none_or(|driver| driver.driver != "virtio_net") {
        return Ok(());
    }
    let cpus = bpf::possible_cpus().map_err(kernel)? as u32;
    let found = inspect::interface(interface);
    let found = found.map_err(|error| KernelRefusal::Kernel(error.to_string()))?;
    if has_queues([found.rx.count, found.tx.count], cpus) {
        return Ok(());
    }
    Err(KernelRefusal::Interface(format!(
        "{interface} has more queues than this machine has CPUs, and none of its own for frames of \
         programs, upon which virtio_net would crash the kernel; `ethtool -L {interface} combined \
         {cpus}` mends that"
    )))
}

/// Whether a virtio_net with `rx` and `tx` queues sends redirected frames only through existing
/// queues.
fn has_queues([rx, tx]: [Option<u32>; 2], cpus: u32) -> bool {
    match (rx, tx) {
        (Some(rx), _) if rx <= cpus => true,
        (Some(rx), Some(tx)) => rx >= tx + cpus,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtio_net_has_queues_for_every_cpu_or_shares_them() {
        let of = |rx, tx, cpus| has_queues([Some(rx), Some(tx)], cpus);
        // All CPUs share the queues.
        assert!(of(1, 1, 2) && of(2, 2, 2) && of(4, 4, 16));
        // There is an additional queue for each CPU.
        assert!(of(4, 2, 2) && of(5, 3, 2));
        assert!(!of(4, 4, 2) && !of(3, 3, 2) && !of(5, 4, 2));
        assert!(!has_queues([None, Some(4)], 2) && !has_queues([Some(4), None], 2));
    }
}
