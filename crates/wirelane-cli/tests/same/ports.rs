//! The table of paths from interfaces.

/// A row: how commands take packets from the interface.
pub(crate) struct Port {
    pub(crate) name: &'static str,
    /// RX queues of the interface.
    pub(crate) queues: usize,
    /// Whether it records the queues of packets.
    pub(crate) places: bool,
    pub(crate) by: By,
    /// Commands that refuse this port.
    pub(crate) refused: &'static [&'static str],
    /// Whether its times give the order of packets of different queues.
    pub(crate) times: bool,
}

pub(crate) enum By {
    /// Each command receives the packets itself, by this port and these options. `QUICK` is added
    /// if the port has no ring options.
    Itself(&'static str, &'static str),
    /// This program of `wirelane` writes a file that the commands read, as two programs cannot
    /// receive the same packets.
    Capture(&'static str),
    /// tcpdump writes the file, over the libpcap of the system or over Wirelane's.
    Tcpdump,
    ExecTcpdump,
}

const fn row(name: &'static str, queues: usize, places: bool, by: By) -> Port {
    Port { name, queues, places, by, refused: &[], times: true }
}

pub(crate) const PORTS: &[Port] = &[
    row("4 queues", 4, true, By::Itself("packet:wl0", "")),
    row("1 queue", 1, false, By::Itself("packet:wl0", "")),
    row("--single", 4, false, By::Itself("packet:wl0", " --single")),
    row("packets one by one", 4, true, By::Itself("packet:wl0?ring=8Mi", " --immediate-mode")),
    Port { refused: &["split"], ..row("any", 4, false, By::Itself("any", "")) },
    Port {
        refused: &["split"],
        ..row("any, one by one", 4, false, By::Itself("any?ring=8Mi", " --immediate-mode"))
    },
    Port { times: false, ..row("xdp", 4, true, By::Capture("xdp:wl0 --all --take-management")) },
    row("tcpdump", 4, false, By::Tcpdump),
    row("exec tcpdump", 4, false, By::ExecTcpdump),
];
