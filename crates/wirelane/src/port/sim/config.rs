//! The traffic options of a simulated port, parsed from its spec.

use wirelane_wire::{ToeplitzKey, ethernet, ipv4, ipv6, tcp, udp, vlan};

use crate::error::{Error, Result};
use crate::port::number::parse_number;
use crate::port::spec::Spec;

/// The maximum number of queues of a simulated port; network cards have 128 and more.
pub(super) const MAX_QUEUES: u16 = 1024;
/// The maximum number of flows of a stream.
pub(super) const MAX_FLOWS: u32 = 65_536;
/// The default seed.
pub const DEFAULT_SEED: u64 = 1;
/// Shortest and longest packet in bytes, without frame check sequence.
const SIZES: std::ops::RangeInclusive<u64> = 60..=9216;

/// The simple IMIX: 7 packets of 64 bytes, 4 of 594 and 1 of 1518 in every 12, spread out.
const IMIX: [u16; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// Packet rate over all queues together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as they are received.
    Max,
    /// Packets per second.
    Packets(u64),
    /// Bits per second, counting the bytes of each packet in memory.
    Bits(u64),
}

/// Protocols of the flows, where there are two choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of the first kind: UDP, IPv4.
    First,
    /// All of the second kind: TCP, IPv6.
    Second,
    /// Half and half.
    Mix,
}

/// The options of a simulated port; the table in the [module documentation](super) explains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of RX queues and of TX queues.
    pub queues: u16,
    /// Packet rate.
    pub rate: Rate,
    /// Packet k has the size of element `k % len`, in bytes.
    pub sizes: Vec<u16>,
    /// Number of flows.
    pub flows: u32,
    /// UDP, TCP or both.
    pub transport: Kind,
    /// IPv4, IPv6 or both.
    pub network: Kind,
    /// VLAN identifier of every packet.
    pub vlan: Option<u16>,
    /// Determines addresses, ports and payload.
    pub seed: u64,
    /// Number of packets, over all queues; `None` means endless.
    pub count: Option<u64>,
    /// The RSS key.
    pub key: ToeplitzKey,
    /// Every n-th packet has no queue, where n is this number.
    pub other: Option<u64>,
    /// Every n-th packet is one that the simulated host transmits, where n is this number.
    pub transmitted: Option<u64>,
    /// Frames per queue; `None` depends on rate and size.
    pub frames: Option<u32>,
    /// Whether the sink checks sent packets.
    pub verify: bool,
}

impl Config {
    /// Parses name and options of a spec.
    ///
    /// # Errors
    /// A number of queues outside 1 to [`MAX_QUEUES`], an unknown option, or a value out of range.
    pub fn new(spec: &Spec) -> Result<Self> {
        let queues = queues(spec)?;
        let mut options = spec.options();
        let between = |low: u64, high: u64| {
            move |text: &str| parse_number(text).filter(|n| (low..=high).contains(n))
        };
        let rate = options.value(
            "rate",
            Rate::Max,
            "max, packets per second up to 1G (as 1Mpps) or bits per second up to 1000G (as 6Gbit)",
            rate,
        )?;
        let sizes = options.value("size", vec![64], "60 to 9216 bytes, or imix", |text| {
            if text == "imix" {
                return Some(IMIX.to_vec());
            }
            parse_number(text).filter(|n| SIZES.contains(n)).map(|n| vec![n as u16])
        })?;
        let flows = u64::from(MAX_FLOWS);
        let flows = options.value("flows", 256, "1 to 65536 flows", between(1, flows))? as u32;
        let transport =
            options.value("proto", Kind::First, "udp, tcp or mix", |text| match text {
                "udp" => Some(Kind::First),
                "tcp" => Some(Kind::Second),
                "mix" => Some(Kind::Mix),
                _ => None,
            })?;
        let network = options.value("ip", Kind::First, "4, 6 or mix", |text| match text {
            "4" => Some(Kind::First),
            "6" => Some(Kind::Second),
            "mix" => Some(Kind::Mix),
            _ => None,
        })?;
        let vlan = options.value("vlan", None, "a VLAN identifier from 1 to 4094", |text| {
            between(1, 4094)(text).map(|id| Some(id as u16))
        })?;
        let seed = options.value("seed", DEFAULT_SEED, "a number", |text| text.parse().ok())?;
        let some = |text: &str| between(1, 1 << 62)(text).map(Some);
        let count = options.value("count", None, "a number of packets", some)?;
        let key = options.key()?;
        let other = options.value("other", None, "a number of packets from 1 on", some)?;
        let transmitted = options.value("tx", None, "a number of packets from 1 on", some)?;
        let frames = options.frames()?;
        let verify = options.value("verify", false, "on or off", on_off)?;
        options.finish()?;
        let mut config = Self {
            queues,
            rate,
            sizes,
            flows,
            transport,
            network,
            vlan,
            seed,
            count,
            key,
            other,
            transmitted,
            frames,
            verify,
        };
        let shortest = config.shortest();
        config.sizes.iter_mut().for_each(|size| *size = (*size).max(shortest));
        Ok(config)
    }

    /// Bytes of the longest packet.
    pub fn longest(&self) -> u16 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Bytes needed for the longest headers of the stream and the packet's number; no packet is
    /// shorter.
    pub fn shortest(&self) -> u16 {
        let network = if self.network == Kind::First { ipv4::MIN_LEN } else { ipv6::LEN };
        let transport = if self.transport == Kind::First { udp::LEN } else { tcp::MIN_LEN };
        let tag = if self.vlan.is_some() { vlan::LEN } else { 0 };
        (ethernet::LEN + tag + network + transport + size_of::<u64>()) as u16
    }
}

/// Options of both kinds of simulated ports.
pub(super) trait CommonOptions {
    fn key(&mut self) -> Result<ToeplitzKey>;
    fn frames(&mut self) -> Result<Option<u32>>;
}

impl CommonOptions for crate::port::spec::Options<'_> {
    fn key(&mut self) -> Result<ToeplitzKey> {
        self.value("key", ToeplitzKey::MICROSOFT, "standard or symmetric", |text| match text {
            "standard" => Some(ToeplitzKey::MICROSOFT),
            "symmetric" => Some(ToeplitzKey::SYMMETRIC),
            _ => None,
        })
    }

    fn frames(&mut self) -> Result<Option<u32>> {
        self.value("frames", None, "1 to 16777216 frames", |text| {
            parse_number(text).filter(|n| (1..=1 << 24).contains(n)).map(|n| Some(n as u32))
        })
    }
}

/// The number of queues, which is the name of a simulated port.
pub(super) fn queues(spec: &Spec) -> Result<u16> {
    let queues = spec.name_text().parse::<u16>().ok().filter(|n| (1..=MAX_QUEUES).contains(n));
    let queues = queues.ok_or_else(|| {
        let name = spec.name_text();
        let cause = format!("'{name}' is not a number of queues from 1 to {MAX_QUEUES}");
        Error::usage(format!("port '{spec}'"), cause).help("write sim:4")
    })?;
    match spec.queues.as_ref().and_then(|set| set.largest()) {
        Some(largest) if largest >= usize::from(queues) => Err(no_queue(spec, largest, queues)),
        _ if spec.queues.as_ref().is_some_and(|set| set.is_empty()) => {
            Err(Error::usage(format!("port '{spec}'"), "the list of queues after @ is empty"))
        }
        _ => Ok(queues),
    }
}

/// The error for a queue that does not exist.
pub(super) fn no_queue(port: impl std::fmt::Display, queue: usize, queues: u16) -> Error {
    let cause = format!("there is no queue {queue}");
    Error::usage(format!("port '{port}'"), cause)
        .help(format!("its queues are 0 to {}", queues.saturating_sub(1)))
}

fn on_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn rate(text: &str) -> Option<Rate> {
    if text == "max" {
        return Some(Rate::Max);
    }
    let up_to = |n: &u64, most: u64| (1..=most).contains(n);
    if let Some(bits) = text.strip_suffix("bit").or_else(|| text.strip_suffix("bps")) {
        return parse_number(bits).filter(|n| up_to(n, 1_000_000_000_000)).map(Rate::Bits);
    }
    let packets = text.strip_suffix("pps").unwrap_or(text);
    parse_number(packets).filter(|n| up_to(n, 1_000_000_000)).map(Rate::Packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn config(text: &str) -> Result<Config> {
        Config::new(&text.parse()?)
    }

    #[test]
    fn defaults_and_every_option() {
        let plain = config("sim:4").unwrap();
        assert_eq!((plain.queues, plain.rate, plain.flows), (4, Rate::Max, 256));
        assert_eq!((plain.sizes, plain.count), (vec![64], None));
        let full = config(
            "sim:64@0,63?rate=6Gbit&size=imix&flows=7&proto=mix&ip=mix&vlan=4094&seed=0&count=10k\
             &key=symmetric&other=3&tx=5&frames=1Ki&verify=on",
        )
        .unwrap();
        assert_eq!((full.rate, full.longest()), (Rate::Bits(6_000_000_000), 1518));
        assert_eq!((full.count, full.frames, full.verify), (Some(10_000), Some(1024), true));
        assert!(full.key.is_symmetric() && full.sizes.iter().all(|size| *size >= 86));
        assert_eq!(config("sim:1?rate=500kpps").unwrap().rate, Rate::Packets(500_000));
        assert_eq!(config("sim:1?rate=250000").unwrap().rate, Rate::Packets(250_000));
    }

    #[test]
    fn imix_is_seven_four_one() {
        let of = |size| IMIX.iter().filter(|s| **s == size).count();
        assert_eq!((of(64), of(594), of(1518)), (7, 4, 1));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "sim:0",
            "sim:1025",
            "sim:x",
            "sim:-1",
            "sim:4@4",
            "sim:4@none",
            "sim:1?speed=1",
            "sim:1?rate=0",
            "sim:1?rate=2Gpps",
            "sim:1?rate=fast",
            "sim:1?size=59",
            "sim:1?size=9217",
            "sim:1?flows=0",
            "sim:1?flows=65537",
            "sim:1?proto=sctp",
            "sim:1?ip=5",
            "sim:1?vlan=0",
            "sim:1?vlan=4095",
            "sim:1?count=0",
            "sim:1?other=0",
            "sim:1?frames=0",
            "sim:1?verify=yes",
            "sim:1?key=random",
        ] {
            assert_eq!(config(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }
}
