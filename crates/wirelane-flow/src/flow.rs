//! Exported flows.

use wirelane_wire::{Protocol, TcpFlags};

use crate::icmp;
use crate::key::Key;

/// A two-way flow, or a part of a long flow that the active timeout ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The endpoints, protocol and tags.
    pub key: Key,
    /// The direction from source to destination.
    pub forward: Half,
    /// The direction from destination to source; without packets for a one-way flow.
    pub reverse: Half,
    /// The time from SYN to the ACK that completes the handshake, in ns, if all three packets were
    /// received.
    pub handshake_rtt: Option<u64>,
    /// The reason of the export (`flowEndReason` 136).
    pub end: EndReason,
    /// The name of the interface that received the first packet (`interfaceName` 82).
    pub interface: std::sync::Arc<str>,
    /// SHA-1 of Community ID v1 with seed 0, without its `1:` and base 64.
    pub community: [u8; 20],
}

impl Default for Flow {
    /// An empty flow.
    fn default() -> Self {
        let nowhere = std::net::Ipv4Addr::UNSPECIFIED.into();
        Self {
            key: Key {
                source: nowhere,
                destination: nowhere,
                source_port: 0,
                destination_port: 0,
                protocol: Protocol(0),
                vlan: None,
                inner_vlan: None,
                tunnel: None,
            },
            forward: Half::default(),
            reverse: Half::default(),
            handshake_rtt: None,
            end: EndReason::Forced,
            interface: "".into(),
            community: [0; 20],
        }
    }
}

impl Flow {
    /// The time of the first packet, in ns since 1970.
    pub fn start(&self) -> u64 {
        match (self.forward.packets, self.reverse.packets) {
            (_, 0) => self.forward.start,
            (0, _) => self.reverse.start,
            _ => self.forward.start.min(self.reverse.start),
        }
    }

    /// The time of the last packet, in ns since 1970.
    pub fn last(&self) -> u64 {
        self.forward.end.max(self.reverse.end)
    }

    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.forward.packets + self.reverse.packets
    }

    /// Octets of both directions.
    pub fn octets(&self) -> u64 {
        self.forward.octets + self.reverse.octets
    }

    /// Adds the part of the same conversation from another table. The part with the earliest packet
    /// decides which end is the source.
    pub(crate) fn join(&mut self, other: Self) {
        let is_same_way = (self.key.source, self.key.source_port)
            == (other.key.source, other.key.source_port)
            && self.key.destination == other.key.destination;
        let other_began = (other.start(), other.handshake_rtt.is_none())
            < (self.start(), self.handshake_rtt.is_none());
        let handshake_rtt = match other_began {
            true => other.handshake_with(self, is_same_way),
            false => self.handshake_with(&other, is_same_way),
        };
        let is_other_later = other.last() > self.last();
        let (first, second) = match is_other_later {
            true => (self.end, other.end),
            false => (other.end, self.end),
        };
        self.handshake_rtt = handshake_rtt;
        let (forward, reverse) = match is_same_way {
            true => (other.forward, other.reverse),
            false => (other.reverse, other.forward),
        };
        self.forward.add(forward);
        self.reverse.add(reverse);
        if other_began {
            if !is_same_way {
                std::mem::swap(&mut self.forward, &mut self.reverse);
            }
            (self.key, self.interface) = (other.key, other.interface);
        }
        let is_two_way = self.forward.packets > 0 && self.reverse.packets > 0;
        self.end = match (first, second) {
            (EndReason::Active, _) | (_, EndReason::Active) => EndReason::Active,
            _ if self.is_closed() => EndReason::Ended,
            // Only one direction of the connection has ended.
            (first, EndReason::Ended) if is_two_way => first,
            _ => second,
        };
    }

    /// The handshake of this part, which began the flow, if `other` has packets of the same
    /// direction: the ACK is the first packet of either part after SYN. Unknown if both have SYN.
    fn handshake_with(&self, other: &Self, is_same_way: bool) -> Option<u64> {
        let (half, rtt) = match is_same_way {
            true => (&other.forward, other.handshake_rtt),
            false => (&other.reverse, None),
        };
        if half.packets == 0 {
            return self.handshake_rtt;
        }
        let has_syn = |half: &Half| half.tcp_flags.contains(TcpFlags::SYN);
        let (syn, known, next) = match (has_syn(&self.forward), has_syn(half)) {
            (true, false) => (self.forward.start, self.handshake_rtt, half.start),
            (false, true) => (half.start, rtt, self.forward.start),
            _ => return None,
        };
        let next = next.checked_sub(syn)?;
        Some(known.map_or(next, |known| known.min(next)))
    }

    /// Whether the TCP connection has ended: RST, or FIN in both directions.
    pub(crate) fn is_closed(&self) -> bool {
        let [there, back] = [&self.forward, &self.reverse].map(|half| half.tcp_flags);
        self.key.protocol == Protocol::TCP
            && (there.with(back).contains(TcpFlags::RST)
                || there.contains(TcpFlags::FIN) && back.contains(TcpFlags::FIN))
    }

    /// Exchanges source and destination.
    pub(crate) fn turn(&mut self) {
        std::mem::swap(&mut self.forward, &mut self.reverse);
        let key = &mut self.key;
        std::mem::swap(&mut key.source, &mut key.destination);
        // ICMP: the source port is the type of the messages, and the destination port is 0.
        let kind = u8::try_from(key.source_port).ok();
        let icmp = kind.filter(|_| matches!(key.protocol, Protocol::ICMP | Protocol::ICMPV6));
        match icmp.map(|kind| icmp::ports(key.protocol, kind, 0)) {
            Some(([_, other], false)) => key.source_port = other,
            _ => std::mem::swap(&mut key.source_port, &mut key.destination_port),
        }
        if let Some(tunnel) = &mut key.tunnel {
            std::mem::swap(&mut tunnel.source, &mut tunnel.destination);
        }
        self.handshake_rtt = None;
    }

    /// Completes a flow before its export: removes the handshake time if no SYN with ACK was
    /// received.
    pub(crate) fn settle(&mut self) {
        if !self.reverse.tcp_flags.contains(TcpFlags::SYN.with(TcpFlags::ACK)) {
            self.handshake_rtt = None;
        }
    }
}

/// One direction of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Half {
    /// `packetDeltaCount` 2.
    pub packets: u64,
    /// Bytes including the IP header, from its length field (`octetDeltaCount` 1).
    pub octets: u64,
    /// Bytes after the header of TCP, UDP or another protocol (`transportOctetDeltaCount` 401).
    pub payload: u64,
    /// Time of the first packet in ns since 1970 (`flowStartNanoseconds` 156); 0 without packets.
    pub start: u64,
    /// Time of the last packet in ns since 1970 (`flowEndNanoseconds` 157); 0 without packets.
    pub end: u64,
    /// The union of all TCP flags (`tcpControlBits` 6).
    pub tcp_flags: TcpFlags,
    /// TCP segments whose bytes were sent before.
    pub retransmissions: u32,
    /// TCP segments that arrived after later ones and are not retransmissions.
    pub out_of_order: u32,
    /// TCP segments with a window of 0, without RST.
    pub zero_windows: u32,
    /// Packets marked Congestion Experienced (RFC 3168).
    pub congestion_experienced: u32,
    /// The DSCP of the first packet (`ipDiffServCodePoint` 195).
    pub dscp: u8,
    /// The smallest TTL or hop limit (`minimumTTL` 52); 0 without packets.
    pub min_ttl: u8,
    /// The largest TTL or hop limit (`maximumTTL` 53).
    pub max_ttl: u8,
    /// The queue of the first packet.
    pub queue: u16,
}

impl Half {
    fn add(&mut self, other: Self) {
        if other.packets == 0 {
            return;
        }
        if self.packets == 0 {
            *self = other;
            return;
        }
        if other.start < self.start {
            (self.queue, self.dscp) = (other.queue, other.dscp);
        }
        self.packets += other.packets;
        self.octets += other.octets;
        self.payload += other.payload;
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.tcp_flags = self.tcp_flags.with(other.tcp_flags);
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
        self.zero_windows = self.zero_windows.saturating_add(other.zero_windows);
        self.congestion_experienced =
            self.congestion_experienced.saturating_add(other.congestion_experienced);
        self.min_ttl = self.min_ttl.min(other.min_ttl);
        self.max_ttl = self.max_ttl.max(other.max_ttl);
    }
}

/// The reason of an export: values of `flowEndReason` (RFC 5102 section 5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet arrived for the idle timeout.
    Idle = 1,
    /// The flow lasted for the active timeout, and continues.
    Active = 2,
    /// The TCP connection ended: FIN from both sides, or RST.
    Ended = 3,
    /// The metering ended.
    Forced = 4,
    /// Another flow needed its memory.
    Evicted = 5,
}
