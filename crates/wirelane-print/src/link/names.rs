//! Names of link types that are not decoded.

/// The name of a LINKTYPE_ value.
pub(super) fn name(link_type: u16) -> Option<&'static str> {
    Some(match link_type {
        7 => "ARCNET",
        8 => "SLIP",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP serial",
        51 => "PPPoE",
        100 => "ATM",
        104 => "Cisco HDLC",
        105 => "802.11",
        107 => "Frame Relay",
        109 => "OpenBSD IPsec",
        117 => "OpenBSD pflog",
        119 => "802.11 prism",
        127 => "802.11 radiotap",
        129 => "ARCNET",
        163 => "802.11 AVS",
        187 | 201 => "Bluetooth HCI",
        189 | 220 => "USB",
        192 => "PPI",
        195 | 215 | 230 => "802.15.4",
        227 => "CAN",
        231 => "D-Bus",
        239 => "NFLOG",
        247 => "InfiniBand",
        249 => "USBPcap",
        251 => "Bluetooth LE",
        253 => "Netlink",
        271 => "vsock",
        _ => return None,
    })
}
