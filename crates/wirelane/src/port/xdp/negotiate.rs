//! Which mode an interface can have, found out by trying, and said in words.
//!
//! Each mode is tried as a whole (program, sockets, rings, chunks, binding of
//! every queue), and what was tried leaves nothing behind if it is refused.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane_os::bpf;
use wirelane_os::netdev::{self, XdpFeatures};

use super::config::Shape;
use super::mode::Mode;
use crate::error::{Error, Result};
use crate::port::device::Device;

/// What the kernel says of the interface before anything is tried.
pub(super) struct DeviceOffers {
    features: Option<XdpFeatures>,
    /// A program that is there already.
    attached: Option<String>,
}

impl DeviceOffers {
    /// # Errors
    /// There is no room to ask.
    pub(super) fn of(device: &Device) -> Result<Self> {
        let attached = answer(device, bpf::attached(device.index))?;
        Ok(Self {
            features: answer(device, netdev::xdp_features(device.index))?,
            attached: attached.map(|program| program.to_string()),
        })
    }

    /// Whether somebody completes the checksums of packets that are sent in `mode`: in zero copy the device, if
    /// it can; otherwise the stack, which leaves them to the device if that can (`validate_xmit_skb`).
    pub(super) fn completes_checksums(&self, mode: Mode) -> bool {
        !mode.is_zero_copy() || self.features.is_some_and(XdpFeatures::tx_checksum)
    }

    /// Whether somebody says when packets left that are sent in `mode`: the device, or else the kernel.
    pub(super) fn stamps_packets(&self, mode: Mode) -> bool {
        !mode.is_zero_copy() || self.features.is_some_and(XdpFeatures::tx_timestamp)
    }

    /// Whether the driver tells the VLAN tags that it takes out of packets, to programs that run in `mode`.
    pub(super) fn tells_tags(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_vlan_tag)
    }

    /// Whether the driver tells the hashes of packets, to programs that run in `mode`.
    pub(super) fn tells_hashes(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_hash)
    }

    /// Whether the driver tells when the hardware received packets, to programs that run in `mode`.
    pub(super) fn tells_times(&self, mode: Mode) -> bool {
        mode != Mode::Generic && self.features.is_some_and(XdpFeatures::rx_timestamp)
    }

    /// Whether the interface has a program.
    pub(super) fn is_taken(&self) -> bool {
        self.attached.is_some()
    }

    /// Why `mode` need not be tried.
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
                    "in zero copy {driver} would cut packets of its MTU of {} bytes to fit frames of {} bytes",
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

/// Who cannot be asked may still say yes. If that is for want of room, no later attempt can say what was wrong.
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

/// Which of the refusals of all modes, in the order in which they were tried, to tell: the first that is more than a
/// mode that the driver does not have.
pub(super) fn first_cause(refusals: Vec<Error>) -> Option<Error> {
    let lacks = |error: &Error| error.errno() == Some(Errno::OPNOTSUPP.raw_os_error());
    let first = refusals.iter().position(|error| !lacks(error));
    let told = first.unwrap_or(refusals.len().saturating_sub(1));
    refusals.into_iter().nth(told)
}

/// Says what a refused binding means.
pub(super) fn explain(
    device: &Device,
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
        Some(Errno::INVAL) => {
            said(format!("the kernel refuses queue {queue} with these frames: {error}"))
        }
        _ => return Error::os(name, error),
    };
    explained.caused_by(error)
}

/// How long a queue may still be taken by a socket that was closed: the kernel ends it later
/// (`xp_release_deferred`).
const LONGEST_RELEASE: Duration = Duration::from_secs(2);

/// Binds with `bind`, again for a while if the queue is busy.
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
