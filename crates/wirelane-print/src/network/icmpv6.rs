//! ICMPv6, with neighbor discovery.

use wirelane_wire::{Protocol, checksum};

use super::protocol;
use super::quoted;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpAddresses, IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const ADVERTISEMENT: [(u32, &str); 3] = [(0x80, "router"), (0x40, "solicited"), (0x20, "override")];
const ROUTER: [(u32, &str); 3] =
    [(0x80, "managed"), (0x40, "other stateful"), (0x20, "home agent")];
const PREFIX: [(u32, &str); 3] = [(0x80, "onlink"), (0x40, "auto"), (0x20, "router")];

/// Prints a message, and with `-v` the options of neighbor discovery.
pub(super) fn print<'a>(line: &mut TextLine<'_>, style: &Style, upper: &IpPayload<'a>) -> Step<'a> {
    let bytes = upper.bytes;
    if style.verbose > 0 && bytes.is_whole() && !upper.fragment {
        print_sum(line, upper)?;
    }
    let kind = bytes.u8(0)?;
    line.put("ICMP6, ");
    match name(kind) {
        Some(name) => line.put(name),
        None => line.put("unknown icmp6 type (").number(kind).put(")"),
    };
    print_message(line, bytes)?;
    line.put(", length ").count(bytes.len());
    if style.verbose > 0 {
        print_options(line, kind, bytes)?;
    }
    Ok(NextLayer::End)
}

fn print_sum(line: &mut TextLine<'_>, upper: &IpPayload<'_>) -> Result<(), Truncated> {
    let IpAddresses::V6 { .. } = upper.ends else { return Ok(()) };
    let sum = upper.ends.sum(Protocol::ICMPV6, upper.bytes.captured())?;
    if sum.is_valid() {
        line.put("[icmp6 sum ok] ");
        return Ok(());
    }
    let stated = upper.bytes.be16(2)?;
    let right = sum.minus(checksum::Sum::of_field(stated)).checksum();
    line.put("[bad icmp6 cksum 0x").hex4(stated).put(" -> 0x").hex4(right).put("!] ");
    Ok(())
}

fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        1 => "destination unreachable",
        2 => "packet too big",
        3 => "time exceeded in-transit",
        4 => "parameter problem",
        128 => "echo request",
        129 => "echo reply",
        130 => "multicast listener query",
        131 => "multicast listener report",
        132 => "multicast listener done",
        133 => "router solicitation",
        134 => "router advertisement",
        135 => "neighbor solicitation",
        136 => "neighbor advertisement",
        137 => "redirect",
        138 => "router renumbering",
        139 => "node information query",
        140 => "node information reply",
        141 => "inverse neighbor solicitation",
        142 => "inverse neighbor advertisement",
        143 => "multicast listener report v2",
        144 => "ha discovery request",
        145 => "ha discovery reply",
        146 => "mobile router solicitation",
        147 => "mobile router advertisement",
        155 => "RPL",
        _ => return None,
    })
}

fn print_message(line: &mut TextLine<'_>, bytes: CapturedBytes<'_>) -> Result<(), Truncated> {
    let [kind, code] = bytes.array(0)?;
    match kind {
        1 => print_unreachable(line, code, bytes)?,
        2 => _ = line.put(", mtu ").number(bytes.be32(4)?),
        3 => match code {
            0 => _ = line.put(" for ").ipv6(quoted::ipv6(bytes.after(8))?.destination),
            1 => _ = line.put(" (reassembly)"),
            _ => _ = line.put(", unknown code (").number(code).put(")"),
        },
        4 => {
            match code {
                0 => _ = line.put(", erroneous"),
                1 => _ = line.put(", next header"),
                2 => _ = line.put(", option"),
                3 => _ = line.put(", incomplete header chain"),
                _ => _ = line.put(", code-#").number(code),
            }
            line.put(" - octet ").number(bytes.be32(4)?);
        }
        128 | 129 => {
            _ = line.put(", id ").number(bytes.be16(4)?).put(", seq ").number(bytes.be16(6)?)
        }
        130 if bytes.len() >= 28 => {
            line.put(" v2 [gaddr ").ipv6(bytes.array(8)?).put(", ");
            line.number(bytes.be16(26)?).put(" source(s)]");
        }
        130..=132 => {
            line.put("max resp delay: ")
                .number(bytes.be16(4)?)
                .put(" addr: ")
                .ipv6(bytes.array(8)?);
        }
        135 => _ = line.put(", who has ").ipv6(bytes.array(8)?),
        136 => _ = line.put(", tgt is ").ipv6(bytes.array(8)?),
        137 => _ = line.put(", ").ipv6(bytes.array(24)?).put(" to ").ipv6(bytes.array(8)?),
        143 => _ = line.put(", ").number(bytes.be16(6)?).put(" group record(s)"),
        _ => {}
    }
    Ok(())
}

fn print_unreachable(
    line: &mut TextLine<'_>,
    code: u8,
    bytes: CapturedBytes<'_>,
) -> Result<(), Truncated> {
    let quoted = quoted::ipv6(bytes.after(8))?;
    let to = quoted.destination;
    match code {
        0 => _ = line.put(", unreachable route ").ipv6(to),
        1 => _ = line.put(", unreachable prohibited ").ipv6(to),
        2 => _ = line.put(", beyond scope ").ipv6(to).put(", source address ").ipv6(quoted.source),
        3 => _ = line.put(", unreachable address ").ipv6(to),
        4 => {
            line.put(", unreachable port, ").ipv6(to);
            match quoted.protocol {
                protocol::TCP => _ = line.put(" tcp"),
                protocol::UDP => _ = line.put(" udp"),
                other => _ = line.put(" protocol ").number(other),
            }
            line.put(" port ").number(quoted.port.ok_or(Truncated)?);
        }
        _ => _ = line.put(", unknown unreach code (").number(code).put(")"),
    }
    Ok(())
}

/// Adds the details of `-v`, with each option on a separate line.
fn print_options(
    line: &mut TextLine<'_>,
    kind: u8,
    bytes: CapturedBytes<'_>,
) -> Result<(), Truncated> {
    let mut options = match kind {
        133 => bytes.after(8),
        134 => {
            line.put("\n\thop limit ").number(bytes.u8(4)?);
            line.put(", Flags [").bits(bytes.u8(5)?.into(), &ROUTER, ", ");
            line.put("], router lifetime ").number(bytes.be16(6)?);
            line.put("s, reachable time ").number(bytes.be32(8)?);
            line.put("ms, retrans timer ").number(bytes.be32(12)?).put("ms");
            bytes.after(16)
        }
        135 => bytes.after(24),
        136 => {
            line.put(", Flags [").bits(bytes.u8(4)?.into(), &ADVERTISEMENT, ", ").put("]");
            bytes.after(24)
        }
        137 => bytes.after(40),
        _ => return Ok(()),
    };
    while options.len() > 0 {
        let [kind, units] = options.array(0)?;
        let len = usize::from(units) * 8;
        if len == 0 {
            return Err(Truncated);
        }
        print_option(line, kind, options.first(len))?;
        options = options.after(len);
    }
    Ok(())
}

fn print_option(
    line: &mut TextLine<'_>,
    kind: u8,
    option: CapturedBytes<'_>,
) -> Result<(), Truncated> {
    let name = match kind {
        1 => "source link-address",
        2 => "destination link-address",
        3 => "prefix info",
        4 => "redirected header",
        5 => "mtu",
        24 => "route info",
        25 => "rdnss",
        31 => "dnssl",
        _ => "unknown",
    };
    line.put("\n\t  ")
        .put(name)
        .put(" option (")
        .number(kind)
        .put("), length ")
        .count(option.len());
    match kind {
        1 | 2 => _ = line.put(": ").link_address(option.slice(2, option.len() - 2)?),
        3 => {
            line.put(": ").ipv6(option.array(16)?).put("/").number(option.u8(2)?);
            line.put(", Flags [").bits(option.u8(3)?.into(), &PREFIX, ", ").put("], valid time ");
            lifetime(line, option.be32(4)?);
            line.put(", pref. time ");
            lifetime(line, option.be32(8)?);
        }
        5 => _ = line.put(": ").number(option.be32(4)?),
        25 => {
            line.put(": lifetime ").number(option.be32(4)?).put("s,");
            for at in (8..option.len().saturating_sub(15)).step_by(16) {
                line.put(" addr: ").ipv6(option.array(at)?);
            }
        }
        _ => {}
    }
    Ok(())
}

fn lifetime(line: &mut TextLine<'_>, seconds: u32) {
    match seconds {
        u32::MAX => line.put("infinity"),
        _ => line.number(seconds).put("s"),
    };
}
