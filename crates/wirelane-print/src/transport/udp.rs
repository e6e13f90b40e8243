//! UDP datagrams.

use wirelane_wire::{Protocol, checksum, geneve, vxlan};

use super::{dns, tunnels};
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpAddresses, IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const LEN: usize = 8;

/// Prints a datagram: DNS and tunnels in detail, other known ports by name.
pub(super) fn print<'a>(line: &mut TextLine<'_>, style: &Style, upper: &IpPayload<'a>) -> Step<'a> {
    let ports = upper.print_ports(line)?;
    let stated = match upper.bytes.be16(4)? {
        0 if upper.bytes.len() > 0xffff => upper.bytes.len(),
        stated => stated.into(),
    };
    let whole = upper.bytes.first(stated);
    let checksum = whole.be16(6)?;
    let Some(stated) = stated.checked_sub(LEN) else {
        line.put("truncated-udplength ").count(stated);
        return Ok(NextLayer::End);
    };
    let payload = whole.after(LEN);
    if style.verbose > 0 && whole.is_whole() && !upper.fragment {
        print_sum(line, style, upper, whole, checksum)?;
    }
    let on = |port| ports.0 == port || ports.1 == port;
    if on(53) {
        dns::print(line, style, payload, false);
    } else if on(5353) || on(5355) {
        dns::print(line, style, payload, on(5353));
    } else if on(vxlan::PORT) {
        return tunnels::print_vxlan(line, style, payload);
    } else if on(geneve::PORT) {
        return tunnels::print_geneve(line, style, payload);
    } else if stated > payload.len() && !upper.fragment {
        line.put(name(ports)).put(", bad length ").count(stated).put(" > ").count(payload.len());
    } else {
        line.put(name(ports)).put(", length ").count(stated);
    }
    Ok(NextLayer::End)
}

fn print_sum(
    line: &mut TextLine<'_>,
    style: &Style,
    upper: &IpPayload<'_>,
    whole: CapturedBytes<'_>,
    stated: u16,
) -> Result<(), Truncated> {
    if let IpAddresses::V4 { .. } = upper.ends {
        if style.verbose < 2 {
            return Ok(());
        }
        if stated == 0 {
            line.put("[no cksum] ");
            return Ok(());
        }
    }
    let sum = upper.ends.sum(Protocol::UDP, whole.captured())?;
    if sum.is_valid() {
        line.put("[udp sum ok] ");
    } else {
        let right = sum.minus(checksum::Sum::of_field(stated)).checksum_nonzero();
        line.put("[bad udp cksum 0x").hex4(stated).put(" -> 0x").hex4(right).put("!] ");
    }
    Ok(())
}

fn name(ports: (u16, u16)) -> &'static str {
    named(ports.1).or_else(|| named(ports.0)).unwrap_or("UDP")
}

fn named(port: u16) -> Option<&'static str> {
    Some(match port {
        67 | 68 => "BOOTP/DHCP",
        69 => "TFTP",
        88 => "Kerberos",
        123 => "NTP",
        137 | 138 => "NetBIOS",
        161 | 162 => "SNMP",
        319 | 320 => "PTP",
        443 => "QUIC",
        500 => "isakmp",
        514 => "SYSLOG",
        520 => "RIP",
        521 => "RIPng",
        546 | 547 => "dhcp6",
        646 => "LDP",
        1701 => "l2tp",
        1812 | 1813 | 1645 | 1646 => "RADIUS",
        1900 => "SSDP",
        3784 | 4784 => "BFD",
        4500 => "UDP-encap",
        4790 => "VXLAN-GPE",
        5060 => "SIP",
        6343 => "sFlow",
        6635 => "MPLS",
        51820 => "WireGuard",
        _ => return None,
    })
}
