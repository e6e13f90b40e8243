//! Programs that capture: how each is started, and how its counts are read.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wirelane::error::{Error, Result};

use crate::peers::find;

/// Receive buffer of every other program, in MiB. Wirelane's default is the same in total: 16 MiB
/// for each of two receive queues.
const BUFFER: usize = 32;

/// A program that captures.
#[derive(Clone, Copy, Debug)]
pub struct CaptureProgram {
    /// Its name.
    pub name: &'static str,
    /// The Debian package; `None` for Wirelane.
    pub package: Option<&'static str>,
    /// Text that the program prints when it is about to capture.
    pub ready: &'static str,
    /// A time longer than its ring keeps a packet.
    pub drain: Duration,
    /// Its arguments for an interface and, optionally, a file to write.
    pub(super) arguments: fn(&str, Option<&Path>) -> Vec<String>,
    /// Reads the counts from its standard output and its standard error.
    pub(super) count: fn(&str, &str) -> Option<ReportedCounts>,
}

/// The packets that a program reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedCounts {
    /// Packets captured.
    pub captured: u64,
    /// Packets that it reports as lost.
    pub dropped: u64,
}

/// Every program captures whole packets of either direction, without promiscuous mode and without
/// names. It writes its default format; dumpcap writes pcap. Without a file, each does as little as
/// its options allow.
pub const PROGRAMS: [CaptureProgram; 4] = [
    // Without -w, packets are only counted. Wirelane sends nothing, and the masks exclude
    // directions without traffic.
    CaptureProgram {
        name: "wirelane",
        package: None,
        ready: "capturing on",
        drain: Duration::from_millis(200),
        arguments: |interface, file| ours(interface, file, &["--json"]),
        count: |stdout, _| of_summary(stdout),
    },
    // It cannot only count: without -w it decodes and prints, which costs far more.
    CaptureProgram {
        name: "tcpdump",
        package: Some("tcpdump"),
        ready: "listening on",
        // libpcap delivers a block within the timeout of one second that tcpdump sets.
        drain: Duration::from_millis(1300),
        arguments: |interface, file| {
            let words = format!("-i {interface} -n -p -B {} -w {}", BUFFER << 10, or_null(file));
            split(&words)
        },
        count: |_, stderr| {
            let captured = before(stderr, " packets captured")?;
            let dropped = before(stderr, " packets dropped by kernel").unwrap_or(0);
            Some(ReportedCounts { captured, dropped })
        },
    },
    // It exists to write; -P is pcap, its cheaper form.
    CaptureProgram {
        name: "dumpcap",
        package: Some("wireshark-common"),
        ready: "File:",
        drain: Duration::from_millis(700),
        arguments: |interface, file| {
            split(&format!("-i {interface} -p -q -P -B {BUFFER} -w {}", or_null(file)))
        },
        count: |_, stderr| {
            // Packets received/dropped on interface 'vb': 4/0 (pcap:0/…)
            let mut lines = stderr.lines();
            let line = lines.find(|line| line.contains("received/dropped on interface"))?;
            let (_, counts) = line.rsplit_once("': ")?;
            let (received, rest) = counts.split_once('/')?;
            let (dropped, _) = rest.split_once(' ')?;
            Some(ReportedCounts {
                captured: received.parse().ok()?,
                dropped: dropped.parse().ok()?,
            })
        },
    },
    // Without --out it only walks its ring. -A and -Q: it must not retune the machine.
    CaptureProgram {
        name: "netsniff-ng",
        package: Some("netsniff-ng"),
        ready: "Running!",
        drain: Duration::from_millis(700),
        arguments: |interface, file| {
            let mut words = split(&format!("--in {interface} --silent -M -N -Q -A -S {BUFFER}MiB"));
            words.extend(file.iter().flat_map(|path| ["--out".to_owned(), text(path)]));
            words
        },
        count: |stdout, stderr| {
            let text = format!("{stdout}{stderr}");
            let captured = before(&text, "  packets incoming")?;
            let failed = before(&text, "  packets failed filter").unwrap_or(0);
            Some(ReportedCounts { captured, dropped: failed })
        },
    },
];

/// `wirelane capture` as in [`PROGRAMS`], without and with a line per packet. Both are counted in
/// the same way.
pub(crate) const PRINTING: [CaptureProgram; 2] = [
    CaptureProgram {
        arguments: |interface, file| ours(interface, file, &[]),
        count: |_, stderr| of_headline(stderr),
        ..PROGRAMS[0]
    },
    CaptureProgram {
        arguments: |interface, file| ours(interface, file, &["--print"]),
        count: |_, stderr| of_headline(stderr),
        ..PROGRAMS[0]
    },
];

/// Wirelane's name of an interface or of any other port.
fn port(interface: &str) -> String {
    if interface.contains(':') { interface.to_owned() } else { format!("packet:{interface}") }
}

/// `wirelane flows`, which makes flow records and exports none.
pub(crate) const METERING: CaptureProgram = CaptureProgram {
    ready: "flows of",
    arguments: |interface, _| {
        split(&format!("flows {} --tx-queues none --other off --json", port(interface)))
    },
    ..PROGRAMS[0]
};

impl CaptureProgram {
    /// Whether this is Wirelane.
    pub fn is_ours(&self) -> bool {
        self.package.is_none()
    }

    /// The command that captures from `interface`, which may be any port for Wirelane. `own` is the
    /// path of Wirelane's program.
    ///
    /// # Errors
    /// It is not installed.
    pub fn command(&self, own: &Path, interface: &str, file: Option<&Path>) -> Result<Command> {
        let missing = || Error::failed(self.name, "is missing");
        let found = if self.is_ours() { Some(own.to_owned()) } else { find(self.name) };
        let mut command = Command::new(found.ok_or_else(missing)?);
        command.args((self.arguments)(interface, file));
        Ok(command)
    }

    /// The receive mode of Wirelane, from its summary. `None` for other programs.
    pub(crate) fn mode(&self, stdout: &str) -> Option<String> {
        let summary: Value = serde_json::from_str(stdout).ok().filter(|_| self.is_ours())?;
        summary["ports"][0]["mode"].as_str().map(str::to_owned)
    }

    /// The counts, from the output of a program that ended well. `None` if the output is not
    /// understood.
    pub fn counts(&self, stdout: &str, stderr: &str) -> Option<ReportedCounts> {
        (self.count)(stdout, stderr)
    }
}

fn ours(interface: &str, file: Option<&Path>, options: &[&str]) -> Vec<String> {
    let mut words = split(&format!("capture {} --tx-queues none --other off", port(interface)));
    words.extend(options.iter().map(|&option| option.to_owned()));
    words.extend(file.iter().flat_map(|path| ["-w".to_owned(), text(path)]));
    words
}

/// The counts of a JSON summary.
fn of_summary(text: &str) -> Option<ReportedCounts> {
    let summary: Value = serde_json::from_str(text).ok()?;
    let total = |key: &str| summary["totals"][key].as_u64();
    let captured = total("written").or_else(|| total("delivered"))?;
    Some(ReportedCounts { captured, dropped: total("dropped")? })
}

/// `1,200 captured, 0 filtered, 34 dropped → file`.
fn of_headline(stderr: &str) -> Option<ReportedCounts> {
    let line = stderr.lines().find(|line| line.contains(" captured, "))?.replace(',', "");
    Some(ReportedCounts {
        captured: before(&line, " captured")?,
        dropped: before(&line, " dropped")?,
    })
}

fn or_null(file: Option<&Path>) -> String {
    file.map_or_else(|| "/dev/null".to_owned(), text)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn split(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// The number right before `label`.
fn before(text: &str, label: &str) -> Option<u64> {
    let (head, _) = text.split_once(label)?;
    head.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_program_are_understood() {
        let said = |name: &str, stdout: &str, stderr: &str| {
            let program = PROGRAMS.iter().find(|program| program.name == name).unwrap();
            program.counts(stdout, stderr)
        };
        let expected = Some(ReportedCounts { captured: 1200, dropped: 34 });
        let summary = r#"{ "totals": { "delivered": 1200, "written": null, "dropped": 34 } }"#;
        assert_eq!(said("wirelane", summary, ""), expected);
        let text = "1200 packets captured\n1234 packets received by filter\n\
                    34 packets dropped by kernel\n";
        assert_eq!(said("tcpdump", "", text), expected);
        let text = "Packets captured: 1200\nPackets received/dropped on interface 'b': \
                    1200/34 (pcap:34/dumpcap:0/flushed:0/ps_ifdrop:0) (97.2%)\n";
        assert_eq!(said("dumpcap", "", text), expected);
        let text = "        1200  packets incoming (0 unread on exit)\n\
                    1234  packets passed filter\n  34  packets failed filter (out of space)\n";
        assert_eq!(said("netsniff-ng", text, ""), expected);
        for program in PRINTING {
            let line = "capturing on a\n1,200 captured, 0 filtered, 34 dropped → f (1 file)\n";
            assert_eq!(program.counts("", line), expected);
        }
        assert_eq!(METERING.counts(summary, ""), expected);
        for program in PROGRAMS.into_iter().chain(PRINTING) {
            assert!(program.counts("", "").is_none(), "{}", program.name);
        }
    }
}
