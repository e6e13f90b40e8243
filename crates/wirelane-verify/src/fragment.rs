//! Fragments of IPv4 and IPv6: each by itself, and the packet that a set of them makes.
//!
//! No payload is kept. Fragments begin at multiples of 8 bytes, so that the sums of the parts add up to
//! the sum of the whole packet.

use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{Protocol, ipv6, tcp, udp};

use crate::flow::FlowKey;
use crate::network::{Ip, Walk};
use crate::record::{Place, Recorder};
use crate::rule::Rule;
use crate::table::Table;
use crate::transport::{be16, check, pseudo};

/// What is said of a fragment beside its packet's header.
#[derive(Clone, Copy)]
pub(super) struct Fragment<'p> {
    /// Bytes before the fragmented part that count for the limit of 65535: the IPv4 header, or the
    /// extension headers of IPv6.
    pub(super) before: usize,
    /// Where its payload belongs.
    pub(super) offset: usize,
    pub(super) more: bool,
    pub(super) id: u32,
    /// Options of IPv4.
    pub(super) options: &'p [u8],
}

/// What the fragments of one packet have in common (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    flow: FlowKey,
    id: u32,
}

struct Set {
    /// The first one seen.
    packet: u64,
    place: Place,
    time: u64,
    pieces: Vec<Piece>,
    /// Where the last one ends.
    end: Option<usize>,
    head: Option<Head>,
    /// There is no sense in going on; the reason was said.
    broken: bool,
    /// Bytes are missing in the capture.
    cut: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    packet: u64,
    sum: Sum,
}

/// What the first fragment says of the upper layer.
#[derive(Clone, Copy)]
struct Head {
    packet: u64,
    protocol: Protocol,
    /// Bytes and sum of the extension headers before it.
    skipped: usize,
    skipped_sum: Sum,
    start: [u8; tcp::MIN_LEN],
    start_len: usize,
}

/// More pieces than fragments of 256 bytes make.
const MAX_PIECES: usize = 256;
/// How long the pieces of a packet wait for the others (RFC 8200 section 4.5).
const PATIENCE: u64 = 60_000_000_000;
/// So late the same place again is another packet of that identification.
const AGAIN: u64 = 10_000_000;
const MAX_PACKET: usize = 65_535;

/// Sets of fragments that are not whole yet.
pub(super) struct Fragments {
    table: Table<Key, Set>,
}

impl Fragments {
    pub(super) fn new(limit: usize) -> Self {
        Self { table: Table::new(limit) }
    }

    pub(super) fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// The capture is over.
    pub(super) fn finish(&mut self, recorder: &mut Recorder<'_>) {
        let mut left: Vec<_> = self.table.drain().collect();
        left.sort_by_key(|set| set.packet);
        left.iter().for_each(|set| set.missing(recorder));
    }
}

impl Walk<'_> {
    /// A fragment; what it carries is the payload of `ip`.
    pub(super) fn fragment(&mut self, ip: &Ip<'_>, fragment: &Fragment<'_>) {
        let recorder = &mut self.recorder;
        let Fragment { offset, more, .. } = *fragment;
        let fits = if more { ip.wire > 0 && ip.wire.is_multiple_of(8) } else { ip.wire > 0 };
        let expected = if more { "a multiple of 8 bytes" } else { "at least a byte" };
        recorder.check(Rule::FragmentSize, !fits, expected, format_args!("{}", ip.wire));
        let end = offset + ip.wire;
        let reach = fragment.before + end;
        let expected = format_args!("at most {MAX_PACKET} bytes of the whole packet");
        let (rule, oversize) = (Rule::FragmentOversize, reach > MAX_PACKET);
        recorder.check(rule, oversize, expected, format_args!("one up to {reach}"));
        if !ip.v6 && offset > 0 {
            let kind = not_copied(fragment.options);
            let found = format_args!("option {}", kind.unwrap_or_default());
            let expected = "options with the copied flag";
            recorder.check(Rule::FragmentOptions, kind.is_some(), expected, found);
        }
        if ip.v6 && more {
            recorder.checked(Rule::Fragment6Small);
            if ip.length < 1280 {
                let expected = "at least 1280 bytes before the last one";
                recorder.note(Rule::Fragment6Small, expected, ip.length);
            }
        }
        if !fits || oversize {
            return;
        }
        let head = if offset == 0 { self.head(ip) } else { None };
        let flow = FlowKey {
            // IPv6 goes by addresses and identification alone.
            protocol: if ip.v6 { 0 } else { ip.protocol.0 },
            ..self.flow_key(ip, (0, 0))
        };
        let key = Key { flow, id: fragment.id };
        let (packet, place, time) = (self.recorder.packet, self.recorder.place, self.time);
        let piece = Piece { from: offset, to: end, packet, sum: checksum::sum(ip.payload) };
        if let Some(set) = self.fragments.table.existing(&key)
            && set.is_over(&piece, time)
            && let Some(set) = self.fragments.table.remove(&key)
        {
            set.missing(&mut self.recorder);
        }
        let new = || Set {
            packet,
            place,
            time,
            pieces: Vec::new(),
            end: None,
            head: None,
            broken: false,
            cut: false,
        };
        let recorder = &mut self.recorder;
        let set = self.fragments.table.entry(key, new, |set| set.missing(recorder));
        set.cut |= ip.payload.len() < ip.wire;
        set.head = set.head.or(head);
        set.add(&mut self.recorder, piece, more);
        if set.is_whole()
            && let Some(set) = self.fragments.table.remove(&key)
        {
            self.whole(ip, &set);
        }
    }

    /// Reads the headers in a first fragment. Those of IPv6 must all be there.
    fn head(&mut self, ip: &Ip<'_>) -> Option<Head> {
        let rule = Rule::Fragment6Chain;
        let cut = ip.payload.len() < ip.wire;
        let (mut protocol, mut skipped) = (ip.protocol, 0);
        if ip.v6 {
            match ipv6::walk(ip.protocol, ip.payload) {
                Ok(upper) => (protocol, skipped) = (upper.protocol, upper.offset),
                Err(_) if cut => {
                    self.recorder.cut(rule);
                    return None;
                }
                Err(error) => {
                    let expected = "all extension headers in the first fragment";
                    self.recorder.check(rule, true, expected, error);
                    return None;
                }
            }
            let needed = match protocol {
                Protocol::TCP => tcp::MIN_LEN,
                Protocol::UDP => udp::LEN,
                _ => 0,
            };
            let have = ip.wire - skipped.min(ip.wire);
            let expected = format_args!("{needed} bytes of the {protocol} header in the first");
            self.recorder.check(rule, have < needed, expected, have);
        }
        let upper = ip.payload.get(skipped..)?;
        let mut start = [0; tcp::MIN_LEN];
        for (to, from) in start.iter_mut().zip(upper) {
            *to = *from;
        }
        Some(Head {
            packet: self.recorder.packet,
            protocol,
            skipped,
            skipped_sum: ip.payload.get(..skipped).map(Sum::of).unwrap_or_default(),
            start,
            start_len: upper.len().min(tcp::MIN_LEN),
        })
    }

    /// A set is whole: looks at the packet that it makes.
    fn whole(&mut self, ip: &Ip<'_>, set: &Set) {
        self.recorder.checked(Rule::FragmentMissing);
        let (Some(head), Some(end)) = (&set.head, set.end) else { return };
        let length = end - head.skipped.min(end);
        let sum = set.pieces.iter().fold(Sum::ZERO, |sum, piece| sum.plus(piece.sum));
        let sum = sum.minus(head.skipped_sum);
        let ip = Ip { protocol: head.protocol, wire: length, length, ..*ip };
        // It is said of the first fragment, which has the header.
        let now = std::mem::replace(&mut self.recorder.packet, head.packet);
        let covered = (!set.cut).then_some(sum);
        match head.protocol {
            Protocol::UDP if head.start_len >= udp::LEN => {
                let stated = usize::from(be16(&head.start, 4));
                let fits = (udp::LEN..=length).contains(&stated);
                let expected = format_args!("8 to {length}");
                self.recorder.check(Rule::UdpLength, !fits, expected, stated);
                if stated == length {
                    let ports = (be16(&head.start, 0), be16(&head.start, 2));
                    let field = be16(&head.start, udp::CHECKSUM_OFFSET);
                    let key = self.flow_key(&ip, ports);
                    self.udp_checksum(&ip, key, covered, (field, length), None, false);
                } else if fits {
                    // The checksum ends within a fragment.
                    self.recorder.undecided(Rule::UdpChecksum);
                }
            }
            Protocol::TCP => match (covered, pseudo(&ip, length)) {
                (Some(covered), Some(pseudo)) => {
                    let field = be16(&head.start, tcp::CHECKSUM_OFFSET);
                    let rule = Rule::TcpChecksum;
                    check(&mut self.recorder, rule, covered, &pseudo, field, None, false);
                }
                (None, _) => self.recorder.cut(Rule::TcpChecksum),
                (_, None) => self.recorder.undecided(Rule::TcpChecksum),
            },
            _ => self.recorder.summary.other_protocol += 1,
        }
        self.recorder.packet = now;
    }
}

impl Set {
    /// Whether a piece that comes now belongs to another packet with the same identification.
    fn is_over(&self, piece: &Piece, time: u64) -> bool {
        let age = if self.time == 0 || time == 0 { 0 } else { time.saturating_sub(self.time) };
        let again = |old: &Piece| old.from == piece.from && old.sum != piece.sum;
        age > PATIENCE || age > AGAIN && (self.broken || self.pieces.iter().any(again))
    }

    fn add(&mut self, recorder: &mut Recorder<'_>, piece: Piece, more: bool) {
        if self.broken {
            return;
        }
        recorder.checked(Rule::FragmentOverlap);
        let overlapping = |old: &&Piece| old.from < piece.to && piece.from < old.to;
        if let Some(old) = self.pieces.iter().find(overlapping).copied() {
            let same = (old.from, old.to) == (piece.from, piece.to);
            if !same || old.sum != piece.sum {
                let expected = "fragments that do not overlap";
                let found = format_args!(
                    "bytes {} to {}{} beside {} to {}",
                    piece.from,
                    piece.to,
                    if same { " with other contents" } else { "" },
                    old.from,
                    old.to
                );
                let other = Some(old.packet);
                recorder.violation(Rule::FragmentOverlap, expected, found, other);
                self.broken = true;
            }
            // The same once more is a copy that the network made.
            return;
        }
        recorder.checked(Rule::FragmentEnd);
        let beyond = self.end.is_some_and(|end| if more { piece.to >= end } else { true });
        let behind = !more && self.pieces.iter().any(|old| old.to > piece.to);
        if beyond || behind {
            let end = if behind { piece.to } else { self.end.unwrap_or_default() };
            let expected = format_args!("nothing behind the last fragment, which ends at {end}");
            let found = format_args!("bytes {} to {} of this one", piece.from, piece.to);
            let found: &dyn std::fmt::Display =
                if behind { &"fragments seen before that lie behind it" } else { &found };
            recorder.violation(Rule::FragmentEnd, expected, found, Some(self.packet));
            self.broken = true;
            return;
        }
        if !more {
            self.end = Some(piece.to);
        }
        if self.pieces.len() == MAX_PIECES {
            recorder.undecided(Rule::FragmentMissing);
            self.broken = true;
            return;
        }
        self.pieces.push(piece);
    }

    fn is_whole(&self) -> bool {
        let have: usize = self.pieces.iter().map(|piece| piece.to - piece.from).sum();
        !self.broken && self.end == Some(have)
    }

    /// Says what is missing.
    fn missing(&self, recorder: &mut Recorder<'_>) {
        if self.broken {
            return;
        }
        let mut pieces = self.pieces.clone();
        pieces.sort_by_key(|piece| piece.from);
        let mut gaps = String::new();
        let mut at = 0;
        for piece in &pieces {
            if piece.from > at {
                gaps += &format!("bytes {at} to {}, ", piece.from);
            }
            at = piece.to;
        }
        if self.end.is_none() {
            gaps += &format!("the last one from {at} on, ");
        }
        let gaps = gaps.trim_end_matches(", ");
        let outside = std::mem::replace(&mut recorder.place, self.place);
        let (rule, expected) = (Rule::FragmentMissing, "all fragments of the packet");
        recorder.note_of(self.packet, rule, expected, format_args!("not {gaps}"));
        recorder.place = outside;
    }
}

/// An option that only the first fragment may have: the first bit says whether it is copied.
fn not_copied(options: &[u8]) -> Option<u8> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        let len = match (*kind, after) {
            (END, _) => return None,
            (NO_OPERATION, _) => 1,
            (kind, _) if kind & 0x80 == 0 => return Some(kind),
            // A length that cannot be: what follows is no option.
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => return None,
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    None
}
