//! Changes the headers of a packet in place, and writes whole packets.
//!
//! Checksums are updated, complete and *partial* ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use wirelane_wire::{EthernetMut, MacAddr, Packet, PacketMut, WireError};

use super::handle::Frame;
use super::marks::Marks;

impl Frame {
    /// The packet's headers, for several changes after one parse. The setters of the frame change
    /// one field each.
    ///
    /// # Errors
    /// The headers are truncated or malformed.
    #[inline]
    pub fn packet_mut(&mut self) -> Result<PacketMut<'_>, WireError> {
        match self.checksum() {
            None => PacketMut::new(self.data_mut()),
            Some(place) => PacketMut::new_partial(self.data_mut(), place.start.into()),
        }
    }

    /// Replaces the source address of the Ethernet header.
    ///
    /// # Errors
    /// The frame is too short for the header.
    #[inline]
    pub fn set_source_mac(&mut self, address: MacAddr) -> Result<(), WireError> {
        EthernetMut::new(self.data_mut()).map(|mut header| header.set_source(address))
    }

    /// Replaces the destination address of the Ethernet header.
    ///
    /// # Errors
    /// The frame is too short for the header.
    #[inline]
    pub fn set_destination_mac(&mut self, address: MacAddr) -> Result<(), WireError> {
        EthernetMut::new(self.data_mut()).map(|mut header| header.set_destination(address))
    }

    /// Replaces the source address of the IPv4 header.
    ///
    /// # Errors
    /// As [`Frame::packet_mut`] and [`PacketMut::set_ipv4_source`]; nothing is changed.
    #[inline]
    pub fn set_ipv4_source(&mut self, address: Ipv4Addr) -> Result<(), WireError> {
        self.packet_mut()?.set_ipv4_source(address)
    }

    /// Replaces the destination address of the IPv4 header.
    ///
    /// # Errors
    /// As [`Frame::set_ipv4_source`].
    #[inline]
    pub fn set_ipv4_destination(&mut self, address: Ipv4Addr) -> Result<(), WireError> {
        self.packet_mut()?.set_ipv4_destination(address)
    }

    /// Replaces the source address of the IPv6 header.
    ///
    /// # Errors
    /// As [`Frame::set_ipv4_source`].
    #[inline]
    pub fn set_ipv6_source(&mut self, address: Ipv6Addr) -> Result<(), WireError> {
        self.packet_mut()?.set_ipv6_source(address)
    }

    /// Replaces the destination address of the IPv6 header. With a routing header, it is the
    /// address of the next router.
    ///
    /// # Errors
    /// As [`Frame::set_ipv4_source`].
    #[inline]
    pub fn set_ipv6_destination(&mut self, address: Ipv6Addr) -> Result<(), WireError> {
        self.packet_mut()?.set_ipv6_destination(address)
    }

    /// Replaces the TTL of the IPv4 header or the hop limit of the IPv6 header.
    ///
    /// # Errors
    /// As [`Frame::packet_mut`] and [`PacketMut::set_ttl`].
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) -> Result<(), WireError> {
        self.packet_mut()?.set_ttl(ttl)
    }

    /// Replaces the source port of a TCP, UDP, UDP-Lite or DCCP header.
    ///
    /// # Errors
    /// As [`Frame::packet_mut`] and [`PacketMut::set_source_port`]; nothing is changed.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) -> Result<(), WireError> {
        self.packet_mut()?.set_source_port(port)
    }

    /// Replaces the destination port of a TCP, UDP, UDP-Lite or DCCP header.
    ///
    /// # Errors
    /// As [`Frame::set_source_port`].
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) -> Result<(), WireError> {
        self.packet_mut()?.set_destination_port(port)
    }

    /// Replaces the whole packet by `packet`, whose checksums are complete.
    ///
    /// # Errors
    /// It does not fit ([`Frame::capacity`]) or has a field outside its range. The content of the
    /// frame is then undefined.
    pub fn fill_packet(&mut self, packet: &Packet<'_>) -> Result<(), WireError> {
        let (needed, have) = (packet.len(), self.capacity());
        if !self.set_len(needed) {
            return Err(WireError::Truncated { needed, have });
        }
        self.meta_mut().marks = Marks::NONE;
        packet.emit(self.data_mut()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use wirelane_wire::checksum::pseudo_v4;
    use wirelane_wire::{FlowKey, Protocol, Tcp, packet};

    use crate::frame::{Gso, Offload, PartialChecksum};
    use crate::pool::{Pool, PoolConfig};

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
    const NEW: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

    fn segment<'a>(source: Ipv4Addr, port: u16) -> Packet<'a> {
        let link = packet::ethernet(MacAddr::ZERO, MacAddr::BROADCAST);
        link.ipv4(source, B).tcp(Tcp::between(port, 80), b"payload")
    }

    fn frame() -> Frame {
        let mut pool = Pool::new(PoolConfig { chunks: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.take_one().unwrap();
        frame.fill_packet(&segment(A, 1000)).unwrap();
        frame
    }

    /// The checksum of a complete frame, and the sum of its pseudo-header.
    fn checksums(frame: &Frame, source: Ipv4Addr) -> ([u8; 2], [u8; 2]) {
        let field = [frame.data()[50], frame.data()[51]];
        let sum = pseudo_v4(source, B, Protocol::TCP, 27).partial();
        (field, sum.to_be_bytes())
    }

    #[test]
    fn complete_checksums_follow() {
        let mut frame = frame();
        frame.set_ipv4_source(NEW).unwrap();
        frame.set_source_port(2000).unwrap();
        let mut expected = [0; 61];
        segment(NEW, 2000).emit(&mut expected).unwrap();
        assert_eq!(frame.data(), expected);
        assert!(frame.offload().is_none());
    }

    #[test]
    fn partial_checksums_stay_partial_and_become_right() {
        let marks: [fn(&mut Frame); 3] = [
            |frame| {
                let checksum = Some(PartialChecksum { start: 34, offset: 16 });
                assert!(frame.set_offload(Offload { checksum, ..Offload::default() }));
            },
            |frame| {
                let checksum = Some(PartialChecksum { start: 34, offset: 16 });
                let gso = Offload { gso: Gso::Tcp4, size: 4, checksum, ..Offload::default() };
                assert!(frame.set_offload(gso));
            },
            Frame::suspect_checksum,
        ];
        for mark in marks {
            let mut frame = frame();
            let partial = checksums(&frame, A).1;
            frame.data_mut()[50..52].copy_from_slice(&partial);
            mark(&mut frame);
            frame.set_ipv4_source(NEW).unwrap();
            frame.set_source_port(2000).unwrap();
            let (field, partial) = checksums(&frame, NEW);
            assert_eq!(field, partial);
            // A device completes it to the value of a complete checksum.
            let place = frame.offload().unwrap().checksum.unwrap();
            assert!(place.complete(frame.data_mut()));
            let mut expected = [0; 61];
            segment(NEW, 2000).emit(&mut expected).unwrap();
            assert_eq!(frame.data(), expected);
        }
    }

    #[test]
    fn an_unknown_partial_checksum_is_not_touched() {
        let mut frame = frame();
        assert!(frame.set_offload(Offload {
            checksum: Some(PartialChecksum::UNKNOWN),
            ..Offload::default()
        }));
        let before = frame.data().to_vec();
        assert!(frame.set_ipv4_source(NEW).is_err() && frame.set_source_port(9).is_err());
        assert_eq!(frame.data(), before);
    }

    #[test]
    fn addresses_of_the_link() {
        let mut frame = frame();
        let (here, there) = (MacAddr([1; 6]), MacAddr([2; 6]));
        frame.set_source_mac(here).unwrap();
        frame.set_destination_mac(there).unwrap();
        assert_eq!(frame.data()[..12], [[2; 6], [1; 6]].concat());
        assert!(frame.set_len(11));
        assert!(frame.set_source_mac(here).is_err() && frame.set_ttl(1).is_err());
    }

    #[test]
    fn filling_forgets_what_was_left_to_do() {
        let mut frame = frame();
        frame.suspect_checksum();
        frame.fill_packet(&segment(NEW, 7)).unwrap();
        assert!(!frame.is_unfinished());
        let flow = FlowKey::parse(frame.data()).unwrap().unwrap();
        assert_eq!(flow.to_string(), "203.0.113.77:7 > 192.0.2.9:80 tcp");
        let long = [0; 3000];
        let link = packet::ethernet(MacAddr::ZERO, MacAddr::ZERO);
        assert!(frame.fill_packet(&link.ipv4(A, B).udp(1, 2, &long)).is_err());
    }
}
