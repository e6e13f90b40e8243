//! Which modes an interface supports: features that the kernel reports, and the causes of refusals.
//!
//! Each mode is tried as a whole (program, sockets, rings, chunks, bind of every queue). A refused
//! attempt is undone completely.
//!
//! Three refusals are known before an attempt: a foreign program, an MTU that does not fit, and the
//! driver's report of its features (netlink `xdp-features`, `xdp-zc-max-segs`).

use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane_os::netdev::{self, XdpFeatures};
use wirelane_os::{bpf, machine};

use super::config::Shape;
use super::mode::Mode;
use crate::error::{Error, Result};
use crate::port::device::Device;

/// The kernel's report about the interface before the first attempt.
pub(super) struct DeviceOffers {
    features: Option<XdpFeatures>,
    /// A program that is already attached.
    attached: Option<String>,
}

impl DeviceOffers {
    /// # Errors
    /// There is no memory for the query.
    pub(super) fn of(device: &Device) -> Result<Self> {
        let attached = answer(device, bpf::attached(device.index))?;
        Ok(Self {
            features: answer(device, netdev::xdp_features(device.index))?,
            attached: attached.map(|program| program.to_string()),
        })
    }

    /// Whether checksums of packets sent in `mode` are completed. In zero copy by the device, if it
    /// can; otherwise by the stack, or by a device that can (`validate_xmit_skb`).
    pub(super) fn completes_checksums(&self, mode: Mode) -> bool {
        !mode.is_zero_copy() || self.features.is_some_and(XdpFeatures::tx_checksum)
    }

    /// Whether packets sent in `mode` get a TX timestamp, from the device or the kernel.
    pub(super) fn stamps_packets(&self, mode: Mode) -> bool {
        !mode.is_zero_copy() || self.features.is_some_and(XdpFeatures::tx_timestamp)
    }

    /// Whether the device sends packets of `mode` at given times. Without zero copy the kernel
    /// accepts the time, but does not pass it to a device.
    pub(super) fn launches_packets(&self, mode: Mode) -> bool {
        mode.is_zero_copy() && self.features.is_some_and(XdpFeatures::tx_launch_time)
    }

    /// Whether the driver reports stripped VLAN tags to programs in `mode`.
    pub(super) fn tells_tags(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_vlan_tag)
    }

    /// Whether the driver reports packet hashes to programs in `mode`.
    pub(super) fn tells_hashes(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_hash)
    }

    /// Whether the driver reports hardware RX times to programs in `mode`.
    pub(super) fn tells_times(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_timestamp)
    }

    /// Whether the interface has a program.
    pub(super) fn is_taken(&self) -> bool {
        self.attached.is_some()
    }

    /// Why trying `mode` is pointless.
    pub(super) fn refusal(
        &self,
        mode: Mode,
        device: &Device,
        shape: &Shape,
        receive: bool,
        huge: bool,
    ) -> Option<Error> {
        let name = device.name.as_str();
        let driver = device.hardware.as_deref().unwrap_or("the driver");
        if let Some(program) = self.attached.as_ref().filter(|_| receive) {
            let cause = format!("{program} is attached to it already");
            return Some(refusal(name, cause, Errno::BUSY).help(format!(
                "stop its owner, or remove it with `ip link set dev {name} xdp off`"
            )));
        }
        if receive && !shape.fits {
            let cause = format!(
                "packets of its MTU of {} bytes do not fit in frames of {} bytes, which hold {} \
                 bytes of a packet",
                device.mtu, shape.frame, shape.room
            );
            let help = match shape.pieces {
                true => format!("`ip link set dev {name} mtu 9000` or less"),
                false => "use larger frames (frame=4096) or several per packet (sg=on)".to_owned(),
            };
            return Some(refusal(name, cause, Errno::MSGSIZE).help(help));
        }
        let features = self.features?;
        if mode.is_zero_copy() {
            if receive && !shape.fits_zero_copy {
                let cause = format!(
                    "in zero copy {driver} would cut packets of its MTU of {} bytes to fit frames \
                     of {} bytes",
                    device.mtu, shape.frame
                );
                return Some(
                    refusal(name, cause, Errno::MSGSIZE).help("use larger frames (frame=4096)"),
                );
            }
            if !features.zero_copy() {
                let cause =
                    format!("{driver} has no zero copy in this configuration of the interface");
                return Some(refusal(name, cause, Errno::OPNOTSUPP));
            }
            if shape.pieces && features.zero_copy_segments.is_some_and(|most| most < 2) {
                let cause = format!("{driver} has no zero copy for packets of several frames");
                return Some(
                    refusal(name, cause, Errno::OPNOTSUPP)
                        .help(format!("`ip link set dev {name} mtu 1500`")),
                );
            }
            if shape.unaligned && !huge {
                let cause = "unaligned chunks need huge pages";
                return Some(
                    refusal(name, cause, Errno::OPNOTSUPP).help(
                        "reserve some with `sysctl vm.nr_hugepages=64`, or use chunks=aligned",
                    ),
                );
            }
        }
        if receive && mode != Mode::Generic && !(features.native() && features.redirect()) {
            let cause =
                format!("{driver} runs no XDP programs in this configuration of the interface");
            let error = refusal(name, cause, Errno::OPNOTSUPP);
            // veth_set_xdp_features().
            let help = "a veth end needs as many RX queues as its peer has TX queues";
            return Some(if driver == "veth" { error.help(help) } else { error });
        }
        None
    }
}

/// Ignores failed queries, as a mode may work nevertheless. Except for lack of memory, with which
/// no later attempt could report the cause.
fn answer<T>(device: &Device, answer: wirelane_os::Result<Option<T>>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.is_exhaustion() => Err(Error::os(device.name.as_str(), error)),
        answer => Ok(answer.ok().flatten()),
    }
}

fn refusal(name: &str, cause: impl Into<std::borrow::Cow<'static, str>>, errno: Errno) -> Error {
    let source = wirelane_os::OsError::from_errno("negotiation", name, errno.raw_os_error());
    Error::failed(name, cause).caused_by(source)
}

/// The refusal to report, from all modes in the order of attempts: the first one that is not a mode
/// that the driver lacks.
pub(super) fn first_cause(refusals: Vec<Error>) -> Option<Error> {
    let lacks = |error: &Error| error.errno() == Some(Errno::OPNOTSUPP.raw_os_error());
    let first = refusals.iter().position(|error| !lacks(error));
    let told = first.unwrap_or(refusals.len().saturating_sub(1));
    refusals.into_iter().nth(told)
}

/// The error if the kernel does not support packets of several frames.
pub(super) fn lacks_pieces(name: &str) -> Error {
    let cause = "the kernel has no packets of several frames (sg=on)";
    let help = "XDP programs have them since Linux 5.18, AF_XDP sockets since 6.6: leave sg=on out";
    Error::failed(name, cause).help(help)
}

/// Explains why the kernel refuses a socket for frames of this shape on a queue in a mode.
pub(super) fn explain(
    device: &Device,
    shape: &Shape,
    mode: Mode,
    queue: u16,
    error: wirelane_os::OsError,
) -> Error {
    let name = device.name.as_str();
    let said = |cause: String| Error::failed(name, cause);
    let explained = match error.errno().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => said(format!("queue {queue} already has an AF_XDP socket"))
            .help("end the program that owns it, or name other queues, as in xdp:eth0@1-3"),
        Some(Errno::OPNOTSUPP) if mode.is_zero_copy() => {
            said(format!("the driver has no zero copy on queue {queue}: {error}"))
        }
        Some(Errno::NOBUFS) => {
            said(format!("the frames exceed the limit of locked memory: {error}"))
                .help("`ulimit -l unlimited`, CAP_IPC_LOCK, or fewer frames (frames=512)")
        }
        Some(Errno::PERM) => said(format!("AF_XDP sockets need CAP_NET_RAW: {error}"))
            .help("run as root or `setcap cap_net_raw,cap_net_admin,cap_bpf+ep` the program"),
        Some(Errno::AFNOSUPPORT) => said("this kernel has no AF_XDP".to_owned())
            .help("it is built without CONFIG_XDP_SOCKETS; packet: works"),
        Some(Errno::INVAL) if shape.pieces && machine::kernel() < [6, 6] => lacks_pieces(name),
        Some(Errno::INVAL) => {
            said(format!("the kernel refuses queue {queue} with these frames: {error}"))
        }
        _ => return Error::os(name, error),
    };
    explained.caused_by(error)
}

/// How long a closed socket may keep its queue: the kernel releases it later
/// (`xp_release_deferred`).
const LONGEST_RELEASE: Duration = Duration::from_secs(2);

/// Calls `bind`, repeatedly while the queue is busy.
pub(super) fn bind_when_released(
    mut bind: impl FnMut() -> wirelane_os::Result<()>,
) -> wirelane_os::Result<()> {
    let until = Instant::now() + LONGEST_RELEASE;
    let mut nap = Duration::from_millis(1);
    loop {
        match bind() {
            Err(error)
                if error.errno() == Some(Errno::BUSY.raw_os_error()) && Instant::now() < until =>
            {
                std::thread::sleep(nap);
                nap = (2 * nap).min(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}
