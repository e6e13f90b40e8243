//! A device as `pcap_findalldevs` shows it, before it is copied to memory of C.

use std::ffi::{CStr, CString};

/// `PCAP_IF_…` of pcap/pcap.h.
pub(super) mod flag {
    pub(in crate::device) const LOOPBACK: u32 = 0x01;
    pub(in crate::device) const UP: u32 = 0x02;
    pub(in crate::device) const RUNNING: u32 = 0x04;
    pub(in crate::device) const WIRELESS: u32 = 0x08;
    pub(in crate::device) const CONNECTION: u32 = 0x30;
    pub(in crate::device) const CONNECTED: u32 = 0x10;
    pub(in crate::device) const DISCONNECTED: u32 = 0x20;
    pub(in crate::device) const CONNECTION_NOT_APPLICABLE: u32 = 0x30;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceEntry {
    pub(super) name: CString,
    pub(super) description: Option<CString>,
    pub(super) flags: u32,
    pub(super) addresses: Vec<AddressEntry>,
}

/// An address of a device: a `struct sockaddr` each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddressEntry {
    pub(super) address: Option<Vec<u8>>,
    pub(super) netmask: Option<Vec<u8>>,
    pub(super) broadcast: Option<Vec<u8>>,
    pub(super) destination: Option<Vec<u8>>,
}

impl DeviceEntry {
    pub(super) fn new(name: CString, flags: u32) -> Self {
        Self { name, description: None, flags, addresses: Vec::new() }
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.flags & flag::LOOPBACK != 0
    }

    /// libpcap's sort key. A program without a device name takes the first device.
    fn rank(&self) -> [bool; 5] {
        let has = |flag: u32| self.flags & flag != 0;
        let disconnected = self.flags & flag::CONNECTION == flag::DISCONNECTED;
        [
            !has(flag::RUNNING),
            !has(flag::UP),
            disconnected && !has(flag::WIRELESS),
            has(flag::LOOPBACK),
            self.name.as_c_str() == c"any",
        ]
    }
}

/// Sorts devices as libpcap does. Devices of equal rank keep their order.
pub(super) fn sort(devices: &mut [DeviceEntry]) {
    devices.sort_by_key(DeviceEntry::rank);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_what_a_program_should_take() {
        let running = flag::UP | flag::RUNNING;
        let entry = |(name, flags): (&CStr, u32)| DeviceEntry::new(name.to_owned(), flags);
        let mut devices = [
            (c"down", 0),
            (c"lo", running | flag::LOOPBACK | flag::CONNECTION_NOT_APPLICABLE),
            (c"any", running | flag::CONNECTION_NOT_APPLICABLE),
            (c"unplugged", running | flag::DISCONNECTED),
            (c"wlan0", running | flag::DISCONNECTED | flag::WIRELESS),
            (c"eth1", running | flag::CONNECTED),
            (c"up", flag::UP),
            (c"eth0", running),
        ]
        .map(entry);
        sort(&mut devices);
        let names = devices.each_ref().map(|entry| entry.name.to_str().unwrap());
        assert_eq!(names, ["wlan0", "eth1", "eth0", "any", "lo", "unplugged", "up", "down"]);
    }
}
