//! Single queues of interfaces as devices: `wirelane:packet:eth0@2`.
//!
//! Some programs open every listed device, so only harmless devices are listed. `wirelane:xdp:`
//! would take packets from the host; `wirelane:sim:` would make packets as fast as it can.

use std::ffi::CString;

use wirelane::inspect;
use wirelane_os::netdev;

use super::entry::{DeviceEntry, flag};
use super::name::PREFIX;

/// Interfaces with more queues get one entry for all queues.
const MOST: u32 = 16;

/// One entry per queue of each interface that is up and has several queues.
pub(super) fn queues(interfaces: &[DeviceEntry]) -> Vec<DeviceEntry> {
    // One request lists all interfaces; most have one queue.
    let links = netdev::links().unwrap_or_default();
    let may_have_several = |name: &str| {
        let several = |count: Option<u32>| count.is_some_and(|count| count > 1);
        links
            .iter()
            .any(|link| link.name == name && (several(link.rx_queues) || several(link.tx_queues)))
    };
    let mut found = Vec::new();
    for interface in interfaces.iter().filter(|entry| entry.flags & flag::UP != 0) {
        let Some(name) = interface.name.to_str().ok().filter(|name| may_have_several(name)) else {
            continue;
        };
        let Ok(queues) = inspect::interface(name) else { continue };
        let (rx, tx) = (queues.rx.count.unwrap_or(1), queues.tx.count.unwrap_or(1));
        let named = names(name, rx, tx).into_iter().filter_map(|(name, description)| {
            Some(DeviceEntry {
                description: CString::new(description).ok(),
                // The interface's flags apply to its queues; its addresses do not.
                ..DeviceEntry::new(CString::new(name).ok()?, interface.flags)
            })
        });
        found.extend(named);
    }
    found
}

/// Device names and descriptions for an interface with `rx` and `tx` queues.
fn names(interface: &str, rx: u32, tx: u32) -> Vec<(String, String)> {
    let most = rx.max(tx);
    if most < 2 {
        return Vec::new();
    }
    let device = |queues: &str| format!("{PREFIX}packet:{interface}@{queues}");
    if most > MOST {
        let description =
            format!("{rx} RX and {tx} TX queues of {interface}; or name some of them");
        return vec![(device(&format!("0-{}", most - 1)), description)];
    }
    let one = |queue: u32| {
        let kind = match (queue < rx, queue < tx) {
            (true, true) => "RX and TX queue",
            (true, false) => "RX queue",
            _ => "TX queue",
        };
        (device(&queue.to_string()), format!("{kind} {queue} of {interface}"))
    };
    (0..most).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{NamedDevice, find};

    #[test]
    fn each_queue_has_a_name() {
        let names = names("eth0", 3, 2);
        let expected = [
            ("wirelane:packet:eth0@0", "RX and TX queue 0 of eth0"),
            ("wirelane:packet:eth0@1", "RX and TX queue 1 of eth0"),
            ("wirelane:packet:eth0@2", "RX queue 2 of eth0"),
        ];
        assert_eq!(names, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        for (name, _) in names {
            assert!(matches!(find(name), Ok(NamedDevice::Port(_))));
        }
    }

    #[test]
    fn one_queue_is_the_interface_itself_and_many_are_one_entry() {
        assert_eq!(names("eth0", 1, 1), []);
        let [(name, _)] = &names("eth0", 64, 17)[..] else { panic!("one entry") };
        assert_eq!(name, "wirelane:packet:eth0@0-63");
    }
}
