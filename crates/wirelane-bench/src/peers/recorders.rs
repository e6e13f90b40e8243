//! Programs that record for hours: how each is started so that it writes packets to a directory,
//! and how it is ended.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wirelane::error::{Error, Result};

use crate::peers::capture::{CaptureProgram, PROGRAMS, ReportedCounts};
use crate::peers::find;

/// Receive buffer of every other program, in MiB: at least as much as Wirelane uses for its ring
/// and for writing.
const BUFFER: usize = 128;
/// The program of Debian's package stenographer that writes packets.
pub const STENOTYPE: &str = "stenotype";

/// A program that records.
#[derive(Clone, Copy, Debug)]
pub struct RecordProgram {
    program: CaptureProgram,
    /// It checks for the signal to end only when a packet arrives.
    pub ends_with_a_packet: bool,
    /// Whether it writes an index.
    pub has_index: bool,
}

impl Deref for RecordProgram {
    type Target = CaptureProgram;

    fn deref(&self) -> &CaptureProgram {
        &self.program
    }
}

/// The task of a recorder.
#[derive(Clone, Copy, Debug)]
pub struct RecordTask<'a> {
    /// The path of Wirelane's program.
    pub own: &'a Path,
    /// The source of packets: a port for Wirelane, an interface for the other programs.
    pub source: &'a str,
    /// An empty directory for this recorder alone.
    pub folder: &'a Path,
    /// Whether packets are longer than the usual MTU.
    pub is_super: bool,
    /// Whether to write an index. Only stenotype can leave it out.
    pub index: bool,
    /// Wirelane's compression; `None` for none.
    pub compress: Option<&'a str>,
}

const OF_CAPTURES: RecordProgram =
    RecordProgram { program: PROGRAMS[0], ends_with_a_packet: false, has_index: false };

/// `wirelane record`, which the others are compared with.
pub const OURS: RecordProgram = RecordProgram {
    program: CaptureProgram {
        ready: "recording",
        drain: Duration::from_millis(300),
        count: |stdout, _| {
            let summary: Value = serde_json::from_str(stdout).ok()?;
            let total = |key: &str| summary["totals"][key].as_u64();
            Some(ReportedCounts { captured: total("written")?, dropped: total("dropped")? })
        },
        ..PROGRAMS[0]
    },
    has_index: true,
    ..OF_CAPTURES
};

/// All that record.
pub const RECORDERS: [RecordProgram; 5] = [
    OURS,
    RecordProgram { program: PROGRAMS[1], ..OF_CAPTURES },
    RecordProgram { program: PROGRAMS[2], ..OF_CAPTURES },
    RecordProgram { program: PROGRAMS[3], ..OF_CAPTURES },
    // A block is delivered when it is full, or after the second of `--blockage_sec`.
    RecordProgram {
        program: CaptureProgram {
            name: STENOTYPE,
            package: Some("stenographer"),
            ready: "starting to process packets",
            drain: Duration::from_millis(1300),
            count: |stdout, stderr| steno(&format!("{stdout}{stderr}")),
            ..PROGRAMS[0]
        },
        ends_with_a_packet: true,
        has_index: true,
    },
];

impl RecordProgram {
    /// The command.
    ///
    /// Every program records whole packets. Apart from the buffer it keeps its defaults, except
    /// that dumpcap writes pcap and that stenotype needs more options.
    ///
    /// # Errors
    /// It is not installed.
    pub fn command(&self, recording: &RecordTask<'_>) -> Result<Command> {
        let missing = || Error::failed(self.name, "is missing");
        let found = if self.is_ours() { Some(recording.own.into()) } else { find(self.name) };
        let mut command = Command::new(found.ok_or_else(missing)?);
        let RecordTask { source, folder, .. } = recording;
        let file = folder.join("trace").display().to_string();
        let text = match self.name {
            "tcpdump" => format!("-i {source} -n -p -Z root -B {} -w {file}", BUFFER << 10),
            "dumpcap" => format!("-i {source} -p -q -P -B {BUFFER} -w {file}"),
            // -A and -Q: it must not retune the machine. -J: frames of its ring that long packets
            // fit into.
            "netsniff-ng" => {
                let long = if recording.is_super { " -J" } else { "" };
                format!("--in {source} --silent -M -N -Q -A -S {BUFFER}MiB{long} --out {file}")
            }
            // Only root and its own user may write to the directory.
            STENOTYPE => format!(
                "--iface={source} --dir={} --threads=1 --blocks={BUFFER} --blockage_sec=1 \
                 --filesize_mb=256 --preallocate_file_mb=256 --uid=root --gid=root \
                 --stats_blocks=1 --stats_sec=1 --seccomp=none -v{}",
                folder.display(),
                if recording.index { "" } else { " --no_index" }
            ),
            _ => {
                let compress = recording.compress.map(|by| format!(" --compress {by}"));
                format!(
                    "record {source} {} --json{}",
                    folder.display(),
                    compress.unwrap_or_default()
                )
            }
        };
        command.args(text.split_whitespace());
        Ok(command)
    }

    /// Makes what it expects to find in its directory.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn prepare(&self, folder: &Path) -> std::io::Result<()> {
        if self.name == STENOTYPE {
            std::fs::create_dir(folder.join("PKT0"))?;
            std::fs::create_dir(folder.join("IDX0"))?;
        }
        Ok(())
    }
}

/// The last line of statistics has the sums since the start.
fn steno(text: &str) -> Option<ReportedCounts> {
    let line = text.lines().rev().find(|line| line.contains(" stats: MB="))?;
    let value = |key: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(key));
        word?.parse::<u64>().ok()
    };
    Some(ReportedCounts { captured: value("packets=")?, dropped: value("drops=")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_recorders_are_understood() {
        let of = |name: &str| RECORDERS.into_iter().find(|one| one.name == name).unwrap();
        let expected = Some(ReportedCounts { captured: 1200, dropped: 34 });
        let line = |packets, drops| {
            format!(
                "2026 T:1 [stenotype.cc:537] Thread 0 stats: MB=4 secs=3.9 MBps=1.02 \
                 packets={packets} blocks=4 polls=8 drops={drops} drop%=0\n"
            )
        };
        let text = format!("{}{}bye\n", line(7, 1), line(1200, 34));
        assert_eq!(of(STENOTYPE).counts("", &text), expected);
        let summary = r#"{ "totals": { "written": 1200, "dropped": 34 } }"#;
        assert_eq!(OURS.counts(summary, ""), expected);
        let text = "1200 packets captured\n34 packets dropped by kernel\n";
        assert_eq!(of("tcpdump").counts("", text), expected);
        for recorder in RECORDERS {
            assert_eq!(recorder.counts("", ""), None, "{}", recorder.name);
        }
    }

    #[test]
    fn ours_records_with_its_defaults() {
        let recording = RecordTask {
            own: Path::new("/bin/wirelane"),
            source: "sim:1",
            folder: Path::new("/x"),
            is_super: false,
            index: true,
            compress: Some("lz4"),
        };
        let command = OURS.command(&recording).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words, ["record", "sim:1", "/x", "--json", "--compress", "lz4"]);
    }
}
