//! The table entry of an active flow.

use wirelane_os::memory;
use wirelane_wire::{Protocol, TcpFlags};

use crate::compact::{Compact, Endpoints};
use crate::flow::Half;
use crate::packet::{DecodedPacket, TcpValues};

/// The table entry of an active flow: three cache lines. A packet touches two, the first and the
/// line of its direction.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct FlowEntry {
    pub(crate) key: Compact,
    /// The time of the SYN, or the duration of the handshake, in ns.
    handshake: u64,
    /// The time of the first packet; `u64::MAX` before it.
    start: u64,
    /// The directions, from the first end of the key first.
    pub(crate) halves: [HalfEntry; 2],
}

const _: () = assert!(size_of::<FlowEntry>() == 192 && size_of::<HalfEntry>() == 64);

/// One direction.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct HalfEntry {
    start: u64,
    end: u64,
    octets: u64,
    payload: u64,
    pub(crate) packets: u32,
    /// The expected next sequence number.
    next_sequence: u32,
    /// The number of segments at or ahead of `next_sequence`, and the time of the last one in units
    /// of 64 ns.
    segments: u32,
    last: u32,
    zero_windows: u32,
    congestion_experienced: u32,
    tcp_flags: u16,
    queue: u16,
    dscp: u8,
    min_ttl: u8,
    max_ttl: u8,
    /// Whether the first packet is a SYN with ACK.
    is_answer: bool,
}

/// The order of a segment relative to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOrder {
    /// It follows them, or has no sequence numbers.
    Follows,
    /// It is the first segment.
    Begins,
    /// Sequence numbers are missing before it: their begin and end, and the time of the previous
    /// segment in units of 64 ns (low bits).
    Ahead(u32, u32, u32),
    /// It begins before the expected sequence number: its begin and end, and the expected number.
    Behind(u32, u32, u32),
    /// The same for a keep-alive.
    Probes(u32, u32, u32),
}

/// The progress of the sequence numbers of a direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceProgress {
    /// The expected next sequence number.
    pub(crate) next: u32,
    /// The number of segments at or ahead of the expected number.
    pub(crate) segments: u32,
    /// The time of the first packet.
    pub(crate) start: u64,
    /// The time of the last of these segments, within 64 ns.
    pub(crate) last: u64,
}

/// Converts ns to the unit of segment times.
const LAST_SHIFT: u32 = 6;

/// Restores the time of a segment from its low bits; `known` is a slightly later time.
pub(crate) fn time_before(known: u64, last: u32) -> u64 {
    let ago = ((known >> LAST_SHIFT) as u32).wrapping_sub(last);
    ((known >> LAST_SHIFT).saturating_sub(ago.into())) << LAST_SHIFT
}

/// State bits. The bits of a direction are shifted by its number.
mod bits {
    /// The second end of the key is the initiator.
    pub(super) const REVERSED: u16 = 1;
    /// Packets from the first end of the key go from the second end of the tunnel.
    pub(super) const TUNNEL_CROSSED: u16 = 2;
    /// The TCP connection has ended.
    pub(super) const CLOSED: u16 = 4;
    /// The slot is in use.
    pub(super) const LIVES: u16 = 8;
    /// The sequence number is known.
    pub(super) const SEQUENCE: u16 = 1 << 4;
    /// Sequence numbers are missing.
    pub(super) const HOLES: u16 = 1 << 6;
    pub(super) const FIN: u16 = 1 << 8;
    /// SYN was the last packet of this direction.
    pub(super) const SYN: u16 = 1 << 10;
    /// The handshake that this direction began has been timed.
    pub(super) const TIMED: u16 = 1 << 12;
    /// An earlier record has decided which end is the initiator.
    pub(super) const CONTINUES: u16 = 1 << 14;
    /// Its first packet was from the second end of the key.
    pub(super) const FROM_SECOND: u16 = 1 << 15;
}

impl HalfEntry {
    const NEW: Self = Self {
        start: 0,
        end: 0,
        octets: 0,
        payload: 0,
        packets: 0,
        next_sequence: 0,
        segments: 0,
        last: 0,
        zero_windows: 0,
        congestion_experienced: 0,
        tcp_flags: 0,
        queue: 0,
        dscp: 0,
        min_ttl: 0,
        max_ttl: 0,
        is_answer: false,
    };

    #[inline]
    fn add(&mut self, seen: &DecodedPacket) {
        // Packets of several queues are not in order of time.
        if self.packets == 0 || seen.time < self.start {
            (self.start, self.queue, self.dscp) = (seen.time, seen.queue, seen.dscp);
            self.is_answer = seen.tcp.is_some_and(|segment| is_syn_ack(segment.flags));
        }
        if self.packets == 0 {
            (self.min_ttl, self.max_ttl) = (seen.ttl, seen.ttl);
        }
        self.packets += 1;
        self.end = self.end.max(seen.time);
        self.octets += u64::from(seen.octets);
        self.payload += u64::from(seen.payload);
        self.min_ttl = self.min_ttl.min(seen.ttl);
        self.max_ttl = self.max_ttl.max(seen.ttl);
        self.congestion_experienced += u32::from(seen.ecn == 3);
    }

    /// Determines the order of a segment, and updates the expected sequence number.
    #[inline]
    fn order(&mut self, segment: &TcpValues, payload: u32, time: u64) -> SegmentOrder {
        let marks = u32::from(segment.flags.contains(TcpFlags::SYN))
            + u32::from(segment.flags.contains(TcpFlags::FIN));
        let (begin, end) = (segment.sequence, segment.sequence.wrapping_add(payload + marks));
        if begin == end {
            return SegmentOrder::Follows;
        }
        let ahead = begin.wrapping_sub(self.next_sequence) as i32;
        if ahead >= 0 {
            self.segments += 1;
            let last = std::mem::replace(&mut self.last, (time >> LAST_SHIFT) as u32);
            let expected = std::mem::replace(&mut self.next_sequence, end);
            return if ahead == 0 {
                SegmentOrder::Follows
            } else {
                SegmentOrder::Ahead(expected, begin, last)
            };
        }
        // RFC 9293 section 3.8.4: a keep-alive repeats the last byte, or has no data at its
        // sequence number.
        if ahead == -1 && payload <= 1 && marks == 0 {
            return SegmentOrder::Probes(begin, end, self.next_sequence);
        }
        let expected = self.next_sequence;
        if end.wrapping_sub(expected) as i32 > 0 {
            self.next_sequence = end;
        }
        SegmentOrder::Behind(begin, end, expected)
    }

    /// The exported form.
    fn half(&self) -> Half {
        if self.packets == 0 {
            return Half::default();
        }
        Half {
            packets: self.packets.into(),
            octets: self.octets,
            payload: self.payload,
            start: self.start,
            end: self.end,
            tcp_flags: TcpFlags::from_bits(self.tcp_flags),
            zero_windows: self.zero_windows,
            congestion_experienced: self.congestion_experienced,
            dscp: self.dscp,
            min_ttl: self.min_ttl,
            max_ttl: self.max_ttl,
            queue: self.queue,
            ..Half::default()
        }
    }
}

impl FlowEntry {
    /// An unused entry.
    pub(crate) const NEW: Self =
        Self { key: Compact::NEW, handshake: 0, start: u64::MAX, halves: [HalfEntry::NEW; 2] };

    /// Begins a flow. The caller adds its first packet next. `tunnel_reversed` means that the
    /// tunnel's ends were swapped. At export, the earliest packet determines the source.
    #[inline]
    pub(crate) fn begin(&mut self, seen: &DecodedPacket, tunnel_reversed: bool) {
        self.key = seen.key;
        self.key.state = bits::LIVES;
        if seen.is_reversed {
            self.key.state |= bits::FROM_SECOND;
        }
        if tunnel_reversed != seen.is_reversed {
            self.key.state |= bits::TUNNEL_CROSSED;
        }
        self.handshake = 0;
        self.start = u64::MAX;
        self.halves = [HalfEntry::NEW; 2];
    }

    /// Begins the next record of a continuing flow.
    pub(crate) fn go_on(&mut self) {
        let (is_reversed, is_from_second) = (self.is_reversed(), self.is_from_second());
        self.set(bits::REVERSED, is_reversed);
        self.set(bits::FROM_SECOND, is_from_second);
        self.set(bits::CONTINUES, true);
        self.handshake = 0;
        self.start = u64::MAX;
        self.key.state &= !((bits::SYN * 3) | (bits::TIMED * 3));
        for half in &mut self.halves {
            let HalfEntry { next_sequence, end, .. } = *half;
            *half = HalfEntry { next_sequence, end, ..HalfEntry::NEW };
        }
    }

    #[inline]
    fn has(&self, bit: u16) -> bool {
        self.key.state & bit != 0
    }

    fn set(&mut self, bit: u16, is_set: bool) {
        self.key.state = if is_set { self.key.state | bit } else { self.key.state & !bit };
    }

    /// Whether its earliest packet was from the second end of the key.
    fn is_from_second(&self) -> bool {
        let [first, second] = &self.halves;
        match (first.packets, second.packets) {
            _ if self.has(bits::CONTINUES) => self.has(bits::FROM_SECOND),
            (_, 0) => false,
            (0, _) => true,
            _ if first.start == second.start => self.has(bits::FROM_SECOND),
            _ => second.start < first.start,
        }
    }

    /// Whether the second end of the key is the initiator. An end that answers a SYN is not.
    pub(crate) fn is_reversed(&self) -> bool {
        if self.has(bits::CONTINUES) {
            return self.has(bits::REVERSED);
        }
        let [first, second] = &self.halves;
        let is_from_second = self.is_from_second();
        is_from_second != if is_from_second { second.is_answer } else { first.is_answer }
    }

    pub(crate) fn lives(&self) -> bool {
        self.has(bits::LIVES)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.has(bits::CLOSED)
    }

    /// Whether the only direction in this table has ended. Another queue may receive the other one.
    pub(crate) fn is_half_closed(&self) -> bool {
        let state = self.key.state;
        let is = |direction: u16| {
            let (fin, other) = (bits::FIN << direction, bits::SEQUENCE << (1 - direction));
            state & (fin | other) == fin
        };
        is(0) || is(1)
    }

    /// Whether a direction had a FIN.
    pub(crate) fn has_ended(&self, is_reversed: bool) -> bool {
        self.has(bits::FIN << u16::from(is_reversed))
    }

    /// Whether only last packets may follow.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        // Most flows have none of these bits.
        self.has(bits::CLOSED | (bits::FIN * 3)) && (self.is_closed() || self.is_half_closed())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.halves.iter().all(|half| half.packets == 0)
    }

    /// The time of its first packet; `u64::MAX` before it.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Notes that the record began earlier in another queue.
    pub(crate) fn began_at(&mut self, time: u64) {
        self.start = self.start.min(time);
    }

    /// Whether a packet certainly continues the flow: no direction has ended, the direction of the
    /// packet was not idle for `idle`, and the flow is younger than `active`. Does not read the
    /// line of the other direction, so a false result needs a full check.
    #[inline]
    pub(crate) fn goes_on(&self, seen: &DecodedPacket, idle: u64, active: u64) -> bool {
        let [first, second] = &self.halves;
        let half = if seen.is_reversed { second } else { first };
        self.key.state & (bits::CLOSED | (bits::FIN * 3)) == 0
            && seen.time.saturating_sub(half.end) <= idle
            && seen.time.saturating_sub(self.start) < active
            && half.packets.wrapping_sub(1) < u32::MAX - 1
    }

    /// The time of its last packet.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        let [a, b] = &self.halves;
        a.end.max(b.end)
    }

    /// Adds a packet. Returns the order of its segment, which the caller passes to `Sequences`.
    #[inline]
    pub(crate) fn add(&mut self, seen: &DecodedPacket) -> SegmentOrder {
        let direction = usize::from(seen.is_reversed);
        let [first, second] = &mut self.halves;
        let half = if seen.is_reversed { second } else { first };
        // Writes to the cache line of the key only on a change, to avoid its write-back to memory.
        if seen.time < self.start {
            self.start = seen.time;
        }
        half.add(seen);
        let Some(segment) = &seen.tcp else { return SegmentOrder::Follows };
        let flags = segment.flags;
        half.tcp_flags |= flags.bits();
        let is_reset = flags.contains(TcpFlags::RST);
        half.zero_windows += u32::from(segment.window == 0 && !is_reset);
        let mut state = self.key.state;
        let of = |bit: u16| bit << direction;
        if is_reset {
            self.key.state = state | bits::CLOSED;
            return SegmentOrder::Follows;
        }
        let is_known = state & of(bits::SEQUENCE) != 0;
        // The ACK that directly follows the SYN of the same direction.
        if state & of(bits::SYN) != 0 && flags.contains(TcpFlags::ACK) {
            state &= !of(bits::SYN);
            if segment.sequence == half.next_sequence {
                self.handshake = seen.time.saturating_sub(self.handshake);
                state |= of(bits::TIMED);
            }
        }
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            state |= of(bits::SYN);
            self.handshake = seen.time;
        }
        if flags.contains(TcpFlags::FIN) {
            state |= of(bits::FIN);
        }
        if state & (bits::FIN * 3) == bits::FIN * 3 {
            state |= bits::CLOSED;
        }
        let order = if is_known {
            half.order(segment, seen.payload, seen.time)
        } else {
            half.next_sequence = segment.sequence;
            half.order(segment, seen.payload, seen.time);
            SegmentOrder::Begins
        };
        let state = state | of(bits::SEQUENCE);
        if state != self.key.state {
            self.key.state = state;
        }
        order
    }

    /// Whether sequence numbers of a direction are missing.
    #[inline]
    pub(crate) fn has_holes(&self, is_reversed: bool) -> bool {
        self.has(bits::HOLES << u16::from(is_reversed))
    }

    pub(crate) fn set_holes(&mut self, is_reversed: bool, has_holes: bool) {
        self.set(bits::HOLES << u16::from(is_reversed), has_holes);
    }

    fn half(&self, is_reversed: bool) -> &HalfEntry {
        let [first, second] = &self.halves;
        if is_reversed { second } else { first }
    }

    /// The expected next sequence number of a direction.
    pub(crate) fn next_sequence(&self, is_reversed: bool) -> u32 {
        self.half(is_reversed).next_sequence
    }

    /// The progress of a direction in this record; `None` without sequence numbers.
    pub(crate) fn progress(&self, is_reversed: bool) -> Option<SequenceProgress> {
        let HalfEntry { next_sequence, segments, start, end, last, packets, .. } =
            *self.half(is_reversed);
        let is_known = packets > 0 && self.has(bits::SEQUENCE << u16::from(is_reversed));
        is_known.then_some(SequenceProgress {
            next: next_sequence,
            segments,
            start,
            last: time_before(end, last),
        })
    }

    /// Whether a packet counter is at its limit. The other 32-bit counters never exceed it.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.halves.iter().any(|half| half.packets == u32::MAX)
    }

    /// The directions, forward first, and the handshake time if the forward direction began it.
    pub(crate) fn directions(&self) -> (Half, Half, Option<u64>) {
        let [first, second] = &self.halves;
        let (forward, reverse, direction) = match self.is_reversed() {
            false => (first, second, 0),
            true => (second, first, 1),
        };
        let is_timed = self.key.protocol() == Protocol::TCP && self.has(bits::TIMED << direction);
        (forward.half(), reverse.half(), is_timed.then_some(self.handshake))
    }

    /// The ends, initiator first.
    pub(crate) fn ends(&self) -> Endpoints {
        let ends = self.key.ends();
        if self.is_reversed() { ends.swapped() } else { ends }
    }

    /// Prefetches the two cache lines that a packet needs.
    #[inline]
    pub(crate) fn prefetch(&self, is_reversed: bool) {
        let [first, second] = &self.halves;
        memory::prefetch(self);
        memory::prefetch(if is_reversed { second } else { first });
    }

    /// Whether the tunnel's ends must be swapped to match the earliest packet.
    pub(crate) fn is_tunnel_reversed(&self) -> bool {
        self.has(bits::TUNNEL_CROSSED) != self.is_from_second()
    }
}

fn is_syn_ack(flags: TcpFlags) -> bool {
    flags.contains(TcpFlags::SYN.with(TcpFlags::ACK))
}
