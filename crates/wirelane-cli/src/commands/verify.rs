//! `wirelane verify`: checks the packets of a capture file and names each violation and its packet.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use wirelane::pcap::{CaptureError, CaptureReader, Source};
use wirelane::{Error, Result};
use wirelane_verify::{Auditor, Finding, Options, Packet, Rule, RuleCounts, Severity, Summary};

use crate::output::{self, plural};

/// Check the packets of a capture file against the RFCs: lengths, checksums, fragments, segments.
///
/// Every violation is one line: packet number, rule, expected value, actual value, RFC. Bytes that
/// a snap length removed, and checksums that the sender left to its hardware, are counted as not
/// checked. To check how super-frames (TCP frames longer than the MTU) were segmented, capture both
/// sides of the segmenter and join the files with `wirelane merge`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct VerifyArgs {
    /// pcap or pcapng, plain or compressed with gzip, lz4 or zstd; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Report packets longer than BYTES, counted from the IP header on, as violations
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_575))]
    mtu: Option<u32>,

    /// The packets are from a wire: also report super-frames, incomplete checksums and missing
    /// fragments as violations
    #[arg(long)]
    strict: bool,

    /// Also print notes: unusual but legal, or undecidable
    #[arg(long)]
    notes: bool,

    /// Print at most N violations and notes; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: usize,

    /// Print one JSON object (schema wirelane.verify/1)
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane verify trace.pcapng
  wirelane verify --mtu 1500 --strict wire.pcap.gz
  wirelane merge tap.pcapng wire.pcapng -w - | wirelane verify -

Exit status: 0 no violation, 1 violations or a damaged file, 2 wrong usage.";

/// Runs the command.
///
/// # Errors
/// The file cannot be read or is damaged, or packets break rules.
pub(crate) fn run(args: &VerifyArgs) -> Result<()> {
    let audit = audit(args, &mut io::stdout().lock())?;
    let summary = audit.auditor.summary();
    if args.json {
        output::json(&Document::new(args, &audit))?;
    } else {
        output::print(&page(args, &audit))?;
    }
    let name = name(&args.file);
    match (audit.damage, summary.violations()) {
        (Some(damage), _) => Err(damage.into()),
        (None, 0) => Ok(()),
        (None, 1) => Err(Error::failed(name, "1 violation")),
        (None, n) => Err(Error::failed(name, format!("{n} violations"))),
    }
}

/// The result for the whole file.
struct Audit {
    auditor: Auditor,
    /// Findings to show, for JSON.
    findings: Vec<Finding>,
    /// The number of findings not shown.
    omitted: u64,
    /// Notes on the file itself.
    notes: Vec<String>,
    damage: Option<CaptureError>,
}

/// Reads the file. Findings are printed at once, for a reader behind a pipe.
fn audit(args: &VerifyArgs, out: &mut impl Write) -> Result<Audit> {
    let mut reader = CaptureReader::open(&args.file)?;
    let options = Options { mtu: args.mtu, strict: args.strict, ..Options::default() };
    let mut auditor = Auditor::new(options);
    let mut devices = Devices::default();
    let mut findings = Vec::new();
    let (mut shown, mut omitted, mut failed) = (0, 0, None);
    let mut show = |finding: &Finding| {
        if finding.severity == Severity::Note && !args.notes {
            return;
        }
        if shown == args.max {
            omitted += 1;
            return;
        }
        shown += 1;
        if args.json {
            findings.push(finding.clone());
        } else if failed.is_none() {
            let line = output::printable(&finding.to_string());
            failed = print(out, format!("{line}\n").as_bytes()).err();
        }
    };
    let visited = reader.visit(&mut |record, sources| {
        let (interface, link_type) = devices.find(sources, record.interface);
        let packet = Packet {
            interface,
            link_type,
            timestamp: record.timestamp,
            original_len: record.original_len,
            data: record.data,
        };
        auditor.packet(&packet, &mut show);
        ControlFlow::Continue(())
    });
    auditor.finish(&mut show);
    match failed {
        Some(error) => Err(error),
        None => {
            let mut notes = reader.odd_times().notes();
            notes.extend(reader.lost().of_reading().notes());
            Ok(Audit { auditor, findings, omitted, notes, damage: visited.err() })
        }
    }
}

/// Numbers devices: the queues of one are interfaces of the same name in a capture of Wirelane.
#[derive(Default)]
struct Devices {
    names: HashMap<String, u32>,
    /// Number and link type of each interface of the file.
    interfaces: Vec<(u32, u16)>,
}

impl Devices {
    fn find(&mut self, sources: &[Source], interface: u32) -> (u32, u16) {
        let index = interface as usize;
        if index >= self.interfaces.len() {
            // Interfaces may be described later in the file.
            for source in sources.iter().skip(self.interfaces.len()) {
                let position = self.interfaces.len();
                let name = match source.name.as_str() {
                    "" => format!(" {position}"),
                    name => name.to_owned(),
                };
                let next = self.names.len() as u32;
                let number = *self.names.entry(name).or_insert(next);
                self.interfaces.push((number, source.link_type));
            }
        }
        self.interfaces.get(index).copied().unwrap_or((u32::MAX, u16::MAX))
    }
}

fn page(args: &VerifyArgs, audit: &Audit) -> String {
    let summary = audit.auditor.summary();
    let mut page = String::new();
    if audit.omitted > 0 {
        page += &format!("… and {} more (raise --max)\n", audit.omitted);
    }
    page += &format!("{}: {}", name(&args.file), plural(summary.packets, "packet"));
    page += &match summary.violations() {
        0 => ", no violation".to_owned(),
        n => format!(", {}", plural(n, "violation")),
    };
    page += &format!(", {}\n", plural(summary.notes(), "note"));
    for note in &audit.notes {
        page += &format!("{note}\n");
    }
    for rule in Rule::ALL {
        page += &line(rule, summary.rule(rule));
    }
    for (count, what) in others(summary) {
        if count > 0 {
            page += &format!("{}: {what}\n", plural(count, "packet"));
        }
    }
    for (count, what) in [
        (
            summary.evicted_flows,
            "flows evicted for lack of memory: rules across packets may have been missed",
        ),
        (summary.evicted_fragments, "incomplete sets of fragments evicted for lack of memory"),
    ] {
        if count > 0 {
            page += &format!("{count} {what}\n");
        }
    }
    page
}

/// One rule in the summary; nothing if it was never met.
fn line(rule: Rule, counts: &RuleCounts) -> String {
    let RuleCounts { checked, violations, notes, cut, left, undecided, first } = *counts;
    if *counts == RuleCounts::default() {
        return String::new();
    }
    let mut parts = vec![format!("{checked} checked")];
    let mut add = |count, text: &str| {
        if count > 0 {
            parts.push(format!("{count} {text}"));
        }
    };
    add(violations, if violations == 1 { "violation" } else { "violations" });
    add(notes, if notes == 1 { "note" } else { "notes" });
    add(cut, "not checked: cut by the snap length");
    add(left, "not checked: left to the hardware");
    add(undecided, "not checked: the capture lacks the information");
    if let Some(first) = first {
        parts.push(format!("first: packet {first}"));
    }
    format!("  {:18} {}\n", rule.name(), parts.join(", "))
}

/// Packets that were not checked in whole, and why.
fn others(summary: &Summary) -> [(u64, &'static str); 7] {
    [
        (summary.cut, "cut by the snap length"),
        (summary.unknown_link, "not checked: unknown link type"),
        (summary.not_ip, "not checked: not IP"),
        (summary.encrypted, "not checked: encrypted"),
        (summary.other_protocol, "checked up to IP only: neither TCP, UDP nor a known tunnel"),
        (summary.too_deep, "checked in part: too many nested tunnels"),
        (summary.trailers, "followed by more than Ethernet padding"),
    ]
}

fn name(path: &Path) -> String {
    output::name_of(path, "standard input")
}

fn print(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    file: String,
    packets: u64,
    violations: u64,
    notes: u64,
    /// Checks that could not be made because the capture lacks bytes.
    not_checked: u64,
    findings: Vec<FindingEntry<'a>>,
    findings_omitted: u64,
    rules: Vec<RuleRow>,
    cut: u64,
    unknown_link: u64,
    not_ip: u64,
    encrypted: u64,
    other_protocol: u64,
    too_deep: u64,
    trailers: u64,
    evicted_flows: u64,
    evicted_fragments: u64,
    /// Timestamps of the file that cannot be represented, in words.
    times: Vec<String>,
    /// The damage to the file, in words; `null` if there is none.
    damage: Option<String>,
}

#[derive(Serialize)]
struct FindingEntry<'a> {
    packet: u64,
    other: Option<u64>,
    rule: &'static str,
    kind: &'static str,
    place: &'a str,
    expected: &'a str,
    found: &'a str,
    reference: &'static str,
}

#[derive(Serialize)]
struct RuleRow {
    rule: &'static str,
    reference: &'static str,
    says: &'static str,
    #[serde(flatten)]
    counts: RuleCounts,
}

impl<'a> Document<'a> {
    fn new(args: &VerifyArgs, audit: &'a Audit) -> Self {
        let summary = audit.auditor.summary();
        let found = |finding: &'a Finding| FindingEntry {
            packet: finding.packet,
            other: finding.other,
            rule: finding.rule.name(),
            kind: match finding.severity {
                Severity::Violation => "violation",
                Severity::Note => "note",
            },
            place: &finding.place,
            expected: &finding.expected,
            found: &finding.found,
            reference: finding.rule.reference(),
        };
        let row = |rule: Rule| RuleRow {
            rule: rule.name(),
            reference: rule.reference(),
            says: rule.says(),
            counts: *summary.rule(rule),
        };
        Self {
            schema: "wirelane.verify/1",
            version: env!("CARGO_PKG_VERSION"),
            file: name(&args.file),
            packets: summary.packets,
            violations: summary.violations(),
            notes: summary.notes(),
            not_checked: summary.not_checked(),
            findings: audit.findings.iter().map(found).collect(),
            findings_omitted: audit.omitted,
            rules: Rule::ALL.map(row).into(),
            cut: summary.cut,
            unknown_link: summary.unknown_link,
            not_ip: summary.not_ip,
            encrypted: summary.encrypted,
            other_protocol: summary.other_protocol,
            too_deep: summary.too_deep,
            trailers: summary.trailers,
            evicted_flows: summary.evicted_flows,
            evicted_fragments: summary.evicted_fragments,
            times: audit.notes.clone(),
            damage: audit.damage.as_ref().map(ToString::to_string),
        }
    }
}
