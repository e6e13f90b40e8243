//! The modes of AF_XDP.

use wirelane_os::bpf::XdpMode;

use crate::port::info::PortMode;

/// A mode that a spec can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The device reads and writes the frames.
    ZeroCopy,
    /// The program runs in the driver, the kernel copies.
    Native,
    /// The program runs in the network stack, the kernel copies.
    Generic,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::ZeroCopy, Self::Native, Self::Generic];

    /// The value of `mode=`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zerocopy",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// The name in the report of a negotiation.
    pub(super) fn way(self) -> &'static str {
        match self {
            Self::ZeroCopy => "xdp-zerocopy",
            Self::Native => "xdp-native",
            Self::Generic => "xdp-generic",
        }
    }

    /// Where the program runs.
    pub(super) fn program(self) -> XdpMode {
        match self {
            Self::ZeroCopy | Self::Native => XdpMode::Native,
            Self::Generic => XdpMode::Generic,
        }
    }

    pub(super) fn is_zero_copy(self) -> bool {
        self == Self::ZeroCopy
    }

    /// The port's mode, if the kernel grants the requested one.
    pub(super) fn of_port(self) -> PortMode {
        match self {
            Self::ZeroCopy => PortMode::ZeroCopy,
            Self::Native => PortMode::Native,
            Self::Generic => PortMode::Generic,
        }
    }
}
