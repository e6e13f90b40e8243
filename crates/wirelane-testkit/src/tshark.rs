//! Checks capture files with Wireshark's tools.
//!
//! Call [`tools::require`](crate::tools::require) for `tshark` or `capinfos` first.

use std::path::Path;
use std::process::Command;

use crate::process::{Output, output};

/// The report of `capinfos` about a file.
#[derive(Debug, Clone, Default)]
pub struct CapInfos {
    /// The format, such as `pcapng`.
    pub file_type: String,
    /// The number of packets.
    pub packets: u64,
    /// The sum of their captured lengths, in bytes.
    pub data_bytes: u64,
    /// Whether the time stamps never decrease.
    pub in_order: bool,
    /// The interfaces that the file describes, in file order.
    pub interfaces: Vec<InterfaceInfo>,
}

/// An interface description block in the report of `capinfos`.
#[derive(Debug, Clone, Default)]
pub struct InterfaceInfo {
    /// Its name; empty when it has none.
    pub name: String,
    /// The resolution of its time stamps, in ticks per second.
    pub ticks_per_second: u64,
    /// The number of interface statistics blocks.
    pub statistics: u64,
    /// The number of its packets.
    pub packets: u64,
}

/// Runs `capinfos` on the file at `path`.
///
/// # Panics
/// When it fails or prints a warning, or its report cannot be parsed.
#[track_caller]
pub fn capinfos(path: &Path) -> CapInfos {
    // -M: exact numbers.
    let report = silent(Command::new("capinfos").arg("-M").arg(path));
    parse_capinfos(&report)
}

/// The values of `fields` (such as `frame.interface_id`), one row per packet of the file at `path`.
///
/// A field that a packet lacks is an empty string. The values of a field that occurs several times
/// are joined with commas.
///
/// # Panics
/// When `tshark` fails or complains.
#[track_caller]
pub fn tshark_fields(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    filtered_fields(path, "", fields)
}

/// As [`tshark_fields`], for the packets that match the display filter `filter`.
///
/// # Panics
/// When `tshark` fails or complains.
#[track_caller]
pub fn filtered_fields(path: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = tshark(path);
    command.args(["-T", "fields", "-E", "separator=/t", "-Y", filter]);
    for field in fields {
        command.args(["-e", field]);
    }
    silent(&mut command).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Checks that `tshark` reads the whole file at `path` without a warning about the file and without
/// an expert error in any packet. Returns the number of packets.
///
/// # Panics
/// When it complains; the message holds the complaint.
#[track_caller]
pub fn check_clean(path: &Path) -> u64 {
    check(tshark(path), path)
}

/// As [`check_clean`], but also verifies the checksums of IPv4, UDP and TCP.
///
/// Do not use it for captures on an interface that sends with checksum offload: the device fills in
/// the checksums after the capture.
///
/// # Panics
/// When it complains; the message holds the complaint.
#[track_caller]
pub fn check_clean_with_checksums(path: &Path) -> u64 {
    check(tshark_with_checksums(path), path)
}

/// The numbers of the packets of the file at `path` in which tshark finds a wrong checksum of IPv4,
/// UDP or TCP.
///
/// # Panics
/// When `tshark` fails or complains.
#[track_caller]
pub fn wrong_checksums(path: &Path) -> Vec<u64> {
    let mut command = tshark_with_checksums(path);
    let wrong = CHECKED.map(|protocol| format!("{protocol}.checksum.status == 0"));
    command.args(["-Y", &wrong.join(" or "), "-T", "fields", "-e", "frame.number"]);
    let numbers = silent(&mut command);
    numbers.lines().map(|line| line.parse().expect("the number of a packet")).collect()
}

fn parse_capinfos(report: &str) -> CapInfos {
    let mut infos = CapInfos::default();
    let number = |text: &str| {
        let digits = text.split(' ').next().unwrap_or_default();
        digits.parse().unwrap_or_else(|error| panic!("capinfos: {text:?}: {error}:\n{report}"))
    };
    for line in report.lines() {
        if line.starts_with("Interface #") {
            infos.interfaces.push(InterfaceInfo::default());
        } else if let Some((key, value)) = line.trim_start().split_once(" = ") {
            let Some(interface) = infos.interfaces.last_mut() else { continue };
            match key {
                "Name" => interface.name = value.to_owned(),
                "Time ticks per second" => interface.ticks_per_second = number(value),
                "Number of stat entries" => interface.statistics = number(value),
                "Number of packets" => interface.packets = number(value),
                _ => {}
            }
        } else if let Some((key, value)) = line.split_once(':') {
            let value = value.trim();
            match key {
                "File type" => infos.file_type = value.to_owned(),
                "Number of packets" => infos.packets = number(value),
                "Data size" => infos.data_bytes = number(value),
                "Strict time order" => infos.in_order = value == "True",
                _ => {}
            }
        }
    }
    infos
}

#[track_caller]
fn check(mut command: Command, path: &Path) -> u64 {
    command.args(["-T", "fields", "-E", "separator=/t"]);
    for field in ["frame.number", "_ws.expert.severity", "_ws.expert.message", "_ws.malformed"] {
        command.args(["-e", field]);
    }
    let rows = silent(&mut command);
    let mut packets = 0;
    for row in rows.lines() {
        packets += 1;
        let mut columns = row.split('\t').skip(1);
        let mut column = || columns.next().unwrap_or_default();
        let (severities, messages, malformed) = (column(), column(), column());
        let error = severities.split(',').any(|severity| severity.parse() == Ok(EXPERT_ERROR));
        assert!(
            !error && malformed.is_empty(),
            "tshark finds an error in {}, packet {row}: {messages}{malformed}",
            path.display()
        );
    }
    packets
}

/// `PI_ERROR` of Wireshark's epan/proto.h, a value of the field `_ws.expert.severity`.
const EXPERT_ERROR: u32 = 0x0080_0000;

fn tshark(path: &Path) -> Command {
    let mut command = Command::new("tshark");
    // No name resolution: it would send queries to the network.
    command.arg("-n").arg("-r").arg(path);
    // The payload belongs to no known protocol; a port or bytes that look like one do so by chance.
    command.args(["-d", "tcp.port==1-65535,data", "-d", "udp.port==1-65535,data"]);
    command.args(["--disable-protocol", "json"]);
    command
}

/// Protocols whose checksums can be verified.
const CHECKED: [&str; 3] = ["ip", "tcp", "udp"];

fn tshark_with_checksums(path: &Path) -> Command {
    let mut command = tshark(path);
    for protocol in CHECKED {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    command
}

/// Runs `command`, which must succeed without a warning, and returns its output.
#[track_caller]
fn silent(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output(command);
    let complaints: Vec<&str> = stderr.lines().filter(|line| !is_about_root(line)).collect();
    assert!(
        status.success() && complaints.is_empty(),
        "{command:?} ended with {status} and said:\n{stderr}"
    );
    stdout
}

/// Whether `line` is the warning that Wireshark's tools always print when they run as root.
fn is_about_root(line: &str) -> bool {
    line.starts_with("Running as user \"root\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capinfos_report_is_parsed() {
        let infos = parse_capinfos(
            "File name:           x.pcapng\nFile type:           pcapng\n\
             Number of packets:   3\nData size:           26 bytes\n\
             Strict time order:   True\nNumber of interfaces in file: 1\nInterface #0 info:\n\
             \x20                    Name = veth0 queue 1\n\
             \x20                    Time ticks per second = 1000000000\n\
             \x20                    Number of stat entries = 2\n\
             \x20                    Number of packets = 3\n",
        );
        assert_eq!((infos.file_type.as_str(), infos.packets, infos.data_bytes), ("pcapng", 3, 26));
        assert!(infos.in_order);
        let [interface] = &infos.interfaces[..] else { panic!("{infos:?}") };
        assert_eq!(interface.name, "veth0 queue 1");
        assert_eq!((interface.statistics, interface.packets), (2, 3));
        assert_eq!(interface.ticks_per_second, 1_000_000_000);
    }
}
