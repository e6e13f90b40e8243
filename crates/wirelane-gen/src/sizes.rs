//! Packet sizes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::template::MAX_LEN;
use crate::value::random;

/// Random sizes repeat after this many packets, so that the time of any packet is computed in
/// constant time.
const RANDOM_CYCLE: u64 = 4096;

/// The largest number of packets after which sizes repeat.
const MAX_CYCLE: u64 = 1 << 16;

/// The sizes of successive packets, without frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Sizes in turn, written `64` or `60,594,1514`.
    List(Vec<u16>),
    /// From the first to the last size in steps, repeated, written `60-1514` or `60-1514@step:2`.
    Range {
        /// The shortest size.
        first: u16,
        /// The upper limit.
        last: u16,
        /// The step; at least 1.
        step: u16,
    },
    /// Uniformly distributed, written `60-1514@random` or `60-1514@random:7` with another seed. A
    /// sequence of 4096 sizes repeats.
    Random {
        /// The shortest size.
        low: u16,
        /// The longest size.
        high: u16,
        /// The seed of the sizes.
        seed: u64,
    },
    /// Sizes with weights, evenly mixed, written `60=7,590=4,1514=1`.
    Weighted(Vec<(u16, u32)>),
    /// The simple IMIX, written `imix`: `60=7,590=4,1514=1`. With frame check sequence, these are
    /// 64, 594 and 1518 bytes. Sizes that are too short for the headers are raised.
    Imix,
}

impl Sizes {
    /// A constant size.
    pub fn fixed(len: u16) -> Self {
        Self::List(vec![len])
    }

    /// The length of each packet, for packets that need at least `min` bytes.
    ///
    /// # Errors
    /// A size is below `min`; there are no sizes; a weight or step is 0; the sizes repeat only
    /// after more than 65536 packets.
    pub fn lengths(&self, min: usize) -> Result<Lengths> {
        let cycle: Vec<u16> = match self {
            Self::List(list) => list.clone(),
            Self::Range { step: 0, .. } => return Err(Error::new("a step is at least 1")),
            Self::Range { first, last, step } => {
                (*first..=*last).step_by(usize::from(*step)).collect()
            }
            Self::Random { low, high, seed } => {
                let span = u128::from(high.checked_sub(*low).ok_or_else(falls)?) + 1;
                let size = |k| low + ((u128::from(random(*seed, k)) * span) >> 64) as u16;
                (0..RANDOM_CYCLE).map(size).collect()
            }
            Self::Weighted(weights) => mix(weights)?,
            Self::Imix => {
                let sizes = mix(&[(60, 7), (590, 4), (1514, 1)])?;
                sizes.into_iter().map(|len| len.max(min.min(MAX_LEN) as u16)).collect()
            }
        };
        if cycle.is_empty() {
            return Err(Error::new("no sizes"));
        }
        if cycle.len() as u64 > MAX_CYCLE {
            return Err(Error::new(format!("more than {MAX_CYCLE} sizes")));
        }
        if let Some(short) = cycle.iter().find(|len| usize::from(**len) < min) {
            return Err(Error::new(format!(
                "a frame of {short} bytes is too short; its headers need at least {min}"
            )));
        }
        Ok(Lengths { cycle: cycle.into() })
    }
}

/// The length of each packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The lengths, which repeat. Never empty.
    cycle: Arc<[u16]>,
}

impl Lengths {
    /// The length of packet `k`.
    #[inline]
    pub fn at(&self, k: u64) -> usize {
        match *self.cycle {
            [len] => usize::from(len),
            ref cycle => usize::from(cycle[(k % cycle.len() as u64) as usize]),
        }
    }

    /// The lengths of one cycle.
    pub fn cycle(&self) -> &[u16] {
        &self.cycle
    }

    /// The common length of all packets, if there is one.
    pub fn fixed(&self) -> Option<usize> {
        let [first, rest @ ..] = &*self.cycle else {
            return None;
        };
        rest.iter().all(|len| len == first).then_some(usize::from(*first))
    }

    /// The mean length in bytes.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.cycle.iter().map(|len| u64::from(*len)).sum();
        sum as f64 / self.cycle.len() as f64
    }

    /// The shortest length.
    pub fn min(&self) -> usize {
        self.cycle.iter().copied().min().map_or(0, usize::from)
    }

    /// The longest length.
    pub fn max(&self) -> usize {
        self.cycle.iter().copied().max().map_or(0, usize::from)
    }
}

/// Repeats each size according to its weight, as evenly as possible: the next size is always the
/// one furthest below its share.
fn mix(weights: &[(u16, u32)]) -> Result<Vec<u16>> {
    if weights.iter().any(|(_, weight)| *weight == 0) {
        return Err(Error::new("a weight is at least 1"));
    }
    let divisor = weights.iter().fold(0, |gcd, (_, weight)| {
        let (mut a, mut b) = (gcd, *weight);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    });
    let weights: Vec<(u16, i64)> =
        weights.iter().map(|(len, weight)| (*len, i64::from(weight / divisor.max(1)))).collect();
    let total: i64 = weights.iter().map(|(_, weight)| weight).sum();
    if total > MAX_CYCLE as i64 || weights.len() > 256 {
        return Err(Error::new(format!(
            "at most 256 sizes, with weights that sum up to at most {MAX_CYCLE} in lowest terms"
        )));
    }
    let mut credit = vec![0; weights.len()];
    let mut sizes = Vec::new();
    for _ in 0..total {
        for (credit, (_, weight)) in credit.iter_mut().zip(&weights) {
            *credit += weight;
        }
        // The first of equal credits.
        let next = (0..credit.len()).rev().max_by_key(|i| credit[*i]).unwrap_or(0);
        credit[next] -= total;
        sizes.push(weights[next].0);
    }
    Ok(sizes)
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |items: Vec<String>| items.join(",");
        match self {
            Self::List(list) => f.write_str(&joined(list.iter().map(u16::to_string).collect())),
            Self::Range { first, last, step: 1 } => write!(f, "{first}-{last}"),
            Self::Range { first, last, step } => write!(f, "{first}-{last}@step:{step}"),
            Self::Random { low, high, seed: 0 } => write!(f, "{low}-{high}@random"),
            Self::Random { low, high, seed } => write!(f, "{low}-{high}@random:{seed}"),
            Self::Weighted(weights) => {
                f.write_str(&joined(weights.iter().map(|(len, n)| format!("{len}={n}")).collect()))
            }
            Self::Imix => f.write_str("imix"),
        }
    }
}

impl FromStr for Sizes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(format!(
                "'{text}' is no size; write 64, a list 60,590,1514, a range 60-1514, \
                 60-1514@step:2, 60-1514@random, weights 60=7,590=4,1514=1, or imix"
            ))
        };
        let size = |text: &str| text.parse::<u16>().ok().filter(|size| *size > 0).ok_or_else(wrong);
        if text == "imix" {
            return Ok(Self::Imix);
        }
        if text.contains('=') {
            let weight = |item: &str| {
                let (len, weight) = item.split_once('=').ok_or_else(wrong)?;
                let weight = weight.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
                Ok((size(len)?, weight))
            };
            return Ok(Self::Weighted(text.split(',').map(weight).collect::<Result<_, _>>()?));
        }
        let (range, how) = match text.split_once('@') {
            Some((range, how)) => (range, Some(how)),
            None => (text, None),
        };
        let Some((first, last)) = range.split_once('-') else {
            if how.is_some() {
                return Err(wrong());
            }
            return Ok(Self::List(text.split(',').map(size).collect::<Result<_, _>>()?));
        };
        let (first, last) = (size(first)?, size(last)?);
        if first > last {
            return Err(falls());
        }
        Ok(match how {
            None => Self::Range { first, last, step: 1 },
            Some("random") => Self::Random { low: first, high: last, seed: 0 },
            Some(how) => match (how.strip_prefix("random:"), how.strip_prefix("step:")) {
                (Some(seed), _) => {
                    let seed = seed.parse().map_err(|_| wrong())?;
                    Self::Random { low: first, high: last, seed }
                }
                (_, Some(step)) => Self::Range { first, last, step: size(step)? },
                _ => return Err(wrong()),
            },
        })
    }
}

fn falls() -> Error {
    Error::new("a range goes from the shortest to the longest size")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(text: &str) -> Vec<u16> {
        text.parse::<Sizes>().unwrap().lengths(60).unwrap().cycle().to_vec()
    }

    #[test]
    fn sizes_are_printed_as_they_are_read() {
        for text in [
            "64",
            "60,594,1514",
            "60-1514",
            "60-1514@step:2",
            "60-1514@random",
            "60-80@random:7",
            "60=7,590=4,1514=1",
            "imix",
        ] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "0",
            "64,",
            "1-",
            "9-1",
            "60-70@",
            "60-70@step:0",
            "60=0",
            "60=1,70",
            "65536",
            "-5",
            "64@random",
            "60,70@random",
            "mixed",
        ] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn weights_are_mixed_evenly() {
        assert_eq!(cycle("60=2,70=2"), [60, 70]);
        assert_eq!(cycle("60=4,70=1"), [60, 60, 70, 60, 60]);
        let imix = cycle("imix");
        assert_eq!(imix, [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60]);
    }

    #[test]
    fn ranges_count_and_random_sizes_spread() {
        assert_eq!(cycle("60-64@step:3"), [60, 63]);
        let random = cycle("60-69@random");
        for size in 60..70 {
            let times = random.iter().filter(|len| **len == size).count();
            assert!((330..490).contains(&times), "{size}: {times}");
        }
        assert_ne!(random, cycle("60-69@random:1"));
    }

    #[test]
    fn short_frames_are_an_error() {
        let error = Sizes::fixed(40).lengths(60).unwrap_err().to_string();
        assert_eq!(error, "a frame of 40 bytes is too short; its headers need at least 60");
        let raised = Sizes::Imix.lengths(600).unwrap();
        assert_eq!((raised.min(), raised.max()), (600, 1514));
        assert!("1-65535=1".parse::<Sizes>().is_err());
        assert!("60=65536,70=1".parse::<Sizes>().unwrap().lengths(60).is_err());
    }
}
