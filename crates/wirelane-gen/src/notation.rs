//! The notation of values: `53`, `53,80,443`, `1024-65535`, `10.0.0.0/24@random`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::protocol::{Notation, ProtocolField};
use crate::values::Values;

/// The largest number of values in a list.
const MOST_LISTED: u64 = 1 << 16;

/// Parses the values of a field. `seed` is the default seed of random values.
pub(crate) fn parse(field: &ProtocolField, text: &str, seed: u64) -> Result<Values, String> {
    let (set, how) = match text.split_once('@') {
        Some((set, how)) => (set, Some(how)),
        None => (text, None),
    };
    // `random` may also be a named value of the field.
    let all = set == "random" || set.starts_with("random:");
    if all && how.is_none() && value(field.kind, set).is_none() {
        let (low, high) = (0, field.max());
        return Ok(Values::Random { low, high, seed: seed_of(set, seed)? });
    }
    if set.contains(',') {
        if how.is_some() {
            return Err("a list takes its values in turn, without '@'".to_owned());
        }
        return list(field, set);
    }
    let span = span(field, set)?;
    match how {
        None => Ok(span.counting()),
        Some(how) if how.starts_with("random") => {
            let (low, high, seed) = (span.first, span.last, seed_of(how, seed)?);
            if low > high {
                return Err(format!("'{set}' falls; random values lie in a range that rises"));
            }
            Ok(Values::Random { low, high, seed })
        }
        Some(how) => step(how, span),
    }
}

/// Formats the values of a field so that [`parse`] with the same `seed` returns them.
pub(crate) fn print(field: &ProtocolField, values: &Values, seed: u64) -> String {
    let one = |value| constant(field.kind, value);
    match values {
        Values::Constant(value) => one(*value),
        Values::List(list) => match list.as_slice() {
            [single] => format!("{},", one(*single)),
            list => list.iter().map(|value| one(*value)).collect::<Vec<_>>().join(","),
        },
        Values::Counter { start, step, count } => counter(field, *start, *step, *count),
        Values::Random { low, high, seed: own } => {
            let suffix = if *own == seed { String::new() } else { format!(":{own}") };
            match (low, high) {
                (0, high) if *high == field.max() => format!("random{suffix}"),
                (low, high) => match prefix(field.kind, *low, *high) {
                    Some(prefix) => format!("{prefix}@random{suffix}"),
                    None => format!("{}-{}@random{suffix}", one(*low), one(*high)),
                },
            }
        }
    }
}

/// Formats one value.
pub(crate) fn constant(kind: Notation, value: u128) -> String {
    match kind {
        Notation::Mac => {
            let octets = &value.to_be_bytes()[10..];
            octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
        }
        Notation::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
        Notation::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
        Notation::Names(names) => {
            match names.iter().find(|(_, number)| u128::from(*number) == value) {
                Some((name, _)) => (*name).to_owned(),
                None => value.to_string(),
            }
        }
        Notation::Flags(names) => match value {
            0 => "none".to_owned(),
            value if value >> names.len() != 0 => value.to_string(),
            value => {
                let set = |bit: &usize| value >> bit & 1 == 1;
                (0..names.len()).filter(set).map(|bit| names[bit]).collect::<Vec<_>>().join("+")
            }
        },
        Notation::Number | Notation::Hex | Notation::Text => value.to_string(),
    }
}

/// Parses a list such as `53,80,8000-8010`.
fn list(field: &ProtocolField, text: &str) -> Result<Values, String> {
    let mut values = Vec::new();
    // A trailing comma makes a list of one value.
    for item in text.strip_suffix(',').unwrap_or(text).split(',') {
        let span = span(field, item)?;
        let count = span.count(1).min(MOST_LISTED + 1);
        if values.len() as u64 + count > MOST_LISTED {
            return Err(format!("a list has at most {MOST_LISTED} values"));
        }
        let rises = span.first <= span.last;
        values.extend((0..u128::from(count)).map(|i| match rises {
            true => span.first + i,
            false => span.first - i,
        }));
    }
    Ok(Values::List(values))
}

/// A range from the first to the last value, ascending or descending.
#[derive(Clone, Copy)]
struct ValueRange {
    first: u128,
    last: u128,
}

impl ValueRange {
    /// The number of values in steps of `step`, at most `u64::MAX`.
    fn count(self, step: u128) -> u64 {
        let steps = self.first.abs_diff(self.last) / step.max(1);
        u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn counting(self) -> Values {
        match self.first == self.last {
            true => Values::Constant(self.first),
            false => self.stepping(1),
        }
    }

    fn stepping(self, step: u128) -> Values {
        let signed = if self.first <= self.last { step } else { step.wrapping_neg() };
        Values::Counter { start: self.first, step: signed, count: self.count(step) }
    }
}

/// Parses `53`, `1024-65535` or `10.0.0.0/24`.
fn span(field: &ProtocolField, text: &str) -> Result<ValueRange, String> {
    let wrong = || format!("'{text}' is {}", expected(field));
    let within = |value: u128| match value <= field.max() {
        true => Ok(value),
        false => Err(format!("{value} is above {}", field.max())),
    };
    if let Some(value) = value(field.kind, text) {
        return within(value).map(|value| ValueRange { first: value, last: value });
    }
    if let Some((address, length)) = text.split_once('/') {
        let bits: u32 = match field.kind {
            Notation::Ipv4 => 32,
            Notation::Ipv6 => 128,
            _ => return Err(wrong()),
        };
        let address = value(field.kind, address).ok_or_else(wrong)?;
        let length = number(length).filter(|n| *n <= u128::from(bits)).ok_or_else(wrong)? as u32;
        let hosts = u128::MAX.checked_shr(128 - bits + length).unwrap_or(0);
        return Ok(ValueRange { first: address & !hosts, last: address | hosts });
    }
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let first = within(value(field.kind, first).ok_or_else(wrong)?)?;
    let last = within(value(field.kind, last).ok_or_else(wrong)?)?;
    Ok(ValueRange { first, last })
}

/// Parses one value.
fn value(kind: Notation, text: &str) -> Option<u128> {
    match kind {
        Notation::Mac => {
            let mut octets = text.split(':');
            let mut value = 0;
            for _ in 0..6 {
                let octet = octets.next().filter(|octet| octet.len() == 2)?;
                let digits = octet.bytes().all(|digit| digit.is_ascii_hexdigit());
                value = value << 8 | u128::from(u8::from_str_radix(octet, 16).ok()?);
                if !digits {
                    return None;
                }
            }
            octets.next().is_none().then_some(value)
        }
        Notation::Ipv4 => text.parse().ok().map(|address: Ipv4Addr| u128::from(address.to_bits())),
        Notation::Ipv6 => text.parse().ok().map(Ipv6Addr::to_bits),
        Notation::Names(names) => match names.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Some(u128::from(*value)),
            None => number(text),
        },
        Notation::Flags(_) if text == "none" => Some(0),
        Notation::Flags(names) => number(text).or_else(|| {
            text.split('+').try_fold(0, |value, flag| {
                names.iter().position(|name| *name == flag).map(|bit| value | 1 << bit)
            })
        }),
        Notation::Number => number(text),
        Notation::Hex | Notation::Text => None,
    }
}

fn number(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(digits, radix).ok())?
}

/// Parses the part after `@`: `step:4`, or `step:4:100` for 100 values.
fn step(how: &str, span: ValueRange) -> Result<Values, String> {
    let wrong =
        || format!("'@{how}' is none of '@random', '@random:SEED', '@step:N' and '@step:N:COUNT'");
    let how = how.strip_prefix("step:").ok_or_else(wrong)?;
    let Some((step, count)) = how.split_once(':') else {
        let step = number(how).filter(|step| *step > 0).ok_or_else(wrong)?;
        return Ok(span.stepping(step));
    };
    if span.first != span.last {
        return Err("a range ends by itself: leave the count away".to_owned());
    }
    let step = match step.strip_prefix('-') {
        Some(step) => number(step).map(u128::wrapping_neg),
        None => number(step),
    };
    let count = number(count).and_then(|count| u64::try_from(count).ok()).filter(|n| *n > 0);
    let (step, count) = step.zip(count).ok_or_else(wrong)?;
    Ok(Values::Counter { start: span.first, step, count })
}

/// Parses the seed of `random` or `random:7`.
fn seed_of(how: &str, default: u64) -> Result<u64, String> {
    match how.strip_prefix("random") {
        Some("") => Some(default),
        Some(rest) => rest.strip_prefix(':').and_then(|seed| seed.parse().ok()),
        None => None,
    }
    .ok_or_else(|| format!("'{how}' is neither 'random' nor 'random:SEED'"))
}

fn counter(field: &ProtocolField, start: u128, step: u128, count: u64) -> String {
    let one = |value| constant(field.kind, value);
    let falls = i128::try_from(step).is_err();
    let size = if falls { step.wrapping_neg() } else { step };
    let reach = size.checked_mul(u128::from(count) - 1);
    let last = reach.and_then(|reach| match falls {
        true => start.checked_sub(reach),
        false => start.checked_add(reach).filter(|last| *last <= field.max()),
    });
    let sign = if falls { "-" } else { "" };
    match last {
        // A range that ends at the last value is parsed back to the same count.
        Some(last) if size > 0 && count > 1 => match size {
            1 if !falls && prefix(field.kind, start, last).is_some() => {
                prefix(field.kind, start, last).unwrap_or_default()
            }
            1 => format!("{}-{}", one(start), one(last)),
            size => format!("{}-{}@step:{size}", one(start), one(last)),
        },
        _ => format!("{}@step:{sign}{size}:{count}", one(start)),
    }
}

/// The prefix of exactly these addresses.
fn prefix(kind: Notation, first: u128, last: u128) -> Option<String> {
    let bits = match kind {
        Notation::Ipv4 => 32,
        Notation::Ipv6 => 128,
        _ => return None,
    };
    let hosts = first ^ last;
    let aligned = hosts != 0 && hosts & hosts.wrapping_add(1) == 0 && first & hosts == 0;
    let length = bits - (128 - hosts.leading_zeros());
    aligned.then(|| format!("{}/{length}", constant(kind, first)))
}

/// The expected form of a value, for error messages.
fn expected(field: &ProtocolField) -> &'static str {
    match field.kind {
        Notation::Mac => "no MAC address such as 02:00:00:00:00:01",
        Notation::Ipv4 => "no IPv4 address, range (10.0.0.1-10.0.0.9) or prefix (10.0.0.0/24)",
        Notation::Ipv6 => "no IPv6 address, range or prefix (2001:db8::/64)",
        Notation::Names(_) => "neither a number nor a name that is known here",
        Notation::Flags(_) => {
            "none of the flags fin, syn, rst, psh, ack, urg, ece, cwr, ae (join them by +)"
        }
        Notation::Number | Notation::Hex | Notation::Text => {
            "no number, range (1-9) or list (1,5,9)"
        }
    }
}
