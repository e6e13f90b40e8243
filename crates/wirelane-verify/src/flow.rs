//! Rules about several packets of one flow, for any sender.

use wirelane_wire::TcpFlags;

use crate::packet::{DirectionKey, TcpSegment};
use crate::record::FindingRecorder;
use crate::rule::Rule;
use crate::table::LruTable;

/// The meaning of CWR in a connection, as negotiated in its handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ecn {
    /// The handshake is not in the capture, or negotiated no ECN.
    #[default]
    Unknown,
    /// A signal (RFC 3168).
    Classic,
    /// A bit of a counter (RFC 9768).
    Accurate,
}

#[derive(Default)]
struct FlowState {
    identification: Option<Identification>,
    fin: Option<EarlierSegment>,
    cwr: Option<EarlierSegment>,
    syn: Option<TcpFlags>,
    ecn: Ecn,
    /// The number of a datagram with a checksum.
    summed: Option<u64>,
}

struct Identification {
    packet: u64,
    time: u64,
    id: u16,
    /// Length and hash of the IP payload: packets that differ here are different packets.
    print: (usize, u64),
}

/// An earlier segment.
#[derive(Clone, Copy)]
struct EarlierSegment {
    packet: u64,
    time: u64,
    /// The sequence number after its payload.
    end: u32,
    acknowledgment: u32,
}

/// In this time an identification cannot repeat legitimately: that would take 65 million packets
/// per second.
const SOON: u64 = 1_000_000;
/// The largest distance of back-to-back segments, less than the usual round-trip time.
const BACK_TO_BACK: u64 = 1_000_000;
/// Data after a FIN must arrive within this time. Later, a new connection may use the same ports.
const AFTER_FIN: u64 = 1_000_000_000;
/// The largest amount of data in flight after a FIN.
const FLIGHT: u32 = 1 << 17;

/// The state of flows.
pub(crate) struct FlowStates {
    table: LruTable<DirectionKey, FlowState>,
}

impl FlowStates {
    pub(crate) fn new(limit: usize) -> Self {
        Self { table: LruTable::new(limit) }
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    fn flow(&mut self, key: DirectionKey) -> &mut FlowState {
        self.table.entry(key, FlowState::default, drop)
    }

    /// Checks an IPv4 packet that may be fragmented: different packets need different
    /// identifications.
    pub(crate) fn identification(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        key: DirectionKey,
        id: u16,
        print: (usize, u64),
        time: u64,
    ) {
        let packet = recorder.packet;
        let flow = self.flow(key);
        let now = Identification { packet, time, id, print };
        let Some(before) = flow.identification.replace(now) else { return };
        if before.print == print || !within(before.time, time, SOON) {
            return;
        }
        recorder.checked(Rule::Ipv4Id);
        if before.id == id {
            let expected = "another identification than the packet before, as DF is not set";
            let found = format_args!("{id:#06x} again");
            recorder.violation(Rule::Ipv4Id, expected, found, Some(before.packet));
        }
    }

    /// Checks a TCP segment. Returns the meaning of CWR in its connection.
    pub(crate) fn tcp(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        key: DirectionKey,
        segment: &TcpSegment<'_>,
        time: u64,
    ) -> Ecn {
        let (flags, packet) = (segment.flags, recorder.packet);
        let syn = flags.contains(TcpFlags::SYN);
        let mut chosen = None;
        if let Some(reverse) = self.table.existing(&key.reversed()) {
            // After an answer, the other side may reduce its window again.
            reverse.cwr = None;
            if syn && flags.contains(TcpFlags::ACK) {
                let ecn = reverse.syn.map_or(Ecn::Unknown, |syn| negotiated(syn, flags));
                reverse.ecn = ecn;
                chosen = Some(ecn);
            }
        }
        let flow = self.flow(key);
        if syn {
            *flow = FlowState {
                syn: Some(flags),
                ecn: chosen.unwrap_or_default(),
                ..FlowState::default()
            };
        }
        let mark = EarlierSegment {
            packet,
            time,
            end: segment.end(),
            acknowledgment: segment.acknowledgment,
        };
        if let Some(fin) = flow.fin
            && segment.len > 0
            && fin.acknowledgment == segment.acknowledgment
            && within(fin.time, time, AFTER_FIN)
        {
            recorder.checked(Rule::TcpFin);
            // A single byte may be a keep-alive (RFC 9293 section 3.8.4).
            if (2..FLIGHT).contains(&segment.end().wrapping_sub(fin.end)) {
                let expected = "no data behind FIN";
                let found = format_args!("more up to {:#010x}", segment.end());
                recorder.violation_of(fin.packet, Rule::TcpFin, expected, found, Some(packet));
                flow.fin = None;
            }
        }
        if flags.contains(TcpFlags::FIN) {
            flow.fin = Some(mark);
        }
        let cwr = flags.contains(TcpFlags::CWR) && !syn && segment.len > 0;
        let next = |before: &EarlierSegment| {
            before.end == segment.sequence
                && before.acknowledgment == segment.acknowledgment
                && within(before.time, time, BACK_TO_BACK)
        };
        if let Some(before) = flow.cwr.filter(next) {
            if flow.ecn == Ecn::Classic {
                recorder.checked(Rule::TcpCwr);
                if cwr {
                    let expected = "CWR on the first segment only";
                    recorder.violation(Rule::TcpCwr, expected, "it again", Some(before.packet));
                }
            } else if cwr && flow.ecn == Ecn::Unknown {
                recorder.undecided(Rule::TcpCwr);
            }
        }
        flow.cwr = cwr.then_some(mark);
        flow.ecn
    }

    /// Checks a datagram with the checksum `field`. `zero` means that the computed checksum is 0.
    pub(crate) fn udp(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        key: DirectionKey,
        field: u16,
        zero: bool,
    ) {
        if field != 0 && !zero {
            let packet = recorder.packet;
            self.flow(key).summed = Some(packet);
        } else if zero && field != 0 {
            recorder.checked(Rule::UdpZero);
        } else if zero {
            match self.flow(key).summed {
                Some(other) => {
                    let expected = "0xffff, as the flow has checksums and this one comes to 0";
                    recorder.checked(Rule::UdpZero);
                    recorder.violation(Rule::UdpZero, expected, "0x0000", Some(other));
                }
                None => recorder.undecided(Rule::UdpZero),
            }
        }
    }
}

/// Whether two times are at most `most` apart, or unknown.
fn within(before: u64, after: u64, most: u64) -> bool {
    before == 0 || after == 0 || after.abs_diff(before) <= most
}

/// The ECN mode negotiated by the flags of SYN and SYN/ACK (RFC 3168 section 6.1.1, RFC 9768
/// section 3.1.1).
fn negotiated(syn: TcpFlags, answer: TcpFlags) -> Ecn {
    let bits = |flags: TcpFlags| {
        let bit = |flag, value| if flags.contains(flag) { value } else { 0 };
        bit(TcpFlags::AE, 4) | bit(TcpFlags::CWR, 2) | bit(TcpFlags::ECE, 1)
    };
    match (bits(syn), bits(answer)) {
        // 0b101 is from a host with ECN nonces (RFC 3540); the client falls back to classic ECN.
        (0b011 | 0b111, 0b001) | (0b111, 0b101) => Ecn::Classic,
        (0b111, 0b010 | 0b011 | 0b100 | 0b110) => Ecn::Accurate,
        _ => Ecn::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_choose_what_cwr_means() {
        let flags = |bits: u16| TcpFlags::SYN.with(TcpFlags::from_bits(bits));
        let (classic, accurate) = (flags(0x0c0), flags(0x1c0));
        let ece = flags(0x040).with(TcpFlags::ACK);
        assert_eq!(negotiated(classic, ece), Ecn::Classic);
        assert_eq!(negotiated(accurate, ece), Ecn::Classic);
        for bits in [0x080, 0x0c0, 0x100, 0x180] {
            assert_eq!(negotiated(accurate, flags(bits)), Ecn::Accurate, "{bits:#x}");
        }
        assert_eq!(negotiated(flags(0), ece), Ecn::Unknown);
        assert_eq!(negotiated(classic, flags(0)), Ecn::Unknown);
    }
}
