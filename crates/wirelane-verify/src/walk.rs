//! The context of one packet for the checks of all layers.

use std::hash::{DefaultHasher, Hash, Hasher};

use wirelane_wire::checksum;

use crate::burst::Bursts;
use crate::flow::FlowStates;
use crate::packet::{DirectionKey, Ip};
use crate::record::FindingRecorder;
use crate::rule::Rule;
use crate::set::Fragments;

/// The usual MTU. Longer packets did not come from an Ethernet link with this MTU.
pub(crate) const USUAL_MTU: usize = 1500;

/// The context of one packet during its checks.
pub(crate) struct PacketWalk<'a> {
    pub(crate) recorder: FindingRecorder<'a>,
    pub(crate) flows: &'a mut FlowStates,
    pub(crate) bursts: &'a mut Bursts,
    pub(crate) fragments: &'a mut Fragments,
    pub(crate) mtu: Option<u32>,
    pub(crate) interface: u32,
    /// The capture time in nanoseconds; 0 if unknown.
    pub(crate) time: u64,
}

impl PacketWalk<'_> {
    pub(crate) fn flow_key(&self, ip: &Ip<'_>, ports: (u16, u16)) -> DirectionKey {
        DirectionKey {
            interface: self.interface,
            context: ip.context,
            source: ip.source,
            destination: ip.destination,
            protocol: ip.protocol.0,
            ports,
        }
    }

    /// Whether a packet is longer than the MTU.
    pub(crate) fn is_super_frame(&self, length: usize) -> bool {
        length > self.mtu.map_or(USUAL_MTU, |mtu| mtu as usize)
    }

    /// Records a packet with an incomplete fixed header.
    pub(crate) fn short(&mut self, rule: Rule, wire: usize, needed: usize) {
        if wire >= needed {
            self.recorder.cut(rule);
        } else {
            let expected = format_args!("a header of {needed} bytes");
            self.recorder.check(rule, true, expected, format_args!("{wire} bytes"));
        }
    }

    /// Checks the identification of an IPv4 packet against the previous packet.
    pub(crate) fn identification(&mut self, ip: &Ip<'_>, ports: (u16, u16)) {
        if let Some(id) = ip.id {
            let key = self.flow_key(ip, ports);
            // The sum is not enough: it is the same for all packets with a valid checksum.
            let mut hasher = DefaultHasher::new();
            ip.payload.get(..64).unwrap_or(ip.payload).hash(&mut hasher);
            checksum::sum(ip.payload).partial().hash(&mut hasher);
            let print = (ip.wire, hasher.finish());
            self.flows.identification(&mut self.recorder, key, id, print, self.time);
        }
    }
}
