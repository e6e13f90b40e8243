//! Resolves device names to ports, and lists devices.
//!
//! | name | opens |
//! |---|---|
//! | an interface | `packet:` of all queues and classes: packets also reach the host |
//! | `wirelane:SPEC` | any port of Wirelane, as `wirelane capture` names it |
//! | any other name | the system's libpcap: `any`, `nflog`, `usbmon1`, `bluetooth0` … |
//!
//! * [`settings`]: the options of the environment variable `WIRELANE_PCAP`.
//! * [`name`]: resolves a name to a [`PortOpening`].
//! * [`list`]: all devices: [`interfaces`], other devices of the system's libpcap, and [`queues`];
//!   [`nodes`] is the list in C.
//! * [`network`]: the IPv4 network of a device.

mod addresses;
mod entry;
mod interfaces;
mod list;
mod name;
mod network;
mod nodes;
mod opening;
mod queues;
mod settings;

pub(crate) use list::list;
pub(crate) use name::{NamedDevice, find, savefile};
pub(crate) use network::network;
pub(crate) use nodes::{free, to_list};
pub(crate) use opening::PortOpening;
