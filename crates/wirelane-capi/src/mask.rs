//! Queue masks as plain values.

use std::ffi::c_int;

use wirelane::mask::MAX_QUEUES;
use wirelane::{Class, QueueMask, QueueSet};

use crate::error::{CallFailure, Result};

/// Packets that the interface received, by RX queue.
pub const WIRELANE_RX: u32 = 0;
/// Packets that the host sends, by TX queue.
pub const WIRELANE_TX: u32 = 1;
/// Packets without a queue.
pub const WIRELANE_OTHER: u32 = 2;

/// The queue of packets without one and, in a mask, every queue.
pub const WIRELANE_NO_QUEUE: u32 = 0xffff;

/// Selects packets by queue. It is a plain value; initialise it with wirelane_mask_all() or
/// wirelane_mask_none().
///
/// The queues are bits: queue q is bit q % 64 of word q / 64.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MaskValue {
    /// 0 lets every packet pass and ignores the masks.
    pub enabled: u8,
    /// 1 selects packets without a queue.
    pub other: u8,
    /// 1 selects every RX queue, including queues added later.
    pub all_rx: u8,
    /// 1 selects every TX queue, including queues added later.
    pub all_tx: u8,
    /// 0.
    pub reserved: u32,
    /// Selected RX queues.
    pub rx: [u64; 64],
    /// Selected TX queues.
    pub tx: [u64; 64],
}

const _: () = assert!(size_of::<MaskValue>() == 8 + 2 * MAX_QUEUES / 8);

impl MaskValue {
    /// Selects every queue and packets without one, or nothing.
    pub(crate) const fn every(selected: bool) -> Self {
        let all = selected as u8;
        Self {
            enabled: 1,
            other: all,
            all_rx: all,
            all_tx: all,
            reserved: 0,
            rx: [0; 64],
            tx: [0; 64],
        }
    }

    pub(crate) fn to_mask(self) -> QueueMask {
        QueueMask {
            enabled: self.enabled != 0,
            rx: set(self.all_rx, &self.rx),
            tx: set(self.all_tx, &self.tx),
            other: self.other != 0,
        }
    }

    pub(crate) fn of(mask: &QueueMask) -> Self {
        let mut value = Self::every(false);
        value.enabled = mask.enabled.into();
        value.other = mask.other.into();
        value.set(WIRELANE_RX, &mask.rx);
        value.set(WIRELANE_TX, &mask.tx);
        value
    }

    /// Replaces the queues of a class.
    pub(crate) fn set(&mut self, class: u32, queues: &QueueSet) {
        let (all, words) = match class {
            WIRELANE_RX => (&mut self.all_rx, &mut self.rx),
            _ => (&mut self.all_tx, &mut self.tx),
        };
        *all = u8::from(*queues == QueueSet::All);
        *words = [0; 64];
        if let QueueSet::Some(set) = queues {
            words.iter_mut().zip(set).for_each(|(to, from)| *to = *from);
        }
    }

    /// Selects one queue.
    pub(crate) fn add(&mut self, class: u32, queue: u32) -> Result {
        let (all, words) = match class {
            WIRELANE_RX => (&mut self.all_rx, &mut self.rx),
            WIRELANE_TX => (&mut self.all_tx, &mut self.tx),
            WIRELANE_OTHER => {
                self.other = 1;
                return Ok(0);
            }
            _ => return Err(CallFailure::Argument("there is no such class")),
        };
        match words.get_mut(queue as usize / 64) {
            _ if queue == WIRELANE_NO_QUEUE => *all = 1,
            Some(word) => *word |= 1 << (queue % 64),
            None => return Err(CallFailure::Argument("queue numbers end at 4095")),
        }
        Ok(0)
    }

    pub(crate) fn selects(&self, class: u32, queue: u32) -> Result {
        let mask = self.to_mask();
        Ok(c_int::from(mask.selects(class_of(class)?, queue as usize)))
    }
}

fn set(all: u8, words: &[u64; 64]) -> QueueSet {
    if all != 0 { QueueSet::All } else { QueueSet::Some(words.to_vec()) }
}

/// The class of a number.
pub(crate) fn class_of(number: u32) -> Result<Class> {
    match number {
        WIRELANE_RX => Ok(Class::Rx),
        WIRELANE_TX => Ok(Class::Tx),
        WIRELANE_OTHER => Ok(Class::Other),
        _ => Err(CallFailure::Argument("there is no such class")),
    }
}

/// The number of a class.
#[inline]
pub(crate) const fn number_of(class: Class) -> u32 {
    match class {
        Class::Rx => WIRELANE_RX,
        Class::Tx => WIRELANE_TX,
        Class::Other => WIRELANE_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_masks_say_the_same() {
        for mask in [
            QueueMask::ALL,
            QueueMask::NONE,
            QueueMask { enabled: false, ..QueueMask::NONE },
            QueueMask { rx: "0,63-64,4095".parse().unwrap(), other: true, ..QueueMask::NONE },
            QueueMask { tx: "7".parse().unwrap(), ..QueueMask::ALL },
        ] {
            let back = MaskValue::of(&mask).to_mask();
            assert_eq!(back.to_string(), mask.to_string());
        }
    }

    #[test]
    fn queues_are_added_one_by_one() {
        let mut value = MaskValue::every(false);
        for (class, queue) in [(0, 3), (0, 4095), (1, 64), (2, 9)] {
            assert_eq!(value.selects(class, queue).unwrap(), 0);
            assert_eq!(value.add(class, queue).unwrap(), 0);
            assert_eq!(value.selects(class, queue).unwrap(), 1);
        }
        assert_eq!(value.to_mask().to_string(), "rx 3,4095 tx 64 other on");
        for (class, queue) in [(0, 4096), (1, u32::MAX), (3, 0)] {
            assert!(value.add(class, queue).is_err());
        }
        value.add(WIRELANE_RX, WIRELANE_NO_QUEUE).unwrap();
        assert_eq!(value.to_mask().to_string(), "rx all tx 64 other on");
    }
}
