//! One packet on its way through the rules: what all layers need.

use std::hash::{DefaultHasher, Hash, Hasher};

use wirelane_wire::checksum;

use crate::burst::Bursts;
use crate::flow::Flows;
use crate::packet::{FlowKey, Ip};
use crate::record::Recorder;
use crate::rule::Rule;
use crate::set::Fragments;

/// What a packet is longer than when it did not come off an Ethernet link of the usual MTU.
pub(crate) const USUAL_MTU: usize = 1500;

/// One packet on its way through the rules.
pub(crate) struct Walk<'a> {
    pub(crate) recorder: Recorder<'a>,
    pub(crate) flows: &'a mut Flows,
    pub(crate) bursts: &'a mut Bursts,
    pub(crate) fragments: &'a mut Fragments,
    pub(crate) mtu: Option<u32>,
    pub(crate) interface: u32,
    /// When it was captured, in nanoseconds; 0 if unknown.
    pub(crate) time: u64,
}

impl Walk<'_> {
    pub(crate) fn flow_key(&self, ip: &Ip<'_>, ports: (u16, u16)) -> FlowKey {
        FlowKey {
            interface: self.interface,
            context: ip.context,
            source: ip.source,
            destination: ip.destination,
            protocol: ip.protocol.0,
            ports,
        }
    }

    /// Whether a packet is longer than a link takes.
    pub(crate) fn is_super_frame(&self, length: usize) -> bool {
        length > self.mtu.map_or(USUAL_MTU, |mtu| mtu as usize)
    }

    /// A packet whose fixed header is not all there.
    pub(crate) fn short(&mut self, rule: Rule, wire: usize, needed: usize) {
        if wire >= needed {
            self.recorder.cut(rule);
        } else {
            let expected = format_args!("a header of {needed} bytes");
            self.recorder.check(rule, true, expected, format_args!("{wire} bytes"));
        }
    }

    /// What the identification of an IPv4 packet says of the one before.
    pub(crate) fn identification(&mut self, ip: &Ip<'_>, ports: (u16, u16)) {
        if let Some(id) = ip.id {
            let key = self.flow_key(ip, ports);
            // Sums alone say little: those of packets with a complete checksum are all the same.
            let mut hasher = DefaultHasher::new();
            ip.payload.get(..64).unwrap_or(ip.payload).hash(&mut hasher);
            checksum::sum(ip.payload).partial().hash(&mut hasher);
            let print = (ip.wire, hasher.finish());
            self.flows.identification(&mut self.recorder, key, id, print, self.time);
        }
    }
}
