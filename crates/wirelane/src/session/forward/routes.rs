//! Which port sends the packets that another receives.

use super::config::ForwardConfig;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::port::steering::pairing;

/// Source and destination of each direction, as indices of ports.
pub(super) fn routes(ports: &[Port], config: &ForwardConfig) -> Result<Vec<(usize, usize)>> {
    const ETHERNET: u16 = 1;
    let swap = config.swap || ports.len() == 1;
    if let Some(port) = ports.iter().find(|port| swap && port.info().link_type != ETHERNET) {
        let object = format!("port '{}'", port.info().spec);
        return Err(Error::failed(object, "its packets have no Ethernet addresses to swap"));
    }
    pairing::routes(ports, config.one_way)
}
