//! The model's packet headers as layers of a recipe: tables of field names, and what is special.

use super::error::Error;
use super::options;
use super::pattern::{self, Checksum, Format, Pattern, combine, constant, hex, part};
use super::place::{Fields, Place};
use crate::protocol::Id;
use crate::recipe::{Layer, Recipe, RecipeError, Value};
use crate::table;
use crate::values::Values;

/// One field of a header: its name in the model, its name in the recipe, and what it holds when the
/// file leaves it out.
struct Row {
    model: &'static str,
    recipe: &'static str,
    absent: Absent,
}

#[derive(Clone, Copy)]
enum Absent {
    /// This value. `auto` is not for it.
    Value(u128),
    /// This value, which the model says to take for `auto` too when there is nothing to learn it
    /// from.
    Fallback(u128),
    /// It is computed.
    Computed,
    /// It is computed, also when the file has this value, with which the model says "not given".
    Unset(u128),
}

use Absent::{Computed, Fallback, Unset};

const fn row(model: &'static str, recipe: &'static str, absent: Absent) -> Row {
    Row { model, recipe, absent }
}

const fn zero(model: &'static str, recipe: &'static str) -> Row {
    row(model, recipe, Absent::Value(0))
}

/// A header that is a layer field by field.
struct Header {
    model: &'static str,
    protocol: &'static str,
    rows: &'static [Row],
    /// Fields that must hold this: bits that no receiver looks at, or that only hardware has.
    fixed: &'static [(&'static str, u64)],
    checksum: bool,
}

const HEADERS: &[Header] = &[
    Header {
        model: "ethernet",
        protocol: "eth",
        rows: &[
            row("dst", "dst", Fallback(0)),
            zero("src", "src"),
            row("ether_type", "type", Computed),
        ],
        fixed: &[("pfc_queue", 0)],
        checksum: false,
    },
    Header {
        model: "vlan",
        protocol: "vlan",
        rows: &[zero("priority", "priority"), zero("cfi", "dei"), zero("id", "id")],
        fixed: &[],
        checksum: false,
    },
    Header {
        model: "mpls",
        protocol: "mpls",
        rows: &[
            row("label", "label", Fallback(16)),
            zero("traffic_class", "tc"),
            row("bottom_of_stack", "bottom", Computed),
            row("time_to_live", "ttl", Absent::Value(64)),
        ],
        fixed: &[],
        checksum: false,
    },
    Header {
        model: "arp",
        protocol: "arp",
        rows: &[
            row("hardware_type", "hardware", Absent::Value(1)),
            row("protocol_type", "protocol", Absent::Value(0x0800)),
            row("hardware_length", "hardware-length", Absent::Value(6)),
            row("protocol_length", "protocol-length", Absent::Value(4)),
            row("operation", "op", Absent::Value(1)),
            zero("sender_hardware_addr", "sender-mac"),
            zero("sender_protocol_addr", "sender-ip"),
            zero("target_hardware_addr", "target-mac"),
            zero("target_protocol_addr", "target-ip"),
        ],
        fixed: &[],
        checksum: false,
    },
    Header {
        model: "ipv4",
        protocol: "ipv4",
        rows: &[
            row("version", "version", Absent::Value(4)),
            row("header_length", "ihl", Computed),
            row("total_length", "length", Computed),
            zero("identification", "id"),
            zero("reserved", "reserved"),
            zero("dont_fragment", "df"),
            zero("more_fragments", "mf"),
            zero("fragment_offset", "offset"),
            row("time_to_live", "ttl", Absent::Value(64)),
            row("protocol", "protocol", Computed),
            zero("src", "src"),
            zero("dst", "dst"),
        ],
        fixed: &[],
        checksum: false,
    },
    Header {
        model: "ipv6",
        protocol: "ipv6",
        rows: &[
            row("version", "version", Absent::Value(6)),
            zero("flow_label", "label"),
            row("payload_length", "length", Computed),
            row("next_header", "next", Computed),
            row("hop_limit", "hop-limit", Absent::Value(64)),
            zero("src", "src"),
            zero("dst", "dst"),
        ],
        fixed: &[],
        checksum: false,
    },
    Header {
        model: "udp",
        protocol: "udp",
        rows: &[
            zero("src_port", "src"),
            zero("dst_port", "dst"),
            row("length", "length", Unset(0)),
        ],
        fixed: &[],
        checksum: true,
    },
    Header {
        model: "tcp",
        protocol: "tcp",
        rows: &[
            zero("src_port", "src"),
            zero("dst_port", "dst"),
            zero("seq_num", "seq"),
            zero("ack_num", "ack"),
            row("data_offset", "data-offset", Unset(0)),
            zero("window", "window"),
        ],
        fixed: &[],
        checksum: true,
    },
    Header {
        model: "vxlan",
        protocol: "vxlan",
        rows: &[row("flags", "flags", Absent::Value(8)), row("vni", "vni", Fallback(0))],
        fixed: &[("reserved0", 0), ("reserved1", 0)],
        checksum: false,
    },
    Header {
        model: "gre",
        protocol: "gre",
        rows: &[zero("version", "version"), row("protocol", "protocol", Computed)],
        fixed: &[("reserved0", 0), ("reserved1", 0)],
        checksum: false,
    },
    Header { model: "icmp", protocol: "icmp", rows: ECHO_REQUEST, fixed: &[], checksum: true },
    Header {
        model: "icmpv6",
        protocol: "icmpv6",
        rows: ECHO_REQUEST_V6,
        fixed: &[],
        checksum: true,
    },
];

const ECHO_REQUEST: &[Row] = &[
    row("type", "type", Absent::Value(8)),
    zero("code", "code"),
    zero("identifier", "id"),
    zero("sequence_number", "seq"),
];

const ECHO_REQUEST_V6: &[Row] = &[
    row("type", "type", Absent::Value(128)),
    zero("code", "code"),
    zero("identifier", "id"),
    zero("sequence_number", "seq"),
];

/// All headers that are supported.
const SUPPORTED: [&str; 14] = [
    "custom",
    "ethernet",
    "vlan",
    "vxlan",
    "ipv4",
    "ipv6",
    "tcp",
    "udp",
    "gre",
    "arp",
    "icmp",
    "icmpv6",
    "mpls",
    "ipv6_extension_header",
];

/// The other headers of the model.
const OTHERS: [&str; 11] = [
    "pfcpause",
    "ethernetpause",
    "gtpv1",
    "gtpv2",
    "ppp",
    "igmpv1",
    "snmpv2c",
    "rsvp",
    "macsec",
    "lacp",
    "cfm",
];

/// What the headers of a flow make.
pub(super) struct Packet {
    pub(super) layers: Vec<Layer>,
    /// Bytes after the last layer.
    pub(super) custom: Vec<u8>,
}

impl Packet {
    /// Bytes that it takes at least, with `reserved` ones at the end.
    pub(super) fn room(&self, reserved: usize) -> Result<usize, RecipeError> {
        let template = Recipe { layers: self.layers.clone() }.compile(reserved)?;
        let custom = self.custom.len();
        Ok((template.head().len() + custom + reserved).max(template.min_len()))
    }
}

/// Reads the headers of a flow.
pub(super) fn read(packet: Option<Place<'_>>) -> Result<Packet, Error> {
    let mut read = Packet { layers: Vec::new(), custom: Vec::new() };
    if let Some(packet) = packet {
        packet.each(|header| add(header, &mut read))?;
    }
    if read.layers.is_empty() {
        // The model's packet without headers: an Ethernet header, whose addresses are zero.
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

/// What the model says to send where the next header decides and there is none.
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

fn add(place: Place<'_>, packet: &mut Packet) -> Result<(), Error> {
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

/// A header that is a layer.
fn layer(place: Place<'_>, name: &str, layers: &mut Vec<Layer>) -> Result<(), Error> {
    let Some(header) = HEADERS.iter().find(|header| header.model == name) else {
        return Err(place.unsupported("this header is not supported", &SUPPORTED.join(", ")));
    };
    let mut layer =
        Layer::named(header.protocol).map_err(|error| place.error(error.to_string()))?;
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
    layers.push(layer);
    Ok(())
}

fn set_row(layer: &mut Layer, fields: &Fields<'_>, row: &Row) -> Result<(), Error> {
    let Some(field) = layer.protocol.field(row.recipe) else {
        return Err(fields.place().error(format!("no field '{}'", row.recipe)));
    };
    let format = Format { kind: field.kind, bits: field.bits };
    let place = fields.part(row.model);
    let default = match row.absent {
        Absent::Value(value) | Fallback(value) | Unset(value) => value,
        Computed => 0,
    };
    let pattern = match (place.is_absent(), row.absent) {
        (true, Computed | Unset(_)) => return Ok(()),
        (true, Absent::Value(value) | Fallback(value)) => Pattern::Values(Values::Constant(value)),
        (false, _) => pattern::read(place, format, default)?,
    };
    let values = match (pattern, row.absent) {
        (Pattern::Values(Values::Constant(value)), Unset(unset)) if value == unset => return Ok(()),
        (Pattern::Values(values), _) => values,
        (Pattern::Auto, Computed | Unset(_)) => return Ok(()),
        (Pattern::Auto, Fallback(value)) => Values::Constant(value),
        (Pattern::Auto, Absent::Value(_)) => {
            let supported = "value, values, increment, decrement, random";
            return Err(place.unsupported("'auto' is not supported here", supported));
        }
    };
    set(layer, &place, row.recipe, values)
}

fn set(layer: &mut Layer, place: &Place<'_>, name: &str, values: Values) -> Result<(), Error> {
    layer.set(name, values).map_err(|error| refused(place, &error))?;
    Ok(())
}

fn set_bytes(
    layer: &mut Layer,
    place: &Place<'_>,
    name: &str,
    bytes: Vec<u8>,
) -> Result<(), Error> {
    layer.set_bytes(name, bytes).map_err(|error| refused(place, &error))?;
    Ok(())
}

fn refused(place: &Place<'_>, error: &RecipeError) -> Error {
    place.error(error.to_string())
}

/// A field that can only hold `due`.
fn fixed(place: Place<'_>, due: u64) -> Result<(), Error> {
    match pattern::read(place, Format::number(64), 0)? {
        Pattern::Auto => Ok(()),
        Pattern::Values(Values::Constant(value)) if value == due.into() => Ok(()),
        Pattern::Values(_) => Err(place.unsupported("not supported", &due.to_string())),
    }
}

fn set_checksum(layer: &mut Layer, fields: &Fields<'_>, name: &'static str) -> Result<(), Error> {
    let place = fields.part(name);
    match pattern::checksum(place)? {
        Checksum::Custom(value) => set(layer, &place, "checksum", Values::Constant(value)),
        // UDP below a tunnel has none unless one is asked for; the model always asks.
        Checksum::Good if layer.protocol.id == Id::Udp => {
            layer.set_auto("checksum").map_err(|error| refused(&place, &error))?;
            Ok(())
        }
        Checksum::Good => Ok(()),
    }
}

/// The protocol identifier of a tag is the type that the header before it has.
fn tag_protocol(fields: &Fields<'_>, layers: &mut [Layer]) -> Result<(), Error> {
    const UNSET: u128 = 0xffff;
    let Some(place) = fields.get("tpid") else {
        return Ok(());
    };
    let values = match pattern::read(place, Format::number(16), UNSET)? {
        Pattern::Auto | Pattern::Values(Values::Constant(UNSET)) => return Ok(()),
        Pattern::Values(values) => values,
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

fn ipv4(layer: &mut Layer, fields: &Fields<'_>) -> Result<(), Error> {
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

/// An octet whose upper six bits are the DSCP, and the others ECN.
fn split_octet(layer: &mut Layer, place: &Place<'_>, octet: Values) -> Result<(), Error> {
    let octet = [(octet, 8)];
    set(layer, place, "dscp", combine(place, &octet, |octet| octet[0] >> 2)?)?;
    set(layer, place, "ecn", combine(place, &octet, |octet| octet[0] & 3)?)
}

fn ipv6(layer: &mut Layer, fields: &Fields<'_>) -> Result<(), Error> {
    let place = fields.part("traffic_class");
    split_octet(layer, &place, part(fields, "traffic_class", 8)?.0)?;
    match fields.get("dst_usids") {
        Some(usids) => usids.refuse("not supported; write the whole address into 'dst'"),
        None => Ok(()),
    }
}

fn tcp(layer: &mut Layer, fields: &Fields<'_>) -> Result<(), Error> {
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

fn gre(layer: &mut Layer, fields: &Fields<'_>) -> Result<(), Error> {
    let place = fields.part("checksum");
    let present = constant(fields, "checksum_present", 1)? == 1;
    match pattern::checksum(place)? {
        _ if !present => Ok(()),
        Checksum::Custom(value) => set(layer, &place, "checksum", Values::Constant(value)),
        Checksum::Good => {
            layer.set_auto("checksum").map_err(|error| refused(&place, &error))?;
            Ok(())
        }
    }
}

/// Bytes as they are: after the headers, or the whole frame.
fn custom(place: Place<'_>, packet: &mut Packet) -> Result<(), Error> {
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
        let mut ethernet = Layer::named("eth").map_err(|error| refused(&place, &error))?;
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
fn extension(place: Place<'_>, layers: &mut Vec<Layer>) -> Result<(), Error> {
    let fields = place.fields()?;
    fields.choice(&["routing"], "routing")?;
    let mut layer = Layer::named("routing").map_err(|error| refused(&place, &error))?;
    set_row(&mut layer, &fields, &row("next_header", "next", Computed))?;
    set_row(&mut layer, &fields, &row("hdr_ext_len", "length", Computed))?;
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
