//! ARP and its reverse.

use wirelane_wire::EtherType;

use super::ethertype;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

/// Prints the request or reply, and the length.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let fields = ArpFields::new(bytes)?;
    if !style.link {
        line.put("ARP, ");
    }
    let known =
        fields.protocol == EtherType::IPV4.0 && fields.address_len == 4 && fields.link_len > 0;
    if !known || style.verbose > 0 {
        line.put(if fields.hardware == 1 { "Ethernet" } else { "Hardware " });
        if fields.hardware != 1 {
            line.number(fields.hardware);
        }
        line.put(" (len ").count(fields.link_len).put("), ");
        match ethertype::name(fields.protocol) {
            Some(name) => line.put(name),
            None => line.put("Unknown Protocol (0x").hex4(fields.protocol).put(")"),
        };
        line.put(" (len ").count(fields.address_len).put(")");
    }
    if known {
        line.put(if style.verbose > 0 { ", " } else { "" });
        fields.print(line, bytes)?;
    }
    line.put(", length ").count(bytes.len());
    Ok(NextLayer::End)
}

struct ArpFields {
    hardware: u16,
    protocol: u16,
    link_len: usize,
    address_len: usize,
}

impl ArpFields {
    fn new(bytes: CapturedBytes<'_>) -> Result<Self, Truncated> {
        let fields = Self {
            hardware: bytes.be16(0)?,
            protocol: bytes.be16(2)?,
            link_len: bytes.u8(4)?.into(),
            address_len: bytes.u8(5)?.into(),
        };
        bytes.slice(8, 2 * (fields.link_len + fields.address_len))?;
        Ok(fields)
    }

    fn print(&self, line: &mut TextLine<'_>, bytes: CapturedBytes<'_>) -> Result<(), Truncated> {
        let sender_link = bytes.slice(8, self.link_len)?;
        let sender = bytes.array(8 + self.link_len)?;
        let target_link = bytes.slice(12 + self.link_len, self.link_len)?;
        let target = bytes.array(12 + 2 * self.link_len)?;
        let operation = bytes.be16(6)?;
        match operation {
            1 => {
                line.put("Request who-has ").ipv4(target);
                if target_link.iter().any(|&byte| byte != 0) {
                    line.put(" (").link_address(target_link).put(")");
                }
                line.put(" tell ").ipv4(sender);
            }
            2 => _ = line.put("Reply ").ipv4(sender).put(" is-at ").link_address(sender_link),
            3 | 8 => {
                line.put(if operation == 3 {
                    "Reverse Request who-is "
                } else {
                    "Inverse Request who-is "
                });
                line.link_address(target_link).put(" tell ").link_address(sender_link);
            }
            4 => _ = line.put("Reverse Reply ").link_address(target_link).put(" at ").ipv4(target),
            9 => _ = line.put("Inverse Reply ").link_address(sender_link).put(" at ").ipv4(sender),
            _ => _ = line.put("Unknown (").number(operation).put(")"),
        }
        Ok(())
    }
}
