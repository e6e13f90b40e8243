//! The description of an open port, and the modes that were tried.

use std::fmt;

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer};

use super::spec::{Backend, Spec};
use crate::error::Error;
use crate::inspect::TxBinding;

/// One attempt to open an interface.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Attempt {
    /// The mode, such as `packet` or `xdp-zerocopy`.
    #[cfg_attr(feature = "serde", serde(rename = "rung"))]
    pub way: &'static str,
    /// Whether the port is open in this mode. Otherwise the kernel, the driver or the options
    /// refuse it.
    #[cfg_attr(feature = "serde", serde(rename = "outcome", serialize_with = "outcome"))]
    pub succeeded: bool,
    /// Symbol of the errno, such as `EOPNOTSUPP`.
    pub errno: Option<String>,
    /// The cause in words.
    pub cause: Option<String>,
    /// A remedy, if there is one.
    pub fix: Option<String>,
}

impl Attempt {
    /// The attempt that succeeded.
    pub(super) fn chosen(way: &'static str) -> Self {
        Self { way, succeeded: true, errno: None, cause: None, fix: None }
    }

    /// An attempt that failed.
    pub(super) fn refused(way: &'static str, error: &Error) -> Self {
        let errno = error.errno().map(wirelane_os::error::errno_name);
        Self {
            way,
            succeeded: false,
            errno: errno.map(str::to_owned),
            cause: Some(error.cause().to_owned()),
            fix: error.next_step().map(str::to_owned),
        }
    }
}

/// The mode of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortMode {
    /// A simulated interface.
    Sim,
    /// A simulated interface, joined to another by a cable.
    Cable,
    /// Reads a capture file.
    Read,
    /// Writes a capture file.
    Write,
    /// AF_PACKET with a TPACKET_V3 ring per queue: the kernel hands over blocks of packets.
    TpacketV3,
    /// AF_PACKET with a TPACKET_V2 ring per queue: the kernel hands over single packets.
    TpacketV2,
    /// A TAP device.
    Tap,
    /// A TAP device whose kernel side leaves segmentation and checksums to the program.
    TapOffload,
    /// AF_XDP: the device reads and writes the frames.
    ZeroCopy,
    /// AF_XDP: the program runs in the driver, the kernel copies.
    Native,
    /// AF_XDP: the program runs in the network stack, the kernel copies.
    Generic,
    /// AF_XDP without a program, to send only: the kernel copies the packets.
    Copy,
    /// Sources of the program.
    Custom,
}

impl PortMode {
    /// The name in summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Cable => "cable",
            Self::Read => "read",
            Self::Write => "write",
            Self::TpacketV3 => "tpacket-v3",
            Self::TpacketV2 => "tpacket-v2",
            Self::Tap => "tap",
            Self::TapOffload => "tap with offload",
            Self::ZeroCopy => "zerocopy",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Copy => "copy",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for PortMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl Serialize for PortMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Negotiated mode, queues and facts about the interface of an open port.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct PortInfo {
    /// The spec as the user wrote it.
    pub spec: String,
    /// The backend.
    pub backend: Backend,
    /// The mode in use.
    pub mode: PortMode,
    /// Name of the network interface.
    pub interface: Option<String>,
    /// MAC address of the network interface, if it has one; text in JSON.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_mac"))]
    pub mac: Option<[u8; 6]>,
    /// The queues that are open.
    pub queues: Vec<u16>,
    /// For ports on an interface with queues: how each transmitting end is bound to its TX queue.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub tx_queues: Vec<TxBinding>,
    /// The attempts, in order.
    pub negotiation: Vec<Attempt>,
    /// Notes for the user, such as fallbacks and information that the driver hides.
    pub notes: Vec<String>,
    /// Link type in the registry of capture files (1 is Ethernet).
    pub link_type: u16,
    /// Driver or hardware, if known.
    pub hardware: Option<String>,
    /// Link speed in bits per second, if known.
    pub speed: Option<u64>,
    /// Snap length: the most bytes kept of a packet.
    pub snaplen: u32,
    /// The filter at opening, if it is an expression.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub filter: Option<String>,
    /// Whether the port waits for its consumer, so that a slow consumer loses no packets.
    pub lossless: bool,
    /// The longest delay between a packet's timestamp and its delivery, in nanoseconds.
    pub lateness: u64,
    /// Whether the device sends each frame at its [time](crate::Frame::set_timestamp), if that time
    /// is in the future.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub launches: bool,
}

impl PortInfo {
    /// A unique name for each port: its interface, or its spec if it has none.
    #[must_use]
    pub fn names(ports: &[Self]) -> Vec<String> {
        let name = |port: &Self| port.interface.as_ref().unwrap_or(&port.spec).clone();
        tell_apart(ports.iter().map(name).collect())
    }

    /// A port for Ethernet frames that opened at the first attempt.
    pub(super) fn new(spec: &Spec, backend: Backend, mode: PortMode) -> Self {
        Self {
            spec: spec.to_string(),
            backend,
            mode,
            interface: None,
            mac: None,
            queues: Vec::new(),
            tx_queues: Vec::new(),
            negotiation: vec![Attempt::chosen(backend.as_str())],
            notes: Vec::new(),
            link_type: 1,
            hardware: None,
            speed: None,
            filter: None,
            snaplen: u32::MAX,
            lossless: false,
            lateness: 0,
            launches: false,
        }
    }
}

/// Makes names unique: repeated names get a number, as in `sim:2#1` and `sim:2#2`.
#[must_use]
pub fn tell_apart(names: Vec<String>) -> Vec<String> {
    let told = names.iter().enumerate().map(|(at, name)| {
        let before = names.iter().take(at).filter(|other| *other == name).count();
        let is_alone = names.iter().filter(|other| *other == name).count() == 1;
        if is_alone { name.clone() } else { format!("{name}#{}", before + 1) }
    });
    told.collect()
}

#[cfg(feature = "serde")]
fn outcome<S: Serializer>(has_succeeded: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *has_succeeded { "chosen" } else { "refused" })
}

#[cfg(feature = "serde")]
fn serialize_mac<S: Serializer>(mac: &Option<[u8; 6]>, serializer: S) -> Result<S::Ok, S::Error> {
    match mac {
        Some([a, b, c, d, e, f]) => {
            serializer.collect_str(&format_args!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))
        }
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_names_are_numbered() {
        let told = tell_apart(["a", "b", "a", "c", "b"].map(str::to_owned).to_vec());
        assert_eq!(told, ["a#1", "b#1", "a#2", "c", "b#2"]);
    }
}
