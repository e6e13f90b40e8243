//! The table of commands.

use crate::answer::{self, Answer};

/// A row: command lines, run one after the other in an empty directory, and how to read the answer.
///
/// `IN` is replaced by the port, and `FILE` by the name of a file or `-`.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) lines: &'static [&'static str],
    pub(crate) answer: Answer,
    /// Whether it takes packets of several link types.
    pub(crate) types: bool,
    /// Whether it takes several files.
    pub(crate) several: bool,
}

impl Command {
    /// Whether the answer depends on the times of packets.
    pub(crate) fn follows_from_times(&self) -> bool {
        self.name.starts_with("first") || ["lines", "count", "flows"].contains(&self.name)
    }

    /// Whether the order of packets in a file decides the answer.
    pub(crate) fn keeps_order(&self) -> bool {
        self.lines[0].contains("FILE") || self.lines[0].starts_with("capture") || self.is_first()
    }

    /// Whether it takes the first packets only.
    pub(crate) fn is_first(&self) -> bool {
        self.lines[0].contains("-c 7")
    }
}

const fn row(name: &'static str, lines: &'static [&'static str], answer: Answer) -> Command {
    Command { name, lines, answer, types: true, several: true }
}

const fn of_one_file(command: Command) -> Command {
    Command { several: false, ..command }
}

const fn of_one_type(command: Command) -> Command {
    Command { types: false, ..command }
}

pub(crate) const COMMANDS: &[Command] = &[
    row("capture -w", &["capture -q IN -w x.pcapng"], answer::packets),
    of_one_type(row("capture -w pcap", &["capture -q IN -w x.pcap"], answer::without_queues)),
    row("lines", &["capture -q -n -tt --print IN"], answer::lines),
    row("split", &["capture -q IN --split -w x.pcapng"], answer::packets_by_time),
    row("rotation", &["capture -q IN -w x.pcapng --rotate-packets 9"], answer::packets),
    row("count", &["count -q --json IN --by proto,host,port,vlan,flow"], answer::counts),
    row("count by queue", &["count -q --json IN --by queue"], answer::counts),
    row("flows", &["flows -q --format json IN"], answer::flows),
    of_one_file(row(
        "record",
        &["record -q --segment 4M IN store", "extract store -w x.pcapng"],
        answer::packets,
    )),
    row("first -w", &["capture -q IN -c 7 -w x.pcapng"], answer::packets),
    row("first lines", &["capture -q -n -tt --print IN -c 7"], answer::lines),
    row("first counts", &["count -q --json IN --by host -c 7"], answer::counts),
    row("first flows", &["flows -q --format json IN -c 7"], answer::flows),
    of_one_file(row(
        "first record",
        &["record -q --segment 4M IN store -c 7", "extract store -w x.pcapng"],
        answer::packets,
    )),
    of_one_file(row("convert", &["convert FILE x.pcapng"], answer::packets)),
    of_one_file(of_one_type(row(
        "convert to pcap",
        &["convert FILE x.pcap"],
        answer::without_queues,
    ))),
    row("merge", &["merge FILE -w x.pcapng"], answer::packets),
    // It sends one file after the other.
    of_one_file(of_one_type(row(
        "send",
        &["send -q file:x.pcapng FILE --top-speed"],
        answer::bytes,
    ))),
];
