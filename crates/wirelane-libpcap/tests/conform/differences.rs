//! Different answers of the drop-in and the system's libpcap, with reasons. The table of functions
//! in `docs/libpcap.md` lists them for users.

/// A line of a test that differs.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) test: &'static str,
    /// The answer of the system's library; `*` at the end matches anything. Empty: only the drop-in
    /// gives an answer.
    pub(crate) stock: &'static str,
    /// The drop-in's answer, in the same form.
    pub(crate) ours: &'static str,
    pub(crate) why: &'static str,
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        test: "versions",
        stock: "lib: libpcap version 1.*",
        ours: "lib: libpcap version 1.*",
        why: "the drop-in says that it is there, in the parentheses",
    },
    Difference {
        test: "descriptors_that_are_closed",
        stock: "pcap_dispatch(p, -1, see, NULL): -1, Invalid polling request on packet socket",
        ours: "pcap_dispatch(p, -1, see, NULL): 0",
        why: "packets are read from memory: in non-blocking mode no call needs the descriptor",
    },
    Difference {
        test: "devices_are_listed",
        stock: "",
        ours: "wirelane:packet:*",
        why: "the queues of an interface are devices, too",
    },
    Difference {
        test: "only_incoming_ones_are_counted_if_only_they_are_wanted",
        stock: "received: 20",
        ours: "received: 10",
        why: "the kernel keeps the other direction out of the rings, where libpcap drops it after counting",
    },
    Difference {
        test: "resources_that_are_not_there",
        stock: "activated: 0",
        ours: "activated: 1",
        why: "where memory is short the rings are smaller than asked for",
    },
    Difference {
        test: "texts_of_statuses",
        stock: "large: Unknown error: -214748364",
        ours: "large: Unknown error: -2147483648",
        why: "the buffer of the system's library is one digit too short",
    },
];

impl Difference {
    pub(crate) fn allows(&self, stock: &str, ours: &str) -> bool {
        matches(self.stock, stock) && matches(self.ours, ours)
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    }
}
