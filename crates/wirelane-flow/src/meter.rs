//! The flow table of one thread.
//!
//! Most packets are decoded in one pass (`plain`), the others by `packet` with equal results. A
//! packet touches one cache line of the index and two lines of its entry: the key and its
//! direction. The meter prefetches the index line as soon as a packet is decoded, and the entry
//! lines of a batch before it changes the first entry, so cache misses overlap. Large tables
//! request huge pages.
//!
//! The key has both ends in order, so both directions share an entry. Its hash is seeded, so a
//! sender cannot choose colliding keys. The time of the next packet decides whether a flow has
//! ended; the wheel only exports silent flows. So a file gives the same flows as the port.

use std::sync::Arc;
use std::time::Duration;

use wirelane_wire::{Protocol, TcpFlags};

use crate::community;
use crate::flow::{EndReason, Flow};
use crate::key::Key;
use crate::packet::{DecodedPacket, Packet, Unmetered};
use crate::parts::{Begun, PartOrigin, TableReport, Tracker};
use crate::sequences::Sequences;
use crate::table::{FlowEntry, HashIndex, Room, SegmentOrder, Slab, Wheel};
use crate::trace::{LateSegments, Trace};
use crate::tunnels::Tunnels;

/// The number of packets that are looked up together, so that their cache misses overlap.
const BATCH: usize = 64;
/// How long packets after the end of a TCP connection still belong to it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// The same for a connection with only one direction in this queue: the other direction may last
/// longer.
const HALF_LINGER: Duration = Duration::from_secs(5);
/// The number of samples when choosing a flow to evict.
const SAMPLE: usize = 16;

/// The timeouts of flows. Each field has a setter of the same name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MeterConfig {
    /// A flow without a packet for this time ends (`flowIdleTimeout` 37).
    pub idle: Duration,
    /// A long flow is exported at this interval (`flowActiveTimeout` 36).
    pub active: Duration,
}

wirelane_wire::setters!(MeterConfig: idle: Duration, active: Duration);

impl Default for MeterConfig {
    fn default() -> Self {
        Self { idle: Duration::from_secs(15), active: Duration::from_secs(300) }
    }
}

/// Counts of packets: `packets` is the sum of the packets in flows, `not_ip`, `encrypted`,
/// `truncated` and `malformed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeterCounts {
    /// All packets.
    pub packets: u64,
    /// Packets other than IP, or of an unsupported link type.
    pub not_ip: u64,
    /// Frames of IEEE 802.11 and PPP whose content is encrypted.
    pub encrypted: u64,
    /// Packets whose captured bytes end before the addresses and ports.
    pub truncated: u64,
    /// Packets with invalid values in a header.
    pub malformed: u64,
    /// Flows in the table.
    pub flows: u64,
    /// Flows exported.
    pub exported: u64,
    /// Packets in them.
    pub exported_packets: u64,
    /// Exported flows that ended early for lack of memory.
    pub evicted: u64,
    /// Packets of tunnels beyond the largest number of tunnels. They are metered without the
    /// tunnel.
    pub tunnels_lost: u64,
}

impl MeterCounts {
    /// The sums of both counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            not_ip: self.not_ip + other.not_ip,
            encrypted: self.encrypted + other.encrypted,
            truncated: self.truncated + other.truncated,
            malformed: self.malformed + other.malformed,
            flows: self.flows + other.flows,
            exported: self.exported + other.exported,
            exported_packets: self.exported_packets + other.exported_packets,
            evicted: self.evicted + other.evicted,
            tunnels_lost: self.tunnels_lost + other.tunnels_lost,
        }
    }
}

/// The flow table of one thread.
pub struct Meter {
    index: HashIndex,
    slab: Slab,
    wheel: Wheel,
    sequences: Sequences,
    tunnels: Tunnels,
    interfaces: Vec<Arc<str>>,
    room: Arc<Room>,
    seed: [u64; 4],
    idle: u64,
    active: u64,
    linger: u64,
    half_linger: u64,
    /// The time of the newest packet.
    now: u64,
    waiting: Vec<Pending>,
    counts: MeterCounts,
    done: Vec<Flow>,
    /// `Some` if other tables have parts of the same conversations.
    tracker: Option<Tracker>,
    /// Random state for choosing flows to evict.
    dice: u64,
    /// [`Meter::finish`] has ended the flows in the slots before this one.
    finished: u32,
}

/// A packet that waits for its batch to fill.
struct Pending {
    seen: DecodedPacket,
    hash: u32,
    /// The probable slot of its flow.
    guess: Option<u32>,
    tunnel_reversed: bool,
}

impl Meter {
    /// An empty table. All tables with the same `room` share its limit. The seed prevents senders
    /// from choosing flows that collide.
    pub fn new(config: MeterConfig, room: Arc<Room>, seed: u64) -> Self {
        let nanoseconds =
            |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let (idle, active) = (nanoseconds(config.idle), nanoseconds(config.active));
        // SplitMix64.
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        Self {
            index: HashIndex::new(),
            slab: Slab::new(),
            wheel: Wheel::new(idle),
            sequences: Sequences::default(),
            tunnels: Tunnels::default(),
            interfaces: Vec::new(),
            room,
            seed: [next(), next(), next(), next()],
            idle,
            active,
            linger: nanoseconds(LINGER).min(idle),
            half_linger: nanoseconds(HALF_LINGER).min(idle),
            now: 0,
            waiting: Vec::with_capacity(BATCH),
            counts: MeterCounts::default(),
            done: Vec::new(),
            tracker: None,
            dice: next() | 1,
            finished: 0,
        }
    }

    /// Starts to report the conversations of its parts. All tables whose parts are joined need the
    /// same seed.
    pub(crate) fn track(&mut self, seed: u64) {
        self.tracker = Some(Tracker::new(seed));
        self.sequences.track();
    }

    /// The number of an interface. Interfaces of the same name have the same number. After 65,536
    /// names, all others share the last number.
    pub fn interface(&mut self, name: &str) -> u16 {
        let known = self.interfaces.iter().position(|one| **one == *name);
        let number = known.unwrap_or_else(|| {
            if self.interfaces.len() <= usize::from(u16::MAX) {
                self.interfaces.push(name.into());
            }
            self.interfaces.len() - 1
        });
        number as u16
    }

    /// Adds a packet to the batch. A full batch or [`Meter::flush`] meters it.
    #[inline]
    pub fn push(&mut self, packet: &Packet<'_>) {
        self.counts.packets += 1;
        match DecodedPacket::plain(packet) {
            Some(seen) => self.wait(seen, false),
            None => self.push_other(packet),
        }
    }

    /// A packet that the fast decoder does not support.
    #[inline(never)]
    fn push_other(&mut self, packet: &Packet<'_>) {
        let (mut seen, outer) = match DecodedPacket::of(packet) {
            Ok(seen) => seen,
            Err(why) => return self.refuse(why),
        };
        let mut tunnel_reversed = false;
        if let Some(outer) = outer {
            match self.tunnels.number(outer) {
                Some((number, is_reversed)) => {
                    seen.key = seen.key.through(number);
                    tunnel_reversed = is_reversed;
                }
                None => self.counts.tunnels_lost += 1,
            }
        }
        self.wait(seen, tunnel_reversed);
    }

    #[inline(always)]
    fn wait(&mut self, seen: DecodedPacket, tunnel_reversed: bool) {
        let hash = seen.key.hash(&self.seed);
        self.index.prefetch(hash);
        self.waiting.push(Pending { seen, hash, guess: None, tunnel_reversed });
        if self.waiting.len() == BATCH {
            self.flush();
        }
    }

    /// Meters all pending packets.
    pub fn flush(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for Pending { seen, hash, guess, .. } in &mut waiting {
            *guess = self.index.guess(*hash);
            if let Some(entry) = guess.and_then(|slot| self.slab.get(slot)) {
                entry.prefetch(seen.is_reversed);
            }
        }
        for pending in waiting.drain(..) {
            self.meter(&pending);
        }
        self.waiting = waiting;
    }

    /// Advances the time without a packet. No later packet is older.
    pub fn advance(&mut self, time: u64) {
        self.flush();
        self.tick(time);
    }

    /// Ends at most `most` flows, after the last packet. Returns whether flows may remain. Ending
    /// in steps avoids a second copy of a large table in memory.
    pub fn finish(&mut self, most: usize) -> bool {
        self.flush();
        let mut room = most;
        while room > 0 && (self.finished as usize) < self.slab.begun() {
            let slot = self.finished;
            self.finished += 1;
            if let Some(entry) = self.slab.get(slot).filter(|entry| entry.lives()) {
                let has_ended = entry.is_ending();
                let why = if has_ended { EndReason::Ended } else { EndReason::Forced };
                self.end(slot, why);
                room -= 1;
            }
        }
        (self.finished as usize) < self.slab.begun()
    }

    /// Moves the ended flows to the end of `flows`.
    pub fn take(&mut self, flows: &mut Vec<Flow>) {
        flows.append(&mut self.done);
    }

    /// Moves the reports of begun and ended parts into `parts`.
    pub(crate) fn take_parts(&mut self, parts: &mut TableReport) {
        parts.flows.append(&mut self.done);
        parts.newest = self.now;
        if let Some(tracker) = &mut self.tracker {
            tracker.take(parts);
        }
    }

    /// Notes that the record of a flow began earlier in another table, so that both parts end at
    /// the same time.
    pub(crate) fn began(&mut self, origin: &PartOrigin) {
        let PartOrigin { conversation, slot, start } = *origin;
        let Some(entry) = self.slab.get(slot).filter(|entry| entry.lives()) else { return };
        // The slot may already have the next part of the conversation.
        let is_in_time = !entry.is_empty() && entry.start().saturating_sub(start) < self.active;
        if is_in_time
            && self.conversation(entry) == Some(conversation)
            && let Some(entry) = self.slab.get_mut(slot)
        {
            entry.began_at(start);
        }
    }

    /// The number of a flow's conversation, the same in all tables; `None` without other tables.
    fn conversation(&self, entry: &FlowEntry) -> Option<u64> {
        let tracker = self.tracker.as_ref()?;
        let interface = self.interfaces.get(usize::from(entry.key.interface));
        let name = interface.map_or("", |name| &**name);
        Some(tracker.conversation(&entry.key, name, self.tunnels.outer(entry.key.tunnel)))
    }

    /// Reports that a part of a conversation begins.
    #[cold]
    fn tell_begun(&mut self, slot: u32, seen: &DecodedPacket) {
        let Some(entry) = self.slab.get(slot) else { return };
        let Some(conversation) = self.conversation(entry) else { return };
        if let Some(tracker) = &mut self.tracker {
            tracker.begun.push(Begun { conversation, slot, start: seen.time });
        }
    }

    /// The number of ended flows that were not taken yet.
    pub fn ready(&self) -> usize {
        self.done.len()
    }

    /// The time of the newest packet, or a later time set by [`Meter::advance`].
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The counts so far.
    pub fn counts(&self) -> MeterCounts {
        MeterCounts { flows: self.slab.len() as u64, ..self.counts }
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.slab.bytes() + self.index.bytes() + self.wheel.bytes() + self.sequences.bytes()
    }

    #[cold]
    fn refuse(&mut self, why: Unmetered) {
        match why {
            Unmetered::NotIp => self.counts.not_ip += 1,
            Unmetered::Encrypted => self.counts.encrypted += 1,
            Unmetered::Truncated => self.counts.truncated += 1,
            Unmetered::Malformed => self.counts.malformed += 1,
        }
    }

    #[inline]
    fn meter(&mut self, pending: &Pending) {
        let Pending { seen, hash, guess, .. } = pending;
        if seen.time > self.now {
            self.tick(seen.time);
        }
        // An unused slot also has a key, but it is not marked as live.
        let is = |entry: &FlowEntry| entry.key == seen.key && entry.lives();
        if let Some(slot) = *guess
            && let Some(entry) = self.slab.get_mut(slot).filter(|entry| is(entry))
            && entry.goes_on(seen, self.idle, self.active)
        {
            let order = entry.add(seen);
            if order != SegmentOrder::Follows || entry.is_ending() {
                self.added(slot, seen, order, false);
            }
            return;
        }
        let slot = match self.index.find(*hash, |slot| self.slab.get(slot).is_some_and(is)) {
            Some(slot) => {
                if let Some(why) = self.is_over(slot, seen) {
                    self.begin_again(slot, pending, why);
                }
                slot
            }
            None => match self.begin(pending) {
                Some(slot) => slot,
                None => return,
            },
        };
        if self.tracker.is_some() && self.slab.get(slot).is_some_and(FlowEntry::is_empty) {
            self.tell_begun(slot, seen);
        }
        let Some(entry) = self.slab.get_mut(slot) else { return };
        let was_ending = entry.is_ending();
        let order = entry.add(seen);
        self.added(slot, seen, order, was_ending);
    }

    /// Updates the timer and the sequence numbers of a flow after a packet.
    fn added(&mut self, slot: u32, seen: &DecodedPacket, order: SegmentOrder, was_ending: bool) {
        let is_ending = self.slab.get(slot).is_some_and(FlowEntry::is_ending);
        if is_ending && !was_ending {
            let (quiet, _) = self.silence(slot);
            self.wheel.remove(slot);
            self.wheel.add(slot, seen.time.saturating_add(quiet));
        }
        if order != SegmentOrder::Follows
            && let Some(entry) = self.slab.get_mut(slot)
        {
            self.sequences.note(slot, seen, order, entry);
        }
    }

    /// The timeout of a flow in ns, and its end reason.
    #[inline]
    fn silence(&self, slot: u32) -> (u64, EndReason) {
        match self.slab.get(slot) {
            Some(entry) if entry.is_closed() => (self.linger, EndReason::Ended),
            Some(entry) if entry.is_half_closed() => (self.half_linger, EndReason::Ended),
            _ => (self.idle, EndReason::Idle),
        }
    }

    /// The end reason, if the existing flow ends before this packet.
    #[inline]
    fn is_over(&self, slot: u32, seen: &DecodedPacket) -> Option<EndReason> {
        let entry = self.slab.get(slot)?;
        let pause = seen.time.saturating_sub(entry.end());
        if entry.is_closed() {
            // A packet from before the end belongs to the ended flow, even if it arrives late from
            // another queue.
            let begins = seen.time >= entry.end()
                && seen.tcp.is_some_and(|segment| {
                    segment.flags.contains(TcpFlags::SYN) && !segment.flags.contains(TcpFlags::ACK)
                });
            return (begins || pause > self.linger).then_some(EndReason::Ended);
        }
        if entry.is_empty() {
            return (pause > self.idle).then_some(EndReason::Idle);
        }
        let (quiet, why) = self.silence(slot);
        let is_syn = || seen.tcp.is_some_and(|segment| segment.flags.contains(TcpFlags::SYN));
        // The other direction may be in another table, which does not see the FIN of this one.
        let is_next = self.tracker.is_some()
            && entry.is_half_closed()
            && entry.has_ended(seen.is_reversed)
            && seen.time >= entry.end()
            && is_syn();
        if pause > quiet || is_next {
            return Some(why);
        }
        let lasts = seen.time.saturating_sub(entry.start()) >= self.active || entry.is_full();
        lasts.then_some(EndReason::Active)
    }

    /// Exports the flow in a slot, and begins the next flow with the same key.
    #[cold]
    fn begin_again(&mut self, slot: u32, pending: &Pending, why: EndReason) {
        self.export(slot, why);
        let Some(entry) = self.slab.get_mut(slot) else { return };
        if why == EndReason::Active {
            entry.go_on();
            self.sequences.go_on(slot, entry);
        } else {
            entry.begin(&pending.seen, pending.tunnel_reversed);
            self.sequences.forget(slot);
            self.sequences.begin(slot);
        }
        self.wheel.remove(slot);
        self.wheel.add(slot, pending.seen.time.saturating_add(self.idle));
    }

    /// Takes a slot for a new flow. If there is no room, evicts another flow.
    fn begin(&mut self, pending: &Pending) -> Option<u32> {
        let slot = match self.slab.take(&self.room) {
            Some(slot) => slot,
            None => {
                self.evict();
                // Another table may have taken the room.
                match self.slab.take(&self.room) {
                    Some(slot) => slot,
                    None => {
                        self.alone(pending);
                        return None;
                    }
                }
            }
        };
        self.slab.get_mut(slot)?.begin(&pending.seen, pending.tunnel_reversed);
        self.sequences.begin(slot);
        self.index.insert(pending.hash, slot);
        self.wheel.add(slot, pending.seen.time.saturating_add(self.idle));
        Some(slot)
    }

    /// Exports a packet as a separate flow, because there is no memory for another entry.
    #[cold]
    fn alone(&mut self, pending: &Pending) {
        let mut entry = FlowEntry::NEW;
        entry.begin(&pending.seen, pending.tunnel_reversed);
        entry.add(&pending.seen);
        let (conversation, start) = (self.conversation(&entry), pending.seen.time);
        if let (Some(conversation), Some(tracker)) = (conversation, &mut self.tracker) {
            tracker.begun.push(Begun { conversation, slot: u32::MAX, start });
        }
        self.counts.evicted += 1;
        let traces = self.sequences.of_one(&pending.seen, &entry);
        self.export_entry(&entry, <[LateSegments; 2]>::default(), traces, EndReason::Evicted);
    }

    /// Exports the oldest of some random flows, closed connections first.
    #[cold]
    fn evict(&mut self) {
        let begun = self.slab.begun() as u64;
        if begun == 0 {
            return;
        }
        let mut oldest = None;
        for _ in 0..SAMPLE {
            // Xorshift64.
            self.dice ^= self.dice << 13;
            self.dice ^= self.dice >> 7;
            self.dice ^= self.dice << 17;
            let slot = (self.dice % begun) as u32;
            if let Some(entry) = self.slab.get(slot).filter(|entry| entry.lives()) {
                let age = (!entry.is_closed(), entry.end());
                if oldest.is_none_or(|(other, _)| age < other) {
                    oldest = Some((age, slot));
                }
            }
        }
        if let Some((_, slot)) = oldest {
            self.counts.evicted += 1;
            self.end(slot, EndReason::Evicted);
        }
    }

    /// Advances the time, and checks the flows whose timers have expired.
    #[inline]
    fn tick(&mut self, time: u64) {
        self.now = self.now.max(time);
        if self.wheel.is_due(time) {
            self.turn();
        }
    }

    #[cold]
    fn turn(&mut self) {
        let now = self.now;
        for first in self.wheel.turn(now) {
            let mut next = Some(first);
            while let Some(at) = next {
                next = self.wheel.after(at);
                let Some(entry) = self.slab.get(at) else { break };
                let (quiet, why) = self.silence(at);
                let silent = entry.end().saturating_add(quiet);
                let due = match entry.is_closed() || entry.is_empty() {
                    true => silent,
                    false => silent.min(entry.start().saturating_add(self.active)),
                };
                if due >= now {
                    self.wheel.add(at, due);
                } else if silent < now {
                    self.end_off_the_wheel(at, why);
                } else {
                    self.export(at, EndReason::Active);
                    if let Some(entry) = self.slab.get_mut(at) {
                        entry.go_on();
                        self.sequences.go_on(at, entry);
                    }
                    self.wheel.add(at, silent);
                }
            }
        }
    }

    /// Exports and removes a flow.
    fn end(&mut self, slot: u32, why: EndReason) {
        self.wheel.remove(slot);
        self.end_off_the_wheel(slot, why);
    }

    fn end_off_the_wheel(&mut self, slot: u32, why: EndReason) {
        self.export(slot, why);
        let Some(entry) = self.slab.get(slot) else { return };
        let hash = entry.key.hash(&self.seed);
        self.index.remove(hash, slot);
        self.sequences.forget(slot);
        self.slab.give_back(slot);
    }

    fn export(&mut self, slot: u32, why: EndReason) {
        if let Some(entry) = self.slab.get(slot).copied().filter(|entry| !entry.is_empty()) {
            let counts = self.sequences.counts(slot);
            let traces = self.sequences.traces(slot, &entry);
            self.export_entry(&entry, counts, traces, why);
        }
    }

    fn export_entry(
        &mut self,
        entry: &FlowEntry,
        [first, second]: [LateSegments; 2],
        traces: Vec<Trace>,
        why: EndReason,
    ) {
        let (mut forward, mut reverse, handshake_rtt) = entry.directions();
        let (there, back) = if entry.is_reversed() { (second, first) } else { (first, second) };
        for (half, counts) in [(&mut forward, there), (&mut reverse, back)] {
            (half.retransmissions, half.out_of_order) =
                (counts.retransmissions, counts.out_of_order);
        }
        let ends = entry.ends();
        let ([source, destination], [source_port, destination_port]) =
            (ends.addresses(), ends.ports);
        let key = &entry.key;
        let [vlan, inner_vlan] = key.vlans();
        // For an ICMP exchange, the second port is the type of the answer, and the code is 0.
        let is_exchange =
            matches!(key.protocol(), Protocol::ICMP | Protocol::ICMPV6) && !key.is_one_way();
        if let Some(conversation) = self.conversation(entry)
            && let Some(tracker) = &mut self.tracker
        {
            tracker.ended.push(conversation);
            tracker.traces.push(traces);
        }
        self.counts.exported += 1;
        self.counts.exported_packets += forward.packets + reverse.packets;
        let key = Key {
            source,
            destination,
            source_port,
            destination_port: if is_exchange { 0 } else { destination_port },
            protocol: key.protocol(),
            vlan,
            inner_vlan,
            tunnel: self.tunnels.tunnel(key.tunnel, entry.is_tunnel_reversed()),
        };
        let interface = self.interfaces.get(usize::from(entry.key.interface));
        self.done.push(Flow {
            key,
            forward,
            reverse,
            handshake_rtt,
            end: why,
            interface: interface.cloned().unwrap_or_else(|| Arc::from("")),
            community: community::id(&entry.key),
        });
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
