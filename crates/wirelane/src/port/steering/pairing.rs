//! Pairs receiving ends with transmitting ends, for forwarding.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::mask::Class;
use crate::port::info::PortInfo;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::tx::Tx;

/// Receiving ends and the transmitting end for their packets: the work of one thread.
pub struct ForwardPath {
    /// The position of the source port.
    pub from: usize,
    /// The position of the destination port.
    pub to: usize,
    /// The receiving ends.
    pub rx: Vec<Rx>,
    /// The transmitting end.
    pub tx: Tx,
    /// The source waits for its consumer, so that a slow consumer loses no packets.
    pub lossless: bool,
}

/// Pairs the ends of two ports in both directions, or of one port with itself.
///
/// RX queue i forwards to TX queue i modulo the number of TX queues; packets without a queue go to
/// the first. A lane has all receiving ends of one TX queue. With one thread per lane no end is
/// shared, and order within a flow is preserved. Packets that the host itself sends (class TX) are
/// on their way already and are in no lane. The transmitting ends segment long frames, as with
/// [`Port::tx_segmenting`].
///
/// ```
/// use wirelane::port::{self, OpenOptions};
///
/// # fn main() -> wirelane::Result<()> {
/// let options = OpenOptions::forwarder();
/// let mut ports =
///     [port::open(&"sim:2".parse()?, &options)?, port::open(&"sim:3".parse()?, &options)?];
/// let lanes = port::lanes(&mut ports)?;
/// let there: Vec<_> = lanes.iter().filter(|lane| lane.from == 0).collect();
/// assert_eq!(there.len(), 2);
/// assert_eq!((there[1].rx[0].queue(), there[1].tx.queue()), (Some(1), 1));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// There is no port or there are more than two, their link types differ, or one of them has no
/// queue to receive from or to send through.
pub fn lanes(ports: &mut [Port]) -> Result<Vec<ForwardPath>> {
    let routes = routes(ports, false)?;
    let mut ends = Vec::new();
    for port in &mut *ports {
        let tx = port.tx_if_any(true)?;
        ends.push((port.rx()?, tx));
    }
    let mut lanes = Vec::new();
    for (from, to) in routes {
        let (rx, tx) = (std::mem::take(&mut ends[from].0), std::mem::take(&mut ends[to].1));
        let rx = received(rx);
        check_ends(ports[from].info(), &rx, ports[to].info(), &tx)?;
        let lossless = ports[from].info().lossless;
        let groups = by_tx_queue(rx, tx.len()).into_values();
        lanes.extend(groups.zip(tx).map(|(rx, tx)| ForwardPath { from, to, rx, tx, lossless }));
    }
    Ok(lanes)
}

/// Source and destination of each direction, as indices of ports.
pub(crate) fn routes(ports: &[Port], one_way: bool) -> Result<Vec<(usize, usize)>> {
    match ports {
        [_] => Ok(vec![(0, 0)]),
        [first, second] => {
            let (first, second) = (first.info(), second.info());
            if first.link_type != second.link_type {
                let object = format!("ports '{}' and '{}'", first.spec, second.spec);
                let cause = format!(
                    "their link types differ ({} and {})",
                    first.link_type, second.link_type
                );
                return Err(Error::failed(object, cause).help("join ports of one link type"));
            }
            Ok(if one_way { vec![(0, 1)] } else { vec![(0, 1), (1, 0)] })
        }
        _ => Err(Error::usage("forward", "it takes one port or two")),
    }
}

/// Drops the ends for packets that the host sends: these packets are on their way already.
pub(crate) fn received(mut inputs: Vec<Rx>) -> Vec<Rx> {
    inputs.retain(|rx| rx.class() != Class::Tx);
    inputs
}

/// Returns an error if there is no end to receive from or none to send through.
pub(crate) fn check_ends(from: &PortInfo, rx: &[Rx], to: &PortInfo, tx: &[Tx]) -> Result<()> {
    let (info, lack) = match (rx, tx) {
        ([], _) => (from, "it has no queue to receive from"),
        (_, []) => (to, "it has no queue to send through"),
        _ => return Ok(()),
    };
    Err(Error::failed(format!("port '{}'", info.spec), lack))
}

/// The receiving ends for each of `count` transmitting ends, by index.
pub(crate) fn by_tx_queue(inputs: Vec<Rx>, count: usize) -> BTreeMap<usize, Vec<Rx>> {
    let mut groups: BTreeMap<usize, Vec<Rx>> = BTreeMap::new();
    let mut position = 0;
    for rx in inputs {
        let to = match rx.class() {
            Class::Other => 0,
            Class::Rx | Class::Tx => {
                position += 1;
                (position - 1) % count
            }
        };
        groups.entry(to).or_default().push(rx);
    }
    groups
}
