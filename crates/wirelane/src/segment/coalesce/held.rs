//! A frame being merged.

use wirelane_wire::checksum::Sum;
use wirelane_wire::flow::Addresses;
use wirelane_wire::{Ports, Protocol, TcpFlags, ipv4, ipv6, tcp, udp};

use super::limits::{Limits, MAX_DATAGRAMS};
use super::packet::{MergeFlow, MergeablePacket, networks, own_place, pseudo};
use super::stats::Flush;
use super::store::Store;
use crate::frame::{Gso, Offload};
use crate::segment::stats::SegmentClass;

/// The first packet of a flow, and the payloads of the following ones.
#[derive(Debug)]
pub(super) struct Held<B> {
    /// The first packet unchanged, then payloads.
    pub(super) buffer: B,
    addresses: Addresses,
    ports: Ports,
    protocol: Protocol,
    network: usize,
    transport: usize,
    begin: usize,
    v6: bool,
    /// Payload bytes per packet, except the last one.
    mss: usize,
    segments: u32,
    /// The sequence number expected next.
    next: u32,
    flags: TcpFlags,
    /// Flags that only the last packet has.
    last_flags: TcpFlags,
    /// CWR is on the first packet only, or on none or all.
    first_only_cwr: bool,
    id: u16,
    fixed_id: bool,
    checksum: bool,
    /// Number of packets with a partial checksum.
    partial: u32,
    since: u64,
}

impl<B> Held<B> {
    pub(super) fn empty(buffer: B) -> Self {
        let nobody = std::net::Ipv4Addr::UNSPECIFIED;
        Self {
            buffer,
            addresses: Addresses::V4 { source: nobody, destination: nobody },
            ports: Ports { source: 0, destination: 0 },
            protocol: Protocol::TCP,
            network: 0,
            transport: 0,
            begin: 0,
            v6: false,
            mss: 0,
            segments: 0,
            next: 0,
            flags: TcpFlags::default(),
            last_flags: TcpFlags::default(),
            first_only_cwr: false,
            id: 0,
            fixed_id: false,
            checksum: false,
            partial: 0,
            since: 0,
        }
    }

    /// Starts with `packet`. The caller puts its bytes into [`Held::buffer`].
    pub(super) fn start(&mut self, packet: &MergeablePacket<'_>, now: u64) {
        self.mss = packet.payload().len();
        let (sequence, flags) =
            packet.tcp.map_or((0, TcpFlags::default()), |fields| (fields.sequence, fields.flags));
        self.addresses = packet.flow.addresses;
        self.ports = packet.flow.ports;
        self.protocol = packet.flow.protocol;
        (self.network, self.transport) = (packet.network, packet.transport);
        self.begin = packet.begin;
        self.v6 = packet.v6;
        self.segments = 1;
        self.next = sequence.wrapping_add(self.mss as u32);
        (self.flags, self.last_flags) = (flags, TcpFlags::default());
        (self.first_only_cwr, self.fixed_id) = (false, false);
        self.id = packet.id;
        self.checksum = packet.checksum;
        self.partial = packet.partial.into();
        self.since = now;
    }

    /// The arrival time of its first packet.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Number of packets.
    pub(super) fn segments(&self) -> u32 {
        self.segments
    }

    /// Bytes of all packets, each with its headers.
    pub(super) fn wire_bytes<S: Store<Buffer = B>>(&self) -> u32 {
        // As many headers as packets, of which one is in the buffer.
        let headers = self.segments.saturating_sub(1) * self.begin as u32;
        S::content(&self.buffer).len() as u32 + headers
    }

    /// Number of packets with a partial checksum.
    pub(super) fn partial(&self) -> u32 {
        self.partial
    }

    /// The class of the merged frame.
    pub(super) fn class(&self) -> SegmentClass {
        match (self.protocol == Protocol::TCP, self.v6) {
            (true, false) => SegmentClass::Tcp4,
            (true, true) => SegmentClass::Tcp6,
            (false, false) => SegmentClass::Udp4,
            (false, true) => SegmentClass::Udp6,
        }
    }

    /// Payload bytes per packet, except the last one.
    pub(super) fn mss(&self) -> usize {
        self.mss
    }

    pub(super) fn is_flow<S: Store<Buffer = B>>(&self, flow: &MergeFlow<'_>) -> bool {
        self.ports == flow.ports
            && self.protocol == flow.protocol
            && self.addresses == flow.addresses
            && self.is_in_networks::<S>(flow.link)
    }

    fn is_in_networks<S: Store<Buffer = B>>(&self, link: &[u8]) -> bool {
        let own = S::content(&self.buffer).get(..self.network).unwrap_or_default();
        own == link || networks(own).eq(networks(link))
    }

    pub(super) fn has_addresses(&self, addresses: &Addresses) -> bool {
        self.addresses == *addresses
    }

    /// Adds a packet of the flow; returns whether the frame is complete with it.
    ///
    /// Packets with partial and with verified checksums merge, and the frame has a partial
    /// checksum. The kernel does the same: it compares `ip_summed` only where packets stay
    /// separate, in a list (`tcp_gro_receive()`, `udp_gro_receive_segment()`,
    /// `tcp_gro_complete()`).
    ///
    /// # Errors
    /// The reason why it cannot be added.
    pub(super) fn merge<S: Store<Buffer = B>>(
        &mut self,
        packet: &MergeablePacket<'_>,
        limits: &Limits,
        store: &mut S,
    ) -> Result<Option<Flush>, Flush> {
        let payload = packet.payload();
        let bytes = S::content(&self.buffer);
        if packet.begin != self.begin || packet.checksum != self.checksum {
            return Err(Flush::Differs);
        }
        if packet.tcp.is_some_and(|fields| fields.sequence != self.next) {
            return Err(Flush::Order);
        }
        if payload.len() > self.mss || !packet.like(bytes) {
            return Err(Flush::Differs);
        }
        let most = if packet.tcp.is_some() { u32::MAX } else { MAX_DATAGRAMS };
        let is_full = self.segments >= limits.segments.min(most);
        if is_full || bytes.len() - self.network + payload.len() > limits.size {
            return Err(Flush::Full);
        }
        let fixed_id = self.identification(packet).ok_or(Flush::Differs)?;
        let first_only_cwr = self.congestion(packet).ok_or(Flush::Differs)?;

        if !store.append(&mut self.buffer, payload) {
            return Err(Flush::NoMemory);
        }
        (self.fixed_id, self.first_only_cwr) = (fixed_id, first_only_cwr);
        self.segments += 1;
        self.partial += u32::from(packet.partial);
        self.next = self.next.wrapping_add(payload.len() as u32);
        if let Some(fields) = packet.tcp {
            let last = TcpFlags::PSH.with(TcpFlags::FIN).bits();
            self.last_flags = TcpFlags::from_bits(fields.flags.bits() & last);
        }
        Ok(if packet.ends_frame() {
            Some(Flush::Push)
        } else if payload.len() < self.mss {
            Some(Flush::Short)
        } else {
            None
        })
    }

    /// Whether the identification is fixed; `None` if `packet` has an identification that does not
    /// fit.
    fn identification(&self, packet: &MergeablePacket<'_>) -> Option<bool> {
        let fixed = packet.dont_fragment && packet.id == self.id;
        let counts = packet.id == self.id.wrapping_add(self.segments as u16);
        match self.segments {
            _ if self.v6 => Some(false),
            1 if fixed || counts => Some(fixed),
            1 => None,
            _ if self.fixed_id => fixed.then_some(true),
            _ => counts.then_some(false),
        }
    }

    /// Whether CWR is on the first packet only; `None` if the flags of `packet` do not fit. PSH and
    /// FIN may end the frame, CWR may be on the first packet (RFC 3168) or on all (RFC 9768).
    fn congestion(&self, packet: &MergeablePacket<'_>) -> Option<bool> {
        let Some(fields) = packet.tcp else { return Some(false) };
        let ends = TcpFlags::PSH.with(TcpFlags::FIN);
        let varies = ends.with(TcpFlags::CWR);
        if fields.flags.without(varies) != self.flags.without(varies) {
            return None;
        }
        let (first, now) =
            (self.flags.contains(TcpFlags::CWR), fields.flags.contains(TcpFlags::CWR));
        match (first, now) {
            (false, true) => None,
            (false, false) => Some(false),
            (true, true) => (!self.first_only_cwr).then_some(false),
            // With AE, segmentation would set it on all.
            (true, false) => {
                let may = self.segments == 1 || self.first_only_cwr;
                (may && !self.flags.contains(TcpFlags::AE)).then_some(true)
            }
        }
    }

    /// Updates the headers, and returns the frame's pending offload.
    pub(super) fn finish<S: Store<Buffer = B>>(&mut self) -> Offload {
        let place = own_place(self.transport, self.protocol);
        if self.segments < 2 {
            let left = place.filter(|_| self.partial > 0);
            return Offload { checksum: left, ..Offload::default() };
        }
        let bytes = S::content_mut(&mut self.buffer);
        let is_tcp = self.protocol == Protocol::TCP;
        let packet = bytes.len() - self.network;
        let segment = bytes.len() - self.transport;
        if self.v6 {
            put(bytes, self.network + 4, (packet - ipv6::LEN) as u16);
        } else {
            put(bytes, self.network + 2, packet as u16);
            put(bytes, self.network + 10, 0);
            let header = bytes.get(self.network..self.network + ipv4::MIN_LEN);
            let checksum = Sum::of(header.unwrap_or_default()).checksum();
            put(bytes, self.network + 10, checksum);
        }
        let partial = pseudo(&self.addresses, self.protocol, segment).partial();
        if is_tcp {
            put(bytes, self.transport + tcp::CHECKSUM_OFFSET, partial);
            let flags = self.flags.with(self.last_flags).bits();
            let offset = ((self.begin - self.transport) / 4) as u16;
            put(bytes, self.transport + 12, offset << 12 | flags);
        } else {
            put(bytes, self.transport + 4, segment as u16);
            let value = if self.checksum { partial } else { 0 };
            put(bytes, self.transport + udp::CHECKSUM_OFFSET, value);
        }
        let congestion = self.flags.contains(TcpFlags::CWR);
        Offload {
            gso: match (is_tcp, self.v6) {
                (true, false) => Gso::Tcp4,
                (true, true) => Gso::Tcp6,
                (false, _) => Gso::Udp,
            },
            size: self.mss as u16,
            checksum: place.filter(|_| self.checksum),
            ecn: congestion && self.first_only_cwr,
            accurate_ecn: congestion && !self.first_only_cwr,
            fixed_id: self.fixed_id,
            tunnel: None,
        }
    }
}

/// Writes a header field in the frame.
fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *field = value.to_be_bytes();
    }
}
