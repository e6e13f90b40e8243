//! Which port sends what which other one receives, and which thread does it.

use std::collections::BTreeMap;

use super::config::ForwardConfig;
use crate::error::{Error, Result};
use crate::mask::Class;
use crate::port::{Port, Rx};

/// Source and destination of each direction, as positions of ports.
pub(super) fn routes(ports: &[Port], config: &ForwardConfig) -> Result<Vec<(usize, usize)>> {
    const ETHERNET: u16 = 1;
    let swap = config.swap || ports.len() == 1;
    if let Some(port) = ports.iter().find(|port| swap && port.info().link_type != ETHERNET) {
        let object = format!("port '{}'", port.info().spec);
        return Err(Error::failed(object, "its packets have no Ethernet addresses to swap"));
    }
    match ports {
        [_] => Ok(vec![(0, 0)]),
        [first, second] => {
            let (first, second) = (first.info(), second.info());
            if first.link_type != second.link_type {
                let object = format!("ports '{}' and '{}'", first.spec, second.spec);
                let cause = format!(
                    "their packets begin with different headers (link types {} and {})",
                    first.link_type, second.link_type
                );
                return Err(Error::failed(object, cause));
            }
            Ok(if config.one_way { vec![(0, 1)] } else { vec![(0, 1), (1, 0)] })
        }
        _ => Err(Error::usage("forward", "it takes one port or two")),
    }
}

/// The receiving ends of each thread, when the transmitting ends allow for so many; and the position
/// of the first one, which decides where packets go.
pub(super) fn group(inputs: Vec<Rx>, threads: usize) -> BTreeMap<usize, Vec<Rx>> {
    let mut groups: BTreeMap<usize, Vec<Rx>> = BTreeMap::new();
    let mut position = 0;
    for rx in inputs {
        let thread = match rx.class() {
            Class::Other => 0,
            Class::Rx | Class::Tx => {
                position += 1;
                (position - 1) % threads
            }
        };
        groups.entry(thread).or_default().push(rx);
    }
    groups
}
