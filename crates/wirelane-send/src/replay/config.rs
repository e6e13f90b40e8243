//! The configuration of a replay.

use std::path::PathBuf;
use std::str::FromStr;

use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_gen::Rate;
use wirelane_gen::rewrite::Rewrite;
use wirelane_wire::MacAddr;

/// The configuration of a replay. The fields except `files` have setters of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayConfig {
    /// Capture files in sending order: pcap or pcapng, plain or compressed; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The departure times.
    pub timing: ReplayTiming,
    /// How often all files are sent; 0 for no limit.
    pub loops: u64,
    /// Nanoseconds from the last packet of a loop to the first of the next, at any speed; `None`
    /// for the mean gap of the loop. The gap also applies between two files, unless the next one
    /// continues within a second.
    pub loop_gap: Option<u64>,
    /// Larger gaps of a file are shortened to this many nanoseconds.
    pub max_gap: Option<u64>,
    /// How to send packets that a snap length has cut.
    pub cut: TruncatedPackets,
    /// Destination and source address of an Ethernet header for packets without one, such as raw
    /// IP.
    pub header: Option<(MacAddr, MacAddr)>,
    /// Recompute the checksums of IPv4, TCP, UDP, ICMP and ICMPv6, such as for packets captured
    /// before checksum offload at their sender.
    pub fix_checksums: bool,
    /// Changes to the packets.
    pub rewrite: Rewrite,
    /// The largest number of bytes to load into memory. Larger files are read while they are sent.
    /// `None` chooses a limit from the free memory.
    pub memory: Option<u64>,
    /// Ends the wait for a silent pipe.
    pub halt: Halt,
}

wirelane_wire::setters!(ReplayConfig:
    timing: ReplayTiming,
    loop_gap: Option<u64>,
    max_gap: Option<u64>,
    cut: TruncatedPackets,
    header: Option<(MacAddr, MacAddr)>,
    fix_checksums: bool,
    rewrite: Rewrite,
    memory: Option<u64>,
    halt: Halt;
    loops: u64,
);

impl ReplayConfig {
    /// Sends the files once, with their own timing, unchanged.
    #[must_use]
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            timing: ReplayTiming::File(Speed::ORIGINAL),
            loops: 1,
            loop_gap: None,
            max_gap: None,
            cut: TruncatedPackets::default(),
            header: None,
            fix_checksums: false,
            rewrite: Rewrite::default(),
            memory: None,
            halt: Halt::default(),
        }
    }
}

/// The departure times of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayTiming {
    /// The gaps of the file, divided by the speed.
    File(Speed),
    /// A constant rate.
    Rate {
        /// The rate.
        rate: Rate,
        /// Bits per second of the link, for [`Rate::Share`].
        link: Option<u64>,
    },
    /// As fast as possible.
    Top,
}

/// How to send packets that a snap length has cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncatedPackets {
    /// With their original length: zeros replace the lost part, and checksums are recomputed.
    #[default]
    Pad,
    /// The packets are counted and not sent; their gaps remain.
    Skip,
    /// With the length in the file.
    Send,
}

impl FromStr for TruncatedPackets {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "pad" => Ok(Self::Pad),
            "skip" => Ok(Self::Skip),
            "send" => Ok(Self::Send),
            _ => {
                let cause = format!("'{text}' is none of pad, skip and send");
                Err(Error::usage("packets that were cut", cause))
            }
        }
    }
}

/// The replay speed relative to the file, as an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
}

impl Speed {
    /// The speed of the file.
    pub const ORIGINAL: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator` times the speed of the file; `None` if one of them is 0.
    #[must_use]
    pub fn new(numerator: u64, denominator: u64) -> Option<Self> {
        (numerator > 0 && denominator > 0).then_some(Self { numerator, denominator })
    }
}

impl Speed {
    /// Converts `nanoseconds` of real time to nanoseconds of the file, rounded up.
    pub(super) fn file_time(self, nanoseconds: u64) -> u64 {
        let product = u128::from(nanoseconds) * u128::from(self.numerator);
        u64::try_from(product.div_ceil(u128::from(self.denominator))).unwrap_or(u64::MAX)
    }
}

impl FromStr for Speed {
    type Err = Error;

    /// Parses `2x`, `0.5x`, `3/2x` or `200%`; the `x` is optional.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let error = Error::usage("speed", format!("'{text}' is no speed"));
            error.help("write 2x, 0.5x, 3/2x or 200%")
        };
        let (text, percent) = match text.strip_suffix('%') {
            Some(text) => (text, 100),
            None => (text.strip_suffix('x').unwrap_or(text), 1),
        };
        let (above, below) = text.split_once('/').unwrap_or((text, "1"));
        let (above, below) = decimal(above).zip(decimal(below)).ok_or_else(wrong)?;
        let numerator = above.0.checked_mul(below.1);
        let denominator = below.0.checked_mul(above.1).and_then(|it| it.checked_mul(percent));
        numerator.zip(denominator).and_then(|(a, b)| Self::new(a, b)).ok_or_else(wrong)
    }
}

/// A decimal number as a fraction.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number =
        !whole.is_empty() && (whole.bytes().chain(part.bytes())).all(|b| b.is_ascii_digit());
    let scale = 10_u64.checked_pow(part.len().try_into().ok()?)?;
    let digits: u64 = format!("{whole}{part}").parse().ok().filter(|_| is_number)?;
    (digits < 1 << 40 && scale < 1 << 40).then_some((digits, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_fractions() {
        for (text, a, b) in
            [("2x", 2, 1), ("0.5x", 5, 10), ("3/2x", 3, 2), ("200%", 200, 100), ("1.25", 125, 100)]
        {
            let speed: Speed = text.parse().unwrap();
            assert_eq!(speed, Speed { numerator: a, denominator: b }, "{text}");
        }
        for wrong in ["", "x", "0x", "-1x", "1e3x", "2/0x", ".5", "9999999999999999999x", "é"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
