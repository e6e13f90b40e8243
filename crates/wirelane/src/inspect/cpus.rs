//! Sets of CPUs in the kernel's formats.

use std::collections::BTreeSet;
use std::fmt;

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer};

/// A set of CPU numbers. It displays as a list in the kernel's format (`0-3,8`) and serializes as
/// an array of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    cpus: BTreeSet<u32>,
}

/// More than `NR_CPUS` of any kernel; limits the memory for a malformed list.
const MOST_CPUS: u32 = 1 << 16;

impl CpuList {
    /// Parses a list, e.g. `0-3,8` (`/proc/irq/N/smp_affinity_list`); `None` if it is malformed.
    pub(crate) fn from_list(text: &str) -> Option<CpuList> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST_CPUS {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(CpuList { cpus })
    }

    /// Parses a mask in hexadecimal words of 32 bits, the most significant first, e.g.
    /// `00000001,00000003` (`/sys/class/net/IF/queues/rx-0/rps_cpus`); `None` if it is malformed.
    pub(crate) fn from_mask(text: &str) -> Option<CpuList> {
        let mut cpus = BTreeSet::new();
        let mut base = 0;
        for word in text.trim().rsplit(',') {
            if word.is_empty() || word.len() > 8 || base >= MOST_CPUS {
                return None;
            }
            let mask = u32::from_str_radix(word, 16).ok()?;
            cpus.extend((0..32).filter(|bit| mask >> bit & 1 == 1).map(|bit| base + bit));
            base += 32;
        }
        Some(CpuList { cpus })
    }

    /// The CPU numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().copied()
    }

    /// Whether the set contains `cpu`.
    pub fn contains(&self, cpu: u32) -> bool {
        self.cpus.contains(&cpu)
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Whether every CPU of this set is also in `other`.
    pub(crate) fn is_subset(&self, other: &CpuList) -> bool {
        self.cpus.is_subset(&other.cpus)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&first.to_string());
            if last > first {
                text.push_str(&format!("-{last}"));
            }
        }
        f.pad(&text)
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuList {
        CpuList { cpus: cpus.into_iter().collect() }
    }
}

#[cfg(feature = "serde")]
impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for text in ["0", "0-3", "0-1,4,6-7", "127", ""] {
            assert_eq!(CpuList::from_list(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::from_list("0,1,2\n").unwrap().to_string(), "0-2");
        assert_eq!(CpuList::from_list("3").unwrap().iter().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn malformed_lists_are_none() {
        for text in ["x", "3-1", "1-", "-1", "0-4294967295", "1 2"] {
            assert_eq!(CpuList::from_list(text), None, "{text:?}");
        }
    }

    #[test]
    fn masks_are_read() {
        for (text, list) in [
            ("0", ""),
            ("3", "0-1"),
            ("00000001,00000003\n", "0-1,32"),
            ("f0", "4-7"),
            ("80000000,00000000,00000000", "95"),
        ] {
            assert_eq!(CpuList::from_mask(text).unwrap().to_string(), list, "{text}");
        }
    }

    #[test]
    fn malformed_masks_are_none() {
        for text in ["", "g", "1,,1", "123456789", "-1"] {
            assert_eq!(CpuList::from_mask(text), None, "{text:?}");
        }
    }
}
