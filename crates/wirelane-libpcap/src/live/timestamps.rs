//! The sources of packet time stamps.

use std::ffi::c_int;

use wirelane_os::ethtool::Ethtool;

use crate::abi::timestamp;

/// `SOF_TIMESTAMPING_…` of `linux/net_tstamp.h`, and libpcap's types.
const KINDS: [(u32, c_int); 3] = [
    (1 << 4, timestamp::HOST),
    (1 << 5, timestamp::ADAPTER),
    (1 << 6, timestamp::ADAPTER_UNSYNCED),
];

/// The types that `pcap_set_tstamp_type` accepts for an interface; empty if there is no choice.
pub(super) fn types(interface: &str) -> Vec<c_int> {
    let known = Ethtool::open(interface).and_then(|ethtool| ethtool.timestamps());
    // A driver that cannot report its types may still have them: activation shows.
    let bits = known.map_or(0, |bits| bits.unwrap_or(u32::MAX));
    KINDS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, kind)| *kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_no_choice() {
        assert!(types("no-such-if").is_empty());
        // A loopback takes no time of received packets.
        assert!(types("lo").is_empty());
    }
}
