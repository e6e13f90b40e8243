//! The queues of an interface as the kernel and the driver report them: number, depth, CPUs, and
//! the distribution of packets.
//!
//! Corresponds to `test_ifqueue` of the 2011 multiqueue BPF paper (queue counts and the CPU of
//! each) and the counting of the 2010 multiqueue socket paper, extended by ring sizes, NUMA nodes
//! and receive-side scaling. It changes no setting and needs no privilege, and every answer is
//! about the network namespace of the calling thread. Unknown values are `None` instead of 0.
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
pub(crate) mod interface;
mod interrupts;
pub(crate) mod mapping;
mod notes;
mod rss;
pub(crate) mod sending;

use gather::NamespaceFacts;

pub use cpus::CpuList;
pub(crate) use interface::Brief;
pub(crate) use interface::Offloads;
pub use interface::{InterfaceQueues, Rss, RxQueue, Service, Setting, Side, TxQueue};
pub(crate) use mapping::{QueueMapping, rx_mapping};
pub(crate) use sending::{Steering, sending};
pub use sending::{TxBinding, TxWay};

/// The names of the interfaces of this network namespace, in the kernel's order.
///
/// # Errors
/// The kernel refuses the query.
pub fn interfaces() -> Result<Vec<String>> {
    let links = netdev::links().map_err(|error| Error::os("interfaces", error))?;
    Ok(links.into_iter().map(|link| link.name).collect())
}

/// All information about the queues of the interface `name`.
///
/// # Errors
/// The interface does not exist in this network namespace, or the kernel refuses the query. Values
/// that a driver does not report are `None`, and a failed query adds a note.
pub fn interface(name: &str) -> Result<InterfaceQueues> {
    gather::interface(&NamespaceFacts::default(), name)
}

/// The index of the interface `name`, and the numbers of its receive and transmit queues. As
/// [`interface`] for an interface that is up, at a fraction of the cost.
///
/// # Errors
/// The errors of [`interface`].
pub(crate) fn queue_counts(name: &str) -> Result<(u32, [Option<u32>; 2])> {
    gather::queue_counts(name)
}

/// The facts about the interface `name` that a port needs. As [`interface`], at a fraction of the
/// cost.
///
/// # Errors
/// The errors of [`interface`].
pub(crate) fn brief(name: &str) -> Result<Brief> {
    gather::brief(name)
}

/// [`interface`] for every interface of this network namespace. Leaves out an interface that is
/// removed during the call.
///
/// # Errors
/// The errors of [`interfaces`] and [`interface`].
pub fn all() -> Result<Vec<InterfaceQueues>> {
    let host = NamespaceFacts::default();
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
