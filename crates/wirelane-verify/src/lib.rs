//! Audits captured packets: are they what the RFCs ask of a stack, a segmenter or a fragmenting
//! host?
//!
//! An [`Auditor`] is given the packets of a capture one after the other, and says what is wrong
//! with which of them. It knows no ports and no files, and its memory is bounded.
//!
//! ```text
//!  packet ─▶ link: tags ─▶ network: IPv4, IPv6, extensions ─┬─▶ transport: TCP, UDP ──▶ flow, burst
//!                             ▲                             ├─▶ fragment: sets ─▶ transport
//!                             └──────── VXLAN, Geneve ◀─────┴─▶ GRE, IP in IP
//! ```
//!
//! # What can be known
//!
//! A capture does not say what its sender thought. So every rule is one of three kinds, and what
//! cannot be decided is counted as such and never reported as a violation.
//!
//! * **Of one packet**: lengths, checksums, options, fragments' sizes. They always hold.
//! * **Of any sender**: different packets with one identification where fragments may be made
//!   (`ipv4-id`, at most a millisecond apart, so that the number cannot have wrapped); data behind
//!   FIN (`tcp-fin`); CWR again in the next segment when no answer came between (`tcp-cwr`, only
//!   where the handshake in the capture chose RFC 3168: for Accurate ECN the flag is part of a
//!   counter); a datagram without checksum in a flow that has them, whose checksum would be 0
//!   (`udp-zero`). These are what a segmenter gets wrong that copies headers without thinking, and
//!   no stack does.
//! * **Of a super-frame**: PSH on the last segment only, equal sizes, options, the urgent pointer.
//!   Of segments alone none of that can be known: a stack sets PSH where a write ended, so that
//!   back to back segments with it are normal, and ends a segment early when it has no more. They
//!   are checked where the super-frame itself is in the capture, earlier and on another interface:
//!   a capture of both sides of a segmenter, or two merged into one. A segment belongs to it if its
//!   sequence numbers are within, acknowledgment and window are the same, and the sender has sent
//!   nothing else in that range since. What was lost between the two interfaces is noted
//!   (`segment-missing`).
//!
//! Retransmissions, reordering and losses are not violations.
//!
//! # Left to the hardware
//!
//! On the sending host packets are captured before the device has finished them. A TCP or UDP
//! checksum that is the sum of the pseudo-header (with its length or without), an IPv4 header
//! checksum of 0, a GRE checksum of 0 around such a packet, a total length of 0 in a long frame:
//! they are counted as left to the hardware. So are wrong checksums in frames longer than a link
//! takes, which are noted as super-frames: hardware that puts segments together leaves any. A
//! capture from the wire can have neither: [`Options::strict`] makes them violations.
//!
//! # Cut
//!
//! What a snap length took away cannot be checked. It is counted for each rule
//! ([`RuleCounts::cut`]).

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
use flow::Flows;
use record::{Place, Recorder};
use set::Fragments;
use walk::Walk;
use wirelane_wire::Link;

/// What to check in a capture, and how much to remember.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most bytes of a packet, from its IP header on. Without, packets beyond 1500 bytes are noted
    /// as super-frames; with, those beyond are violations.
    pub mtu: Option<u32>,
    /// The packets are from the wire: notes become violations.
    pub strict: bool,
    /// Flows to remember.
    pub flows: usize,
    /// Sets of fragments to remember.
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
    /// Which interface it is from.
    pub interface: u32,
    /// LINKTYPE_ value of that interface.
    pub link_type: u16,
    /// Nanoseconds since the Unix epoch; 0 if unknown.
    pub timestamp: u64,
    /// Bytes it had, before any snap length.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// Audits packets in order of their capture.
pub struct Auditor {
    options: Options,
    summary: Summary,
    flows: Flows,
    bursts: Bursts,
    fragments: Fragments,
}

impl Auditor {
    /// One that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            summary: Summary::default(),
            flows: Flows::new(options.flows),
            bursts: Bursts::new(options.flows),
            fragments: Fragments::new(options.fragments),
        }
    }

    /// Looks at the next packet and calls `found` with what is to be said of it, or of earlier ones
    /// now that it is there.
    pub fn packet(&mut self, packet: &Packet<'_>, found: &mut dyn FnMut(&Finding)) {
        self.summary.packets += 1;
        // A file may say less than it has.
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
        let mut walk = Walk {
            recorder: Recorder {
                packet: self.summary.packets,
                summary: &mut self.summary,
                found,
                strict: self.options.strict,
                place: Place::default(),
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

    /// The capture is over: says what is missing.
    pub fn finish(&mut self, found: &mut dyn FnMut(&Finding)) {
        let mut recorder = Recorder {
            packet: self.summary.packets,
            summary: &mut self.summary,
            found,
            strict: self.options.strict,
            place: Place::default(),
        };
        self.fragments.finish(&mut recorder);
        self.bursts.finish(&mut recorder);
        self.count_evicted();
    }

    /// What was seen so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn count_evicted(&mut self) {
        self.summary.evicted_flows = self.flows.evicted() + self.bursts.evicted();
        self.summary.evicted_fragments = self.fragments.evicted();
    }
}
