//! The fields of a flow, by name and in order. All text formats use them, and docs/flows.md
//! documents them.

use std::net::IpAddr;

use wirelane_wire::Protocol;

use crate::flow::{EndReason, Flow, Half};

/// Receives the fields of a flow in order.
pub trait Fields {
    /// A numeric field.
    fn number(&mut self, name: &'static str, value: u64);
    /// A text field.
    fn word(&mut self, name: &'static str, value: &str);
    /// An address field.
    fn address(&mut self, name: &'static str, value: IpAddr);
    /// A time field, in ns since 1970.
    fn time(&mut self, name: &'static str, value: u64);
    /// The Community ID.
    fn community(&mut self, name: &'static str, digest: &[u8; 20]);
    /// A field without a value in this flow.
    fn absent(&mut self, name: &'static str);
}

impl EndReason {
    /// The name in text formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Ended => "ended",
            Self::Forced => "forced",
            Self::Evicted => "evicted",
        }
    }
}

impl Flow {
    /// Passes all fields to `to`.
    pub fn fields(&self, to: &mut impl Fields) {
        let Self { key, forward, reverse, .. } = self;
        to.time("flow_start", self.start());
        to.time("flow_end", self.last());
        to.word("end_reason", self.end.as_str());
        to.word("interface", &self.interface);
        to.community("community_id", &self.community);
        to.number("protocol", key.protocol.0.into());
        to.address("source", key.source);
        to.number("source_port", key.source_port.into());
        to.address("destination", key.destination);
        to.number("destination_port", key.destination_port.into());
        maybe(to, "vlan", key.vlan.map(u64::from));
        maybe(to, "inner_vlan", key.inner_vlan.map(u64::from));
        match key.tunnel {
            Some(tunnel) => {
                to.word("tunnel", tunnel.kind.as_str());
                to.address("tunnel_source", tunnel.source);
                to.address("tunnel_destination", tunnel.destination);
                match tunnel.id {
                    Some(id) => to.number("tunnel_id", id.into()),
                    None => to.absent("tunnel_id"),
                }
            }
            None => {
                ["tunnel", "tunnel_source", "tunnel_destination", "tunnel_id"]
                    .into_iter()
                    .for_each(|name| to.absent(name));
            }
        }
        maybe(to, "handshake_rtt", self.handshake_rtt);
        let is_tcp = key.protocol == Protocol::TCP;
        half(forward, &FORWARD, is_tcp, to);
        half(reverse, &REVERSE, is_tcp, to);
    }
}

fn maybe(to: &mut impl Fields, name: &'static str, value: Option<u64>) {
    match value {
        Some(value) => to.number(name, value),
        None => to.absent(name),
    }
}

/// The names of the fields of a direction.
struct DirectionNames {
    start: &'static str,
    end: &'static str,
    packets: &'static str,
    octets: &'static str,
    payload: &'static str,
    tcp_flags: &'static str,
    retransmissions: &'static str,
    out_of_order: &'static str,
    zero_windows: &'static str,
    congestion_experienced: &'static str,
    dscp: &'static str,
    min_ttl: &'static str,
    max_ttl: &'static str,
    queue: &'static str,
}

const FORWARD: DirectionNames = DirectionNames {
    start: "forward_start",
    end: "forward_end",
    packets: "packets",
    octets: "octets",
    payload: "payload",
    tcp_flags: "tcp_flags",
    retransmissions: "retransmissions",
    out_of_order: "out_of_order",
    zero_windows: "zero_windows",
    congestion_experienced: "congestion_experienced",
    dscp: "dscp",
    min_ttl: "min_ttl",
    max_ttl: "max_ttl",
    queue: "queue",
};

const REVERSE: DirectionNames = DirectionNames {
    start: "reverse_start",
    end: "reverse_end",
    packets: "reverse_packets",
    octets: "reverse_octets",
    payload: "reverse_payload",
    tcp_flags: "reverse_tcp_flags",
    retransmissions: "reverse_retransmissions",
    out_of_order: "reverse_out_of_order",
    zero_windows: "reverse_zero_windows",
    congestion_experienced: "reverse_congestion_experienced",
    dscp: "reverse_dscp",
    min_ttl: "reverse_min_ttl",
    max_ttl: "reverse_max_ttl",
    queue: "reverse_queue",
};

fn half(half: &Half, names: &DirectionNames, is_tcp: bool, to: &mut impl Fields) {
    to.number(names.packets, half.packets);
    to.number(names.octets, half.octets);
    to.number(names.payload, half.payload);
    let is_there = half.packets > 0;
    for (name, time) in [(names.start, half.start), (names.end, half.end)] {
        if is_there { to.time(name, time) } else { to.absent(name) }
    }
    for (name, value) in [
        (names.tcp_flags, u32::from(half.tcp_flags.bits())),
        (names.retransmissions, half.retransmissions),
        (names.out_of_order, half.out_of_order),
        (names.zero_windows, half.zero_windows),
    ] {
        maybe(to, name, (is_there && is_tcp).then_some(value.into()));
    }
    for (name, value) in [
        (names.congestion_experienced, half.congestion_experienced),
        (names.dscp, half.dscp.into()),
        (names.min_ttl, half.min_ttl.into()),
        (names.max_ttl, half.max_ttl.into()),
        (names.queue, half.queue.into()),
    ] {
        maybe(to, name, is_there.then_some(value.into()));
    }
}
