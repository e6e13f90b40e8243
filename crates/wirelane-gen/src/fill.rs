//! The bytes after the headers of a packet: a constant byte, counting bytes, or random bytes.

use std::sync::OnceLock;

use wirelane_wire::checksum::Sum;

use crate::table::{FILL_COUNT, FILL_RANDOM};
use crate::value::random;

/// The bytes after the headers, the same in every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// This byte, repeated.
    Byte(u8),
    /// 0, 1, 2 … 255, 0, 1 …
    Count,
    /// Pseudorandom bytes.
    Random,
}

impl Fill {
    /// The fill for a value of the payload field `fill`.
    pub(crate) fn of(value: u16) -> Self {
        match value {
            FILL_COUNT => Self::Count,
            FILL_RANDOM => Self::Random,
            byte => Self::Byte(byte as u8),
        }
    }

    /// Fills `bytes` from the start of the fill.
    pub fn write(self, bytes: &mut [u8]) {
        self.continue_at(bytes, 0);
    }

    /// Fills `bytes` from byte `from` of the fill.
    pub fn continue_at(self, bytes: &mut [u8], from: usize) {
        match self.pattern() {
            Err(byte) => bytes.fill(byte),
            Ok(pattern) => {
                let end = pattern.bytes.len();
                let from = from.min(end);
                let len = bytes.len().min(end - from);
                bytes[..len].copy_from_slice(&pattern.bytes[from..from + len]);
            }
        }
    }

    /// The one's complement sum of the first `len` bytes, for an even start offset.
    #[inline]
    pub fn sum(self, len: usize) -> u16 {
        match self.pattern() {
            Err(0) => 0,
            Err(byte) => {
                let byte = u64::from(byte);
                let words = (len / 2) as u64 * (byte * 0x0101);
                let last = if len.is_multiple_of(2) { 0 } else { byte << 8 };
                Sum::of_number(words + last).partial()
            }
            Ok(pattern) => pattern.sums.get(len).copied().unwrap_or(0),
        }
    }

    fn pattern(self) -> Result<&'static FillPattern, u8> {
        static COUNT: OnceLock<FillPattern> = OnceLock::new();
        static RANDOM: OnceLock<FillPattern> = OnceLock::new();
        match self {
            Self::Byte(byte) => Err(byte),
            Self::Count => Ok(COUNT.get_or_init(|| FillPattern::new(|i| i as u8))),
            Self::Random => Ok(RANDOM.get_or_init(|| FillPattern::new(|i| random(1, i) as u8))),
        }
    }
}

/// The bytes of the longest frame, and the sum of each prefix.
struct FillPattern {
    bytes: Vec<u8>,
    sums: Vec<u16>,
}

impl FillPattern {
    fn new(byte: impl Fn(u64) -> u8) -> Self {
        let bytes: Vec<u8> = (0..1 << 16).map(byte).collect();
        let mut sums = Vec::with_capacity(bytes.len() + 1);
        let mut sum = Sum::ZERO;
        for (i, byte) in bytes.iter().enumerate() {
            sums.push(sum.partial());
            sum = sum.followed_by(i, Sum::of(&[*byte]));
        }
        sums.push(sum.partial());
        Self { bytes, sums }
    }
}
