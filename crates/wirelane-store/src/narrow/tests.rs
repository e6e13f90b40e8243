use wirelane_filter::compile;

use super::*;

fn plan(expression: &str, link_type: u16) -> Plan {
    Plan::new(&compile(expression, link_type, 65_535).unwrap())
}

/// The terms depend on the order in which libpcap tests, which is the same since 1.0.
#[test]
fn what_the_index_knows_is_asked() {
    const TAG: &str = "(type 0x8100 or type 0x88a8 or type 0x9100)";
    const PORTS: &str = "(protocol 132 or protocol 6 or protocol 17)";
    for (expression, asked) in [
        ("arp", "type 0x0806"),
        ("host 10.0.0.1", "(type 0x0800 or type 0x0806 or type 0x8035) and address 10.0.0.1"),
        ("ip net 10.128.0.0/9", "type 0x0800 and address 10.128.0.0/9"),
        ("ip[12:4] = 0x0a000001", "type 0x0800 and address 10.0.0.1"),
        ("host 2001:db8::1", "type 0x86dd and address 2001:db8::1"),
        ("net 2001:db8::/36", "type 0x86dd and address 2001:db8::/36"),
        (
            "ip6 host 2001:db8::1 or ip6 host 2001:db8::2 or ip6 host 2001:db9::3",
            "type 0x86dd and (address 2001:db8::1 or address 2001:db8::2 or address 2001:db9::3)",
        ),
        (
            "tcp port 443 and host 10.0.0.1",
            "type 0x0800 and protocol 6 and port 443 and address 10.0.0.1",
        ),
        (
            "portrange 100-200",
            &format!("(type 0x86dd or type 0x0800) and {PORTS} and port 100-200"),
        ),
        ("icmp", "type 0x0800 and protocol 1"),
        ("udp", "(type 0x0800 or type 0x86dd) and protocol 17"),
        ("vlan 5", &format!("{TAG} and vlan 5")),
        ("vlan and ip host 10.0.0.1", &format!("{TAG} and type 0x0800 and address 10.0.0.1")),
        // Inner headers have no keys, the outer ones do.
        ("mpls and host 1.2.3.4", "type 0x8847"),
        ("pppoes and port 3", "type 0x8864"),
        ("geneve and port 3", "(type 0x0800 or type 0x86dd) and protocol 17 and port 6081"),
        ("tcp[13] & 2 != 0 and dst port 80", "type 0x0800 and protocol 6 and port 80"),
    ] {
        assert_eq!(plan(expression, 1).to_string(), asked, "{expression}");
    }
    for link_type in [101, 113, 276] {
        let asked = "type 0x0800 and protocol 6 and port 443 and address 10.0.0.1";
        let plan = plan("tcp port 443 and host 10.0.0.1", link_type);
        assert_eq!(plan.to_string(), asked, "link type {link_type}");
    }
}

#[test]
fn what_the_index_does_not_know_asks_nothing() {
    for expression in
        ["", "not port 80", "greater 1000", "ether host 2:0:0:0:0:1", "arp or less 10"]
    {
        assert!(plan(expression, 1).is_all(), "{expression}");
    }
    // 105: IEEE 802.11.
    assert!(plan("host 10.0.0.1", 105).is_all());
}
