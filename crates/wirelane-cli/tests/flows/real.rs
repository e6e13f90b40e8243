//! Captures of tcpdump's tests, and of real programs.

use std::path::PathBuf;

use wirelane_testkit::tools;

use crate::oracle;

/// Captures of tcpdump's tests: TCP, UDP, ICMP, fragments, tags and tunnels.
const CAPTURES: [&str; 20] = [
    "QinQpacket.pcap",
    "RADIUS.pcap",
    "afs.pcap",
    "dhcp-rfc4388.pcap",
    "dns_tcp.pcap",
    "dns_udp.pcap",
    "dnssec.pcap",
    "epgm_zmtp1.pcap",
    "forces3.pcap",
    "geneve.pcap",
    "icmpv6.pcap",
    "ip6_frag_asan.pcap",
    "ipv6-routing-header.pcap",
    "lisp_ipv6.pcap",
    "mptcp-v0.pcap",
    "mptcp-v1.pcap",
    "print-flags.pcap",
    "resp_1_benchmark.pcap",
    "sflow_multiple_counter_30_pdus.pcap",
    "vxlan.pcap",
];

#[test]
fn flows_of_others_captures_are_those_of_the_oracle() {
    if !tools::require("tshark") {
        return;
    }
    let directory = captures();
    let mut flows = 0;
    for name in CAPTURES {
        flows += oracle::compare(&directory.join(name), 15, 300);
    }
    assert!(flows >= 100, "{flows}");
}

/// Where `cargo xtask test setup` unpacks them: in the target directory, above this program.
fn captures() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory =
        test.ancestors().map(|it| it.join("unpacked/tcpdump/tests")).find(|it| it.is_dir());
    directory
        .expect("the captures of tcpdump's source package: `cargo xtask test setup` unpacks them")
}
