//! Header parts of variable length: IPv4 options and IPv6 segment routing. Their values are
//! constant.

use super::pattern::{self, PatternFormat, ValuePattern, constant, hex};
use super::place::{MapFields, NodePath};
use crate::error::Result;
use crate::protocol::Notation;
use crate::values::Values;

/// The options of an IPv4 header.
pub(super) fn read(options: &NodePath<'_>) -> Result<Vec<u8>> {
    let bytes = options.each(option)?.concat();
    // RFC 791 section 3.1: the header has at most 15 words, including 5 fixed words.
    if bytes.len() > 40 {
        return Err(options.error(format!("{} bytes of options; at most 40 fit", bytes.len())));
    }
    Ok(bytes)
}

fn option(place: NodePath<'_>) -> Result<Vec<u8>> {
    let fields = place.fields()?;
    let choices = ["router_alert", "custom", "timestamp", "end_of_options"];
    let bytes = match fields.choice(&choices, "router_alert")? {
        // RFC 2113.
        "router_alert" => vec![0x94, 4, 0, 0],
        "end_of_options" => vec![0],
        "custom" => custom(fields.part("custom"))?,
        _ => timestamp(fields.part("timestamp"))?,
    };
    fields.finish()?;
    Ok(bytes)
}

fn custom(place: NodePath<'_>) -> Result<Vec<u8>> {
    let fields = place.fields()?;
    let kind = fields.part("type").fields()?;
    let octet = constant(&kind, "copied_flag", 1)? << 7
        | constant(&kind, "option_class", 2)? << 5
        | constant(&kind, "option_number", 5)?;
    kind.finish()?;
    let value = match fields.get("value") {
        Some(value) => hex(&value)?,
        None => vec![0, 0],
    };
    let length = fields.part("length").fields()?;
    let length_octet = match length.choice(&["auto", "value"], "auto")? {
        "value" => length.need("value")?.integer(0, 255)?,
        _ => {
            length.get("auto");
            value.len() as u64 + 2
        }
    };
    length.finish()?;
    fields.finish()?;
    Ok([vec![octet as u8, length_octet as u8], value].concat())
}

/// RFC 791 section 3.1.
fn timestamp(place: NodePath<'_>) -> Result<Vec<u8>> {
    let fields = place.fields()?;
    let pointer = fields.part("pointer").fields()?;
    let pointer_octet = match pointer.choice(&["auto", "value"], "auto")? {
        "value" => pointer.need("value")?.integer(5, 40)?,
        _ => {
            pointer.get("auto");
            5
        }
    };
    pointer.finish()?;
    let overflow = constant(&fields, "overflow", 4)?;
    let format = fields.part("format").fields()?;
    let choices = ["timestamps", "address_and_timestamps", "prespecified_address_and_timestamps"];
    let choice = format.choice(&choices, "timestamps")?;
    let (flag, with_address) = match choice {
        "timestamps" => (0, false),
        "address_and_timestamps" => (1, true),
        _ => (3, true),
    };
    let entry = |entry: NodePath<'_>| {
        let fields = entry.fields()?;
        let address = if with_address { Some(address(&fields)?) } else { None };
        let time = constant(&fields, "timestamp", 32)? as u32;
        fields.finish()?;
        let address = address.map(u32::to_be_bytes);
        Ok([address.as_slice().concat(), time.to_be_bytes().to_vec()].concat())
    };
    let entries = format.part(choice).each(entry)?.concat();
    format.finish()?;
    fields.finish()?;
    let length = entries.len() as u64 + 4;
    Ok([vec![68, length as u8, pointer_octet as u8, (overflow << 4 | flag) as u8], entries]
        .concat())
}

fn address(fields: &MapFields<'_>) -> Result<u32> {
    Ok(one(fields.part("address"), PatternFormat { kind: Notation::Ipv4, bits: 32 })? as u32)
}

/// Parses a pattern with one value; 0 if it is absent.
fn one(place: NodePath<'_>, format: PatternFormat) -> Result<u128> {
    if place.is_absent() {
        return Ok(0);
    }
    match pattern::read(place, format, 0)? {
        ValuePattern::Values(Values::Constant(value)) => Ok(value),
        _ => Err(place.unsupported("not supported", "value")),
    }
}

/// The `segments left` field, and the rest of the header (RFC 8754 section 2).
pub(super) fn segment_routing(place: NodePath<'_>) -> Result<(u128, Vec<u8>)> {
    let fields = place.fields()?;
    let segments = fields.part("segment_list").each(|segment| {
        let fields = segment.fields()?;
        let address =
            one(fields.part("segment"), PatternFormat { kind: Notation::Ipv6, bits: 128 })?;
        fields.finish()?;
        Ok(address.to_be_bytes())
    })?;
    let last = segments.len().saturating_sub(1) as u128;
    let left = computed(&fields, "segments_left", last)?;
    let last_entry = computed(&fields, "last_entry", last)?;
    let flags = fields.part("flags").fields()?;
    // The bit positions from the drafts before RFC 8754.
    let octet = constant(&flags, "protected", 1)? << 6
        | constant(&flags, "oam", 1)? << 5
        | constant(&flags, "alert", 1)? << 4;
    flags.finish()?;
    let tag = constant(&fields, "tag", 16)? as u16;
    let mut data = vec![last_entry as u8, octet as u8];
    data.extend(tag.to_be_bytes());
    data.extend(segments.concat());
    if let Some(pad) = fields.get("pad_tlv") {
        pad.refuse("not supported; segments need no padding")?;
    }
    fields.finish()?;
    Ok((left, data))
}

fn computed(fields: &MapFields<'_>, name: &'static str, value: u128) -> Result<u128> {
    let place = fields.part(name);
    if place.is_absent() {
        return Ok(value);
    }
    match pattern::read(place, PatternFormat::number(8), 0)? {
        ValuePattern::Auto => Ok(value),
        ValuePattern::Values(Values::Constant(value)) => Ok(value),
        ValuePattern::Values(_) => Err(place.unsupported("not supported", "value, auto")),
    }
}
