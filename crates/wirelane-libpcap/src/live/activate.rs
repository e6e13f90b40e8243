//! From the options to an open port, with the statuses and texts of libpcap.

use std::ffi::c_int;
use std::time::Duration;

use wirelane::port::{Backend, Port, PortInfo, PortMode, Rx, open as open_port, parse_number};
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;

use super::links::Links;
use super::merge::Bounds;
use super::options::Options;
use crate::abi::{status, timestamp};
use crate::device::Opening;
use crate::failure::Failure;

/// Who activates a handle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// A port of ours.
    Ours,
    /// The real library: in monitor mode, for one protocol only, with the adapter's time, or
    /// without link headers.
    Real,
}

/// An open port that has not started.
pub(super) struct Opened {
    pub(super) port: Port,
    pub(super) links: Links,
    /// The snap length in force.
    pub(super) snaplen: c_int,
    pub(super) warning: Option<Failure>,
}

/// Finds out who can activate an interface.
///
/// # Errors
/// There is no such interface.
pub(crate) fn examine(options: &Options, opening: &Opening) -> Result<Activation, Failure> {
    if !opening.is_packet() {
        return Ok(Activation::Ours);
    }
    let name = opening.spec.name_text();
    if name.len() > iface::NAME_MAX {
        return Err(Failure::status(status::ERROR_NO_SUCH_DEVICE));
    }
    let adapter = [timestamp::ADAPTER, timestamp::ADAPTER_UNSYNCED];
    let by_adapter = options.timestamp_type.is_some_and(|kind| adapter.contains(&kind));
    let all = [0, libc::ETH_P_ALL];
    if options.monitor || by_adapter || !all.contains(&options.protocol) {
        return Ok(Activation::Real);
    }
    let links = Links::of_interface(name, hardware_type(name)?);
    Ok(if links.is_some() { Activation::Ours } else { Activation::Real })
}

/// Opens the port.
///
/// # Errors
/// As libpcap: no such device, no permission, not up; or what opening the port says.
pub(super) fn open(options: &Options, opening: &Opening) -> Result<Opened, Failure> {
    let snaplen = match options.snaplen {
        1..=MAX_SNAPLEN => options.snaplen,
        _ => MAX_SNAPLEN,
    };
    let mut open = opening
        .options()
        .snaplen(snaplen.unsigned_abs())
        .promiscuous(options.promiscuous)
        .latency(latency(options))
        // AF_PACKET sends through the sockets of its rings, which then do not see it again.
        .transmit(!opening.is_packet() && opening.spec.backend != Some(Backend::File));
    let spec = &opening.spec;
    if opening.is_packet() {
        let flags = iface::flags(opening.spec.name_text());
        if !flags.map_err(|error| no_device("SIOCGIFFLAGS", &error))?.is_up() {
            // libpcap finds out later than what the user may do.
            drop(PacketSocket::open().map_err(|error| socket_failure(error.errno()))?);
            return Err(Failure::status(status::ERROR_IFACE_NOT_UP));
        }
        let said = |key: &str| spec.options.iter().any(|(said, _)| said == key);
        if let Some(all) = opening.ring.filter(|_| !said("ring")) {
            // Whole blocks of the size that the user says.
            let block = spec.options.iter().find(|(key, _)| key == "block");
            let block = block.and_then(|(_, bytes)| parse_number(bytes)).unwrap_or(0);
            let least = usize::try_from(block).unwrap_or(0).saturating_mul(FEWEST_BLOCKS);
            open = open.ring_bytes((all / opening.rings()).clamp(SMALLEST, LARGEST).max(least));
        } else {
            let asked = usize::try_from(options.buffer_size).ok();
            open = open.all_rings(asked.filter(|bytes| *bytes > 0));
        }
    }
    let port = open_port(spec, &open).map_err(|error| match error.errno() {
        Some(libc::ENETDOWN) => Failure::status(status::ERROR_IFACE_NOT_UP),
        Some(libc::ENODEV) => Failure::status(status::ERROR_NO_SUCH_DEVICE),
        errno @ Some(libc::EPERM | libc::EACCES) if opening.is_packet() => socket_failure(errno),
        _ => Failure::from(error),
    })?;
    let links = match opening.is_packet() {
        true => {
            let name = opening.spec.name_text();
            Links::of_interface(name, hardware_type(name)?)
        }
        false => None,
    };
    let links = links.unwrap_or_else(|| Links::of_link_type(port.info().link_type));
    Ok(Opened { port, links, snaplen, warning: None })
}

/// How far to go for the order of time of the packets of these ends.
pub(super) fn bounds(info: &PortInfo, ends: &[Rx], options: &Options) -> Bounds {
    const BYTES_PER_MS: usize = 125_000;
    let ring = ends.iter().filter_map(Rx::ring_bytes).min().unwrap_or(usize::MAX);
    // A nap ends before traffic of 1 Gbit/s fills most of a ring.
    let millis = u64::try_from(ring / 8 * 7 / BYTES_PER_MS).unwrap_or(u64::MAX);
    // Then a ring that is empty has held nothing back.
    let one_by_one = info.mode == PortMode::TpacketV2;
    Bounds {
        ring,
        wait: Duration::from_nanos(info.lateness) + GRACE,
        nap: (latency(options) / 4).min(Duration::from_millis(millis)),
        disorder: if one_by_one { Duration::ZERO } else { Bounds::DISORDER },
        sleeps: info.backend == Backend::Packet,
    }
}

/// Of a ring of a packet port: its fewest blocks, and its bytes.
const FEWEST_BLOCKS: usize = 4;
const SMALLEST: usize = 16 << 10;
const LARGEST: usize = 4 << 30;
/// How long a ring may say nothing beyond the port's own lateness before others go on.
const GRACE: Duration = Duration::from_millis(100);

/// `MAXIMUM_SNAPLEN` of libpcap.
const MAX_SNAPLEN: c_int = 262_144;

/// Whether packets are handed over one by one: the program asks for that, or sets a timeout that
/// blocks of packets would use up.
fn is_immediate(options: &Options) -> bool {
    const LONGEST: c_int = 4;
    options.immediate || (1..=LONGEST).contains(&options.timeout_ms)
}

/// How long a packet may wait for others in its block: the timeout or, if it is longer, a part of
/// it, as two rings are in step after twice the time of a block.
fn latency(options: &Options) -> Duration {
    /// What the kernel takes itself, for 1 Gbit/s and more, if the program sets no timeout.
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

/// The user may not open a socket, or there can be none.
fn socket_failure(errno: Option<i32>) -> Failure {
    let failure = Failure::errno("socket", errno.unwrap_or(0));
    match errno {
        Some(libc::EPERM | libc::EACCES) => failure.with_status(status::ERROR_PERM_DENIED),
        _ => failure,
    }
}

fn hardware_type(name: &str) -> Result<u16, Failure> {
    iface::link_type(name).map_err(|error| no_device("SIOCGIFHWADDR", &error))
}

/// No such device, or what else the call gives.
fn no_device(call: &str, error: &wirelane_os::OsError) -> Failure {
    match error.errno() {
        Some(libc::ENODEV | libc::EINVAL) => Failure::status(status::ERROR_NO_SUCH_DEVICE),
        errno => Failure::errno(call, errno.unwrap_or(0)),
    }
}
