//! Sending rates.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A sending rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as possible.
    Max,
    /// Packets per second, written `5Mpps`.
    Packets(f64),
    /// Bits per second, written `6Gbit`. Counts the bytes of each frame without frame check
    /// sequence, as everywhere in Wirelane.
    Bits(f64),
    /// A share of the link speed, written `80%`; 1.0 is the full speed. Counts the bytes on the
    /// wire: 24 more than the frame length, for preamble, frame check sequence and gap (IEEE
    /// 802.3).
    Share(f64),
}

impl Rate {
    /// The overhead of a frame on an Ethernet cable, in bytes.
    pub const WIRE_OVERHEAD: u64 = 24;

    /// Packets per second for frames of `length` bytes, on a link of `link` bits per second; `None`
    /// for a share of an unknown link speed.
    pub fn packets_per_second(self, length: usize, link: Option<u64>) -> Option<f64> {
        let bits = (length as f64) * 8.0;
        match self {
            Self::Max => Some(f64::INFINITY),
            Self::Packets(rate) => Some(rate),
            Self::Bits(rate) => Some(rate / bits),
            Self::Share(share) => {
                link.map(|link| share * link as f64 / (bits + Self::WIRE_OVERHEAD as f64 * 8.0))
            }
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Packets(rate) => write!(f, "{rate}pps"),
            Self::Bits(rate) => write!(f, "{rate}bit"),
            Self::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::new(format!("'{text}' is no rate; write 5Mpps, 6Gbit, 80% or max"));
        let number = |digits: &str| {
            let (digits, scale) = match digits.as_bytes().last() {
                Some(b'k' | b'K') => (&digits[..digits.len() - 1], 1e3),
                Some(b'M' | b'm') => (&digits[..digits.len() - 1], 1e6),
                Some(b'G' | b'g') => (&digits[..digits.len() - 1], 1e9),
                _ => (digits, 1.0),
            };
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let value = digits.parse::<f64>().ok().filter(|_| plain)? * scale;
            (value > 0.0 && value < 1e15).then_some(value)
        };
        let rate = if text == "max" {
            Some(Self::Max)
        } else if let Some(share) = text.strip_suffix('%') {
            number(share).filter(|share| *share <= 100.0).map(|share| Self::Share(share / 100.0))
        } else if let Some(packets) = text.strip_suffix("pps") {
            number(packets).map(Self::Packets)
        } else {
            text.strip_suffix("bit").and_then(number).map(Self::Bits)
        };
        rate.ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_units() {
        assert_eq!("5Mpps".parse(), Ok(Rate::Packets(5e6)));
        assert_eq!("6Gbit".parse(), Ok(Rate::Bits(6e9)));
        assert_eq!("80%".parse(), Ok(Rate::Share(0.8)));
        assert_eq!("max".parse(), Ok(Rate::Max));
        for wrong in ["", "5", "pps", "0pps", "-1pps", "1e3pps", "101%", "5Mbps", "infbit", "é%"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_counts_the_wire() {
        // 10 Gbit/s of the smallest frames: 14.88 Mpps, here half of it.
        let rate = Rate::Share(0.5).packets_per_second(60, Some(10_000_000_000)).unwrap();
        assert_eq!(rate.round(), 7_440_476.0);
        assert_eq!(Rate::Share(0.5).packets_per_second(60, None), None);
    }
}
