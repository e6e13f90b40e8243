//! tshark decodes packets of every protocol of the language as described.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use wirelane_gen::{Recipe, table};
use wirelane_testkit::{process, tools};

/// The number of packets per recipe.
const PACKETS: u64 = 4;

/// A recipe, its layer names in tshark, and fields with their values in the packets.
struct Case(
    &'static str,
    &'static str,
    &'static [(&'static str, [&'static str; PACKETS as usize])],
);

const CASES: &[Case] = &[
    Case(
        "eth src=02:00:00:00:00:07 dst=02:00:00:00:01:00-02:00:00:00:01:ff ipv4 udp",
        "eth:ethertype:ip:udp:data",
        &[
            ("eth.src", ["02:00:00:00:00:07"; 4]),
            (
                "eth.dst",
                [
                    "02:00:00:00:01:00",
                    "02:00:00:00:01:01",
                    "02:00:00:00:01:02",
                    "02:00:00:00:01:03",
                ],
            ),
        ],
    ),
    Case(
        "vlan id=100-101 priority=3 dei=1 vlan id=7 ipv4 dscp=46 ecn=1 ttl=9 udp src=1,2 dst=5300",
        "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:udp:data",
        &[
            ("ieee8021ad.id", ["100", "101", "100", "101"]),
            ("ieee8021ad.priority", ["3"; 4]),
            ("ieee8021ad.dei", ["1"; 4]),
            ("vlan.id", ["7"; 4]),
            ("ip.dsfield.dscp", ["46"; 4]),
            ("ip.dsfield.ecn", ["1"; 4]),
            ("ip.ttl", ["9"; 4]),
            ("udp.srcport", ["1", "2", "1", "2"]),
            ("udp.dstport", ["5300"; 4]),
        ],
    ),
    Case(
        "mpls label=1000 tc=5 mpls label=16-18 ttl=3 ipv4 udp",
        "eth:ethertype:mpls:ip:udp:data",
        &[
            ("mpls.label", ["1000,16", "1000,17", "1000,18", "1000,16"]),
            ("mpls.exp", ["5,0"; 4]),
            ("mpls.bottom", ["0,1"; 4]),
            ("mpls.ttl", ["64,3"; 4]),
        ],
    ),
    Case(
        "arp op=request,reply sender-ip=10.0.0.0/30 target-ip=10.0.0.9 target-mac=02:00:00:00:00:09",
        "eth:ethertype:arp",
        &[
            ("arp.opcode", ["1", "2", "1", "2"]),
            ("arp.src.proto_ipv4", ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]),
            ("arp.dst.proto_ipv4", ["10.0.0.9"; 4]),
            ("arp.dst.hw_mac", ["02:00:00:00:00:09"; 4]),
        ],
    ),
    Case(
        "ipv4 src=10.0.0.9-10.0.0.1@step:4 id=7 df=0 options=0101 tcp flags=syn+ece,ack seq=1-9 ack=5 \
         window=100@step:-50:3 urgent=0 mss=1460 sack=1 tsval=77 tsecr=5-6 wscale=7",
        "eth:ethertype:ip:tcp",
        &[
            ("ip.src", ["10.0.0.9", "10.0.0.5", "10.0.0.1", "10.0.0.9"]),
            ("ip.id", ["0x0007"; 4]),
            ("ip.flags.df", ["0"; 4]),
            ("ip.hdr_len", ["24"; 4]),
            ("tcp.flags", ["0x0042", "0x0010", "0x0042", "0x0010"]),
            ("tcp.seq_raw", ["1", "2", "3", "4"]),
            ("tcp.window_size_value", ["100", "50", "0", "100"]),
            ("tcp.options.mss_val", ["1460"; 4]),
            ("tcp.options.timestamp.tsval", ["77"; 4]),
            ("tcp.options.timestamp.tsecr", ["5", "6", "5", "6"]),
            ("tcp.options.wscale.shift", ["7"; 4]),
            ("tcp.options.sack_perm", ["0402"; 4]),
        ],
    ),
    Case(
        "ipv6 src=2001:db8::/64 dst=2001:db8::ff label=1-9 dscp=8 hop-limit=5 hopopts dstopts udp \
         payload text=hello",
        "eth:ethertype:ipv6:ipv6.hopopts:ipv6.dstopts:udp:data",
        &[
            ("ipv6.src", ["2001:db8::", "2001:db8::1", "2001:db8::2", "2001:db8::3"]),
            ("ipv6.flow", ["0x000001", "0x000002", "0x000003", "0x000004"]),
            ("ipv6.hlim", ["5"; 4]),
            ("ipv6.tclass.dscp", ["8"; 4]),
        ],
    ),
    Case(
        "ipv6 routing left=0 data=00000000 fragment id=9 tcp",
        "eth:ethertype:ipv6:ipv6.routing:ipv6.fraghdr:tcp",
        &[("ipv6.fraghdr.ident", ["0x00000009"; 4])],
    ),
    Case(
        "icmp type=echo,reply id=7 seq=1-4 payload text='ping ping'",
        "eth:ethertype:ip:icmp:data",
        &[
            ("icmp.type", ["8", "0", "8", "0"]),
            ("icmp.seq", ["1", "2", "3", "4"]),
            ("icmp.ident", ["7"; 4]),
        ],
    ),
    Case(
        "icmpv6 seq=5-6 payload fill=count",
        "eth:ethertype:ipv6:icmpv6:data",
        &[("icmpv6.echo.sequence_number", ["5", "6", "5", "6"])],
    ),
    Case(
        "ns target=2001:db8::1-2001:db8::4",
        "eth:ethertype:ipv6:icmpv6",
        &[
            (
                "icmpv6.nd.ns.target_address",
                ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"],
            ),
            ("ipv6.hlim", ["255"; 4]),
        ],
    ),
    Case(
        "na target=2001:db8::1 mac=02:00:00:00:00:05",
        "eth:ethertype:ipv6:icmpv6",
        &[
            ("icmpv6.nd.na.target_address", ["2001:db8::1"; 4]),
            ("icmpv6.opt.linkaddr", ["02:00:00:00:00:05"; 4]),
        ],
    ),
    Case(
        "udp checksum=auto vxlan vni=1-3 vlan id=5 ipv6 udp src=10-12 payload fill=random",
        "eth:ethertype:ip:udp:vxlan:eth:ethertype:vlan:ethertype:ipv6:udp:data",
        &[
            ("vxlan.vni", ["1", "2", "3", "1"]),
            ("vlan.id", ["5"; 4]),
            ("udp.srcport", ["49152,10", "49152,11", "49152,12", "49152,10"]),
        ],
    ),
    Case(
        "gre checksum=auto key=1-3 seq=1-4 ipv4 src=10.1.0.0/16 tcp",
        "eth:ethertype:ip:gre:ip:tcp",
        &[
            ("gre.key", ["0x00000001", "0x00000002", "0x00000003", "0x00000001"]),
            ("gre.sequence_number", ["1", "2", "3", "4"]),
            (
                "ip.src",
                [
                    "198.18.0.1,10.1.0.0",
                    "198.18.0.1,10.1.0.1",
                    "198.18.0.1,10.1.0.2",
                    "198.18.0.1,10.1.0.3",
                ],
            ),
        ],
    ),
    Case(
        "ipv6 geneve vni=9 options=0102800100000007 eth ipv4 icmp",
        "eth:ethertype:ipv6:udp:geneve:eth:ethertype:ip:icmp:data",
        &[("geneve.vni", ["0x000009"; 4])],
    ),
];

#[test]
fn every_protocol_is_in_a_case() {
    for protocol in table::PROTOCOLS {
        let used = |case: &Case| {
            let recipe = case.0.parse::<Recipe>().unwrap().complete().unwrap();
            recipe.layers.iter().any(|layer| layer.protocol == protocol)
        };
        assert!(CASES.iter().any(used), "{protocol}");
        assert_eq!(table::of(protocol.id), protocol);
    }
}

#[test]
fn tshark_reads_what_was_described() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("packets.pcap");
    let mut packets = Vec::new();
    for Case(text, ..) in CASES {
        let template = text.parse::<Recipe>().unwrap().compile(0).unwrap();
        for k in 0..PACKETS {
            let mut packet = vec![0; template.min_len() + 40 + 7 * k as usize];
            template.write(k, &mut packet);
            packets.push(packet);
        }
    }
    write_pcap(&file, &packets);

    let mut fields = vec!["frame.protocols", "_ws.malformed"];
    let protocols = ["ip", "udp", "tcp", "icmp", "icmpv6", "gre"];
    let statuses = protocols.map(|protocol| format!("{protocol}.checksum.status"));
    fields.extend(statuses.iter().map(String::as_str));
    let known = fields.len();
    // tshark prints a field only once, even if it is requested twice.
    for (field, _) in CASES.iter().flat_map(|case| case.2) {
        if !fields.contains(field) {
            fields.push(field);
        }
    }
    let rows = read(&file, &fields);
    assert_eq!(rows.len(), packets.len());

    for (Case(text, layers, described), rows) in CASES.iter().zip(rows.chunks(PACKETS as usize)) {
        for row in rows {
            assert!(row[0].starts_with(layers), "{text}: {}", row[0]);
            assert_eq!(row[1], "", "{text}");
            for (status, protocol) in row[2..known].iter().zip(protocols) {
                // 1 means good. A GRE header or the UDP header of a tunnel may have no checksum.
                assert!(
                    status.split(',').all(|status| ["", "1"].contains(&status)),
                    "{text}: {protocol} {status}"
                );
                let there = layers.split(':').any(|layer| layer == protocol);
                let needed = there && (protocol != "gre" || text.contains("gre checksum"));
                assert_eq!(needed, !status.is_empty(), "{text}: {protocol}");
            }
        }
        for (field, expected) in *described {
            let column = fields.iter().position(|name| name == field).unwrap();
            let values: Vec<_> = rows.iter().map(|row| row[column].as_str()).collect();
            assert_eq!(values, expected, "{text}: {field}");
        }
    }
}

/// The values of fields, one row per packet, with checksum verification.
fn read(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=/t"]);
    for protocol in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let rows = process::run(&mut command);
    rows.lines().map(|row| row.split('\t').map(str::to_owned).collect()).collect()
}

/// Writes the classic pcap format.
fn write_pcap(file: &Path, packets: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    };
    words(&mut bytes, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for (i, packet) in packets.iter().enumerate() {
        words(&mut bytes, &[i as u32, 0, packet.len() as u32, packet.len() as u32]);
        bytes.extend_from_slice(packet);
    }
    std::fs::write(file, bytes).unwrap();
}
