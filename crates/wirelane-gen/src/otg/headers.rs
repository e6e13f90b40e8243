//! Converts the packet headers of the model to layers of a recipe.

use super::fields::{Absent, FieldMapping, HEADERS, OTHERS, SUPPORTED, row};
use super::options;
use super::pattern::{
    self, HeaderChecksum, PatternFormat, ValuePattern, combine, constant, hex, part,
};
use super::place::{MapFields, NodePath};
use crate::error::Result;
use crate::protocol::Id;
use crate::recipe::{Layer, Recipe, Value};
use crate::table;
use crate::values::Values;

/// The headers of a flow.
pub(super) struct OtgHeaders {
    pub(super) layers: Vec<Layer>,
    /// Bytes after the last layer.
    pub(super) custom: Vec<u8>,
}

impl OtgHeaders {
    /// The smallest length of a packet, including `reserved` bytes at the end.
    pub(super) fn room(&self, reserved: usize) -> Result<usize> {
        let template = Recipe { layers: self.layers.clone() }.compile(reserved)?;
        let custom = self.custom.len();
        Ok((template.head().len() + custom + reserved).max(template.min_len()))
    }
}

/// Parses the headers of a flow.
pub(super) fn read(packet: Option<NodePath<'_>>) -> Result<OtgHeaders> {
    let mut read = OtgHeaders { layers: Vec::new(), custom: Vec::new() };
    if let Some(packet) = packet {
        packet.each(|header| add(header, &mut read))?;
    }
    if read.layers.is_empty() {
        // A packet without headers in the model: an Ethernet header with zero addresses.
        read.layers
            .extend(table::named("eth").map(|protocol| Layer { protocol, settings: vec![] }));
        for layer in &mut read.layers {
            let zeros = layer.set("dst", Values::Constant(0));
            let _ = zeros.and_then(|layer| layer.set("src", Values::Constant(0)));
        }
    }
    fall_back(&mut read.layers);
    Ok(read)
}

/// Sets the next-protocol values that the model specifies for the last header.
fn fall_back(layers: &mut [Layer]) {
    let Some(last) = layers.last_mut() else { return };
    let (field, value) = match last.protocol.id {
        Id::Eth => ("type", 0xffff),
        Id::Ipv4 => ("protocol", 61),
        Id::Ipv6 | Id::Routing => ("next", 59),
        Id::Gre => ("protocol", 0x0800),
        _ => return,
    };
    if last.get(field).is_none() {
        let _ = last.set(field, Values::Constant(value));
    }
}

fn add(place: NodePath<'_>, packet: &mut OtgHeaders) -> Result<()> {
    let fields = place.fields()?;
    let all: Vec<_> = SUPPORTED.iter().chain(&OTHERS).copied().collect();
    let choice = fields.choice_of(&all, &SUPPORTED, "ethernet")?;
    let header = fields.part(choice);
    if OTHERS.contains(&choice) {
        return Err(header.unsupported("this header is not supported", &SUPPORTED.join(", ")));
    }
    if !packet.custom.is_empty() {
        return Err(header.unsupported("a header after custom bytes", "custom bytes at the end"));
    }
    if packet.layers.is_empty() && !matches!(choice, "ethernet" | "custom") {
        let what = "the first header is 'ethernet', or 'custom' with the whole frame";
        return Err(header.error(what));
    }
    match choice {
        "custom" => custom(header, packet)?,
        "ipv6_extension_header" => extension(header, &mut packet.layers)?,
        "icmp" | "icmpv6" => {
            let echo = header.fields()?;
            echo.choice(&["echo"], "echo")?;
            layer(echo.part("echo"), choice, &mut packet.layers)?;
            echo.finish()?;
        }
        _ => layer(header, choice, &mut packet.layers)?,
    }
    fields.finish()
}

/// Adds a header that maps to a layer.
fn layer(place: NodePath<'_>, name: &str, layers: &mut Vec<Layer>) -> Result<()> {
    let Some(header) = HEADERS.iter().find(|header| header.model == name) else {
        return Err(place.unsupported("this header is not supported", &SUPPORTED.join(", ")));
    };
    let mut layer = Layer::named(header.protocol).map_err(|error| place.located(error))?;
    let fields = place.fields()?;
    for row in header.rows {
        set_row(&mut layer, &fields, row)?;
    }
    for (name, due) in header.fixed {
        if let Some(field) = fields.get(name) {
            fixed(field, *due)?;
        }
    }
    if header.checksum {
        set_checksum(&mut layer, &fields, "checksum")?;
    }
    match name {
        "vlan" => tag_protocol(&fields, layers)?,
        "ipv4" => ipv4(&mut layer, &fields)?,
        "ipv6" => ipv6(&mut layer, &fields)?,
        "tcp" => tcp(&mut layer, &fields)?,
        "gre" => gre(&mut layer, &fields)?,
        _ => {}
    }
    fields.finish()?;
    let is_routed = layers.last().is_some_and(|before| {
        let done = Some(&Value::Numbers(Values::Constant(0)));
        before.protocol.id == Id::Routing && before.get("left") != done
    });
    if is_routed && matches!(layer.protocol.id, Id::Udp | Id::Tcp | Id::Icmpv6) {
        // RFC 8200 section 8.1: the checksum includes the last destination, which is not in the
        // IPv6 header.
        let what = "its checksum counts the last segment, not the destination that IPv6 has";
        return Err(place.unsupported(what, "ipv4 and ipv6 after segment routing"));
    }
    layers.push(layer);
    Ok(())
}

fn set_row(layer: &mut Layer, fields: &MapFields<'_>, row: &FieldMapping) -> Result<()> {
    let Some(field) = layer.protocol.field(row.recipe) else {
        return Err(fields.place().error(format!("no field '{}'", row.recipe)));
    };
    let format = PatternFormat { kind: field.kind, bits: field.bits };
    let place = fields.part(row.model);
    let default = match row.absent {
        Absent::Value(value) | Absent::Fallback(value) | Absent::Unset(value) => value,
        Absent::Computed => 0,
    };
    let pattern = match (place.is_absent(), row.absent) {
        (true, Absent::Computed | Absent::Unset(_)) => return Ok(()),
        (true, Absent::Value(value) | Absent::Fallback(value)) => {
            ValuePattern::Values(Values::Constant(value))
        }
        (false, _) => pattern::read(place, format, default)?,
    };
    let values = match (pattern, row.absent) {
        (ValuePattern::Values(Values::Constant(value)), Absent::Unset(unset)) if value == unset => {
            return Ok(());
        }
        (ValuePattern::Values(values), _) => values,
        (ValuePattern::Auto, Absent::Computed | Absent::Unset(_)) => return Ok(()),
        (ValuePattern::Auto, Absent::Fallback(value)) => Values::Constant(value),
        (ValuePattern::Auto, Absent::Value(_)) => {
            let supported = "value, values, increment, decrement, random";
            return Err(place.unsupported("'auto' is not supported here", supported));
        }
    };
    set(layer, &place, row.recipe, values)
}

fn set(layer: &mut Layer, place: &NodePath<'_>, name: &str, values: Values) -> Result<()> {
    layer.set(name, values).map_err(|error| place.located(error))?;
    Ok(())
}

fn set_bytes(layer: &mut Layer, place: &NodePath<'_>, name: &str, bytes: Vec<u8>) -> Result<()> {
    layer.set_bytes(name, bytes).map_err(|error| place.located(error))?;
    Ok(())
}

/// Checks a field whose only supported value is `due`.
fn fixed(place: NodePath<'_>, due: u64) -> Result<()> {
    match pattern::read(place, PatternFormat::number(64), 0)? {
        ValuePattern::Auto => Ok(()),
        ValuePattern::Values(Values::Constant(value)) if value == due.into() => Ok(()),
        ValuePattern::Values(_) => Err(place.unsupported("not supported", &due.to_string())),
    }
}

fn set_checksum(layer: &mut Layer, fields: &MapFields<'_>, name: &'static str) -> Result<()> {
    let place = fields.part(name);
    match pattern::checksum(place)? {
        HeaderChecksum::Custom(value) => set(layer, &place, "checksum", Values::Constant(value)),
        // UDP below a tunnel has no checksum by default, but the model requires one.
        HeaderChecksum::Good if layer.protocol.id == Id::Udp => {
            layer.set_auto("checksum").map_err(|error| place.located(error))?;
            Ok(())
        }
        HeaderChecksum::Good => Ok(()),
    }
}

/// The TPID of a tag is the type field of the preceding header.
fn tag_protocol(fields: &MapFields<'_>, layers: &mut [Layer]) -> Result<()> {
    const UNSET: u128 = 0xffff;
    let Some(place) = fields.get("tpid") else {
        return Ok(());
    };
    let values = match pattern::read(place, PatternFormat::number(16), UNSET)? {
        ValuePattern::Auto | ValuePattern::Values(Values::Constant(UNSET)) => return Ok(()),
        ValuePattern::Values(values) => values,
    };
    let Some(before) = layers.last_mut().filter(|before| before.protocol.field("type").is_some())
    else {
        return Err(place.error("only after 'ethernet' and 'vlan'"));
    };
    match before.get("type") {
        Some(Value::Numbers(given)) if *given == values => Ok(()),
        Some(_) => Err(place.error("differs from the 'ether_type' before it")),
        None => set(before, &place, "type", values),
    }
}

fn ipv4(layer: &mut Layer, fields: &MapFields<'_>) -> Result<()> {
    set_checksum(layer, fields, "header_checksum")?;
    let place = fields.part("priority");
    let priority = place.fields()?;
    let octet = match priority.choice(&["dscp", "raw", "tos"], "dscp")? {
        "dscp" => {
            let dscp = priority.part("dscp");
            let dscp = dscp.fields()?;
            set(layer, &place, "dscp", part(&dscp, "phb", 6)?.0)?;
            set(layer, &place, "ecn", part(&dscp, "ecn", 2)?.0)?;
            dscp.finish()?;
            None
        }
        "raw" => Some(part(&priority, "raw", 8)?.0),
        _ => {
            let tos = priority.part("tos");
            let tos = tos.fields()?;
            let parts = [
                part(&tos, "precedence", 3)?,
                part(&tos, "delay", 1)?,
                part(&tos, "throughput", 1)?,
                part(&tos, "reliability", 1)?,
                part(&tos, "monetary", 1)?,
                part(&tos, "unused", 1)?,
            ];
            tos.finish()?;
            Some(combine(&place, &parts, |parts| {
                parts[1..].iter().fold(parts[0], |octet, bit| octet << 1 | bit)
            })?)
        }
    };
    if let Some(octet) = octet {
        split_octet(layer, &place, octet)?;
    }
    priority.finish()?;
    let bytes = options::read(&fields.part("options"))?;
    if !bytes.is_empty() {
        set_bytes(layer, &fields.part("options"), "options", bytes)?;
    }
    Ok(())
}

/// Splits an octet: the upper six bits are the DSCP, the others ECN.
fn split_octet(layer: &mut Layer, place: &NodePath<'_>, octet: Values) -> Result<()> {
    let octet = [(octet, 8)];
    set(layer, place, "dscp", combine(place, &octet, |octet| octet[0] >> 2)?)?;
    set(layer, place, "ecn", combine(place, &octet, |octet| octet[0] & 3)?)
}

fn ipv6(layer: &mut Layer, fields: &MapFields<'_>) -> Result<()> {
    let place = fields.part("traffic_class");
    split_octet(layer, &place, part(fields, "traffic_class", 8)?.0)?;
    match fields.get("dst_usids") {
        Some(usids) => usids.refuse("not supported; write the whole address into 'dst'"),
        None => Ok(()),
    }
}

fn tcp(layer: &mut Layer, fields: &MapFields<'_>) -> Result<()> {
    // From the highest bit to the lowest.
    const FLAGS: [&str; 9] = [
        "ecn_ns", "ecn_cwr", "ecn_echo", "ctl_urg", "ctl_ack", "ctl_psh", "ctl_rst", "ctl_syn",
        "ctl_fin",
    ];
    let parts = FLAGS.map(|name| part(fields, name, 1));
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let flags =
        combine(fields.place(), &parts, |bits| bits.iter().fold(0, |flags, bit| flags << 1 | bit))?;
    set(layer, fields.place(), "flags", flags)
}

fn gre(layer: &mut Layer, fields: &MapFields<'_>) -> Result<()> {
    let place = fields.part("checksum");
    let present = constant(fields, "checksum_present", 1)? == 1;
    match pattern::checksum(place)? {
        _ if !present => Ok(()),
        HeaderChecksum::Custom(value) => set(layer, &place, "checksum", Values::Constant(value)),
        HeaderChecksum::Good => {
            layer.set_auto("checksum").map_err(|error| place.located(error))?;
            Ok(())
        }
    }
}

/// Custom bytes: after the headers, or a whole frame.
fn custom(place: NodePath<'_>, packet: &mut OtgHeaders) -> Result<()> {
    let fields = place.fields()?;
    let place = fields.need("bytes")?;
    let mut bytes = hex(&place)?;
    if let Some(tags) = fields.get("metric_tags") {
        tags.refuse("not supported: figures are per flow")?;
    }
    if packet.layers.is_empty() {
        if bytes.len() < 14 {
            return Err(place.error("a frame starts with the 14 bytes of the Ethernet header"));
        }
        let rest = bytes.split_off(14);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        let mut ethernet = Layer::named("eth").map_err(|error| place.located(error))?;
        for (name, range) in [("dst", 0..6), ("src", 6..12), ("type", 12..14)] {
            set(&mut ethernet, &place, name, Values::Constant(number(&bytes[range])))?;
        }
        packet.layers.push(ethernet);
        bytes = rest;
    }
    packet.custom = bytes;
    fields.finish()
}

/// An IPv6 segment routing header (RFC 8754).
fn extension(place: NodePath<'_>, layers: &mut Vec<Layer>) -> Result<()> {
    let fields = place.fields()?;
    fields.choice(&["routing"], "routing")?;
    let mut layer = Layer::named("routing").map_err(|error| place.located(error))?;
    set_row(&mut layer, &fields, &row("next_header", "next", Absent::Computed))?;
    set_row(&mut layer, &fields, &row("hdr_ext_len", "length", Absent::Computed))?;
    let place = fields.part("routing");
    let routing = place.fields()?;
    routing.choice(&["segment_routing"], "segment_routing")?;
    let place = routing.part("segment_routing");
    let (left, data) = options::segment_routing(place)?;
    set(&mut layer, &place, "type", Values::Constant(4))?;
    set(&mut layer, &place, "left", Values::Constant(left))?;
    set_bytes(&mut layer, &place, "data", data)?;
    routing.finish()?;
    fields.finish()?;
    layers.push(layer);
    Ok(())
}
