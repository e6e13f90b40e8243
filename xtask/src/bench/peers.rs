//! The capture programs that are compared: how each is started, and how it tells what it did.

use std::path::Path;
use std::process::Command;

use wirelane_testkit::process::Output;

use super::process::{Summary, text};
use super::{Context, Result};
use crate::setup;

/// Receive buffer of every program, in MiB. Ours takes as much by itself: 16 MiB for each of the two
/// receive queues.
const BUFFER: usize = 32;
/// Receive queues of the interface.
pub(super) const QUEUES: usize = 2;

/// A program that captures.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The Debian package; `None` for ours.
    pub(super) package: Option<&'static str>,
    /// What it prints when it is about to capture.
    pub(super) ready: &'static str,
    /// Its arguments for an interface, and a file if packets are to be written.
    arguments: fn(&str, Option<&Path>) -> Vec<String>,
    count: fn(&Output) -> Result<Counts>,
}

/// What a program says it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) captured: u64,
    pub(super) dropped: u64,
}

/// All see whole packets of either direction in the interface's own mode, without names, and write
/// the form they like best. When there is nothing to write, each is told to do the least it can.
pub(super) const PROGRAMS: [Program; 4] = [
    // Without -w packets are counted. Nothing is sent, so the masks leave out what nobody would get.
    Program {
        name: "wirelane",
        package: None,
        ready: "capturing on",
        arguments: |interface, file| {
            let mut words = vec!["capture".to_owned(), format!("packet:{interface}")];
            words.extend(["--json", "--tx-queues", "none", "--other", "off"].map(str::to_owned));
            words.extend(file.iter().flat_map(|path| ["-w".to_owned(), text(path)]));
            words
        },
        count: |output| {
            let summary = Summary::parse(&output.stdout)?;
            let captured = summary.total("written").or_else(|_| summary.total("delivered"))?;
            Ok(Counts { captured, dropped: summary.total("dropped")? })
        },
    },
    // It cannot only count: without -w it decodes and prints, which costs far more.
    Program {
        name: "tcpdump",
        package: Some("tcpdump"),
        ready: "listening on",
        arguments: |interface, file| {
            let words = format!("-i {interface} -n -p -B {} -w {}", BUFFER << 10, or_null(file));
            split(&words)
        },
        count: |output| {
            let text = &output.stderr;
            let captured = before(text, " packets captured").ok_or_else(|| unclear(output))?;
            let dropped = before(text, " packets dropped by kernel").unwrap_or(0);
            Ok(Counts { captured, dropped })
        },
    },
    // It exists to write; -P is pcap, its cheaper form.
    Program {
        name: "dumpcap",
        package: Some("wireshark-common"),
        ready: "File:",
        arguments: |interface, file| {
            split(&format!("-i {interface} -p -q -P -B {BUFFER} -w {}", or_null(file)))
        },
        count: |output| {
            // Packets received/dropped on interface 'vb': 4/0 (pcap:0/…)
            let text = &output.stderr;
            let line = text.lines().find(|line| line.contains("received/dropped on interface"));
            let counts = line.and_then(|line| line.rsplit_once("': ")).and_then(|(_, counts)| {
                let (received, rest) = counts.split_once('/')?;
                let (dropped, _) = rest.split_once(' ')?;
                Some(Counts { captured: received.parse().ok()?, dropped: dropped.parse().ok()? })
            });
            counts.ok_or_else(|| unclear(output))
        },
    },
    // Without --out it only walks its ring. -A and -Q: it must not retune the machine.
    Program {
        name: "netsniff-ng",
        package: Some("netsniff-ng"),
        ready: "Running!",
        arguments: |interface, file| {
            let mut words = split(&format!("--in {interface} --silent -M -N -Q -A -S {BUFFER}MiB"));
            words.extend(file.iter().flat_map(|path| ["--out".to_owned(), text(path)]));
            words
        },
        count: |output| {
            let text = format!("{}{}", output.stdout, output.stderr);
            let captured = before(&text, "  packets incoming").ok_or_else(|| unclear(output))?;
            let failed = before(&text, "  packets failed filter").unwrap_or(0);
            Ok(Counts { captured, dropped: failed })
        },
    },
];

impl Program {
    /// Whether this is ours.
    pub(super) fn is_ours(&self) -> bool {
        self.package.is_none()
    }

    /// The command that captures from `interface`; `None` if the program is not installed.
    pub(super) fn command(
        &self,
        context: &Context,
        interface: &str,
        file: Option<&Path>,
    ) -> Option<Command> {
        let program =
            if self.is_ours() { context.wirelane.clone() } else { setup::find(self.name)? };
        let mut command = Command::new(program);
        command.args((self.arguments)(interface, file));
        Some(command)
    }

    /// What it says it did, when it has ended.
    pub(super) fn counts(&self, output: &Output) -> Result<Counts> {
        if !output.status.success() {
            return Err(format!("{} failed: {}", self.name, output.stderr.trim()));
        }
        (self.count)(output)
    }
}

fn or_null(file: Option<&Path>) -> String {
    file.map_or_else(|| "/dev/null".to_owned(), text)
}

fn split(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// The number right before `label`.
fn before(text: &str, label: &str) -> Option<u64> {
    let (head, _) = text.split_once(label)?;
    head.split_whitespace().next_back()?.parse().ok()
}

fn unclear(output: &Output) -> String {
    format!("does not tell how many packets it captured: {}", output.stderr.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn said(name: &str, stdout: &str, stderr: &str) -> Result<Counts> {
        let program = PROGRAMS.iter().find(|program| program.name == name).unwrap();
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        program.counts(&Output { status: ExitStatus::from_raw(0), stdout, stderr })
    }

    #[test]
    fn counts_of_every_program_are_understood() {
        let expected = Ok(Counts { captured: 1200, dropped: 34 });
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
        for program in PROGRAMS {
            assert!(said(program.name, "", "").is_err(), "{}", program.name);
        }
    }
}
