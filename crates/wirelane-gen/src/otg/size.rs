//! Frame sizes. Sizes of the model include the frame check sequence; sizes of Wirelane do not.

use super::place::{MapFields, NodePath};
use crate::error::Result;
use crate::sizes::Sizes;

/// Bytes of the frame check sequence.
const FCS: u64 = 4;

/// The shortest Ethernet frame and the longest supported frame, including the frame check sequence.
const SHORTEST: u64 = 64;
const LONGEST: u64 = 65_535;

/// Named distributions, with weights in hundredths.
const PREDEFINED: [(&str, &[(u16, u32)]); 5] = [
    ("imix", &[(64, 700), (570, 400), (1518, 100)]),
    ("ipsec_imix", &[(90, 5867), (92, 200), (594, 2366), (1418, 1567)]),
    ("ipv6_imix", &[(60, 5867), (496, 200), (594, 2366), (1518, 1567)]),
    ("standard_imix", &[(58, 5867), (62, 200), (594, 2366), (1518, 1567)]),
    ("tcp_imix", &[(90, 5867), (92, 200), (594, 2366), (1518, 1567)]),
];

/// Parses the sizes of a flow that needs at least `room` bytes. Smaller sizes of a predefined
/// distribution, or of a flow without a size, are raised to `room`.
pub(super) fn read(place: NodePath<'_>, room: usize) -> Result<Sizes> {
    if place.is_absent() {
        return Ok(Sizes::fixed(without_fcs(SHORTEST).max(room as u16)));
    }
    let fields = place.fields()?;
    let choices = ["fixed", "increment", "random", "weight_pairs"];
    let choice = fields.choice(&choices, "fixed")?;
    let of = fields.part(choice);
    let sizes = match choice {
        "fixed" if of.is_absent() => Sizes::fixed(without_fcs(SHORTEST)),
        "fixed" => Sizes::fixed(without_fcs(of.integer(SHORTEST, LONGEST)?)),
        "increment" => increment(of)?,
        "random" => {
            let fields = of.fields()?;
            let (low, high) = (size(&fields, "min", 64)?, size(&fields, "max", 1518)?);
            if low > high {
                return Err(of.error("'min' is above 'max'"));
            }
            fields.finish()?;
            Sizes::Random { low, high, seed: 0 }
        }
        _ => weighted(of, room)?,
    };
    fields.finish()?;
    let shortest = match &sizes {
        Sizes::List(list) => list.iter().copied().min(),
        Sizes::Range { first, .. } => Some(*first),
        Sizes::Random { low, .. } => Some(*low),
        Sizes::Weighted(pairs) => pairs.iter().map(|(size, _)| *size).min(),
        Sizes::Imix => None,
    };
    if let Some(shortest) = shortest.filter(|shortest| usize::from(*shortest) < room) {
        let (short, least) = (u64::from(shortest) + FCS, room as u64 + FCS);
        let what = format!("{short} bytes have no room for the headers and the signature");
        return Err(place.unsupported(&what, &format!("at least {least}")));
    }
    Ok(sizes)
}

fn increment(place: NodePath<'_>) -> Result<Sizes> {
    let fields = place.fields()?;
    let (start, end) = (size(&fields, "start", 64)?, size(&fields, "end", 1518)?);
    let step = match fields.get("step") {
        Some(step) => step.integer(1, LONGEST)? as u16,
        None => 1,
    };
    if start > end {
        return Err(place.error("'start' is above 'end'"));
    }
    fields.finish()?;
    Ok(Sizes::Range { first: start, last: end, step })
}

fn weighted(place: NodePath<'_>, room: usize) -> Result<Sizes> {
    let fields = place.fields()?;
    let pairs = match fields.choice(&["predefined", "custom"], "predefined")? {
        "custom" => {
            let custom = fields.part("custom");
            let pairs = custom.each(|pair| {
                let fields = pair.fields()?;
                let size = size(&fields, "size", 64)?;
                let weight = match fields.get("weight") {
                    Some(weight) => weight.number(0.0, 1e6)?,
                    None => 1.0,
                };
                fields.finish()?;
                Ok((size, (weight * 1000.0).round() as u32))
            })?;
            let pairs: Vec<_> = pairs.into_iter().filter(|(_, weight)| *weight > 0).collect();
            if pairs.is_empty() {
                return Err(custom.error("no size with a weight above 0"));
            }
            pairs
        }
        _ => {
            let name = match fields.get("predefined") {
                Some(place) => place.one_of(&PREDEFINED.map(|(name, _)| name))?,
                None => "imix",
            };
            let known = PREDEFINED.into_iter().find(|(known, _)| *known == name);
            let pairs = known.map_or(PREDEFINED[0].1, |(_, pairs)| pairs);
            let length = |size: u16| without_fcs(size.into()).max(room as u16);
            pairs.iter().map(|(size, weight)| (length(*size), *weight)).collect()
        }
    };
    fields.finish()?;
    Ok(Sizes::Weighted(pairs))
}

fn size(fields: &MapFields<'_>, name: &'static str, default: u64) -> Result<u16> {
    match fields.get(name) {
        Some(place) => place.integer(SHORTEST, LONGEST).map(without_fcs),
        None => Ok(without_fcs(default)),
    }
}

fn without_fcs(size: u64) -> u16 {
    (size - FCS) as u16
}
