//! Audits captured packets against the RFC rules for stacks, segmenters and fragmenting hosts.
//!
//! An [`Auditor`] takes the packets of a capture in order and reports violations. It does not read
//! ports or files, and its memory is bounded.
//!
//! ```text
//!  packet ─▶ link: tags ─▶ network: IPv4, IPv6, extensions ─┬─▶ transport: TCP, UDP ─▶ flow, burst
//!                             ▲                             ├─▶ fragment: sets ─▶ transport
//!                             └──────── VXLAN, Geneve ◀─────┴─▶ GRE, IP in IP
//! ```
//!
//! # Kinds of rules
//!
//! A capture does not show the intention of the sender. So there are three kinds of rules.
//! Undecidable cases are counted separately, and not reported as violations.
//!
//! * **Rules for one packet**: lengths, checksums, options, fragment sizes. They always apply.
//! * **Rules for any sender**: different packets that may be fragmented have different
//!   identifications (`ipv4-id`, checked within a millisecond, so that the number cannot have
//!   wrapped); no data after FIN (`tcp-fin`); no repeated CWR in the next segment without an answer
//!   in between (`tcp-cwr`, only if the captured handshake negotiated RFC 3168, because in Accurate
//!   ECN the flag is part of a counter); no missing checksum for a datagram whose checksum is 0, in
//!   a flow with checksums (`udp-zero`). A segmenter that only copies headers breaks these rules; a
//!   stack does not.
//! * **Rules for a super-frame**: PSH only on the last segment, equal sizes, equal options, the
//!   urgent pointer. Segments alone do not prove a violation: a stack sets PSH at the end of each
//!   write, so consecutive segments with PSH are normal, and it sends a short segment when it has
//!   no more data. The auditor checks these rules only if the capture contains the super-frame
//!   itself, earlier and on another interface: in a capture of both sides of a segmenter, or two
//!   merged captures. A segment belongs to a super-frame if its sequence numbers are within, its
//!   acknowledgment and window are equal, and the sender has not sent this range again since. Loss
//!   between the two interfaces is noted (`segment-missing`).
//!
//! Retransmissions, reordering and loss are not violations.
//!
//! # Left to the hardware
//!
//! On the sending host, packets are captured before the device completes them. The auditor counts
//! these fields as left to the hardware: a TCP or UDP checksum equal to the sum of the
//! pseudo-header (with or without its length), an IPv4 header checksum of 0, a GRE checksum of 0
//! around such a packet, and a total length of 0 in a long frame. The same applies to wrong
//! checksums in super-frames, which are longer than the MTU: hardware that merges segments may
//! leave any checksum. A capture from the wire has none of these, so [`Options::strict`] makes them
//! violations.
//!
//! # Snap length
//!
//! Bytes that a snap length has cut cannot be checked. [`RuleCounts::cut`] counts these cases for
//! each rule.

mod burst;
mod checksum;
mod flow;
mod fragment;
mod network;
mod packet;
mod record;
mod rule;
mod set;
mod table;
mod transport;
mod walk;

pub use record::{RuleCounts, Summary};
pub use rule::{Finding, Rule, Severity};

use burst::Bursts;
use flow::FlowStates;
use record::{FindingRecorder, TunnelStack};
use set::Fragments;
use walk::PacketWalk;
use wirelane_wire::Link;

/// Options and memory limits of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The MTU in bytes, from the IP header. Longer packets are violations. Without an MTU, packets
    /// of more than 1500 bytes are noted as super-frames.
    pub mtu: Option<u32>,
    /// Whether the packets are from the wire: notes become violations.
    pub strict: bool,
    /// The largest number of flows to store.
    pub flows: usize,
    /// The largest number of fragment sets to store.
    pub fragments: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { mtu: None, strict: false, flows: 65_536, fragments: 4096 }
    }
}

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The index of its interface.
    pub interface: u32,
    /// The LINKTYPE_ value of its interface.
    pub link_type: u16,
    /// Nanoseconds since the Unix epoch; 0 if unknown.
    pub timestamp: u64,
    /// Its length before any snap length.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// Audits packets in capture order.
pub struct Auditor {
    options: Options,
    summary: Summary,
    flows: FlowStates,
    bursts: Bursts,
    fragments: Fragments,
}

impl Auditor {
    /// An auditor for a new capture.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            summary: Summary::default(),
            flows: FlowStates::new(options.flows),
            bursts: Bursts::new(options.flows),
            fragments: Fragments::new(options.fragments),
        }
    }

    /// Audits the next packet. Calls `found` for each finding about it, or about earlier packets.
    pub fn packet(&mut self, packet: &Packet<'_>, found: &mut dyn FnMut(&Finding)) {
        self.summary.packets += 1;
        // The stated length may be too small in a malformed file.
        let wire = (packet.original_len as usize).max(packet.data.len());
        if wire > packet.data.len() {
            self.summary.cut += 1;
        }
        let (ethertype, at, tags) = match Link::parse(packet.link_type, packet.data) {
            Link::Network { ethertype, at, outer_vlan, inner_vlan } => {
                (ethertype, at, network::tags(outer_vlan, inner_vlan))
            }
            Link::Unknown => {
                self.summary.unknown_link += 1;
                return;
            }
            Link::Encrypted => {
                self.summary.encrypted += 1;
                return;
            }
            Link::Control | Link::Short => {
                self.summary.not_ip += 1;
                return;
            }
        };
        let mut walk = PacketWalk {
            recorder: FindingRecorder {
                packet: self.summary.packets,
                summary: &mut self.summary,
                found,
                strict: self.options.strict,
                place: TunnelStack::default(),
            },
            flows: &mut self.flows,
            bursts: &mut self.bursts,
            fragments: &mut self.fragments,
            mtu: self.options.mtu,
            interface: packet.interface,
            time: packet.timestamp,
        };
        let bytes = packet.data.get(at..).unwrap_or_default();
        walk.network(ethertype, bytes, wire - at.min(wire), tags);
        self.count_evicted();
    }

    /// Ends the capture, and reports missing fragments and segments.
    pub fn finish(&mut self, found: &mut dyn FnMut(&Finding)) {
        let mut recorder = FindingRecorder {
            packet: self.summary.packets,
            summary: &mut self.summary,
            found,
            strict: self.options.strict,
            place: TunnelStack::default(),
        };
        self.fragments.finish(&mut recorder);
        self.bursts.finish(&mut recorder);
        self.count_evicted();
    }

    /// The results so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn count_evicted(&mut self) {
        self.summary.evicted_flows = self.flows.evicted() + self.bursts.evicted();
        self.summary.evicted_fragments = self.fragments.evicted();
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
