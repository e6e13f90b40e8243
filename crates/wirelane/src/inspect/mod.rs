//! What the kernel and the driver say about the queues of an interface: how many, how deep, on
//! which CPUs, and how packets are spread over them.
//!
//! This is `test_ifqueue` of the 2011 multiqueue BPF paper (queue counts and the CPU of each) and
//! the counting of the 2010 multiqueue socket paper, extended by ring sizes, NUMA nodes and
//! receive-side scaling. Nothing is changed, no privilege is needed, and every answer is about the
//! network namespace of the calling thread. What is not known is `None`, never 0.
//!
//! ```no_run
//! let lo = wirelane::inspect::interface("lo")?;
//! println!("{} has {:?} receive queues", lo.name, lo.rx.count);
//! # Ok::<(), wirelane::Error>(())
//! ```

use wirelane_os::netdev;

use crate::error::{Error, Result};

mod cpus;
mod gather;
mod interface;
mod interrupts;
mod mapping;
mod notes;
mod rss;
mod sending;

use gather::Host;

pub use cpus::CpuList;
pub(crate) use interface::Brief;
pub use interface::{
    ByteLimit, Combined, CpusFrom, InterfaceQueues, Offloads, Ring, Rss, RxQueue, Service, Side,
    TxQueue,
};
pub use mapping::QueueMapping;
pub(crate) use mapping::rx_mapping;
pub(crate) use sending::Steering;
pub use sending::{TxBinding, TxWay, sending};

/// The names of the interfaces of this network namespace, in the kernel's order.
///
/// # Errors
/// What the kernel says to the question.
pub fn interfaces() -> Result<Vec<String>> {
    let links = netdev::links().map_err(|error| Error::os("interfaces", error))?;
    Ok(links.into_iter().map(|link| link.name).collect())
}

/// Everything known about the queues of the interface `name`.
///
/// # Errors
/// When there is no such interface in this network namespace, or the kernel cannot be asked. What a
/// driver does not tell is `None`, and a question that failed leaves a note.
pub fn interface(name: &str) -> Result<InterfaceQueues> {
    gather::interface(&Host::default(), name)
}

/// The number of the interface `name`, and of its receive and its transmit queues, as [`interface`]
/// says; of an interface that is up, for a fraction of the cost.
///
/// # Errors
/// As [`interface`].
pub(crate) fn queue_counts(name: &str) -> Result<(u32, [Option<u32>; 2])> {
    gather::queue_counts(name)
}

/// What a port has to know about the interface `name`, as [`interface`] says; for a fraction of the
/// cost.
///
/// # Errors
/// As [`interface`].
pub(crate) fn brief(name: &str) -> Result<Brief> {
    gather::brief(name)
}

/// [`interface`] for every interface of this network namespace. One that vanishes in between is
/// left out.
///
/// # Errors
/// As [`interfaces`] and [`interface`].
pub fn all() -> Result<Vec<InterfaceQueues>> {
    let host = Host::default();
    let mut found = Vec::new();
    for name in interfaces()? {
        match gather::interface(&host, &name) {
            Err(_) if !interfaces()?.contains(&name) => {}
            interface => found.push(interface?),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
