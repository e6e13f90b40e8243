//! Rules for single IPv4 and IPv6 fragments, and for reassembled packets.
//!
//! The auditor does not store payload. Fragments begin at multiples of 8 bytes, so the sum of the
//! whole packet is the sum of the parts.

use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{Protocol, ipv6, tcp, udp};

use crate::checksum::{check, pseudo};
use crate::packet::{DirectionKey, Fragment, Ip, be16};
use crate::rule::Rule;
use crate::set::{FirstFragment, FragmentKey, FragmentPiece, FragmentSet};
use crate::walk::PacketWalk;

/// The longest reassembled packet.
const MAX_PACKET: usize = 65_535;

impl PacketWalk<'_> {
    /// Checks a fragment, whose data is the payload of `ip`.
    pub(crate) fn fragment(&mut self, ip: &Ip<'_>, fragment: &Fragment<'_>) {
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
        let flow = DirectionKey {
            // IPv6 identifies fragments only by addresses and identification.
            protocol: if ip.v6 { 0 } else { ip.protocol.0 },
            ..self.flow_key(ip, (0, 0))
        };
        let key = FragmentKey { flow, id: fragment.id };
        let (packet, place, time) = (self.recorder.packet, self.recorder.place, self.time);
        let piece = FragmentPiece { from: offset, to: end, packet, sum: checksum::sum(ip.payload) };
        if let Some(set) = self.fragments.table.existing(&key)
            && set.is_over(&piece, time)
            && let Some(set) = self.fragments.table.remove(&key)
        {
            set.missing(&mut self.recorder);
        }
        let new = || FragmentSet {
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

    /// Parses the headers in a first fragment. For IPv6, it must contain all headers.
    fn head(&mut self, ip: &Ip<'_>) -> Option<FirstFragment> {
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
        Some(FirstFragment {
            packet: self.recorder.packet,
            protocol,
            skipped,
            skipped_sum: ip.payload.get(..skipped).map(Sum::of).unwrap_or_default(),
            start,
            start_len: upper.len().min(tcp::MIN_LEN),
        })
    }

    /// Checks the packet of a complete set.
    fn whole(&mut self, ip: &Ip<'_>, set: &FragmentSet) {
        self.recorder.checked(Rule::FragmentMissing);
        let (Some(head), Some(end)) = (&set.head, set.end) else { return };
        let length = end - head.skipped.min(end);
        let sum = set.pieces.iter().fold(Sum::ZERO, |sum, piece| sum.plus(piece.sum));
        let sum = sum.minus(head.skipped_sum);
        let ip = Ip { protocol: head.protocol, wire: length, length, ..*ip };
        // Findings refer to the first fragment, which has the header.
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

/// The kind of an option that only the first fragment may have: its copied flag, the first bit, is
/// 0.
fn not_copied(options: &[u8]) -> Option<u8> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        let len = match (*kind, after) {
            (END, _) => return None,
            (NO_OPERATION, _) => 1,
            (kind, _) if kind & 0x80 == 0 => return Some(kind),
            // An impossible length: the rest cannot be parsed.
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => return None,
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    None
}
