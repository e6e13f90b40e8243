//! Rewrite rules and their notation.

use std::str::FromStr;

use wirelane_wire::MacAddr;

use super::prefix::Prefix;
use crate::error::{Error, Result};

/// A rewrite rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// MAC addresses of the Ethernet header. Addresses equal to `from` also change in ARP and in
    /// tunnels.
    Mac {
        /// The side to change.
        side: RewriteField,
        /// The address to change; `None` for all.
        from: Option<MacAddr>,
        /// The new address.
        to: MacAddr,
    },
    /// The outermost VLAN tag.
    Vlan(VlanRule),
    /// Replaces the prefix `from` of IP addresses by `to` and keeps the host part. `to` must have
    /// at least as many host bits as `from`. If several rules match an address, the first applies.
    Address {
        /// The side to change.
        side: RewriteField,
        /// The addresses to change.
        from: Prefix,
        /// Their new prefix.
        to: Prefix,
    },
    /// Replaces each unicast IP address by a pseudonym. The same address always has the same
    /// pseudonym. Addresses that share a prefix still share a prefix of the same length.
    Pseudonyms {
        /// The seed of the pseudonyms.
        seed: u64,
    },
    /// Ports of TCP, UDP, UDP-Lite and DCCP. If several rules match a port, the first applies.
    Port {
        /// The side to change.
        side: RewriteField,
        /// The port to change; `None` for all.
        from: Option<u16>,
        /// The change of the port.
        to: PortRule,
    },
    /// TTL or hop limit.
    Ttl(TtlRule),
    /// Replaces each unicast IP address by a different one in every loop, so that flows do not
    /// repeat.
    Unique {
        /// The seed of the addresses.
        seed: u64,
        /// Changes only addresses of these prefixes, within their prefix; empty for all.
        within: Vec<Prefix>,
    },
}

/// The source or destination address or port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewriteField {
    /// Source and destination.
    #[default]
    Both,
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// A change of VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanRule {
    /// Adds an outer tag (0x8100).
    Push {
        /// VLAN identifier, below 4096.
        id: u16,
        /// Priority code point, below 8.
        priority: u8,
    },
    /// Removes the outermost tag. Frames without a tag stay the same.
    Pop,
    /// Sets the identifier of the outermost tag. Frames without a tag stay the same.
    Set(u16),
}

/// A change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRule {
    /// Sets this port.
    Set(u16),
    /// Adds this number, modulo 65536.
    Add(u16),
}

/// A change of the TTL or hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlRule {
    /// Sets this value.
    Set(u8),
    /// Adds this number. The result is limited to 1 to 255.
    Add(i16),
}

impl Rule {
    /// Parses `[src:|dst:]PREFIX=PREFIX`, such as `10.0.0.0/8=192.0.0.0/8`.
    ///
    /// # Errors
    /// The text is malformed; the message shows the notation.
    pub fn map_ip(text: &str) -> Result<Self> {
        let (side, rest) = side(text);
        let (from, to) = rest.split_once('=').ok_or_else(|| {
            Error::new(format!("'{text}' is no map; write 10.0.0.0/8=172.0.0.0/8"))
        })?;
        let (from, to): (Prefix, Prefix) = (from.parse()?, to.parse()?);
        if from.address().is_ipv4() != to.address().is_ipv4() {
            return Err(Error::new(format!("'{text}' mixes IPv4 and IPv6")));
        }
        if from.host_bits() > to.host_bits() {
            let most = to.length() - (from.host_bits() - to.host_bits());
            return Err(Error::new(format!(
                "{to} has no room for the hosts of {from}; write a prefix of at most {most} bits"
            )));
        }
        Ok(Self::Address { side, from, to })
    }

    /// Parses `[src:|dst:]MAC=MAC` (one address) or `[src:|dst:]=MAC` (all).
    ///
    /// # Errors
    /// The text is malformed; the message shows the notation.
    pub fn map_mac(text: &str) -> Result<Self> {
        let wrong =
            || Error::new(format!("'{text}' is no map; write 02:00:00:00:00:01=02:00:00:00:00:02"));
        let (side, rest) = side(text);
        let (from, to) = rest.split_once('=').ok_or_else(wrong)?;
        let mac = |text: &str| text.parse::<MacAddr>().map_err(|_| wrong());
        let from = if from.is_empty() { None } else { Some(mac(from)?) };
        Ok(Self::Mac { side, from, to: mac(to)? })
    }

    /// Parses `[src:|dst:]80=8080` (one port), `[src:|dst:]=8080` (all), `[src:|dst:]+1000` or
    /// `[src:|dst:]-1000`.
    ///
    /// # Errors
    /// The text is malformed; the message shows the notation.
    pub fn port(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(format!(
                "'{text}' is no change of ports; write 80=8080, dst:=53 or src:+1000"
            ))
        };
        let (side, rest) = side(text);
        let port = |text: &str| number::<u16>(text).ok_or_else(wrong);
        if let Some(more) = rest.strip_prefix('+') {
            return Ok(Self::Port { side, from: None, to: PortRule::Add(port(more)?) });
        }
        if let Some(less) = rest.strip_prefix('-') {
            let to = PortRule::Add(port(less)?.wrapping_neg());
            return Ok(Self::Port { side, from: None, to });
        }
        let (from, to) = rest.split_once('=').ok_or_else(wrong)?;
        let from = if from.is_empty() { None } else { Some(port(from)?) };
        Ok(Self::Port { side, from, to: PortRule::Set(port(to)?) })
    }
}

fn side(text: &str) -> (RewriteField, &str) {
    match (text.strip_prefix("src:"), text.strip_prefix("dst:")) {
        (Some(rest), _) => (RewriteField::Source, rest),
        (_, Some(rest)) => (RewriteField::Destination, rest),
        _ => (RewriteField::Both, text),
    }
}

/// Accepts only digits, unlike `parse`, which also accepts a sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl FromStr for VlanRule {
    type Err = Error;

    /// Parses `push:ID`, `push:ID/PRIORITY`, `pop` or `set:ID`.
    fn from_str(text: &str) -> Result<Self> {
        let id = |text| number::<u16>(text).filter(|id| *id < 4096);
        let rule = match text.split_once(':') {
            None if text == "pop" => Some(Self::Pop),
            Some(("set", new)) => id(new).map(Self::Set),
            Some(("push", new)) => {
                let (new, priority) = new.split_once('/').unwrap_or((new, "0"));
                let priority = number::<u8>(priority).filter(|priority| *priority < 8);
                id(new).zip(priority).map(|(id, priority)| Self::Push { id, priority })
            }
            _ => None,
        };
        rule.ok_or_else(|| {
            Error::new(format!("'{text}' is no change of VLANs; write push:100, pop or set:7"))
        })
    }
}

impl FromStr for TtlRule {
    type Err = Error;

    /// Parses `64`, `-1` or `+1`.
    fn from_str(text: &str) -> Result<Self> {
        let rule = if let Some(more) = text.strip_prefix('+') {
            number::<u8>(more).map(|more| Self::Add(more.into()))
        } else if let Some(less) = text.strip_prefix('-') {
            number::<u8>(less).map(|less| Self::Add(-i16::from(less)))
        } else {
            number(text).map(Self::Set)
        };
        rule.ok_or_else(|| Error::new(format!("'{text}' is no TTL; write 64, -1 or +1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_read() {
        let map = Rule::map_ip("src:10.0.0.0/8=172.16.0.0/8").unwrap_err();
        assert!(map.message().contains("172.0.0.0/8"), "{map}");
        assert!(matches!(
            Rule::map_ip("src:10.0.0.0/8=172.0.0.0/8"),
            Ok(Rule::Address { side: RewriteField::Source, .. })
        ));
        let narrow = Rule::map_ip("10.0.0.0/8=192.0.2.0/24").unwrap_err();
        assert!(
            narrow.message().contains("no room") && narrow.message().contains("at most 8 bits"),
            "{narrow}"
        );
        assert!(
            Rule::map_ip("10.0.0.0/8=2001:db8::/32").unwrap_err().to_string().contains("mixes")
        );
        let all = Rule::Port { side: RewriteField::Both, from: Some(80), to: PortRule::Set(8080) };
        assert_eq!(Rule::port("80=8080"), Ok(all));
        let less = Rule::Port { side: RewriteField::Source, from: None, to: PortRule::Add(65_535) };
        assert_eq!(Rule::port("src:-1"), Ok(less));
        assert_eq!("push:100/5".parse(), Ok(VlanRule::Push { id: 100, priority: 5 }));
        assert_eq!("-1".parse(), Ok(TtlRule::Add(-1)));
        for wrong in ["push", "push:4096", "push:1/8", "pop:1", "set:", "set:+1", "é"] {
            assert!(wrong.parse::<VlanRule>().is_err(), "{wrong}");
        }
        for wrong in ["", "256", "--1", "+256", "x"] {
            assert!(wrong.parse::<TtlRule>().is_err(), "{wrong}");
        }
        for wrong in ["", "80", "80=", "80=65536", "+", "src:dst:1=2"] {
            assert!(Rule::port(wrong).is_err(), "{wrong}");
        }
        assert!(Rule::map_mac("02:00:00:00:00:01=02:00:00:00:00:02").is_ok());
        assert!(matches!(
            Rule::map_mac("dst:=02:00:00:00:00:02"),
            Ok(Rule::Mac { side: RewriteField::Destination, from: None, .. })
        ));
        assert!(Rule::map_mac("02:00:00:00:00:01").is_err());
    }
}
