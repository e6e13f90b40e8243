//! All devices, for `pcap_findalldevs` and `pcap_lookupdev`.

use super::entry::{Entry, sort};
use super::interfaces::interfaces;
use super::nodes;
use super::queues::queues;
use super::settings::Settings;
use crate::failure::Failure;
use crate::real;

/// Network interfaces and other devices of the system's libpcap, in its order, then the devices
/// that only Wirelane has.
///
/// # Errors
/// The system does not list its interfaces, or `WIRELANE_PCAP` is wrong.
pub(crate) fn list() -> Result<Vec<Entry>, Failure> {
    let settings = Settings::of_environment().map_err(Failure::new)?;
    let interfaces = interfaces()?;
    let queues = if settings.is_listing { queues(&interfaces) } else { Vec::new() };
    // Without the system's libpcap, only network interfaces can be opened.
    let others = real::library().map(nodes::of_library).unwrap_or_default();
    let is_new = |other: &Entry| interfaces.iter().all(|known| known.name != other.name);
    let others: Vec<_> = others.into_iter().filter(is_new).collect();
    let mut devices = interfaces;
    devices.extend(others);
    sort(&mut devices);
    devices.extend(queues);
    Ok(devices)
}
