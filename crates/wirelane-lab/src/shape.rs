//! The shape of a lab: its options, and their limits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Serialize, Serializer};
use wirelane_os::tun;

use wirelane::error::{Error, Result};

/// The shape of a lab. It has a text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LabConfig {
    /// Receive queues of each interface, and as many transmit queues.
    pub queues: u16,
    /// The MTU, in bytes.
    pub mtu: u32,
    /// The IPv4 network of both ends: its first address is the near end's, its second the far
    /// end's.
    pub ipv4: Network,
    /// The IPv6 network of both ends. Without one, IPv6 is off, so that only sent packets are on
    /// the wire.
    pub ipv6: Option<Network>,
    /// The offloads of the veth interfaces. By default, the kernel's: all except GRO.
    pub offloads: Option<Offloads>,
    /// Which ends have a TAP device.
    pub taps: Taps,
}

impl Default for LabConfig {
    fn default() -> Self {
        let ipv4 = Network { address: IpAddr::V4(Ipv4Addr::new(10, 87, 0, 0)), prefix: 24 };
        Self { queues: 1, mtu: 1500, ipv4, ipv6: None, offloads: None, taps: Taps::default() }
    }
}

/// The IPv6 network of labs, with unique local addresses (RFC 4193).
pub const IPV6_NETWORK: Network = Network {
    address: IpAddr::V6(Ipv6Addr::new(0xfd57, 0x6972, 0x656c, 0, 0, 0, 0, 0)),
    prefix: 64,
};

impl LabConfig {
    /// Whether a lab can have this shape.
    ///
    /// # Errors
    /// A usage error names the impossible value and the possible ones.
    pub fn check(&self) -> Result<()> {
        let taps = self.taps != Taps::Neither;
        let (queues, longest) =
            if taps { (tun::MAX_QUEUES, TAP_LONGEST) } else { (MAX_QUEUES, LONGEST) };
        let shortest = if self.ipv6.is_some() { IPV6_SHORTEST } else { SHORTEST };
        let of = if taps { " of a lab with TAP devices" } else { "" };
        let refuse = |cause: String| Err(Error::usage("shape of a lab", cause));
        if !(1..=queues).contains(&usize::from(self.queues)) {
            let cause = format!("{} queues are impossible; choose 1 to {queues}{of}", self.queues);
            return refuse(cause);
        }
        if self.ipv6.is_some() && (SHORTEST..IPV6_SHORTEST).contains(&self.mtu) {
            let cause = "IPv6 needs an MTU of at least 1280; raise it, or turn IPv6 off";
            return refuse(cause.into());
        }
        if !(shortest..=longest).contains(&self.mtu) {
            let cause =
                format!("an MTU of {} is impossible; choose {shortest} to {longest}{of}", self.mtu);
            return refuse(cause);
        }
        if !self.ipv4.address.is_ipv4() {
            return refuse(format!("{} is not an IPv4 network", self.ipv4));
        }
        match self.ipv6 {
            Some(network) if !network.address.is_ipv6() => {
                refuse(format!("{network} is not an IPv6 network"))
            }
            _ => Ok(()),
        }
    }
}

/// `ETH_MIN_MTU`, and the minimum of IPv6 (RFC 8200, section 5).
const SHORTEST: u32 = 68;
const IPV6_SHORTEST: u32 = 1280;
/// `ETH_MAX_MTU`, and the same minus the Ethernet header of a TAP device (`tun_net_initialize`).
const LONGEST: u32 = 65_535;
const TAP_LONGEST: u32 = 65_521;
/// The limit of `rtnl_create_link`.
const MAX_QUEUES: usize = 4096;

/// An IP network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The prefix length in bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Its address number `number`; 1 and 2 are valid host addresses.
    pub fn host(&self, number: u8) -> IpAddr {
        match self.address {
            IpAddr::V4(base) => Ipv4Addr::from(u32::from(base) | u32::from(number)).into(),
            IpAddr::V6(base) => Ipv6Addr::from(u128::from(base) | u128::from(number)).into(),
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    /// Reads `10.87.0.0/24` or `fd57::/64`. It must have room for two hosts.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |cause: &'static str| {
            Error::usage(format!("network '{text}'"), cause)
                .help("write it as 10.87.0.0/24 or fd57::/64")
        };
        let parts = text.split_once('/').and_then(|(address, prefix)| {
            Some((address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?))
        });
        let (address, prefix) = parts.ok_or_else(|| refuse("it is not an address and a length"))?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits - 2 {
            return Err(refuse("it has no room for two hosts"));
        }
        if prefix == 0 || address.is_multicast() {
            return Err(refuse("two hosts cannot share it"));
        }
        let address = match address {
            IpAddr::V4(address) => {
                Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - prefix))).into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from(u128::from(address) & (u128::MAX << (128 - prefix))).into()
            }
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The offloads of an interface. All others are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offloads {
    /// Checksums of sent packets stay partial on a veth pair.
    pub tx: bool,
    /// The interface accepts TCP segments of up to 64 KB; needs `tx`.
    pub tso: bool,
    /// The same for UDP; needs `tx`.
    pub uso: bool,
    /// The kernel segments just before the interface if the interface does not segment.
    pub gso: bool,
    /// The kernel merges received segments of a flow.
    pub gro: bool,
}

impl Offloads {
    /// The names in the order of the fields, with the kernel's names of their features.
    pub(super) const NAMES: [(&'static str, &'static [&'static str]); 5] = [
        ("tx", &["tx-checksum-ip-generic", "tx-checksum-sctp"]),
        (
            "tso",
            &[
                "tx-tcp-segmentation",
                "tx-tcp6-segmentation",
                "tx-tcp-ecn-segmentation",
                "tx-tcp-mangleid-segmentation",
            ],
        ),
        ("uso", &["tx-udp-segmentation"]),
        ("gso", &["tx-generic-segmentation"]),
        ("gro", &["rx-gro"]),
    ];

    /// The values, in the order of the fields.
    pub(super) fn values(self) -> [bool; 5] {
        [self.tx, self.tso, self.uso, self.gso, self.gro]
    }

    /// The inverse of [`Self::values`].
    pub(super) fn from_values([tx, tso, uso, gso, gro]: [bool; 5]) -> Self {
        Self { tx, tso, uso, gso, gro }
    }
}

impl FromStr for Offloads {
    type Err = Error;

    /// Reads `off`, or a list such as `tx,tso`.
    fn from_str(text: &str) -> Result<Self> {
        let mut values = [false; 5];
        let listed = text.split(',').filter(|_| text != "off");
        for name in listed {
            let position = Self::NAMES.iter().position(|(known, _)| *known == name);
            match position.and_then(|position| values.get_mut(position)) {
                Some(value) => *value = true,
                None => {
                    return Err(Error::usage(
                        format!("offloads '{text}'"),
                        "not a list of offloads",
                    )
                    .help("write kernel, off, or a list of tx, tso, uso, gso and gro"));
                }
            }
        }
        let offloads = Self::from_values(values);
        if (offloads.tso || offloads.uso) && !offloads.tx {
            return Err(Error::usage(
                format!("offloads '{text}'"),
                "tso and uso need tx: segmenting a frame includes computing the checksums of its \
                 segments",
            ));
        }
        Ok(offloads)
    }
}

impl fmt::Display for Offloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().zip(self.values()).filter(|(_, on)| *on);
        let names: Vec<_> = names.map(|((name, _), _)| *name).collect();
        f.write_str(if names.is_empty() { "off".into() } else { names.join(",") }.as_str())
    }
}

/// The ends of a lab with a TAP device. The TAP device has the end's addresses; the veth interface
/// is the bare end of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Taps {
    /// None.
    #[default]
    Neither,
    /// The near one.
    A,
    /// The far one.
    B,
    /// Both.
    Both,
}

impl FromStr for Taps {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Taps::Neither, Taps::A, Taps::B, Taps::Both];
        all.into_iter().find(|taps| taps.to_string() == text).ok_or_else(|| {
            Error::usage(format!("TAP devices '{text}'"), "no such ends").help("write a, b or both")
        })
    }
}

impl fmt::Display for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Taps::Neither => "neither",
            Taps::A => "a",
            Taps::B => "b",
            Taps::Both => "both",
        })
    }
}

impl fmt::Display for LabConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queues, mtu, ipv4, ipv6, offloads, taps } = self;
        write!(f, "queues={queues} mtu={mtu} ipv4={ipv4}")?;
        write!(f, " ipv6={}", ipv6.map_or("off".into(), |network| network.to_string()))?;
        write!(f, " offloads={}", offloads.map_or("kernel".into(), |list| list.to_string()))?;
        write!(f, " tap={taps}")
    }
}

impl FromStr for LabConfig {
    type Err = Error;

    /// Parses the text form.
    fn from_str(text: &str) -> Result<Self> {
        let unreadable = || Error::failed("shape of a lab", format!("'{text}' is not one"));
        let mut words = text.split(' ');
        let mut value = |key: &str| {
            let word = words.next().and_then(|word| word.split_once('='));
            word.filter(|(found, _)| *found == key).map(|(_, value)| value).ok_or_else(unreadable)
        };
        let config = Self {
            queues: value("queues")?.parse().map_err(|_| unreadable())?,
            mtu: value("mtu")?.parse().map_err(|_| unreadable())?,
            ipv4: value("ipv4")?.parse()?,
            ipv6: Some(value("ipv6")?).filter(|text| *text != "off").map(str::parse).transpose()?,
            offloads: Some(value("offloads")?)
                .filter(|text| *text != "kernel")
                .map(str::parse)
                .transpose()?,
            taps: value("tap")?.parse()?,
        };
        if words.next().is_some() { Err(unreadable()) } else { Ok(config) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane::error::ErrorKind;

    #[test]
    fn a_shape_is_read_back_from_its_text() {
        let plain = LabConfig::default();
        let rich = LabConfig {
            queues: 4096,
            mtu: 9000,
            ipv4: "192.0.2.77/30".parse().unwrap(),
            ipv6: Some(IPV6_NETWORK),
            offloads: Some("tx,tso,uso,gso,gro".parse().unwrap()),
            taps: Taps::Both,
        };
        for config in [plain, rich] {
            assert_eq!(config.to_string().parse::<LabConfig>().unwrap(), config);
        }
        assert_eq!(
            plain.to_string(),
            "queues=1 mtu=1500 ipv4=10.87.0.0/24 ipv6=off offloads=kernel tap=neither"
        );
        for text in ["", "queues=1", "queues=x mtu=1", &format!("{plain} more=1")] {
            assert!(text.parse::<LabConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn networks_have_two_hosts() {
        for (text, network, hosts) in [
            ("10.87.0.9/24", "10.87.0.0/24", ["10.87.0.1", "10.87.0.2"]),
            ("192.0.2.7/30", "192.0.2.4/30", ["192.0.2.5", "192.0.2.6"]),
            ("fd57::9/126", "fd57::8/126", ["fd57::9", "fd57::a"]),
        ] {
            let parsed: Network = text.parse().unwrap();
            assert_eq!(parsed.to_string(), network);
            assert_eq!([1, 2].map(|number| parsed.host(number).to_string()), hosts);
        }
        for text in
            ["", "10.0.0.0", "10.0.0.0/31", "fd57::/127", "0.0.0.0/0", "224.0.0.0/8", "x/24"]
        {
            assert_eq!(text.parse::<Network>().unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn offloads_are_a_list() {
        let offloads: Offloads = "tx,uso".parse().unwrap();
        assert_eq!(offloads, Offloads { tx: true, uso: true, ..Offloads::default() });
        assert_eq!("off".parse::<Offloads>().unwrap(), Offloads::default());
        for text in ["", "lro", "tx,", "tso", "kernel", "tx,off"] {
            assert_eq!(text.parse::<Offloads>().unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let plain = LabConfig::default();
        let six = LabConfig { ipv6: Some(IPV6_NETWORK), ..plain };
        let tap = LabConfig { taps: Taps::A, ..plain };
        for (config, part) in [
            (LabConfig { queues: 0, ..plain }, "choose 1 to 4096"),
            (LabConfig { queues: 4097, ..plain }, "choose 1 to 4096"),
            (LabConfig { queues: 257, ..tap }, "choose 1 to 256 of a lab with TAP devices"),
            (LabConfig { mtu: 67, ..plain }, "choose 68 to 65535"),
            (LabConfig { mtu: 65_536, ..plain }, "choose 68 to 65535"),
            (LabConfig { mtu: 65_522, ..tap }, "choose 68 to 65521"),
            (LabConfig { mtu: 1279, ..six }, "1280"),
            (LabConfig { ipv4: IPV6_NETWORK, ..plain }, "not an IPv4 network"),
            (LabConfig { ipv6: Some(plain.ipv4), ..plain }, "not an IPv6 network"),
        ] {
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(part), "{error}");
        }
        for config in [plain, six, tap, LabConfig { queues: 4096, mtu: 68, ..plain }] {
            config.check().unwrap();
        }
    }
}
