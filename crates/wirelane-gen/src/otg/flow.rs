//! A flow of the model: its ports, rate, duration and metrics.

use std::collections::BTreeMap;

use super::place::{MapFields, NodePath};
use crate::error::Result;
use crate::rate::Rate;
use crate::schedule::Burst;

/// The measurements of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Count the packets of the flow, which then carry a signature.
    pub enable: bool,
    /// Report losses.
    pub loss: bool,
    /// Report the times of the first and the last packet.
    pub timestamps: bool,
    /// Measure latencies.
    pub latency: bool,
}

/// The duration of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FlowDuration {
    /// The number of packets; `None` for no limit.
    pub(super) packets: Option<u64>,
    /// Nanoseconds from the first packet; `None` for no limit.
    pub(super) nanoseconds: Option<u64>,
    /// Nanoseconds before the first packet.
    pub(super) delay: u64,
    /// Bursts with gaps between them.
    pub(super) burst: Option<Burst>,
}

/// The longest duration: a year, in seconds.
const LONGEST: f64 = 366.0 * 86_400.0;

/// The positions of the ports of a file, by name.
pub(super) type Ports = BTreeMap<String, usize>;

/// The sending port and the receiving ports of a flow.
pub(super) fn endpoints<'a>(place: NodePath<'a>, ports: &Ports) -> Result<(usize, Vec<usize>)> {
    let fields = place.fields()?;
    if fields.choice(&["port", "device"], "port")? == "device" {
        let what = "emulated devices are not supported: nothing here answers ARP or speaks a \
                    routing protocol";
        return Err(fields.part("device").unsupported(what, "port"));
    }
    let port = fields.need("port")?.fields()?;
    let tx = index(&port.need("tx_name")?, ports)?;
    let mut rx = match port.get("rx_names") {
        Some(names) => names.each(|name| index(&name, ports))?,
        None => Vec::new(),
    };
    // The older key, for one port.
    if let Some(name) = port.get("rx_name") {
        let one = index(&name, ports)?;
        if !rx.is_empty() && rx != [one] {
            return Err(name.error("differs from 'rx_names'"));
        }
        rx = vec![one];
    }
    port.finish()?;
    fields.finish()?;
    Ok((tx, rx))
}

fn index(place: &NodePath<'_>, ports: &Ports) -> Result<usize> {
    let name = place.text()?;
    ports.get(name).copied().ok_or_else(|| {
        let known: Vec<_> = ports.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        place.error(format!("no port is called '{name}'; there are: {known}"))
    })
}

/// The rate of a flow whose frames have `length` bytes on average, without frame check sequence.
pub(super) fn rate(place: NodePath<'_>, length: f64) -> Result<Rate> {
    let fields = place.fields()?;
    let choices = ["pps", "bps", "kbps", "mbps", "gbps", "percentage"];
    let choice = fields.choice(&choices, "pps")?;
    let field = fields.get(choice);
    let number = |scale: u64, low, default| match &field {
        Some(field) => field.integer(low, 1_000_000_000_000_000 / scale),
        None => Ok(default),
    };
    // A rate in bits counts the bytes on the wire: the minimum of the model, 672, is one frame of
    // 64 bytes with preamble and gap.
    let wire_bits = (length + Rate::WIRE_OVERHEAD as f64) * 8.0;
    let bits = |bits: u64, scale: u64| Rate::Packets((bits * scale) as f64 / wire_bits);
    let rate = match choice {
        "pps" => Rate::Packets(number(1, 1, 1000)? as f64),
        "bps" => bits(number(1, 672, 1_000_000_000)?, 1),
        "kbps" => bits(number(1_000, 1, 1_000_000)?, 1_000),
        "mbps" => bits(number(1_000_000, 1, 1_000)?, 1_000_000),
        "gbps" => bits(number(1_000_000_000, 1, 1)?, 1_000_000_000),
        _ => match &field {
            Some(field) => match field.number(0.0, 100.0)? {
                0.0 => return Err(field.error("0 sends nothing; leave the flow out")),
                percent => Rate::Share(percent / 100.0),
            },
            None => Rate::Share(1.0),
        },
    };
    fields.finish()?;
    Ok(rate)
}

/// Parses the duration of a flow.
pub(super) fn duration(place: NodePath<'_>) -> Result<FlowDuration> {
    let fields = place.fields()?;
    let choices = ["continuous", "fixed_packets", "fixed_seconds", "burst"];
    let choice = fields.choice(&choices, "continuous")?;
    let of = fields.part(choice).fields()?;
    if let Some(gap) = of.get("gap")
        && gap.integer(0, u32::MAX.into())? != 12
    {
        let what = "a gap in bytes depends on the speed of the link, which 'rate' sets";
        return Err(gap.unsupported(what, "12, the gap of Ethernet"));
    }
    let mut extent = FlowDuration::default();
    match choice {
        "fixed_packets" => extent.packets = Some(whole(&of, "packets", 1, 1)?),
        "fixed_seconds" => {
            let seconds = match of.get("seconds") {
                Some(seconds) => seconds.number(0.0, LONGEST)?,
                None => 1.0,
            };
            extent.nanoseconds = Some((seconds * 1e9).round() as u64);
        }
        "burst" => {
            let packets = whole(&of, "packets", 1, 1)?;
            let bursts = whole(&of, "bursts", 0, 0)?;
            let gap = time(of.part("inter_burst_gap"), 12.0)?;
            extent.burst = Some(Burst { packets, gap });
            // 0 bursts means no limit.
            extent.packets = (bursts > 0).then(|| bursts * packets);
        }
        _ => {}
    }
    if choice != "burst" {
        extent.delay = time(of.part("delay"), 0.0)?;
    }
    of.finish()?;
    fields.finish()?;
    Ok(extent)
}

fn whole(fields: &MapFields<'_>, name: &'static str, low: u64, default: u64) -> Result<u64> {
    match fields.get(name) {
        Some(place) => place.integer(low, u32::MAX.into()),
        None => Ok(default),
    }
}

/// Parses a time, and returns nanoseconds. A time in bytes depends on the link speed, so only 0 and
/// the `usual` gap of Ethernet are accepted.
fn time(place: NodePath<'_>, usual: f64) -> Result<u64> {
    let fields = place.fields()?;
    let choice = fields.choice(&["bytes", "nanoseconds", "microseconds"], "bytes")?;
    let number = match fields.get(choice) {
        Some(place) => {
            let number = place.number(0.0, LONGEST * 1e9)?;
            if choice == "bytes" && number != usual && number != 0.0 {
                let what = "a time in bytes depends on the speed of the link";
                return Err(place.unsupported(what, "nanoseconds, microseconds"));
            }
            Some(number)
        }
        None => None,
    };
    fields.finish()?;
    Ok(match (choice, number) {
        ("nanoseconds", Some(number)) => number.round() as u64,
        ("microseconds", Some(number)) => (number.min(LONGEST * 1e6) * 1e3).round() as u64,
        _ => 0,
    })
}

/// Parses the metrics.
pub(super) fn metrics(place: NodePath<'_>) -> Result<Metrics> {
    let fields = place.fields()?;
    let flag = |fields: &MapFields<'_>, name: &'static str| match fields.get(name) {
        Some(place) => place.boolean(),
        None => Ok(false),
    };
    let mut metrics = Metrics {
        enable: flag(&fields, "enable")?,
        loss: flag(&fields, "loss")?,
        timestamps: flag(&fields, "timestamps")?,
        latency: false,
    };
    let latency = fields.part("latency").fields()?;
    metrics.latency = flag(&latency, "enable")?;
    if let Some(mode) = latency.get("mode") {
        mode.one_of(&["store_forward"])?;
    }
    latency.finish()?;
    let ratio = fields.part("rx_tx_ratio").fields()?;
    if ratio.choice(&["value", "rx_count"], "value")? == "rx_count" {
        let what = "each packet is expected once";
        return Err(ratio.part("rx_count").unsupported(what, "value: 1"));
    }
    if let Some(value) = ratio.get("value")
        && value.number(0.0, f64::MAX)? != 1.0
    {
        return Err(value.unsupported("each packet is expected once", "1"));
    }
    ratio.finish()?;
    let tags = fields.part("predefined_metric_tags").fields()?;
    off(&tags, "rx_name", "figures are per flow; make a flow for each receiving port")?;
    tags.finish()?;
    fields.finish()?;
    Ok(metrics)
}

/// Checks a switch whose only supported value is off.
pub(super) fn off(fields: &MapFields<'_>, name: &'static str, why: &str) -> Result<()> {
    match fields.get(name) {
        Some(place) if place.boolean()? => Err(place.unsupported(why, "false")),
        _ => Ok(()),
    }
}
