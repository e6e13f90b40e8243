//! Field patterns of the model: value, values, increment, decrement, random, auto; and checksums,
//! which are generated or custom.

use std::hash::{BuildHasher, RandomState};

use super::place::{MapFields, NodePath};
use crate::error::Result;
use crate::protocol::Notation;
use crate::values::Values;

/// The notation and width of a field.
#[derive(Clone, Copy)]
pub(super) struct PatternFormat {
    pub(super) kind: Notation,
    pub(super) bits: u8,
}

/// A parsed pattern.
pub(super) enum ValuePattern {
    /// Computed.
    Auto,
    /// These values.
    Values(Values),
}

/// The most values stored as a list: random values, and fields that the model splits differently
/// from Wirelane.
const LISTED: u64 = 65_536;

impl PatternFormat {
    pub(super) fn number(bits: u8) -> Self {
        Self { kind: Notation::Number, bits }
    }

    fn max(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.bits.clamp(1, 128)))
    }

    /// Parses one value in the notation of the field.
    pub(super) fn value(self, place: &NodePath<'_>) -> Result<u128> {
        let text = place.text()?;
        let wrong = |what: &str| place.error(format!("'{text}' is no {what}"));
        match self.kind {
            Notation::Mac => mac(text).ok_or_else(|| wrong("MAC address like 02:00:00:00:00:01")),
            Notation::Ipv4 => match text.parse::<std::net::Ipv4Addr>() {
                Ok(address) => Ok(address.to_bits().into()),
                Err(_) => Err(wrong("IPv4 address")),
            },
            Notation::Ipv6 => match text.parse::<std::net::Ipv6Addr>() {
                Ok(address) => Ok(address.to_bits()),
                Err(_) => Err(wrong("IPv6 address")),
            },
            _ => place.integer(0, self.max().min(u64::MAX.into()) as u64).map(u128::from),
        }
    }
}

/// Parses a pattern; `default` is the value of the model for an absent number.
pub(super) fn read(
    place: NodePath<'_>,
    format: PatternFormat,
    default: u128,
) -> Result<ValuePattern> {
    const CHOICES: [&str; 6] = ["value", "values", "increment", "decrement", "random", "auto"];
    let fields = place.fields()?;
    refuse_tags(&fields)?;
    let choice = fields.choice(&CHOICES, "value")?;
    let given = fields.get(choice);
    let pattern = match (choice, given) {
        ("auto", auto) => {
            // A number for `auto` is a fallback for generators that cannot compute the field.
            if let Some(auto) = auto.filter(|auto| auto.text().is_err()) {
                let what = "addresses from DHCP need emulated devices";
                return Err(auto.unsupported(what, "value, values, increment, decrement, random"));
            }
            ValuePattern::Auto
        }
        ("value", value) => {
            let value = value.map(|value| format.value(&value)).transpose()?;
            ValuePattern::Values(Values::Constant(value.unwrap_or(default)))
        }
        ("values", Some(list)) => {
            let list = list.each(|item| format.value(&item))?;
            if list.is_empty() {
                return Err(place.error("'values' is an empty list"));
            }
            ValuePattern::Values(Values::List(list))
        }
        ("increment" | "decrement", Some(counter)) => {
            ValuePattern::Values(count(counter, format, default, choice == "decrement")?)
        }
        ("random", Some(random)) => ValuePattern::Values(draw(random, format)?),
        (choice, _) => return Err(place.error(format!("'{choice}' is missing"))),
    };
    fields.finish()?;
    Ok(pattern)
}

fn count(place: NodePath<'_>, format: PatternFormat, default: u128, down: bool) -> Result<Values> {
    let fields = place.fields()?;
    let value = |key, default| match fields.get(key) {
        Some(place) => format.value(&place),
        None => Ok(default),
    };
    let start = value("start", default)?;
    let step = value("step", 1)?;
    let count = match fields.get("count") {
        Some(count) => count.integer(1, u32::MAX.into())?,
        None => 1,
    };
    fields.finish()?;
    let step = if down { step.wrapping_neg() & format.max() } else { step };
    Ok(match count {
        1 => Values::Constant(start),
        _ => Values::Counter { start, step, count },
    })
}

fn draw(place: NodePath<'_>, format: PatternFormat) -> Result<Values> {
    let fields = place.fields()?;
    let value = |key, default| match fields.get(key) {
        Some(place) => format.value(&place),
        None => Ok(default),
    };
    let (low, high) = (value("min", 0)?, value("max", format.max())?);
    if low > high {
        return Err(place.error("'min' is above 'max'"));
    }
    let seed = match fields.get("seed") {
        Some(seed) => seed.integer(0, u32::MAX.into())?,
        None => 1,
    };
    // In the model, seed 0 requests different values in each run.
    let seed = if seed == 0 { RandomState::new().hash_one(0) } else { seed };
    let count = match fields.get("count") {
        Some(count) => count.integer(1, LISTED)?,
        None => 1,
    };
    fields.finish()?;
    place.list(count)?;
    let value = |number| {
        let drawn = u128::from(mix(seed, 2 * number)) << 64 | u128::from(mix(seed, 2 * number + 1));
        match (high - low).checked_add(1) {
            Some(span) => low + drawn % span,
            None => drawn,
        }
    };
    Ok(Values::List((0..count).map(value).collect()))
}

/// Parses a part of a field with `bits` bits and a default of 0.
pub(super) fn part(fields: &MapFields<'_>, name: &'static str, bits: u8) -> Result<(Values, u8)> {
    let place = fields.part(name);
    if place.is_absent() {
        return Ok((Values::Constant(0), bits));
    }
    match read(place, PatternFormat::number(bits), 0)? {
        ValuePattern::Values(values) => Ok((values, bits)),
        ValuePattern::Auto => Err(place.error("'auto' is not supported here")),
    }
}

/// Parses a part with a constant value.
pub(super) fn constant(fields: &MapFields<'_>, name: &'static str, bits: u8) -> Result<u128> {
    match part(fields, name, bits)? {
        (Values::Constant(value), _) => Ok(value),
        _ => Err(fields.part(name).unsupported("not supported", "value")),
    }
}

/// Parses an even number of hexadecimal digits.
pub(super) fn hex(place: &NodePath<'_>) -> Result<Vec<u8>> {
    let text = place.text()?;
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let octet = |pair: &[u8]| match pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    };
    digits
        .chunks(2)
        .map(octet)
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| place.error("no hexadecimal digits, two for each byte"))
}

/// The checksum of a header.
pub(super) enum HeaderChecksum {
    Good,
    Custom(u128),
}

/// Parses a checksum.
pub(super) fn checksum(place: NodePath<'_>) -> Result<HeaderChecksum> {
    let fields = place.fields()?;
    let checksum = match fields.choice(&["generated", "custom"], "generated")? {
        "custom" => HeaderChecksum::Custom(fields.need("custom")?.integer(0, 0xffff)?.into()),
        _ => {
            if let Some(generated) = fields.get("generated") {
                generated.one_of(&["good"])?;
            }
            HeaderChecksum::Good
        }
    };
    fields.finish()?;
    Ok(checksum)
}

/// Combines several fields of the model into one field, or converts a field. `combine` computes a
/// value from the values of the parts in the same packet. Each part has its values and its width.
pub(super) fn combine(
    place: &NodePath<'_>,
    parts: &[(Values, u8)],
    combine: impl Fn(&[u128]) -> u128,
) -> Result<Values> {
    let list = |(values, bits): &(Values, u8)| list(values, PatternFormat::number(*bits).max());
    let all: Vec<Vec<u128>> = parts.iter().map(list).collect::<Option<_>>().unwrap_or_default();
    let together = all.iter().try_fold(1u64, |together, list| {
        let length = list.len() as u64;
        Some(together / gcd(together, length) * length).filter(|all| *all <= LISTED)
    });
    let Some(together) = together.filter(|_| all.len() == parts.len()) else {
        let what = format!("the values repeat after more than {LISTED} packets");
        return Err(place.error(what));
    };
    place.list(together)?;
    let of = |packet: u64| -> u128 {
        let values: Vec<u128> =
            all.iter().map(|list| list[(packet % list.len() as u64) as usize]).collect();
        combine(&values)
    };
    Ok(match together {
        1 => Values::Constant(of(0)),
        _ => Values::List((0..together).map(of).collect()),
    })
}

/// Lists the values, if they are few.
fn list(values: &Values, max: u128) -> Option<Vec<u128>> {
    match values {
        Values::Constant(value) => Some(vec![*value]),
        Values::List(list) => Some(list.clone()),
        Values::Counter { start, step, count } if *count <= LISTED => Some(
            (0..*count).map(|k| start.wrapping_add(step.wrapping_mul(k.into())) & max).collect(),
        ),
        Values::Counter { .. } | Values::Random { .. } => None,
    }
}

/// Refuses metric tags, which split the figures of a flow by the values of a field.
fn refuse_tags(fields: &MapFields<'_>) -> Result<()> {
    match fields.get("metric_tags") {
        Some(tags) => {
            tags.refuse("not supported: figures are per flow; make a flow for each value")
        }
        None => Ok(()),
    }
}

fn mac(text: &str) -> Option<u128> {
    let mut value = 0;
    let mut octets = 0;
    for octet in text.split([':', '-']) {
        let digits = octet.len() == 2 && octet.bytes().all(|byte| byte.is_ascii_hexdigit());
        value = value << 8 | u128::from(u8::from_str_radix(octet, 16).ok().filter(|_| digits)?);
        octets += 1;
    }
    (octets == 6).then_some(value)
}

/// SplitMix64: number `k` of the sequence of `seed`.
fn mix(seed: u64, k: u64) -> u64 {
    let mut z = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
