//! The protocols to segment and merge.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::error::{Error, Result};

/// A set of protocols to segment and merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Protocols {
    /// TCP, over IPv4 and IPv6.
    pub tcp: bool,
    /// UDP, over IPv4 and IPv6: datagrams, and fragments when sending.
    pub udp: bool,
}

impl Protocols {
    /// Both protocols.
    pub const ALL: Self = Self { tcp: true, udp: true };
    /// Neither protocol.
    pub const NONE: Self = Self { tcp: false, udp: false };

    /// Whether the set is not empty.
    pub fn any(self) -> bool {
        self.tcp || self.udp
    }
}

impl FromStr for Protocols {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "on" => return Ok(Self::ALL),
            "off" => return Ok(Self::NONE),
            _ => {}
        }
        let mut protocols = Self::NONE;
        for word in text.split(',') {
            match word {
                "tcp" => protocols.tcp = true,
                "udp" => protocols.udp = true,
                _ => {
                    let cause =
                        format!("'{}' is not a protocol to segment or merge", word.escape_debug());
                    return Err(Error::usage(format!("'{}'", text.escape_debug()), cause)
                        .help("write tcp, udp, tcp,udp, on or off"));
                }
            }
        }
        Ok(protocols)
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.tcp, self.udp) {
            (true, true) => "tcp,udp",
            (true, false) => "tcp",
            (false, true) => "udp",
            (false, false) => "off",
        })
    }
}
