//! Which packets that keep a host reachable a filter would take from it.
//!
//! Packets that a filter of an AF_XDP socket accepts never reach the host's stack. So this module
//! runs the filter over packets that the host receives from its neighbours, class by class.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use wirelane::internal::xdp::keeps_tcp;
use wirelane::{Error, Result};
use wirelane_filter::{Interpreter, Packet, Program};

use crate::ssh::Connection;

/// Addresses of a host at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddresses {
    /// Ethernet address.
    pub(crate) mac: [u8; 6],
    /// IP addresses, of either version.
    pub(crate) addresses: Vec<IpAddr>,
    /// Running SSH sessions to check, too.
    pub(crate) sessions: Vec<Connection>,
}

impl HostAddresses {
    /// A host with addresses for documentation (RFC 5737, RFC 3849) and a link-local one.
    pub(crate) fn generic() -> Self {
        let addresses = [
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10)),
            IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 10)),
        ];
        Self { mac: [2, 0, 0, 0, 0, 10], addresses: addresses.into(), sessions: Vec::new() }
    }

    /// The addresses of the interface `name`.
    ///
    /// # Errors
    /// There is no such interface in this network namespace, or it has no Ethernet address.
    pub(crate) fn of_interface(name: &str) -> Result<Self> {
        let failed = |error| Error::os(format!("interface '{name}'"), error);
        let mac = wirelane_os::iface::mac(name).map_err(failed)?;
        let addresses = wirelane_os::iface::addresses(name).map_err(failed)?;
        Ok(Self { mac, addresses, sessions: Vec::new() })
    }
}

/// Packets that a host needs, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HostTraffic {
    /// To the host's SSH server.
    SshServer,
    /// Answers to SSH clients on the host.
    SshClient,
    /// Sessions in [`HostAddresses::sessions`].
    SshSession,
    /// Answers of name servers.
    Dns,
    /// IPv4 addresses on the link.
    Arp,
    /// IPv6 addresses and routers on the link.
    NeighbourDiscovery,
    /// Answers of servers that lease addresses, DHCP and DHCPv6.
    Dhcp,
    /// Pings of the host, and answers to its pings.
    IcmpEcho,
}

impl HostTraffic {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SshServer => "SSH to this host (port 22)",
            Self::SshClient => "SSH from this host (answers)",
            Self::SshSession => "this SSH session",
            Self::Dns => "DNS (answers)",
            Self::Arp => "ARP",
            Self::NeighbourDiscovery => "IPv6 neighbour discovery",
            Self::Dhcp => "DHCP and DHCPv6 (answers)",
            Self::IcmpEcho => "ICMP echo (ping)",
        }
    }

    /// Whether losing it may lock an administrator out.
    pub(crate) fn is_ssh(self) -> bool {
        matches!(self, Self::SshServer | Self::SshClient | Self::SshSession)
    }
}

/// The effect of a filter on the packets of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ClassEffect {
    /// The class.
    pub(crate) class: HostTraffic,
    /// How many packets the filter was run over.
    pub(crate) packets: usize,
    /// How many of them it accepts, and takes from the host.
    pub(crate) matching: usize,
    /// How many of the accepted packets are management, which stays with the host by default.
    pub(crate) management: usize,
}

impl ClassEffect {
    /// How many a port takes, with management or without.
    pub(crate) fn packets_taken(&self, take_management: bool) -> usize {
        self.matching - if take_management { 0 } else { self.management }
    }
}

/// Runs `program` over packets that `host` receives, class by class; without one all are accepted.
/// Classes without packets, such as ARP for a host without IPv4, are left out.
///
/// The packets come from one neighbour and have no VLAN tags: a filter that names another address
/// may still match what that one sends.
///
/// # Errors
/// The program is not for Ethernet, or uses a value that only the kernel's socket filter has.
pub(crate) fn explain(program: Option<&Program>, host: &HostAddresses) -> Result<Vec<ClassEffect>> {
    const ETHERNET: u16 = 1;
    if let Some(program) = program.filter(|program| program.link_type() != ETHERNET) {
        let cause = format!("XDP sees Ethernet, and this is for link type {}", program.link_type());
        return Err(Error::usage("filter", cause));
    }
    let filter = program.map(Interpreter::new).transpose()?;
    let classes = [
        HostTraffic::SshSession,
        HostTraffic::SshServer,
        HostTraffic::SshClient,
        HostTraffic::Dns,
        HostTraffic::Arp,
        HostTraffic::NeighbourDiscovery,
        HostTraffic::Dhcp,
        HostTraffic::IcmpEcho,
    ];
    let taken = classes.into_iter().map(|class| {
        let mut taken = ClassEffect { class, packets: 0, matching: 0, management: 0 };
        for (data, is_management) in packets(class, host) {
            let packet = Packet { data: &data, wire_len: data.len() as u32, ..Packet::default() };
            let matches = filter.as_ref().is_none_or(|filter| filter.run(&packet) > 0);
            taken.packets += 1;
            taken.matching += usize::from(matches);
            taken.management += usize::from(matches && is_management);
        }
        taken
    });
    Ok(taken.filter(|taken| taken.packets > 0).collect())
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// An unreserved port.
const PORT: u16 = 40_000;
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const PUSH_ACK: u8 = 0x18;
const NEIGHBOUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BROADCAST_MAC: [u8; 6] = [0xff; 6];
const SHORTEST: usize = 60;

/// Packets of a class that the host receives, and whether each is management.
fn packets(class: HostTraffic, host: &HostAddresses) -> Vec<(Vec<u8>, bool)> {
    if class == HostTraffic::SshSession {
        let mut packets = Vec::new();
        for Connection { client, server } in &host.sessions {
            let ports = (client.port(), server.port());
            for (flags, payload) in [(PUSH_ACK, 64), (0x10, 0)] {
                let segment = tcp(ports, flags, payload);
                let packet = ip(host.mac, TCP, (client.ip(), server.ip()), &segment);
                let is_management = keeps_tcp([ports.0, ports.1]);
                packets.extend(packet.map(|packet| (packet, is_management)));
            }
        }
        return packets;
    }
    let mut packets = Vec::new();
    for own in &host.addresses {
        let neighbour = neighbour(*own);
        let v6 = own.is_ipv6();
        let mut from_neighbour = |protocol, payload: &[u8]| {
            packets.extend(ip(host.mac, protocol, (neighbour, *own), payload))
        };
        match class {
            HostTraffic::SshServer => {
                from_neighbour(TCP, &tcp((PORT, 22), SYN, 0));
                from_neighbour(TCP, &tcp((PORT, 22), PUSH_ACK, 64));
            }
            HostTraffic::SshClient => {
                from_neighbour(TCP, &tcp((22, PORT), SYN_ACK, 0));
                from_neighbour(TCP, &tcp((22, PORT), PUSH_ACK, 64));
            }
            HostTraffic::Dns => from_neighbour(UDP, &udp((53, PORT), 90)),
            HostTraffic::IcmpEcho => {
                for kind in if v6 { [128, 129] } else { [8, 0] } {
                    let echo = [&[kind, 0, 0, 0, 0, 7, 0, 1][..], &[0x5a; 56]].concat();
                    from_neighbour(if v6 { ICMP6 } else { ICMP }, &echo);
                }
            }
            HostTraffic::Dhcp if v6 => from_neighbour(UDP, &udp((547, 546), 100)),
            HostTraffic::Dhcp => from_neighbour(UDP, &udp((67, 68), 300)),
            HostTraffic::NeighbourDiscovery if v6 => {
                for (kind, len) in [(135, 28), (136, 28), (134, 52)] {
                    let mut message = vec![0; len];
                    if let Some(first) = message.first_mut() {
                        *first = kind;
                    }
                    from_neighbour(ICMP6, &message);
                }
            }
            HostTraffic::Arp => {
                if let (IpAddr::V4(own), IpAddr::V4(neighbour)) = (*own, neighbour) {
                    packets.push(arp(BROADCAST_MAC, 1, neighbour, own, [0; 6]));
                    packets.push(arp(host.mac, 2, neighbour, own, host.mac));
                }
            }
            HostTraffic::NeighbourDiscovery | HostTraffic::SshSession => {}
        }
    }
    packets.into_iter().map(|packet| (packet, class != HostTraffic::IcmpEcho)).collect()
}

/// Another address of the same network, nearly always.
fn neighbour(own: IpAddr) -> IpAddr {
    match own {
        IpAddr::V4(own) => {
            let [a, b, c, d] = own.octets();
            Ipv4Addr::new(a, b, c, if d == 1 { 2 } else { 1 }).into()
        }
        IpAddr::V6(own) => {
            let mut segments = own.segments();
            segments[7] = if segments[7] == 1 { 2 } else { 1 };
            Ipv6Addr::from(segments).into()
        }
    }
}

/// An Ethernet frame, as long as the shortest one at least.
fn frame(destination: [u8; 6], ethertype: u16, payload: &[&[u8]]) -> Vec<u8> {
    let head = [&destination[..], &NEIGHBOUR_MAC, &ethertype.to_be_bytes()].concat();
    let mut frame = [head, payload.concat()].concat();
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

/// An IP packet (RFC 791, RFC 8200) without checksum; `None` between versions.
fn ip(
    mac: [u8; 6],
    protocol: u8,
    (source, destination): (IpAddr, IpAddr),
    payload: &[u8],
) -> Option<Vec<u8>> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
            let head = [0x45, 0, l0, l1, 0, 1, 0x40, 0, 64, protocol, 0, 0];
            let addresses = [source.octets(), destination.octets()].concat();
            Some(frame(mac, 0x0800, &[&head, &addresses, payload]))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [l0, l1] = (payload.len() as u16).to_be_bytes();
            // Neighbour discovery takes only packets that no router has touched (RFC 4861 section
            // 7.1).
            let head = [0x60, 0, 0, 0, l0, l1, protocol, 255];
            let addresses = [source.octets(), destination.octets()].concat();
            Some(frame(mac, 0x86dd, &[&head, &addresses, payload]))
        }
        _ => None,
    }
}

/// A segment (RFC 9293) with `payload` bytes.
fn tcp((source, destination): (u16, u16), flags: u8, payload: usize) -> Vec<u8> {
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let rest = [0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0];
    [&ports[..], &rest, &vec![0x5a; payload]].concat()
}

/// A datagram (RFC 768) with `payload` bytes.
fn udp((source, destination): (u16, u16), payload: usize) -> Vec<u8> {
    let len = (8 + payload as u16).to_be_bytes();
    let head = [source.to_be_bytes(), destination.to_be_bytes(), len, [0; 2]].concat();
    [head, vec![0; payload]].concat()
}

/// A request or an answer (RFC 826).
fn arp(
    destination: [u8; 6],
    operation: u8,
    sender: Ipv4Addr,
    target: Ipv4Addr,
    target_mac: [u8; 6],
) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    let (sender, target) = (sender.octets(), target.octets());
    frame(destination, 0x0806, &[&head, &NEIGHBOUR_MAC, &sender, &target_mac, &target])
}

#[cfg(test)]
#[cfg_attr(miri, allow(unused_imports))]
mod tests {
    use super::*;
    use wirelane_filter::compile;

    /// Classes of which some packet matches, with how many.
    fn taken(expression: &str, host: &HostAddresses) -> Vec<(HostTraffic, usize)> {
        let taken = explain(Some(&compile(expression, 1, 65_535).unwrap()), host).unwrap();
        let taken = taken.into_iter().filter(|taken| taken.matching > 0);
        taken.map(|taken| (taken.class, taken.matching)).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn classes_match_the_expressions_that_mean_them() {
        use HostTraffic::*;
        let host = HostAddresses::generic();
        for (expression, expected) in [
            ("udp port 9999", vec![]),
            ("tcp dst port 22", vec![(SshServer, 6)]),
            ("tcp src port 22 and ip", vec![(SshClient, 2)]),
            ("port 53", vec![(Dns, 3)]),
            ("arp", vec![(Arp, 2)]),
            ("icmp6[icmp6type] == 135", vec![(NeighbourDiscovery, 2)]),
            ("udp port 68 or udp port 546", vec![(Dhcp, 3)]),
            ("icmp or (ip6 proto 58 and icmp6[0] >= 128 and icmp6[0] <= 129)", vec![(IcmpEcho, 6)]),
            ("ether broadcast", vec![(Arp, 1)]),
            ("tcp[tcpflags] == tcp-syn", vec![(SshServer, 1)]),
            ("greater 301", vec![(Dhcp, 1)]),
        ] {
            assert_eq!(taken(expression, &host), expected, "{expression}");
        }
        let all: usize = taken("", &host).iter().map(|(_, matching)| matching).sum();
        assert_eq!(all, 6 + 6 + 3 + 2 + 6 + 3 + 6);
        assert_eq!(taken("host 192.0.2.10 and not arp", &host).len(), 5);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn a_session_is_looked_at_by_its_own_addresses() {
        let session = Connection::parse("198.51.100.7 50022 192.0.2.10 2222").unwrap();
        let host = HostAddresses { sessions: vec![session], ..HostAddresses::generic() };
        assert_eq!(taken("tcp port 2222", &host), [(HostTraffic::SshSession, 2)]);
        assert_eq!(taken("src host 198.51.100.7", &host), [(HostTraffic::SshSession, 2)]);
        assert!(HostTraffic::SshSession.is_ssh() && !HostTraffic::Arp.is_ssh());
    }

    #[test]
    fn management_is_told_from_what_a_port_takes() {
        let sessions = ["192.0.2.1 1 192.0.2.10 22", "192.0.2.1 2 192.0.2.10 2222"];
        let sessions = sessions.iter().filter_map(|text| Connection::parse(text)).collect();
        let host = HostAddresses { sessions, ..HostAddresses::generic() };
        for taken in explain(None, &host).unwrap() {
            assert_eq!((taken.matching, taken.packets_taken(true)), (taken.packets, taken.packets));
            let left = match taken.class {
                HostTraffic::SshSession => 2,
                HostTraffic::IcmpEcho => taken.packets,
                _ => 0,
            };
            assert_eq!(taken.packets_taken(false), left, "{taken:?}");
        }
    }

    #[test]
    fn other_links_have_no_xdp() {
        let accept = wirelane_os::packet::SockFilter { code: 6, jt: 0, jf: 0, k: 1 };
        let program = Program::new(101, vec![accept]).unwrap();
        assert_eq!(
            explain(Some(&program), &HostAddresses::generic()).unwrap_err().kind(),
            crate::ErrorKind::Usage
        );
    }
}
