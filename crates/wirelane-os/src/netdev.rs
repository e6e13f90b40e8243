//! Lists interfaces and their queues, in the calling thread's network namespace.
//!
//! There are two sources: `rtnetlink` (`RTM_GETLINK`) lists every interface and its *allocated*
//! queues; the `netdev` generic-netlink family (Linux 6.8) lists the queues *in use*, with the NAPI
//! context, interrupt and thread that serve each of them, while the interface is up.

mod family;
pub(crate) mod links;
mod table;

pub use self::family::{
    Napi, NetdevQueue, QueueDirection, XdpFeatures, napis, queues, set_napi_threaded, xdp_features,
};
pub use self::links::{Link, LinkReader, link, links};
pub use self::table::LinkTable;

#[cfg(test)]
#[path = "netdev_tests.rs"]
mod tests;
