//! The packets that `wirelane ndr` sends.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use wirelane::port::Spec;
use wirelane::{Error, Result};
use wirelane_gen::otg::OtgConfig;
use wirelane_gen::protocol::Preset;
use wirelane_gen::recipe::Value;
use wirelane_gen::{Recipe, Stream, Values, signature};
use wirelane_send::ndr::{NetworkAddresses, Streams, Traffic, TrafficEnds, UdpStream};

use super::arguments::NdrArgs;
use crate::text_file;

/// The packets of the way there, and of the way back if there are any.
pub(super) type Both = (Arc<dyn Traffic>, Option<Arc<dyn Traffic>>);

/// The packets of the ways from `a` to `b` and back.
///
/// # Errors
/// Addresses do not fit together, or a description of packets is wrong.
pub(super) fn of(args: &NdrArgs, a: &Spec, b: &Spec) -> Result<Both> {
    if let Some(path) = &args.flows {
        return flows(path, [a, b].map(|port| port.name_text()));
    }
    if let Some(text) = &args.packet {
        let there = recipe("--packet", text)?;
        let back = args.packet_back.as_deref().map(|text| recipe("--packet-back", text));
        let back = back.unwrap_or_else(|| exchanged(&there))?;
        return Ok((streams("--packet", &there)?, Some(streams("--packet-back", &back)?)));
    }
    let own = UdpStream::between();
    let there = UdpStream {
        macs: TrafficEnds {
            source: args.src_mac.unwrap_or(own.macs.source),
            destination: args.dst_mac.unwrap_or(own.macs.destination),
        },
        network: network(args, own.network)?,
        ..own
    };
    let mut back = there.back();
    if args.dst_mac.is_some() {
        // The destination of the way there is a router, which does not send what B sends.
        back.macs.source = own.macs.destination;
    }
    if let Some(mac) = args.back_mac {
        back.macs.destination = mac;
    }
    Ok((Arc::new(there), Some(Arc::new(back))))
}

fn network(args: &NdrArgs, own: NetworkAddresses) -> Result<NetworkAddresses> {
    match (args.src_ip, args.dst_ip, own) {
        (None, None, own) => Ok(own),
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination)), _) => {
            Ok(NetworkAddresses::V4(TrafficEnds { source, destination }))
        }
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination)), _) => {
            Ok(NetworkAddresses::V6(TrafficEnds { source, destination }))
        }
        (Some(IpAddr::V4(source)), None, NetworkAddresses::V4(own)) => {
            Ok(NetworkAddresses::V4(TrafficEnds { source, ..own }))
        }
        (None, Some(IpAddr::V4(destination)), NetworkAddresses::V4(own)) => {
            Ok(NetworkAddresses::V4(TrafficEnds { destination, ..own }))
        }
        _ => Err(Error::usage("--src-ip, --dst-ip", "the addresses are not of one kind")
            .help("give both, either IPv4 or IPv6")),
    }
}

fn recipe(option: &'static str, text: &str) -> Result<Recipe> {
    text.parse().map_err(|error: wirelane_gen::Error| Error::usage(option, error.to_string()))
}

fn streams(option: &'static str, recipe: &Recipe) -> Result<Arc<dyn Traffic>> {
    let stream = Stream::new("packet", recipe, None, signature::LEN);
    let stream = stream.map_err(|error| Error::usage(option, error.to_string()))?;
    Ok(Arc::new(Streams::new(vec![stream])?))
}

/// The packets that go back: in every layer, source and destination have each other's values.
fn exchanged(there: &Recipe) -> Result<Recipe> {
    let failed = |error: wirelane_gen::Error| {
        Error::usage("--packet", error.to_string()).help("write the way back as --packet-back")
    };
    // With the layers that are implied, whose addresses go the other way, too.
    let there = there.complete().map_err(failed)?;
    let mut back = there.clone();
    for (layer, own) in back.layers.iter_mut().zip(&there.layers) {
        let values = |name: &str| match own.get(name) {
            Some(Value::Numbers(values)) => Some(values.clone()),
            Some(_) => None,
            None => {
                let field = own.protocol.fields.iter().find(|field| field.name == name)?;
                // The next layer sets this field, such as the UDP port of VXLAN: it belongs to
                // neither end.
                match field.preset {
                    Preset::Value(value) => Some(Values::Constant(value)),
                    _ => None,
                }
            }
        };
        let (Some(source), Some(destination)) = (values("src"), values("dst")) else {
            continue;
        };
        layer.settings.retain(|setting| !["src", "dst"].contains(&setting.field.name));
        let set = layer.set("src", destination).and_then(|layer| layer.set("dst", source));
        set.map_err(failed)?;
    }
    Ok(back)
}

/// The flows of a file: A sends the flows of the port that is located there, or of the first port.
fn flows(path: &Path, interfaces: [&str; 2]) -> Result<Both> {
    let name = path.display().to_string();
    let config = text_file::flows(path, signature::LEN)?;
    let [there, back] = ports(&config, interfaces);
    let of = |port: usize| {
        let own = config.flows.iter().filter(|flow| flow.tx == port);
        own.map(|flow| flow.stream.clone()).collect::<Vec<_>>()
    };
    let (there, back) = (of(there), of(back));
    if there.is_empty() {
        return Err(Error::usage(name, format!("it has no flow for {} to send", interfaces[0]))
            .help("exchange the two ports"));
    }
    let back = (!back.is_empty()).then(|| Streams::new(back)).transpose()?;
    Ok((Arc::new(Streams::new(there)?), back.map(|back| Arc::new(back) as _)))
}

/// The positions of the ports that are A and B.
fn ports(config: &OtgConfig, interfaces: [&str; 2]) -> [usize; 2] {
    let located = |interface: &str| {
        config.ports.iter().position(|port| port.location.as_deref() == Some(interface))
    };
    match interfaces.map(located) {
        [Some(a), Some(b)] => [a, b],
        [Some(a), None] => [a, usize::from(a == 0)],
        [None, Some(b)] => [usize::from(b == 0), b],
        [None, None] => [0, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_has_ends_exchanged() {
        for (there, back) in [
            (
                "eth src=02:00:00:00:00:01 dst=02:00:00:00:00:02",
                "eth src=02:00:00:00:00:02 dst=02:00:00:00:00:01",
            ),
            // Implied layers, and one end of two.
            (
                "ipv4 dst=10.0.0.1-10.0.0.9 udp",
                "eth src=02:00:00:00:00:02 dst=02:00:00:00:00:01 ipv4 src=10.0.0.1-10.0.0.9 \
                 dst=198.18.0.1 udp",
            ),
            (
                "tcp src=1-5 dst=80",
                "eth src=02:00:00:00:00:02 dst=02:00:00:00:00:01 ipv4 src=198.19.0.1 \
                 dst=198.18.0.1 tcp src=80 dst=1-5",
            ),
        ] {
            let there: Recipe = there.parse().unwrap();
            let back: Recipe = back.parse().unwrap();
            let found = exchanged(&there).unwrap();
            assert_eq!(found.to_string(), back.to_string());
        }
    }
}
