//! The counters of one key.

use std::ops::AddAssign;

/// Packets and their bytes, including the link header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl AddAssign for Load {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The counters of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// For hosts and ports: sent by it. For flows: sent by the first end. For other keys: all
    /// packets.
    pub sent: Load,
    /// For hosts and ports: sent to it. For flows: sent to the first end.
    pub received: Load,
    /// Time of the first packet, in nanoseconds since 1970.
    pub first: u64,
    /// Time of the last packet, in nanoseconds since 1970.
    pub last: u64,
    /// The first packet is among the received ones.
    pub(super) is_reply: bool,
}

impl Sum {
    /// The counters of one packet with `bytes` bytes.
    #[inline]
    pub(super) fn one(bytes: u32, time: u64, is_reply: bool) -> Self {
        let load = Load { packets: 1, bytes: bytes.into() };
        let (sent, received) =
            if is_reply { (Load::default(), load) } else { (load, Load::default()) };
        Self { sent, received, first: time, last: time, is_reply }
    }

    /// Both directions together.
    #[must_use]
    pub fn all(&self) -> Load {
        let mut all = self.sent;
        all += self.received;
        all
    }

    /// The same, from the view of the other end.
    pub(super) fn reversed(self) -> Self {
        Self { sent: self.received, received: self.sent, is_reply: !self.is_reply, ..self }
    }
}

impl AddAssign for Sum {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        if other.all() == Load::default() {
            return;
        }
        if self.all() == Load::default() || other.first < self.first {
            (self.first, self.is_reply) = (other.first, other.is_reply);
        }
        self.sent += other.sent;
        self.received += other.received;
        self.last = self.last.max(other.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_packet_says_who_began() {
        let mut sum = Sum::default();
        sum += Sum::one(100, 7, true);
        sum += Sum::one(60, 5, false);
        sum += Sum::one(60, 9, true);
        sum += Sum::default();
        assert_eq!((sum.first, sum.last, sum.is_reply), (5, 9, false));
        assert_eq!(sum.sent, Load { packets: 1, bytes: 60 });
        assert_eq!(sum.received, Load { packets: 2, bytes: 160 });
        assert_eq!(sum.all(), sum.reversed().all());
        assert!(sum.reversed().is_reply);
    }
}
