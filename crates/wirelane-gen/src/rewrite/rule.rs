//! What is changed in packets: the rules and their notation.

use std::str::FromStr;

use wirelane_wire::MacAddr;

use super::prefix::Prefix;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// MAC addresses of the Ethernet header, and in ARP those that equal `from`.
    Mac {
        /// Which of the two.
        side: Side,
        /// Only this one; `None` for all.
        from: Option<MacAddr>,
        /// What it becomes.
        to: MacAddr,
    },
    /// The outermost VLAN tag.
    Vlan(VlanRule),
    /// IP addresses with the prefix `from` get the prefix `to` and keep the rest. `to` has room for
    /// the hosts of `from`. Of several rules, the first that fits an address counts.
    Address {
        /// Which of the two.
        side: Side,
        /// The addresses to change.
        from: Prefix,
        /// Their new prefix.
        to: Prefix,
    },
    /// Every unicast IP address becomes another, the same one wherever it occurs. Addresses that
    /// share a prefix share one of the same length afterwards.
    Pseudonyms {
        /// Another seed, other addresses.
        seed: u64,
    },
    /// Ports of TCP, UDP, UDP-Lite and DCCP. Of several rules, the first that fits a port counts.
    Port {
        /// Which of the two.
        side: Side,
        /// Only this one; `None` for all.
        from: Option<u16>,
        /// What becomes of it.
        to: PortRule,
    },
    /// TTL or hop limit.
    Ttl(TtlRule),
    /// In every loop, every unicast IP address becomes another, so that no flow ever comes again.
    Unique {
        /// Another seed, other addresses.
        seed: u64,
        /// Only addresses of these prefixes, which stay in their prefix; empty for all.
        within: Vec<Prefix>,
    },
}

/// Which of two addresses or ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Source and destination.
    #[default]
    Both,
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
}

/// What becomes of VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanRule {
    /// A tag (0x8100) is put in front.
    Push {
        /// VLAN identifier, below 4096.
        id: u16,
        /// Priority code point, below 8.
        priority: u8,
    },
    /// The outermost tag goes; frames without a tag stay as they are.
    Pop,
    /// The outermost tag gets this identifier; frames without a tag stay as they are.
    Set(u16),
}

/// What becomes of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRule {
    /// This one.
    Set(u16),
    /// So much more, modulo 65536.
    Add(u16),
}

/// What becomes of TTL or hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlRule {
    /// This value.
    Set(u8),
    /// So much more or less, from 1 to 255.
    Add(i16),
}

impl Rule {
    /// Reads `[src:|dst:]PREFIX=PREFIX`, such as `10.0.0.0/8=192.0.0.0/8`.
    ///
    /// # Errors
    /// In words.
    pub fn map_ip(text: &str) -> Result<Self, String> {
        let (side, rest) = side(text);
        let (from, to) = rest
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is no map; write 10.0.0.0/8=172.0.0.0/8"))?;
        let (from, to): (Prefix, Prefix) = (from.parse()?, to.parse()?);
        if from.address().is_ipv4() != to.address().is_ipv4() {
            return Err(format!("'{text}' mixes IPv4 and IPv6"));
        }
        if from.host_bits() > to.host_bits() {
            let most = to.length() - (from.host_bits() - to.host_bits());
            return Err(format!(
                "{to} has no room for the hosts of {from}; write a prefix of at most {most} bits"
            ));
        }
        Ok(Self::Address { side, from, to })
    }

    /// Reads `[src:|dst:]MAC=MAC` (one address) or `[src:|dst:]=MAC` (all).
    ///
    /// # Errors
    /// In words.
    pub fn map_mac(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no map; write 02:00:00:00:00:01=02:00:00:00:00:02");
        let (side, rest) = side(text);
        let (from, to) = rest.split_once('=').ok_or_else(wrong)?;
        let mac = |text: &str| text.parse::<MacAddr>().map_err(|_| wrong());
        let from = if from.is_empty() { None } else { Some(mac(from)?) };
        Ok(Self::Mac { side, from, to: mac(to)? })
    }

    /// Reads `[src:|dst:]80=8080` (one port), `[src:|dst:]=8080` (all) or `[src:|dst:]+1000`.
    ///
    /// # Errors
    /// In words.
    pub fn port(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no change of ports; write 80=8080, dst:=53 or src:+1000");
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

fn side(text: &str) -> (Side, &str) {
    match (text.strip_prefix("src:"), text.strip_prefix("dst:")) {
        (Some(rest), _) => (Side::Source, rest),
        (_, Some(rest)) => (Side::Destination, rest),
        _ => (Side::Both, text),
    }
}

/// Digits alone: `parse` takes a sign, too.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl FromStr for VlanRule {
    type Err = String;

    /// Reads `push:ID`, `push:ID/PRIORITY`, `pop` or `set:ID`.
    fn from_str(text: &str) -> Result<Self, String> {
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
        rule.ok_or_else(|| format!("'{text}' is no change of VLANs; write push:100, pop or set:7"))
    }
}

impl FromStr for TtlRule {
    type Err = String;

    /// Reads `64`, `-1` or `+1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let rule = if let Some(more) = text.strip_prefix('+') {
            number::<u8>(more).map(|more| Self::Add(more.into()))
        } else if let Some(less) = text.strip_prefix('-') {
            number::<u8>(less).map(|less| Self::Add(-i16::from(less)))
        } else {
            number(text).map(Self::Set)
        };
        rule.ok_or_else(|| format!("'{text}' is no TTL; write 64, -1 or +1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_read() {
        let map = Rule::map_ip("src:10.0.0.0/8=172.16.0.0/8").unwrap_err();
        assert!(map.contains("172.0.0.0/8"), "{map}");
        assert!(matches!(
            Rule::map_ip("src:10.0.0.0/8=172.0.0.0/8"),
            Ok(Rule::Address { side: Side::Source, .. })
        ));
        let narrow = Rule::map_ip("10.0.0.0/8=192.0.2.0/24").unwrap_err();
        assert!(narrow.contains("no room") && narrow.contains("at most 8 bits"), "{narrow}");
        assert!(Rule::map_ip("10.0.0.0/8=2001:db8::/32").unwrap_err().contains("mixes"));
        let all = Rule::Port { side: Side::Both, from: Some(80), to: PortRule::Set(8080) };
        assert_eq!(Rule::port("80=8080"), Ok(all));
        let less = Rule::Port { side: Side::Source, from: None, to: PortRule::Add(65_535) };
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
            Ok(Rule::Mac { side: Side::Destination, from: None, .. })
        ));
        assert!(Rule::map_mac("02:00:00:00:00:01").is_err());
    }
}
