//! Opens a port with the program's options, and reports errors with libpcap's statuses and texts.

use std::ffi::c_int;
use std::time::Duration;

use wirelane::internal::port::parse_number;
use wirelane::port::{Backend, Port, PortInfo, PortMode, Rx, open as open_port};
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;

use super::links::LinkTypes;
use super::merge::WaitLimits;
use super::options::HandleOptions;
use crate::abi::{status, timestamp};
use crate::device::PortOpening;
use crate::failure::PcapFailure;

/// The library that activates a handle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// Wirelane opens a port.
    Ours,
    /// The real library: for monitor mode, a single protocol, adapter time stamps, or interfaces
    /// without link headers.
    Real,
}

/// An open port that has not started.
pub(super) struct OpenedPort {
    pub(super) port: Port,
    pub(super) links: LinkTypes,
    /// The snap length in force.
    pub(super) snaplen: c_int,
    pub(super) warning: Option<PcapFailure>,
}

/// Selects the library that can activate an interface.
///
/// # Errors
/// There is no such interface.
pub(crate) fn examine(
    options: &HandleOptions,
    opening: &PortOpening,
) -> Result<Activation, PcapFailure> {
    if !opening.is_packet() {
        return Ok(Activation::Ours);
    }
    let name = opening.spec.name_text();
    if name.len() > iface::NAME_MAX {
        return Err(PcapFailure::status(status::ERROR_NO_SUCH_DEVICE));
    }
    let adapter = [timestamp::ADAPTER, timestamp::ADAPTER_UNSYNCED];
    let by_adapter = options.timestamp_type.is_some_and(|kind| adapter.contains(&kind));
    let all = [0, libc::ETH_P_ALL];
    if options.monitor || by_adapter || !all.contains(&options.protocol) {
        return Ok(Activation::Real);
    }
    let links = LinkTypes::of_interface(name, hardware_type(name)?);
    Ok(if links.is_some() { Activation::Ours } else { Activation::Real })
}

/// Opens the port.
///
/// # Errors
/// libpcap's status for a missing device, missing permission or an interface that is down; or the
/// error of opening the port.
pub(super) fn open(
    options: &HandleOptions,
    opening: &PortOpening,
) -> Result<OpenedPort, PcapFailure> {
    let snaplen = match options.snaplen {
        1..=MAX_SNAPLEN => options.snaplen,
        _ => MAX_SNAPLEN,
    };
    let mut open = opening
        .options()
        .snaplen(snaplen.unsigned_abs())
        .promiscuous(options.promiscuous)
        .latency(latency(options))
        // AF_PACKET sends through the sockets of its rings, which do not capture what they send.
        .transmit(!opening.is_packet() && opening.spec.backend != Some(Backend::File));
    let spec = &opening.spec;
    if opening.is_packet() {
        let flags = iface::flags(opening.spec.name_text());
        if !flags.map_err(|error| no_device("SIOCGIFFLAGS", &error))?.is_up() {
            // libpcap checks permissions before it finds that the interface is down.
            drop(PacketSocket::open().map_err(|error| socket_failure(error.errno()))?);
            return Err(PcapFailure::status(status::ERROR_IFACE_NOT_UP));
        }
        let said = |key: &str| spec.options.iter().any(|(said, _)| said == key);
        if let Some(all) = opening.ring.filter(|_| !said("ring")) {
            // Whole blocks, if the user sets a block size.
            let block = spec.options.iter().find(|(key, _)| key == "block");
            let block = block.and_then(|(_, bytes)| parse_number(bytes)).unwrap_or(0);
            let least = usize::try_from(block).unwrap_or(0).saturating_mul(FEWEST_BLOCKS);
            open = open.ring_bytes((all / opening.rings()).clamp(SMALLEST, LARGEST).max(least));
        } else {
            let asked = usize::try_from(options.buffer_size).ok();
            open.internal.all_rings = asked.filter(|bytes| *bytes > 0);
        }
    }
    let port = open_port(spec, &open).map_err(|error| match error.errno() {
        Some(libc::ENETDOWN) => PcapFailure::status(status::ERROR_IFACE_NOT_UP),
        Some(libc::ENODEV) => PcapFailure::status(status::ERROR_NO_SUCH_DEVICE),
        errno @ Some(libc::EPERM | libc::EACCES) if opening.is_packet() => socket_failure(errno),
        _ => PcapFailure::from(error),
    })?;
    let links = match opening.is_packet() {
        true => {
            let name = opening.spec.name_text();
            LinkTypes::of_interface(name, hardware_type(name)?)
        }
        false => None,
    };
    let links = links.unwrap_or_else(|| LinkTypes::of_link_type(port.info().link_type));
    Ok(OpenedPort { port, links, snaplen, warning: None })
}

/// How long these ends may delay packets to keep them in order of time.
pub(super) fn bounds(info: &PortInfo, ends: &[Rx], options: &HandleOptions) -> WaitLimits {
    const BYTES_PER_MS: usize = 125_000;
    let ring = ends.iter().filter_map(Rx::ring_bytes).min().unwrap_or(usize::MAX);
    // A nap ends before traffic of 1 Gbit/s fills most of a ring.
    let millis = u64::try_from(ring / 8 * 7 / BYTES_PER_MS).unwrap_or(u64::MAX);
    // TPACKET_V2 delivers each packet at once, so an empty ring holds nothing back.
    let one_by_one = info.mode == PortMode::TpacketV2;
    WaitLimits {
        ring,
        wait: Duration::from_nanos(info.lateness) + GRACE,
        nap: (latency(options) / 4).min(Duration::from_millis(millis)),
        disorder: if one_by_one { Duration::ZERO } else { WaitLimits::DISORDER },
        sleeps: info.backend == Backend::Packet,
    }
}

/// Limits of a packet port's ring: fewest blocks, and bytes.
const FEWEST_BLOCKS: usize = 4;
const SMALLEST: usize = 16 << 10;
const LARGEST: usize = 4 << 30;
/// How long a ring may stay silent beyond the port's own lateness before the others continue.
const GRACE: Duration = Duration::from_millis(100);

/// `MAXIMUM_SNAPLEN` of libpcap.
const MAX_SNAPLEN: c_int = 262_144;

/// Whether packets are delivered one by one: the program requests immediate mode, or its timeout is
/// too short for blocks.
fn is_immediate(options: &HandleOptions) -> bool {
    const LONGEST: c_int = 4;
    options.immediate || (1..=LONGEST).contains(&options.timeout_ms)
}

/// How long a packet may wait for others in its block. Two rings are in step after two block times,
/// so a long timeout is divided.
fn latency(options: &HandleOptions) -> Duration {
    /// The kernel's default block timeout (`DEFAULT_PRB_RETIRE_TOV`), used if the program sets
    /// none.
    const DEFAULT: u64 = 8;
    const SHORTEST: u64 = 1;
    const SHORT: u64 = 50;
    const LONGEST: u64 = 500;
    let timeout = match u64::try_from(options.timeout_ms) {
        _ if is_immediate(options) => 0,
        Ok(0) | Err(_) => DEFAULT,
        Ok(timeout) => timeout.min(SHORT).max(timeout / 4).clamp(SHORTEST, LONGEST),
    };
    Duration::from_millis(timeout)
}

/// The error of a failed socket(2): no permission, or another reason.
fn socket_failure(errno: Option<i32>) -> PcapFailure {
    let failure = PcapFailure::errno("socket", errno.unwrap_or(0));
    match errno {
        Some(libc::EPERM | libc::EACCES) => failure.with_status(status::ERROR_PERM_DENIED),
        _ => failure,
    }
}

fn hardware_type(name: &str) -> Result<u16, PcapFailure> {
    iface::link_type(name).map_err(|error| no_device("SIOCGIFHWADDR", &error))
}

/// `PCAP_ERROR_NO_SUCH_DEVICE`, or another error of the call.
fn no_device(call: &str, error: &wirelane_os::OsError) -> PcapFailure {
    match error.errno() {
        Some(libc::ENODEV | libc::EINVAL) => PcapFailure::status(status::ERROR_NO_SUCH_DEVICE),
        errno => PcapFailure::errno(call, errno.unwrap_or(0)),
    }
}
