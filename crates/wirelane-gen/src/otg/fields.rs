//! Maps the header fields of the model to the fields of recipes.

/// One field of a header: its name in the model, its name in the recipe, and its default.
pub(super) struct FieldMapping {
    pub(super) model: &'static str,
    pub(super) recipe: &'static str,
    pub(super) absent: Absent,
}

#[derive(Clone, Copy)]
pub(super) enum Absent {
    /// This value. The field does not support `auto`.
    Value(u128),
    /// This value, which the model also specifies for `auto` if the value cannot be learned.
    Fallback(u128),
    /// Computed.
    Computed,
    /// Computed, also if the file has this value, which means "not given" in the model.
    Unset(u128),
}

use Absent::{Computed, Fallback, Unset};

pub(super) const fn row(model: &'static str, recipe: &'static str, absent: Absent) -> FieldMapping {
    FieldMapping { model, recipe, absent }
}

pub(super) const fn zero(model: &'static str, recipe: &'static str) -> FieldMapping {
    row(model, recipe, Absent::Value(0))
}

/// A header whose fields map to the fields of a layer.
pub(super) struct LayerMapping {
    pub(super) model: &'static str,
    pub(super) protocol: &'static str,
    pub(super) rows: &'static [FieldMapping],
    /// Fields with a fixed value: bits that receivers ignore, or that only hardware has.
    pub(super) fixed: &'static [(&'static str, u64)],
    pub(super) checksum: bool,
}

pub(super) const HEADERS: &[LayerMapping] = &[
    LayerMapping {
        model: "ethernet",
        protocol: "eth",
        rows: &[
            row("dst", "dst", Fallback(0)),
            zero("src", "src"),
            row("ether_type", "type", Computed),
        ],
        fixed: &[("pfc_queue", 0)],
        checksum: false,
    },
    LayerMapping {
        model: "vlan",
        protocol: "vlan",
        rows: &[zero("priority", "priority"), zero("cfi", "dei"), zero("id", "id")],
        fixed: &[],
        checksum: false,
    },
    LayerMapping {
        model: "mpls",
        protocol: "mpls",
        rows: &[
            row("label", "label", Fallback(16)),
            zero("traffic_class", "tc"),
            row("bottom_of_stack", "bottom", Computed),
            row("time_to_live", "ttl", Absent::Value(64)),
        ],
        fixed: &[],
        checksum: false,
    },
    LayerMapping {
        model: "arp",
        protocol: "arp",
        rows: &[
            row("hardware_type", "hardware", Absent::Value(1)),
            row("protocol_type", "protocol", Absent::Value(0x0800)),
            row("hardware_length", "hardware-length", Absent::Value(6)),
            row("protocol_length", "protocol-length", Absent::Value(4)),
            row("operation", "op", Absent::Value(1)),
            zero("sender_hardware_addr", "sender-mac"),
            zero("sender_protocol_addr", "sender-ip"),
            zero("target_hardware_addr", "target-mac"),
            zero("target_protocol_addr", "target-ip"),
        ],
        fixed: &[],
        checksum: false,
    },
    LayerMapping {
        model: "ipv4",
        protocol: "ipv4",
        rows: &[
            row("version", "version", Absent::Value(4)),
            row("header_length", "ihl", Computed),
            row("total_length", "length", Computed),
            zero("identification", "id"),
            zero("reserved", "reserved"),
            zero("dont_fragment", "df"),
            zero("more_fragments", "mf"),
            zero("fragment_offset", "offset"),
            row("time_to_live", "ttl", Absent::Value(64)),
            row("protocol", "protocol", Computed),
            zero("src", "src"),
            zero("dst", "dst"),
        ],
        fixed: &[],
        checksum: false,
    },
    LayerMapping {
        model: "ipv6",
        protocol: "ipv6",
        rows: &[
            row("version", "version", Absent::Value(6)),
            zero("flow_label", "label"),
            row("payload_length", "length", Computed),
            row("next_header", "next", Computed),
            row("hop_limit", "hop-limit", Absent::Value(64)),
            zero("src", "src"),
            zero("dst", "dst"),
        ],
        fixed: &[],
        checksum: false,
    },
    LayerMapping {
        model: "udp",
        protocol: "udp",
        rows: &[
            zero("src_port", "src"),
            zero("dst_port", "dst"),
            row("length", "length", Unset(0)),
        ],
        fixed: &[],
        checksum: true,
    },
    LayerMapping {
        model: "tcp",
        protocol: "tcp",
        rows: &[
            zero("src_port", "src"),
            zero("dst_port", "dst"),
            zero("seq_num", "seq"),
            zero("ack_num", "ack"),
            row("data_offset", "data-offset", Unset(0)),
            zero("window", "window"),
        ],
        fixed: &[],
        checksum: true,
    },
    LayerMapping {
        model: "vxlan",
        protocol: "vxlan",
        rows: &[row("flags", "flags", Absent::Value(8)), row("vni", "vni", Fallback(0))],
        fixed: &[("reserved0", 0), ("reserved1", 0)],
        checksum: false,
    },
    LayerMapping {
        model: "gre",
        protocol: "gre",
        rows: &[zero("version", "version"), row("protocol", "protocol", Computed)],
        fixed: &[("reserved0", 0), ("reserved1", 0)],
        checksum: false,
    },
    LayerMapping {
        model: "icmp",
        protocol: "icmp",
        rows: ECHO_REQUEST,
        fixed: &[],
        checksum: true,
    },
    LayerMapping {
        model: "icmpv6",
        protocol: "icmpv6",
        rows: ECHO_REQUEST_V6,
        fixed: &[],
        checksum: true,
    },
];

const ECHO_REQUEST: &[FieldMapping] = &[
    row("type", "type", Absent::Value(8)),
    zero("code", "code"),
    zero("identifier", "id"),
    zero("sequence_number", "seq"),
];

const ECHO_REQUEST_V6: &[FieldMapping] = &[
    row("type", "type", Absent::Value(128)),
    zero("code", "code"),
    zero("identifier", "id"),
    zero("sequence_number", "seq"),
];

/// The supported headers.
pub(super) const SUPPORTED: [&str; 14] = [
    "custom",
    "ethernet",
    "vlan",
    "vxlan",
    "ipv4",
    "ipv6",
    "tcp",
    "udp",
    "gre",
    "arp",
    "icmp",
    "icmpv6",
    "mpls",
    "ipv6_extension_header",
];

/// The unsupported headers of the model.
pub(super) const OTHERS: [&str; 11] = [
    "pfcpause",
    "ethernetpause",
    "gtpv1",
    "gtpv2",
    "ppp",
    "igmpv1",
    "snmpv2c",
    "rsvp",
    "macsec",
    "lacp",
    "cfm",
];
