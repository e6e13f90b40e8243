//! Packets of many flows, each a pure function of its number, so that the result of a query is
//! known.
//!
//! A flow has six packets on average, close to each other. All clients are about equally busy; a
//! few servers have most of the flows. Lengths are IMIX. The payload is text, and compresses like
//! text.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// Packets of a flow, on average.
pub(super) const PACKETS_OF_FLOW: u64 = 6;
/// Flows whose packets alternate.
const ACTIVE: u64 = 4096;
const CLIENTS: u64 = 250_000;
const SERVERS: u64 = 4096;
/// Lengths of twelve packets.
const SIZES: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];
/// Bytes of a packet, on average.
pub(super) const MEAN: f64 = 4342.0 / 12.0;
/// Ethernet, IPv4, and the longer header of a transport.
const HEADERS: usize = 14 + 20 + 20;

/// The addresses and ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowAddresses {
    pub(super) client: Ipv4Addr,
    pub(super) server: Ipv4Addr,
    client_port: u16,
    server_port: u16,
}

impl FlowAddresses {
    pub(super) fn new(number: u64) -> Self {
        let bits = mix(number);
        let address = |network: [u8; 4], host: u64| {
            Ipv4Addr::from(u32::from(Ipv4Addr::from(network)) + host as u32)
        };
        let popular = (bits >> 20) % SERVERS;
        Self {
            client: address([10, 0, 0, 1], bits % CLIENTS),
            // The square makes the first servers the busiest.
            server: address([172, 16, 0, 1], popular * popular / SERVERS),
            client_port: 1024 + ((bits >> 32) % 60_000) as u16,
            server_port: [443, 80, 53, 8080][(bits >> 56) as usize % 4],
        }
    }

    const fn is_udp(&self) -> bool {
        self.server_port == 53
    }

    /// An expression that only the packets of this flow match.
    pub(super) fn expression(&self) -> String {
        let mut text = format!("host {} and host {}", self.client, self.server);
        let protocol = if self.is_udp() { "udp" } else { "tcp" };
        for port in [self.client_port, self.server_port] {
            let _ = write!(text, " and {protocol} port {port}");
        }
        text
    }
}

/// Makes packets.
pub(super) struct RecordTraffic {
    text: Vec<u8>,
    packet: Vec<u8>,
}

impl RecordTraffic {
    pub(super) fn new() -> Self {
        const WORDS: [&str; 16] = [
            "GET ",
            "/index",
            ".html ",
            "HTTP/1.1\r\n",
            "Host: ",
            "example",
            ".org\r\n",
            "Accept: ",
            "text/",
            "plain",
            "; q=0.",
            "Cookie: ",
            "session=",
            "Content-Length: ",
            "gzip, ",
            "\r\n\r\n",
        ];
        let mut text = String::new();
        for number in 0..20_000 {
            let bits = mix(number);
            text.push_str(WORDS[bits as usize % WORDS.len()]);
            if bits >> 40 & 3 == 0 {
                let _ = write!(text, "{:x}", bits >> 44);
            }
        }
        Self { text: text.into_bytes(), packet: Vec::new() }
    }

    /// The flow of this packet.
    pub(super) fn flow(number: u64) -> u64 {
        (number / PACKETS_OF_FLOW).saturating_sub(mix(number) % ACTIVE)
    }

    /// The packet of this number.
    pub(super) fn packet(&mut self, number: u64) -> &[u8] {
        let (flow, bits) = (FlowAddresses::new(Self::flow(number)), mix(!number));
        let size = SIZES[number as usize % SIZES.len()];
        let packet = &mut self.packet;
        packet.clear();
        packet.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let is_up = bits & 1 == 0;
        let (client, server) = (flow.client.octets(), flow.server.octets());
        let [from, to] = if is_up { [client, server] } else { [server, client] };
        let ports = [flow.client_port, flow.server_port];
        let [from_port, to_port] = if is_up { ports } else { [ports[1], ports[0]] };
        let length = ((size - 14) as u16).to_be_bytes();
        let protocol = if flow.is_udp() { 17 } else { 6 };
        packet
            .extend_from_slice(&[0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        packet.extend_from_slice(&from);
        packet.extend_from_slice(&to);
        packet.extend_from_slice(&from_port.to_be_bytes());
        packet.extend_from_slice(&to_port.to_be_bytes());
        if flow.is_udp() {
            let length = ((size - 34) as u16).to_be_bytes();
            packet.extend_from_slice(&[length[0], length[1], 0, 0]);
        } else {
            packet.extend_from_slice(&(bits as u32).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0, 0, 0x50, 0x10, 0xFF, 0xFF, 0, 0, 0, 0]);
        }
        let rest = size.saturating_sub(packet.len());
        let at = bits as usize % (self.text.len() - SIZES[6]);
        packet.extend_from_slice(&self.text[at..at + rest]);
        &self.packet
    }
}

/// SplitMix64 (Steele, Lea, Flood, 2014), a bijection.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

const _: () = assert!(HEADERS <= SIZES[0]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn packets_are_as_long_as_they_say_and_of_their_flow() {
        let mut traffic = RecordTraffic::new();
        let mut bytes = 0;
        for number in 0..12_000 {
            let flow = FlowAddresses::new(RecordTraffic::flow(number));
            let packet = traffic.packet(number);
            bytes += packet.len();
            let addresses = [&packet[26..30], &packet[30..34]];
            assert!(addresses.contains(&&flow.client.octets()[..]));
            assert!(addresses.contains(&&flow.server.octets()[..]));
        }
        assert_eq!(bytes as f64, MEAN * 12_000.0);
    }

    #[test]
    fn nearly_every_flow_has_packets() {
        const PACKETS: u64 = 600_000;
        let flows: BTreeSet<_> = (0..PACKETS).map(RecordTraffic::flow).collect();
        assert!(
            flows.len() as u64 > PACKETS / PACKETS_OF_FLOW * 98 / 100 - ACTIVE,
            "{}",
            flows.len()
        );
    }
}
