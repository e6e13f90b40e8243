//! What `wirelane ndr` sends.

use std::net::IpAddr;
use std::sync::Arc;

use wirelane::{Error, Result};
use wirelane_send::ndr::{Ends, Network, Traffic, Udp};

use super::arguments::NdrArgs;

/// The packets of the way there, and of the way back.
///
/// # Errors
/// Addresses do not fit together, or a description of packets is wrong.
pub(super) fn of(args: &NdrArgs) -> Result<[Arc<dyn Traffic>; 2]> {
    let own = Udp::between();
    let there = Udp {
        macs: Ends {
            source: args.src_mac.unwrap_or(own.macs.source),
            destination: args.dst_mac.unwrap_or(own.macs.destination),
        },
        network: network(args, own.network)?,
        ..own
    };
    let mut back = there.back();
    if let Some(mac) = args.back_mac {
        back.macs.destination = mac;
    }
    if args.dst_mac.is_some() {
        // The destination of the way there is a router, which does not send what B sends.
        back.macs.source = own.macs.destination;
    }
    Ok([Arc::new(there), Arc::new(back)])
}

fn network(args: &NdrArgs, own: Network) -> Result<Network> {
    match (args.src_ip, args.dst_ip, own) {
        (None, None, own) => Ok(own),
        (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination)), _) => {
            Ok(Network::V4(Ends { source, destination }))
        }
        (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination)), _) => {
            Ok(Network::V6(Ends { source, destination }))
        }
        (Some(IpAddr::V4(source)), None, Network::V4(own)) => {
            Ok(Network::V4(Ends { source, ..own }))
        }
        (None, Some(IpAddr::V4(destination)), Network::V4(own)) => {
            Ok(Network::V4(Ends { destination, ..own }))
        }
        _ => Err(Error::usage("--src-ip, --dst-ip", "the addresses are not of one kind")
            .help("give both, either IPv4 or IPv6")),
    }
}
