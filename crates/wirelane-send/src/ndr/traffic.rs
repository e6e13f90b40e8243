//! The traffic of trials.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use wirelane::{Error, Result};
use wirelane_gen::signature::{self, SignatureKey};
use wirelane_gen::{Departure, PacketSource, Signature, ThreadShare};
use wirelane_wire::{MacAddr, packet};

/// The load of one trial in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialLoad {
    /// Bytes of every packet, without frame check sequence; `None` for the lengths of the traffic.
    pub len: Option<usize>,
    /// Packets per second in total; infinite for as fast as possible.
    pub rate: f64,
    /// How long to send.
    pub duration: Duration,
    /// The largest number of packets.
    pub packets: Option<u64>,
}

impl TrialLoad {
    /// Packets per second, more than any port can send: bounds the number of packets of a trial
    /// without a rate.
    const FASTEST: f64 = 150e6;

    /// The largest number of packets that all lanes send together.
    pub fn packets(&self) -> u64 {
        let all = (self.rate.min(Self::FASTEST) * self.duration.as_secs_f64()).ceil() as u64;
        self.packets.map_or(all, |packets| packets.min(all)).max(1)
    }
}

/// Signed packets that trials send in one direction.
pub trait Traffic: Send + Sync {
    /// The names of the streams.
    fn streams(&self) -> Vec<String>;

    /// The largest number of packets that each stream sends on this lane.
    fn packets(&self, load: &TrialLoad, lane: ThreadShare) -> Vec<u64>;

    /// The packets of a lane, each signed with `key` and the [`flow`](signature::flow) of its
    /// stream and lane.
    ///
    /// # Errors
    /// The packets cannot have the length of `load`.
    fn source(
        &self,
        load: &TrialLoad,
        lane: ThreadShare,
        key: SignatureKey,
    ) -> Result<Box<dyn PacketSource>>;
}

/// The source and destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficEnds<T> {
    /// Value of the sending port.
    pub source: T,
    /// Value of the receiving port.
    pub destination: T,
}

impl<T> TrafficEnds<T> {
    /// Swaps source and destination.
    pub fn back(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// Addresses of the network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAddresses {
    /// IPv4.
    V4(TrafficEnds<Ipv4Addr>),
    /// IPv6.
    V6(TrafficEnds<Ipv6Addr>),
}

/// One stream of UDP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpStream {
    /// Ethernet addresses.
    pub macs: TrafficEnds<MacAddr>,
    /// Network addresses.
    pub network: NetworkAddresses,
    /// UDP ports.
    pub ports: TrafficEnds<u16>,
}

impl UdpStream {
    /// Traffic between two ports without known addresses: locally administered Ethernet addresses,
    /// so that no host accepts the packets, and IPv4 addresses that RFC 2544 (appendix C) reserves
    /// for benchmarks.
    pub fn between() -> Self {
        let mac = |end| MacAddr([0x02, b'w', b'l', 0, 0, end]);
        Self {
            macs: TrafficEnds { source: mac(1), destination: mac(2) },
            network: NetworkAddresses::V4(TrafficEnds {
                source: Ipv4Addr::new(198, 18, 0, 1),
                destination: Ipv4Addr::new(198, 19, 0, 1),
            }),
            ports: TrafficEnds { source: 49184, destination: 49185 },
        }
    }

    /// Traffic in the opposite direction.
    pub fn back(self) -> Self {
        let network = match self.network {
            NetworkAddresses::V4(ends) => NetworkAddresses::V4(ends.back()),
            NetworkAddresses::V6(ends) => NetworkAddresses::V6(ends.back()),
        };
        Self { macs: self.macs.back(), network, ports: self.ports.back() }
    }

    /// A packet of `len` bytes with a payload of zeros.
    fn packet(&self, len: usize) -> Result<Vec<u8>> {
        let headers = match self.network {
            NetworkAddresses::V4(_) => 14 + 20 + 8,
            NetworkAddresses::V6(_) => 14 + 40 + 8,
        };
        let wrong = |cause: String| Error::usage("size", cause);
        if !(headers + signature::LEN..=headers + 65_000).contains(&len) {
            let shortest = headers + signature::LEN;
            return Err(wrong(format!(
                "a packet of {len} bytes has no room: {shortest} is the shortest"
            )));
        }
        let payload = vec![0; len - headers];
        let link = packet::ethernet(self.macs.source, self.macs.destination);
        let TrafficEnds { source, destination } = self.ports;
        let mut bytes = vec![0; len];
        let written = match self.network {
            NetworkAddresses::V4(ip) => link
                .ipv4(ip.source, ip.destination)
                .udp(source, destination, &payload)
                .emit(&mut bytes),
            NetworkAddresses::V6(ip) => link
                .ipv6(ip.source, ip.destination)
                .udp(source, destination, &payload)
                .emit(&mut bytes),
        };
        written.map_err(|error| wrong(error.to_string()))?;
        Ok(bytes)
    }
}

impl Traffic for UdpStream {
    fn streams(&self) -> Vec<String> {
        vec!["udp".into()]
    }

    fn packets(&self, load: &TrialLoad, lane: ThreadShare) -> Vec<u64> {
        vec![share(load.packets(), lane)]
    }

    fn source(
        &self,
        load: &TrialLoad,
        lane: ThreadShare,
        key: SignatureKey,
    ) -> Result<Box<dyn PacketSource>> {
        /// The shortest Ethernet frame.
        const SHORTEST: usize = 60;
        Ok(Box::new(PacketCopies {
            packet: self.packet(load.len.unwrap_or(SHORTEST))?,
            schedule: Even { lane, rate: load.rate },
            key,
            // There is a single stream, so the flow number is the lane index.
            flow: lane.index,
            sent: 0,
            count: share(load.packets(), lane),
        }))
    }
}

/// The number of packets of a lane if the lanes take `all` packets in turn.
fn share(all: u64, lane: ThreadShare) -> u64 {
    let of = u64::from(lane.of.max(1));
    all / of + u64::from(u64::from(lane.index) < all % of)
}

/// Packets at equal intervals. The lanes take them in turn.
struct Even {
    lane: ThreadShare,
    rate: f64,
}

impl Even {
    /// The time of the lane's packet `number`, in nanoseconds after the start.
    fn at(&self, number: u64) -> u64 {
        if self.rate.is_infinite() {
            return 0;
        }
        let number = u128::from(number * u64::from(self.lane.of) + u64::from(self.lane.index));
        // Packets per million seconds: integer arithmetic without drift.
        let rate = ((self.rate * 1e6) as u128).max(1);
        (number * 1_000_000_000_000_000 / rate) as u64
    }
}

/// Sends copies of one packet with different signatures.
struct PacketCopies {
    packet: Vec<u8>,
    schedule: Even,
    key: SignatureKey,
    flow: u32,
    sent: u64,
    count: u64,
}

impl PacketSource for PacketCopies {
    fn next(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        let departure =
            || Departure { at: self.schedule.at(self.sent), len: self.packet.len(), stream: 0 };
        Ok((self.sent < self.count).then(departure))
    }

    fn write(&mut self, packet: &mut [u8], now: u64) {
        if let Some(packet) = packet.get_mut(..self.packet.len()) {
            packet.copy_from_slice(&self.packet);
            let sequence = self.sent as u32;
            Signature { flow: self.flow, sequence, time: now }.write(self.key, packet);
        }
        self.sent += 1;
    }

    fn skip(&mut self) {
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(len: usize, rate: f64) -> TrialLoad {
        TrialLoad { len: Some(len), rate, duration: Duration::from_secs(1), packets: None }
    }

    #[test]
    fn packets_are_signed_and_their_checksums_right() {
        let v6 = NetworkAddresses::V6(TrafficEnds {
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2:0:1::1".parse().unwrap(),
        });
        for (traffic, shortest) in [
            (UdpStream::between(), 60),
            (UdpStream { network: v6, ..UdpStream::between() }.back(), 80),
        ] {
            for len in [shortest, shortest + 1, 1514] {
                let lane = ThreadShare { index: 1, of: 2 };
                let mut source = traffic.source(&load(len, 10.0), lane, SignatureKey(5)).unwrap();
                for number in 0..5 {
                    let departure = source.next().unwrap().unwrap();
                    assert_eq!(departure.at, (2 * number + 1) * 100_000_000);
                    let mut packet = vec![0xee; len + 3];
                    source.write(&mut packet, 1_000_000 * number);
                    let packet = &packet[..departure.len];
                    let signature = Signature::parse(SignatureKey(5), packet).unwrap();
                    assert_eq!((signature.flow, u64::from(signature.sequence)), (1, number));
                    assert!(wirelane_wire_checks(packet), "{packet:02x?}");
                }
                assert_eq!(source.next().unwrap(), None);
            }
            assert!(
                traffic
                    .source(&load(shortest - 1, 1.0), ThreadShare::ALL, SignatureKey(0))
                    .is_err()
            );
        }
    }

    /// Checks the UDP checksum, including the pseudo-header.
    fn wirelane_wire_checks(packet: &[u8]) -> bool {
        let (addresses, udp) = match packet[12..14] {
            [0x08, 0] => (&packet[26..34], &packet[34..]),
            _ => (&packet[22..54], &packet[54..]),
        };
        let mut sum = 17 + udp.len() as u32;
        for bytes in [addresses, udp] {
            for pair in bytes.chunks(2) {
                sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    #[test]
    fn lanes_share_the_packets() {
        for all in [0, 1, 7, 100] {
            let sum: u64 = (0..3).map(|index| share(all, ThreadShare { index, of: 3 })).sum();
            assert_eq!(sum, all);
        }
        assert_eq!(load(60, f64::INFINITY).packets(), 150_000_000);
        assert_eq!(TrialLoad { packets: Some(3), ..load(60, 10.0) }.packets(), 3);
    }
}
