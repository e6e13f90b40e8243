//! Flow files.

use std::collections::HashSet;

use super::flow::{self, Metrics, Ports, off};
use super::place::{ListBudget, MapFields, NodePath};
use super::{headers, payload, size, yaml};
use crate::error::Result;
use crate::recipe::Recipe;
use crate::stream::Stream;

/// The contents of a flow file.
#[derive(Clone, Debug)]
pub struct OtgConfig {
    /// The ports, in file order.
    pub ports: Vec<OtgPort>,
    /// The flows, in file order.
    pub flows: Vec<OtgFlow>,
}

/// A port that flows refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtgPort {
    /// The name in the file.
    pub name: String,
    /// The external name of the port, if the file has one.
    pub location: Option<String>,
}

/// Packets of one kind, from one port to others.
#[derive(Clone, Debug)]
pub struct OtgFlow {
    /// The position of the sending port in [`OtgConfig::ports`].
    pub tx: usize,
    /// The positions of the receiving ports.
    pub rx: Vec<usize>,
    /// The description of its packets.
    pub recipe: Recipe,
    /// The stream of packets, with the name of the flow.
    pub stream: Stream,
    /// The requested measurements.
    pub metrics: Metrics,
}

/// Unsupported sections of the model.
const SECTIONS: [(&str, &str); 8] = [
    ("lags", "link aggregation is not supported; supported: ports"),
    ("layer1", "not supported: set the link with ip link and ethtool, then leave this out"),
    ("captures", "not supported: run 'wirelane capture', then leave this out"),
    (
        "devices",
        "emulated devices and their sessions (BGP, ARP, DHCP and others) are not supported; \
         supported: flows between ports",
    ),
    ("lldp", "LLDP sessions are not supported; supported: flows between ports"),
    ("events", "not supported; supported: flows between ports"),
    ("stateful_flows", "not supported; supported: flows between ports"),
    ("egress_only_tracking", "not supported; supported: metrics of flows"),
];

/// Parses a flow file in YAML or JSON. `reserved` returns the number of bytes to reserve for a
/// signature in packets of a flow with these metrics.
///
/// # Errors
/// The first invalid or unsupported item in the file.
pub fn parse(text: &str, reserved: &dyn Fn(&Metrics) -> usize) -> Result<OtgConfig> {
    let document = yaml::read(text)?;
    let budget = ListBudget::new();
    let top = NodePath::root(&document, &budget).fields()?;
    for (section, why) in SECTIONS {
        if let Some(place) = top.get(section) {
            place.refuse(why)?;
        }
    }
    let ports = ports(top.part("ports"))?;
    let names = ports.iter().enumerate().map(|(at, port)| (port.name.clone(), at)).collect();
    let mut seen = HashSet::new();
    let flows = top.part("flows").each(|place| flow(place, &names, &mut seen, reserved))?;
    options(top.part("options"))?;
    top.finish()?;
    if flows.is_empty() {
        let there = NodePath::root(&document, &budget).fields()?;
        return Err(there.part("flows").error("there is no flow, so nothing to send"));
    }
    Ok(OtgConfig { ports, flows })
}

fn ports(place: NodePath<'_>) -> Result<Vec<OtgPort>> {
    let mut seen = HashSet::new();
    place.each(|port| {
        let fields = port.fields()?;
        let name = unique(&fields, &mut seen)?;
        let location = match fields.get("location") {
            Some(location) => Some(location.text()?.to_owned()),
            None => None,
        };
        fields.finish()?;
        Ok(OtgPort { name, location })
    })
}

fn flow(
    place: NodePath<'_>,
    ports: &Ports,
    seen: &mut HashSet<String>,
    reserved: &dyn Fn(&Metrics) -> usize,
) -> Result<OtgFlow> {
    let fields = place.fields()?;
    let name = unique(&fields, seen)?;
    let (tx, rx) = flow::endpoints(fields.need("tx_rx")?, ports)?;
    let packet = headers::read(fields.get("packet"))?;
    let metrics = flow::metrics(fields.part("metrics"))?;
    let reserved = reserved(&metrics);
    let room = packet.room(reserved).map_err(|error| place.located(error))?;
    let sizes = size::read(fields.part("size"), room)?;
    let recipe = payload::read(fields.part("payload"), packet, &sizes, reserved)?;
    let stream = Stream::new(name, &recipe, Some(&sizes), reserved);
    let mut stream = stream.map_err(|error| place.located(error))?;
    stream.rate = flow::rate(fields.part("rate"), stream.lengths.mean())?;
    let extent = flow::duration(fields.part("duration"))?;
    stream.count = extent.packets;
    stream.duration = extent.nanoseconds;
    stream.start = extent.delay;
    stream.burst = extent.burst;
    if let Some(egress) = fields.get("egress_packet") {
        egress.refuse("not supported: headers are not looked at where packets arrive")?;
    }
    fields.finish()?;
    Ok(OtgFlow { tx, rx, recipe, stream, metrics })
}

/// The unique name of a port or flow.
fn unique(fields: &MapFields<'_>, seen: &mut HashSet<String>) -> Result<String> {
    let place = fields.need("name")?;
    let name = place.text()?.to_owned();
    if name.is_empty() {
        return Err(place.error("an empty name"));
    }
    if !seen.insert(name.clone()) {
        return Err(place.error(format!("a second '{name}'")));
    }
    Ok(name)
}

/// The options of the file. Only options without an effect are accepted.
fn options(place: NodePath<'_>) -> Result<()> {
    let options = place.fields()?;
    let port = options.part("port_options").fields()?;
    // A local interface cannot be preempted, so both values have the same effect.
    if let Some(preemption) = port.get("location_preemption") {
        preemption.boolean()?;
    }
    off(&port, "data_integrity", "received payloads are not compared")?;
    let order = port.part("frame_ordering_mode").fields()?;
    order.choice(&["no_ordering"], "no_ordering")?;
    order.finish()?;
    port.finish()?;
    let flow = options.part("flow_options").fields()?;
    off(&flow, "packet_loss_duration", "losses are counted in packets")?;
    flow.finish()?;
    for (section, why) in [
        ("protocol_options", "not supported: there are no sessions"),
        ("per_port_options", "not supported; supported: port_options"),
    ] {
        if let Some(place) = options.get(section) {
            place.refuse(why)?;
        }
    }
    options.finish()
}
