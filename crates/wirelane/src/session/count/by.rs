//! The kinds of keys for counting packets.

use std::fmt::{self, Display, Formatter};

/// The kind of key for counting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The protocols of network and transport layer.
    Proto,
    /// IP addresses: each packet counts for its source and its destination.
    Host,
    /// Ports of TCP, UDP and similar protocols: each packet counts for both.
    Port,
    /// The queue of packets.
    Queue,
    /// VLAN tags.
    Vlan,
    /// Flows, both directions together.
    Flow,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Proto, Self::Host, Self::Port, Self::Queue, Self::Vlan, Self::Flow];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proto => "proto",
            Self::Host => "host",
            Self::Port => "port",
            Self::Queue => "queue",
            Self::Vlan => "vlan",
            Self::Flow => "flow",
        }
    }

    /// Whether a packet counts for its source and for its destination.
    pub const fn has_directions(self) -> bool {
        matches!(self, Self::Host | Self::Port | Self::Flow)
    }
}

impl Display for By {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
