//! TCP segments.

use wirelane_wire::{Protocol, TcpFlags, checksum};

use super::conversations::{ConnectionDirection, Conversations, InitialSequences};
use super::dns;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const MIN_LEN: usize = 20;
const FLAGS: [(u32, &str); 9] = [
    (0x01, "F"),
    (0x02, "S"),
    (0x04, "R"),
    (0x08, "P"),
    (0x10, "."),
    (0x20, "U"),
    (0x40, "E"),
    (0x80, "W"),
    (0x100, "e"),
];

/// Prints a segment. Sequence numbers are relative to the start of the connection once it is known,
/// unless the style requests absolute numbers.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    conversations: &mut Conversations,
    upper: &IpPayload<'a>,
) -> Step<'a> {
    let ports = upper.print_ports(line)?;
    let fixed: [u8; MIN_LEN] = upper.bytes.array(0)?;
    let fixed = CapturedBytes::new(&fixed, MIN_LEN);
    let offset = fixed.be16(12)?;
    let header_len = usize::from(offset >> 12) * 4;
    let len = upper.bytes.len();
    if header_len < MIN_LEN {
        line.put("tcp [bad hdr length ").count(header_len).put(" - too short, < 20]");
        return Ok(NextLayer::End);
    }
    if header_len > len {
        line.put("tcp [bad hdr length ")
            .count(header_len)
            .put(" - too long, > ")
            .count(len)
            .put("]");
        return Ok(NextLayer::End);
    }
    let flags = TcpFlags::from_bits(offset & 0x1ff);
    line.put("Flags [").bits(flags.bits().into(), &FLAGS, "").put("]");
    let (mut sequence, mut acknowledgment) = (fixed.be32(4)?, fixed.be32(8)?);
    let mut start = (0, 0);
    if flags.contains(TcpFlags::ACK) && !style.absolute {
        let direction = ConnectionDirection::of(upper.ends, ports.0, ports.1);
        let begins = flags.contains(TcpFlags::SYN);
        let (at, known): (InitialSequences, bool) =
            conversations.start(direction, sequence, acknowledgment, begins);
        start = at.sides(direction);
        if known {
            sequence = sequence.wrapping_sub(start.0);
            acknowledgment = acknowledgment.wrapping_sub(start.1);
        }
    }
    if style.verbose > 0 && upper.bytes.is_whole() && !upper.fragment {
        print_sum(line, upper, fixed.be16(16)?)?;
    }
    let payload = upper.bytes.after(header_len);
    let notable = TcpFlags::SYN.with(TcpFlags::FIN).with(TcpFlags::RST).bits() & flags.bits() != 0;
    if payload.len() > 0 || notable || style.verbose > 1 {
        line.put(", seq ").number(sequence);
        if payload.len() > 0 {
            // Packets are shorter than 2^32 bytes, and the sum wraps like sequence numbers.
            line.put(":").number(sequence.wrapping_add(payload.len() as u32));
        }
    }
    if flags.contains(TcpFlags::ACK) {
        line.put(", ack ").number(acknowledgment);
    }
    line.put(", win ").number(fixed.be16(14)?);
    if flags.contains(TcpFlags::URG) {
        line.put(", urg ").number(fixed.be16(18)?);
    }
    if header_len > MIN_LEN {
        line.put(", options [");
        print_options(line, upper.bytes.first(header_len).after(MIN_LEN), start.1)?;
        line.put("]");
    }
    line.put(", length ").count(payload.len());
    print_payload(line, style, ports, payload);
    Ok(NextLayer::End)
}

fn print_sum(line: &mut TextLine<'_>, upper: &IpPayload<'_>, stated: u16) -> Result<(), Truncated> {
    let sum = upper.ends.sum(Protocol::TCP, upper.bytes.captured())?;
    line.put(", cksum 0x").hex4(stated);
    if sum.is_valid() {
        line.put(" (correct)");
    } else {
        let right = sum.minus(checksum::Sum::of_field(stated)).checksum();
        line.put(" (incorrect -> 0x").hex4(right).put(")");
    }
    Ok(())
}

/// Adds the options; edges of selective acknowledgements are relative to `start`.
fn print_options(
    line: &mut TextLine<'_>,
    mut options: CapturedBytes<'_>,
    start: u32,
) -> Result<(), Truncated> {
    let mut first = true;
    while options.len() > 0 {
        line.put(if first { "" } else { "," });
        first = false;
        let kind = options.u8(0)?;
        if kind == 0 {
            line.put("eol");
            return Ok(());
        }
        let len = if kind == 1 { 1 } else { usize::from(options.u8(1)?) };
        if len > options.len() || kind != 1 && len < 2 {
            line.put("bad opt");
            return Ok(());
        }
        print_option(line, kind, options.first(len), start)?;
        options = options.after(len);
    }
    Ok(())
}

fn print_option(
    line: &mut TextLine<'_>,
    kind: u8,
    option: CapturedBytes<'_>,
    start: u32,
) -> Result<(), Truncated> {
    match kind {
        1 => _ = line.put("nop"),
        2 => _ = line.put("mss ").number(option.be16(2)?),
        3 => _ = line.put("wscale ").number(option.u8(2)?),
        4 => _ = line.put("sackOK"),
        5 => {
            line.put("sack ").count(option.len() / 8).put(" ");
            for at in (2..option.len().saturating_sub(7)).step_by(8) {
                line.put("{").number(option.be32(at)?.wrapping_sub(start)).put(":");
                line.number(option.be32(at + 4)?.wrapping_sub(start)).put("}");
            }
        }
        8 => _ = line.put("TS val ").number(option.be32(2)?).put(" ecr ").number(option.be32(6)?),
        19 => _ = line.put("md5 ").hex_bytes(option.after(2).captured()),
        28 => _ = line.put("uto 0x").hex(option.be16(2)?.into()),
        29 => _ = line.put("tcp-ao keyid ").number(option.u8(2)?),
        30 => _ = line.put("mptcp ").count(option.len()),
        34 => {
            line.put("tfo  ");
            match option.after(2).captured() {
                [] => _ = line.put("cookiereq"),
                cookie => _ = line.put("cookie ").hex_bytes(cookie),
            }
        }
        _ => {
            line.put("unknown-").number(kind);
            if option.len() > 2 {
                line.put(" 0x").hex_bytes(option.after(2).captured());
            }
        }
    }
    Ok(())
}

/// Adds a summary of DNS, or the first line of HTTP.
fn print_payload(
    line: &mut TextLine<'_>,
    style: &Style,
    ports: (u16, u16),
    payload: CapturedBytes<'_>,
) {
    let on = |port| ports.0 == port || ports.1 == port;
    if on(53) && payload.be16(0).is_ok_and(|len| usize::from(len) == payload.len() - 2) {
        line.put(" ");
        dns::print(line, style, payload.after(2), false);
    } else if on(80) || on(8080) || on(3128) {
        let first = payload.captured().split(|&byte| byte == b'\r' || byte == b'\n').next();
        if let Some(first) = first.filter(|first| is_http(first)) {
            line.put(": HTTP: ").foreign(first.get(..200).unwrap_or(first));
        }
    }
}

fn is_http(first: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"HTTP/1."];
    STARTS.iter().any(|start| first.starts_with(start))
}
