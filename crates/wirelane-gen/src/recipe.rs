//! The description of a packet: layers from the outside in, with explicitly set fields.
//!
//! A recipe is parsed from one line ([`language`](crate::language)), or built. It formats to the
//! same line:
//!
//! ```
//! use wirelane_gen::{Layer, Recipe, Values};
//!
//! let mut udp = Layer::named("udp")?;
//! udp.set("dst", Values::Constant(53))?;
//! let recipe = Recipe { layers: vec![Layer::named("ipv6")?, udp] };
//! assert_eq!(recipe.to_string(), "ipv6 udp dst=53");
//! assert_eq!("ipv6 udp dst=53".parse(), Ok(recipe));
//! # Ok::<_, wirelane_gen::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::protocol::{Notation, ProtocolField, ProtocolSpec};
use crate::table;
use crate::values::Values;

/// The description of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Layers from the outside in. Implied lower layers (Ethernet below IPv4, IPv4 below UDP, UDP
    /// below VXLAN) may be missing.
    pub layers: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// A row of the [table](crate::table::PROTOCOLS).
    pub protocol: &'static ProtocolSpec,
    /// The fields that were set, each at most once. Other fields are computed or have their
    /// defaults.
    pub settings: Vec<Setting>,
}

/// A field that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// One of the fields of the layer's protocol.
    pub field: &'static ProtocolField,
    /// Its value.
    pub value: Value,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Numbers of the field's width.
    Numbers(Values),
    /// The bytes of options or the payload.
    Bytes(Vec<u8>),
    /// Computed, for a field that is absent by default.
    Auto,
}

impl Layer {
    /// A layer of the protocol with this name, with default fields.
    ///
    /// # Errors
    /// The protocol is unknown.
    pub fn named(name: &str) -> Result<Self> {
        let protocol = table::named(name).ok_or_else(|| {
            let known: Vec<_> = table::PROTOCOLS.iter().map(|protocol| protocol.name).collect();
            Error::new(format!("no layer '{name}'; known: {}", known.join(" ")))
        })?;
        Ok(Self { protocol, settings: Vec::new() })
    }

    /// Sets a field to numbers.
    ///
    /// # Errors
    /// The protocol has no such field; the field cannot have these numbers; it was set before.
    pub fn set(&mut self, name: &str, values: Values) -> Result<&mut Self> {
        let field = self.field(name)?;
        check(self.protocol, field, &values)?;
        self.put(field, Value::Numbers(values))
    }

    /// Sets a field to bytes: raw options, or the payload.
    ///
    /// # Errors
    /// The protocol has no such field; the field is a number; it was set before.
    pub fn set_bytes(&mut self, name: &str, bytes: Vec<u8>) -> Result<&mut Self> {
        let field = self.field(name)?;
        if field.bits != 0 {
            return Err(Error::new(format!("{}: '{name}' is a number", self.protocol)));
        }
        self.put(field, Value::Bytes(bytes))
    }

    /// Requests that a field is computed, even if it is absent by default.
    ///
    /// # Errors
    /// The protocol has no such field; the field cannot be computed; it was set before.
    pub fn set_auto(&mut self, name: &str) -> Result<&mut Self> {
        let field = self.field(name)?;
        if !field.preset.is_computed() && name != "checksum" {
            return Err(Error::new(format!("{}: '{name}' is never computed", self.protocol)));
        }
        self.put(field, Value::Auto)
    }

    /// The value of this field, if it was set.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings.iter().find(|setting| setting.field.name == name).map(|found| &found.value)
    }

    fn field(&self, name: &str) -> Result<&'static ProtocolField> {
        self.protocol.field(name).ok_or_else(|| {
            let known: Vec<_> = self.protocol.fields.iter().map(|field| field.name).collect();
            let known = known.join(", ");
            Error::new(format!("{} has no field '{name}'; it has {known}", self.protocol))
        })
    }

    fn put(&mut self, field: &'static ProtocolField, value: Value) -> Result<&mut Self> {
        if self.get(field.name).is_some() {
            let (protocol, name) = (self.protocol, field.name);
            return Err(Error::new(format!("{protocol}: '{name}' is set twice")));
        }
        self.settings.push(Setting { field, value });
        Ok(self)
    }
}

/// Checks that a field can have these numbers.
fn check(protocol: &ProtocolSpec, field: &ProtocolField, values: &Values) -> Result<()> {
    let wrong = |what: String| Err(Error::new(format!("{protocol}: '{}' {what}", field.name)));
    if field.bits == 0 {
        return wrong("holds bytes, no numbers".to_owned());
    }
    let highest = match values {
        Values::Constant(value) => *value,
        Values::List(list) if list.is_empty() => return wrong("has no value".to_owned()),
        Values::List(list) => list.iter().copied().max().unwrap_or(0),
        Values::Counter { count: 0, .. } => return wrong("counts through no values".to_owned()),
        // Does not check the step, which may be negative and wrap.
        Values::Counter { start, .. } => *start,
        Values::Random { low, high, .. } if low > high => {
            return wrong("has a lowest value above its highest".to_owned());
        }
        Values::Random { high, .. } => *high,
    };
    let most = match field.kind {
        // The payload field `fill` is a byte or a name.
        Notation::Names(names) if field.bits == 9 => {
            names.iter().map(|(_, value)| u128::from(*value)).max().unwrap_or(255)
        }
        _ => field.max(),
    };
    if highest > most {
        return wrong(format!("is at most {most}, not {highest}"));
    }
    Ok(())
}
