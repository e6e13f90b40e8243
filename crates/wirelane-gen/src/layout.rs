//! Compiles a recipe to a template: offsets of headers, and dependencies between fields.

use wirelane_wire::checksum::Sum;

use crate::error::{Error, Result};
use crate::fill::Fill;
use crate::header::{self, BlankHeader};
use crate::layers;
use crate::protocol::{FieldPosition, Id, Preset, ProtocolField};
use crate::recipe::{Layer, Recipe, Value};
use crate::template::{Checksum, Edit, LengthField, MAX_CHECKSUMS, MAX_LEN, Template};
use crate::values::Values;

impl Recipe {
    /// Compiles the recipe. The last `reserved` bytes of each packet stay zero for a signature
    /// ([`signature::LEN`](crate::signature::LEN)); 0 for none.
    ///
    /// # Errors
    /// The order of the layers is invalid; options are too long; a field that describes the payload
    /// is not constant.
    pub fn compile(&self, reserved: usize) -> Result<Template> {
        let complete = self.complete()?;
        let mut layout = PacketLayout::default();
        for (at, layer) in complete.layers.iter().enumerate() {
            layout
                .put(&complete.layers, at)
                .map_err(|error| Error::new(format!("{}: {error}", layer.protocol)))?;
        }
        layout.finish(&complete.layers, reserved)
    }
}

/// The packet during its layout.
#[derive(Default)]
struct PacketLayout {
    head: Vec<u8>,
    /// The start of each layer, and the end of its header.
    places: Vec<(usize, usize)>,
    edits: Vec<Edit>,
    lengths: Vec<LengthField>,
    /// Offsets of checksums to compute, with the indices of their layers.
    sums: Vec<(usize, usize)>,
    fill: Option<Fill>,
    /// The end of the packet, if it is not the end of the frame.
    end: Option<usize>,
}

impl PacketLayout {
    /// Appends the header of a layer.
    fn put(&mut self, layers: &[Layer], at: usize) -> Result<(), String> {
        let layer = &layers[at];
        let start = self.head.len();
        if layer.protocol.id == Id::Payload {
            return self.payload(layer);
        }
        let header = header::build(layer)?;
        self.head.extend_from_slice(&header.bytes);
        if self.head.len() > MAX_LEN {
            return Err(format!("it ends beyond byte {MAX_LEN}"));
        }
        self.places.push((start, self.head.len()));
        for field in layer.protocol.fields {
            let Some(bit) = position(field, &header) else {
                continue;
            };
            let bit = start * 8 + bit;
            match layer.get(field.name) {
                Some(Value::Numbers(Values::Constant(value))) => self.fix(bit, field, *value),
                Some(Value::Numbers(values)) => self.change(bit, field, values),
                Some(Value::Bytes(_)) => {}
                Some(Value::Auto) => self.compute(layers, at, bit, field, &header),
                None if unchecked(layers, at, field) => {}
                None => self.compute(layers, at, bit, field, &header),
            }
        }
        Ok(())
    }

    fn payload(&mut self, layer: &Layer) -> Result<(), String> {
        self.places.push((self.head.len(), self.head.len()));
        match (layer.get("text"), layer.get("hex")) {
            (Some(_), Some(_)) => return Err("it is either text or hex".to_owned()),
            (Some(Value::Bytes(bytes)), _) | (_, Some(Value::Bytes(bytes))) => {
                self.head.extend_from_slice(bytes);
            }
            _ => {}
        }
        self.fill = match layer.get("fill") {
            None => None,
            Some(Value::Numbers(Values::Constant(value))) => Some(Fill::of(*value as u16)),
            Some(_) => return Err("'fill' is the same in every packet".to_owned()),
        };
        Ok(())
    }

    /// Sets the value of a field that was not set explicitly.
    fn compute(
        &mut self,
        layers: &[Layer],
        at: usize,
        bit: usize,
        field: &ProtocolField,
        header: &BlankHeader,
    ) {
        let (start, end) = self.places[at];
        let id = layers[at].protocol.id;
        match field.preset {
            Preset::Value(value) => self.fix(bit, field, value),
            Preset::Next(otherwise) if field.name == "hop-limit" => {
                self.fix(bit, field, layers::hop_limit(layers, at + 1, otherwise));
            }
            Preset::Next(otherwise) => self.fix(bit, field, layers::next(layers, at, otherwise)),
            Preset::HeaderLength => self.fix(bit, field, header.length_field(id)),
            Preset::Length => {
                let minus = if id == Id::Ipv6 { end } else { start };
                let offset = (bit / 8) as u16;
                self.lengths.push(LengthField { offset, minus: minus as u16, checksums: 0 });
            }
            // The only absent field with a place is the GRE checksum.
            Preset::Checksum | Preset::Absent => self.sums.push((bit / 8, at)),
        }
    }

    /// Writes a constant.
    fn fix(&mut self, bit: usize, field: &ProtocolField, value: u128) {
        let window = FieldBytes::new(bit, field.bits);
        let bytes = ((value & field.max()) << window.shift).to_be_bytes();
        let places = self.head.iter_mut().skip(window.offset);
        for (place, byte) in places.zip(&bytes[16 - window.width..]) {
            *place |= byte;
        }
    }

    fn change(&mut self, bit: usize, field: &ProtocolField, values: &Values) {
        let window = FieldBytes::new(bit, field.bits);
        self.edits.push(Edit {
            offset: window.offset as u16,
            width: window.width as u8,
            shift: window.shift as u8,
            bits: field.bits,
            values: values.clone(),
            checksums: 0,
        });
    }

    /// Completes the template: determines which checksums cover which bytes.
    fn finish(mut self, layers: &[Layer], reserved: usize) -> Result<Template> {
        // Inner layers first, as the checksums of outer layers cover inner checksums.
        self.sums.reverse();
        if self.head.len() + reserved > MAX_LEN {
            let error = format!("the packet is longer than a frame of {MAX_LEN} bytes");
            return Err(Error::new(error));
        }
        if self.sums.len() > MAX_CHECKSUMS {
            let most = format!("a packet has at most {MAX_CHECKSUMS} checksums");
            return Err(Error::new(most));
        }
        if layers.last().is_some_and(|layer| layers::is_closed(layer.protocol)) {
            self.close();
        }
        let mut checksums = Vec::new();
        for (i, (offset, at)) in self.sums.clone().into_iter().enumerate() {
            checksums.push(self.cover(layers, i, offset, at));
        }
        for i in 0..checksums.len() {
            let inside = self.covering(&checksums, checksums[i].offset.into());
            // Excludes the checksum itself and the inner ones.
            checksums[i].checksums = inside & !((2u32 << i) - 1);
        }
        let fill = self.fill.unwrap_or(Fill::Byte(0));
        Ok(Template::new(self.head, fill, reserved, self.edits, self.lengths, checksums))
    }

    /// Ends the packet after the headers, independently of the frame length.
    fn close(&mut self) {
        for length in std::mem::take(&mut self.lengths) {
            let value = (self.head.len() as u16).wrapping_sub(length.minus);
            let places = self.head.iter_mut().skip(length.offset.into());
            places.zip(value.to_be_bytes()).for_each(|(place, byte)| *place = byte);
        }
        self.end = Some(self.head.len());
    }

    /// Builds checksum number `i` at `offset` in layer `at`.
    fn cover(&mut self, layers: &[Layer], i: usize, offset: usize, at: usize) -> Checksum {
        let (start, header_end) = self.places[at];
        let id = layers[at].protocol.id;
        let end = if id == Id::Ipv4 { Some(header_end) } else { self.end };
        let mut base =
            u64::from(Sum::of(&self.head[start..end.unwrap_or(self.head.len())]).partial());
        let (mut times, mut minus) = (0, 0);
        let covered = start..end.unwrap_or(usize::MAX);
        let mut addresses = 0..0;
        if let Some(protocol) = layers::pseudo(layers[at].protocol) {
            addresses = self.addresses(layers, at);
            base += u64::from(Sum::of(&self.head[addresses.clone()]).partial());
            base += u64::from(protocol);
            match self.end {
                Some(end) => base += (end - start) as u64,
                None => (times, minus) = (1, start as u64),
            }
        }
        let within = |offset: u16| {
            [&covered, &addresses].iter().any(|range| range.contains(&usize::from(offset)))
        };
        for edit in self.edits.iter_mut().filter(|edit| within(edit.offset)) {
            edit.checksums |= 1 << i;
        }
        for length in self.lengths.iter_mut().filter(|length| within(length.offset)) {
            length.checksums |= 1 << i;
            times += 1;
            minus += u64::from(length.minus);
        }
        Checksum {
            offset: offset as u16,
            start: start as u16,
            end: end.map(|end| end as u16),
            nonzero: id == Id::Udp,
            checksums: 0,
            // 0xffff is zero in one's complement arithmetic.
            base: base + times * 0xffff - minus,
            times,
        }
    }

    /// The range of the addresses in the pseudo-header of layer `at`.
    fn addresses(&self, layers: &[Layer], at: usize) -> std::ops::Range<usize> {
        for below in (0..at).rev() {
            let start = self.places[below].0;
            match layers[below].protocol.id {
                Id::Ipv4 => return start + 12..start + 20,
                Id::Ipv6 => return start + 8..start + 40,
                _ => {}
            }
        }
        0..0
    }

    /// The checksums that cover the byte at `offset`, as bits.
    fn covering(&self, checksums: &[Checksum], offset: usize) -> u32 {
        let covers = |sum: &Checksum| {
            offset >= usize::from(sum.start) && sum.end.is_none_or(|end| offset < usize::from(end))
        };
        let bits = checksums.iter().enumerate().filter(|(_, sum)| covers(sum));
        bits.fold(0, |bits, (i, _)| bits | 1 << i)
    }
}

/// The bytes that a field occupies, even partially.
struct FieldBytes {
    offset: usize,
    width: usize,
    shift: usize,
}

impl FieldBytes {
    fn new(bit: usize, bits: u8) -> Self {
        let end = bit + usize::from(bits);
        let (offset, last) = (bit / 8, end.div_ceil(8));
        Self { offset, width: last - offset, shift: last * 8 - end }
    }
}

/// The bit offset of a field in its header; `None` if it is absent.
fn position(field: &ProtocolField, header: &BlankHeader) -> Option<usize> {
    match field.place {
        FieldPosition::Bit(bit) => Some(usize::from(bit)),
        FieldPosition::Optional => header.optional(field.name),
        FieldPosition::Payload => None,
    }
}

/// Whether a checksum is 0 by default: for UDP tunnels over IPv4 (RFC 7348 section 5, RFC 8926
/// section 3.3).
fn unchecked(layers: &[Layer], at: usize, field: &ProtocolField) -> bool {
    let id = |at: usize| layers.get(at).map(|layer: &Layer| layer.protocol.id);
    field.preset == Preset::Checksum
        && id(at) == Some(Id::Udp)
        && matches!(id(at + 1), Some(Id::Vxlan | Id::Geneve))
        && at > 0
        && id(at - 1) == Some(Id::Ipv4)
}
