//! From the name of a device to what is opened, and the list of devices.
//!
//! | name | opens |
//! |---|---|
//! | an interface | `packet:` of all queues and classes: it only looks |
//! | `wirelane:SPEC` | any port of Wirelane, as `wirelane capture` names it |
//! | any other name | the system's libpcap: `any`, `nflog`, `usbmon1`, `bluetooth0`, `dbus-system` |
//!
//! * [`settings`]: what the environment variable `WIRELANE_PCAP` says.
//! * [`name`]: from a name to an [`Opening`].

mod name;
mod opening;
mod settings;

pub(crate) use name::{Device, find, savefile};
pub(crate) use opening::Opening;
