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
    /// Each command receives the packets itself: these words are its port.
    Words(&'static str),
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

/// Blocks for six seconds at any rate, because this is no test of the ring.
const RING: &str = "packet:wl0?ring=2Mi&block=16Ki&retire=50ms";
const SINGLE: &str = "packet:wl0?ring=2Mi&block=16Ki&retire=50ms --single";

const ANY: &str = "any?ring=2Mi&block=16Ki&retire=50ms";

pub(crate) const PORTS: &[Port] = &[
    row("4 queues", 4, true, By::Words(RING)),
    row("1 queue", 1, false, By::Words(RING)),
    row("--single", 4, false, By::Words(SINGLE)),
    Port { refused: &["split", "record"], ..row("any", 4, false, By::Words(ANY)) },
    Port { times: false, ..row("xdp", 4, true, By::Capture("xdp:wl0 --all --take-management")) },
    row("tcpdump", 4, false, By::Tcpdump),
    row("exec tcpdump", 4, false, By::ExecTcpdump),
];
