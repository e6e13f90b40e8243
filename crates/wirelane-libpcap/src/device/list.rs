//! All devices, for `pcap_findalldevs` and `pcap_lookupdev`.

use super::entry::{DeviceEntry, sort};
use super::interfaces::interfaces;
use super::nodes;
use super::queues::queues;
use super::settings::DeviceSettings;
use crate::failure::PcapFailure;
use crate::real;

/// Network interfaces and other devices of the system's libpcap, in its order, then the devices
/// that only Wirelane has.
///
/// # Errors
/// The system does not list its interfaces, or `WIRELANE_PCAP` is wrong.
pub(crate) fn list() -> Result<Vec<DeviceEntry>, PcapFailure> {
    let settings = DeviceSettings::of_environment().map_err(PcapFailure::new)?;
    let interfaces = interfaces()?;
    let queues = if settings.is_listing { queues(&interfaces) } else { Vec::new() };
    // Without the system's libpcap, only network interfaces can be opened.
    let others = real::library().map(nodes::of_library).unwrap_or_default();
    let is_new = |other: &DeviceEntry| interfaces.iter().all(|known| known.name != other.name);
    let others: Vec<_> = others.into_iter().filter(is_new).collect();
    let mut devices = interfaces;
    devices.extend(others);
    sort(&mut devices);
    devices.extend(queues);
    Ok(devices)
}
