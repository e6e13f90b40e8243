//! The table of what fails today: each row names the fault that explains it.
//!
//! Whoever mends a fault removes its rows: what passes in spite of a row is a failure.

/// A row: each of these commands fails for each row of this traffic. None are all that there are.
pub(crate) struct Pending {
    pub(crate) fault: u32,
    pub(crate) path: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) traffic: &'static [&'static str],
}

const fn row(
    fault: u32,
    path: &'static str,
    commands: &'static [&'static str],
    traffic: &'static [&'static str],
) -> Pending {
    Pending { fault, path, commands, traffic }
}

const ALL: &[&str] = &[];
/// Rows of traffic.
const LONG: &[&str] = &["very long frames"];
/// What tells the interfaces of packets.
const INTERFACES: &[&str] = &["count by queue", "record"];
/// What takes packets through the memory of a port.
const CAPTURED: &[&str] =
    &["capture -w", "capture -w pcap", "split", "rotation", "record", "first -w"];
/// What else loses the interface of long packets.
const MARKED: &[&str] = &["capture -w", "lines", "split", "rotation", "first -w", "first lines"];

const FIRST: &[&str] = &["first -w", "first lines", "first flows"];
/// Where the first packets are of several hosts.
const HOSTS: &[&str] = &["conversations", "handshakes", "bursts", "VLAN tags", "fragments", "IPv6"];
/// Where the packets of a flow come by several queues, all in one direction.
const ONE_WAY: &[&str] = &["one-way flows", "VLAN tags", "fragments", "IPv6"];

pub(crate) const PENDING: &[Pending] = &[
    row(1, "4 queues", FIRST, ALL),
    row(1, "4 queues", &["first counts"], HOSTS),
    row(1, "--single", FIRST, ALL),
    row(1, "--single", &["first counts"], HOSTS),
    row(1, "any", FIRST, ALL),
    row(1, "any", &["first counts"], HOSTS),
    row(2, "4 queues", &["flows"], ONE_WAY),
    row(2, "any", &["flows"], ONE_WAY),
    row(2, "--single", &["flows"], &["conversations"]),
    row(3, "late interfaces", INTERFACES, ALL),
    row(3, "late interfaces", MARKED, LONG),
    row(3, "statistics between", INTERFACES, ALL),
    row(3, "statistics between", MARKED, LONG),
    row(3, "cat a b", INTERFACES, ALL),
    row(3, "cat a b", MARKED, LONG),
    row(3, "many sections", INTERFACES, ALL),
    row(3, "many sections", MARKED, LONG),
    row(9, "pcapng", &["send"], &["long frames", "very long frames"]),
    row(12, "pcapng", CAPTURED, LONG),
    row(12, "store", &["convert", "convert to pcap", "merge"], LONG),
    row(14, "statistics first", ALL, ALL),
    row(14, "modified pcap", ALL, ALL),
];

/// The fault that explains why this fails.
pub(crate) fn fault(path: &str, traffic: &str, command: &str) -> Option<u32> {
    let explains = |row: &&Pending| {
        let names = |names: &[&str], name| names.is_empty() || names.contains(&name);
        row.path == path && names(row.commands, command) && names(row.traffic, traffic)
    };
    PENDING.iter().find(explains).map(|row| row.fault)
}
