//! What packets are counted by.

use std::fmt::{self, Display, Formatter};

/// What packets are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The protocols of network and transport layer.
    Proto,
    /// IP addresses: each packet for the one that sent it and the one that it is sent to.
    Host,
    /// Ports of TCP, UDP and the like: each packet for both.
    Port,
    /// The queue that packets came by.
    Queue,
    /// VLAN tags.
    Vlan,
    /// Who talks to whom, both directions together.
    Flow,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Proto, Self::Host, Self::Port, Self::Queue, Self::Vlan, Self::Flow];

    /// Its name.
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

    /// Whether a packet counts for whom it comes from and for whom it is sent to.
    pub const fn has_directions(self) -> bool {
        matches!(self, Self::Host | Self::Port | Self::Flow)
    }
}

impl Display for By {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
