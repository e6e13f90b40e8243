//! Queue masks: which RX queues, which TX queues, and whether packets without a queue.
//!
//! The semantics follow "Multiqueue support for bpf" (2011): each capture handle has an RX mask, a
//! TX mask and an OTHER switch. The filter as a whole is enabled (`BIOCENAQMASK`) or disabled
//! (`BIOCDISQMASK`), bits are set (`BIOCSTRXQMASK` …), cleared (`BIOCCRRXQMASK` …) and read back
//! (`BIOCGTRXQMASK` …) while the handle is open.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

pub use wirelane_pcap::Class;

/// The largest queue number of a set, plus one. Linux allows 4096 (`MAX_TX_QUEUES` of tun, the
/// largest of any driver in 6.18, is lower).
pub const MAX_QUEUES: usize = 4096;

/// A set of queue numbers, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueSet {
    /// Every queue, including later ones.
    All,
    /// The queues whose bits are set, in words of 64.
    Some(Vec<u64>),
}

impl QueueSet {
    /// No queue.
    pub const NONE: Self = Self::Some(Vec::new());

    /// Whether `queue` is in the set.
    #[inline]
    pub fn contains(&self, queue: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(words) => {
                words.get(queue / 64).is_some_and(|word| word >> (queue % 64) & 1 == 1)
            }
        }
    }

    /// Whether the set has no queue.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(words) if words.iter().all(|word| *word == 0))
    }

    /// Adds `queue`. Returns false, without adding, for numbers from [`MAX_QUEUES`] on.
    pub fn insert(&mut self, queue: usize) -> bool {
        let Self::Some(words) = self else { return queue < MAX_QUEUES };
        if queue >= MAX_QUEUES {
            return false;
        }
        if words.len() <= queue / 64 {
            words.resize(queue / 64 + 1, 0);
        }
        words[queue / 64] |= 1 << (queue % 64);
        true
    }

    /// Removes `queue` from the set. "All" then becomes a list of the first `count` queues.
    pub fn remove(&mut self, queue: usize, count: usize) {
        if *self == Self::All {
            *self = (0..count.min(MAX_QUEUES)).collect();
        }
        let Self::Some(words) = self else { return };
        if let Some(word) = words.get_mut(queue / 64) {
            *word &= !(1 << (queue % 64));
        }
        while words.last() == Some(&0) {
            words.pop();
        }
    }

    /// The members below `count`, in ascending order.
    pub fn members(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        (0..count).filter(|queue| self.contains(*queue))
    }

    /// The largest member; `None` for an empty set and for "all".
    pub fn largest(&self) -> Option<usize> {
        let Self::Some(words) = self else { return None };
        let (i, word) = words.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
        Some(i * 64 + 63 - word.leading_zeros() as usize)
    }
}

impl FromIterator<usize> for QueueSet {
    fn from_iter<I: IntoIterator<Item = usize>>(queues: I) -> Self {
        let mut set = Self::NONE;
        for queue in queues {
            set.insert(queue);
        }
        set
    }
}

/// `all`, `none`, or a list of numbers and ranges: `0,2-3`.
impl FromStr for QueueSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "all" => return Ok(Self::All),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        let bad = |part: &str, why: &'static str| {
            Error::usage(format!("queues '{text}'"), format!("'{part}' {why}"))
                .help("write all, none, or a list such as 0,2-3")
        };
        let number = |part: &str, digits: &str| -> Result<usize, Error> {
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(bad(part, "is not a queue number or range"));
            }
            match digits.parse::<usize>() {
                Ok(queue) if queue < MAX_QUEUES => Ok(queue),
                _ => Err(bad(part, "exceeds 4095, the highest queue number")),
            }
        };
        let mut set = Self::NONE;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(part, first)?, number(part, last)?);
            if first > last {
                return Err(bad(part, "runs backwards"));
            }
            for queue in first..=last {
                set.insert(queue);
            }
        }
        Ok(set)
    }
}

impl fmt::Display for QueueSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(largest) = self.largest() else {
            return f.write_str(if self.is_empty() { "none" } else { "all" });
        };
        let (mut queue, mut separator) = (0, "");
        while queue <= largest {
            if !self.contains(queue) {
                queue += 1;
                continue;
            }
            let first = queue;
            while queue < largest && self.contains(queue + 1) {
                queue += 1;
            }
            match queue - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{queue}")?,
                _ => write!(f, "{separator}{first}-{queue}")?,
            }
            separator = ",";
            queue += 1;
        }
        Ok(())
    }
}

/// The three masks of a capture handle and the switch in front of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMask {
    /// False selects every packet, for any masks.
    pub enabled: bool,
    /// Selected RX queues.
    pub rx: QueueSet,
    /// Selected TX queues.
    pub tx: QueueSet,
    /// Whether packets without a queue are selected.
    pub other: bool,
}

impl QueueMask {
    /// All packets of all three classes.
    pub const ALL: Self = Self { enabled: true, rx: QueueSet::All, tx: QueueSet::All, other: true };
    /// No packets of any class.
    pub const NONE: Self =
        Self { enabled: true, rx: QueueSet::NONE, tx: QueueSet::NONE, other: false };

    /// Whether a packet of `class` on `queue` is selected.
    #[inline]
    pub fn selects(&self, class: Class, queue: usize) -> bool {
        !self.enabled
            || match class {
                Class::Rx => self.rx.contains(queue),
                Class::Tx => self.tx.contains(queue),
                Class::Other => self.other,
            }
    }
}

impl Default for QueueMask {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for QueueMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.enabled {
            return f.write_str("disabled (everything passes)");
        }
        let other = if self.other { "on" } else { "off" };
        write!(f, "rx {} tx {} other {other}", self.rx, self.tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_lists_ranges_and_words() {
        let set: QueueSet = "0,2-3,70".parse().unwrap();
        assert_eq!(set.members(128).collect::<Vec<_>>(), [0, 2, 3, 70]);
        assert_eq!(set.to_string(), "0,2,3,70");
        assert_eq!("all".parse::<QueueSet>().unwrap(), QueueSet::All);
        assert!("none".parse::<QueueSet>().unwrap().is_empty());
    }

    #[test]
    fn refuses_what_is_not_a_queue() {
        for text in ["", ",", "1,", "a", "-1", "1-", "3-2", "4096", "99999999999999999999", "+1"] {
            let error = text.parse::<QueueSet>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn clearing_one_of_all_keeps_the_others() {
        let mut set = QueueSet::All;
        set.remove(1, 4);
        assert_eq!(set.to_string(), "0,2,3");
    }

    #[test]
    fn a_disabled_mask_passes_everything() {
        let mut mask = QueueMask::NONE;
        assert!(!mask.selects(Class::Rx, 0) && !mask.selects(Class::Other, 0));
        mask.enabled = false;
        assert!(mask.selects(Class::Rx, 0) && mask.selects(Class::Tx, 9));
        assert!(mask.selects(Class::Other, 0));
    }

    proptest! {
        #[test]
        fn text_and_back(queues in proptest::collection::btree_set(0usize..MAX_QUEUES, 0..40)) {
            let set: QueueSet = queues.iter().copied().collect();
            prop_assert_eq!(&set, &set.to_string().parse::<QueueSet>().unwrap());
            prop_assert_eq!(set.largest(), queues.last().copied());
            prop_assert!(set.members(MAX_QUEUES).eq(queues.iter().copied()));
        }
    }
}
