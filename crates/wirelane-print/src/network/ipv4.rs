//! IPv4 headers.

use wirelane_wire::checksum;

use super::protocol;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpAddresses, IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const MIN_LEN: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const FLAGS: [(u32, &str); 3] = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];

/// Prints the header as requested by `style`.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let first = bytes.u8(0)?;
    if first >> 4 != 4 {
        line.put(if first >> 4 == 6 {
            "IP6, wrong link-layer encapsulation"
        } else {
            "IP version "
        });
        if first >> 4 != 6 {
            line.number(first >> 4);
        }
        line.put(" (invalid)");
        return Ok(NextLayer::End);
    }
    if !style.link {
        line.put("IP ");
    }
    let header = Ipv4Fields::new(bytes)?;
    if bytes.len() < MIN_LEN || header.len < MIN_LEN {
        line.put("bad-hlen ").count(header.len.min(bytes.len()));
        return Ok(NextLayer::End);
    }
    if header.total > bytes.len() {
        line.put("truncated-ip - ").count(header.total - bytes.len()).put(" bytes missing! ");
    }
    // Segments above 64 KiB, captured before segmentation, state no length (BIG TCP).
    let total = if header.total == 0 { bytes.len() } else { header.total };
    if total < header.len {
        line.put("bad-len ").count(total);
        return Ok(NextLayer::End);
    }
    let bytes = bytes.first(total);
    let payload = bytes.after(header.len);
    let payload = CapturedBytes::new(payload.captured(), total - header.len);
    if style.verbose > 0 {
        header.print(line, bytes)?;
    }
    Ok(header.go_on(line, payload))
}

struct Ipv4Fields {
    len: usize,
    total: usize,
    service: u8,
    identification: u16,
    fragment: u16,
    ttl: u8,
    protocol: u8,
    ends: IpAddresses,
}

impl Ipv4Fields {
    fn new(bytes: CapturedBytes<'_>) -> Result<Self, Truncated> {
        let fixed: [u8; MIN_LEN] = bytes.array(0)?;
        let fixed = CapturedBytes::new(&fixed, MIN_LEN);
        Ok(Self {
            len: usize::from(fixed.u8(0)? & 15) * 4,
            total: fixed.be16(2)?.into(),
            service: fixed.u8(1)?,
            identification: fixed.be16(4)?,
            fragment: fixed.be16(6)?,
            ttl: fixed.u8(8)?,
            protocol: fixed.u8(9)?,
            ends: IpAddresses::V4 { source: fixed.array(12)?, destination: fixed.array(16)? },
        })
    }

    fn offset(&self) -> u32 {
        u32::from(self.fragment & 0x1fff) * 8
    }

    /// Adds the fields of the header, in brackets and on a separate line.
    fn print(&self, line: &mut TextLine<'_>, bytes: CapturedBytes<'_>) -> Result<(), Truncated> {
        line.put("(tos 0x").hex(self.service.into());
        line.put(
            ["", ",ECT(1)", ",ECT(0)", ",CE"].get(usize::from(self.service & 3)).unwrap_or(&""),
        );
        if self.ttl > 0 {
            line.put(", ttl ").number(self.ttl);
        }
        line.put(", id ").number(self.identification).put(", offset ").number(self.offset());
        line.put(", flags [").bits(self.fragment.into(), &FLAGS, ", ").put("], proto ");
        line.put(protocol::name(self.protocol).unwrap_or("unknown"));
        line.put(" (").number(self.protocol).put("), length ").count(self.total);
        let mut cut = false;
        if self.len > MIN_LEN {
            line.put(", options (");
            cut = print_options(line, bytes.first(self.len).after(MIN_LEN)).is_err();
            line.put(if cut { " [truncated-option])" } else { ")" });
        }
        if let Ok(header) = bytes.slice(0, self.len) {
            let sum = checksum::sum(header);
            if !sum.is_valid() {
                let stated = bytes.be16(10)?;
                let right = sum.minus(checksum::Sum::of_field(stated)).checksum();
                line.put(", bad cksum ").hex(stated.into()).put(" (->").hex(right.into()).put(")!");
            }
        }
        line.put(")\n    ");
        if cut { Err(Truncated) } else { Ok(()) }
    }

    fn go_on<'a>(&self, line: &mut TextLine<'_>, payload: CapturedBytes<'a>) -> NextLayer<'a> {
        if self.offset() == 0 {
            if !protocol::has_ports(self.protocol) {
                self.ends.print(line);
            }
            return NextLayer::Upper(IpPayload {
                protocol: self.protocol,
                ends: self.ends,
                named: false,
                fragment: self.fragment & MORE_FRAGMENTS != 0,
                bytes: payload,
            });
        }
        self.ends.print(line);
        line.put("frag (").number(self.offset()).put("|").count(payload.len()).put(")");
        match protocol::name(self.protocol) {
            Some(name) => line.put(" ").put(name),
            None => line.put(" ip-proto-").number(self.protocol),
        };
        NextLayer::End
    }
}

fn print_options(line: &mut TextLine<'_>, mut options: CapturedBytes<'_>) -> Result<(), Truncated> {
    let mut first = true;
    while options.len() > 0 {
        let kind = options.u8(0)?;
        if !first {
            line.put(",");
        }
        first = false;
        let name = match kind {
            0 => "EOL",
            1 => "NOP",
            7 => "RR",
            68 => "timestamp",
            82 => "traceroute",
            130 => "security",
            131 => "LSRR",
            137 => "SSRR",
            148 => "RA",
            _ => "",
        };
        if name.is_empty() {
            line.put("unknown ").number(kind);
        } else {
            line.put(name);
        }
        let len = match kind {
            0 => return Ok(()),
            1 => 1,
            _ => usize::from(options.u8(1)?),
        };
        if kind != 1 && (len < 2 || len > options.len()) {
            line.put(" [bad length ").count(len).put("]");
            return Ok(());
        }
        if matches!(kind, 7 | 131 | 137) {
            print_route(line, options.first(len))?;
        }
        options = options.after(len);
    }
    Ok(())
}

/// Adds the addresses of a route; a comma follows the next address.
fn print_route(line: &mut TextLine<'_>, option: CapturedBytes<'_>) -> Result<(), Truncated> {
    let pointer = usize::from(option.u8(2)?);
    for at in (3..option.len().saturating_sub(3)).step_by(4) {
        line.put(" ").ipv4(option.array(at)?);
        if at + 1 == pointer {
            line.put(",");
        }
    }
    Ok(())
}
