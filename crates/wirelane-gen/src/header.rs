//! The bytes of one header including its optional parts, before fields are written.

use crate::protocol::Id;
use crate::recipe::{Layer, Value};
use crate::values::Values;

/// A header with zero fields.
pub(crate) struct BlankHeader {
    pub(crate) bytes: Vec<u8>,
    /// The bit offsets of optional fields.
    optional: Vec<(&'static str, usize)>,
}

impl BlankHeader {
    /// The bit offset of an optional field.
    pub(crate) fn optional(&self, name: &str) -> Option<usize> {
        self.optional.iter().find(|(field, _)| *field == name).map(|(_, bit)| *bit)
    }

    /// The value of the header length field.
    pub(crate) fn length_field(&self, id: Id) -> u128 {
        let len = self.bytes.len() as u128;
        match id {
            Id::Ipv4 | Id::Tcp => len / 4,
            Id::Geneve => (len - 8) / 4,
            _ => (len / 8).saturating_sub(1),
        }
    }

    /// Appends bytes whose last `bits` bits are an optional field.
    fn append(&mut self, bytes: &[u8], field: &'static str, bits: usize) {
        self.bytes.extend_from_slice(bytes);
        self.optional.push((field, self.bytes.len() * 8 - bits));
    }
}

/// Builds the header of `layer`.
pub(crate) fn build(layer: &Layer) -> Result<BlankHeader, String> {
    let mut header = BlankHeader { bytes: vec![0; layer.protocol.length], optional: Vec::new() };
    match layer.protocol.id {
        Id::Ipv4 => options(&mut header, layer, "options", 60)?,
        Id::Geneve => options(&mut header, layer, "options", 8 + 63 * 4)?,
        Id::Tcp => tcp(&mut header, layer)?,
        Id::Gre => gre(&mut header, layer),
        Id::HopByHop | Id::Destination => extension(&mut header, bytes(layer, "options"), true)?,
        Id::Routing => extension(&mut header, bytes(layer, "data"), false)?,
        _ => {}
    }
    Ok(header)
}

/// Appends raw options, padded to 32 bits.
fn options(header: &mut BlankHeader, layer: &Layer, name: &str, most: usize) -> Result<(), String> {
    header.bytes.extend_from_slice(bytes(layer, name));
    header.bytes.resize(header.bytes.len().next_multiple_of(4), 0);
    if header.bytes.len() > most {
        return Err(format!(
            "with its options the header has {} bytes of at most {most}",
            header.bytes.len()
        ));
    }
    Ok(())
}

/// Appends TCP options (RFC 9293 section 3.1, RFC 7323, RFC 2018), aligned to 32 bits.
fn tcp(header: &mut BlankHeader, layer: &Layer) -> Result<(), String> {
    const NOP: u8 = 1;
    if layer.get("mss").is_some() {
        header.append(&[2, 4, 0, 0], "mss", 16);
    }
    let times = layer.get("tsval").is_some() || layer.get("tsecr").is_some();
    let sack = match layer.get("sack") {
        None | Some(Value::Numbers(Values::Constant(0))) => false,
        Some(Value::Numbers(Values::Constant(_))) => true,
        Some(_) => return Err("'sack' is the same in every packet".to_owned()),
    };
    match (sack, times) {
        (true, true) => header.bytes.extend_from_slice(&[4, 2]),
        (true, false) => header.bytes.extend_from_slice(&[NOP, NOP, 4, 2]),
        (false, true) => header.bytes.extend_from_slice(&[NOP, NOP]),
        (false, false) => {}
    }
    if times {
        header.append(&[8, 10, 0, 0, 0, 0], "tsval", 32);
        header.append(&[0; 4], "tsecr", 32);
    }
    if layer.get("wscale").is_some() {
        header.append(&[NOP, 3, 3, 0], "wscale", 8);
    }
    options(header, layer, "options", 60)
}

/// Appends the optional fields of GRE (RFC 2784, RFC 2890).
fn gre(header: &mut BlankHeader, layer: &Layer) {
    const CHECKSUM: u8 = 0x80;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    for (name, flag) in [("checksum", CHECKSUM), ("key", KEY), ("seq", SEQUENCE)] {
        if layer.get(name).is_some() {
            header.bytes[0] |= flag;
            // 16 reserved bits follow the checksum.
            let field = layer.protocol.field(name).map_or(name, |field| field.name);
            header.append(&[0; 4], field, 32);
        }
    }
}

/// Appends the contents of an extension header, padded to 64 bits with padding options (RFC 8200
/// section 4.2) or zeros.
fn extension(header: &mut BlankHeader, contents: &[u8], pad: bool) -> Result<(), String> {
    header.bytes.extend_from_slice(contents);
    let len = header.bytes.len();
    let missing = len.next_multiple_of(8) - len;
    header.bytes.resize(len + missing, 0);
    if pad && missing > 1 {
        header.bytes[len] = 1;
        header.bytes[len + 1] = missing as u8 - 2;
    }
    if header.bytes.len() > 2048 {
        return Err(format!("the header has {} bytes of at most 2048", header.bytes.len()));
    }
    Ok(())
}

fn bytes<'a>(layer: &'a Layer, name: &str) -> &'a [u8] {
    match layer.get(name) {
        Some(Value::Bytes(bytes)) => bytes,
        _ => &[],
    }
}
