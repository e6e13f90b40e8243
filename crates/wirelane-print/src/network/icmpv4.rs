//! ICMP.

use wirelane_wire::checksum;

use super::protocol;
use super::quoted;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

/// Prints a message; with `-v` also the packet that an error quotes.
pub(super) fn print<'a>(line: &mut TextLine<'_>, style: &Style, upper: &IpPayload<'a>) -> Step<'a> {
    let bytes = upper.bytes;
    let kind = bytes.u8(0)?;
    line.put("ICMP ");
    print_message(line, bytes)?;
    line.put(", length ").count(bytes.len());
    if style.verbose == 0 {
        return Ok(NextLayer::End);
    }
    if bytes.is_whole() && !upper.fragment {
        let sum = checksum::sum(bytes.captured());
        if !sum.is_valid() {
            let stated = bytes.be16(2)?;
            let right = sum.minus(checksum::Sum::of_field(stated)).checksum();
            line.put(" (wrong icmp cksum ")
                .hex(stated.into())
                .put(" (->")
                .hex(right.into())
                .put(")!)");
        }
    }
    if !matches!(kind, 3 | 4 | 5 | 11 | 12) || bytes.len() <= 8 {
        return Ok(NextLayer::End);
    }
    line.put("\n\t");
    // The quotation is partial, which is no truncation of this packet: use the length in the quoted
    // header.
    let quoted = bytes.after(8);
    let len = quoted.be16(2)?;
    Ok(NextLayer::Ip(CapturedBytes::new(quoted.captured(), len.into())))
}

fn print_message(line: &mut TextLine<'_>, bytes: CapturedBytes<'_>) -> Result<(), Truncated> {
    let [kind, code] = bytes.array(0)?;
    match kind {
        0 | 8 => {
            line.put(if kind == 8 { "echo request, id " } else { "echo reply, id " });
            line.number(bytes.be16(4)?).put(", seq ").number(bytes.be16(6)?);
        }
        3 => print_unreachable(line, code, bytes)?,
        4 => _ = line.put("source quench"),
        5 => {
            let quoted = quoted::ipv4(bytes.after(8))?;
            line.put(if code == 2 || code == 3 { "redirect-tos " } else { "redirect " });
            line.ipv4(quoted.destination).put(if code % 2 == 0 { " to net " } else { " to host " });
            line.ipv4(bytes.array(4)?);
        }
        9 => _ = line.put("router advertisement lifetime ").number(bytes.be16(6)?).put(" s"),
        10 => _ = line.put("router solicitation"),
        11 => match code {
            0 => _ = line.put("time exceeded in-transit"),
            1 => _ = line.put("ip reassembly time exceeded"),
            _ => _ = line.put("time exceeded-#").number(code),
        },
        12 if code == 0 => _ = line.put("parameter problem - octet ").number(bytes.u8(4)?),
        12 => _ = line.put("parameter problem - code ").number(code),
        13 | 14 => {
            line.put(if kind == 13 { "time stamp query id " } else { "time stamp reply id " });
            line.number(bytes.be16(4)?).put(" seq ").number(bytes.be16(6)?);
        }
        15 => _ = line.put("information request"),
        16 => _ = line.put("information reply"),
        17 => _ = line.put("address mask request"),
        18 => _ = line.put("address mask is 0x").hex_bytes(bytes.slice(8, 4)?),
        _ => _ = line.put("type-#").number(kind),
    }
    Ok(())
}

fn print_unreachable(
    line: &mut TextLine<'_>,
    code: u8,
    bytes: CapturedBytes<'_>,
) -> Result<(), Truncated> {
    let quoted = quoted::ipv4(bytes.after(8))?;
    let to = quoted.destination;
    match code {
        0 => _ = line.put("net ").ipv4(to).put(" unreachable"),
        1 => _ = line.put("host ").ipv4(to).put(" unreachable"),
        2 => _ = line.ipv4(to).put(" protocol ").number(quoted.protocol).put(" unreachable"),
        3 => {
            line.ipv4(to);
            match quoted.protocol {
                protocol::TCP => _ = line.put(" tcp"),
                protocol::UDP => _ = line.put(" udp"),
                other => _ = line.put(" protocol ").number(other),
            }
            line.put(" port ").number(quoted.port.ok_or(Truncated)?).put(" unreachable");
        }
        4 => {
            line.ipv4(to).put(" unreachable - need to frag");
            let mtu = bytes.be16(6)?;
            if mtu != 0 {
                line.put(" (mtu ").number(mtu).put(")");
            }
        }
        5 => _ = line.ipv4(to).put(" unreachable - source route failed"),
        6 => _ = line.put("net ").ipv4(to).put(" unreachable - unknown"),
        7 => _ = line.put("host ").ipv4(to).put(" unreachable - unknown"),
        8 => _ = line.ipv4(to).put(" unreachable - source host isolated"),
        9 => _ = line.put("net ").ipv4(to).put(" unreachable - admin prohibited"),
        10 => _ = line.put("host ").ipv4(to).put(" unreachable - admin prohibited"),
        11 => _ = line.put("net ").ipv4(to).put(" unreachable - tos prohibited"),
        12 => _ = line.put("host ").ipv4(to).put(" unreachable - tos prohibited"),
        13 => _ = line.put("host ").ipv4(to).put(" unreachable - admin prohibited filter"),
        14 => _ = line.put("host ").ipv4(to).put(" unreachable - host precedence violation"),
        15 => _ = line.put("host ").ipv4(to).put(" unreachable - precedence cutoff"),
        _ => _ = line.ipv4(to).put(" unreachable - #").number(code),
    }
    Ok(())
}
